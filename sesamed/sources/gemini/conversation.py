"""The records of a session: the union, by the agent's ids, of all that its file says.

A file that grows says most things more than once: an answer again when its calls have ended, everything again when the session is
resumed, with new times and without the calls' results, and less of it after a compression. Its own loader takes the last of it. Here
the first time and the richest version count, and nothing that was said is lost. Records stand in the order in which they first came
up, so a file that grows adds its records at the end.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sesamed.keys import record_key
from sesamed.model import Message, Operation, Role, ToolCall, Undone, Unknown
from sesamed.sources.gemini.lines import Call, Content, Entry, FunctionCall, Line, Part, parts_of
from sesamed.sources.gemini.text import (
    ACKNOWLEDGED,
    SNAPSHOT,
    command_of,
    display_of,
    is_failed_command,
    is_failure,
    output_of,
    prompt_of,
    text_of,
    unwrap,
)
from sesamed.sources.own_tools import TOOLS
from sesamed.sources.records import Place, millis

SHELL_TOOL: Final = "run_shell_command"
ASIDE: Final = frozenset({"info", "error", "warning"})  # what the program tells the person
FAILED: Final = frozenset({"error", "cancelled"})
# Other ids are counted, or derived from others; a session's context has the same one in every session.
UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

Record = Message | ToolCall


class Conversation:
    """What a file's lines said so far. Lives for one reading of the file."""

    def __init__(self, session: str, cwd: str | None) -> None:
        self._session = session
        self._cwd = cwd
        self._records: dict[int, Record] = {}
        self._order: list[int | Operation] = []  # records by their keys
        self._calls: dict[str, int] = {}  # the last record with this id of a call
        self._times: dict[str, int] = {}
        self._shown: dict[str, None] = {}  # the messages that the model is shown, in order

    def take(self, line: Line) -> None:
        """Add what a line says. (The order of these questions is the agent's.)"""
        if line.rewind_to is not None:
            self._rewind(line.rewind_to)
        elif line.id is not None:
            self._read_entry(line)
        elif line.patch is not None:
            if line.patch.messages is not None:
                self._shown.clear()
                self._read_entries(line.patch.messages)
        elif line.session_id is not None:
            self._read_entries(line.messages or ())
        else:
            self.note(Unknown(type="line"))

    def note(self, operation: Operation) -> None:
        """Something besides records, at this place."""
        self._order.append(operation)

    def operations(self) -> list[Operation]:
        """All of it."""
        return [self._records[item] if isinstance(item, int) else item for item in self._order]

    def prompts(self) -> list[str]:
        """What the person said, in order."""
        said = [self._records[item] for item in self._order if isinstance(item, int)]
        return [record.text for record in said if isinstance(record, Message) and record.role == "user"]

    def _read_entries(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            if entry.id is not None:
                self._read_entry(entry)

    def _read_entry(self, entry: Entry) -> None:
        place = self._locate(entry)
        self._shown[entry.id or ""] = None
        parts = parts_of(entry.content)
        if entry.type == "user":
            self._read_results(place, parts)
            self._read_user(place, parts, entry.display_content)
        elif entry.type == "gemini":
            self._read_answer(place, parts, entry.tool_calls or [])
        elif entry.type not in ASIDE:
            self.note(Unknown(type=f"message/{entry.type}"))

    def _locate(self, entry: Entry) -> Place:
        name = entry.id or ""
        time_ms = millis(entry.timestamp)
        if time_ms is not None:
            self._times[name] = min(time_ms, self._times.get(name, time_ms))
        stamp = name.lower() if UUID.fullmatch(name) else f"{self._session}\0{name}"
        return Place(entry=name, stamp=f"gemini\0{stamp}", time_ms=self._times.get(name), cwd=self._cwd)

    # -- the person

    def _read_user(self, place: Place, parts: Sequence[Part], display: Content) -> None:
        """A prompt, a command, a summary; or what the program says in the person's place."""
        command = command_of(text_of(parts))
        if command is not None:
            self._read_command(place, *command)
        elif text := prompt_of(parts):
            role: Role = "summary" if text.startswith(SNAPSHOT) else "user"
            self._add_message(place, role, prompt_of(parts_of(display)) or text)
        elif any(bytes(part.inline_data) or bytes(part.file_data) for part in parts) and not text_of(parts):
            self._add_message(place, "user", "")  # a picture

    def _read_command(self, place: Place, command: str, output: str) -> None:
        arguments, failed = msgspec.json.encode({"command": command}), is_failed_command(output)
        self._add(place.command(record_key(place.stamp, "said"), SHELL_TOOL, arguments, output=output, is_error=failed))

    def _read_results(self, place: Place, parts: Sequence[Part]) -> None:
        """The results of calls, which their calls have as well, if the session was not resumed since."""
        for part in parts:
            answer = part.function_response
            result = None if answer is None else output_of([part])
            if answer is None or result is None:
                continue
            key = self._calls.get(answer.id or "")
            known = None if key is None else self._records[key]
            if isinstance(known, ToolCall):
                self._records[known.key] = _merge(known, self._finish(known, *result))
            else:
                self._add_call(place, FunctionCall(id=answer.id, name=answer.name), result)

    # -- the model

    def _read_answer(self, place: Place, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        text = text_of(parts)
        if text.strip() and text.strip() != ACKNOWLEDGED:
            self._add_message(place, "assistant", text)
        for call in calls:
            self._add_call(place, call, _result_of(call))
        listed = {call.id for call in calls}
        for part in parts:
            if part.function_call is not None and part.function_call.id not in listed:
                self._add_call(place, part.function_call, None)

    def _add_call(self, place: Place, call: Call | FunctionCall, result: tuple[str, bool] | None) -> None:
        name = call.name or ""
        key = record_key(f"{place.stamp}\0call", call.id or name)
        record = place.call(key, name, bytes(call.args), tool=_bare(name))
        self._add(record if result is None else self._finish(record, *result))
        if call.id:
            self._calls[call.id] = record.key

    def _finish(self, call: ToolCall, text: str, failed: bool) -> ToolCall:
        output = unwrap(text)
        is_error = failed or (call.name == SHELL_TOOL and is_failure(output))
        return msgspec.structs.replace(call, output=output, is_error=is_error)

    # -- all

    def _add_message(self, place: Place, role: Role, text: str) -> None:
        self._add(place.message(record_key(place.stamp, "said"), role, text, prompt=role == "user"))

    def _add(self, record: Record) -> None:
        known = self._records.get(record.key)
        if known is None:
            self._order.append(record.key)
        self._records[record.key] = record if known is None else _merge(known, record)

    def _rewind(self, message: str) -> None:
        """The person went back to before this message; to before all of them, if there is none with this id."""
        shown = list(self._shown)
        kept = shown.index(message) if message in self._shown else 0
        taken = set(shown[kept:])
        self._shown = dict.fromkeys(shown[:kept])
        keys = (item for item in self._order if isinstance(item, int))
        first = next((key for key in keys if self._records[key].entry in taken), None)
        if first is not None:
            self.note(Undone(key=first))


def _result_of(call: Call) -> tuple[str, bool] | None:
    failed = call.status in FAILED
    result = output_of(parts_of(call.result))
    if result is None:
        shown = display_of(call.result_display)
        return (shown, failed) if failed or (shown and call.status == "success") else None
    return result[0], result[1] or failed


def _merge(one: Record, other: Record) -> Record:
    """Two versions of a record as one: the first time, the longer texts. Which one came first makes no difference."""
    if isinstance(one, ToolCall) and isinstance(other, ToolCall):
        return msgspec.structs.replace(
            one,
            arguments=max(one.arguments, other.arguments, key=_richness),
            time_ms=_earlier(one.time_ms, other.time_ms),
            output=max(
                (output for output in (one.output, other.output) if output is not None), key=_richness, default=None
            ),
            is_error=max((flag for flag in (one.is_error, other.is_error) if flag is not None), default=None),
            hidden=one.hidden or other.hidden,
        )
    if isinstance(one, Message) and isinstance(other, Message):
        text = max(one.text, other.text, key=_richness)
        return msgspec.structs.replace(one, text=text, time_ms=_earlier(one.time_ms, other.time_ms))
    return one


def _richness(value: str | bytes) -> tuple[int, str | bytes]:
    return len(value), value


def _earlier(one: int | None, other: int | None) -> int | None:
    return min((time_ms for time_ms in (one, other) if time_ms is not None), default=None)


def _bare(tool: str) -> str:
    """A tool's name without its server's: `mcp_sesame_search_sessions`."""
    return next((name for name in TOOLS if tool.endswith(f"_{name}")), tool)

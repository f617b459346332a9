"""The records of a session: the union, by the agent's ids, of every version of every message in its file.

A growing file repeats itself: an answer is written again when its calls have ended, and everything is written again when the session is
resumed, with new times and without the results of calls; after a compression only part of it is. Gemini CLI's own loader keeps the last
version. Here the earliest time and the richest version count, so nothing that was said is lost. Records are in the order in which they
first appeared, so a growing file adds its records at the end.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sesamed.calls import strip_server
from sesamed.model import Message, Operation, Role, ToolCall, Undone, Unknown, record_key
from sesamed.sources.gemini.lines import (
    ACKNOWLEDGED,
    SNAPSHOT,
    Call,
    Content,
    Entry,
    FunctionCall,
    Line,
    Part,
    command_of,
    display_of,
    is_failed_command,
    is_failure,
    output_of,
    parts_of,
    prompt_of,
    text_of,
    unwrap,
)
from sesamed.sources.records import UUID, Place, millis

SHELL_TOOL: Final = "run_shell_command"
ASIDE: Final = frozenset({"info", "error", "warning"})  # messages of the program to the user
FAILED: Final = frozenset({"error", "cancelled"})

Record = Message | ToolCall


class Conversation:
    """What has been read of a file so far; made anew each time the file is read."""

    def __init__(self, session: str, cwd: str | None) -> None:
        self._session = session
        self._cwd = cwd
        self._records: dict[int, Record] = {}
        self._order: list[int | Operation] = []  # records, by their keys, and other operations
        self._calls: dict[str, int] = {}  # by the id of the call: the last record with that id
        self._times: dict[str, int] = {}
        self._nameless = 0  # lines without an id so far
        self._shown: dict[str, None] = {}  # ids of the messages that the model is shown

    def take(self, line: Line) -> None:
        """Add a line. The cases are in the order in which Gemini CLI checks them."""
        if line.rewind_to is not None:
            self._rewind(line.rewind_to)
        elif line.id is not None:
            self._read_entry(line, line.id)
        elif line.patch is not None:
            if line.patch.messages is not None:
                self._shown.clear()
                self._read_entries(line.patch.messages)
        elif line.session_id is not None:
            self._read_entries(line.messages or ())
        elif _is_nameless(line):
            self._nameless = self._read_entries([line], self._nameless)
        else:
            self.note(Unknown(type="line"))

    def note(self, operation: Operation) -> None:
        """Add an operation that is not about a record, at this point."""
        self._order.append(operation)

    def operations(self) -> list[Operation]:
        """All operations, in order."""
        return [self._records[item] if isinstance(item, int) else item for item in self._order]

    def prompts(self) -> list[str]:
        """The user's prompts, in order."""
        said = [self._records[item] for item in self._order if isinstance(item, int)]
        return [record.text for record in said if isinstance(record, Message) and record.role == "user"]

    def _read_entries(self, entries: Iterable[Entry], nameless: int = 0) -> int:
        """Read messages. Converters write some without ids: they are known by text and number; gives how many there were."""
        for entry in entries:
            if entry.id is not None:
                self._read_entry(entry, entry.id)
            elif _is_nameless(entry):
                self._read_entry(entry, f"{nameless}\0{text_of(parts_of(entry.content))}")
                nameless += 1
        return nameless

    def _read_entry(self, entry: Entry, name: str) -> None:
        place = self._locate(entry, name)
        if entry.id is not None:
            self._shown[name] = None
        parts = parts_of(entry.content)
        if entry.type == "user":
            self._read_results(place, parts)
            self._read_user(place, parts, entry.display_content)
        elif entry.type == "gemini":
            self._read_answer(place, parts, entry.tool_calls or [])
        elif entry.type not in ASIDE:
            self.note(Unknown(type=f"message/{entry.type}"))

    def _locate(self, entry: Entry, name: str) -> Place:
        time_ms = millis(entry.timestamp)
        if time_ms is not None:
            self._times[name] = min(time_ms, self._times.get(name, time_ms))
        # Other ids are numbers, or hashes of other ids; the context message has the same id in every session.
        stamp = name.lower() if UUID.fullmatch(name) else f"{self._session}\0{name}"
        return Place(entry=entry.id, stamp=f"gemini\0{stamp}", time_ms=self._times.get(name), cwd=self._cwd)

    # -- the user

    def _read_user(self, place: Place, parts: Sequence[Part], display: Content) -> None:
        """A prompt, a shell command or a summary; text that the program wrote in the user's name adds nothing."""
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
        """Results of calls. The call has its result too, unless the session was resumed since."""
        for part in parts:
            answer = part.function_response
            result = None if answer is None else output_of([part])
            if answer is None or result is None:
                continue
            key = self._calls.get(answer.id or "")
            known = None if key is None else self._records[key]
            if isinstance(known, ToolCall):
                ended = msgspec.structs.replace(self._finish(known, *result), ended_ms=place.time_ms)
                self._records[known.key] = _merge(known, ended)
            else:
                self._add_call(place, FunctionCall(id=answer.id, name=answer.name), result)

    # -- the model

    def _read_answer(self, place: Place, parts: Sequence[Part], calls: Sequence[Call]) -> None:
        text = text_of(parts)
        if text.strip() and text.strip() != ACKNOWLEDGED:
            self._add_message(place, "assistant", text)
        for number, call in enumerate(calls):
            self._add_call(place, call, _result_of(call), number)
        listed = {call.id for call in calls}
        for part in parts:
            if part.function_call is not None and part.function_call.id not in listed:
                self._add_call(place, part.function_call, None)

    def _add_call(
        self, place: Place, call: Call | FunctionCall, result: tuple[str, bool] | None, number: int = 0
    ) -> None:
        name = call.name or ""
        key = record_key(f"{place.stamp}\0call", call.id or (f"{name}\0{number}" if number else name))
        ended_ms = millis(call.timestamp) if isinstance(call, Call) else None
        place = msgspec.structs.replace(place, ended_ms=ended_ms)
        record = place.call(key, name, bytes(call.args), tool=strip_server(name))
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
        """The user went back to before this message; to the beginning, if no message has this id."""
        shown = list(self._shown)
        kept = shown.index(message) if message in self._shown else 0
        taken = set(shown[kept:])
        if not taken:
            return
        self._shown = dict.fromkeys(shown[:kept])
        keys = (item for item in self._order if isinstance(item, int))
        first = next((key for key in keys if self._records[key].entry in taken), None)
        if first is not None:
            self.note(Undone(key=first))


def _is_nameless(entry: Entry) -> bool:
    """Whether this is a message, though it has no id."""
    return entry.id is None and bool(text_of(parts_of(entry.content)) or entry.tool_calls)


def _result_of(call: Call) -> tuple[str, bool] | None:
    failed = call.status in FAILED
    result = output_of(parts_of(call.result))
    if result is None:
        shown = display_of(call.result_display)
        return (shown, failed) if failed or (shown and call.status == "success") else None
    return result[0], result[1] or failed


def _merge(one: Record, other: Record) -> Record:
    """Two versions of a record as one: the earlier time and the longer texts, whichever of them came first."""
    if isinstance(one, ToolCall) and isinstance(other, ToolCall):
        return msgspec.structs.replace(
            one,
            arguments=max(one.arguments, other.arguments, key=_richness),
            time_ms=_earlier(one.time_ms, other.time_ms),
            ended_ms=_earlier(one.ended_ms, other.ended_ms),
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

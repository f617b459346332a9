"""What each message of a history becomes.

Keys are made from ids alone: a message that grows is the same record. The session's is one of them, for older versions number messages.
"""

from typing import Final

import msgspec

from sesamed.model import Fact, NameRank, Operation, Undone, Unknown
from sesamed.sources.gemini.history import History, Rewind
from sesamed.sources.gemini.lines import NULL, FunctionCall, FunctionResponse, Message, ToolUse
from sesamed.sources.gemini.text import ACKNOWLEDGED, SHELL, SUMMARY, UUID, is_injected, output_of, text_of
from sesamed.sources.keys import record_key
from sesamed.sources.lines import text_in
from sesamed.sources.names import session_name
from sesamed.sources.records import Place
from sesamed.sources.times import millis

SILENT: Final = frozenset({"info", "error", "warning"})


class _Records:
    """The operations so far, and what the next messages need of them."""

    def __init__(self, history: History) -> None:
        self.scope = f"gemini\0{history.session}\0{'' if UUID.fullmatch(history.session) else history.started}"
        self.operations: list[Operation] = []
        self.named = False
        self.first_keys: dict[str, int | None] = {}  # of the messages that were not taken back, in order
        self.results = _results(history)
        self.called: set[str] = set()

    def add_rewind(self, rewind: Rewind) -> None:
        """All from this message on was taken back; its first record may be that of a later message."""
        ids = list(self.first_keys)
        keys = [self.first_keys.pop(item) for item in ids[ids.index(rewind.message) if rewind.message in ids else 0 :]]
        if first := next((key for key in keys if key is not None), None):
            self.operations.append(Undone(key=first))

    def add_user(self, message: Message, place: Place) -> None:
        """A prompt, a command of the person's, a summary; or only what tools gave back."""
        content = message.content if isinstance(message.content, list) else []
        text = text_of(message.display_content) or text_of(message.content)
        for part in content:
            if part.function_response is not None:
                self._add_orphan(part.function_response, place)
        key = record_key(f"{self.scope}\0{message.id}", "user")
        if is_injected(text):
            return
        if text.lstrip().startswith(SUMMARY):
            self.operations.append(place.message(key, "summary", text))
        elif shell := SHELL.fullmatch(text):
            arguments = msgspec.json.encode({"command": shell[1]})
            self.operations.append(place.command(key, "run_shell_command", arguments, output=shell[2], is_error=None))
        elif text.strip() or any(part.inline_data != NULL or part.file_data != NULL for part in content):
            self.operations.append(place.message(key, "user", text, prompt=True))
            self._name(text)

    def add_model(self, message: Message, place: Place) -> None:
        """An answer, then its calls."""
        text = text_of(message.content)
        if text.strip() and text != ACKNOWLEDGED:
            key = record_key(f"{self.scope}\0{message.id}", "model")
            self.operations.append(place.message(key, "assistant", text))
        calls = message.tool_calls or [_as_use(call) for call in _calls(message)]
        for call in calls:
            self._add_call(message, call, place)

    def _add_call(self, message: Message, call: ToolUse, place: Place) -> None:
        given = next((part.function_response for part in call.result or () if part.function_response), None)
        response = given or self.results.get(call.id or "")
        output, is_error = (None, None) if response is None else output_of(response)
        if call.status in ("error", "cancelled"):
            output, is_error = output or _display(call), True
        key = record_key(f"{self.scope}\0{message.id}\0call", call.id or "")
        self.called.add(call.id or "")
        self.operations.append(place.call(key, call.name or "", bytes(call.args), output=output, is_error=is_error))

    def _add_orphan(self, response: FunctionResponse, place: Place) -> None:
        """A result whose call is not in the file is a call of its own."""
        if not response.id or response.id in self.called:
            return
        self.called.add(response.id)
        output, is_error = output_of(response)
        key = record_key(f"{self.scope}\0{response.id}", "result")
        self.operations.append(place.call(key, response.name or "", output=output, is_error=is_error))

    def _name(self, text: str) -> None:
        """The first prompt names the session; a command stands in until there is one."""
        name = "" if self.named else session_name(text)
        is_command = text.startswith(("/", "?"))
        if name:
            rank = NameRank.STAND_IN if is_command else NameRank.PROMPT
            self.operations.append(Fact(field="name", value=name, rank=rank))
            self.named = not is_command


def make_records(history: History, cwd: str) -> list[Operation]:
    """The operations of all messages, in their order."""
    records = _Records(history)
    for item in history.order:
        if isinstance(item, Rewind):
            records.add_rewind(item)
            continue
        message, before = history.messages[item], len(records.operations)
        place = Place(entry=item, time_ms=millis(message.timestamp), cwd=cwd or None)
        if message.type == "user":
            records.add_user(message, place)
        elif message.type == "gemini":
            records.add_model(message, place)
        elif message.type not in SILENT:
            records.operations.append(Unknown(type=f"message/{message.type}"))
        keys = (getattr(operation, "key", None) for operation in records.operations[before:])
        records.first_keys[item] = next(filter(None, keys), None)
    return records.operations


def _results(history: History) -> dict[str, FunctionResponse]:
    """What the model was given, by the calls' ids: in copies that is all there is of a call's end."""
    found: dict[str, FunctionResponse] = {}
    for message in history.messages.values():
        for part in message.content if isinstance(message.content, list) else ():
            if part.function_response is not None and part.function_response.id:
                found.setdefault(part.function_response.id, part.function_response)
    return found


def _calls(message: Message) -> list[FunctionCall]:
    content = message.content if isinstance(message.content, list) else []
    return [part.function_call for part in content if part.function_call is not None]


def _display(call: ToolUse) -> str:
    """What a person was shown of a call's end, where that is a text."""
    shown = bytes(call.result_display)
    return text_in(shown) if shown[:1] == b'"' else ""


def _as_use(call: FunctionCall) -> ToolUse:
    return ToolUse(id=call.id, name=call.name, args=call.args)

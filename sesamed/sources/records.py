"""Makes messages and calls: what is the same for all agents, their times, and the calls that have no result yet."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final, Protocol, TypeVar

import msgspec

from sesamed.calls import is_own_call
from sesamed.model import ACTIVE, Fact, Message, Operation, Passed, Role, ToolCall, ToolResult

OPEN_CALLS = 128
EXIT_CHARS = 200
ID_CHARS = 1024  # ids of OpenAI's calls have hundreds; a longer one is not kept
SHORT_CHARS = 4096  # no system has longer paths
EARLIEST_MS = 631_152_000_000  # 1990: earlier, and it is a count of seconds or a zero
LATEST_MS = 7_258_118_400_000  # 2200

UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

# A path, a branch, an id: what states keep. One that is longer is left out, as is any field that is odd.
Short = Annotated[str, msgspec.Meta(max_length=SHORT_CHARS)]
Time = Short | int | float | None  # ISO 8601, milliseconds, or nonsense


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that has no result yet, as the states of sources keep it."""

    key: int
    hidden: bool


C = TypeVar("C", bound=OpenCall)
T = TypeVar("T")


class Block(Protocol):
    """A part of a message's content."""

    type: str
    text: str | None


class Place(msgspec.Struct, frozen=True, gc=False):
    """What the records of one line have in common."""

    entry: str | None = None
    parent: str | None = None
    time_ms: int | None = None
    ended_ms: int | None = None
    cwd: str | None = None
    ordinal: int | None = None
    stamp: str = ""  # what their keys begin with, where that is not from the state
    side: bool = False  # a subagent's line within its parent's file

    def message(self, key: int, role: Role, text: str, *, prompt: bool = False, hidden: bool = False) -> Message:
        """A message."""
        return Message(
            key=key,
            role=role,
            text=text,
            entry=self.entry,
            parent=self.parent,
            time_ms=self.time_ms,
            ended_ms=self.ended_ms,
            prompt=prompt,
            hidden=hidden,
            cwd=self.cwd,
            ordinal=self.ordinal,
        )

    def call(
        self,
        key: int,
        name: str,
        arguments: bytes = b"{}",
        *,
        tool: str | None = None,  # the name without its server's
        output: str | None = None,
        is_error: bool | None = None,
    ) -> ToolCall:
        """A tool call by the model. With an output, no result follows. A result whose call is not known becomes a call like this, too."""
        return ToolCall(
            key=key,
            name=name,
            arguments=arguments,
            cwd=self.cwd,
            entry=self.entry,
            parent=self.parent,
            time_ms=self.time_ms,
            ended_ms=self.ended_ms,
            output=output,
            is_error=is_error,
            hidden=is_own_call(name if tool is None else tool, arguments),
            ordinal=self.ordinal,
        )

    def command(self, key: int, name: str, arguments: bytes, *, output: str | None, is_error: bool | None) -> ToolCall:
        """A command that the person ran."""
        call = self.call(key, name, arguments, output=output, is_error=is_error)
        return msgspec.structs.replace(call, role="user")

    def result(self, call: OpenCall, text: str, *, is_error: bool) -> ToolResult:
        """The result of an open call."""
        return ToolResult(
            key=call.key, text=text, is_error=is_error, time_ms=self.ended_ms or self.time_ms, hidden=call.hidden
        )


def stamp_of(session: str, entry: str | None, timestamp: Time, undated: int) -> str:
    """What the keys of an entry's records begin with: its id, if that is random and so the same in copies only; else its session, with the
    id and the time that there are, or its number among those that have no time.
    """
    if entry is not None and UUID.fullmatch(entry):
        return entry.lower()
    return "\0".join((session, entry or "", str(undated if timestamp is None else timestamp)))


def join_texts(content: str | Sequence[Block] | None) -> str:
    """The text of a message: its text blocks, one after the other."""
    if isinstance(content, str):
        return content
    return "\n".join([block.text for block in content or () if block.type == "text" and block.text])


def strip_exit(text: str, ended: re.Pattern[str]) -> tuple[str, bool]:
    """What a shell printed, without the end that says how it went (`ended` finds it, and its first group is the code), and whether it
    failed by that."""
    end = ended.search(text, max(0, len(text) - EXIT_CHARS))
    return (text, False) if end is None else (text[: end.start()], int(end[1]) != 0)


def note_activity(time: Time) -> list[Operation]:
    """Something was done of which nothing is kept: a thought, a turn that the person stopped."""
    time_ms = millis(time)
    return [] if time_ms is None else [Fact(field=ACTIVE, value=str(time_ms))]


def link_parent(parent: str | msgspec.UnsetType | None, last: str | None) -> str | None:
    """The parent to store: None if it is the line before, the empty string if the line begins another tree."""
    if parent is msgspec.UNSET or parent == last:
        return None
    return parent or ""


def note_passed(
    operations: list[Operation], entry: str | None, parent: str | msgspec.UnsetType | None, last: str | None
) -> list[Operation]:
    """What a line of a tree says; if that is no record, the line itself, too: others may follow it."""
    if not entry or any(isinstance(operation, Message | ToolCall) for operation in operations):
        return operations
    return [*operations, Passed(entry=entry, parent=link_parent(parent, last))]


# -- calls without a result yet: bounded in number, never changed in place


def add_open(calls: dict[str, C], new: dict[str, C]) -> dict[str, C]:
    """The open calls and these; the oldest are dropped, because calls of an aborted turn never get a result."""
    everything = {name: call for name, call in calls.items() if name not in new} | new
    for name in [name for name in new if len(name) > ID_CHARS]:
        del everything[name]
    for name in list(everything)[:-OPEN_CALLS]:
        del everything[name]
    return everything


def drop_open(calls: dict[str, T], name: str) -> dict[str, T]:
    """The open calls without this one."""
    return {other: call for other, call in calls.items() if other != name}


# -- times


def millis(value: Time) -> int | None:
    """Milliseconds since 1970 in UTC, or None if it cannot be the time of a session. Never raises."""
    if isinstance(value, str):
        value = _parse(value)
    if value is None or not EARLIEST_MS <= value <= LATEST_MS:  # False for NaN, too
        return None
    return int(value)


def local_millis(text: str) -> int | None:
    """The same of a time without a zone, as a program writes it that tells the person: it was this machine's."""
    try:
        return millis(round(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        return None


def _parse(text: str) -> float | None:
    try:
        if text.isascii() and text.isdigit():
            return int(text[:20])
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None

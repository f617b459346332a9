"""What we read of OpenCode's rows and files: flat views with the few fields that we need. Diffs, tokens and snapshots are skipped."""

import re
from typing import Final

import msgspec

from sesamed.sources.times import Time

NULL: Final = msgspec.Raw(b"null")
NO_START: Final = re.compile(r"(?!)")  # these are whole files and values: nothing is glued to them


class Span(msgspec.Struct, gc=False):
    """When something was."""

    created: Time = None
    start: Time = None


class Revert(msgspec.Struct, gc=False, rename={"message": "messageID"}):
    """The person went back to before this message; it stays until the next prompt."""

    message: str | None = None


class SessionInfo(msgspec.Struct, gc=False, rename={"parent": "parentID"}):
    """A session."""

    id: str | None = None
    parent: str | None = None
    directory: str | None = None
    title: str | None = None
    time: Span | None = None
    revert: Revert | None = None


class Path(msgspec.Struct, gc=False):
    """Where an answer was made."""

    cwd: str | None = None


class MessageInfo(msgspec.Struct, gc=False):
    """A message; what it says is in its parts. `summary` is true of the summary of a compaction, and an object of others."""

    id: str | None = None
    role: str = ""
    time: Span | None = None
    path: Path | None = None
    summary: msgspec.Raw = NULL


class Metadata(msgspec.Struct, gc=False):
    """Of a shell's call, how it ended; the status says that it ended."""

    exit: int | float | None = None


class ToolState(msgspec.Struct, gc=False):
    """A call: pending, running, completed, error."""

    status: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | None = None
    error: str | None = None
    metadata: Metadata | None = None
    time: Span | None = None


class Part(msgspec.Struct, gc=False, rename={"call": "callID"}):
    """A part of a message: text, tool, and many that say nothing."""

    id: str | None = None
    type: str = ""
    text: str | None = None
    synthetic: bool | None = None
    ignored: bool | None = None
    time: Span | None = None
    tool: str | None = None
    call: str | None = None
    state: ToolState | None = None

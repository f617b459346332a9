"""The parts of OpenCode's sessions, messages and parts that are read: flat views with the few fields that are needed.

Files and rows hold the same JSON, except that a row has the ids in columns. Fields that are not listed here (reasoning, tokens, diffs,
snapshots, attached files) are skipped by the decoder.
"""

import msgspec

from sesamed.sources.records import Time


class Times(msgspec.Struct, gc=False):
    """When something was made, began, or ended."""

    created: Time = None
    start: Time = None
    end: Time = None


class Revert(msgspec.Struct, gc=False, rename={"message_id": "messageID", "part_id": "partID"}):
    """Where the user went back to. What follows is deleted with the next prompt."""

    message_id: str | None = None
    part_id: str | None = None


class Session(msgspec.Struct, gc=False, rename={"parent_id": "parentID"}):
    """A session. The oldest ones have no directory."""

    id: str | None = None
    parent_id: str | None = None
    directory: str | None = None
    title: str | None = None
    time: Times | None = None
    revert: Revert | None = None


class Path(msgspec.Struct, gc=False):
    """Where an answer was given."""

    cwd: str | None = None


class Message(msgspec.Struct, gc=False, rename={"parent_id": "parentID"}):
    """A message without its text, which is in its parts."""

    id: str | None = None
    role: str = ""
    parent_id: str | None = None
    time: Times | None = None
    path: Path | None = None
    summary: msgspec.Raw = msgspec.Raw(b"false")  # of an answer: whether it sums up; of a prompt: an object


class Outcome(msgspec.Struct, gc=False):
    """What a tool reports besides its output."""

    exit: int | float | None = None
    output: str | None = None


class CallState(msgspec.Struct, gc=False):
    """The state of a call: pending, running, completed, error. The order of the fields changes with each update."""

    status: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    output: str | None = None
    error: str | None = None
    metadata: Outcome | None = None
    time: Times | None = None


class Part(msgspec.Struct, gc=False, rename={"call_id": "callID"}):
    """A piece of a message."""

    id: str | None = None
    type: str = ""
    text: str | None = None  # text
    synthetic: bool | None = None
    ignored: bool | None = None
    time: Times | None = None
    tool: str | None = None  # tool, and so are the next two
    call_id: str | None = None
    state: CallState | None = None
    prompt: str | None = None  # subtask

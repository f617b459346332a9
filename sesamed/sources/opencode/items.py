"""What we read of OpenCode's sessions, messages and parts: flat views with the few fields that we need.

They are the same in files and in rows, but that a row has the ids in columns. What is not named here (reasoning, tokens, diffs,
snapshots, attached files) never becomes an object.
"""

import msgspec

from sesamed.sources.records import Time


class Times(msgspec.Struct, gc=False):
    """When something was made, or began."""

    created: Time = None
    start: Time = None


class Revert(msgspec.Struct, gc=False, rename={"message_id": "messageID", "part_id": "partID"}):
    """From where on a session is taken back, until the next prompt: then that is deleted."""

    message_id: str | None = None
    part_id: str | None = None


class Session(msgspec.Struct, gc=False, rename={"parent_id": "parentID"}):
    """A session. The oldest ones know no directory."""

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
    """Who speaks, and when. What is said is in its parts."""

    id: str | None = None
    role: str = ""
    parent_id: str | None = None
    time: Times | None = None
    path: Path | None = None
    summary: msgspec.Raw = msgspec.Raw(b"false")  # of an answer: that it is one; of a prompt: what changed since


class Outcome(msgspec.Struct, gc=False):
    """What a tool tells besides its output."""

    exit: int | float | None = None
    output: str | None = None


class CallState(msgspec.Struct, gc=False):
    """How far a call is. The order of the fields changes with each update."""

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

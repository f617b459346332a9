"""The parts of pi's lines that are read: flat views with the few fields that are needed, and the names of its files.

What is not named here (thinking, images' base64, usage, tool schemas) is skipped by the decoder and never becomes an
object. Every field has a default, and a `type` is a string: new ones appear monthly, and a tagged union would refuse
the whole line.
"""

import re

import msgspec

from sesamed.sources.names import stem_of
from sesamed.sources.records import Short, Time

Parent = str | None | msgspec.UnsetType


class Block(msgspec.Struct, gc=False):
    """A block of a message's content: text, thinking, image or toolCall."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


Content = str | list[Block] | None


class Details(msgspec.Struct, gc=False, rename="camel"):
    """More about a tool's result. MCP adapters put a failure here, with `isError: false`; OpenClaw also puts it into the other two."""

    error: msgspec.Raw = msgspec.Raw(b"null")
    status: str | int | float | None = None
    exit_code: int | float | None = None


class Spoken(msgspec.Struct, gc=False, rename="camel"):
    """The `message` of a line of type `message`, of any role."""

    role: str = ""
    content: Content = None
    timestamp: Time = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    is_error: bool | None = None
    details: Details | None = None
    command: str | None = None
    output: str | None = None
    exit_code: int | float | None = None
    cancelled: bool | None = None
    summary: str | None = None
    custom_type: str | None = None  # of the role `custom`
    stop_reason: str | None = None  # of an answer, and so is the next one
    error_message: str | None = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any line."""

    type: str = ""
    id: Short | None = None
    parent_id: Parent = msgspec.UNSET
    timestamp: Time = None
    message: Spoken | None = None
    content: Content = None  # custom_message, and so is the next one
    custom_type: str | None = None
    summary: str | None = None  # compaction, branch_summary
    name: str | None = None  # session_info
    cwd: Short | None = None  # session, and so are the next two
    parent_session: str | None = None
    branched_from: str | None = None


STARTS = re.compile(r'\{"type": ?"(?:session|session_info|message|custom_message|compaction|branch_summary)"')
TIMED_NAME = re.compile(r"\d{4}-\d\d-\d\dT[\d.:-]*Z?_(.+)", re.DOTALL)


def native_id(file_name: str) -> str:
    """The session's id from the name of its file or of its directory: `<time>_<id>`, or all of it."""
    stem = stem_of(file_name)
    match = TIMED_NAME.fullmatch(stem)
    return match[1] if match else stem


def is_timed(file_name: str) -> bool:
    """Whether this is the name of a session of pi."""
    return TIMED_NAME.fullmatch(file_name) is not None


def base_name(path: str) -> str:
    """The last part of a path of any operating system."""
    return re.split(r"[\\/]", path)[-1]

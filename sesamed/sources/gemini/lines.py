"""What we read of Gemini CLI's files: flat views with the few fields that we need. Thoughts, tokens and schemas are skipped."""

import re

import msgspec

from sesamed.sources.times import Time

NULL = msgspec.Raw(b"null")


class FunctionResponse(msgspec.Struct, gc=False):
    """A result, as the model was given it."""

    id: str | None = None
    name: str | None = None
    response: msgspec.Raw = NULL  # {output} or {error}; of other tools, anything


class FunctionCall(msgspec.Struct, gc=False):
    """A call, as the model made it."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Part(msgspec.Struct, gc=False, rename="camel"):
    """A part of a message's content; `thought` marks one that was not said."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: msgspec.Raw = NULL
    file_data: msgspec.Raw = NULL


Content = str | list[Part] | None


class ToolUse(msgspec.Struct, gc=False, rename="camel"):
    """A call and what came of it. Its `description` may be the whole documentation of the tool."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    result: list[Part] | None = None
    status: str | None = None
    result_display: msgspec.Raw = NULL
    timestamp: Time = None


class Message(msgspec.Struct, gc=False, rename="camel"):
    """A message, or a version of it."""

    id: str | None = None
    timestamp: Time = None
    type: str = ""
    content: Content = None
    display_content: Content = None
    tool_calls: list[ToolUse] | None = None


class Patch(msgspec.Struct, gc=False, rename="camel"):
    """What a `$set` changes."""

    session_id: str | None = None
    messages: list[Message] | None = None
    summary: str | None = None


class Line(Message, gc=False, rename="camel"):
    """A line of a log, of any kind: the session, a message, a change. And an older file, which is one of these with its messages."""

    session_id: str | None = None
    project_hash: str | None = None
    start_time: Time = None
    kind: str | None = None
    directories: list[str] | None = None
    messages: list[Message] | None = None
    summary: str | None = None
    set: Patch | None = msgspec.field(default=None, name="$set")
    rewind_to: str | None = msgspec.field(default=None, name="$rewindTo")


STARTS = re.compile(r'\{"(?:sessionId|id|\$set|\$rewindTo)":')

"""The parts of Gemini CLI's files that are read: flat views with the few fields that are needed.

A line is a header, a message, a patch (`$set`) or a rewind; a file of the older kind is a header with all messages in it. Fields that are
not listed here (thoughts, tokens, schemas) are skipped by the decoder.
"""

import re

import msgspec

from sesamed.sources.records import Time


class FunctionCall(msgspec.Struct, gc=False):
    """A call as the API has it; after a resume that is all that is left of it."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class FunctionResponse(msgspec.Struct, gc=False):
    """What a call returned."""

    id: str | None = None
    name: str | None = None
    response: msgspec.Raw = msgspec.Raw(b"null")


class Part(msgspec.Struct, gc=False, rename="camel"):
    """A part of a message's content."""

    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    inline_data: msgspec.Raw = msgspec.Raw()
    file_data: msgspec.Raw = msgspec.Raw()


Content = str | Part | list[Part | str] | None


class Call(msgspec.Struct, gc=False, rename="camel"):
    """A call, with its result when it has ended. `description` may be the tool's whole documentation, so it is not read."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")
    result: Content = None
    result_display: msgspec.Raw = msgspec.Raw(b"null")
    status: str | None = None
    timestamp: Time = None  # when it ended


class Entry(msgspec.Struct, gc=False, rename="camel"):
    """A message. It is written again, with the same id, when part of it changes."""

    id: str | None = None
    type: str = ""
    timestamp: Time = None
    content: Content = None
    display_content: Content = None
    tool_calls: list[Call] | None = None


class Patch(msgspec.Struct, gc=False):
    """Changed fields of the header; `messages` is everything that the model is shown from then on."""

    summary: str | None = None
    directories: list[str] | None = None
    messages: list[Entry] | None = None


class Line(Entry, gc=False, rename="camel"):
    """Any line, and a whole file of the older kind."""

    session_id: str | None = None
    project_hash: str | None = None
    start_time: Time = None
    kind: str | None = None
    directories: list[str] | None = None
    summary: str | None = None
    messages: list[Entry] | None = None
    patch: Patch | None = msgspec.field(default=None, name="$set")
    rewind_to: str | None = msgspec.field(default=None, name="$rewindTo")


class Projects(msgspec.Struct, gc=False):
    """`projects.json`: the directories that Gemini CLI was used in."""

    projects: dict[str, msgspec.Raw] = {}


STARTS = re.compile(r'\{"(?:id|sessionId|\$set|\$rewindTo)": ?["{]')


def parts_of(content: Content) -> list[Part]:
    """The parts of a content, in any of the forms that it has."""
    items = content if isinstance(content, list) else [] if content is None else [content]
    return [Part(text=item) if isinstance(item, str) else item for item in items]

"""The parts of Claude Code's lines that are read: flat views with the few fields that are needed.

What is not named here (thinking, images' base64, usage, `toolUseResult` with whole files, hooks' data) is skipped by the
decoder and never becomes an object. Every field has a default, and a `type` is a string: new ones appear monthly.
"""

import re

import msgspec

from sesamed.sources.records import Time

Parent = str | None | msgspec.UnsetType


class Part(msgspec.Struct, gc=False):
    """A block within a tool's result."""

    type: str = ""
    text: str | None = None
    title: str | None = None  # of a page that the server's search found, and so is the next one
    url: str | None = None


class Block(msgspec.Struct, gc=False):
    """A block of a message's content."""

    type: str = ""
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw(b"{}")
    tool_use_id: str | None = None
    content: str | list[Part] | None = None
    is_error: bool | None = None


Content = str | list[Block] | None


class Spoken(msgspec.Struct, gc=False):
    """The `message` of a line: a request to the API, or its response."""

    id: str | None = None
    model: str | None = None
    content: Content = None


class Origin(msgspec.Struct, gc=False):
    """Whose words a user's message has."""

    kind: str | None = None


class Attachment(msgspec.Struct, gc=False, rename="camel"):
    """Something attached to a prompt; of all kinds only queued prompts are indexed."""

    type: str = ""
    prompt: Content = None
    origin: Origin | None = None
    command_mode: str | None = None
    is_meta: bool | None = None


class ForkedFrom(msgspec.Struct, gc=False, rename="camel"):
    """Of a line that was copied from another session: which."""

    session_id: str | None = None


class ToolUseResult(msgspec.Struct, gc=False, rename="camel"):
    """What the program knows of a result: here only whether the tool goes on in the background."""

    is_async: bool | None = None


class Snapshot(msgspec.Struct, gc=False):
    """Of a `file-history-snapshot`; in a session where nothing was said, the only time there is."""

    timestamp: Time = None


class Line(msgspec.Struct, gc=False, rename="camel"):
    """Any line."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: Parent = msgspec.UNSET
    session_id: str | None = None
    timestamp: Time = None
    cwd: str | None = None
    git_branch: str | None = None
    version: str | None = None
    agent_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    supersedes_uuids: list[str] | None = None
    prompt_source: str | None = None
    origin: Origin | None = None
    forked_from: ForkedFrom | None = None
    request_session_id: str | None = None  # of an answer: the session in which the model was asked
    tool_use_result: ToolUseResult | str | list[msgspec.Raw] | None = None
    message: Spoken | None = None
    attachment: Attachment | None = None
    subtype: str | None = None  # system, and so is the next one
    content: Content = None
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None  # summary, and so is the next one
    leaf_uuid: str | None = None
    snapshot: Snapshot | None = None


STARTS = re.compile(r'\{"(?:type|parentUuid|uuid|sessionId|isSidechain)": ?["ntf]')

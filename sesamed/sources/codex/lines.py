"""The parts of Codex's lines that are read: flat views with the few fields that are needed.

A line is an envelope around a payload; in the oldest files it is the payload itself. What is not named here (encrypted
reasoning, replaced histories, instructions, images) is skipped by the decoder. One shape serves all payloads and the
items in them: their fields hardly clash, and new types appear monthly.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from sesamed.sources.lines import FAILURES
from sesamed.sources.records import Short, Time

NULL: Final = msgspec.Raw(b"null")
LAST_ORDINAL: Final = (1 << 63) - 1  # SQLite's integers end there
NOTHING: Final = frozenset({b"", b"null", b"[]", b"{}", b'""', b"false"})


class Block(msgspec.Struct, gc=False):
    """A part of a message's content: input_text, output_text, text, input_image …"""

    type: str = ""
    text: str | None = None


class Provenance(msgspec.Struct, gc=False):
    """Where a block comes from: the user, the harness, a skill."""

    type: str | None = None


class Mark(msgspec.Struct, gc=False):
    """The origin of a block, in newer builds."""

    provenance: Provenance | None = None


class Marks(msgspec.Struct, gc=False):
    """The origins of a message's blocks, in newer builds."""

    content_item_kinds: list[str] | None = None
    content_item_metadata: list[Mark] | None = None


class Git(msgspec.Struct, gc=False):
    """The repository when the session began."""

    branch: str | None = None


class Invocation(msgspec.Struct, gc=False):
    """A call of an MCP server's tool, as events have it."""

    server: str | None = None
    tool: str | None = None
    arguments: msgspec.Raw = NULL


class Base(msgspec.Struct, gc=False):
    """Where a paginated fork continues: a rollout, up to an ordinal."""

    thread_id: str | None = None
    end_ordinal_exclusive: int | None = None


class Payload(msgspec.Struct, gc=False):
    """The payload of any line, and the item of an `item_completed` event."""

    type: str = ""
    id: Short | None = None
    # messages
    role: str | None = None
    content: str | list[Block] | None = None
    marks: Marks | None = msgspec.field(default=None, name="internal_chat_message_metadata_passthrough")
    content_item_metadata: list[Mark] | None = None
    message: str | None = None
    text: str | None = None
    kind: str | None = None
    images: msgspec.Raw = NULL
    local_images: msgspec.Raw = NULL
    review_output: msgspec.Raw = NULL
    # calls, and what they gave back
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: msgspec.Raw = NULL
    input: str | None = None
    action: msgspec.Raw = NULL
    output: msgspec.Raw = NULL
    tools: msgspec.Raw = NULL
    revised_prompt: str | None = None
    # the same as events and items tell it
    item: "Payload | None" = None
    command: msgspec.Raw = NULL
    changes: msgspec.Raw = NULL
    invocation: Invocation | None = None
    server: str | None = None
    tool: str | None = None
    query: str | None = None
    result: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    exit_code: int | float | None = None
    success: bool | None = None
    status: str | None = None
    aggregated_output: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    # turns and sessions
    turn_id: str | None = None
    thread_id: str | None = None
    thread_name: str | None = None
    cwd: Short | None = None
    timestamp: Time = None
    git: Git | None = None
    source: msgspec.Raw = NULL
    thread_source: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    rollout_id: str | None = None
    history_base: Base | None = None
    subagent_history_start_ordinal: int | None = None
    num_turns: int | None = None


class Line(msgspec.Struct, gc=False):
    """Any line; the fields after `payload` are those of a bare header, and of the index of names."""

    type: str = ""
    timestamp: Time = None
    ordinal: int | None = None
    payload: Payload | None = None
    id: Short | None = None
    instructions: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    git: Git | None = None
    record_type: str | None = None
    thread_name: str | None = None


STARTS: Final = re.compile(r'\{"timestamp": ?"[^"]{0,40}", ?(?:"ordinal": ?\d+, ?)?"type": ?"')
NEXT: Final = b'{"timestamp":"'
# Most bytes of many files are in these, and nothing that we keep: they are not even decoded.
DROPPED: Final = re.compile(
    rb'\{"timestamp":"[^"]*",(?:"ordinal":\d+,)?"type":"(?:response_item","payload":\{"type":"(?:ghost_snapshot|reasoning'
    rb'|compaction|context_compaction)|event_msg","payload":\{"type":"(?:token_count|agent_reasoning\w*)|world_state)"'
)


def ordinal(number: int | None) -> int | None:
    """A line's number in its thread, which paginated files have, if it can be one."""
    return number if number is not None and 0 <= number <= LAST_ORDINAL else None


def is_dropped(line: bytes) -> bool:
    """Whether this is a whole line without anything to index. A torn or glued one is decoded."""
    return DROPPED.match(line) is not None and line.rstrip().endswith(b"}}") and line.find(NEXT, 1) < 0


# -- parts of a line that are JSON of their own: arguments, outputs


class Directory(msgspec.Struct, gc=False):
    """Where a command runs, as tools of different builds name it."""

    workdir: str | None = None
    working_directory: str | None = None
    cwd: str | None = None


DIRECTORY: Final[Callable[[bytes], Directory]] = msgspec.json.Decoder(Directory).decode


def encode(value: Any) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value)


def directory_in(arguments: bytes) -> str | None:
    """The directory that a command is to run in, if its arguments name one."""
    if b'"workdir"' not in arguments and b'"working_directory"' not in arguments and b'"cwd"' not in arguments:
        return None
    try:
        given = DIRECTORY(arguments)
    except FAILURES:  # arguments may be any text
        return None
    return given.workdir or given.working_directory or given.cwd

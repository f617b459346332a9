"""OpenClaw's sessions: lines as pi writes them, in files of JSON Lines, and since 2026.8 in the database of each agent.

Where they are, the statements that read the database, and what the list of conversations says; `prompts` has what stands around a prompt.
An old file that was imported into the database has the same header and the same ids, so it is the same session.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, NameRank
from sesamed.source import (
    BadLineError,
    Document,
    Lines,
    Location,
    Query,
    Row,
    Rows,
    Shape,
    ToolFamilies,
    Value,
    Variable,
)
from sesamed.sources.columns import json_column, text_column, unpack_column
from sesamed.sources.lines import FAILURES, OBJECT, LenientDecoder, repair
from sesamed.sources.names import clean_name, title_fact
from sesamed.sources.openclaw.prompts import answer_of, prompt_of
from sesamed.sources.pi import Pi, PiState, Step
from sesamed.sources.pi.lines import Block, Line, Spoken, native_id
from sesamed.sources.records import join_texts

LIST: Final = "sessions.json"
LIST_BYTES: Final = 64 << 20  # each conversation has its skills' descriptions in it
PACKED: Final = b"\x28\xb5\x2f\xfd"  # how zstd begins
EVENT_BYTES: Final = 4 << 20  # larger events are not compressed
SUBAGENT: Final = ":subagent:"
ARCHIVED: Final = re.compile(r"(\.jsonl)\.(?:reset|deleted)\..*", re.DOTALL)  # how the name of an archive ends
BY_NAME: Final = "tool_call"
OF_RUNTIME: Final = "openclaw."  # what customs of the program's are called
# Types that pi does not have: where the history that is shown begins, and which branch is the active one.
KNOWN: Final = frozenset({"reset", "leaf"})

# A session with its conversation, then the lines of pi. They are only appended, but for a rewrite, which changes the generation. A
# session whose lines were moved into cold storage is none here: it is kept, and is read again from the file that they are in.
QUERY: Final = Query(
    units="""
    SELECT w.session_id, coalesce(n.session_key, '') || ' ' || coalesce(n.label, '') || ' ' || coalesce(n.display_name, '')
      || ' ' || coalesce(p.current_session_id, '')
      || (SELECT ' ' || count(*) || ' ' || coalesce(max(seq), 0) FROM transcript_events WHERE session_id = w.session_id)
      || coalesce((SELECT ' ' || generation FROM transcript_rewrite_watermarks WHERE session_id = w.session_id), '')
    FROM session_windows w LEFT JOIN session_nodes n ON n.session_key = w.session_key
    LEFT JOIN session_nodes p ON p.session_key = coalesce(n.spawned_by, n.parent_session_key)
    WHERE EXISTS(SELECT 1 FROM transcript_events WHERE session_id = w.session_id)
    """,
    rows=(
        """
        SELECT n.session_key, n.label, n.display_name, coalesce(p.current_session_id, n.fork_source_session_id)
        FROM session_windows w JOIN session_nodes n ON n.session_key = w.session_key
        LEFT JOIN session_nodes p ON p.session_key = coalesce(n.spawned_by, n.parent_session_key)
        WHERE w.session_id = :unit
        """,
        "SELECT event_json, event_zstd FROM transcript_events WHERE session_id = :unit ORDER BY seq",
    ),
)


class Conversation(msgspec.Struct, rename="camel", gc=False):
    """What the list of conversations says of one: which session it is at, its name, and who began it."""

    session_id: str | None = None
    label: str | None = None
    display_name: str | None = None
    spawned_by: str | None = None


class NamedCall(msgspec.Struct, gc=False):
    """The arguments of the tool that calls others."""

    id: str
    args: msgspec.Raw = msgspec.Raw(b"{}")


DECODE_CONVERSATIONS: Final = msgspec.json.Decoder(dict[str, Conversation]).decode
CONVERSATION: Final = LenientDecoder(Conversation)
DECODE_NAMED: Final = msgspec.json.Decoder(NamedCall).decode


class OpenClaw(Pi):
    """The source of OpenClaw's sessions."""

    name = "openclaw"
    label = "OpenClaw"
    version = 1
    locations = (
        Location(
            home="~/.openclaw",
            moved_by=(Variable("OPENCLAW_STATE_DIR"), Variable("OPENCLAW_HOME", ".openclaw")),
            directories=("agents",),
            rare=("agents",),
        ),
        Location(  # its name until 2026-01
            home="~/.clawdbot",
            moved_by=(Variable("CLAWDBOT_STATE_DIR"),),
            directories=("agents",),
            rare=("agents",),
        ),
    )
    shapes: tuple[Shape, ...] = (
        Lines(
            files=(
                "*/sessions/**/*.jsonl",
                "*/sessions/**/*.jsonl.zst",
                "*/sessions/*.jsonl.reset.*",
                "*/sessions/*.jsonl.deleted.*",
            )
        ),
        Rows(files=("*/agent/openclaw-agent.sqlite",), queries=(QUERY,)),
        Document(files=(f"*/sessions/{LIST}",), max_bytes=LIST_BYTES, side=True),
    )
    asks = ()
    resume = None  # conversations are continued by their keys
    tool_families = ToolFamilies(
        read=("read", "image", "memory_get"),
        write=("write",),
        edit=("edit", "apply_patch"),
        shell=("exec", "bash", "process"),
        search=("grep", "find", "ls", "memory_search"),
        web=("web_search", "web_fetch", "browser"),
        agent=("sessions_spawn", "sessions_send", "subagents"),
    )

    def begin(self, path: PurePath, part: str = "") -> Step:
        """A session is known by its id in the database, and in the name of its file, whatever was appended to that."""
        if path.name == LIST:
            return PiState(file_id=LIST, is_meta=True), []
        session = part or native_id(_live_name(clean_name(path.name)))
        return PiState(file_id=session), [Identity(native_id=session, origin="")]

    def step(self, state: PiState, item: bytes | Row) -> Step:
        """A line, wherever it stands; or what is said of conversations."""
        if not isinstance(item, Row):
            return (state, list(_read_list(item))) if state.is_meta else super().step(state, item)
        if item.query == 0:
            return state, list(_read_conversation(*item.values))
        text, packed = item.values
        return super().step(state, _event(text if packed is None else packed))

    def take(self, state: PiState, entry: Line, line: bytes) -> Step:
        """The operations of a line of pi, when what OpenClaw has put around it is taken off."""
        if entry.type in KNOWN or (entry.custom_type or "").startswith(OF_RUNTIME):
            entry.type = "custom"
        elif entry.message is not None:
            _unwrap(entry.message)
        elif entry.parent_session:
            entry.parent_session = _live_name(entry.parent_session)
        return super().take(state, entry, line)


def _live_name(name: str) -> str:
    """What a file was called before it was archived."""
    return ARCHIVED.sub(r"\1", name)


def _unwrap(spoken: Spoken) -> None:
    """Make a message what a person or the model said, and a result what it was."""
    if spoken.role == "user" and (text := join_texts(spoken.content)):
        said = prompt_of(text)
        spoken.content, spoken.role = said, spoken.role if said else "system"
    elif spoken.role == "assistant" and isinstance(spoken.content, list):
        for block in spoken.content:
            block.text = None if block.text is None else answer_of(block.text)
            if block.name == BY_NAME:
                _unwrap_call(block)
    elif spoken.role == "custom" and (spoken.custom_type or "").startswith(OF_RUNTIME):
        spoken.role = "system"
    elif spoken.role == "toolResult" and spoken.details is not None:
        spoken.is_error = bool(spoken.is_error) or _is_failure(spoken)


def _unwrap_call(block: Block) -> None:
    """Make a call of the tool that calls others, which is all that small prompts offer, the call that it means."""
    with suppress(*FAILURES):
        named = DECODE_NAMED(bytes(block.arguments))
        block.name, block.arguments = named.id, named.args


def _is_failure(result: Spoken) -> bool:
    """Whether a call failed that says so in its details only."""
    details = result.details
    if details is None:
        return False
    return details.status == "error" or details.exit_code not in (None, 0)


# -- the database, and the list of conversations before it


def _event(stored: Value) -> bytes:
    """A line, as text or compressed."""
    data = json_column(stored)
    if not data.startswith(PACKED):
        return data
    return unpack_column(data, EVENT_BYTES)


def _read_conversation(key: Value, label: Value, display_name: Value, parent: Value) -> Iterator[Fact]:
    """What the database says of a session's conversation. A fork has the session that it was forked from as its parent."""
    yield from _facts(text_column(key) or "", text_column(label), text_column(display_name), text_column(parent), None)


def _read_list(data: bytes) -> Iterator[Fact]:
    """What `sessions.json` says of the sessions that conversations are at."""
    listed = _decode_list(data)
    for key, one in listed.items():
        parent = listed.get(one.spawned_by or "")
        if one.session_id:
            above = None if parent is None else parent.session_id
            yield from _facts(key, one.label, one.display_name, above, one.session_id)


def _decode_list(data: bytes) -> dict[str, Conversation]:
    """The conversations by their keys; an odd one is left out. There are megabytes of what is not needed, so the repair comes last."""
    with suppress(*FAILURES):
        return DECODE_CONVERSATIONS(data)
    try:
        given = OBJECT.decode(repair(data))
    except FAILURES:
        raise BadLineError("no list of conversations") from None
    return {key: CONVERSATION.decode(bytes(raw)) for key, raw in given.items() if bytes(raw)[:1] == b"{"}


def _facts(
    key: str, label: str | None, display_name: str | None, parent: str | None, session: str | None
) -> Iterator[Fact]:
    """A name that was given, one that a model or the channel gave, and whose subagent it is."""
    if display_name == key.rpartition(":")[2]:
        display_name = None  # until there is one
    for title, rank in ((label, NameRank.RENAMED), (display_name, NameRank.GIVEN)):
        if title and title.strip():
            yield title_fact(title, rank, native_id=session)
    if SUBAGENT in key:
        yield Fact(field="subagent", value="1", native_id=session)
    if parent and parent != session:
        yield Fact(field="parent_id", value=parent, native_id=session)

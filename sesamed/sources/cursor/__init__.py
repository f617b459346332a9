"""Cursor's sessions: a database for each one of its command line, and transcripts of all, those of its editor's agents included.

Where they are, the statements that read a database, and what the files beside them say; `chat` has what its messages become, `transcript`
the lines of a transcript, `prompts` what stands around a prompt. What both a database and a transcript hold is read from the database.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, NameRank, Operation
from sesamed.source import (
    BadLineError,
    Bundle,
    Document,
    Location,
    Member,
    Query,
    ResumeCommand,
    Row,
    Rows,
    Setup,
    Shape,
    Spot,
    ToolFamilies,
    Variable,
)
from sesamed.sources.cursor.chat import UNTITLED, CursorState, Step, read_chat, subagent_facts
from sesamed.sources.cursor.transcript import read_text, read_transcript, read_trust
from sesamed.sources.lines import FAILURES, JsonState, LenientDecoder, repair
from sesamed.sources.names import clean_name, title_fact

# One row says what the session is called, and which message of Protocol Buffers its tree begins with (agent.v1.ConversationStateStructure:
# 1 messages, 8 turns, 9 directories, 11 and 13 what was summed up). It is JSON, mostly in hexadecimal digits.
HEAD: Final = """
    head(said, tree) AS MATERIALIZED (
      SELECT m.said, b.data FROM (
        SELECT CASE WHEN value LIKE '{%' THEN value ELSE coalesce(CAST(unhex(value) AS TEXT), value) END AS said FROM meta WHERE key = :unit
      ) m LEFT JOIN blobs b ON b.id = CASE WHEN json_valid(m.said) THEN m.said ->> 'latestRootBlobId' END
    )
"""
# A turn names its prompt and its steps (agent.v1.ConversationTurnStructure), which say when they were.
TURNS: Final = f"""
    {HEAD}, turns(at, turn) AS MATERIALIZED (
      SELECT t.key, unhex(protobuf(b.data, 1) ->> 0) FROM head, json_each(protobuf(head.tree, 8)) t JOIN blobs b ON b.id = t.value
    )
"""
NAMED: Final = "CAST(unhex(protobuf(turn, 3) ->> 0) AS TEXT)"
QUERY: Final = Query(
    units="SELECT key, value FROM meta WHERE key = '0'",
    rows=(
        f"WITH {HEAD} SELECT said, tree IS NOT NULL, CAST(unhex(protobuf(tree, 9) ->> 0) AS TEXT) FROM head",
        f"""
        WITH {TURNS} SELECT json_group_array(json_array({NAMED}, coalesce(protobuf(b.data, 25) ->> 0, protobuf(b.data, 26) ->> 0)))
        FROM turns JOIN blobs b ON b.id = protobuf(turn, 1) ->> 0
        """,
        f"""
        WITH {TURNS}, steps(at, named, n, text) AS (
          SELECT turns.at, {NAMED}, s.key, unhex(protobuf(b.data, 1) ->> 0)
          FROM turns, json_each(protobuf(turn, 2)) s JOIN blobs b ON b.id = s.value
        )
        SELECT json_group_array(json_array(named, protobuf(text, 1) ->> 0, protobuf(text, 2) ->> 0, protobuf(text, 3) ->> 0) ORDER BY at, n)
        FROM steps WHERE text IS NOT NULL
        """,
        f"""
        WITH {HEAD}, archives(at, data) AS (
          SELECT a.key, b.data FROM head, json_each(iif(protobuf(tree, 13) = '[]', protobuf(tree, 11), protobuf(tree, 13))) a
          JOIN blobs b ON b.id = a.value
        ), said(part, at, n, id) AS (
          SELECT 0, at, m.key, m.value FROM archives, json_each(protobuf(data, 1)) m
          UNION ALL SELECT 1, 0, m.key, m.value FROM head, json_each(protobuf(tree, 1)) m
        )
        SELECT said.id, row_number() OVER (PARTITION BY said.id ORDER BY part, at, n), b.data
        FROM said LEFT JOIN blobs b ON b.id = said.id ORDER BY part, at, n
        """,
    ),
)

DATABASES: Final = ("chats/{hash}/{session}/store.db", "acp-sessions/{session}/store.db")
BESIDE: Final = "meta.json"
TRUST: Final = ".workspace-trusted"
TRUSTED: Final = f"projects/{{project}}/{TRUST}"
TEXT: Final = ".txt"
BELOW: Final = "projects/{project}/agent-transcripts"
# Of a session's transcripts the first one is read: what has a directory of its own is newer, and lines are newer than text.
TRANSCRIPTS: Final = tuple(
    f"{BELOW}/{name}.{kind}" for kind in ("jsonl", "txt") for name in ("{session}/{session}", "{session}")
)
WORKERS: Final = tuple(f"{BELOW}/{{parent}}/subagents/{{session}}.{kind}" for kind in ("jsonl", "txt"))
SUBAGENTS: Final = "subagents"
BY_LIST: Final = 1  # ranks above where a database or a transcript lies
BUNDLE_BYTES: Final = 64 << 20


class Told(msgspec.Struct, gc=False, rename="camel"):
    """`meta.json`."""

    title: str | None = None
    cwd: str | None = None
    is_subagent: bool | None = None


TOLD: Final = LenientDecoder(Told)


def _transcripts(paths: tuple[str, ...]) -> tuple[Bundle, ...]:
    """Each gives way to the databases, and to those before it."""
    better = (DATABASES + paths[:number] for number in range(len(paths)))
    return tuple(
        Bundle(unit=path, members=(TRUSTED, path), max_bytes=BUNDLE_BYTES, better=others)
        for path, others in zip(paths, better, strict=True)
    )


class Cursor(JsonState[CursorState]):
    """The source of Cursor's sessions."""

    name = "cursor"
    label = "Cursor"
    version = 1
    locations = (
        Location(home="~/.cursor", moved_by=(Variable("CURSOR_DATA_DIR"),), rare=(".cursor",)),
        Location(moved_by=(Variable("CURSOR_CONFIG_DIR"),)),
    )
    shapes: tuple[Shape, ...] = (
        Rows(files=("chats/*/*/store.db", "acp-sessions/*/store.db"), queries=(QUERY,)),
        *_transcripts(TRANSCRIPTS),
        *_transcripts(WORKERS),
        Document(files=(f"chats/*/*/{BESIDE}", f"acp-sessions/*/{BESIDE}"), side=True),
    )
    asks = ()
    resume = ResumeCommand(words=("cursor-agent", "--resume", "{id}"), within="chats")
    setup = Setup(
        program="cursor-agent",
        files=(Spot("~/.cursor/mcp.json"),),
        keys=("mcpServers",),
        skills=Spot("~/.cursor/skills"),
    )
    tool_families = ToolFamilies(
        read=("Read", "ReadLints"),
        write=("Write",),
        edit=("StrReplace", "MultiStrReplace", "EditNotebook", "ApplyPatch", "Delete"),
        shell=("Shell", "AwaitShell"),
        search=("Grep", "Glob", "LS", "SemanticSearch"),
        web=("WebSearch", "WebFetch"),
        agent=("Task", "Subagent"),
        mcp=("mcp__*", "CallMcpTool", "CallDynamicTool", "FetchMcpResource", "ListMcpResources"),
    )

    def __init__(self) -> None:
        super().__init__(CursorState)

    def begin(self, path: PurePath, part: str = "") -> Step:
        """A session is known by the name of its directory, or of its transcript."""
        if path.name == BESIDE:
            return CursorState(session=clean_name(path.parent.name)), []
        session = clean_name(path.parent.name if part else path.stem)
        parent = clean_name(path.parent.parent.name) if path.parent.name == SUBAGENTS else None
        place = [Identity(native_id=session, origin=""), *(subagent_facts(parent) if parent else ())]
        return CursorState(session=session, path=clean_name(str(path))), place

    def step(self, state: CursorState, item: Row | Member | bytes) -> Step:
        """A row, a file that belongs to a transcript, or what is beside a database."""
        if isinstance(item, Row):
            return read_chat(state, item)
        if isinstance(item, bytes):
            return state, list(_read_beside(state.session, item))
        if clean_name(str(item.path)) == state.path:
            return _read_own(state, item)
        if item.path.name != TRUST:
            return msgspec.structs.replace(state, is_elsewhere=True), []
        facts = read_trust(item.data)
        cwd = next((fact.value for fact in facts if isinstance(fact, Fact)), None)
        return msgspec.structs.replace(state, cwd=cwd), facts


def _read_own(state: CursorState, item: Member) -> Step:
    """A transcript, if nothing says more."""
    if state.is_elsewhere:
        return state, []
    return (read_text if item.path.suffix == TEXT else read_transcript)(state, item.data)


def _read_beside(session: str, data: bytes) -> Iterator[Operation]:
    """What `meta.json` says of the session in its directory."""
    try:
        told = TOLD.decode(repair(data))
    except FAILURES:
        raise BadLineError("not what stands beside a session of Cursor's") from None
    if told.cwd:
        yield Fact(field="cwd", value=told.cwd, rank=BY_LIST, native_id=session)
    if told.is_subagent:
        yield Fact(field="subagent", value="1", native_id=session)
    if (title := (told.title or "").strip()) and title != UNTITLED:
        yield title_fact(title, NameRank.TITLED, native_id=session)

"""Values that cross several rings, the digests that stand for them, and times as text. No I/O. The words are those of the glossary in
docs/architecture.md.

Words: a *source* is an agent's format; a *record* is one decoded thing with a native key, a message or a tool call; a *chunk* is one
row of the full-text index (a message, a call, a result); a *fact* is one file's word on a field of a session.
"""

from datetime import UTC, datetime
from enum import IntEnum
from hashlib import blake2b
from typing import Literal

import msgspec

from sesamed.sanitize import Exact, Line, Time

Role = Literal["user", "assistant", "custom", "summary"]


# What every prompt of ours begins with. A session whose first prompt does is not indexed.
PROMPT_MARKER = "[prompt by sesame, not to be indexed]"


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message. Its `key` is the same in every file that holds a copy of it."""

    key: int
    role: Role
    text: str
    entry: str | None = None
    parent: str | None = (
        None  # the entry that it follows, if that is not the line before it; empty: it begins another tree
    )
    time_ms: int | None = None
    ended_ms: int | None = None  # when all of it was there, if the agent tells
    prompt: bool = False  # begins an exchange
    hidden: bool = False  # quoted from other sessions by ourselves
    cwd: str | None = None  # where the session was at that moment
    ordinal: int | None = None  # its number in the thread, where other files point to it


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A tool call. Its result may be known at once (`output`), or come later as a ToolResult."""

    key: int
    name: str
    arguments: bytes = b"{}"  # JSON, as it stands in the file
    role: Role = "assistant"
    cwd: str | None = None
    entry: str | None = None
    parent: str | None = None
    time_ms: int | None = None
    ended_ms: int | None = None  # when its result was there, if it has one here
    written: str | None = None  # its text, where another machine has made that of its arguments
    output: str | None = None
    is_error: bool | None = None
    hidden: bool = False  # a search of ours: searching it again would find searches
    ordinal: int | None = None


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The result of the call with this key."""

    key: int
    text: str
    is_error: bool
    time_ms: int | None = None
    hidden: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Whether the call with this key failed, if that became known after its result. The text stays."""

    key: int
    is_error: bool


class Touched(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The call with this key changed these files, whatever its arguments say."""

    key: int
    paths: tuple[str, ...]


class Identity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Which session the file belongs to. `origin` distinguishes two sessions with the same native id. `source` is the one whose session it
    is, where another one reads the file."""

    native_id: str
    origin: str
    source: str | None = None


Field = Literal[
    "name", "cwd", "project_path", "began", "parent_path", "parent_id", "subagent", "git_branch", "base",
    "active", "summary", "description", "tags", "recall_words", "generated",
    "generated_by", "agent", "created_by", "described", "workstation", "person",
]  # fmt: skip
ACTIVE: Field = "active"  # when the latest of what a file tells of happened
DESCRIBED: Field = (
    "described"  # the transcript that a document beside it is about: where that is excluded, the document says nothing
)
ANNOTATED_FIELDS: tuple[Field, ...] = ("name", "summary", "description", "tags", "recall_words")
TEXT_FIELDS = frozenset((*ANNOTATED_FIELDS, "generated_by"))  # what is read and searched; the others are exact
SAID_FIELDS = TEXT_FIELDS | {
    "git_branch",
    "agent",
    "created_by",
    "person",
}  # that may hold secrets: the others are ids, paths and numbers


class NameRank(IntEnum):
    """How good a name is: of several names of a session, the one with the highest rank is used. Each source decides what it uses a rank
    for; the numbers are in the index.
    """

    STAND_IN = 0  # a command, a skill: until something is said
    PROMPT = 1  # the beginning of the first prompt
    GENERATED = 2  # by a model that was given the session, and kept by us or beside the agent's sessions
    GIVEN = 3  # a title or a description that came with it; a summary
    TITLED = 4  # a title of a better kind: a later one, or one that was made for the list
    RENAMED = 5  # and one better than that: the person's
    LISTED = 6  # in the agent's own list of names
    ANNOTATED = 9  # said to us, above all that agents' files can say


class Fact(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What this file says about a field of a session: of its own, or of another one, of the same source (or of `source`) that has this
    `native_id`, or that contains a certain `entry`.

    Of several facts the highest `rank` that is not empty counts; within one file and rank the first or the last one stands. `base` is
    `<native id>:<ordinal>`: the session goes on from what that one holds before the ordinal.
    """

    field: Field
    value: str
    rank: int = 0
    keep: Literal["first", "last"] = "first"
    native_id: str | None = None
    source: str | None = None
    entry: str | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """The file contains an entry with this id, whether or not it became a record: facts in other files may refer to it."""

    id: str


class Passed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a tree of messages that became no record of its own: others may follow it. `parent` as in Message."""

    entry: str
    parent: str | None = None


class Undone(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The person took back what this file contains so far: from the record with this key on, or that one alone. It stays, marked."""

    key: int
    alone: bool = False
    time_ms: int | None = None


class Unknown(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of a type that this source does not know: skipped and counted."""

    type: str


class Bad(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line that could not be decoded, and why; nothing of its text is in the reason. It comes first of what the line gave: what could be
    salvaged of it comes after. `line`: its number, from 1, where the item has several.
    """

    reason: str
    line: int | None = None


Operation = (
    Message | ToolCall | ToolResult | Outcome | Touched | Identity | Fact | Entry | Passed | Undone | Unknown | Bad
)


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """What is on disk and not yet searchable."""

    files: int = 0
    bytes: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How far an index run is."""

    files_done: int = 0
    files_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0


class Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The base of results of methods."""


class Counts(Answer, frozen=True, kw_only=True):
    """What the index holds."""

    sessions: int
    empty: int
    chunks: int
    messages: int
    tool_calls: int
    files: int
    gone: int
    bad_lines: int


class Session(Answer, frozen=True, kw_only=True):
    """A session in a few fields, as in lists. Times are ISO 8601 in UTC with milliseconds.

    The store reads a field from the column of its name (`store.reading.summary`), and has it filled by facts (`Field`).
    """

    session_id: Exact
    short_id: Exact  # the shortest beginning that means this session alone; it depends on the others, so no revision counts it
    key: Exact
    workstation: Exact  # its machine, which `key` begins with
    person: Line | None  # whose it is, of a session that was followed; null of one's own
    source: Exact
    path: Exact
    cwd: Exact | None
    project_path: Exact | None
    git_branch: Line | None
    name: Line | None
    summary: str | None  # of annotations, as much as a list can hold
    description: str | None
    tags: list[Line]
    created: Time
    modified: Time
    message_count: int
    parent_session_id: Exact | None
    subagent: bool
    orphan: bool  # a subagent whose parent is not in the index
    gone: bool
    revision: int  # raised by whatever changes in it: a message, a late result, its name
    as_of: Time | None = None  # of what a hub has: when its machine was last heard of there

    @property
    def is_followed(self) -> bool:
        """Whether it is of another machine, and came from a hub."""
        return self.person is not None


class IndexReport(Answer, frozen=True, kw_only=True):
    """What an index run did."""

    added: int = 0
    updated: int = 0
    skipped: int = 0
    gone: int = 0
    errors: int = 0
    bad_lines: int = 0
    bytes: int = 0
    took_ms: float = 0.0


RootCode = Literal[
    "tooFewInstances", "tooFewWatches", "remoteFilesystem", "unwatchable", "unknownFormat", "ignoreFile", "sweep"
]
TroubleCode = Literal["damaged", "storage", "unreadable", "older-index", "workstation", "internal", "secrets"]
WorkstationOrigin = Literal["machine", "workstationId", "WORKSTATION_ID"]


class RootWarning(msgspec.Struct, frozen=True):
    """Why a root is not watched: a code for programs, a sentence for people."""

    code: RootCode
    message: str


class RootState(msgspec.Struct, frozen=True, kw_only=True):
    """A root, as `status` shows it."""

    parser: str
    path: str
    real: str | None
    mode: Literal["events", "polling", "missing"]
    files: int
    directories: int
    ignore_file: str | None = None
    warnings: list[RootWarning]


class ProjectExclusion(Answer, frozen=True, kw_only=True):
    """A `.sesameignore` in a project that excludes sessions."""

    path: Exact
    sessions: int
    trouble: Line | None


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """A promise that does not hold at the moment, and since when."""

    code: TroubleCode
    message: str
    since_ms: int


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the ingest."""

    roots: list[RootState]
    indexing: Progress | None
    freshness_ms: list[float]
    last_event_ms: int | None
    last_sweep_ms: int | None
    excluded: list[ProjectExclusion]
    troubles: list[Trouble]


class SessionKey(msgspec.Struct, frozen=True):
    """What identifies a session, whatever its file is called. Without an `origin` every session with this id is meant."""

    source: str
    native_id: str
    origin: str = ""


class Workstation(msgspec.Struct, frozen=True, kw_only=True):
    """The first part of a session's key, and where it comes from: computed by the machine, or set in one of these places."""

    id: str
    origin: WorkstationOrigin
    since: str
    machine: str | None = None  # by which the machine that computed it is recognised


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What a person, or a model, says about a session; None leaves a field as it is, an empty text removes it."""

    title: str | None = None
    summary: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    recall_words: tuple[str, ...] | None = None


class Generation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When a model wrote annotations, and how much of the session it had read: up to a message number, and how many of the session's
    own prompts that are, which neither files nor forks change. An agent's file has neither.
    """

    at: str
    up_to: int | None = None
    cost_usd: float | None = None
    prompts: int | None = None


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """What is appended to a session that the daemon stores."""

    role: str
    text: str
    tool: str | None = None
    call: str | None = None
    is_error: bool | None = None


def digest(*parts: bytes, person: bytes = b"") -> int:
    """63 bits of a hash, by which something is known that is too long to compare, or must not be kept: SQLite's integers have a sign.
    Parts are joined as they are; `person` keeps two kinds of things apart.
    """
    hashed = blake2b(digest_size=8, person=person)
    for part in parts:
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "big") >> 1


def record_key(head: str, body: str | bytes) -> int:
    """The key of a record: the same in every file that holds a copy of it, and no other record's. `head` is what kind of record it is
    and where it comes from, `body` is its text.
    """
    return digest(encode(head), b"\0", body if isinstance(body, bytes) else encode(body))


def encode(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


def iso(ms: int) -> str:
    """A time in UTC with milliseconds, as answers and the daemon's own files give it; outside of what a calendar can express, the nearest
    that it can.
    """
    ms = min(max(ms, FIRST_MS), LAST_MS)
    return f"{datetime.fromtimestamp(ms // 1000, UTC).isoformat()[:19]}.{ms % 1000:03d}Z"  # strftime takes five times as long


def iso_or_none(ms: int | None) -> str | None:
    """A time as text, or None if there is none."""
    return None if ms is None else iso(ms)

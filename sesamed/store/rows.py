"""What the ingest gives to the store: a file's new rows and its cursor, ready to be written.

All text work (cleaning, cutting, packing) is done before, so that a transaction only writes.
"""

from typing import Literal, NamedTuple

import msgspec

from sesamed.model import Fact, Field, Identity
from sesamed.store.ids import LAST_POSITION

MOST_DIRECTORIES = 1000  # of a file; who has as many may have been anywhere
KEPT_BAD = 100  # reasons of a file: the first ones tell what is wrong with it
UNCOUNTED = -1
UNREAD = -1  # the version of a file that has to be read from its beginning: no source has it
UNKNOWN_FORMAT = (
    "not a database of a version that we know: nothing of it is read"  # the state of such a file's cursor, too
)
WITHHELD = b"withheld"  # what the state of such a cursor begins with
TOO_MANY = f"more than {LAST_POSITION:,} records in one file; the rest is left out"


class Signature(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What `stat` says about a file. If it is the same, the file is unchanged and not opened."""

    dev: int
    ino: int
    size: int
    mtime_ns: int
    ctime_ns: int


class Cursor(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How far a file has been read, and how its content is recognised.

    `head` and `tail` are checksums of the first bytes and of the bytes just before `offset`; `digest` is one of all of them. A last
    line without a newline that was read nevertheless is `loose` bytes long and begins at the offset.
    """

    offset: int = 0
    skipping: bool = False  # inside a line that is too long, up to its newline
    head: int = 0
    tail: int = 0
    digest: int = 0
    loose: int = 0
    loose_digest: int = 0
    lines: int = 0  # up to the offset; UNCOUNTED in what an older index read
    position: int = 0
    state: bytes = b""


class Withheld(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Why nothing of a unit is kept: the `.sesameignore` at `by` excludes the sessions of a directory. It stands where a source's state
    would. A subagent (then `parent` is set), and whatever else is about a session, is withheld with it.
    """

    by: bytes
    cwd: str
    native_id: str
    origin: str = ""
    parent: str | None = None
    is_own: bool = True  # the unit itself says that it was there

    @classmethod
    def decode(cls, state: bytes) -> "Withheld":
        """From a cursor's state, which begins with WITHHELD."""
        return _DECODE_WITHHELD(state[len(WITHHELD) :])

    def encode(self) -> bytes:
        """As a cursor's state."""
        return WITHHELD + msgspec.msgpack.encode(self)


_DECODE_WITHHELD = msgspec.msgpack.Decoder(Withheld).decode


class BadLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What could not be decoded: the number of a line, from 1; None: all of a unit, or something that has no line. And why."""

    line: int | None
    reason: str


class Text(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk: its kind, its text, the text as it is stored, and its subwords (store/subwords.py); and the text without masks, where there
    are any and it is kept.
    """

    kind: int
    text: str
    packed: bytes
    inner: str
    raw: str | None = None
    packed_raw: bytes | None = None

    @property
    def whole(self) -> str:
        """All of it that is kept."""
        return self.text if self.raw is None else self.raw


class ChangedWords(NamedTuple):
    """A full-text row that came (1) or went (-1)."""

    change: int
    text: str
    inner: str


class RecordRow(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag=True, gc=False):
    """A record with its chunks."""

    key: int
    role: str
    kind: int
    texts: tuple[Text, ...]
    prompt: bool = False
    time_ms: int | None = None
    entry: str | None = None
    parent: str | None = None
    tool: str | None = None
    is_error: bool | None = None
    touched: tuple[str, ...] = ()
    ordinal: int | None = None


class ResultRow(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The result of the call with this key."""

    key: int
    text: Text | None
    is_error: bool


class OutcomeRow(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """Whether the call with this key failed, known after its result; its text stays."""

    key: int
    is_error: bool


class TouchedRow(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """The call with this key touched these files, as keys of the `paths` table."""

    key: int
    touched: tuple[str, ...]


class Remark(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A fact about the session that contains an entry, by the entry's digest."""

    entry: int
    field: Field
    value: str
    rank: int
    keep: Literal["first", "last"]


class UndoneRow(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """What the file contains so far is taken back, from the record with this key on."""

    key: int
    alone: bool


class PassedRow(msgspec.Struct, frozen=True, array_like=True, tag=True, gc=False):
    """A line that others may follow, and that is no record: its digest, and the entry that it follows itself (`RecordRow.parent`)."""

    digest: int
    parent: str | None


AnyRow = RecordRow | ResultRow | OutcomeRow | TouchedRow | UndoneRow | PassedRow


class Difference(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a unit that is read completely each time differs from what the index holds of it: its first `kept` records stay where they are,
    but for the `changed` ones (by position), and what came after them goes. `facts`: what it says of sessions takes the place of what it
    said before.
    """

    kept: int
    changed: tuple[tuple[int, RecordRow], ...] = ()
    drops: bool = False  # there is something after the kept ones
    facts: bool = False


class FileRows(msgspec.Struct, kw_only=True, array_like=True):
    """Everything that one look at a file found."""

    path: bytes
    root: str
    source: str
    source_version: int
    signature: Signature
    cursor: Cursor
    complete: bool  # nothing but an unfinished line is left to read
    replace: bool = False  # what the file held before is void
    difference: Difference | None = None  # some of it is; `rows` come behind what is kept
    moved_from: bytes | None = None
    foreign: bool = False
    is_followed: bool = False  # of a session of another machine: what a file of this one says of a record stands
    withheld: Withheld | None = None  # and so foreign
    identity: Identity | None = None
    facts: list[Fact] = []
    remarks: list[Remark] = []
    directories: dict[str, str | None] = {}  # where its records say that the session was, with the projects
    entries: list[int] = []
    undone: list[
        tuple[int, ...]
    ] = []  # first and last positions, of a file that cannot be read now; and so are the next two
    jumps: list[tuple[int, ...]] = []  # positions, and those that they follow
    passed: list[tuple[int, ...]] = []  # digests of lines, and the positions that they stand behind
    rows: list[AnyRow] = []
    active_ms: int | None = None  # when the latest of what is new happened
    look_again: bool = False  # it was written this moment, or did not decode: once more when it is quiet
    loose_from: int | None = None  # rows from here on come from the loose line: the stored position stays before them
    bad_lines: int = 0
    bad: list[BadLine] = []  # the first of them
    unknown_lines: int = 0
    counted_from_start: bool = False  # counters start anew with this change

    @property
    def session_source(self) -> str:
        """The source whose session this is: another one may read its file."""
        return (None if self.identity is None else self.identity.source) or self.source

    def note_bad(self, reason: str, line: int | None = None, count: int = 1) -> None:
        """Count something that could not be decoded."""
        self.bad_lines += count
        if len(self.bad) < KEPT_BAD:
            self.bad.append(BadLine(line, reason))


def blank(change: FileRows, withheld: Withheld | None = None) -> None:
    """Keep nothing of a file except its signature, and why."""
    change.replace, change.foreign, change.complete, change.withheld = True, True, True, withheld
    change.cursor = Cursor() if withheld is None else Cursor(state=withheld.encode())
    change.identity, change.loose_from, change.difference = None, None, None
    change.rows, change.facts, change.remarks, change.entries, change.undone = [], [], [], [], []
    change.directories = {}
    change.jumps, change.passed = [], []
    change.bad, change.bad_lines, change.unknown_lines = [], 0, 0
    change.active_ms = None
    change.counted_from_start = True


class IndexedFile(msgspec.Struct, frozen=True, gc=False):
    """A file as the index knows it."""

    path: bytes
    root: str
    source: str
    source_version: int
    signature: Signature
    cursor: Cursor
    complete: bool
    gone: bool

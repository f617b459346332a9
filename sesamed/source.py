"""What an agent's format has to say of itself: where its sessions lie, in which shapes, how they are decoded, how one is resumed.

A package in `sesamed/sources` implements `Source`; nothing about an agent stands anywhere else. Pure: no I/O, no clock.

A *location* is a directory that an agent writes to, as its documentation names it; what it is on this machine is a *root*. A *shape* is
how the bytes of a session lie on the disk, which decides how they are read. A *unit* is what is read with one cursor and holds (at
most) one session: a file in most shapes.

Patterns are globs over the path below the root, with `/` between the parts: `*` is anything within a part, `**/` any number of
directories (none, too). A pattern that begins with `../` names one file beside the root, and has no other sign in it.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

import msgspec

from sesamed.model import Operation

# -- where


class Variable(msgspec.Struct, frozen=True, gc=False):
    """An environment variable that names a directory, and what of it takes the location's place (`..` for one that names a file)."""

    name: str
    below: str = ""


class Listing(msgspec.Struct, frozen=True, gc=False):
    """A file of the agent's (JSON, with comments) that names directories: a setting, or a list of all projects.

    `keys` leads to them from the top: a name is a field, `*` is each item of an array or each value of an object. What is no text is
    passed over, and so is a file that is missing or broken: it is the agent's. A relative path counts from the location's directory;
    `below` is what of each directory is read.
    """

    file: str
    keys: tuple[str, ...]
    below: str = ""


class Location(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A directory that an agent may have used, whether it is there or not. All of a source's locations count, not only the one that the
    agent would use now: old sessions stay where they were written.

    `home` is the default and begins with `~/`, or is empty when there is none. The first of `moved_by` that is set takes its place; a
    relative one counts from the home directory, or, without a default, is passed over: it would be another directory in every project.
    Roots are the `directories` in it, and what the `listings` in it name.
    """

    home: str = ""
    moved_by: tuple[Variable, ...] = ()
    directories: tuple[str, ...] = ("",)
    listings: tuple[Listing, ...] = ()


# -- in which shape


class Lines(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Text to which the agent appends, one item a line. `step` gets each line once, without its newline, and a line that does not decode
    is skipped and counted.

    Only what was appended is read. A file whose beginning is another one than before (a header that is rewritten in place, another file
    under the name) is read anew from its start, and so is one that got shorter. A last line without newline waits until it has one, or
    until the file was left alone for a while.

    Where a file holds several sessions, `begins` matches the line that each but the first one begins with; the units are
    `<path>\\0<n>`, counted from 0.
    """

    files: tuple[str, ...]
    begins: re.Pattern[bytes] | None = None
    side: bool = False  # tells of sessions in other files, and holds none


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that is rewritten as a whole, in place or by another one. `step` gets all of it, once; `begin` comes before that each time.

    So the source says all of the unit every time; what is no longer said is dropped. A document that does not decode keeps what was last
    read of it, and counts as bad: it may be half written, or written over a longer one that is cut a moment later. One over
    `max_bytes` is not read, likewise.
    """

    files: tuple[str, ...]
    max_bytes: int = 1 << 20
    side: bool = False  # tells of sessions in other files, and holds none


class Bundle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Many small files that make one session. `step` gets each of them as a `Member`, and the source says all of the unit every time.

    `unit` is the pattern of the file or directory that a session is known by; `members` are those of its files, in the order in which
    they are read. In these patterns `{name}` is `*`, and has the same value wherever it stands. From a unit to its members: its names
    are put into each pattern, and what is still open is looked for on the disk. A pattern with names that an earlier one has opened is
    read below each file of that one (an answer, its parts, the next answer), all in the order of their paths. From a member to its
    unit: the same, backwards. `message/{session}/{message}.json` is how a part of `{message}` leads to its `{session}`.

    A member that does not decode, or is not there at that moment, makes the unit keep what was last read of it, and counts as bad.
    Members of all sizes together may have `max_bytes`.
    """

    unit: str
    members: tuple[str, ...]
    max_bytes: int = 64 << 20


class Query(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one version of an agent's schema is read. `units` selects two columns: the session's id, as text, and its version, a number or
    text that is another one after *every* change that `rows` could show (a title's, too: a time of update alone may not move with it).
    Each of `rows` is run with `:unit`, in order, and in the order of its rows.
    """

    units: str
    rows: tuple[str, ...]


class Rows(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A database of the agent's. The statements stand here as text; whoever reads opens the database (read-only, never `immutable`: all
    of it may be in the WAL), and runs them in one transaction. `step` gets each row as a `Row`; the source says all of the unit every
    time. The unit is `<path>\\0<id>`.

    The first of `queries` whose statements fit the database's tables counts; if none does, the database is none of this source. A
    change of the file, or of the one with `-wal` after its name, is a reason to ask for the units' versions again. A row that does
    not decode makes its unit keep what was last read of it, and counts as bad.
    """

    files: tuple[str, ...]
    queries: tuple[Query, ...]


Shape = Lines | Document | Bundle | Rows


class Member(msgspec.Struct, frozen=True, gc=False):
    """A file of a Bundle. `path` is relative to the root."""

    path: PurePath
    data: bytes


Value = None | int | float | str | bytes


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row of a database; `query` says which one of `Query.rows` gave it."""

    query: int
    values: tuple[Value, ...]


class Unit(msgspec.Struct, frozen=True, order=True):
    """What is read with one cursor: a path, and the part of the file, where it has several (a database's session, a file's n-th one)."""

    path: bytes
    part: bytes = b""

    @classmethod
    def parse(cls, name: bytes) -> "Unit":
        """The unit of a name. No path has a NUL in it."""
        path, _, part = name.partition(b"\0")
        return cls(path, part)

    def format(self) -> bytes:
        """The name that the index keeps: `<path>` or `<path>\\0<part>`."""
        return self.path + b"\0" + self.part if self.part else self.path


# -- how it is read


class BadLineError(Exception):
    """This item (a line, a document, a member, a row) cannot be decoded. Lines go on after it; of the shapes that are said whole every
    time, the unit keeps what was last read of it."""


class ForeignFileError(Exception):
    """This unit is not a session of this source, and nothing of it is kept."""


class ResumeCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the agent itself takes a session up again: a command as words, never for a shell, run in the session's directory. `{id}` is its
    id, `{path}` its file, `{cwd}` that directory, for a program that has to be told although it is run there."""

    words: tuple[str, ...]
    subagents: bool = False  # takes them up, too


S = TypeVar("S")


class Source(Protocol[S]):
    """An agent's format, pure: items in, operations out.

    The state is small and never changed in place. It is stored with the cursor, so that a restart between two lines changes nothing.

    Of units that are said whole every time (Document, Bundle, Rows) only what differs from what the index holds is written. So a
    record's key must not be made from its text there, but from the agent's ids: a text that grows is the same record.
    """

    @property
    def name(self) -> str:
        """What the source is called in the configuration and in answers."""

    @property
    def label(self) -> str:
        """What people call the agent."""

    @property
    def version(self) -> int:
        """Raised when the same bytes give other operations, or other texts: every unit that an older version read is read again, from its
        start, once. Units whose files are gone keep what they had. Not raised for new types of lines, which nobody has yet."""

    @property
    def locations(self) -> tuple[Location, ...]:
        """Where the agent writes, when nothing is configured."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """What is read there: a file is of the first shape that has its path."""

    @property
    def resume(self) -> ResumeCommand | None:
        """How a session is resumed; None if the agent cannot."""

    def begin(self, path: PurePath, part: str = "", /) -> tuple[S, list[Operation]]:
        """The state before the first item, and what the unit's place alone says. `path` is relative to the root, `part` is the unit's."""

    def step(self, state: S, item: Any, /) -> tuple[S, list[Operation]]:
        """One item: bytes of Lines and Documents, a Member, or a Row. Raises BadLineError or ForeignFileError."""

    def freeze(self, state: S) -> bytes:
        """The state as bytes to store."""

    def thaw(self, data: bytes) -> S:
        """The state from its bytes."""


# -- patterns

BESIDE = "../"


def find_shape(shapes: Sequence[Shape], path: bytes) -> Shape | None:
    """The shape of a file, by its path below the root; None if it is none of the source's."""
    return next((shape for shape in shapes for pattern in _files(shape) if _compile(pattern).fullmatch(path)), None)


def may_hold(shapes: Sequence[Shape], directory: bytes) -> bool:
    """Whether files below a directory may be of the source's, by its path below the root: others need not be walked, nor watched."""
    parts = directory.split(b"/") if directory else []
    return any(_leads_on(pattern.split("/")[:-1], parts) for shape in shapes for pattern in _files(shape))


def _leads_on(heads: list[str], parts: list[bytes]) -> bool:
    for head, part in zip(heads, parts, strict=False):
        if head == "**":
            return True
        if not _compile(head).fullmatch(part):
            return False
    return len(parts) <= len(heads)


def list_beside(shapes: Sequence[Shape]) -> list[str]:
    """The names of files that lie in the directory above each root."""
    return [name.removeprefix(BESIDE) for shape in shapes for name in _files(shape) if name.startswith(BESIDE)]


def match_names(pattern: str, path: bytes) -> dict[str, bytes] | None:
    """What the names in a pattern are in a path; None if it does not fit."""
    found = _compile(pattern).fullmatch(path)
    return None if found is None else found.groupdict()


def fill_names(pattern: str, names: dict[str, bytes]) -> str:
    """The pattern with these names put in, and `*` for the others."""
    return re.sub(r"\{(\w+)\}", lambda name: _escape(names.get(name[1])), pattern)


def _escape(value: bytes | None) -> str:
    return "*" if value is None else re.sub(r"([*?[])", r"[\1]", value.decode("utf-8", "surrogateescape"))


def _files(shape: Shape) -> tuple[str, ...]:
    return shape.members if isinstance(shape, Bundle) else shape.files


@lru_cache(maxsize=256)
def _compile(pattern: str) -> re.Pattern[bytes]:
    """A glob as an expression. A name that stands in it twice has the same value in both places."""
    seen: set[str] = set()
    parts = ["" if pattern.startswith(BESIDE) else r"(?!\.\./)"]
    for part in re.split(r"(\*\*/|\*|\{\w+\})", pattern):
        name = part[1:-1] if part.startswith("{") else ""
        if part == "**/":
            parts.append("(?:.*/)?")
        elif part == "*":
            parts.append("[^/]*")
        elif name:
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>[^/]*)")
            seen.add(name)
        else:
            parts.append(re.escape(part))
    return re.compile("".join(parts).encode(), re.DOTALL)

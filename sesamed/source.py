"""The interface of a source: where an agent keeps its sessions, in which shapes, how they are decoded, how one is resumed.

A package in `sesamed/sources` implements `Source`; nothing else knows the agent. Pure: no I/O, no clock.

A *location* is a directory as the agent's documentation names it; on this machine it becomes a *root*. A *shape* is how a session
lies on disk, and decides how it is read. A *unit* is what is read with one cursor and holds at most one session: in most shapes, a file.

Patterns are globs, matched against the path below the root: `*` matches within one part of the path, `**/` any number of directories,
including none. A pattern that begins with `../` is the plain name of a file beside the root.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any, Protocol, TypeVar

import msgspec

from sesamed.model import Operation

# -- where


class Variable(msgspec.Struct, frozen=True, gc=False):
    """An environment variable with a directory, and the path in it that replaces the location (`..` if the variable names a file)."""

    name: str
    below: str = ""

    @property
    def names_file(self) -> bool:
        """Whether its value is a file; the location is the directory of that file."""
        return self.below == ".."


class Listing(msgspec.Struct, frozen=True, gc=False):
    """A file of the agent's (JSON, comments allowed) that names directories: a setting, or a list of projects.

    `keys` is the way to them from the top: a name selects a field, `*` every item of an array or every value of an object. Values that
    are not text are ignored, and so is a file that is missing or broken. A relative path is relative to the location's directory;
    `below` is the path read within each directory. A list that `grows`, as one of projects does, is read again when it has changed: what is
    added to it is a root from then on.
    """

    file: str
    keys: tuple[str, ...]
    below: str = ""
    grows: bool = False


class Location(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A directory that an agent may have written to, whether it exists or not. All of a source's locations are used, not only the one
    that the agent would use today: old sessions stay where they were written.

    `home` is the default and begins with `~/`; it is empty if there is none. The first variable of `moved_by` that is set replaces it. A
    relative value is relative to the home directory; without a default it is ignored, since it means another directory in every project.
    The roots are the `directories` below it, and those that its `listings` name. Hardly anybody has those that are `rare`: nobody is told
    that they are missing. With `in_projects`, the roots are the directories of projects with a file of this name: of those that sessions of
    any agent have worked in, and the tops of their repositories.
    """

    home: str = ""
    moved_by: tuple[Variable, ...] = ()
    directories: tuple[str, ...] = ("",)
    listings: tuple[Listing, ...] = ()
    rare: tuple[str, ...] = ()  # of the directories
    in_projects: str = ""


# -- in which shape


class Lines(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Text that the agent appends to, one item a line. `step` gets each line once, without its newline; a line that does not decode is
    skipped and counted.

    Only what was appended is read. A file is read again from its start if its beginning has changed (a header that is rewritten in place,
    a different file under the name) or if it got shorter. A last line without a newline is read once the file has been left alone for a
    while.

    If a file holds several sessions, `begins` matches the first line of each but the first of them; their units are `<path>\\0<n>`, counted
    from 0. Then the last of them is read again from its first line after each change, and the result replaces what was read of it before:
    what is said may take several lines, blank ones included. A source may have a method `end`: what its state still holds behind the
    last line. With `in_place`, `begin` is given the whole path of the file, since what lies in a directory was done there.
    """

    files: tuple[str, ...]
    begins: re.Pattern[bytes] | None = None
    in_place: bool = False
    side: bool = False  # says something about sessions in other files, and holds none
    is_followed: bool = (
        False  # a session of another machine: it goes with its file, and what this machine knows of a record stands
    )


class Document(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A file that is rewritten as a whole, in place or by a rename. `step` gets all of it in one call, after a `begin` each time.

    The result replaces what was read before: records that are no longer there are dropped. If a document does not decode, what was last
    read of it stays, and it counts as bad: it may be half written, or written over a longer one that is truncated a moment later. The
    same goes for one of more than `max_bytes`; if it consists of lines (`in_lines`), the first of them are read, and it counts as bad.
    """

    files: tuple[str, ...]
    max_bytes: int = 1 << 20
    in_lines: bool = False
    side: bool = False  # says something about sessions in other files, and holds none


class Bundle(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Many small files that make up one session. `step` gets each of them as a `Member`; all of them are read every time one changes, and
    the result replaces what was read before.

    `unit` is the pattern of the file or directory that stands for the session, `members` are the patterns of its files in reading order.
    In these patterns `{name}` matches like `*`, and has the same value wherever it appears. From a unit to its members: fill the unit's
    names into each pattern and list what matches on disk. A pattern that uses a name bound by an earlier one is read after each file of
    that one (a message, its parts, the next message), in the order of the paths. From a member to its unit it is the same backwards:
    `message/{session}/{message}.json` leads from a part of `{message}` to its `{session}`.

    If a member does not decode, or is missing at that moment, what was last read of the unit stays, and it counts as bad. All members
    together may have `max_bytes`: of more the first are read, and it counts as bad.

    `better` are patterns of files that hold the same session, and more of it. Of one that is there, or that the index has read, `step`
    gets a Member without data, before all others: what both hold is not to be read twice.
    """

    unit: str
    members: tuple[str, ...]
    max_bytes: int = 64 << 20
    better: tuple[str, ...] = ()


class Query(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one version of an agent's schema is read. `units` selects two columns: the session's id as text, and its version, a number or
    text that differs after *every* change that `rows` could show (a new title, too, which may not move the time of the last update).
    The statements in `rows` are run one after the other, with the id as `:unit` and the database's own path as `:path`. Besides SQLite's
    own functions there is `protobuf(message, number)`: the values of a field, as JSON, with bytes in hexadecimal digits.
    """

    units: str
    rows: tuple[str, ...]


class Rows(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A SQLite database of the agent's. The statements are text; the reader opens the database (read-only, never `immutable`: all of it may
    be in the WAL) and runs them in one transaction. `step` gets each row as a `Row`; all rows of a session are read every time its
    version changes, and the result replaces what was read before. The unit is `<path>\\0<id>`.

    The first of `queries` that the database has the tables for is used; if there is none, the database is not this source's. When the file
    changes, or the one with `-wal` after its name, the versions are selected again. A row that does not decode is skipped and counted; if
    nothing is left then, what was last read of the unit stays.
    """

    files: tuple[str, ...]
    queries: tuple[Query, ...]
    is_certain: bool = (
        True  # False: other programs keep databases of such names there. What no query fits is passed over silently
    )


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
    """What is read with one cursor: a path and, if the file holds several sessions, the part: an id in a database, or a number."""

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
    """This item (a line, a document, a member, a row) cannot be decoded; the text says why, in words of ours. In `Lines` and `Rows` it is
    skipped; in the other shapes what was last read of the unit stays. Either way it is counted as bad, and the reason is kept."""


class ForeignFileError(Exception):
    """This unit is not a session of this source; nothing of it is kept."""


class ResumeCommand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How the agent itself resumes a session: a command as words, never for a shell, run in the session's directory. `{id}` is replaced by
    its id, `{path}` by its file, `{cwd}` by that directory, for a program that wants it as an argument."""

    words: tuple[str, ...]
    subagents: bool = False  # whether a subagent's session can be resumed, too
    here: tuple[str, ...] = ()  # the same for the directory that it is run in, once the session's own is gone
    anywhere: bool = False  # whether `here` also works while that one exists
    archive: str = ""  # the directory that sessions are moved to when the person archives them
    unarchive: tuple[str, ...] = ()  # takes one out of it
    within: str = ""  # the directory with the sessions that it resumes, if there are others, which it does not know


class ToolFamilies(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An agent's tools by what they do: the names that it writes, in any case; `*` at the end stands for the rest of a name. A tool that
    does two things is in two families."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    edit: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    search: tuple[str, ...] = ()  # for files, and in them
    web: tuple[str, ...] = ()
    agent: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()


class Spot(msgspec.Struct, frozen=True, gc=False):
    """A file or directory of the agent's settings: `home` begins with `~/`; the first variable of `moved_by` that is set replaces it."""

    home: str
    moved_by: tuple[Variable, ...] = ()


class Hooks(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an agent is told to run a command when a session begins, and when a prompt is sent (`events`): by groups of commands in JSON,
    below `hooks`. The command is given a JSON object with the session's id, and the prompt if there is one.
    """

    files: tuple[Spot, ...]
    events: tuple[str, ...]
    timeout: int = 5  # of the command, as the agent counts it: most take seconds
    is_flat: bool = False  # whether it wants what a hook says without an object around it
    takes_hints: bool = True  # whether its model is given what a hook says of a prompt, however it is run

    def entry(self, command: str) -> dict[str, Any]:
        """A command, for a shell, as it stands in a group."""
        return {"type": "command", "command": command, "timeout": self.timeout}


class Setup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where an agent looks for MCP servers, skills and hooks. A source may have one as `setup`; nothing that is read depends on it.

    The servers are in the first of the `files` that exists, or in the first: in the table or object that `keys` lead to. An entry is the
    command and what it is called with, apart or as one list, and `more`.
    """

    program: str  # what it is called in a shell
    files: tuple[Spot, ...]
    keys: tuple[str, ...]
    skills: Spot
    hooks: Hooks | None = None
    more: Mapping[str, Any] = {}  # never changed
    one_list: bool = False

    def entry(self, command: Sequence[str]) -> dict[str, Any]:
        """The entry of a server that this command starts."""
        if self.one_list:
            return {**self.more, "command": list(command)}
        return {**self.more, "command": command[0], "args": list(command[1:])}


S = TypeVar("S")


class Source(Protocol[S]):
    """An agent's format, pure: items in, operations out.

    The state is small and never changed in place. It is stored with the cursor, so that a restart between two lines changes nothing.

    Of units that are read as a whole (Document, Bundle, Rows), only the difference to what the index holds is written. A record's key must
    therefore be made from the agent's ids, not from a text that may still grow: the longer text is the same record.
    """

    @property
    def name(self) -> str:
        """What the source is called in the configuration and in answers."""

    @property
    def label(self) -> str:
        """What people call the agent."""

    @property
    def version(self) -> int:
        """Raise it when the same bytes give different operations: every unit that was read by an older version is then read again from its
        start, once. Units whose files are gone keep what they have. A new type of line is no reason, as long as nobody has such files."""

    @property
    def locations(self) -> tuple[Location, ...]:
        """Where the agent writes, when nothing is configured."""

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """What is read there: a file has the first shape that matches its path."""

    @property
    def resume(self) -> ResumeCommand | None:
        """How a session is resumed; None if it cannot be."""

    @property
    def asks(self) -> tuple[str, ...]:
        """The command that reads a prompt and prints what the model answers, gives it no tools, or none that change anything, and keeps no
        transcript; empty if there is none."""

    @property
    def tool_families(self) -> ToolFamilies:
        """The agent's tools by what they do. Nothing of it is in the index, so that a name can be added at any time."""

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
ANY_NAME = re.compile(r"\*\*/\*([^*/{}]*)")


class ShapeFinder:
    """Finds the shapes of files. A sweep asks for every file, so the ends of names are compared first; `**/*.suffix` needs no more."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._matchers = [_Matcher(shape) for shape in shapes]
        self._ways = [_Way(pattern.split("/")[:-1]) for shape in shapes for pattern in _files(shape)]
        self._ways += [
            _Way(shape.unit.split("/")) for shape in shapes if isinstance(shape, Bundle)
        ]  # may be a directory
        self._leads_everywhere = any(way.is_open and not way.heads for way in self._ways)

    def find(self, path: bytes) -> Shape | None:
        """The shape of a file, by its path below the root; None if the source does not read it."""
        for matcher in self._matchers:
            if path.endswith(matcher.ends) and matcher.matches(path):
                return matcher.shape
        return None

    def may_hold(self, directory: bytes) -> bool:
        """Whether a pattern may match in or below a directory, given as a path below the root; others are neither walked nor watched."""
        if self._leads_everywhere or not directory:
            return True
        parts = directory.split(b"/")
        return any(way.leads_into(parts) for way in self._ways)


class _Way:
    """The directories through which a pattern leads."""

    def __init__(self, parts: list[str]) -> None:
        self.is_open = "**" in parts  # from there on, into all of them
        self.heads = [_compile(part) for part in (parts[: parts.index("**")] if self.is_open else parts)]

    def leads_into(self, parts: list[bytes]) -> bool:
        if len(parts) > len(self.heads) and not self.is_open:
            return False
        return all(head.fullmatch(part) for head, part in zip(self.heads, parts, strict=False))


class _Matcher:
    def __init__(self, shape: Shape) -> None:
        patterns = _files(shape)
        self.shape = shape
        self.ends = tuple(re.split(r"[*}]", pattern)[-1].encode() for pattern in patterns)
        self._suffixes = tuple(end[1].encode() for pattern in patterns if (end := ANY_NAME.fullmatch(pattern)))
        self._patterns = [_compile(pattern) for pattern in patterns if not ANY_NAME.fullmatch(pattern)]

    def matches(self, path: bytes) -> bool:
        if path.endswith(self._suffixes) and not path.startswith(b"../"):
            return True
        return any(pattern.fullmatch(path) for pattern in self._patterns)


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

"""Paths that are never opened: globs over absolute paths, compiled into one regular expression, and the rules of `.sesameignore` files.

`*`, `?` and `[abc]` stay within a name, `**` crosses directories. A match excludes everything below it. A glob that
does not begin with `/` may match at any depth. When in doubt a path is excluded, because the glob may protect secrets.

A place may have several names: a glob counts for the one that it is written with, for the one that links lead to, and for the one that a
root was configured with. Where the file system takes names for one that differ in case, or in how letters are composed, so does a glob.

A `.sesameignore` at the top of a root holds for all that is below it, and is written like a `.gitignore`; so is one in a project, which
holds for the sessions that worked there (`ingest.project`). The matcher is our own: it is small, and a property test holds it to `git
check-ignore`.
"""

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from threading import Lock
from typing import NamedTuple

from sesamed.folding import FOLDS, fold

_TOKEN = re.compile(r"\*+|\?|\[[!^]?(?:\][^\]]*|[^\]]+)\]|[^*?\[]+|\[")
_MEMBER = re.compile(r".-.|.", re.DOTALL)
_GIT_TOKEN = re.compile(
    r"""\*{2,}(?:\\?/)?|\*|\?|\\.|[^*?\[\\]
    |\[[!^]?+(?>\[:[^\]]{0,32}:\]|(?:\\.|[^\\])(?:-(?:\\.|[^\\\]]))?)(?>\[:[^\]]{0,32}:\]|(?:\\.|[^\\\]])(?:-(?:\\.|[^\\\]]))?)*+\]""",
    re.DOTALL | re.VERBOSE,
)
_GIT_MEMBER = re.compile(r"\[:(?P<name>[^\]]{0,32}):\]|(?P<first>\\.|[^\\])(?:-(?P<last>\\.|[^\\\]]))?", re.DOTALL)
_STAR = "[^/]*"
_FLAT = {_STAR: "[^/]*?"}  # wildcards within a name, and as they are when another one follows
_DEEP = {"(?:.*/)?": "(?:.*?/)??", ".*/": ".*?/"}  # those across directories
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9", "graph": "!-~",
    "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r" \t-\r", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_WILD = re.compile(r"[*?\[]")


IGNORE_FILE = ".sesameignore"
MOST_BYTES = 32 << 10  # of such a file, which anybody may have written: 0.4 s to compile at worst


class Place(NamedTuple):
    """A directory that is read: as it is written, and where it is."""

    written: str
    real: str


class IgnoreFile(NamedTuple):
    """A `.sesameignore`, as it was last read."""

    path: str
    text: str | None = None  # None: it could never be read
    trouble: str | None = None  # why it cannot be read now


class _Root(NamedTuple):
    """What is to be asked for paths below a root."""

    written: str
    real: str
    file: IgnoreFile | None


class _Rules(NamedTuple):
    """What is excluded at the moment. Never changed: other threads ask."""

    expressions: tuple[str, ...] = ()
    roots: tuple[_Root, ...] = ()
    match: Callable[[str], object] | None = None
    ignored: tuple["Ignored | None", ...] = ()  # one for each root


class Exclusion:
    """All that is excluded. `refresh` when links, roots or files may have changed; `revision` grows when what is excluded has."""

    def __init__(self, globs: Iterable[str] = (), *, folds: bool = FOLDS, heeds_projects: bool = True) -> None:
        self.heeds_projects = heeds_projects  # whether a `.sesameignore` in a project counts
        self.revision = 0
        self.ignore_files: dict[str, IgnoreFile] = {}  # by the real paths of the roots
        self._globs = tuple(globs)
        self._fold = fold if folds else str
        self._folds = folds
        self._rules = _Rules()
        self._heads: dict[str, str] = {}  # where the beginnings of globs lead, as was last seen
        self._without_file = frozenset[str]()  # the real paths of the roots that have no `.sesameignore`, likewise
        self._refreshing = Lock()  # sweeps may come at one time
        self.refresh()

    def refresh(self, places: Iterable[Place] = ()) -> None:
        """Find out where links lead now, above what globs name and to the roots, and what the roots' `.sesameignore` say."""
        places = list(places)
        with self._refreshing:
            expressions = tuple(found for glob in self._globs for found in _expressions(glob, self._follow))
            files = {real: file for _, real in places if (file := self._read_file(real)) is not None}
            roots = tuple(_Root(self._spell(written), self._spell(real), files.get(real)) for written, real in places)
            roots = tuple(root for root in roots if root.file is not None or root.written != root.real)
            self.ignore_files = files
            self._without_file = frozenset(real for _, real in places if real not in files)
            if (expressions, roots) == (self._rules.expressions, self._rules.roots):
                return
            ignored = tuple(None if file is None else self._compile_file(file) for *_, file in roots)
            self._rules = _Rules(expressions, roots, self._compile(expressions), ignored)
            self.revision += 1

    @property
    def has_rules(self) -> bool:
        """Whether anything may be excluded."""
        return self._rules.match is not None or bool(self._rules.roots)

    def excludes(self, path: str, *, is_directory: bool = False) -> bool:
        """Whether this absolute path, or a directory above it, is excluded, and must not be opened."""
        return self._find(path, is_directory=is_directory, is_certain=False)

    def drops(self, path: str) -> bool:
        """Whether it must also go from the index: as long as nobody knows what a `.sesameignore` says, what is indexed stays."""
        return self._find(path, is_directory=False, is_certain=True)

    def _find(self, path: str, *, is_directory: bool, is_certain: bool) -> bool:
        rules = self._rules
        if rules.match is None and not rules.roots:
            return False
        path = self._fold(path)
        if rules.match is not None and rules.match(path + "/"):
            return True
        for (written, real, file), ignored in zip(rules.roots, rules.ignored, strict=True):
            if path.startswith(real + "/"):
                below = path[len(real) + 1 :]
                if rules.match is not None and rules.match(f"{written}/{below}/"):
                    return True
                is_asked = file is not None and (file.text is not None or not is_certain)
                if ignored is not None and is_asked and ignored.holds(below, is_directory=is_directory):
                    return True
        return False

    def _follow(self, head: str) -> str:
        """Where the beginning of a glob leads. As long as that cannot be seen, it leads where it did."""
        try:
            self._heads[head] = _real(head)
        except ValueError:  # no path
            return head
        except OSError:
            return self._heads.get(head, os.path.realpath(head or "/").rstrip("/"))
        return self._heads[head]

    def _read_file(self, real: str) -> IgnoreFile | None:
        """The `.sesameignore` of a root. As long as nobody can tell whether there is one, there is what there was. If nobody ever knew,
        nothing is opened: there may be one, and where not even that can be seen, there is little that could be read."""
        before = self.ignore_files.get(real)
        try:
            return read_ignore_file(real, before)
        except OSError as error:
            if real in self._without_file:
                return None
            text = None if before is None else before.text
            return IgnoreFile(os.path.join(real, IGNORE_FILE), text, error.strerror or str(error))

    def _spell(self, path: str) -> str:
        return self._fold(os.path.normpath(path)).rstrip("/")

    def _compile_file(self, file: IgnoreFile) -> "Ignored":
        return Ignored("*" if file.text is None else file.text, folds=self._folds)

    def _compile(self, expressions: tuple[str, ...]) -> Callable[[str], object] | None:
        if not expressions:
            return None
        spelled = [*expressions, *map(fold, expressions)] if self._folds else expressions
        return re.compile("|".join(dict.fromkeys(spelled)), _flags(self._folds)).match


def _flags(folds: bool) -> int:
    return re.DOTALL | (re.IGNORECASE if folds else 0)


def _expressions(glob: str, follow: Callable[[str], str]) -> Iterator[str]:
    anchored = glob if glob.startswith("/") else f"/**/{glob}"
    names = [name for name in anchored.split("/") if name not in ("", ".")]
    names = [name for i, name in enumerate(names) if name != "**" or names[i + 1 : i + 2] not in ([], ["**"])]
    wild = next((i for i, name in enumerate(names) if _WILD.search(name)), len(names))
    head, tail = "".join("/" + name for name in names[:wild]), names[wild:]
    for spelling in dict.fromkeys((head, follow(head))):  # roots are watched by their real paths
        yield re.escape(spelling) + "/" + "".join(_name(name) for name in tail)
    if "[" in glob:  # a directory may be called [id]
        yield re.escape("/" + "/".join(names)) + "/"


def _real(head: str) -> str:
    """Where a path leads, whether anything is there or not. Raises OSError if that cannot be seen: `realpath` takes what it cannot look at
    for no link, and the place behind it would be excluded no more.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.realpath(head or "/", strict=True).rstrip("/")
    return os.path.realpath(head or "/").rstrip("/")


def _name(name: str) -> str:
    if name == "**":
        return "(?:[^/]+/)*"
    return "".join(_piece(piece) for piece in _TOKEN.findall(name)) + "/"


def _piece(piece: str) -> str:
    if piece[0] == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    return _set(piece[1:-1]) if piece[0] == "[" and len(piece) > 1 else re.escape(piece)


def _set(body: str) -> str:
    negated = len(body) > 1 and body[0] in "!^"
    members = "".join(_member(member) for member in _MEMBER.findall(body[negated:]))
    return f"(?!/)[{'^' if negated else ''}{members}]"


def _member(member: str) -> str:
    if len(member) == 3 and member[0] <= member[2]:
        return f"{re.escape(member[0])}-{re.escape(member[2])}"
    return re.escape(member)


def read_ignore_file(directory: str, before: IgnoreFile | None) -> IgnoreFile | None:
    """The `.sesameignore` of a directory. While it cannot be read, it says what it said before; if nobody knows, nothing is opened. Raises
    OSError if nobody can tell whether there is one: what cannot be looked at is not absent, and whoever asks has to go by what they know.
    """
    path = os.path.join(directory, IGNORE_FILE)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except ValueError:  # no path
        return None
    except OSError as error:
        if not _is_there(path):
            return None
        trouble = error.strerror or str(error)
    else:
        try:
            data = _read_regular(descriptor)
            if data is not None and len(data) <= MOST_BYTES:
                return IgnoreFile(path, os.fsdecode(data).removeprefix("\ufeff"))
            trouble = "no regular file" if data is None else f"larger than {MOST_BYTES:,} bytes"
        except OSError as error:  # of the disk
            trouble = error.strerror or str(error)
        finally:
            os.close(descriptor)
    return IgnoreFile(path, None if before is None else before.text, trouble)


def _is_there(path: str) -> bool:
    """Whether there is anything, be it a link that leads nowhere. Raises OSError if that cannot be told."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _read_regular(descriptor: int) -> bytes | None:
    """The beginning of a file; None if it is a directory, or whatever else has no text of its own."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return None
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(MOST_BYTES + 1)


class Ignored:
    """What a file in the syntax of `.gitignore` excludes, by the paths below its directory."""

    def __init__(self, text: str, *, folds: bool = False) -> None:
        text = fold(text) if folds else text
        rules = [rule for line in text.split("\n") if (rule := _parse(line.removesuffix("\r"))) is not None]
        self._groups = [  # the last rule decides
            (*kind, re.compile("|".join(expression for _, expression in group), _flags(folds)).fullmatch)
            for kind, group in groupby(reversed(rules), key=lambda rule: rule[0])
        ]

    def holds(self, path: str, *, is_directory: bool) -> bool:
        """Whether a path, or a directory above it, is excluded. Below an excluded directory nothing is taken back in."""
        end = path.find("/")
        while end >= 0:
            if self._decide(path[:end], is_directory=True):
                return True
            end = path.find("/", end + 1)
        return self._decide(path, is_directory=is_directory)

    def _decide(self, path: str, *, is_directory: bool) -> bool:
        for is_negated, is_of_directories, match in self._groups:
            if (is_directory or not is_of_directories) and match(path):
                return not is_negated
        return False


def _parse(line: str) -> tuple[tuple[bool, bool], str] | None:
    """A line as a rule: whether it takes back in, whether it is of directories only, and its expression."""
    line = _strip_spaces(line)
    if not line or line.startswith("#"):
        return None
    is_negated = line.startswith("!")
    pattern = line[is_negated:]
    is_of_directories = pattern.endswith("/")
    pattern = pattern[:-1] if is_of_directories else pattern
    if not pattern or (expression := _wildmatch(pattern.removeprefix("/"))) is None:
        return None
    return (is_negated, is_of_directories), expression if "/" in pattern else f"(?:.*/)?{expression}"


def _strip_spaces(line: str) -> str:
    """The line without the spaces at its end, but for one behind a backslash."""
    bare = line.rstrip(" ")
    is_escaped = (len(bare) - len(bare.rstrip("\\"))) % 2 == 1
    return bare + " " if is_escaped and bare != line else bare


def _wildmatch(pattern: str) -> str | None:
    """A pattern as git matches it; None if it matches nothing."""
    found, at = list[str](), 0
    while at < len(pattern):
        token = _GIT_TOKEN.match(pattern, at)
        if token is None:
            return None  # a set without an end, or a backslash before nothing
        piece = _git_piece(token[0], is_first=at == 0 or pattern[at - 1] == "/", is_last=token.end() == len(pattern))
        if piece is None:
            return None
        found += [_STAR, "/"] if piece == f"{_STAR}/" else [piece]
        at = token.end()
    return _join(found, _DEEP)


def _join(pieces: Sequence[str], lazy: Mapping[str, str]) -> str:
    """The pieces as an expression. A wildcard before another one of its kind takes the first place where what is between them fits: any
    other would do no better, and to try all of them takes for ever with rules that somebody has made for that.
    """
    wild = [at for at, piece in enumerate(pieces) if piece in lazy]
    if not wild:
        return _join(pieces, _FLAT) if lazy is _DEEP else "".join(pieces)
    found = _join(pieces[: wild[0]], _FLAT) if lazy is _DEEP else "".join(pieces[: wild[0]])
    for at, end in zip(wild, [*wild[1:], len(pieces)], strict=True):
        between = pieces[at + 1 : end]
        inner = _join(between, _FLAT) if lazy is _DEEP else "".join(between)
        is_free = end == len(pieces) or (lazy is _FLAT and "/" in between)
        found += pieces[at] + inner if is_free else f"(?>{lazy[pieces[at]]}{inner})"
    return found


def _git_piece(token: str, *, is_first: bool, is_last: bool) -> str | None:
    if token.startswith("**") and is_first and (is_last or token.endswith("/")):
        return {"/": "(?:.*/)?", "\\/": ".*/"}.get(token.lstrip("*"), ".*")  # escaped, the slash must be there
    if token[0] == "*":
        return _STAR + "/" * token.endswith("/")
    if token[0] == "[":
        return _git_set(token[1:-1])
    return "[^/]" if token[0] == "?" else re.escape(token[-1])


def _git_set(body: str) -> str | None:
    is_negated = body[0] in "!^"
    members = list[str]()
    for member in _GIT_MEMBER.finditer(body, is_negated):
        first, last, name = member["first"], member["last"], member["name"]
        if name is not None:
            if name not in _CLASSES:
                return None
            members.append(_CLASSES[name])
        else:
            members.append(re.escape(first[-1]))
            if last is not None and first[-1] <= last[-1]:
                members.append(f"{re.escape(first[-1])}-{re.escape(last[-1])}")
    return f"(?!/)[{'^' if is_negated else ''}{''.join(members)}]"

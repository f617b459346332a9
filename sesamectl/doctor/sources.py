"""The session files on disk: which of them are in the index, and why the others are not; and which of their lines are not."""

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from shlex import quote
from typing import Any

from sesamectl.client import ANSWER_S, Client
from sesamectl.doctor.finding import NOTE, OK, Advice, Checkup, Finding
from sesamectl.render import number, size
from sesamed import discovery
from sesamed.config import digest_settings
from sesamed.exclusion import Exclusion, Place
from sesamed.paths import home
from sesamed.source import ShapeFinder
from sesamed.sources import SOURCES
from sesamed.sources.sesame import Sesame
from sesamed.store.upkeep import FileRow, list_files

MAX_LISTED = 3  # files of a kind, lines of a file
MOST_LISTED = 100  # files with bad lines, by --deep


class _Tally:
    """The files of a root by what became of them."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = {}

    def add(self, kind: str, path: bytes) -> None:
        self.files.setdefault(kind, []).append(os.fsdecode(path))

    def describe(self, kind: str) -> str:
        paths = self.files[kind]
        more = f" and {len(paths) - MAX_LISTED} more" if len(paths) > MAX_LISTED else ""
        return f"{len(paths)} {kind}: {', '.join(paths[:MAX_LISTED])}{more}"


MISSING = "not in the index"
BEHIND = "not read to the end"
UNREADABLE = "not readable by you"
NOT_YOURS = "of another user, and not readable by you"
WHY = (
    "excluded by the configuration or .sesameignore",
    "links or special files, which are never read",
    "without a session of this agent",
    "excluded by the .sesameignore of a project",
)


def check_roots(checkup: Checkup) -> Iterator[Finding]:
    """Whether what is configured is there and in effect, and what this shell's agents write to is watched."""
    paths, config, status = checkup.paths, checkup.config, checkup.status
    if paths is None or config is None:
        return
    file = paths.config_file
    named = [*(config.sources or ()), *config.extra_sources]
    for path in dict.fromkeys([*(root.path for root in named), *(config.pi_session_paths or ())]):
        if not os.path.isdir(path):
            state = "is not a directory" if os.path.lexists(path) else "does not exist"
            yield checkup.wrong("source", f"{file} names {path}, which {state}", Advice.CORRECT, file=quote(file))
    if status is None:
        return
    now = digest_settings(config)
    if status.get("settingsDigest", now) != now:
        yield checkup.wrong("source", f"{file} has changed since sesamed read it", Advice.RESTART)
    if config.sources is None and config.pi_session_paths is None:
        yield from _check_discovered(checkup, file, status["sources"])
    if not any(os.path.isdir(source["path"]) for source in status["sources"] if source["parser"] != Sesame.name):
        places = ", ".join(source["path"] for source in status["sources"] if source["parser"] != Sesame.name)
        yield Finding(NOTE, "source", f"no agent has written sessions yet; sesamed looks in {places}")


def _check_discovered(checkup: Checkup, file: str, sources: list[dict[str, Any]]) -> Iterator[Finding]:
    """Which directories a daemon keeps to is decided when it starts for the first time; variables that are set later change nothing."""
    watched = [(source["parser"], os.path.realpath(source["path"])) for source in sources]
    for root in discovery.discover(SOURCES.values(), checkup.environ, home(checkup.environ)):
        real = os.path.realpath(root.path)
        is_watched = any(root.parser == parser and (real + "/").startswith(path + "/") for parser, path in watched)
        if os.path.isdir(real) and not is_watched:
            label = SOURCES[root.parser].label
            text = f"{root.path} is where {label} keeps sessions, seen from this shell, but sesamed does not watch it"
            entry = json.dumps({"parser": root.parser, "path": root.path})
            yield checkup.wrong("source", text, Advice.ADD_ROOT, root=entry, file=quote(file))


def check_sources(checkup: Checkup) -> Iterator[Finding]:
    """What is on disk but not in the index, and why."""
    status, paths = checkup.status, checkup.paths
    if status is None or paths is None or checkup.config is None or not os.path.exists(paths.database):
        return
    indexed = list_files(paths.database)
    roots = [os.path.realpath(source["path"]) for source in status["sources"]]
    exclusion = Exclusion(checkup.config.exclude)
    exclusion.refresh(Place(source["path"], root) for source, root in zip(status["sources"], roots, strict=True))
    for source, root in zip(status["sources"], roots, strict=True):
        if not os.path.isdir(root):
            continue
        tally = _Tally()
        others = {os.fsencode(other) for other in roots} - {os.fsencode(root)}
        for path in _session_files(os.fsencode(root), others, source["parser"], tally):
            tally.add(_classify(path, indexed, exclusion.excludes), path)
        yield from _report(checkup, source, tally)


def check_lines(checkup: Checkup) -> Iterator[Finding]:
    """What could not be decoded, where and why; and what waits for the rest of its line."""
    status, hello = checkup.status, checkup.hello or {}
    if status is None or "list_bad_lines" not in hello.get("methods", ()):
        return
    with Client(status["socket"], ANSWER_S) as client:
        answer = client.call("list_bad_lines", limit=MOST_LISTED if checkup.deep else MAX_LISTED)
    for file in answer["files"]:
        yield Finding(NOTE, "lines", _describe_bad(file))
    if more := answer["total"] - len(answer["files"]):
        advice = None if checkup.deep else Advice.DEEP
        yield Finding(NOTE, "lines", f"{number(more, 'more file')} with lines that could not be decoded", advice)
    ends = answer["unfinished"]
    for end in ends[:MAX_LISTED]:
        text = f"{end['path']}: {size(end['bytes'])} at its end wait for the rest of the line"
        yield Finding(NOTE, "lines", text)
    if (more := len(ends) - MAX_LISTED) > 0:
        yield Finding(NOTE, "lines", f"{number(more, 'more file')} whose last line is not whole")
    if not answer["total"]:
        yield Finding(OK, "lines", "every complete line could be decoded")


def _describe_bad(file: Mapping[str, Any]) -> str:
    """A file by its first bad line, and where the next ones are."""
    first, *others = file["lines"]
    line = f":{first['line']}" if first["line"] else ""
    part = f" ({file['part']})" if file["part"] else ""
    text = f"{file['path']}{line}{part}: {first['reason']}"
    if (more := file["badLines"] - 1) > 0:
        places = ", ".join(str(bad["line"]) for bad in others[:MAX_LISTED] if bad["line"])
        text += f"; {number(more, 'more line')}{f': {places}' if places else ''}{', …' if more > MAX_LISTED else ''}"
    return text


def _session_files(top: bytes, others: set[bytes], parser: str, tally: _Tally) -> Iterator[bytes]:
    """Session files below a root, without those below another root in it."""

    finder = ShapeFinder(SOURCES[parser].shapes)

    def holds_session(path: bytes) -> bool:
        shape = finder.find(os.path.relpath(path, top))
        return shape is not None and not getattr(shape, "side", False)

    def unreadable(error: OSError) -> None:
        tally.add(_classify_unreadable(os.fsencode(error.filename)), os.fsencode(error.filename))

    for directory, directories, names in os.walk(top, onerror=unreadable):
        directories[:] = [name for name in directories if os.path.join(directory, name) not in others]
        yield from filter(holds_session, (os.path.join(directory, name) for name in sorted(names)))


def _classify(path: bytes, indexed: Mapping[bytes, FileRow], excludes: Callable[[str], bool]) -> str:
    """What became of one file."""
    if excludes(os.fsdecode(path)):
        return WHY[0]
    try:
        status = os.lstat(path)
    except OSError:
        return "gone"
    if not stat.S_ISREG(status.st_mode):
        return WHY[1]
    if not os.access(path, os.R_OK):
        return _classify_unreadable(path)
    seen = indexed.get(path)
    if seen is None or seen.is_withheld:
        return MISSING if seen is None else WHY[3]
    if (seen.size, seen.mtime_ns) != (status.st_size, status.st_mtime_ns) or not seen.is_complete:
        return BEHIND
    return "indexed" if seen.has_session or not status.st_size else WHY[2]


def _classify_unreadable(path: bytes) -> str:
    """Only its owner can change a file's mode."""
    try:
        return UNREADABLE if os.lstat(path).st_uid == os.geteuid() else NOT_YOURS
    except OSError:
        return NOT_YOURS


def _report(checkup: Checkup, source: dict[str, Any], tally: _Tally) -> Iterator[Finding]:
    place = f"{SOURCES[source['parser']].label} {source['path']}"
    indexed = len(tally.files.get("indexed", ()))
    why = "".join(f", {len(tally.files[kind])} {kind}" for kind in WHY if kind in tally.files)
    yield Finding(OK, "source", f"{place}: {indexed} files indexed{why}")
    todo = {MISSING: Advice.INDEX, BEHIND: Advice.INDEX, UNREADABLE: Advice.READABLE, NOT_YOURS: Advice.EXCLUDE}
    for kind, advice in todo.items():
        if kind in tally.files:
            paths = " ".join(map(quote, tally.files[kind][:MAX_LISTED]))
            file = "" if checkup.paths is None else quote(checkup.paths.config_file)
            yield checkup.wrong("source", f"{place}: {tally.describe(kind)}", advice, paths=paths, file=file)

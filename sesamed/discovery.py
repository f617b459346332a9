"""Which roots there are: from the sources' locations, the agents' settings and the configuration; and on which file systems changes
cause no events.

Looks at the agents' settings, opens no session, makes nothing, asks nobody whether a root is there. Where an agent writes is
its source's to say (`Location`).
"""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sesamed.config import Config, ConfiguredRoot, absolute, read_json5
from sesamed.folding import fold_here
from sesamed.source import Listing, Location, Source, Variable


def discover(sources: Iterable[Source[Any]], environ: Mapping[str, str], home: str) -> list[ConfiguredRoot]:
    """The default roots, whether they exist or not."""
    found = [
        ConfiguredRoot(parser=source.name, path=path)
        for source in sources
        for location in source.locations
        for path in _directories(location, environ, home)
    ]
    return without_nested(found)


class ProjectLists:
    """The agents' lists that get longer while we run, and the roots that they name."""

    def __init__(self, sources: Iterable[Source[Any]], environ: Mapping[str, str], home: str) -> None:
        self._home = home
        self._places = [
            (source.name, os.path.join(top, listing.file), listing)
            for source in sources
            for location in source.locations
            for listing in location.listings
            if listing.grows and (top := _top(location, environ, home)) is not None
        ]
        self._read: dict[str, tuple[int, ...]] = {}  # how each file looked when it was read

    def list_changed(self) -> list[ConfiguredRoot]:
        """The roots in lists that have changed since this was asked last: all of them, new or not."""
        return [root for parser, file, listing in self._places for root in self._list(parser, file, listing)]

    def _list(self, parser: str, file: str, listing: Listing) -> Iterator[ConfiguredRoot]:
        try:
            status = os.stat(file)
        except OSError:
            return
        looks = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._read.get(file) != looks:
            try:
                named = list(_list_named(file, listing, self._home))
            except OSError:  # asked again: what cannot be read now has not lost its roots
                return
            self._read[file] = looks
            for path in named:
                yield ConfiguredRoot(parser=parser, path=path)


def find_named_files(sources: Iterable[Source[Any]], environ: Mapping[str, str], home: str) -> frozenset[bytes]:
    """The files that the agents' variables name, by their real directories. They are the agents' own, whatever is in them."""
    named = (_find_named(location, environ, home) for source in sources for location in source.locations)
    return frozenset(_real(path) for path, variable in filter(None, named) if variable.names_file)


def list_in_projects(sources: Iterable[Source[Any]]) -> list[tuple[str, str]]:
    """The sources that are found in projects, and by which file."""
    return [
        (source.name, location.in_projects)
        for source in sources
        for location in source.locations
        if location.in_projects
    ]


def roots(config: Config, discovered: Sequence[ConfiguredRoot]) -> list[ConfiguredRoot]:
    """What to watch: `sources` and `piSessionPaths` replace what was discovered, `extraSources` adds to it."""
    named = config.sources is not None or config.pi_session_paths is not None
    pi = [ConfiguredRoot(parser="pi", path=path) for path in config.pi_session_paths or ()]
    chosen = [*(config.sources or ()), *pi] if named else list(discovered)
    return without_nested([*chosen, *config.extra_sources])


def without_nested(found: Sequence[ConfiguredRoot]) -> list[ConfiguredRoot]:
    """The roots in their order, without those inside another one of the same source."""
    unique = list(dict.fromkeys(found))
    return [root for root in unique if not any(_holds(other, root) for other in unique)]


def _directories(location: Location, environ: Mapping[str, str], home: str) -> Iterator[str]:
    top = _top(location, environ, home)
    if top is None:
        return
    yield from (os.path.normpath(os.path.join(top, name)) for name in location.directories)
    for listing in location.listings:
        with contextlib.suppress(OSError):
            yield from _list_named(os.path.join(top, listing.file), listing, home)


def _list_named(file: str, listing: Listing, home: str) -> Iterator[str]:
    """The directories that a file names, as roots. Raises OSError if it cannot be read."""
    named = (_resolve(value, home, os.path.dirname(file)) for value in _read_listing(file, listing))
    yield from (os.path.normpath(os.path.join(path, listing.below)) for path in named if path)


def _top(location: Location, environ: Mapping[str, str], home: str) -> str | None:
    """The directory of a location. A relative variable without a default means a different directory in every project, so it is ignored."""
    if named := _find_named(location, environ, home):
        path, variable = named
        return os.path.normpath(os.path.join(path, variable.below))
    return absolute(location.home, home) if location.home else None


def _find_named(location: Location, environ: Mapping[str, str], home: str) -> tuple[str, Variable] | None:
    """The path that the environment gives for a location, and the variable that names it."""
    for variable in location.moved_by:
        if path := _resolve(environ.get(variable.name), home, home if location.home else None):
            return path, variable
    return None


def _real(path: str) -> bytes:
    directory, name = os.path.split(path)
    return os.fsencode(os.path.join(os.path.realpath(directory), name))


def _read_listing(file: str, listing: Listing) -> list[str]:
    """The directories that a file of the agent's names. Broken, it is the agent's concern. Raises OSError where it cannot be read."""
    try:
        values = [read_json5(file)]
    except ValueError:
        return []
    for key in listing.keys:
        values = [inner for value in values for inner in _inner(value, key)]
    return [value for value in values if isinstance(value, str)]


def _inner(value: Any, key: str) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values()) if key == "*" else [value[key]] if key in value else []
    return value if isinstance(value, list) and key == "*" else []


def _resolve(value: str | None, home: str, base: str | None) -> str | None:
    with contextlib.suppress(ValueError):
        if value and base and not value.startswith(("~", "/")):
            return absolute(os.path.join(base, value), home)
        return absolute(value, home) if value else None
    return None


def _holds(outer: ConfiguredRoot, inner: ConfiguredRoot) -> bool:
    return (
        outer.parser == inner.parser
        and inner.path.startswith(outer.path.rstrip("/") + "/")
        and outer.path != inner.path
    )


# -- file systems without events

# Changes made by another host, or by the host of this guest, cause no events here. (Not in `watch`: the doctor needs no watchdog to ask.)
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\w*|fuse(\..+)?|9p|afs|ceph|glusterfs|lustre|gpfs|virtiofs|vboxsf|vmhgfs|prl_fs|drvfs|"
    r"afpfs|webdav|(mac|osx)fuse"  # as macOS calls them
)
_ESCAPE = re.compile(r"\\([0-7]{3})")
_MAC_MOUNT = re.compile(r".*? on (?P<point>/.*) \((?P<kind>\w+)[,)].*")
MOUNT_S = 5.0


def needs_polling(path: str, mounts: str | None = None) -> str | None:
    """The type of the file system of this real path if it reports no events, otherwise None."""
    text = _read_mounts() if mounts is None else mounts
    read = _mac_mount if sys.platform == "darwin" else _mount
    best, found, path = "", None, fold_here(path)
    for line in text.splitlines():
        mount_point, kind = read(line)
        is_above = f"{path}/".startswith(fold_here(mount_point).rstrip("/") + "/")
        if is_above and len(mount_point) >= len(best):  # the later hides the earlier
            best, found = mount_point, kind
    return found if found and _REMOTE.fullmatch(found) else None


def _mount(line: str) -> tuple[str, str]:
    """Mount point and type of a line such as `36 35 98:0 /root /mnt rw shared:1 - ext4 /dev/sda rw`."""
    before, _, after = line.partition(" - ")
    fields, kind = before.split(" "), after.partition(" ")[0]
    if len(fields) < 5 or not kind:
        return "\0", ""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind


def _mac_mount(line: str) -> tuple[str, str]:
    """Mount point and type of a line such as `//me@host/share on /Volumes/share (smbfs, nodev, nosuid, mounted by me)`."""
    found = _MAC_MOUNT.fullmatch(line)
    return ("\0", "") if found is None else (found["point"], found["kind"])


def _read_mounts() -> str:
    if sys.platform == "darwin":
        return _ask_for_mounts()
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read()
    except OSError:
        return ""


def _ask_for_mounts(program: str = "/sbin/mount") -> str:
    """What is mounted, in the words of the program that lists it."""
    try:
        listed = subprocess.run([program], capture_output=True, stdin=subprocess.DEVNULL, timeout=MOUNT_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return os.fsdecode(listed.stdout)

"""What a project is called on every machine: the address of its repository, written in one way; else its path.

Never runs git. Of a remote only the host and the path are taken: an address may hold a name and a password.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from typing import NamedTuple

MOST_BYTES = 256 << 10  # of a repository's configuration
MOST_FILES = 20  # that it includes
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=(.*)")
_PART = re.compile(r'"((?:[^"\\]|\\.)*)"?|\\(.)|([^"\\#;]+)|([#;])')
_ESCAPED = re.compile(r"\\(.)")
_ADDRESS = re.compile(
    r"^(?:ssh|git\+ssh|https?|git|ftps?)://(?:[^/]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[^/:@]+)(?::\d*)?/(?P<path>.+)$",
    re.IGNORECASE,
)
_SCP = re.compile(r"^(?:[^/@:]+@)?(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?!//)(?P<path>.+)$")
_SECRET = re.compile(
    r"[:@]"
)  # in a path: it may be the rest of a name and a password that were not written as they should
_HOSTS = {"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org"}
_SAME_IN_ANY_CASE = {"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"}
PREFERRED = ("upstream", "origin")  # whose forks these are; then where it was cloned from


class Remotes(NamedTuple):
    """Addresses of a repository, normalised: that by which it is called first; and whether these are all that it has."""

    addresses: list[str]
    are_all: bool = True


def identify(project: str | None) -> str:
    """The identity of a project, by its main worktree."""
    if not project:
        return ""
    return find_remote(project) or project


def find_remote(project: str) -> str | None:
    """The remote of the repository with this main worktree, normalised; None if there is none."""
    return next(iter(find_remotes(project).addresses), None)


def find_remotes(project: str) -> Remotes:
    """All of them."""
    reading = _Reading()
    if not os.path.isabs(project):
        return Remotes([])
    try:
        reading.read(_find_config(project))
    except OSError:
        reading.are_all = False
    remotes = reading.remotes
    names = [name for name in (*PREFERRED, *sorted(remotes, key=lambda name: (not name, name))) if name in remotes]
    found = [normalise(url) for name in names for url in remotes[name]]
    return Remotes(list(dict.fromkeys(address for address in found if address is not None)), reading.are_all)


def normalise(url: str) -> str | None:
    """`host/path`, however it was written; None for a repository on this machine."""
    found = _ADDRESS.match(url) or _SCP.match(url)
    if found is None or re.match(r"^[A-Za-z]:[\\/]", url) or _SECRET.search(found["path"]):
        return None
    host = found["host"].lower()
    host = _HOSTS.get(host, host)
    path = (
        re.sub(r"/+", "/", found["path"].partition("?")[0].partition("#")[0])
        .strip("/")
        .removesuffix(".git")
        .rstrip("/")
    )
    path = path.lower() if host in _SAME_IN_ANY_CASE else path
    return f"{host}/{path}" if path and ".." not in path.split("/") else None


class _Reading:
    """The remotes in a repository's configuration, and in what that includes."""

    def __init__(self) -> None:
        self.remotes: dict[str, list[str]] = {}  # addresses by name; without one such as may count or not
        self.are_all = True
        self._files = 0

    def read(self, path: str | None, *, is_certain: bool = True) -> None:
        """Read a file. Raises OSError where that cannot be."""
        self._files += 1
        text = None if path is None else _read_small(path)
        if path is None or text is None:
            return
        if self._files > MOST_FILES:
            raise OSError(errno.ELOOP, "too many files include others", path)
        for section, name, key, value in _list_settings(text):
            if section == "remote" and key in {"url", "pushurl"}:
                self.remotes.setdefault(name if is_certain and key == "url" else "", []).append(value)
            elif section in {"include", "includeif"} and key == "path":
                place = os.path.join(os.path.dirname(path), os.path.expanduser(value))
                self.read(place, is_certain=is_certain and section == "include")


def _list_settings(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Sections, their names, keys and values of a file as git writes it."""
    section = name = ""
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        begun = _SECTION.match(line)
        if begun is not None:
            section, dot, beside = begun[1].partition(".")
            section, name, line = section.lower(), beside if dot else _ESCAPED.sub(r"\1", begun[2] or ""), begun[3]
        if (setting := _SETTING.match(line)) is not None:
            yield section, name, setting[1].lower(), _read_value(setting[2])


def _read_value(written: str) -> str:
    parts: list[str] = []
    for quoted, escaped, plain, comment in _PART.findall(written):
        if comment:
            break
        parts.append(_ESCAPED.sub(r"\1", quoted) + escaped + plain)
    return "".join(parts).strip()


def _find_config(project: str) -> str | None:
    """The configuration of the repository of a main worktree; None if there is no repository. Raises OSError if there seems to be one."""
    for place in _list_places(project):
        path = os.path.join(place, "config")
        if os.path.exists(path):
            return path
    if os.path.lexists(os.path.join(project, ".git")):
        raise OSError(errno.ENOENT, "no configuration", project)
    return None


def _list_places(project: str) -> Iterator[str]:
    """Where the repository of a main worktree may be: where its `.git` says, in it, or itself, if it is bare."""
    marker = os.path.join(project, ".git")
    named = None if os.path.isdir(marker) else _read_small(marker)
    if named is not None and named.startswith("gitdir:"):
        place = os.path.normpath(os.path.join(project, named.split("\n", 1)[0][len("gitdir:") :].strip()))
        common = _read_small(os.path.join(place, "commondir"))
        yield place if common is None else os.path.normpath(os.path.join(place, common.strip()))
    yield marker
    yield os.path.join(project, ".bare")
    if project.endswith(".git"):
        yield project


def _read_small(path: str) -> str | None:
    """A small regular file, also behind a link; None if there is none. Raises OSError if it cannot be read, or is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise OSError(errno.EFBIG, "not a small regular file", path)
        return os.read(descriptor, MOST_BYTES).decode("utf-8", "replace")
    finally:
        os.close(descriptor)

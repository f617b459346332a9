"""What a project is called on every machine: the address of its repository, written in one way; else its path.

Never runs git. Of a remote only the host and the path are taken: an address may hold a name and a password.
"""

import os
import re
import stat
from collections.abc import Iterator

MOST_BYTES = 256 << 10  # of a repository's configuration
_SECTION = re.compile(r'^\s*\[\s*remote\s+"((?:[^"\\]|\\.)*)"\s*\]\s*$')
_URL = re.compile(r"^\s*url\s*=\s*(.+?)\s*$")
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


def identify(project: str | None) -> str:
    """The identity of a project, by its main worktree."""
    if not project:
        return ""
    return find_remote(project) or project


def find_remote(project: str) -> str | None:
    """The remote of the repository with this main worktree, normalised; None if there is none."""
    return next(iter(find_remotes(project)), None)


def find_remotes(project: str) -> list[str]:
    """All of them, that by which it is called first."""
    remotes = dict(_read_remotes(project))
    names = [name for name in (*PREFERRED, *sorted(remotes)) if name in remotes]
    found = (normalise(remotes[name]) for name in names)
    return list(dict.fromkeys(address for address in found if address is not None))


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


def _read_remotes(project: str) -> Iterator[tuple[str, str]]:
    """Names and addresses, the first of each name."""
    seen: set[str] = set()
    name: str | None = None
    for line in _read_config(project).split("\n"):
        if line.lstrip().startswith("["):
            section = _SECTION.match(line)
            name = None if section is None else section[1]
        elif name is not None and name not in seen and (url := _URL.match(line)):
            seen.add(name)
            yield name, url[1].strip('"')


def _read_config(project: str) -> str:
    for place in _list_places(project):
        text = _read_small(os.path.join(place, "config"))
        if text is not None:
            return text
    return ""


def _list_places(project: str) -> Iterator[str]:
    """Where the repository of a main worktree may be: in it, where its `.git` says, or itself, if it is bare."""
    marker = os.path.join(project, ".git")
    named = _read_small(marker)
    if named is not None and named.startswith("gitdir:"):
        yield os.path.normpath(os.path.join(project, named.split("\n", 1)[0][len("gitdir:") :].strip()))
    yield marker
    yield os.path.join(project, ".bare")
    if project.endswith(".git"):
        yield project


def _read_small(path: str) -> str | None:
    """A small regular file; None for anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(descriptor)

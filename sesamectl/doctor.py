"""What may be wrong, looked at one after the other. May use the daemon's own code: nobody waits for it as for a search.

A check yields findings, one line each: what was looked at, what is the case, and where that is wrong what to do. A finding that
is only worth knowing is a note. Nothing is changed, and nothing is started.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time

from sesamectl import __version__
from sesamectl.client import PROTOCOL, Client
from sesamectl.errors import ClientError, RpcError
from sesamectl.render import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from sesamed.config import Config
    from sesamed.paths import Paths

OK, NOTE, WRONG = "ok", "note", "wrong"
ANSWER_S = 15.0
SYNC_MS = 5000
FREE_BYTES = 256 << 20  # below this much free space an index may be unable to grow
SQLITE = (3, 51, 3)  # mends the WAL-reset fault
PRIVATE = {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "sesamed.lock", "sesamed.log", "start.lock"}
LIMITS = "/proc/sys/fs/inotify"
SPARE_WATCHES = 1024  # for editors and the like, which take from the same number


class Finding:
    """A line of the report."""

    __slots__ = ("level", "name", "text", "todo")

    def __init__(self, level: str, name: str, text: str, todo: str = "") -> None:
        self.level = level
        self.name = name
        self.text = text
        self.todo = todo


class Patient:
    """What is looked at: the places, the configuration, and what the daemon says of itself."""

    def __init__(self, environ: Mapping[str, str], *, deep: bool) -> None:
        self.environ = environ
        self.deep = deep
        self.place: Paths | None = None
        self.config: Config | None = None
        self.hello: dict[str, Any] | None = None
        self.status: dict[str, Any] | None = None


def examine(environ: Mapping[str, str], *, deep: bool) -> Iterator[Finding]:
    """All findings; a check that cannot be made is one, too."""
    from sesamectl.doctor_index import FURTHER
    from sesamed.errors import SesameError

    patient = Patient(environ, deep=deep)
    for name, check in (*CHECKS, *FURTHER):
        try:
            yield from check(patient)
        except SesameError as error:
            yield Finding(WRONG, name, error.message)
        except (ClientError, RpcError, OSError) as error:
            yield Finding(WRONG, name, str(error))


def _config(patient: Patient) -> Iterator[Finding]:
    from sesamed import paths
    from sesamed.config import Config, load
    from sesamed.errors import ConfigError
    from sesamed.sources import SOURCES

    patient.place = paths.find(patient.environ)
    file = patient.place.config_file
    try:
        patient.config = load(file, patient.environ, SOURCES.keys())
    except ConfigError as error:
        patient.config = Config()
        yield Finding(WRONG, "config", error.message, "mend it; until then no daemon starts")
        return
    there = "is in order" if os.path.exists(file) else "is not there: every setting has its default"
    yield Finding(OK, "config", f"{file} {there}")


def _paths(patient: Patient) -> Iterator[Finding]:
    """Whose they are, and that nobody else may enter."""
    if (place := patient.place) is None:
        return
    for directory in dict.fromkeys((place.data_dir, os.path.dirname(place.socket))):
        yield _private(directory, stat.S_ISDIR)
    for name in sorted(os.listdir(place.data_dir)) if os.path.isdir(place.data_dir) else ():
        if name in PRIVATE and (found := _private(os.path.join(place.data_dir, name), stat.S_ISREG)).level == WRONG:
            yield found


def _private(path: str, is_kind: Callable[[int], bool]) -> Finding:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Finding(NOTE, "paths", f"{path} is not made yet")
    if not is_kind(status.st_mode):
        return Finding(
            WRONG, "paths", f"{path} is something else than it should be", "move it away, then `sesamectl restart`"
        )
    if status.st_uid != os.geteuid():
        return Finding(
            WRONG, "paths", f"{path} belongs to uid {status.st_uid}, not to you", f"sudo chown {os.geteuid()} {path}"
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        return Finding(WRONG, "paths", f"{path} is open to others (mode {mode:o})", f"chmod go= {path}")
    return Finding(OK, "paths", f"{path} is yours alone")


def _socket(patient: Patient) -> Iterator[Finding]:
    """Who answers there, and whether it is who holds the lock."""
    if (place := patient.place) is None:
        return
    named = [f"{name}={value}" for name, value in patient.environ.items() if name.startswith("SESAME_") and value]
    if named:
        yield Finding(NOTE, "socket", f"the environment says {' '.join(named)}; shells without that look elsewhere")
    began = time.monotonic()
    try:
        with Client(place.socket, ANSWER_S) as client:
            patient.hello = client.call("hello", client="sesamectl")
            took_ms = (time.monotonic() - began) * 1000
            patient.status = client.call("status")
    except ClientError as error:
        yield Finding(WRONG, "socket", str(error))
        return
    pid = patient.hello.get("pid")
    yield Finding(OK, "socket", f"pid {pid} answers at {place.socket} in {took_ms:.1f} ms")
    if _mode(place.socket) & 0o077:
        yield Finding(WRONG, "socket", f"{place.socket} is open to others", f"chmod go= {place.socket}")
    if (holder := _holder(place.socket + ".lock")) != pid:
        yield Finding(WRONG, "socket", f"pid {holder} holds its lock, and pid {pid} answers", "`sesamectl restart`")


def _mode(path: str) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def _holder(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read(64).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _versions(patient: Patient) -> Iterator[Finding]:
    import sesamed

    if sesamed.__version__ != __version__:
        text = f"sesamectl {__version__} and sesamed {sesamed.__version__} are installed together"
        yield Finding(WRONG, "versions", text, "install sesame again")
    hello = patient.hello
    if hello is not None and hello.get("version") != __version__:
        text = f"sesamed {hello.get('version')} runs, sesamectl is {__version__}"
        yield Finding(WRONG, "versions", text, "`sesamectl restart`")
    elif hello is not None and not hello.get("minProtocol", 0) <= PROTOCOL <= hello.get("protocol", 0):
        yield Finding(
            WRONG,
            "versions",
            f"sesamed speaks protocol {hello.get('protocol')}, sesamectl {PROTOCOL}",
            "`sesamectl restart`",
        )
    else:
        python = ".".join(map(str, sys.version_info[:3]))
        yield Finding(OK, "versions", f"sesamectl and sesamed {__version__}, protocol {PROTOCOL}, Python {python}")
    said = (patient.status or {}).get("database", {}).get("sqliteVersion", "")
    if said and tuple(int(part) for part in said.split(".") if part.isdigit()) < SQLITE:
        yield Finding(
            WRONG, "versions", f"SQLite {said} can damage an index", "`pip install -U apsw`, then `sesamectl restart`"
        )


def _service(patient: Patient) -> Iterator[Finding]:
    from sesamectl import service
    from sesamectl.service_state import state

    if (place := patient.place) is None:
        return
    found = state(service.manager(), place.socket)
    if not found["installed"]:
        yield Finding(OK, "service", "none is installed; sesamectl starts the daemon when it is needed")
    elif found["missing"]:
        yield Finding(
            WRONG, "service", f"it is installed ({found['unit']}), but {found['missing']}", "`sesamectl start` for now"
        )
    elif not found["ours"]:
        yield Finding(NOTE, "service", f"{found['unit']} is for another socket than {place.socket}")
    elif not found["current"]:
        yield Finding(
            WRONG, "service", f"{found['unit']} is of another sesame, or changed", "`sesamectl service install`"
        )
    elif found["active"] != "active" or found["pid"] != found["answers"]:
        who = "nobody" if found["answers"] is None else "another process"
        text = f"it is {found['active']} ({found['result'] or 'never ran'}), and {who} answers"
        yield Finding(WRONG, "service", text, "`sesamectl service install`, `sesamectl service logs`")
    else:
        yield Finding(OK, "service", f"{found['unit']} is active{', ' + found['says'] if found['says'] else ''}")


def _watch(patient: Patient) -> Iterator[Finding]:
    """How changes are noticed, and whether the kernel has watches enough."""
    sources = (patient.status or {}).get("sources", [])
    for source in sources:
        for warning in source["warnings"]:
            yield Finding(WRONG if "raise fs.inotify" in warning else NOTE, "watch", f"{source['path']}: {warning}")
    modes = [source["mode"] for source in sources]
    if modes:
        counted = ", ".join(f"{modes.count(mode)} by {mode}" for mode in ("events", "polling") if mode in modes)
        yield Finding(
            OK, "watch", f"{counted or 'nothing'}; {modes.count('missing')} of {len(modes)} directories are not there"
        )
    needed, there = sum(source["directories"] for source in sources), _limit("max_user_watches")
    if there is not None and needed + SPARE_WATCHES > there:
        text = f"{needed} directories want to be watched, and all your programs together have {there} watches"
        yield Finding(WRONG, "watch", text, f"sudo sysctl fs.inotify.max_user_watches={max(2 * there, 4 * needed)}")
    elif there is not None:
        yield Finding(OK, "watch", f"{needed} directories to watch, of {there} (fs.inotify.max_user_watches)")


def _limit(name: str) -> int | None:
    try:
        with open(os.path.join(LIMITS, name), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _disks(patient: Patient) -> Iterator[Finding]:
    """File systems and free space."""
    from sesamed.mounts import needs_polling

    if (place := patient.place) is None:
        return
    there = place.data_dir
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    if (kind := needs_polling(os.path.realpath(there))) is not None:
        text = f"the index is on {kind}, where locks and shared memory cannot be relied on"
        yield Finding(WRONG, "disk", text, "set SESAME_DATA_DIR to a local directory")
    free, index = shutil.disk_usage(there).free, _size(place.database)
    wanted = max(FREE_BYTES, index)
    level = OK if free >= wanted else WRONG
    todo = "" if level == OK else f"free {size(wanted - free)} more: building the index anew takes as much as it has"
    yield Finding(level, "disk", f"{size(free)} free at {there}, the index has {size(index)}", todo)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _state(patient: Patient) -> Iterator[Finding]:
    """What the daemon itself has to say, and how fresh it is."""
    if (status := patient.status) is None:
        return
    for warning in status["warnings"]:
        yield Finding(WRONG, "state", warning["message"])
    fresh = status["freshness"]
    measured = (
        f"; appended lines are found after {fresh['p50Ms']:.1f} ms, 99 of 100 within {fresh['p99Ms']:.1f} ms"
        if fresh["samples"]
        else ""
    )
    yield Finding(OK if status["state"] != "degraded" else WRONG, "state", f"{status['state']}{measured}")
    with Client(status["socket"], ANSWER_S) as client:
        pending = client.call("sync", timeoutMs=SYNC_MS)["pending"]
    if pending["files"]:
        text = f"{pending['files']} files ({size(pending['bytes'])}) are not searchable yet after {SYNC_MS / 1000:g} s"
        level = NOTE if status.get("indexing") else WRONG
        yield Finding(level, "fresh", text, "wait for the index, `sesamectl status` says how far it is")
    else:
        yield Finding(OK, "fresh", "everything on disk is searchable")


CHECKS: tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...] = (
    ("config", _config), ("paths", _paths), ("socket", _socket), ("versions", _versions), ("service", _service),
    ("watch", _watch), ("disk", _disks), ("state", _state),
)  # fmt: skip

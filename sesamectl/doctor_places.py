"""The places: configuration, directories and files with their modes and owners, disks, and how changes are noticed."""

from __future__ import annotations

import os
import shutil
import stat

from sesamectl.doctor import NOTE, OK, WRONG, Finding
from sesamectl.render import size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sesamectl.doctor import Patient

FREE_BYTES = 256 << 20  # below this much free space an index may be unable to grow
PRIVATE = {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "sesamed.lock", "sesamed.log", "start.lock"}
LIMITS = "/proc/sys/fs/inotify"
SPARE_WATCHES = 1024  # for editors and the like, which take from the same number


def config(patient: Patient) -> Iterator[Finding]:
    from sesamed import paths as daemon_paths
    from sesamed.config import Config, load
    from sesamed.errors import ConfigError
    from sesamed.sources import SOURCES

    patient.place = daemon_paths.find(patient.environ)
    file = patient.place.config_file
    try:
        patient.config = load(file, patient.environ, SOURCES.keys())
    except ConfigError as error:
        patient.config = Config()
        yield Finding(WRONG, "config", error.message, "mend it; until then no daemon starts")
        return
    there = "is in order" if os.path.exists(file) else "is not there: every setting has its default"
    yield Finding(OK, "config", f"{file} {there}")


def paths(patient: Patient) -> Iterator[Finding]:
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


def disks(patient: Patient) -> Iterator[Finding]:
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


def watch(patient: Patient) -> Iterator[Finding]:
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

"""Configuration, directories and files with their modes and owners, disks, and how changes are noticed."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import zip_longest

from sesamectl.doctor.finding import NOTE, OK, WRONG, Checkup, Finding
from sesamectl.render import number, size
from sesamed.config import Config, load
from sesamed.discovery import needs_polling
from sesamed.errors import ConfigError
from sesamed.paths import find, find_other_use
from sesamed.sources import SOURCES

MIN_FREE_BYTES = 256 << 20
PRIVATE = {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "sesamed.lock", "sesamed.log", "start.lock"}
LIMITS = "/proc/sys/fs/inotify"
LIMIT_CODES = {"tooFewInstances", "tooFewWatches"}  # of the daemon's warnings, those that a sysctl fixes
SPARE_WATCHES = 1024  # for editors and other programs, which share the limit


def check_config(checkup: Checkup) -> Iterator[Finding]:
    """Whether config.jsonc is valid."""
    checkup.paths = find(checkup.environ)
    file = checkup.paths.config_file
    try:
        checkup.config = load(file, checkup.environ, SOURCES.keys())
    except ConfigError as error:
        checkup.config = Config()
        yield Finding(WRONG, "config", error.message, "fix it; no daemon starts until then")
        return
    state = "is valid" if os.path.exists(file) else "does not exist; all settings are defaults"
    yield Finding(OK, "config", f"{file} {state}")


def check_paths(checkup: Checkup) -> Iterator[Finding]:
    """Whether our directories and files belong to the user, and are closed to everybody else."""
    if (paths := checkup.paths) is None:
        return
    for directory in dict.fromkeys((paths.data_dir, os.path.dirname(paths.socket))):
        found = _check_private(directory, "directory", stat.S_ISDIR)
        if found.todo.startswith("chmod") and (why := find_other_use(directory, paths.owns)) is not None:
            todo = "set SESAME_DATA_DIR, SESAME_RUNTIME_DIR or SESAME_SOCKET to a directory that is only sesame's"
            found = Finding(WRONG, "paths", f"{directory} {why}", todo)
        yield found
    for name in sorted(os.listdir(paths.data_dir)) if os.path.isdir(paths.data_dir) else ():
        found = _check_private(os.path.join(paths.data_dir, name), "regular file", stat.S_ISREG)
        if name in PRIVATE and found.level == WRONG:
            yield found


def _check_private(path: str, kind: str, is_kind: Callable[[int], bool]) -> Finding:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Finding(NOTE, "paths", f"{path} does not exist yet")
    if not is_kind(status.st_mode):
        return Finding(WRONG, "paths", f"{path} is not a {kind}", "move it away, then `sesamectl restart`")
    if status.st_uid != os.geteuid():
        return Finding(
            WRONG, "paths", f"{path} belongs to uid {status.st_uid}, not to you", f"sudo chown {os.geteuid()} {path}"
        )
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        return Finding(WRONG, "paths", f"{path} is open to other users (mode {mode:o})", f"chmod go= {path}")
    return Finding(OK, "paths", f"{path} is private")


def check_disk(checkup: Checkup) -> Iterator[Finding]:
    """File systems and free space."""
    if (paths := checkup.paths) is None:
        return
    there = paths.data_dir
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    if (kind := needs_polling(os.path.realpath(there))) is not None:
        text = f"the index is on {kind}, where locks and shared memory are unreliable"
        yield Finding(WRONG, "disk", text, "set SESAME_DATA_DIR to a directory on a local disk")
    free, index = shutil.disk_usage(there).free, _size(paths.database)
    wanted = max(MIN_FREE_BYTES, index)
    level = OK if free >= wanted else WRONG
    todo = (
        "" if level == OK else f"free another {size(wanted - free)}: a rebuild needs as much space as the index has now"
    )
    yield Finding(level, "disk", f"{size(free)} free at {there}, the index takes {size(index)}", todo)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def check_watch(checkup: Checkup) -> Iterator[Finding]:
    """How changes are noticed, and whether the kernel allows enough watches."""
    sources = (checkup.status or {}).get("sources", [])
    for source in sources:
        for warning, code in zip_longest(
            source["warnings"], source.get("warningCodes", ())
        ):  # older daemons give no codes
            yield Finding(WRONG if code in LIMIT_CODES else NOTE, "watch", f"{source['path']}: {warning}")
    modes = [source["mode"] for source in sources]
    if modes:
        counted = ", ".join(f"{modes.count(mode)} by {mode}" for mode in ("events", "polling") if mode in modes)
        missing = f"; {modes.count('missing')} of {number(len(modes), 'root')} missing"
        yield Finding(OK, "watch", f"{counted or 'none watched'}{missing}")
    needed, limit = sum(source["directories"] for source in sources), _limit("max_user_watches")
    directories = f"{needed} director{'y' if needed == 1 else 'ies'}"
    if limit is not None and needed + SPARE_WATCHES > limit:
        text = f"{directories} to watch, but all your programs together get {limit} (fs.inotify.max_user_watches)"
        yield Finding(WRONG, "watch", text, f"sudo sysctl fs.inotify.max_user_watches={max(2 * limit, 4 * needed)}")
    elif limit is not None:
        yield Finding(OK, "watch", f"{directories} to watch, {limit} allowed (fs.inotify.max_user_watches)")


def _limit(name: str) -> int | None:
    try:
        with open(os.path.join(LIMITS, name), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None

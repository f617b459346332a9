"""Configuration, directories and files with their modes and owners, disks, and how changes are noticed."""

import os
import pwd
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import zip_longest
from shlex import quote

from sesamectl.doctor.finding import NOTE, OK, Advice, Checkup, Finding
from sesamectl.render import number, size
from sesamed.config import load
from sesamed.discovery import needs_polling
from sesamed.errors import ConfigError
from sesamed.paths import MADE_AGAIN, Paths, find_other_use, find_variable, home
from sesamed.sources import SOURCES
from sesamed.store.foreign import COPY
from sesamed.store.index import FILES

MIN_FREE_BYTES = 256 << 20
DIRECTORIES = ("sessions", COPY)
INDEX_FILES = [f"index.sqlite{suffix}" for suffix in FILES]
LIMITS = "/proc/sys/fs/inotify"
LIMIT_CODES = {  # of the daemon's warnings, those that a sysctl fixes
    "tooFewInstances": "max_user_instances",
    "tooFewWatches": "max_user_watches",
}
OWNERS = stat.S_IWUSR | stat.S_IXUSR
SPARE = 1024  # watches and instances for editors and other programs, which share the limits


def check_config(checkup: Checkup) -> Iterator[Finding]:
    """Whether config.jsonc is valid."""
    if (paths := checkup.paths) is None:
        return
    file = paths.config_file
    try:
        checkup.config = load(file, checkup.environ, SOURCES.keys())
    except ConfigError as error:
        goes_on = "" if checkup.hello is None else "; the running daemon keeps its settings"
        yield checkup.wrong("config", f"{error.message}{goes_on}", Advice.CORRECT, file=quote(file))
        return
    state = "is valid" if os.path.exists(file) else "does not exist; all settings are defaults"
    yield Finding(OK, "config", f"{file} {state}")


def check_paths(checkup: Checkup) -> Iterator[Finding]:
    """Whether our directories and files belong to the user, and are closed to everybody else."""
    if (paths := checkup.paths) is None:
        return
    for directory in dict.fromkeys((paths.data_dir, os.path.dirname(paths.socket))):
        yield _check_directory(checkup, paths, directory)
        for name in sorted(os.listdir(directory)) if _is_ours(directory) else ():
            kind = stat.S_ISDIR if name in DIRECTORIES else stat.S_ISSOCK if name.endswith(".sock") else stat.S_ISREG
            if paths.owns(name):
                found = _check_private(checkup, os.path.join(directory, name), kind)
                is_aside = name.startswith("index.sqlite") and name not in INDEX_FILES  # no daemon opens it
                if found.level != OK and (not is_aside or found.advice is Advice.CLOSE):
                    yield found


def _is_ours(directory: str) -> bool:
    try:
        status = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and os.access(directory, os.R_OK | os.X_OK)


def _check_directory(checkup: Checkup, paths: Paths, directory: str) -> Finding:
    variable = find_variable(checkup.environ, "data_dir" if directory == paths.data_dir else "socket") or "HOME"
    try:
        os.lstat(directory)
    except OSError as error:
        return _explain_missing(checkup, directory, error, variable)
    found = _check_private(checkup, directory, stat.S_ISDIR)
    if found.advice != Advice.CLOSE or (why := find_other_use(directory, paths.owns)) is None:
        return found
    text = f"{directory} {why}, so sesame does not make it private"
    names = sorted(os.listdir(directory))
    others = [name for name in names if not paths.owns(name)]
    is_home = os.path.realpath(directory) == os.path.realpath(home(checkup.environ))
    # What is in use must not be given up, unless everybody may write there.
    if len(others) < len(names) and not os.stat(directory).st_mode & stat.S_ISVTX:
        if is_home or not others:
            return checkup.close("paths", text, directory)
        return checkup.wrong(
            "paths", text, Advice.MOVE_OUT, names=", ".join(others[:3]) + (", ..." if others[3:] else "")
        )
    return checkup.wrong("paths", text, Advice.SET_VARIABLE, variable=variable)


def _explain_missing(checkup: Checkup, directory: str, error: OSError, variable: str) -> Finding:
    """Whether the daemon could make it where it belongs: by the nearest directory above it that is there."""
    above = os.path.dirname(directory)
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    status, text = os.lstat(above), f"{directory} cannot be made or opened"
    if not os.path.isdir(above):
        text += f": {above} is a {_name_kind(status.st_mode)}"
        if _is_ours(os.path.dirname(above)):
            return checkup.move_away("paths", text, above)
    elif not os.access(above, os.W_OK | os.X_OK):
        text += f": {above} is closed to you (mode {stat.S_IMODE(status.st_mode):o})"
        if status.st_uid == os.geteuid() and status.st_mode & OWNERS != OWNERS:
            return checkup.wrong("paths", text, Advice.WRITABLE, path=quote(above))
    elif isinstance(error, FileNotFoundError):
        return Finding(NOTE, "paths", f"{directory} does not exist yet")
    else:
        text += f": {error.strerror}"
    return checkup.wrong("paths", text, Advice.SET_VARIABLE, variable=variable)


def _check_private(checkup: Checkup, path: str, is_kind: Callable[[int], bool]) -> Finding:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Finding(NOTE, "paths", f"{path} does not exist yet")
    if status.st_uid != os.geteuid():
        return _explain_owner(checkup, path, status.st_uid)
    if stat.S_ISLNK(status.st_mode) and os.path.exists(path):
        real = quote(os.path.realpath(path))
        text = f"{path} is a symbolic link, which sesame does not follow"
        return checkup.wrong("paths", text, Advice.PUT_IN_PLACE, path=quote(path), real=real)
    if not is_kind(status.st_mode):
        return checkup.move_away("paths", f"{path} is a {_name_kind(status.st_mode)}; sesame needs that path", path)
    if status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        return checkup.close("paths", f"{path} is open to other users (mode {mode:o})", path)
    if stat.S_ISDIR(status.st_mode) and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        mode = stat.S_IMODE(status.st_mode)
        return checkup.wrong("paths", f"{path} is closed to you (mode {mode:o})", Advice.WRITABLE, path=quote(path))
    return Finding(OK, "paths", f"{path} is private")


def _explain_owner(checkup: Checkup, path: str, uid: int) -> Finding:
    """Whose it is. In a directory of the caller's it can make way; what is in somebody else's is theirs, as after `sudo`."""
    text = f"{path} belongs to {_name_user(uid)}, and you are {_name_user(os.geteuid())}"
    if os.lstat(os.path.dirname(path)).st_uid == os.geteuid():
        return checkup.move_away("paths", text, path)
    variable = find_variable(checkup.environ, "data_dir") or find_variable(checkup.environ, "socket") or "HOME"
    return checkup.wrong("paths", text, Advice.OWN_HOME, variable=variable)


def _name_user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _name_kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "directory", stat.S_IFREG: "regular file", stat.S_IFLNK: "link to nothing"}
    return kinds.get(stat.S_IFMT(mode), "special file")


def list_made_again(directory: str) -> list[str]:
    """What can be made again of what we keep in the data directory, by its name."""
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [os.path.join(directory, name) for name in names if re.fullmatch(MADE_AGAIN, name, re.DOTALL)]


def check_disk(checkup: Checkup) -> Iterator[Finding]:
    """File systems and free space."""
    if (paths := checkup.paths) is None:
        return
    there = paths.data_dir
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    if (kind := needs_polling(os.path.realpath(there))) is not None:
        text = f"the index is on {kind}; use it from one machine only, as locks and shared memory are not shared between machines"
        yield Finding(NOTE, "disk", text)
    if (kind := needs_polling(os.path.realpath(os.path.dirname(paths.socket)))) is not None:
        text = f"the socket {paths.socket} is on {kind}, where it leads to this machine only; SESAME_RUNTIME_DIR can name a local directory"
        yield Finding(NOTE, "disk", text)
    free, index = shutil.disk_usage(there).free, _size(paths.database)
    wanted = max(MIN_FREE_BYTES, index)
    text = f"{size(free)} free at {there}, the index takes {size(index)}"
    if free >= wanted:
        yield Finding(OK, "disk", text)
    else:
        why = "a rebuild needs as much space as the index has now"
        yield checkup.wrong("disk", f"{text}; {why}", Advice.FREE_SPACE, size=f"another {size(wanted - free)}")


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def check_watch(checkup: Checkup) -> Iterator[Finding]:
    """How changes are noticed, and whether the kernel allows enough watches."""
    sources = (checkup.status or {}).get("sources", [])
    needed = sum(source["directories"] for source in sources)
    for source in sources:
        for warning, code in zip_longest(
            source["warnings"], source.get("warningCodes", ())
        ):  # older daemons give no codes
            yield _explain_warning(checkup, f"{source['path']}: {warning}", code, needed)
    modes = [source["mode"] for source in sources]
    if modes:
        counted = ", ".join(f"{modes.count(mode)} by {mode}" for mode in ("events", "polling") if mode in modes)
        missing = f"; {modes.count('missing')} of {number(len(modes), 'root')} missing"
        yield Finding(OK, "watch", f"{counted or 'none watched'}{missing}")
    limit = _limit("max_user_watches")
    directories = f"{needed} director{'y' if needed == 1 else 'ies'}"
    if limit is not None and needed + SPARE > limit:
        text = f"{directories} to watch, but all your programs together get {limit} (fs.inotify.max_user_watches)"
        yield _raise_limit(checkup, text, "max_user_watches", limit, needed)
    elif limit is not None:
        yield Finding(OK, "watch", f"{directories} to watch, {limit} allowed (fs.inotify.max_user_watches)")


def _explain_warning(checkup: Checkup, text: str, code: str | None, needed: int) -> Finding:
    name = LIMIT_CODES.get(code or "")
    limit = None if name is None else _limit(name)
    return (
        Finding(NOTE, "watch", text)
        if name is None or limit is None
        else _raise_limit(checkup, text, name, limit, needed)
    )


def _raise_limit(checkup: Checkup, text: str, name: str, limit: int, needed: int) -> Finding:
    value = max(2 * limit, SPARE if name == "max_user_instances" else 4 * (needed + SPARE))
    return checkup.wrong("watch", text, Advice.RAISE_LIMIT, name=f"fs.inotify.{name}", value=value)


def _limit(name: str) -> int | None:
    try:
        with open(os.path.join(LIMITS, name), encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None

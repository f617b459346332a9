"""Where configuration, index and socket are, and that they are private.

Knows nothing of what is in the files. The socket follows from the uid, not from XDG variables: a shell under ssh and a service
started at login have different ones, and must meet.
"""

import os
import pwd
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from platformdirs.unix import Unix

from sesamed.errors import ConfigError
from sesamed.store import beside
from sesamed.store.foreign import COPY

MAX_SOCKET_BYTES = 103  # sun_path holds 104 bytes on macOS (108 on Linux), and the last one is NUL
# What is in the data directory: a directory with anything else in it is not only ours. What can be made again goes with `--purge`;
# sessions that we store ourselves, and the files that keep our promises, exist nowhere else.
INDEX = "index.sqlite"
HUB = "hub"  # sessions of other machines that are followed
MADE_AGAIN = (
    rf"{re.escape(INDEX)}.*|sesamed\.lock|sesamed\.log(\.\d)?|start\.lock|restart\.stamp|"
    rf"remember\.(lock|json(\.new)?)|{HUB}(\.json(\.new)?)?|{COPY}"
)
SESSIONS = "sessions"  # made before the index: a data directory that has it is ours
LASTING = "|".join(map(re.escape, (SESSIONS, *beside.NAMES)))


OWN_DIRECTORY = "sesamed"  # in the data directory, where the database of another program has the name of ours there
HEADER_BYTES = 72  # of a database: first says that it is one, last whose
HEADER_START, NOBODY = b"SQLite format 3\0", bytes(4)

# Which variables move what; the first one that is set counts.
VARIABLES = {
    "config_dir": ("SESAME_CONFIG_DIR", "XDG_CONFIG_HOME"),
    "data_dir": ("SESAME_DATA_DIR", "XDG_DATA_HOME"),
    "socket": ("SESAME_SOCKET", "SESAME_RUNTIME_DIR"),
}


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Every path that sesame writes to or reads its configuration from, all absolute."""

    config_dir: str
    data_dir: str
    runtime_dir: str
    socket: str

    @property
    def config_file(self) -> str:
        return os.path.join(self.config_dir, "config.jsonc")

    @property
    def database(self) -> str:
        return os.path.join(self.data_dir, INDEX)

    @property
    def neighbour(self) -> str | None:
        """The database of another program that has the name of ours in the directory around ours."""
        around, name = os.path.split(self.data_dir)
        path = os.path.join(around, INDEX)
        return path if name == OWN_DIRECTORY and os.path.exists(path) else None

    def owns(self, name: str) -> bool:
        """Whether this is what the daemon and its clients call something that they keep in their directories."""
        stem = re.escape(os.path.basename(self.socket)[:-1])  # a socket that is being made ends in another character
        return re.fullmatch(rf"{MADE_AGAIN}|{LASTING}|{stem}.(\.lock)?", name, re.DOTALL) is not None


def find(environ: Mapping[str, str]) -> Paths:
    """The paths of this user. Creates nothing."""
    defaults = Unix("sesame", appauthor=False)
    socket = _override(environ, "SESAME_SOCKET")
    directory = _override(environ, "SESAME_RUNTIME_DIR") or (os.path.dirname(socket) if socket else None)
    runtime_dir = directory or default_runtime_dir(os.geteuid())
    return Paths(
        config_dir=_override(environ, "SESAME_CONFIG_DIR") or defaults.user_config_dir,
        data_dir=choose_directory(_check_text(_override(environ, "SESAME_DATA_DIR") or defaults.user_data_dir)),
        runtime_dir=runtime_dir,
        socket=_check_length(socket or os.path.join(runtime_dir, "sesamed.sock")),
    )


def choose_directory(given: str) -> str:
    """The data directory itself; one in it where the TypeScript sesame has its index, which is named as ours. Once chosen it stays.

    `sesamectl.locations` chooses alike, as a test holds.
    """
    own = os.path.join(given, OWN_DIRECTORY)
    if _has_sessions(own):
        return own
    if _has_sessions(given):  # whatever has become of our index there: what must outlive it is there, too
        return given
    return own if _is_of_nobody(os.path.join(given, INDEX)) else given


def _has_sessions(directory: str) -> bool:
    """Whether a directory has been chosen. One that is there and cannot be looked into counts as such: in another one nobody would know
    what was forgotten, and it would come back.
    """
    try:
        return stat.S_ISDIR(os.stat(os.path.join(directory, SESSIONS)).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return os.path.lexists(directory)


def _is_of_nobody(path: str) -> bool:
    """Whether this is a database that does not say whose it is: ours does. It is not opened by SQLite, which would leave files there."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        header = os.pread(descriptor, HEADER_BYTES, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return header.startswith(HEADER_START) and header.endswith(NOBODY) and len(header) == HEADER_BYTES


def _check_text(path: str) -> str:
    """SQLite opens no other paths."""
    try:
        path.encode()
    except UnicodeEncodeError:
        name = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise ConfigError(f"the data directory {name} is not UTF-8; set SESAME_DATA_DIR to another one") from None
    return path


def find_variable(environ: Mapping[str, str], name: str) -> str | None:
    """The variable that says where this is; None if it is where it is by default."""
    return next((variable for variable in VARIABLES[name] if environ.get(variable)), None)


def default_runtime_dir(uid: int, run_user: str = "/run/user") -> str:
    """The socket's directory when no variable names one."""
    login = os.path.join(run_user, str(uid))
    if _is_private(login, uid):
        return os.path.join(login, "sesame")
    return os.path.join(_passwd_home(uid), ".local/state/sesame/run")


def home(environ: Mapping[str, str]) -> str:
    """What `~` stands for: HOME, or the home in passwd when HOME is missing or not absolute."""
    value = environ.get("HOME", "")
    return os.path.normpath(value) if os.path.isabs(value) else _passwd_home(os.geteuid())


def make_private(path: str, owns: Callable[[str], bool] = lambda name: True) -> None:
    """Create the directory, or check that it is ours and not a link; then close it to everyone else, unless others use it."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise _refusal(path, error) from error
    with _open_checked(path, owns) as (descriptor, mode):
        if mode & 0o077:
            os.fchmod(descriptor, mode & 0o700)


def check_private(path: str, owns: Callable[[str], bool]) -> None:
    """Raise what `make_private` would raise about a directory that is there."""
    if os.path.lexists(path):
        with _open_checked(path, owns):
            pass


@contextmanager
def _open_checked(path: str, owns: Callable[[str], bool]) -> Iterator[tuple[int, int]]:
    """A directory that is ours and that nobody else uses, and its mode; by descriptor, so that what was checked is what is changed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise _refusal(path, error) from error
    try:
        yield descriptor, _check_use(path, descriptor, owns)
    except OSError as error:
        raise _refusal(path, error) from error
    finally:
        os.close(descriptor)


def find_other_use(place: str | int, owns: Callable[[str], bool]) -> str | None:
    """Why a directory that is open to others must stay so; None if nobody but us uses it. `place` may be a descriptor."""
    status, names = os.stat(place), os.listdir(place)
    if status.st_mode & stat.S_ISVTX:
        return "is shared with other users (it has the sticky bit)"
    if _is_home(status, home(os.environ)):
        return "is a home directory"
    if strangers := sorted(name for name in names if not owns(name)):
        return f"contains files of other programs ({strangers[0]!r}{', ...' if len(strangers) > 1 else ''})"
    # A client may have been here, which closes nothing. The daemon has a lock in each of its directories.
    is_used = any(name.endswith(".lock") and name != "start.lock" for name in names)
    if status.st_mode & stat.S_IWOTH and not is_used:
        return "can be written by all users"
    return None


def _is_home(status: os.stat_result, home_dir: str) -> bool:
    try:
        return os.path.samestat(status, os.stat(home_dir))
    except OSError:
        return False


def _check_use(path: str, descriptor: int, owns: Callable[[str], bool]) -> int:
    """The directory's mode, unless it is somebody else's or has to stay open to others."""
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to uid {status.st_uid}, not to you (uid {os.geteuid()}); see `sesamectl doctor`",
            path=path,
        )
    if status.st_mode & 0o077 and (why := find_other_use(descriptor, owns)) is not None:
        raise ConfigError(
            f"{path} {why}, so it is not made private; use a directory that is only sesame's"
            " (SESAME_DATA_DIR, SESAME_RUNTIME_DIR and SESAME_SOCKET say where)",
            path=path,
        )
    return stat.S_IMODE(status.st_mode)


def _refusal(path: str, error: OSError) -> ConfigError:
    if os.path.islink(path):
        real = os.path.realpath(path)
        return ConfigError(f"{path} is a symbolic link; use the directory itself ({real})", path=path)
    why = error.strerror or str(error)
    return ConfigError(
        f"{path} cannot be made a private directory: {why}; fix that, or use another directory", path=path
    )


def _is_private(path: str, uid: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077


def _passwd_home(uid: int) -> str:
    try:
        directory = pwd.getpwuid(uid).pw_dir
    except KeyError:
        directory = ""
    if not os.path.isabs(directory):
        raise ConfigError(
            f"uid {uid} has no home directory in passwd; set HOME and SESAME_RUNTIME_DIR to absolute paths"
        )
    return os.path.normpath(directory)


def _override(environ: Mapping[str, str], name: str) -> str | None:
    value = environ.get(name)
    if not value:
        return None
    if not os.path.isabs(value):  # daemon and client have different working directories
        raise ConfigError(f"{name} is {value!r}, which is not an absolute path", variable=name)
    return os.path.normpath(value)


def _check_length(socket: str) -> str:
    size = len(os.fsencode(socket))
    if size > MAX_SOCKET_BYTES:
        raise ConfigError(
            f"the socket path {socket} has {size} bytes, more than the {MAX_SOCKET_BYTES} that can be bound;"
            " set SESAME_RUNTIME_DIR or SESAME_SOCKET to a shorter path",
            path=socket,
        )
    return socket

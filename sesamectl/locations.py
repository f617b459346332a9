"""Where the daemon's socket and data are. Knows nothing of how to talk to it.

The order of sockets is in docs/protocol.md; the daemon and pi have their own copies, which a test holds equal. It follows from
the user, not from XDG variables, so that a shell under ssh, a tmux and a login service agree.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "sesamed.sock"
OWN_DIRECTORY = "sesamed"
SESSIONS = "sessions"  # made by the daemon before the index
HEADER_BYTES = 72  # of a database: first says that it is one, last whose
HEADER_START, NOBODY = b"SQLite format 3\0", bytes(4)
MAX_SOCKET_BYTES = 103  # sun_path holds 104 bytes on macOS (108 on Linux), and the last one is NUL


def socket_path(environ: Mapping[str, str]) -> str:
    """The socket's path; raises LookupError when the user has no home."""
    if path := environ.get("SESAME_SOCKET"):
        return os.path.normpath(path)
    if directory := environ.get("SESAME_RUNTIME_DIR"):
        return os.path.join(os.path.normpath(directory), NAME)
    return os.path.join(default_directory(os.geteuid()), NAME)


def default_directory(uid: int, run_user: str = "/run/user") -> str:
    """The socket's directory when no variable names one."""
    if is_private(runtime := f"{run_user}/{uid}", uid):
        return os.path.join(runtime, "sesame")
    return os.path.join(_home(uid), ".local/state/sesame/run")


def data_directory(environ: Mapping[str, str]) -> str:
    """Where the daemon keeps its index, and its log when a client started it; as platformdirs tells the daemon."""
    if directory := environ.get("SESAME_DATA_DIR"):
        return choose_directory(os.path.normpath(directory))
    if os.path.isabs(base := environ.get("XDG_DATA_HOME", "").strip()):
        return choose_directory(os.path.join(base, "sesame"))
    return choose_directory(os.path.join(os.path.expanduser("~/.local/share"), "sesame"))


def config_file(environ: Mapping[str, str]) -> str:
    """The daemon's configuration, as platformdirs tells it; a test holds that."""
    if directory := environ.get("SESAME_CONFIG_DIR"):
        return os.path.join(os.path.normpath(directory), "config.jsonc")
    base = environ.get("XDG_CONFIG_HOME", "").strip()
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "sesame", "config.jsonc")


def choose_directory(given: str) -> str:
    """The data directory itself; one in it where the TypeScript sesame has its index. `sesamed.paths` says why, and chooses alike."""
    own = os.path.join(given, OWN_DIRECTORY)
    if _has_sessions(own):
        return own
    if _has_sessions(given):
        return given
    return own if _is_of_nobody(os.path.join(given, "index.sqlite")) else given


def _has_sessions(directory: str) -> bool:
    """Whether a directory has been chosen; one that is there and cannot be looked into counts as such."""
    try:
        return stat.S_ISDIR(os.stat(os.path.join(directory, SESSIONS)).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return os.path.lexists(directory)


def _is_of_nobody(path: str) -> bool:
    """Whether this is a database that does not say whose it is."""
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


def is_private(path: str, uid: int) -> bool:
    """Whether the path is a directory of this user that nobody else can enter. A symbolic link is not: what it names may change."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077


def _home(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        raise LookupError(f"uid {uid} has no home in passwd; set SESAME_SOCKET to the daemon's socket") from None

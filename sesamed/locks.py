"""A single instance, by a lock that the kernel releases when the process ends for whatever reason.

The file is never unlinked, because then two processes could hold it. Its contents are for people and for clients that compare
versions; only the lock counts.
"""

import errno
import fcntl
import os
from types import TracebackType

from sesamed import __version__
from sesamed.errors import ConfigError, LockedError


class Lock:
    """An exclusive lock, held until `release`, the end of the process, or the end of the object."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> "Lock":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def acquire(path: str) -> Lock:
    """Take the lock, or raise LockedError immediately, with the holder's pid if known."""
    while True:
        descriptor = _open(path)
        try:
            _lock(path, descriptor)
            if _is_at(path, descriptor):
                _write_owner(descriptor)
                return Lock(path, descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the file was removed between open and flock: lock the new one


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot open the lock {path}: {error.strerror}; fix that, or use another directory", path=path
        ) from error


def _lock(path: str, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise ConfigError(
                f"cannot lock {path}: {error.strerror}; use a directory on a local disk", path=path
            ) from error
        pid, holder = _holder(descriptor)
        raise LockedError(f"{holder} is already running (it holds {path}); stop it first", path=path, pid=pid) from None


def _holder(descriptor: int) -> tuple[int | None, str]:
    pid, _, version = os.pread(descriptor, 64, 0).decode("ascii", "replace").strip().partition(" ")
    return (int(pid), f"sesamed {version} with pid {pid}") if pid.isdecimal() else (None, "another sesamed")


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _write_owner(descriptor: int) -> None:
    os.fchmod(descriptor, 0o600)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {__version__}\n".encode("ascii"), 0)

"""A file of somebody else's that is changed: as a whole or not at all, through a link, with the one before kept beside it. Whoever writes
to it meanwhile loses nothing: what they wrote is what is changed.
"""

import os
import stat
import tempfile
from collections.abc import Callable
from typing import TypeVar

from sesamectl.errors import RefusedError
from sesamectl.setup.document import is_blank, says_as_little

Edit = Callable[[str], str]
T = TypeVar("T")

BACKUP = ".before-sesame"
MAX_BYTES = 64 << 20
TRIES = 5


class _ChangedError(Exception):
    """Somebody has written to the file meanwhile."""


def read(path: str) -> str | None:
    """What is in the file; None if there is none."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise RefusedError(f"cannot read {path}: it is no regular file")
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise RefusedError(f"{path} is too large")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedError(f"{path} is not UTF-8") from None


def _open_at_once(path: str, flags: int) -> int:
    """A pipe, too, which would wait for somebody to write to it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def write(path: str, edit: Edit) -> str | None:
    """Put in the file's place what `edit` makes of it; gives the path of the one before, if there was one."""
    return _try(path, lambda real: _write(real, edit))


def take_out(path: str, edit: Edit, is_ours: Callable[[str], bool]) -> bool:
    """Put in the file's place what `edit` leaves of it; gives whether that is less than there was. One in which nothing is left goes, or is
    what it was before, if that was nothing either; and what was kept of one that is now as it was is not needed any more. `is_ours` says
    whether there is anything of ours in a text.
    """
    return _try(path, lambda real: _take_out(real, edit, is_ours))


def _try(path: str, step: Callable[[str], T]) -> T:
    real = os.path.realpath(path)
    try:
        for _ in range(TRIES):
            try:
                return step(real)
            except _ChangedError:
                continue
    except OSError as error:
        raise RefusedError(f"cannot write {real}: {error.strerror}") from None
    raise RefusedError(f"{path} is being written to all the time, and was left as it is; try again")


def _write(path: str, edit: Edit) -> str | None:
    before = read(path)
    text = edit(before or "")
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    like = None if before is None else _look_at(path)
    if before is not None:
        _replace(path + BACKUP, before, like)
    _replace(path, text, like, lambda: _require(path, before))
    return None if before is None else path + BACKUP


def _take_out(path: str, edit: Edit, is_ours: Callable[[str], bool]) -> bool:
    before = read(path)
    if before is None or (text := edit(before)) == before:  # an agent that writes has a file empty for a moment
        return False
    kept = read(path + BACKUP)
    like = _look_at(path)
    if kept is not None and is_ours(kept):  # kept when something of ours was renewed
        os.unlink(path + BACKUP)
        kept = None
    if kept is None and is_blank(text):
        _require(path, before)
        os.unlink(path)
        return True
    left = kept if kept is not None and says_as_little(path, kept, text) else text
    _replace(path, left, like, lambda: _require(path, before))
    if kept == left:
        os.unlink(path + BACKUP)
    return True


def _require(path: str, text: str | None) -> None:
    """Raise _ChangedError if this is not in the file any more. Agents write to their settings at any time, and know of no lock."""
    if read(path) != text:
        raise _ChangedError


def _look_at(path: str) -> os.stat_result:
    found = os.stat(path)
    if not found.st_mode & 0o200:  # replacing the file would work, but is not what is meant by that
        raise RefusedError(f"{path} is read-only, and was left as it is")
    return found


def _replace(path: str, text: str, like: os.stat_result | None, check: Callable[[], None] = lambda: None) -> None:
    """With the owner and the mode of `like`; a new file is private."""
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".sesame-")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            if like is not None:
                _make_like(file.fileno(), like)
            os.fsync(file.fileno())
        check()
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _make_like(descriptor: int, like: os.stat_result) -> None:
    if os.fstat(descriptor).st_uid != like.st_uid:  # root's would be closed to the person whose file it was
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, like.st_mode & 0o777)

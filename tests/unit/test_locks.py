"""One instance."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sesamed import __version__, locks
from sesamed.errors import ConfigError, LockedError


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    """A second one is refused at once, and told who holds it."""
    path = str(tmp_path / "lock")
    with locks.acquire(path) as lock:
        assert lock.is_held
        with pytest.raises(
            LockedError, match=f"sesamed {__version__} with pid {os.getpid()} is already running .it holds {path}"
        ) as caught:
            locks.acquire(path)
        assert caught.value.data["pid"] == os.getpid()


def test_a_released_lock_is_free(tmp_path: Path) -> None:
    """Whoever lets go lets the next one in; the file stays."""
    path = str(tmp_path / "lock")
    first = locks.acquire(path)
    first.release()
    first.release()
    assert not first.is_held
    assert os.path.exists(path)
    locks.acquire(path).release()


def test_the_file_is_private_and_says_who(tmp_path: Path) -> None:
    """0600, also where an open one was there before; nothing of an earlier holder is left in it."""
    path = tmp_path / "lock"
    path.write_text("4194304 99.99.99 and something long\n")
    path.chmod(0o644)
    with locks.acquire(str(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == f"{os.getpid()} {__version__}\n"


def test_a_holder_without_a_name_is_still_one(tmp_path: Path) -> None:
    """The lock counts, not what is in the file."""
    path = tmp_path / "lock"
    with locks.acquire(str(path)):
        path.write_bytes(b"\xff garbage")
        with pytest.raises(LockedError, match="another sesamed is already running") as caught:
            locks.acquire(str(path))
        assert caught.value.data["pid"] is None


@pytest.mark.fault(74)
def test_children_do_not_inherit_the_lock(tmp_path: Path) -> None:
    """A program that we start holds no lock of ours when we have let go."""
    path = str(tmp_path / "lock")
    lock = locks.acquire(path)
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"\n"
        lock.release()
        locks.acquire(path).release()
        child.communicate(b"\n")


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    """A crash leaves nothing behind that must be cleaned up."""
    path = str(tmp_path / "lock")
    code = "import os, sys; from sesamed import locks; locks.acquire(sys.argv[1]); os.kill(os.getpid(), 9)"
    root = Path(locks.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code, path], cwd=root, check=False).returncode == -9
    locks.acquire(path).release()


def test_a_lost_object_is_no_lost_lock(tmp_path: Path) -> None:
    """The lock stays held when nobody remembers the object."""
    path = str(tmp_path / "lock")
    descriptor = locks.acquire(path)._descriptor
    assert descriptor is not None
    with pytest.raises(LockedError):
        locks.acquire(path)
    os.close(descriptor)


def test_a_file_that_was_removed_meanwhile_is_not_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the file that is at the path once the lock is held."""
    path = str(tmp_path / "lock")
    flock, removed = fcntl.flock, False

    def remove_once(descriptor: int, operation: int) -> None:
        nonlocal removed
        if not removed:
            removed = True
            os.unlink(path)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_once)
    with locks.acquire(path), pytest.raises(LockedError):
        locks.acquire(path)


@pytest.mark.fault(70)
def test_a_disk_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no locks, the message says what to do."""

    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match="No locks available; use a directory on a local disk"):
        locks.acquire(str(tmp_path / "lock"))


def test_a_lock_file_that_cannot_be_is_an_error_that_says_so(tmp_path: Path) -> None:
    """A link, a directory or a missing parent is refused with the path."""
    (tmp_path / "link").symlink_to("elsewhere")
    for path in (tmp_path / "link", tmp_path, tmp_path / "none/lock"):
        with pytest.raises(ConfigError, match=f"cannot open the lock {path}"):
            locks.acquire(str(path))
    assert not os.path.exists(tmp_path / "elsewhere")

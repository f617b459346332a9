"""Who holds a daemon's lock."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from sesamectl.holder import find_holder, is_alive


def test_who_is_alive() -> None:
    """A process is alive whoever owns it, and not once it was waited for."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    assert is_alive(process.pid)
    process.kill()
    process.wait()
    assert not is_alive(process.pid)
    assert is_alive(1)
    assert not is_alive(1 << 80)


def test_who_holds_it(tmp_path: Path) -> None:
    """Whoever is named in it, while it is locked."""
    path = tmp_path / "lock"
    assert find_holder(str(path)) is None
    path.write_text(f"{os.getpid()} 1.2.3\n")
    assert find_holder(str(path)) is None
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert find_holder(str(path)) == {"pid": os.getpid(), "version": "1.2.3"}


def test_who_only_asks_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock that names a dead process is not touched: a daemon that takes it at that moment would give up."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("touched"))
    path = tmp_path / "lock"
    path.write_text(f"{1 << 30} 1.2.3\n")
    assert find_holder(str(path)) is None

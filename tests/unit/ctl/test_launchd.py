"""What is asked of launchctl when launchd does not do as it should; by stand-ins. The usual course is in tests/integration."""

from pathlib import Path

import pytest

from sesamectl.errors import RpcError
from sesamectl.service import launchd, unit
from sesamectl.service.launchd import Launchd


def make(tmp_path: Path, script: str) -> Launchd:
    (tmp_path / "launchctl").write_text(f"#!/bin/sh\necho $1 >> {tmp_path}/calls\n{script}\n")
    (tmp_path / "launchctl").chmod(0o755)
    return Launchd({"PATH": f"{tmp_path}:/usr/bin:/bin"})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launchd, "UNLOAD_S", 0.0)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_machine_without_launchctl() -> None:
    """It is no Mac."""
    assert Launchd({"PATH": "/nonexistent"}).unavailable() == "this machine has no launchctl"


def test_it_does_not_unload(tmp_path: Path) -> None:
    """A job that stays loaded is an error that names the command to try."""
    with pytest.raises(
        RpcError, match=r"launchd did not unload sesame\.sesamed within 0 s; try `launchctl bootout gui/"
    ):
        make(tmp_path, "exit 0").disable()


def test_it_does_not_load(tmp_path: Path) -> None:
    """launchctl's own words are the reason."""
    with pytest.raises(RpcError, match=r"`launchctl bootstrap gui/.*\.plist` failed: Input/output error"):
        make(tmp_path, "echo Input/output error; exit 5").enable({})


def test_what_is_not_loaded(tmp_path: Path) -> None:
    """There is nothing to unload, and it is not active."""
    manager = make(tmp_path, "exit 113")
    assert manager.disable() == []
    assert (manager.read_state()["active"], manager.read_state()["pid"]) == ("not loaded", None)
    assert (tmp_path / "calls").read_text().split() == ["print"] * 3


def test_what_is_loaded_and_does_not_run(tmp_path: Path) -> None:
    """Without a pid it is inactive."""
    assert make(tmp_path, "echo state = waiting").read_state()["active"] == "inactive"


def test_a_program_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manager's program is not waited for without end."""
    monkeypatch.setattr(unit, "COMMAND_S", 0.05)
    with pytest.raises(RpcError, match=r"`launchctl print gui/\d+` did not finish within 0\.05 s; run it yourself"):
        make(tmp_path, "exec sleep 60").unavailable()

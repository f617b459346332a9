"""Which session a process has open, as its hook says and its server reads."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sesamectl.opened import DIRECTORY, MOST, find_session, note_session


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"SESAME_RUNTIME_DIR": str(tmp_path / "deep" / "run")}


def place(environ: dict[str, str]) -> Path:
    return Path(environ["SESAME_RUNTIME_DIR"]) / DIRECTORY


def test_the_last_word_of_a_process_counts(environ: dict[str, str]) -> None:
    """Of each its own; nobody else can read it, and an id has no end of its own choosing."""
    assert find_session(environ, os.getpid()) == ""
    note_session(environ, os.getpid(), "one")
    note_session(environ, os.getppid(), "other")
    note_session(environ, os.getpid(), "two")
    assert (find_session(environ, os.getpid()), find_session(environ, os.getppid())) == ("two", "other")
    assert stat.S_IMODE(place(environ).stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place(environ).iterdir()} == {0o600}
    note_session(environ, os.getpid(), "x" * 2 * MOST)
    assert find_session(environ, os.getpid()) == "x" * MOST


def test_a_process_that_has_ended_is_forgotten(environ: dict[str, str]) -> None:
    """Also one whose pid is another one's now."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        note_session(environ, process.pid, "one")
        assert find_session(environ, process.pid) == "one"
        process.communicate(b"\n")
    assert find_session(environ, process.pid) == ""
    (file,) = place(environ).iterdir()
    earlier = file.with_name(f"{os.getpid()}-1")
    file.rename(earlier)
    (place(environ) / "nonsense").touch()
    assert find_session(environ, os.getpid()) == ""
    note_session(environ, os.getpid(), "two")
    (file,) = place(environ).iterdir()
    assert file.name.startswith(f"{os.getpid()}-")
    assert file != earlier
    with pytest.raises(LookupError):
        note_session(environ, process.pid, "one")


def test_what_others_can_open_is_not_trusted(environ: dict[str, str]) -> None:
    """Nothing is written there, and nothing read."""
    note_session(environ, os.getpid(), "one")
    place(environ).chmod(0o755)
    assert find_session(environ, os.getpid()) == ""
    with pytest.raises(LookupError, match="is not a directory that only you can open"):
        note_session(environ, os.getpid(), "two")
    place(environ).chmod(0o700)
    assert find_session(environ, os.getpid()) == "one"
    Path(environ["SESAME_RUNTIME_DIR"]).chmod(0o755)
    with pytest.raises(LookupError, match="is not a directory that only you can open"):
        note_session(environ, os.getpid(), "two")


@pytest.mark.skipif(not os.path.exists("/bin/ps"), reason="there is no /bin/ps")
def test_ps_tells_the_same_as_proc(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On systems that have no /proc it says when a process began."""
    monkeypatch.setattr("sesamectl.opened.sys", type("Sys", (), {"platform": "darwin"}))
    note_session(environ, os.getpid(), "one")
    assert find_session(environ, os.getpid()) == "one"
    with pytest.raises(LookupError):
        note_session(environ, 2**22 + 1, "one")

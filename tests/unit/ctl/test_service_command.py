"""`sesamectl service` for people: what its status says in each state, and the ways in which an install fails."""

from pathlib import Path
from typing import Any

import pytest

from sesamectl.cli import main
from sesamectl.commands.service import _status_lines
from sesamectl.render.terminal import Terminal
from tests.support.systemctl import FakeSystemctl
from tests.unit.ctl.conftest import Stub

STATUS: dict[str, Any] = {
    "manager": "systemd", "missing": None, "unit": "/u", "foreign": None, "installed": True, "ours": True, "current": True,
    "active": "active", "enabled": True, "pid": 7, "says": "ready", "restarts": 0, "result": "success", "answers": 7,
}  # fmt: skip


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemctl:
    fake = FakeSystemctl(tmp_path)
    for name, value in {**fake.environ, "SESAME_DATA_DIR": str(tmp_path / "data")}.items():
        monkeypatch.setenv(name, value)
    return fake


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "service   active: ready"),
        ({}, "socket    pid 7 answers"),
        ({"missing": "no systemd"}, "manager   none: no systemd; sesamectl starts the daemon when needed"),
        ({"installed": False}, "unit      /u (not installed)"),
        ({"ours": False}, "unit      /u (for another socket)"),
        ({"current": False}, "unit      /u (edited, or of another installation; `sesamectl service install` rewrites it)"),
        ({"enabled": False, "says": ""}, "service   active (not enabled)"),
        ({"restarts": 3}, "restarts  3 after failures; see `sesamectl service logs`"),
        (
            {"active": "failed", "result": "exit-code"},
            "failed    exit-code; see `sesamectl service logs`; `sesamectl start` tries again",
        ),
        ({"answers": None}, "socket    nothing answers"),
        ({"answers": 8}, "socket    pid 8 answers, not started by the service"),
        ({"active": "inactive", "pid": None}, "socket    pid 7 answers, not started by the service"),
    ],
)  # fmt: skip
def test_status(more: dict[str, Any], line: str) -> None:
    """One line for each thing that is the case."""
    assert line in list(_status_lines(STATUS | more, Terminal()))


def test_no_manager(systemctl: FakeSystemctl, stub: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no service can be, nothing is written, and nothing needs to be."""
    (systemctl.runtime / "systemd/private").unlink()
    assert main(["service", "install"]) == 4
    assert "nothing was installed. You need no service" in capsys.readouterr().err
    assert not Path(systemctl.environ["XDG_CONFIG_HOME"]).exists()


def test_a_service_that_does_not_answer(
    systemctl: FakeSystemctl, monkeypatch: pytest.MonkeyPatch, directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Started and silent is an error that says where to look."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    monkeypatch.setattr("sesamectl.launch.wait_until_ready.__defaults__", (0.0, lambda: True, str))
    assert main(["service", "install"]) == 3
    assert (
        f"the service was started, but nothing answers at {directory}/none; all changes were undone"
        in capsys.readouterr().err
    )
    assert "enable --now sesamed.service" in systemctl.calls()


def test_purge(
    systemctl: FakeSystemctl,
    monkeypatch: pytest.MonkeyPatch,
    directory: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What can be rebuilt goes, by its name; anything else stays. Again, there is nothing to do."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    systemctl.write_units("sesamed.service", "sesamed.socket")
    data = tmp_path / "data"
    (data / "sessions").mkdir(parents=True)
    for name in ("index.sqlite", "index.sqlite-wal", "sesamed.log.1", "start.lock", "restart.stamp", "somebody's"):
        (data / name).touch()
    assert main(["service", "uninstall", "--purge"]) == 0
    out = capsys.readouterr().out
    assert "stopped and disabled sesamed.socket" in out
    assert f"removed {data}/index.sqlite-wal" in out
    assert {path.name for path in data.iterdir()} == {"sessions", "somebody's"}
    assert main(["service", "uninstall"]) == 0
    assert capsys.readouterr().out.startswith("nothing to do: not installed\nThe index is still in ")


def test_an_install_that_is_interrupted(
    systemctl: FakeSystemctl, monkeypatch: pytest.MonkeyPatch, directory: str, tmp_path: Path
) -> None:
    """Ctrl-C undoes everything as well."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    monkeypatch.setattr("sesamectl.launch.wait_until_ready", interrupt)
    before = sorted(tmp_path.rglob("*"))
    assert main(["service", "install"]) == 130
    calls = systemctl.calls()
    assert calls[calls.index("enable --now sesamed.service") :] == [
        "enable --now sesamed.service",
        "disable --now sesamed.service",
        "daemon-reload",
        "reset-failed sesamed.service sesamed.socket",
    ]
    assert sorted(tmp_path.rglob("*")) == before


def test_an_install_that_cannot_be_undone(
    systemctl: FakeSystemctl, monkeypatch: pytest.MonkeyPatch, directory: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What could not be undone is said; what can be is undone all the same."""
    monkeypatch.setenv("SESAME_SOCKET", f"{directory}/none")
    systemctl.say("fails-enable", "no")
    systemctl.say("fails-disable", "never")
    assert main(["service", "install"]) == 4
    said = capsys.readouterr().err
    assert "`systemctl --user enable --now sesamed.service` failed: no; not all changes could be undone: " in said
    assert "`systemctl --user disable --now sesamed.service` failed: never" in said
    assert not systemctl.units.exists()

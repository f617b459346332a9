"""What is asked of systemctl, in which order, and what becomes of its answers; by a stand-in."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from sesamectl.errors import RpcError, StartError
from sesamectl.launch import launch
from sesamectl.service import manager
from sesamectl.service.state import read_state
from sesamectl.service.systemd import SERVICE, SOCKET, Systemd
from sesamectl.service.unit import build_spec
from tests.support.systemctl import FakeSystemctl

STATE = "ActiveState=active\nUnitFileState=enabled\nMainPID=7\nStatusText=ready: a=b\nResult=success\nNRestarts=2\n"
STATE += "DropInPaths=/d/a.conf /d/b.conf\n"


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSystemctl:
    fake = FakeSystemctl(tmp_path)
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SESAME_SOCKET", str(tmp_path / "s"))
    monkeypatch.setenv("SESAME_DATA_DIR", str(tmp_path / "data"))
    return fake


@pytest.fixture
def systemd(systemctl: FakeSystemctl) -> Systemd:
    return Systemd(systemctl.environ)


def install(systemd: Systemd, environ: Mapping[str, str], *, socket: bool = False) -> dict[str, str]:
    """Write the files."""
    files = systemd.render(build_spec(environ), socket=socket)
    for path, text in files.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    return files


def test_it_can_be_used(systemd: Systemd) -> None:
    """With systemctl and a user manager that runs there is no reason against it."""
    assert systemd.unavailable() == ""


def test_no_user_manager(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """Without a login there is none, and how to get one is said."""
    (systemctl.runtime / "systemd/private").unlink()
    assert "loginctl enable-linger" in systemd.unavailable()


def test_no_systemd(systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without systemctl has no systemd."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert systemd.unavailable() == "this machine has no systemd"


@pytest.mark.parametrize("socket", [False, True])
def test_enable(systemctl: FakeSystemctl, systemd: Systemd, socket: bool) -> None:
    """Loaded, forgiven its failures, enabled and started; the socket before the service that would bind it."""
    files = install(systemd, {"SESAME_SOCKET": "/r/s"}, socket=socket)
    names = [SOCKET, SERVICE] if socket else [SERVICE]
    systemd.load()
    assert systemd.enable(files) == [f"enabled and started {name}" for name in reversed(names)]
    assert systemctl.calls() == [
        "daemon-reload", f"show {SERVICE} --property=FragmentPath", f"reset-failed {' '.join(names)}",
        *(f"enable --now {name}" for name in names),
    ]  # fmt: skip


def test_units_that_systemd_reads_elsewhere(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """Where systemd does not see the file, it is not ours that would be started."""
    systemctl.say("fragment", "/elsewhere/sesamed.service")
    with pytest.raises(RpcError, match=r"loaded the unit from /elsewhere/sesamed\.service, not from .*check HOME"):
        systemd.load()


def test_what_systemctl_refuses(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """Its own first line is the reason; that there are no failures to forget is none."""
    systemctl.write_units(SERVICE)
    systemctl.say("fails-reset-failed", "Unit sesamed.service not loaded.\n")
    systemctl.say("fails-enable", "Job failed.\nSee the journal.\n")
    with pytest.raises(
        RpcError,
        match=r"`systemctl --user enable --now sesamed\.service` failed: Job failed\.$",
    ):
        systemd.enable({})


def test_disable(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """The socket first, which would start the service again; only what is there."""
    assert systemd.disable() == []
    systemctl.write_units(SERVICE)
    assert systemd.disable() == [f"stopped and disabled {SERVICE}"]
    systemctl.write_units(SOCKET)
    systemctl.calls()
    systemd.disable()
    assert systemctl.calls() == [f"disable --now {SOCKET}", f"disable --now {SERVICE}"]
    assert [Path(path).name for path in systemd.list_installed()] == [SOCKET, SERVICE]


def test_reload(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """Units that are gone are forgotten, with their failures, if there are any."""
    systemctl.say("fails-reset-failed", "not loaded")
    systemd.reload()
    assert systemctl.calls() == ["daemon-reload", f"reset-failed {SERVICE} {SOCKET}"]


def test_its_state(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """What systemctl shows, as far as it shows anything."""
    systemctl.say("shown", STATE)
    found = {
        "active": "active",
        "enabled": True,
        "pid": 7,
        "says": "ready: a=b",
        "restarts": 2,
        "result": "success",
        "socket": False,
        "dropIns": ["/d/a.conf", "/d/b.conf"],
    }
    assert systemd.read_state() == found
    systemctl.say("fails-show", "no bus")
    assert systemd.read_state() == found | {
        "active": "unknown",
        "enabled": False,
        "pid": None,
        "says": "",
        "restarts": 0,
        "result": "",
        "dropIns": [],
    }


def test_detaching(systemctl: FakeSystemctl, systemd: Systemd) -> None:
    """A scope of its own needs systemd-run, a bus and a manager."""
    systemctl.add_program("systemd-run", "#!/bin/sh\n")
    assert systemd.detach_prefix() == []
    (systemctl.runtime / "bus").touch()
    assert systemd.detach_prefix()[:4] == ["env", f"XDG_RUNTIME_DIR={systemctl.runtime}", "systemd-run", "--user"]
    shutil.rmtree(systemctl.runtime / "systemd")
    assert systemd.detach_prefix() == []


def test_who_starts_it(systemctl: FakeSystemctl, systemd: Systemd, tmp_path: Path) -> None:
    """The manager, where a unit is there for this very socket and the manager can be asked; else nobody."""
    socket = str(tmp_path / "s")
    assert manager.start_command(socket) is None
    install(systemd, {"SESAME_SOCKET": socket})
    assert manager.start_command(socket) == systemd.start_command()
    assert manager.start_command(socket + "x") is None
    shutil.rmtree(systemctl.runtime / "systemd")
    assert manager.start_command(socket) is None


def test_a_service_that_cannot_start(systemctl: FakeSystemctl, systemd: Systemd, tmp_path: Path) -> None:
    """When the manager's command fails, why and where to look is said, and nothing else is tried."""
    systemctl.say("fails-start", "Job failed.\n")
    systemctl.say("shown", "ActiveState=failed\nResult=exit-code\n")
    install(systemd, {"SESAME_SOCKET": str(tmp_path / "s")})
    with pytest.raises(StartError, match="did not start: systemd reports 'exit-code'; see `sesamectl doctor`"):
        launch(str(tmp_path / "s"))


def test_the_state_of_the_service(systemctl: FakeSystemctl, systemd: Systemd, tmp_path: Path) -> None:
    """Installed or not, for this socket or another, as it is written today or not."""
    socket = str(tmp_path / "s")
    assert read_state(systemd, socket, None) == {
        "manager": "systemd", "missing": None, "unit": systemd.unit_path(), "foreign": None, "installed": False, "ours": False,
        "serves": None, "answers": None,
    }  # fmt: skip
    systemctl.say("shown", STATE)
    install(systemd, {"SESAME_SOCKET": socket, "SESAME_DATA_DIR": str(tmp_path / "data"), **systemctl.environ})
    found = read_state(systemd, socket, 7)
    assert (found["installed"], found["ours"], found["current"], found["answers"], found["pid"]) == (
        True,
        True,
        True,
        7,
        7,
    )
    assert not read_state(systemd, socket + "x", 7)["ours"]
    with open(systemd.unit_path(), "a") as unit:
        unit.write("# mine\n")
    assert not read_state(systemd, socket, 7)["current"]
    shutil.rmtree(systemctl.runtime / "systemd")
    assert "active" not in read_state(systemd, socket, 7)

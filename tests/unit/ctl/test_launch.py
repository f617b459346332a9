"""Starting the daemon: every way in which it does not come to answer."""

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sesamectl import launch
from sesamectl.errors import StartError

SetProgram = Callable[[str], None]


@pytest.fixture
def set_program(directory: str, monkeypatch: pytest.MonkeyPatch) -> SetProgram:
    """Has a shell script take the interpreter's place; no service is installed, nothing is detached."""
    monkeypatch.setenv("SESAME_DATA_DIR", f"{directory}/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", f"{directory}/config")
    monkeypatch.setenv("XDG_RUNTIME_DIR", f"{directory}/runtime")

    def write(script: str) -> None:
        Path(f"{directory}/program").write_text(f"#!/bin/sh\n{script}\n")
        os.chmod(f"{directory}/program", 0o755)
        monkeypatch.setattr(sys, "executable", f"{directory}/program")

    return write


def test_it_exits(directory: str, set_program: SetProgram) -> None:
    """Its last error is the reason, without its name; and the exit code."""
    set_program('echo "a line" >&2; echo "sesamed: no room" >&2; echo "another" >&2; exit 1')
    with pytest.raises(StartError, match=r"^sesamed did not start \(exit 1\): no room$"):
        launch.launch(f"{directory}/s")


def test_it_exits_without_an_error_of_its_own(directory: str, set_program: SetProgram) -> None:
    """The last line of what was printed since, not of what stood in the log before; or where to look."""
    os.mkdir(f"{directory}/data")
    Path(f"{directory}/data/sesamed.log").write_text("sesamed: of yesterday\n")
    set_program("echo one >&2; echo two >&2; exit 3")
    with pytest.raises(StartError, match=r"\(exit 3\): two$"):
        launch.launch(f"{directory}/s")
    set_program("exit 3")
    with pytest.raises(StartError, match=rf"\(exit 3\): see {directory}/data/sesamed\.log$"):
        launch.launch(f"{directory}/s")


def test_a_full_disk(directory: str, set_program: SetProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no log, so that is the reason where nothing was said; where something was, it is that."""
    full = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255))
    monkeypatch.setattr("os.statvfs", lambda _: full)
    set_program("exit 1")
    with pytest.raises(StartError, match=rf"\(exit 1\): there is no space left at {directory}/data$"):
        launch.launch(f"{directory}/s")
    set_program('echo "sesamed: no room" >&2; exit 1')
    with pytest.raises(StartError, match=r"\(exit 1\): no room$"):
        launch.launch(f"{directory}/s")


def test_another_one_is_shutting_down(directory: str, set_program: SetProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as another instance holds the lock it is tried again."""
    monkeypatch.setattr(launch, "RETRY_S", 0.0)
    tries = f"{directory}/tries"
    set_program(f'echo "sesamed: held" >&2; echo x >> {tries}; [ $(wc -l < {tries}) -lt 3 ] && exit 75; exit 1')
    with pytest.raises(StartError, match=r"\(exit 1\): held"):
        launch.launch(f"{directory}/s")
    assert Path(tries).read_text().count("x") == 3


def test_it_never_answers(directory: str, set_program: SetProgram) -> None:
    """When the time is up, what it said last is the reason."""
    set_program('echo "sesamed: held" >&2; exit 75')
    with pytest.raises(StartError, match=r"did not answer within 0 s after it was started; see .*/sesamed\.log"):
        launch.launch(f"{directory}/s", 0.0)


def test_a_scope_that_cannot_be_had(directory: str, set_program: SetProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where detaching fails the daemon is started without; its own exit codes are not taken for that."""
    os.makedirs(f"{directory}/runtime/systemd")
    os.makedirs(f"{directory}/programs")
    for path in ("runtime/systemd/private", "runtime/bus"):
        Path(f"{directory}/{path}").touch()
    for name in ("systemctl", "systemd-run"):
        Path(f"{directory}/programs/{name}").write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
        os.chmod(f"{directory}/programs/{name}", 0o755)
    monkeypatch.setenv("PATH", f"{directory}/programs:{os.environ['PATH']}")
    set_program('echo "sesamed: by itself" >&2; exit 78')
    with pytest.raises(StartError, match=r"\(exit 78\): by itself"):
        launch.launch(f"{directory}/s")
    assert "no bus" in Path(f"{directory}/data/sesamed.log").read_text()


@pytest.mark.parametrize("data", ["relative", "{directory}/file/data"])
def test_a_data_directory_that_cannot_be(
    directory: str, set_program: SetProgram, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    """The daemon itself says what is wrong with it: it is started all the same, with a log that nobody sees."""
    Path(f"{directory}/file").touch()
    monkeypatch.setenv("SESAME_DATA_DIR", data.format(directory=directory))
    set_program('echo "sesamed: that is no directory" >&2; exit 78')
    with pytest.raises(StartError, match="that is no directory"):
        launch.launch(f"{directory}/s")


def test_a_lock_that_cannot_be_opened(directory: str, set_program: SetProgram) -> None:
    """A link in the lock's place is not followed."""
    os.mkdir(f"{directory}/data")
    os.symlink(f"{directory}/elsewhere", f"{directory}/data/start.lock")
    set_program('echo "sesamed: no" >&2; exit 1')
    with pytest.raises(StartError, match=r"no$"):
        launch.launch(f"{directory}/s")
    assert not os.path.exists(f"{directory}/elsewhere")


def test_one_at_a_time(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that waits too long for another one says so."""
    environ = {"SESAME_DATA_DIR": f"{directory}/data"}
    with launch.hold_start_lock(environ):
        monkeypatch.setattr(launch, "START_S", 0.0)
        with (
            pytest.raises(StartError, match="another sesamectl has been starting sesamed"),
            launch.hold_start_lock(environ),
        ):
            pass
    with launch.hold_start_lock(environ):
        pass


def test_a_socket_that_only_listens(directory: str) -> None:
    """To listen is not to be ready: a connection that is closed without an answer is none."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{directory}/s")
        assert not launch.is_ready(f"{directory}/s")


def test_what_a_manager_said_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that we start must not report to our own manager."""
    monkeypatch.setenv("NOTIFY_SOCKET", "/n")
    monkeypatch.setenv("SESAME_DATA_DIR", "/d")
    environ = launch.daemon_environment()
    assert "NOTIFY_SOCKET" not in environ
    assert environ["SESAME_DATA_DIR"] == "/d"

"""Daemon and client of different versions: the newer one wins, by one restart."""

import contextlib
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sesamectl
from sesamectl.client import Client
from sesamectl.upgrade import is_newer
from tests.support.daemon import eventually
from tests.support.machine import Machine

PROGRAM = Path(__file__).parents[1] / "support/of_version.py"


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    made.write("one", "a quince")
    try:
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def running(machine: Machine, version: str) -> Iterator[None]:
    """A daemon that says it is of this version."""
    machine.data.mkdir(mode=0o700)
    with open(machine.data / "sesamed.log", "ab") as log:
        process = subprocess.Popen([sys.executable, str(PROGRAM), version], env=machine.environ, stdout=log, stderr=log)
    reaper = threading.Thread(target=process.wait)  # or its pid would stay in use
    reaper.start()
    try:
        eventually(lambda: "sesamed.daemon ready" in machine.log())
        yield
    finally:
        process.terminate()
        reaper.join()


def version(machine: Machine) -> str:
    with Client(f"{machine.place}/run/sesamed.sock") as client:
        return str(client.call("hello")["version"])


@pytest.mark.fault(98)
def test_an_older_daemon_is_restarted(machine: Machine) -> None:
    """A newer client restarts an older daemon, and gets its answer from the new one; silently, and once."""
    with running(machine, "0.0.9"):
        done = machine.run("search", "quince")
        assert (done.returncode, done.stderr, "one" in done.stdout) == (0, "", True)
        assert version(machine) == sesamectl.__version__
        pid = machine.pid()
        assert machine.run("search", "quince").returncode == 0
        assert machine.pid() == pid
        assert not (machine.data / "restart.stamp").exists()


def test_an_older_daemon_goes_on_where_a_newer_one_could_not_start(machine: Machine) -> None:
    """A configuration that the new version refuses does not end the old one; a person is told why, and it is over when it is corrected."""
    with running(machine, "0.0.9"):
        (machine.config / "config.jsonc").write_text('{"sweepSecond": 5}')
        said = on_a_terminal(machine, "search", "quince")
        assert (
            f"sesamed 0.0.9 keeps running although sesamectl is {sesamectl.__version__}: {machine.config}/config.jsonc: line 1: $"
            in said
        )
        assert version(machine) == "0.0.9"
        (machine.config / "config.jsonc").unlink()
        assert machine.run("search", "quince").returncode == 0
        assert version(machine) == sesamectl.__version__


def test_an_older_daemon_with_other_data_goes_on(machine: Machine) -> None:
    """A daemon that was started with another data directory is not replaced by one without its sessions."""
    with running(machine, "0.0.9"):
        theirs, machine.environ["SESAME_DATA_DIR"] = machine.data, f"{machine.place}/other"
        said = on_a_terminal(machine, "search", "quince")
        assert f"it keeps its index in {theirs}, and a new one would in {machine.place}/other" in said
        assert version(machine) == "0.0.9"


def test_twenty_newer_clients(machine: Machine) -> None:
    """Twenty newer clients at once are all answered, and restart it once."""
    with running(machine, "0.0.9"):
        clients = [machine.start("search", "quince") for _ in range(20)]
        for process in clients:
            out, err = process.communicate(timeout=50)
            assert (process.returncode, "one" in out) == (0, True), err
        assert machine.log().count("sesamed.daemon ready") == 2


@pytest.mark.fault(87)
def test_a_newer_daemon_is_left_alone(machine: Machine) -> None:
    """An older client restarts nothing; a person is told."""
    with running(machine, "99.0.0"):
        assert machine.run("search", "quince").stderr == ""
        assert version(machine) == "99.0.0"
        assert "sesamed 99.0.0 is running and this sesamectl is" in on_a_terminal(machine, "search", "quince")
        assert machine.log().count("sesamed.daemon ready") == 1


def test_not_when_nothing_may_be_started(machine: Machine) -> None:
    """Who may start nothing may restart nothing."""
    with running(machine, "0.0.9"):
        assert machine.run("search", "quince", "--no-start").returncode == 0
        assert version(machine) == "0.0.9"


def test_a_restart_that_was_in_vain_is_not_tried_again(machine: Machine) -> None:
    """Where a restart has brought the old one back, it stays: no restart at every search."""
    with running(machine, "0.0.9"):
        (machine.data / "restart.stamp").write_text(f"0.0.9 {sesamectl.__version__}\n")
        assert "came back after a restart" in on_a_terminal(machine, "search", "quince")
        assert machine.log().count("sesamed.daemon ready") == 1


def on_a_terminal(machine: Machine, *words: str) -> str:
    """What a command says on standard error, when that is a terminal."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-m", "sesamectl", *words], env=machine.environ, cwd=machine.place, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=theirs, check=True,
        )  # fmt: skip
        return os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("one", "other", "newer"),
    [("0.2.0", "0.1.9", True), ("0.10.0", "0.9.0", True), ("0.1.0", "0.1.0", False), ("1.0", "1.0.0", False), ("0.1", "x", False)],
)  # fmt: skip
def test_newer(one: str, other: str, newer: bool) -> None:
    """Releases are compared by their numbers; what is no release is never older."""
    assert is_newer(one, other) is newer


@pytest.mark.fault(87)
@given(st.text("0123456789.ab٣", max_size=12), st.text("0123456789.ab٣", max_size=12))
@example("9" * 5000, "1.0")
def test_any_two_versions(one: str, other: str) -> None:
    """Whatever a daemon calls itself, at most one of two is newer."""
    assert not (is_newer(one, other) and is_newer(other, one))

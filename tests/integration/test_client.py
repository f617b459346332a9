"""`sesamectl` as people use it: it starts the daemon itself, waits for the first index, and leaves nothing behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamectl.cli import main
from sesamectl.client import Client
from sesamectl.errors import StartError
from sesamectl.launch import _children, launch
from tests.support import held, sandbox
from tests.support.client import PATIENCE_S
from tests.support.daemon import Daemon, eventually
from tests.support.machine import Machine, is_ours
from tests.support.sessions import PiSession


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    try:
        yield made
    finally:
        made.remove()


def test_the_first_search(machine: Machine) -> None:
    """On a machine that never saw sesame a search starts the daemon and finds what is there, silently."""
    for number in range(50):
        machine.write(f"session-{number}", f"a question about topic{number}")
    done = machine.run("search", "topic17")
    assert done.returncode == 0
    assert "session-17" in done.stdout
    assert done.stderr == ""
    assert machine.run("search", "topic18", "--no-start").returncode == 0
    assert (machine.data / "sesamed.log").stat().st_mode & 0o777 == 0o600
    assert machine.data.stat().st_mode & 0o777 == 0o700


def test_the_first_search_does_not_wait_for_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When its time is over it says what there is, beside a load that goes on, and how much is missing."""
    monkeypatch.setattr("sesamectl.waiting.FIRST_INDEX_S", 0.0)  # ten seconds would need many more sessions
    with Daemon(program=held.PROGRAM) as daemon:
        daemon.stop()
        for number in range(200):
            text = " ".join(f"needle{number}x{word}" for word in range(5000))
            daemon.write(f"session-{number}.jsonl", PiSession(id=f"session-{number}").user(text).bytes())
        daemon.start()
        for name, value in daemon.environ().items():
            monkeypatch.setenv(name, value)
        eventually(lambda: daemon.call("status")["pending"]["files"])
        assert main(["search", "needle7x7"]) == 0
        assert daemon.call("status")["pending"]["files"]
        assert "Not yet searchable: " in capsys.readouterr().out
        held.let_go(daemon)
        daemon.sync()
        assert main(["search", "needle7x7"]) == 0
    assert "session-7" in capsys.readouterr().out


def test_no_sessions(machine: Machine) -> None:
    """A machine without sessions is told kindly, with the places."""
    done = machine.run("search", "anything")
    assert done.returncode == 0
    assert f"{machine.sessions} (missing)" in done.stdout


@pytest.mark.fault(93)
def test_twenty_at_once(machine: Machine) -> None:
    """Twenty searches at once start one daemon, and all are answered."""
    machine.write("one", "what is a needle")
    running = [machine.start("search", "needle") for _ in range(20)]
    for process in running:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, "one" in out) == (0, True), err
    assert machine.log().count("INFO sesamed.daemon ready") == 1
    assert "holds" not in machine.log()


@pytest.mark.fault(94)
def test_it_outlives_who_started_it(machine: Machine) -> None:
    """The daemon has a session of its own, and no terminal: it lives on when the one that it was started from is closed."""
    machine.write("one", "what is a needle")
    code = "import pty, os, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    command = [sys.executable, "-c", code, sys.executable, "-m", "sesamectl", "search", "needle"]
    done = subprocess.run(
        command,
        env=machine.environ,
        cwd=machine.place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=40,
        check=True,
    )
    assert b"To read on: sesamectl show one:0" in done.stdout
    daemon = machine.pid()
    assert os.getsid(daemon) == daemon


def test_a_wrong_configuration(machine: Machine) -> None:
    """What keeps the daemon from starting is said in one line; exit code 3."""
    (machine.config / "config.jsonc").write_text('{"watch": "sometimes"}')
    done = machine.run("search", "x")
    assert (done.returncode, done.stdout) == (3, "")
    assert "config.jsonc: line 1: $.watch" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_place_that_cannot_be_used(machine: Machine) -> None:
    """Nor does a data directory that is none keep the reason from being told."""
    machine.data.write_text("a file")
    done = machine.run("search", "x")
    assert done.returncode == 3
    assert f"{machine.data} cannot be made a private directory" in done.stderr
    assert done.stderr.count("\n") == 1


def test_life(machine: Machine) -> None:
    """start, restart, status and stop say what is the case."""
    first = json.loads(machine.run("start", "--json").stdout)
    assert (first["running"], first["started"]) == (True, True)
    assert machine.run("start").stdout.startswith("sesamed 0.1.0 is already running: pid ")
    second = json.loads(machine.run("restart", "--json").stdout)
    assert second["pid"] not in {first["pid"], None}
    assert machine.run("status").stdout.startswith("sesamed 0.1.0: ")
    assert json.loads(machine.run("stop", "--json").stdout)["stopped"]
    assert machine.run("status").returncode == 3
    assert machine.run("stop").stdout == "sesamed was not running\n"


def test_a_killed_daemon_is_started_again(machine: Machine) -> None:
    """The socket that a killed daemon left behind is no daemon: the next search starts one."""
    machine.write("one", "what is a needle")
    machine.run("search", "needle")
    killed = machine.pid()
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not is_ours(killed))
    machine.write("two", "another needle")
    done = machine.run("search", "needle")
    assert "one" in done.stdout
    assert "two" in done.stdout


def test_every_command_with_json(machine: Machine) -> None:
    """With --json each command prints one line, and it is JSON."""
    machine.write("one", "what is a needle")
    for words in (
        ["search", "needle"],
        ["list"],
        ["show", "one"],
        ["index"],
        ["status"],
        ["config"],
        ["demo"],
        ["stop"],
    ):
        done = machine.run(*words, "--json")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert isinstance(json.loads(done.stdout), dict)
        assert done.stdout.count("\n") == 1


def test_show_and_list(machine: Machine) -> None:
    """A session is read by a prefix of its id; one that is not there is exit code 4."""
    machine.write("session-one", "what is a needle")
    assert "session-o  what is a needle" in machine.run("list").stdout
    assert "#0 user" in machine.run("show", "session-o").stdout
    assert "> #0 user" in machine.run("show", "session-o:0").stdout
    done = machine.run("show", "nothing")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1


def test_config(machine: Machine) -> None:
    """`config` shows what counts and where it comes from, with the daemon and without."""
    (machine.config / "config.jsonc").write_text('{"watch": "polling", "limits": {"maxConnections": 9}}')
    answer = json.loads(machine.run("config", "--json").stdout)
    file = str(machine.config / "config.jsonc")
    assert answer["paths"]["config"] == {"value": file, "from": "SESAME_CONFIG_DIR"}
    assert answer["settings"]["watch"] == {"value": "polling", "from": file}
    assert answer["settings"]["limits.maxConnections"] == {"value": 9, "from": file}
    assert answer["settings"]["sweepSeconds"] == {"value": 60, "from": "default"}
    pi = {"parser": "pi", "path": str(machine.sessions), "from": "discovered"}
    assert pi in answer["sources"]
    machine.run("start")
    answer = json.loads(machine.run("config", "--json").stdout)
    assert {**pi, "from": "the running daemon"} in answer["sources"]
    assert f"source                 pi {machine.sessions} (the running daemon)" in machine.run("config").stdout
    assert "True" not in machine.run("config").stdout
    (machine.config / "config.jsonc").write_text("{")
    done = machine.run("config")
    assert (done.returncode, done.stderr.count("\n")) == (4, 1)


def test_demo(machine: Machine) -> None:
    """`demo` searches made-up sessions, and leaves neither a file nor a process nor a word to the user's own daemon."""
    machine.environ["TMPDIR"] = str(machine.place / "t")
    (machine.place / "t").mkdir()
    done = machine.run("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Simplify Nix flake setup" in done.stdout
    assert done.stdout.count("$ sesamectl search") == 3
    assert "No session" not in done.stdout
    assert list((machine.place / "t").iterdir()) == []
    assert not machine.data.exists()
    assert not (machine.place / "run").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_demo_interrupted(machine: Machine, number: int) -> None:
    """However it is ended, everything is removed."""
    temporary = machine.place / "t"
    temporary.mkdir()
    machine.environ["TMPDIR"] = str(temporary)
    process = machine.start("demo")
    lock = eventually(lambda: next(temporary.glob("*/data/sesamed.lock"), None) or process.poll() is not None)
    pid = eventually(lambda: _pid_in(lock)) if isinstance(lock, Path) else 0
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode in {0, 130}  # 0 when it was done before the signal came
    assert list(temporary.iterdir()) == []
    assert not pid or not is_ours(pid)


def _pid_in(lock: Path) -> int:
    try:
        return int(lock.read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return 1 if not lock.exists() else 0


def test_head(machine: Machine) -> None:
    """A reader that has seen enough is no failure."""
    machine.write("one", "what is a needle")
    machine.run("index")
    command = f"{sys.executable} -m sesamectl show one --all | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], env=machine.environ, cwd=machine.place, capture_output=True, text=True,
        timeout=40, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "what is a needle\n", "")


def test_the_library_starts_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`Client(start=True)` starts the daemon when none runs, and says so."""
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NOTIFY_SOCKET", str(machine.place / "nobody"))
    with Client(start=True) as client:
        assert client.started
        assert client.call("hello")["name"] == "sesamed"
    with Client(start=True) as client:
        assert not client.started
        client.call("shutdown")
        client.wait_closed()


def test_another_instance_elsewhere(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A daemon that holds the index and listens elsewhere is named when the patience is over."""
    machine.run("start")
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SESAME_RUNTIME_DIR", str(machine.place / "other"))
    monkeypatch.setattr("sesamectl.launch.NOTICE_AFTER_S", 0.0)
    begun = time.monotonic()
    with pytest.raises(StartError, match=r"did not answer within 8 s after it was started; .* holds .*sesamed.lock"):
        launch(str(machine.place / "other/sesamed.sock"), timeout_s=8.0)  # long enough for one to start and give up
    assert time.monotonic() - begun >= 8.0
    assert _children.pop().wait(20) == 75  # the last one may have been on its way still
    assert capsys.readouterr().err == "sesamectl: waiting for sesamed to start ...\n"


@pytest.mark.skipif(bool(sandbox.missing()), reason=sandbox.missing())
@pytest.mark.parametrize("call", ["connect", "socket"])
def test_a_sandbox_without_sockets(call: str) -> None:
    """An agent that runs sesamectl in one is told so, and what to do; nothing is started there."""
    with Daemon() as daemon:
        words = [sys.executable, "-m", "tests.support.sandbox", call, sys.executable, "-m", "sesamectl", "search", "x"]
        done = subprocess.run(words, env=daemon.environ(), capture_output=True, text=True, timeout=PATIENCE_S)
        told = "Operation not permitted; a sandbox forbids it: run sesamectl outside of it"
        assert done.stderr == f"sesamectl: cannot connect to {daemon.socket}: {told}\n"
        assert (done.returncode, done.stdout) == (3, "")

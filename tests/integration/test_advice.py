"""Whatever the doctor advises is followed here, to the letter, until nothing is wrong."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import apsw
import pytest

from sesamectl.doctor import daemon, examine, paths
from sesamectl.doctor.finding import Advice, Finding
from sesamed.store import schema
from sesamed.store.checksums import connect
from tests.integration.test_doctor import Clinic
from tests.integration.test_launchd import AS_ON_A_MAC, STAND_IN
from tests.integration.test_upgrade import PROGRAM
from tests.support.daemon import CODE, eventually
from tests.support.sessions import PiSession

NOBODY = 65534
MAX_STEPS = 15  # one for each file that is not ours
LISTEN = """
import contextlib, os, socket
os.umask(0o077)
listener = socket.socket(socket.AF_UNIX)
listener.bind({!r})
listener.listen()
while True:
    with contextlib.suppress(OSError), listener.accept()[0] as client:
        client.send(b"220 hello\\n")
        client.recv(4096)
"""
COMMANDS = re.compile("`([^`]+)`")
ByHand = dict[Advice, Callable[[], object]]
Scenario = Callable[["Patient"], ByHand]
SCENARIOS: list[tuple[Advice, Scenario]] = []  # what is made wrong, and an advice that is given about it

# What cannot be made here, and where it is followed.
ELSEWHERE = {
    Advice.DEEP: "tests/unit/ctl/test_doctor.py",  # a note's
    Advice.READABLE: "tests/systemd/test_install.py",  # root may read everything
    Advice.EXCLUDE: "tests/systemd/test_install.py",
    Advice.WRITABLE: "tests/systemd/test_install.py",  # likewise
    Advice.PACKAGE: "tests/pi/test_install.py",  # by the real pi
    Advice.INSTALL_TIMER: "tests/systemd/test_remember.py",
    Advice.START: "tests/systemd/test_service.py",  # of a service that was stopped
}


class Patient(Clinic):
    """A machine with a shell, in which commands are run as they stand in an advice."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.patch = monkeypatch
        self.inside = False  # the doctor runs in this process, where something is not as it is
        self.processes: list[subprocess.Popen[bytes]] = []
        programs = self.place / "programs"
        programs.mkdir()
        self.environ["PATH"] = f"{programs}:{os.environ['PATH']}"
        self.program("sesamectl", f'exec {sys.executable} -m sesamectl "$@"')

    def program(self, name: str, script: str) -> None:
        path = self.place / "programs" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def configure(self, text: str) -> None:
        (self.config / "config.jsonc").write_text(text)

    def shell(self, command: str) -> None:
        if command.startswith("unset "):
            for name in command.split()[1:]:
                self.environ.pop(name)
            return
        done = subprocess.run(["sh", "-c", command], env=self.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)

    def wrong(self) -> list[dict[str, Any]]:
        """What the doctor finds to be wrong."""
        if self.inside:
            for name, value in self.environ.items():
                self.patch.setenv(name, value)
            return [_describe(found) for found in examine.examine(os.environ, deep=False) if found.level == "wrong"]
        done = subprocess.run(
            ["sesamectl", "doctor", "--json"], env=self.environ, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        answer = json.loads(done.stdout)
        wrong = [found for found in answer["findings"] if found["level"] == "wrong"]
        assert (answer["wrong"], done.returncode) == (len(wrong), 1 if wrong else 0)
        return wrong

    def run_beside(self, *words: str, **environ: str) -> None:
        """A process that ends with the test."""
        self.processes.append(subprocess.Popen(words, env={**self.environ, **environ}, stderr=subprocess.DEVNULL))

    def end(self) -> None:
        """End what runs beside."""
        for process in self.processes:
            process.kill()
            process.wait()

    def remove(self) -> None:
        self.end()
        super().remove()


def _describe(found: Finding) -> dict[str, Any]:
    assert found.advice is not None
    return {**asdict(found), "advice": found.advice.name.lower(), "todo": found.todo}


def give_away(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(path, NOBODY, NOBODY)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Patient]:
    made = Patient(monkeypatch)
    made.write("one", "a quince")
    try:
        yield made
    finally:
        made.remove()


def scenario(advice: Advice) -> Callable[[Scenario], Scenario]:
    def register(made: Scenario) -> Scenario:
        SCENARIOS.append((advice, made))
        return made

    return register


@scenario(Advice.RESTART)
def configured_after_the_start(patient: Patient) -> ByHand:
    patient.run("start")
    patient.configure('{"sweepSeconds": 50}')
    return {}


@scenario(Advice.INDEX)
def a_file_that_was_missed(patient: Patient) -> ByHand:
    patient.configure('{"watch": "off", "sweepSeconds": 86400}')
    patient.run("start")
    # Nobody else asks for a sweep, so that this is the first one, after which none comes for a day.
    eventually(lambda: json.loads(patient.run("status", "--json").stdout)["lastSweepAt"] is not None)
    patient.write("two", "a medlar")
    patient.inside = True
    patient.patch.setattr(
        examine, "CHECKS", [check for check in examine.CHECKS if check[1] is not daemon.check_state]
    )  # it syncs
    return {}


@scenario(Advice.REBUILD)
def a_damaged_index(patient: Patient) -> ByHand:
    patient.run("search", "quince")
    patient.run("stop")
    with contextlib.closing(connect(str(patient.data / "index.sqlite"))) as connection:
        connection.execute("INSERT INTO fts(fts) VALUES('optimize')")
        connection.execute("DELETE FROM fts_data WHERE id = (SELECT max(id) FROM fts_data)")
    patient.run("start")
    return {}


@scenario(Advice.SEEN)
def an_index_that_was_set_aside(patient: Patient) -> ByHand:
    patient.run("search", "quince")
    patient.run("stop")
    (patient.data / "index.sqlite").write_bytes(b"nothing of a database" * 1000)
    patient.run("start")

    def move_out() -> None:
        for path in patient.data.glob("index.sqlite.damaged-*"):
            path.rename(patient.place / path.name)

    return {Advice.SEEN: move_out}


@scenario(Advice.WAIT)
def a_large_file(patient: Patient) -> ByHand:
    patient.configure('{"watch": "off", "sweepSeconds": 86400}')
    patient.run("search", "quince")
    patient.inside = True
    patient.patch.setattr(daemon, "SYNC_MS", 0)
    (patient.sessions / "large.jsonl").write_bytes(PiSession(id="large").user("a medlar " * 2000).bytes() * 20)
    return {Advice.WAIT: lambda: patient.patch.setattr(daemon, "SYNC_MS", 60_000)}


@scenario(Advice.REPORT)
def a_check_with_a_bug(patient: Patient) -> ByHand:
    patient.run("start")
    patient.inside = True
    limits = paths._limit
    patient.patch.setattr(paths, "_limit", lambda name: {}[name])
    return {Advice.REPORT: lambda: patient.patch.setattr(paths, "_limit", limits)}


@scenario(Advice.CORRECT)
def a_wrong_configuration(patient: Patient) -> ByHand:
    fixed = iter(('{"extraSources": [{"parser": "pi", "path": "/none"}]}', "{}"))
    patient.configure('{"sweepSecond": 5}')
    return {Advice.CORRECT: lambda: patient.configure(next(fixed))}


@scenario(Advice.ADD_ROOT)
def a_variable_that_was_set_later(patient: Patient) -> ByHand:
    patient.run("start")
    patient.environ["CODEX_HOME"] = f"{patient.place}/codex"
    os.makedirs(f"{patient.place}/codex/sessions")

    def add() -> None:
        entries = [json.loads(re.findall(r"\{[^}]*\}", found["todo"])[0]) for found in patient.wrong()]
        patient.configure(json.dumps({"extraSources": entries}))

    return {Advice.ADD_ROOT: add}


@scenario(Advice.SET_VARIABLE)
def an_impossible_socket(patient: Patient) -> ByHand:
    patient.environ["SESAME_SOCKET"] = "/" + "x" * 200
    return {Advice.SET_VARIABLE: lambda: patient.environ.pop("SESAME_SOCKET")}


@scenario(Advice.UNSET)
def a_daemon_at_another_socket(patient: Patient) -> ByHand:
    patient.run("start")
    patient.environ["SESAME_SOCKET"] = f"{patient.place}/run/other.sock"
    return {}


@scenario(Advice.END)
def a_daemon_at_an_unknown_socket(patient: Patient) -> ByHand:
    place = f"{patient.place}/elsewhere"
    patient.run_beside(sys.executable, "-m", "sesamed", SESAME_RUNTIME_DIR=place)
    eventually(lambda: os.path.exists(f"{place}/sesamed.sock"))
    return {Advice.END: patient.processes[0].wait}


@scenario(Advice.MOVE_AWAY)
def another_programs_database(patient: Patient) -> ByHand:
    patient.data.mkdir(mode=0o700)
    with contextlib.closing(apsw.Connection(str(patient.data / "index.sqlite"))) as connection:
        connection.execute("PRAGMA application_id = 7")  # one without is left alone, and ours lies beside it
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE sessions(id)")
    return {}


@scenario(Advice.MOVE_AWAY)
def files_that_sudo_made(patient: Patient) -> ByHand:
    patient.run("search", "quince")
    patient.run("stop")
    for path in patient.data.iterdir():
        give_away(path)
    return {}


@scenario(Advice.UPDATE)
def an_index_of_a_newer_version(patient: Patient) -> ByHand:
    patient.run("search", "quince")
    patient.run("stop")
    index = str(patient.data / "index.sqlite")

    def set_schema(version: int) -> None:  # a newer version reads a newer index
        with contextlib.closing(connect(index)) as connection:
            connection.pragma("user_version", version)

    set_schema(99)
    return {Advice.UPDATE: lambda: set_schema(schema.VERSION)}


@scenario(Advice.OWN_HOME)
def somebody_elses_home(patient: Patient) -> ByHand:
    theirs = patient.place / "theirs"
    (theirs / "data").mkdir(parents=True, mode=0o700)
    for path in (theirs, theirs / "data"):
        give_away(path)
    patient.environ["SESAME_DATA_DIR"] = f"{theirs}/data"
    return {Advice.OWN_HOME: lambda: patient.environ.update(SESAME_DATA_DIR=str(patient.data))}


@scenario(Advice.CLOSE)
def an_open_log(patient: Patient) -> ByHand:
    patient.run("start")
    (patient.data / "sesamed.log").chmod(0o644)
    patient.data.chmod(0o755)
    return {}


@scenario(Advice.MOVE_OUT)
def a_shared_directory(patient: Patient) -> ByHand:
    patient.run("start")
    patient.run("stop")
    (patient.data / "notes.txt").touch()
    patient.data.chmod(0o755)
    return {Advice.MOVE_OUT: lambda: (patient.data / "notes.txt").rename(patient.place / "notes.txt")}


@scenario(Advice.MOVE_OUT)
def something_beside_the_socket(patient: Patient) -> ByHand:
    patient.run("start")
    (patient.place / "run/notes.txt").touch()
    (patient.place / "run").chmod(0o755)
    return {Advice.MOVE_OUT: lambda: (patient.place / "run/notes.txt").rename(patient.place / "notes.txt")}


@scenario(Advice.SET_VARIABLE)
def a_directory_of_everybody(patient: Patient) -> ByHand:
    shared = patient.place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "sesamed.lock").touch()
    patient.environ["SESAME_DATA_DIR"] = str(shared)
    return {Advice.SET_VARIABLE: lambda: patient.environ.update(SESAME_DATA_DIR=str(patient.data))}


@scenario(Advice.CLOSE)
def an_open_home(patient: Patient) -> ByHand:
    home = patient.place / "home"
    home.chmod(0o700)
    patient.environ["SESAME_DATA_DIR"] = str(home)
    patient.run("start")
    patient.run("stop")
    home.chmod(0o755)
    return {}


@scenario(Advice.END_OTHER)
def a_program_of_another_user(patient: Patient) -> ByHand:
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else")
    path = patient.place / "run/sesamed.sock"
    path.parent.mkdir(mode=0o700)
    become = LISTEN.format(str(path)).replace("listener.listen()", f"os.setuid({NOBODY})\nlistener.listen()")
    patient.run_beside(sys.executable, "-c", become)
    eventually(lambda: _accepts(path))
    return {Advice.END_OTHER: patient.end}


@scenario(Advice.MOVE_AWAY)
def a_directory_at_the_socket(patient: Patient) -> ByHand:
    (patient.place / "run/sesamed.sock").mkdir(parents=True)
    (patient.place / "run").chmod(0o700)
    return {}


@scenario(Advice.PUT_IN_PLACE)
def a_link_to_the_index(patient: Patient) -> ByHand:
    patient.run("search", "quince")
    patient.run("stop")
    patient.data.rename(patient.place / "moved here")
    patient.data.symlink_to(patient.place / "moved here")
    return {}


@scenario(Advice.FREE_SPACE)
def a_full_disk(patient: Patient) -> ByHand:
    patient.run("start")
    patient.inside = True
    least = paths.MIN_FREE_BYTES
    patient.patch.setattr(paths, "MIN_FREE_BYTES", 1 << 60)
    return {Advice.FREE_SPACE: lambda: patient.patch.setattr(paths, "MIN_FREE_BYTES", least)}


@scenario(Advice.RAISE_LIMIT)
def too_few_watches(patient: Patient) -> ByHand:
    patient.run("start")
    patient.inside = True
    limits = patient.place / "limits"
    limits.mkdir()
    (limits / "max_user_watches").write_text("10\n")
    patient.patch.setattr(paths, "LIMITS", str(limits))
    patient.program("sudo", f'test "$1" = sysctl && echo "${{2#*=}}" > {limits}/"$(echo "${{2%=*}}" | cut -d. -f3)"')
    return {}


@scenario(Advice.KILL)
def a_daemon_that_hangs(patient: Patient) -> ByHand:
    patient.run("start")
    os.kill(patient.pid(), signal.SIGSTOP)
    patient.inside = True
    patient.patch.setattr(daemon, "ANSWER_S", 1.0)
    return {Advice.KILL: lambda: patient.patch.setattr(daemon, "ANSWER_S", 15.0)}


@scenario(Advice.END_OTHER)
def another_program(patient: Patient) -> ByHand:
    path = patient.place / "run/sesamed.sock"
    path.parent.mkdir(mode=0o700)
    patient.run_beside(sys.executable, "-c", LISTEN.format(str(path)))
    eventually(lambda: _accepts(path))
    return {Advice.END_OTHER: patient.end}


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


@scenario(Advice.UPDATE)
def a_newer_daemon(patient: Patient) -> ByHand:
    patient.data.mkdir(mode=0o700)
    patient.run_beside(sys.executable, str(PROGRAM), "99.0.0")
    eventually(lambda: patient.run("status").returncode == 0)
    versions = "import sesamed, sesamectl, sys; sesamed.__version__ = sesamectl.__version__ = '99.0.0'; sys.argv[0] = 'sesamectl'"
    command = f"{versions}; from sesamectl.cli import main; sys.exit(main(sys.argv[1:]))"
    return {Advice.UPDATE: lambda: patient.program("sesamectl", f'exec {sys.executable} -c "{command}" "$@"')}


@scenario(Advice.REINSTALL)
def two_versions_in_one_place(patient: Patient) -> ByHand:
    patient.run("start")
    tree = patient.place / "tree"
    for name in ("sesamectl", "sesamed"):
        shutil.copytree(f"{CODE[0]}/{name}", tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = tree / "sesamectl/__init__.py"
    right = file.read_text()
    file.write_text(re.sub(r'__version__ = ".*"', '__version__ = "0.0.1"', right))
    patient.program("sesamectl", f'PYTHONPATH={tree}:$PYTHONPATH exec {sys.executable} -P -m sesamectl "$@"')
    return {Advice.REINSTALL: lambda: file.write_text(right)}


@scenario(Advice.INSTALL)
def an_edited_service(patient: Patient) -> ByHand:
    launchd = patient.place / "launchd"
    launchd.mkdir()
    patient.environ["FAKE_LAUNCHD"] = str(launchd)
    patient.program("launchctl", f'exec {sys.executable} {STAND_IN} "$@"')
    patient.program("sesamectl", f'exec {sys.executable} -c "{AS_ON_A_MAC}" "$@"')
    patient.shell("sesamectl service install")
    plist = patient.place / "home/Library/LaunchAgents/sesame.sesamed.plist"
    plist.write_text(plist.read_text().replace("<integer>10</integer>", "<integer>11</integer>"))
    return {}


def follow(patient: Patient, by_hand: ByHand) -> list[Advice]:
    """Do what is advised, the first thing first; gives all that was advised."""
    given: list[Advice] = []
    for _ in range(MAX_STEPS):
        wrong = patient.wrong()
        if not wrong:
            return given
        given.append(Advice[wrong[0]["advice"].upper()])
        done = by_hand.get(given[-1], lambda: None)
        commands = COMMANDS.findall(wrong[0]["todo"])
        assert commands or given[-1] in by_hand
        if given[-1] not in {Advice.END}:
            done()
        for command in commands:
            patient.shell(command)
            if given[-1] is Advice.END and command.startswith("kill"):
                done()
    raise AssertionError(patient.wrong())


@pytest.mark.parametrize(("advice", "fault"), SCENARIOS, ids=lambda given: getattr(given, "__name__", ""))
def test_an_advice_is_followed(patient: Patient, advice: Advice, fault: Scenario) -> None:
    """Whoever does what is advised ends where nothing is wrong, and finds what could be found before."""
    by_hand = fault(patient)
    assert advice in follow(patient, by_hand)
    patient.shell("sesamectl search quince | grep -q one")


def test_every_advice_is_followed() -> None:
    """A new advice needs a test that follows it."""
    assert {advice for advice, _ in SCENARIOS} | ELSEWHERE.keys() == set(Advice)


@pytest.mark.parametrize("advice", ELSEWHERE, ids=lambda advice: advice.name.lower())
def test_an_advice_is_followed_elsewhere(advice: Advice) -> None:
    """There is a test for each advice."""
    assert f"Advice.{advice.name}" in (Path(__file__).parents[2] / ELSEWHERE[advice]).read_text()

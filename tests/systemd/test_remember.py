"""The timer by which sessions are remembered, under a real user manager of systemd: a model behind a real command writes what they are."""

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from sesamectl.doctor.finding import Advice
from sesamectl.service.systemd import SystemdTimer
from sesamectl.service.unit import Spec
from sesamed.config import Auto
from tests.support.daemon import eventually
from tests.support.user_manager import UserManager
from tests.systemd.test_install import FOREIGN, UNITS, doctor, loaded, tree
from tests.systemd.test_service import answering, found, main_pid

TIMER, ASKER = "sesame-remember.timer", "sesame-remember.service"
CONFIG = ".config/sesame/config.jsonc"
ENTRY = {
    "name": "Where quinces grow",
    "summary": "It was asked where.",
    "tags": ["orchard"],
    "recallWords": ["Obstwiese"],
}
# A command in a directory of the user's that only their shell knows, run by an interpreter that is there, too; it wants a key.
MODEL = """#!/usr/bin/env our-python
import os, sys
assert os.environ["MODEL_KEY"] == "sk-secret", "no key"
assert "not to be indexed" in sys.stdin.read()
open(os.path.expanduser("~/asked"), "a").write("x")
{does}
"""
ANSWERS = f"print({json.dumps(json.dumps({'result': json.dumps(ENTRY), 'total_cost_usd': 0.0012}))})"
pytestmark = pytest.mark.timeout(180)


def program(user: UserManager, does: str = ANSWERS) -> None:
    user.write("tools/a-model", MODEL.format(does=does).encode()).chmod(0o755)


@pytest.fixture
def ready(user: UserManager) -> UserManager:
    """Configured as a person would: the command by its name, what it needs in a private file."""
    user.write("tools/our-python", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n'.encode()).chmod(0o755)
    program(user)
    user.write(".config/model.env", b"# for the model\nexport MODEL_KEY='sk-secret'\n").chmod(0o600)
    configure(user)
    return user


def configure(user: UserManager, **auto: object) -> None:
    memory = {"command": ["a-model"], "auto": {"since": "999mo", "environmentFile": "~/.config/model.env", **auto}}
    user.write(CONFIG, json.dumps({"memory": memory}).encode())


def from_their_shell(user: UserManager, *words: str, code: int = 0) -> str:
    """As it is run where the tools' directory is in PATH."""
    path = f"{user.home}/tools:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", *words, environ={"PATH": path})
    assert ran.returncode == code, (ran.stdout, ran.stderr, user.log)
    return ran.stdout if code == 0 else ran.stderr


def install(user: UserManager, code: int = 0) -> str:
    return from_their_shell(user, "service", "install", "--remember", code=code)


def run_once(user: UserManager, code: int = 0) -> None:
    """What the timer starts; systemctl waits for its end."""
    assert user.run("systemctl", "--user", "start", ASKER).returncode == code, user.log


def status(user: UserManager) -> dict[str, object]:
    state: dict[str, object] = json.loads(from_their_shell(user, "service", "status", "--json"))["remember"]
    return state


def test_it_remembers(ready: UserManager) -> None:
    """By a command that only the person's PATH has, with a key from a private file; neither that nor a session's text is told."""
    said = install(ready)
    assert f"enabled and started {TIMER}" in said
    assert "remember  active, next 20" in said
    assert "nothing to do" in install(ready)
    assert (status(ready)["active"], status(ready)["last"], status(ready)["result"]) == (True, None, "")
    assert not (ready.home / "asked").exists()
    before = len(ready.log)
    run_once(ready)
    assert found(ready, "--no-start") == ["session-1"]
    assert ready.json("search", "obstwiese")["results"][0]["sessionId"] == "session-1"
    assert ready.json("note", "session-1")["generated"]["costUsd"] == 0.0012
    log = ready.log[before:]
    assert "INFO remember [1 of 1] session-1" in log
    assert "INFO remember stored $0.0012" in log
    assert "1 session remembered, 0 failed" in log
    everything = log + "".join(path.read_text() for path in (ready.home / UNITS).glob("sesame*"))
    assert not [word for word in ("quince", "Quince", "orchard", "Obstwiese", "sk-secret") if word in everything]
    run_once(ready)
    assert (ready.home / "asked").read_text() == "x"
    assert "No problems found." in ready.ctl("doctor")


def test_it_runs_as_often_as_it_is_configured(user: UserManager) -> None:
    """Every interval that can be said means the same to systemd."""
    choices = get_args(get_type_hints(Auto)["every"])
    timer = SystemdTimer({"XDG_RUNTIME_DIR": "/nonexistent"})
    assert len(choices) == 8
    for every in choices:
        hours = Auto(every=every).hours
        files = timer.render(Spec("/usr/bin/python3", {}), hours)
        (calendar,) = re.findall(r"^OnCalendar=(.*)$", "".join(files.values()), re.MULTILINE)
        said = user.run("systemd-analyze", "calendar", "--iterations=3", calendar, environ={"TZ": "UTC"}).stdout
        times = [
            datetime.fromisoformat(found)
            for found in re.findall(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC$", said, re.MULTILINE)
        ]
        assert {after - before for before, after in pairwise(times)} == {timedelta(hours=hours)}, said


def test_it_has_none_of_the_daemons_sandbox(ready: UserManager) -> None:
    """What a command of Node's needs: memory that is written and run, and sockets that lead into the network."""
    program(ready, "import mmap, socket\nmmap.mmap(-1, 4096, prot=7)\nsocket.socket(socket.AF_INET)\n" + ANSWERS)
    install(ready)
    run_once(ready)
    assert ready.json("search", "obstwiese")["results"], ready.log
    verified = ready.run(
        "systemd-analyze", "--user", "verify", *(str(ready.home / UNITS / name) for name in (TIMER, ASKER))
    )
    assert (verified.returncode, verified.stderr) == (0, "")


def test_a_day_has_its_budget(ready: UserManager) -> None:
    """What is beyond it is left for tomorrow."""
    configure(ready, tokensPerDay=1)
    install(ready)
    run_once(ready)
    assert not (ready.home / "asked").exists()
    assert "stopped: it goes beyond the budget" in ready.log
    configure(ready, tokensPerDay=5000)
    run_once(ready)
    assert (ready.home / "asked").read_text() == "x"


def test_a_command_that_fails_is_told(ready: UserManager) -> None:
    """By systemd, the status and the doctor; what it complained of, which may be anything, is in no log."""
    program(ready, "sys.exit('a quince in the prompt')")
    install(ready)
    before = len(ready.log)
    run_once(ready, code=1)
    assert "WARNING remember session-1: failed: a-model ended with 1\n" in ready.log[before:]
    assert "quince" not in ready.log[before:]
    assert status(ready)["result"] == "exit-code"
    assert "its last run failed (exit-code)" in ready.ctl("doctor")
    program(ready)
    run_once(ready)  # it waits
    assert (ready.home / "asked").read_text() == "x"


def test_stopped_in_the_middle(ready: UserManager) -> None:
    """The command ends with it, nothing is stored, and that is no failure."""
    program(ready, "import time; time.sleep(600)")
    install(ready)
    ready.systemctl("start", "--no-block", ASKER)
    eventually(lambda: (ready.home / "asked").exists())
    assert status(ready)["running"]
    ready.systemctl("stop", ASKER)
    assert ready.shown("Result", ASKER) == "success"
    assert ready.run("pgrep", "-u", "sesu", "-f", "a-model").stdout == ""
    assert ready.json("note", "session-1")["generated"] is None


def test_it_is_taken_away(ready: UserManager) -> None:
    """Alone, or with the daemon's service; without one, installing it again leaves the service as it is."""
    install(ready)
    before = main_pid(ready)
    assert f"removed {ready.home}/{UNITS}/{TIMER}" in ready.ctl("service", "uninstall", "--remember")
    assert loaded(ready).count("sesame-remember") == 0
    assert answering(ready) == main_pid(ready) == before
    install(ready)
    assert main_pid(ready) == before
    ready.ctl("service", "install")
    assert status(ready)["active"]
    ready.ctl("service", "uninstall")
    assert not [path for path in (ready.home / UNITS).rglob("*") if path.is_symlink() or path.is_file()]
    assert ready.ctl("service", "uninstall").startswith("nothing to do")


def timer_in_the_way(user: UserManager) -> None:
    user.write(f"{UNITS}/{TIMER}.new/x", b"")


def timer_that_fails(user: UserManager) -> None:
    user.write(f"{UNITS}/{TIMER}.d/test.conf", b"[Timer]\nOnCalendar=\n")
    user.systemctl("daemon-reload")


@pytest.mark.parametrize("fault", [timer_in_the_way, timer_that_fails])
@pytest.mark.parametrize("has_service", [False, True])
def test_a_failed_install_leaves_nothing(
    ready: UserManager, fault: Callable[[UserManager], None], has_service: bool
) -> None:
    """Neither of the timer nor of the service, if that was not there."""
    if has_service:
        ready.ctl("service", "install", "--socket")
    fault(ready)
    before, pid = tree(ready), answering(ready)
    assert "all changes were undone" in install(ready, code=4)
    assert tree(ready) == before
    assert answering(ready) == pid
    assert ready.shown("ActiveState", TIMER) == "inactive"
    assert found(ready) == ["session-1"]


def test_a_failed_change_gives_the_timer_back(ready: UserManager) -> None:
    """As it was."""
    install(ready)
    timer_that_fails(ready)
    configure(ready, every="24h")
    before = tree(ready)
    assert "undone" in install(ready, code=4)
    assert tree(ready) == before


@pytest.mark.parametrize("name", [TIMER, ASKER])
def test_a_unit_of_somebody_else_is_left_alone(ready: UserManager, name: str) -> None:
    """Neither changed, removed nor started; a masked one means that none is wanted."""
    path = ready.write(f"{UNITS}/{name}", FOREIGN)
    before = tree(ready)
    assert f"{path} was not written by sesame; it was left alone" in install(ready, code=4)
    assert f"left alone: {path} was not written by sesame" in ready.ctl("service", "uninstall")
    assert tree(ready) == before
    path.unlink()
    ready.systemctl("mask", name)
    before = tree(ready)
    assert f"{name} is masked (`systemctl --user unmask {name}` undoes that)" in install(ready, code=4)
    ready.ctl("service", "uninstall")
    assert tree(ready) == before
    assert "no sessions are remembered by themselves" in ready.ctl("doctor")
    ready.systemctl("unmask", name)
    install(ready)


def test_what_could_not_work_is_refused(ready: UserManager) -> None:
    """No command, one that PATH does not have, a file that others can read: in a line, and nothing is installed."""
    before = tree(ready)
    refused = ready.ctl("service", "install", "--remember", code=4)
    assert "a-model (memory.command) is no program in PATH, which is " in refused
    assert refused.endswith("; nothing was installed\n")
    (ready.home / ".config/model.env").chmod(0o644)
    assert "model.env is open to other users (mode 644)" in install(ready, code=4)
    assert tree(ready) == before
    ready.write(CONFIG, b'{"memory": {"command": ["tools/a-model"]}}')
    assert "tools/a-model (memory.command) is found from some directories only" in install(ready, code=4)
    ready.write(CONFIG, b"{}")
    assert "put memory.command into" in install(ready, code=4)


def faults(user: UserManager) -> list[dict[str, str]]:
    """What is wrong with the timer. That the configuration has changed is nothing to it, which reads it anew each time."""
    return [wrong for wrong in doctor(user) if wrong["check"] == "timer"]


def test_what_the_doctor_advises(ready: UserManager) -> None:
    """Of a timer that is not as configured, does not run, or could not work."""
    install(ready)
    configure(ready, every="4h")
    (wrong,) = faults(ready)
    assert (wrong["check"], wrong["todo"]) == ("timer", Advice.INSTALL_TIMER.value)
    install(ready)
    assert faults(ready) == []
    assert "OnCalendar=*-*-* 00/4:00:00" in (ready.home / UNITS / TIMER).read_text()
    ready.systemctl("stop", TIMER)
    (wrong,) = faults(ready)
    assert "does not run" in wrong["message"]
    install(ready)
    (ready.home / ".config/model.env").chmod(0o640)
    (wrong,) = faults(ready)
    assert wrong["todo"] == f"`chmod go= {ready.home}/.config/model.env`"
    (ready.home / ".config/model.env").chmod(0o600)
    (ready.home / "tools/a-model").unlink()
    (wrong,) = faults(ready)
    assert wrong["todo"] == f"correct {ready.home}/{CONFIG}"
    assert "is no program in the timer's PATH" in wrong["message"]
    program(ready)
    assert faults(ready) == []

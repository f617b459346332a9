"""The service by way of launchd: our side for real, launchd's by a stand-in that starts what the plist says."""

import json
import os
import plistlib
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamectl.launch import START_S
from tests.support.daemon import eventually
from tests.support.machine import Machine

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the stand-in looks into /proc")

STAND_IN = Path(__file__).parents[1] / "support/launchctl.py"
# What is refused need not be tried for 15 s.
AS_ON_A_MAC = "; ".join((
    "import sys, os", "sys.platform = 'darwin'", "from sesamectl.cli import main", "from sesamectl.service import launchd",
    "launchd.UNLOAD_S = float(os.environ.get('UNLOAD_S', launchd.UNLOAD_S))", "sys.exit(main(sys.argv[1:]))",
))  # fmt: skip


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits for its parent only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "Z"
    except OSError:
        return True


class Mac(Machine):
    """A machine on which sesamectl takes itself to be on macOS."""

    def __init__(self) -> None:
        super().__init__()
        self.launchd = self.place / "launchd"
        programs = self.place / "programs"
        self.launchd.mkdir()
        programs.mkdir()
        (programs / "launchctl").write_text(f'#!/bin/sh\nexec {sys.executable} -IS {STAND_IN} "$@"\n')
        (programs / "launchctl").chmod(0o755)
        self.environ |= {"FAKE_LAUNCHD": str(self.launchd), "PATH": f"{programs}:{os.environ['PATH']}"}
        self.plist = self.place / "home/Library/LaunchAgents/sesame.sesamed.plist"

    def ctl(self, *words: str, code: int = 0) -> str:
        """What sesamectl says."""
        command = [sys.executable, "-c", AS_ON_A_MAC, *words]
        done = subprocess.run(
            command, env=self.environ, cwd=self.place, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, (done.stdout, done.stderr, self.calls())
        return done.stdout if code == 0 else done.stderr

    def stop(self) -> None:
        """Stop the daemon, and wait until its process is gone, a moment later: while launchd sees one it starts none."""
        pid = json.loads((self.launchd / "sesame.sesamed.json").read_text())["pid"]
        self.ctl("stop")
        eventually(lambda: has_ended(pid))

    def say(self, *words: str) -> str:
        """What it prints, however it ends."""
        command = [sys.executable, "-c", AS_ON_A_MAC, *words]
        done = subprocess.run(command, env=self.environ, cwd=self.place, capture_output=True, text=True, check=False)
        return done.stdout

    def calls(self) -> list[str]:
        """What launchctl was called with."""
        file = self.launchd / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def answering(self) -> int | None:
        pid: int | None = json.loads(self.ctl("service", "status", "--json"))["answers"]
        return pid


@pytest.fixture
def mac() -> Iterator[Mac]:
    made = Mac()
    made.write("one", "a quince")
    try:
        yield made
    finally:
        made.remove()


def test_install(mac: Mac) -> None:
    """Installed it is loaded and answers; a second install changes nothing."""
    said = mac.ctl("service", "install")
    assert "loaded sesame.sesamed" in said
    assert "service   active" in said
    assert stat.S_IMODE(mac.plist.stat().st_mode) == 0o644
    assert "one" in mac.ctl("search", "quince", "--no-start")
    pid = mac.answering()
    assert "nothing to do" in mac.ctl("service", "install")
    assert mac.answering() == pid
    assert (mac.data / "sesamed.log").stat().st_mode & 0o777 == 0o600


def test_a_changed_plist_is_loaded_anew(mac: Mac) -> None:
    """The old one is unloaded first, and its end waited for: until then launchd takes no new one."""
    mac.ctl("service", "install")
    before = mac.answering()
    said = mac.ctl("service", "install", "--socket")
    assert "unloaded" in said
    assert "loaded" in said
    assert mac.answering() not in {None, before}
    assert "<key>Sockets</key>" in mac.plist.read_text()
    assert "nothing to do" in mac.ctl("service", "install")  # what is there stays, until it is uninstalled
    assert "<key>Sockets</key>" in mac.plist.read_text()
    mac.ctl("service", "uninstall")
    mac.ctl("service", "install")
    assert "<key>Sockets</key>" not in mac.plist.read_text()


def test_a_disabled_agent(mac: Mac) -> None:
    """After `launchctl disable` nothing is loaded until it is enabled: whoever installs the service wants it to run."""
    (mac.launchd / "disabled").touch()
    assert "service   active" in mac.ctl("service", "install")


def test_the_directory_of_the_socket(mac: Mac) -> None:
    """launchd makes no directories: without the socket's it would load the agent without its socket."""
    mac.ctl("service", "install", "--socket")
    assert not (mac.launchd / "without-its-socket").exists()
    assert stat.S_IMODE((mac.place / "run").stat().st_mode) == 0o700


def test_an_interpreter_that_is_gone(mac: Mac) -> None:
    """When Python is replaced, what the plist starts ends as if it were wanted: else it would fail every ten seconds. Clients start the
    daemon themselves, and the doctor says why.
    """
    mac.ctl("service", "install")
    mac.stop()
    job = plistlib.loads(mac.plist.read_bytes())
    at = job["ProgramArguments"].index("-P") - 1
    bare, gone = f"{mac.place}/bare/bin/python3", f"{mac.place}/gone/bin/python3"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", f"{mac.place}/bare"], check=True)
    for python, why in ((bare, "No module named 'sesamed'"), (gone, "not found")):
        job["ProgramArguments"][at] = python
        mac.plist.write_bytes(plistlib.dumps(job))
        ran = subprocess.run(job["ProgramArguments"], env={}, capture_output=True, text=True, check=False)
        assert (ran.returncode, why in ran.stderr) == (0, True), ran.stderr
    assert "one" in mac.ctl("search", "quince")
    assert f"{mac.plist} runs {gone}, which is gone" in mac.say("doctor")


def test_one_that_has_not_quite_ended_when_the_next_search_comes(mac: Mac) -> None:
    """launchd starts nothing while there is one; so it is asked again, once."""
    mac.ctl("service", "install")
    mac.stop()
    (mac.launchd / "ends-late").touch()
    assert "one" in mac.ctl("search", "quince")
    assert len([call for call in mac.calls() if call.startswith("kickstart")]) == 2


def test_the_next_search_starts_it_through_launchd(mac: Mac) -> None:
    """After a stop it is launchd that starts it again."""
    mac.ctl("service", "install")
    mac.stop()
    assert "one" in mac.ctl("search", "quince")
    assert [call for call in mac.calls() if call.startswith("kickstart")] == [
        f"kickstart gui/{os.geteuid()}/sesame.sesamed"
    ]
    assert mac.answering() == json.loads((mac.launchd / "sesame.sesamed.json").read_text())["pid"]


def test_who_must_not_start_it_does_not_connect(mac: Mac) -> None:
    """launchd would start the daemon for whoever connects to a socket that it holds: who only looks does not, and `stop` says it."""
    mac.ctl("service", "install", "--socket")
    assert "launchd holds its socket, and starts it again for the next client" in mac.ctl("stop")
    assert "sesamed is not running; launchd starts it for the next client" in mac.ctl("status", code=3)
    assert "launchd starts it for the next client" in mac.ctl("doctor")
    assert not [call for call in mac.calls() if call.startswith("kickstart")]


def test_a_daemon_that_a_client_started_makes_way(mac: Mac) -> None:
    """A daemon without a service is stopped for the one with."""
    mac.ctl("search", "quince")
    before = mac.answering()
    assert f"(pid {before})" in mac.ctl("service", "install")
    assert mac.answering() not in {None, before}


def test_uninstall(mac: Mac) -> None:
    """Unloaded and removed; the index stays."""
    mac.ctl("service", "install")
    pid = mac.answering()
    mac.ctl("service", "uninstall")
    assert not mac.plist.exists()
    assert mac.answering() is None
    assert (mac.data / "index.sqlite").exists()
    assert pid is not None
    eventually(lambda: has_ended(pid))
    assert "nothing to do" in mac.ctl("service", "uninstall")


def test_nobody_is_logged_in(mac: Mac) -> None:
    """Over ssh alone there is no launchd for agents: it says so, and the client starts the daemon itself."""
    (mac.launchd / "no-login").touch()
    assert "logged in at the screen" in mac.ctl("service", "install", code=4)
    assert not mac.plist.exists()
    assert "one" in mac.ctl("search", "quince")


def test_a_wrong_configuration(mac: Mac) -> None:
    """What cannot get better by itself ends as if it were wanted, or launchd would try for ever."""
    mac.ctl("service", "install")
    mac.stop()
    (mac.config / "config.jsonc").write_text('{"sweepSecond": 5}')
    job = plistlib.loads(mac.plist.read_bytes())
    ran = subprocess.run(
        job["ProgramArguments"], env={**mac.environ, **job["EnvironmentVariables"]}, capture_output=True, check=False
    )
    assert (ran.returncode, b"sweepSecond" in ran.stderr) == (0, True)


def test_a_client_is_told_of_a_wrong_configuration(mac: Mac) -> None:
    """launchd only knows that the daemon has ended; what it said is in its log. Once that is corrected, the next search works."""
    mac.ctl("service", "install")
    mac.stop()
    (mac.config / "config.jsonc").write_text('{"sweepSecond": 5}')
    began = time.monotonic()
    assert "sesamed did not start: " in (said := mac.ctl("search", "quince", code=3))
    assert "$: Object contains unknown field `sweepSecond`" in said
    assert time.monotonic() - began < START_S
    (mac.config / "config.jsonc").write_text('{"sweepSeconds": 5}')
    assert "one" in mac.ctl("search", "quince")
    assert [call.partition(" ")[0] for call in mac.calls()].count("kickstart") == 2


def test_a_plist_of_somebody_else_is_left_alone(mac: Mac) -> None:
    """A plist of the same name that we did not write is neither changed, removed nor loaded."""
    mac.plist.parent.mkdir(parents=True)
    mac.plist.write_bytes(plistlib.dumps({"Label": "sesame.sesamed", "ProgramArguments": ["/bin/true"]}))
    before = mac.plist.read_bytes()
    assert f"{mac.plist} was not written by sesame; it was left alone" in mac.ctl("service", "install", code=4)
    assert "left alone" in mac.ctl("service", "uninstall")
    assert "one" in mac.ctl("search", "quince")
    assert mac.plist.read_bytes() == before
    assert not [call for call in mac.calls() if not call.startswith("print")]


def test_a_failed_install_leaves_nothing(mac: Mac) -> None:
    """What launchd refuses is undone, and the daemon that had to make way runs again."""
    assert "one" in mac.ctl("search", "quince")
    (mac.launchd / "refuses").touch()
    mac.environ["UNLOAD_S"] = "3"
    before = sorted((mac.place / "home").rglob("*"))
    assert "all changes were undone" in mac.ctl("service", "install", code=4)
    assert sorted((mac.place / "home").rglob("*")) == before
    assert "one" in mac.ctl("search", "quince", "--no-start")


def test_printing_writes_nothing(mac: Mac) -> None:
    """--print shows the files, and asks launchd nothing."""
    assert "<string>sesame.sesamed</string>" in mac.ctl("service", "install", "--print")
    assert not mac.plist.parent.exists()
    assert mac.calls() == []


def test_its_log(mac: Mac) -> None:
    """What it said is shown, also after a crash."""
    mac.ctl("service", "install")
    pid = mac.answering()
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert "sesamed.daemon ready" in mac.ctl("logs")
    assert "sesamed.daemon ready" in json.loads(mac.ctl("service", "logs", "--lines", "3", "--json"))["lines"][-1]


# -- the timer by which sessions are remembered


MODEL = """#!/bin/sh
cat > /dev/null
echo "$MODEL_KEY" >> {place}/asked
echo '{entry}'
"""
ENTRY = {"name": "Where quinces grow", "summary": "It was asked.", "tags": ["orchard"], "recallWords": ["Obstwiese"]}


@pytest.fixture
def model(mac: Mac) -> Mac:
    """A command that PATH has, and the private file of its key."""
    command, key = mac.place / "programs/a-model", mac.place / "key"
    command.write_text(MODEL.format(place=mac.place, entry=json.dumps(ENTRY)))
    command.chmod(0o755)
    key.write_text("MODEL_KEY=sk-secret\n")
    key.chmod(0o600)
    configure(mac, every="12h")
    return mac


def configure(mac: Mac, **auto: str) -> None:
    memory = {"command": ["a-model"], "auto": {"since": "999mo", "environmentFile": str(mac.place / "key"), **auto}}
    (mac.config / "config.jsonc").write_text(json.dumps({"memory": memory}))


def timer_of(mac: Mac) -> dict[str, object] | None:
    found: dict[str, object] | None = json.loads(mac.ctl("service", "status", "--json"))["remember"]
    return found


def test_the_timer(model: Mac) -> None:
    """Loaded, it runs at the hours that are configured, with what the command needs; what it says is in the daemon's log, and no text."""
    said = model.ctl("service", "install", "--remember")
    assert "loaded sesame.remember" in said
    plist = model.plist.with_name("sesame.remember.plist")
    job = plistlib.loads(plist.read_bytes())
    assert job["StartCalendarInterval"] == [{"Hour": 0, "Minute": 0}, {"Hour": 12, "Minute": 0}]
    assert "sk-secret" not in plist.read_text()
    assert "nothing to do" in model.ctl("service", "install", "--remember")
    assert "remember  active" in model.ctl("service", "status")
    assert not (model.place / "asked").exists()
    subprocess.run(["launchctl", "kickstart", "gui/501/sesame.remember"], env=model.environ, check=True)
    eventually(lambda: (timer_of(model) or {})["result"] == "success")
    assert (model.place / "asked").read_text() == "sk-secret\n"
    assert "one" in model.ctl("search", "obstwiese", "--no-start")
    assert "INFO remember 1 session remembered, 0 failed" in model.log()
    assert not [word for word in ("quince", "Obstwiese", "sk-secret") if word in model.log()]
    pid = model.answering()
    configure(model, every="24h")
    assert [wrong["todo"] for wrong in faults(model)] == ["`sesamectl service install --remember`"]
    model.ctl("service", "install", "--remember")
    assert plistlib.loads(plist.read_bytes())["StartCalendarInterval"] == [{"Hour": 12, "Minute": 0}]
    assert (faults(model), model.answering()) == ([], pid)
    assert f"removed {plist}" in model.ctl("service", "uninstall", "--remember")
    assert (timer_of(model), model.answering()) == (None, pid)


def faults(mac: Mac) -> list[dict[str, str]]:
    """What the doctor finds wrong with the timer."""
    return [
        each
        for each in json.loads(mac.say("doctor", "--json"))["findings"]
        if (each["check"], each["level"]) == ("timer", "wrong")
    ]


def test_a_timers_plist_of_somebody_else_is_left_alone(model: Mac) -> None:
    """Neither replaced nor removed; nothing else is installed either."""
    plist = model.plist.with_name("sesame.remember.plist")
    plist.parent.mkdir(parents=True)
    plist.write_bytes(plistlib.dumps({"Label": "sesame.remember", "ProgramArguments": ["/bin/true"]}))
    before = plist.read_bytes()
    assert f"{plist} was not written by sesame" in model.ctl("service", "install", "--remember", code=4)
    assert f"left alone: {plist}" in model.ctl("service", "uninstall")
    assert plist.read_bytes() == before
    assert not model.plist.exists()


def test_a_timer_that_cannot_be_loaded_leaves_nothing(model: Mac) -> None:
    """The service, which could be, is taken back as well."""
    programs = model.place / "programs"
    refuse = 'case "$*" in "bootstrap "*remember*) echo "Input/output error"; exit 5 ;; esac'
    real = (programs / "launchctl").read_text().partition("\n")[2]
    (programs / "launchctl").write_text(f"#!/bin/sh\n{refuse}\n{real}")
    model.environ["UNLOAD_S"] = "3"
    said = model.ctl("service", "install", "--remember", code=4)
    assert "sesame.remember.plist` failed: Input/output error; all changes were undone" in said
    assert not list(model.plist.parent.glob("*")) if model.plist.parent.exists() else True
    assert model.answering() is None

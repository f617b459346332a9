"""The service under a real user manager of systemd: installed, started, killed, hung, stopped, and taken away."""

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.support.daemon import eventually
from tests.support.user_manager import ROOT, UID, UserManager

UNIT = ".config/systemd/user/sesamed.service"
SLOW = pytest.mark.timeout(120)
pytestmark = SLOW


AS_OFTEN_AS_IT_TAKES = "[Unit]\nStartLimitIntervalSec=0\n"


def found(user: UserManager, *flags: str) -> list[str]:
    return [hit["sessionId"] for hit in user.json("search", "quince", *flags)["results"]]


def answering(user: UserManager) -> int | None:
    pid: int | None = user.json("service", "status")["answers"]
    return pid


def main_pid(user: UserManager) -> int:
    return int(user.shown("MainPID"))


def again(user: UserManager, before: int) -> int:
    """Wait until systemd has started another one that answers; its pid."""
    return eventually(lambda: (pid := answering(user)) not in {None, before} and pid == main_pid(user) and pid, 60) or 0


def test_install(user: UserManager) -> None:
    """Installed it runs, answers, is enabled, and tells what it does; nothing about it is anybody else's."""
    said = user.ctl("service", "install")
    assert "enabled and started sesamed.service" in said
    assert user.shown("ActiveState") == "active"
    assert user.shown("UnitFileState") == "enabled"
    assert found(user, "--no-start") == ["session-1"]
    assert answering(user) == main_pid(user)
    eventually(lambda: user.shown("StatusText").startswith("ready: 1 session files in "))
    assert "service   active: ready: 1 session files" in user.ctl("service", "status")
    socket = f"/run/user/{UID}/sesame/sesamed.sock"
    modes = user.run(
        "stat", "-c", "%a", socket, str(Path(socket).parent), str(user.home / ".local/share/sesame/index.sqlite")
    )
    assert modes.stdout.split() == ["600", "700", "600"]


def test_install_again(user: UserManager) -> None:
    """A second install changes nothing, and leaves the daemon alone."""
    user.ctl("service", "install")
    before = answering(user)
    assert "nothing to do" in user.ctl("service", "install")
    assert answering(user) == before


def test_what_is_enforced(user: UserManager) -> None:
    """The hardening that the unit asks for is there in the process."""
    user.ctl("service", "install")
    status = Path(f"/proc/{main_pid(user)}/status").read_text()
    limits = Path(f"/proc/{main_pid(user)}/limits").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert (fields["NoNewPrivs"], fields["Seccomp"], fields["Umask"]) == ("1", "2", "0077")
    assert limits.split("Max core file size")[1].split()[:2] == ["0", "0"]


def test_the_units_are_without_fault(user: UserManager) -> None:
    """`systemd-analyze verify` has nothing to say; it would not fail for what it does not know, so that silence counts."""
    user.ctl("service", "install", "--socket")
    units = [str(user.home / UNIT), str(user.home / UNIT).replace(".service", ".socket")]
    verified = user.run("systemd-analyze", "--user", "verify", *units)
    assert (verified.returncode, verified.stderr) == (0, "")


def test_verify_would_complain(user: UserManager) -> None:
    """The check above can fail."""
    user.ctl("service", "install")
    unit = user.write(UNIT, (user.home / UNIT).read_bytes().replace(b"WatchdogSec=60", b"WatchDogSeconds=60"))
    assert "WatchDogSeconds" in user.run("systemd-analyze", "--user", "verify", str(unit)).stderr


def test_a_daemon_that_a_client_started_makes_way(user: UserManager) -> None:
    """The service takes over from a daemon that ran without it."""
    assert found(user) == ["session-1"]
    before = answering(user)
    assert f"without the service (pid {before})" in user.ctl("service", "install")
    assert answering(user) == main_pid(user) != before


def test_a_crash(user: UserManager) -> None:
    """Killed, it is started again, and answers."""
    user.ctl("service", "install")
    before = main_pid(user)
    os.kill(before, signal.SIGKILL)
    again(user, before)
    assert found(user, "--no-start") == ["session-1"]
    assert "restarts  1 after failures" in user.ctl("service", "status")


@pytest.mark.fault(96)
def test_a_hang(user: UserManager) -> None:
    """When nothing of it moves the watchdog ends it, and it is started again."""
    user.ctl("service", "install")
    user.drop_in(f"{AS_OFTEN_AS_IT_TAKES}[Service]\nWatchdogSec=1\nTimeoutAbortSec=1\nRestartSec=0\n")
    user.systemctl("restart", "sesamed.service")
    before = main_pid(user)
    os.kill(before, signal.SIGSTOP)
    again(user, before)
    user.drop_in("[Service]\nRestartSec=0\n")  # a second is little on a busy machine, for what is well, too
    user.systemctl("restart", "sesamed.service")
    assert found(user, "--no-start") == ["session-1"]


@pytest.mark.fault(96)
def test_a_writer_that_hangs(user: UserManager) -> None:
    """A daemon that still answers, but whose writer makes no way, is ended by the watchdog as well."""
    user.ctl("service", "install")
    program = ROOT / "tests/systemd/hanging.py"
    execute = f"ExecStart=\nExecStart={sys.executable} {program}\n"
    user.drop_in(f"{AS_OFTEN_AS_IT_TAKES}[Service]\n{execute}WatchdogSec=1\nTimeoutAbortSec=1\nRestartSec=0\n")
    user.systemctl("restart", "sesamed.service")
    before = main_pid(user)
    user.write(".pi/agent/sessions/a/hang.jsonl", b"{}\n")
    eventually(lambda: main_pid(user) not in {0, before}, 60)
    eventually(
        lambda: "no progress error=TimeoutError" in user.log, 60
    )  # by the next one, where this one was ended before


def test_stop_and_start(user: UserManager) -> None:
    """A wanted stop stays one; the next search has the manager start it."""
    user.ctl("service", "install")
    user.ctl("stop")
    eventually(lambda: user.shown("ActiveState") == "inactive")
    assert user.shown("Result") == "success"
    user.ctl("search", "quince", "--no-start", code=3)
    assert found(user) == ["session-1"]
    assert answering(user) == main_pid(user)
    before = main_pid(user)
    user.ctl("restart")
    assert answering(user) == main_pid(user) != before


def test_twenty_clients_at_once(user: UserManager) -> None:
    """Twenty cold clients are all answered, by the one daemon of the manager."""
    user.ctl("service", "install")
    user.ctl("stop")
    script = " & ".join(["sesamectl search quince --json"] * 20) + " & wait"
    ran = user.run("bash", "-c", script)
    assert [json.loads(line)["resultCount"] for line in ran.stdout.splitlines()] == [1] * 20, ran.stderr
    assert user.run("pgrep", "-u", str(UID), "-f", "sesamed$").stdout.split() == [str(main_pid(user))]


def test_a_cold_start_through_the_socket(user: UserManager) -> None:
    """With a socket unit the first connection starts the service, whatever ended the last one."""
    user.ctl("service", "install", "--socket")
    assert user.shown("ActiveState", "sesamed.socket") == "active"
    user.systemctl("stop", "sesamed.service")
    assert found(user) == ["session-1"]
    os.kill(before := main_pid(user), signal.SIGKILL)
    assert found(user) == ["session-1"]
    assert main_pid(user) != before
    user.ctl("stop")
    assert found(user) == ["session-1"]
    mode = user.run("stat", "-c", "%a %F", f"/run/user/{UID}/sesame/sesamed.sock").stdout.strip()
    assert mode == "600 socket"


def test_who_must_not_start_it_does_not_wake_it(user: UserManager) -> None:
    """With a socket unit whoever connects starts the service: those who only look do not connect. `stop` and `restart` say how it is."""
    user.ctl("service", "install", "--socket")
    assert user.ctl("stop").splitlines() == [
        "sesamed stopped",
        "systemd holds its socket, and starts it again for the next client; `sesamectl service uninstall` ends that",
    ]
    eventually(lambda: user.shown("ActiveState") == "inactive")
    for words in (["status"], ["search", "quince", "--no-start"]):
        assert "sesamed is not running; systemd starts it for the next client" in user.ctl(*words, code=3)
    assert "note   socket    sesamed is not running; systemd starts it for the next client" in user.ctl("doctor")
    assert "nothing answers" in user.ctl("service", "status")
    assert user.ctl("stop").startswith("sesamed was not running\nsystemd holds its socket")
    assert user.shown("ActiveState") == "inactive"
    for _ in range(2):  # from nothing, and one that runs
        before = main_pid(user)
        assert " started: pid " in user.ctl("restart")
        assert answering(user) == main_pid(user) != before
    assert " is already running: pid " in user.ctl("start")


def test_a_socket_unit_that_is_not_wanted_any_more(user: UserManager) -> None:
    """It stays when the service is installed once more; uninstalled, and installed without it, the service goes on by itself."""
    user.ctl("service", "install", "--socket")
    user.ctl("service", "install")
    assert (user.home / UNIT.replace(".service", ".socket")).exists()
    user.ctl("service", "uninstall")
    user.ctl("service", "install")
    assert not (user.home / UNIT.replace(".service", ".socket")).exists()
    assert found(user, "--no-start") == ["session-1"]


@pytest.mark.fault(97)
def test_a_crash_storm(user: UserManager) -> None:
    """What fails at once, again and again, stays down; the client says what to do, and an install tries again."""
    user.ctl("service", "install")
    user.drop_in("[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=0\n")
    user.ctl("stop")
    user.run("systemctl", "--user", "start", "sesamed.service")
    eventually(lambda: user.shown("ActiveState") == "failed", 30)
    assert "see `sesamectl doctor`" in user.ctl("search", "quince", code=3)
    assert "failed" in user.ctl("service", "status")
    (user.home / UNIT.replace(".service", ".service.d/test.conf")).unlink()
    user.systemctl("daemon-reload")
    user.ctl("service", "install")
    assert found(user, "--no-start") == ["session-1"]


def test_a_wrong_configuration(user: UserManager) -> None:
    """A configuration that cannot be used is not tried again and again; who asks hears of it."""
    user.ctl("service", "install")
    user.ctl("stop")
    user.write(".config/sesame/config.jsonc", b'{"sweepSecond": 5}')
    said = user.ctl("search", "quince", code=3)
    assert "see `sesamectl doctor`" in said
    assert user.shown("ActiveState") == "failed"
    assert user.shown("NRestarts") == "0"
    assert "config.jsonc: line 1: $: Object contains unknown field `sweepSecond`" in user.log


def test_uninstall(user: UserManager) -> None:
    """Uninstalled nothing runs and nothing is left but the index; a client starts the daemon by itself again."""
    user.ctl("service", "install", "--socket")
    user.ctl("service", "uninstall")
    assert not [path for path in (user.home / ".config/systemd").rglob("*") if path.is_symlink() or path.is_file()]
    assert user.run("systemctl", "--user", "list-units", "--all", "sesamed*", "--plain", "--no-legend").stdout == ""
    assert (user.home / ".local/share/sesame/index.sqlite").exists()
    assert "nothing to do" in user.ctl("service", "uninstall")
    assert found(user) == ["session-1"]
    assert main_pid(user) == 0


def test_purge(user: UserManager) -> None:
    """With --purge the index goes as well; what is not ours stays, and so do sessions and promises that have no other home."""
    user.ctl("service", "install")
    user.write(".local/share/sesame/somebody's", b"x")
    user.ctl("service", "uninstall", "--purge")
    left = {path.name for path in (user.home / ".local/share/sesame").iterdir()}
    assert left == {"somebody's", "sessions", "workstations.jsonl"}


def test_odd_paths(user: UserManager) -> None:
    """Whatever stands in a path, systemd reads it as it was written."""
    odd = {"SESAME_DATA_DIR": f"{user.home}/a b%h\"c\\d$HOME'é", "CODEX_HOME": f"{user.home}/%%x"}
    (user.home / "a").mkdir()
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "service", "install", environ=odd)
    assert ran.returncode == 0, ran.stderr
    assert f"{user.home}/a b%h\"c\\d$HOME'é/index.sqlite" == user.json("status")["database"]["path"]
    assert f"{user.home}/%%x/sessions" in [source["path"] for source in user.json("status")["sources"]]
    verified = user.run("systemd-analyze", "--user", "verify", str(user.home / UNIT))
    assert (verified.returncode, verified.stderr) == (0, "")
    assert "removed" in user.run(sys.executable, "-P", "-m", "sesamectl", "service", "uninstall", environ=odd).stdout


@pytest.mark.fault(98)
def test_an_upgrade(user: UserManager) -> None:
    """An older daemon that the service runs is restarted once, through the manager, into the installed one."""
    user.ctl("service", "install")
    older(user)
    user.systemctl("restart", "sesamed.service")
    (user.home / UNIT.replace(".service", ".service.d/test.conf")).unlink()
    user.systemctl("daemon-reload")
    before = main_pid(user)
    assert found(user) == ["session-1"]
    assert answering(user) == main_pid(user) != before
    before = main_pid(user)
    assert found(user) == ["session-1"]
    assert main_pid(user) == before


def test_a_service_of_another_installation(user: UserManager) -> None:
    """Where the service brings the old daemon back, it is restarted once and then left alone: nobody fights."""
    user.ctl("service", "install")
    older(user)
    user.systemctl("restart", "sesamed.service")
    before = main_pid(user)
    assert found(user) == ["session-1"]
    once = main_pid(user)
    assert once != before
    assert found(user) == ["session-1"]
    assert main_pid(user) == once
    assert "sesamed 0.0.9 is running" in user.run(sys.executable, "-P", "-m", "sesamectl", "doctor").stdout


def older(user: UserManager) -> None:
    """The unit starts an older daemon."""
    program = ROOT / "tests/support/of_version.py"
    user.drop_in(f"[Service]\nExecStart=\nExecStart={sys.executable} {program} 0.0.9\n")


def test_the_doctor(user: UserManager) -> None:
    """The doctor has nothing to say of a service that runs, and finds one that does not. `Advice.START` is followed."""
    user.ctl("service", "install")
    assert "No problems found." in user.ctl("doctor")
    user.systemctl("stop", "sesamed.service")
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "doctor")
    assert ran.returncode == 1
    assert "wrong  service   inactive (success), and nothing answers; `sesamectl start`" in ran.stdout
    user.ctl("start")
    assert "No problems found." in user.ctl("doctor")


def test_the_doctor_names_what_may_not_be_read(user: UserManager) -> None:
    """A file that is closed to the user is named, with what to do. Here, because root may read everything."""
    closed = user.write(".pi/agent/sessions/a/closed.jsonl", b"{}\n")
    closed.chmod(0)
    user.ctl("service", "install")
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "doctor")
    assert ran.returncode == 1
    assert f"1 not readable by you: {closed}" in ran.stdout


@pytest.mark.fault(94)
def test_it_survives_a_terminal(user_with_bus: UserManager) -> None:
    """A daemon that was started within a terminal's scope lives on when that is ended with all that is in it."""
    user = user_with_bus
    ran = user.run(
        "systemd-run",
        "--user",
        "--scope",
        "--unit=tab",
        "sh",
        "-c",
        "sesamectl search quince; sleep 1000 >/dev/null 2>&1 & exit",
    )
    assert "session-1" in ran.stdout, ran.stderr
    before = answering(user)
    user.systemctl("stop", "tab.scope")
    assert answering(user) == before is not None


def test_without_a_working_bus(user: UserManager) -> None:
    """Where no scope can be had, the daemon is started all the same."""
    user.run("touch", f"{user.runtime}/bus")
    assert found(user) == ["session-1"]


def test_logs_are_the_journals(user: UserManager) -> None:
    """Of a service the journal is shown, cleaned like everything else; a stand-in, as there is no journal here."""
    user.ctl("service", "install")
    journal = user.write("bin/journalctl", b"#!/bin/sh\nprintf 'evil \\033[31m%s\\n' \"$*\"\n")
    journal.chmod(0o755)
    path = {"PATH": f"{journal.parent}:{Path(sys.executable).parent}:/usr/bin:/bin"}
    for words in (["logs", "--lines", "7"], ["service", "logs", "--lines", "7"]):
        ran = user.run(sys.executable, "-P", "-m", "sesamectl", *words, environ=path)
        assert (
            ran.stdout
            == "evil --user --unit=sesamed.service --unit=sesame-remember.service --quiet --lines=7 --no-pager\n"
        )
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "logs", "--follow", environ=path)
    assert ran.stdout.endswith("--lines=50 --follow\n")


def test_a_machine_without_a_journal(user: UserManager) -> None:
    """Where systemd has no journal to log to, as in a container, the service logs to the file, and `logs` shows that."""
    user.ctl("service", "install")
    user.drop_in("[Service]\nStandardError=journal\n")
    user.ctl("restart")
    for words in (["logs"], ["service", "logs"]):
        assert f"sesamed.daemon ready socket=/run/user/{UID}/sesame/sesamed.sock" in user.ctl(*words)
    log = user.home / ".local/share/sesame/sesamed.log"
    assert (log.stat().st_uid, stat.S_IMODE(log.stat().st_mode)) == (UID, 0o600)
    user.ctl("stop")
    user.write(".config/sesame/config.jsonc", b'{"sweepSecond": 5}')
    user.ctl("start", code=3)
    assert "unknown field `sweepSecond`" in user.ctl("service", "logs")


def test_modes(user: UserManager) -> None:
    """The unit is the user's and readable; nothing is written beside it."""
    user.ctl("service", "install")
    written = (user.home / UNIT).stat()
    assert (written.st_uid, stat.S_IMODE(written.st_mode)) == (UID, 0o644)
    assert sorted(path.name for path in (user.home / UNIT).parent.iterdir()) == [
        "default.target.wants",
        "sesamed.service",
    ]

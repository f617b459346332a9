"""What `service install` leaves behind when it fails, what it leaves alone, and how a wrong configuration is told and got over."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sesamectl.doctor.finding import Advice
from tests.support.daemon import eventually
from tests.support.machine import without_notices
from tests.support.sessions import PiSession
from tests.support.user_manager import UserManager
from tests.systemd.test_service import UNIT, answering, found, main_pid

UNITS = ".config/systemd/user"
SOCKET_UNIT = f"{UNITS}/sesamed.socket"
CONFIG = ".config/sesame/config.jsonc"
FOREIGN = b"[Service]\nExecStart=/bin/true\n"
Fault = Callable[[UserManager], dict[str, str] | None]
pytestmark = pytest.mark.timeout(120)


def tree(user: UserManager) -> dict[str, bytes | str]:
    """Everything in the home but the index, which any search would make."""
    paths = (path for path in user.home.rglob("*") if ".local" not in path.relative_to(user.home).parts)
    return {
        str(path): str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "directory"
        for path in paths
    }


def loaded(user: UserManager) -> str:
    """What systemd knows of our units."""
    lists = (["list-units", "--all"], ["list-unit-files"])
    return "".join(
        user.run("systemctl", "--user", *words, "sesamed*", "--plain", "--no-legend").stdout for words in lists
    )


def no_directory_for_units(user: UserManager) -> None:
    user.write(".config/systemd", b"")


def unit_in_the_way(user: UserManager) -> None:
    user.write(f"{UNIT}.new/x", b"")


def second_unit_in_the_way(user: UserManager) -> None:
    user.write(f"{SOCKET_UNIT}.new/x", b"")


def service_that_fails(user: UserManager) -> None:
    user.drop_in("[Service]\nExecStart=\nExecStart=/bin/false\n")


def socket_that_fails(user: UserManager) -> None:
    user.write(f"{SOCKET_UNIT}.d/test.conf", b"[Socket]\nListenStream=\nListenStream=/proc/none\n")
    user.systemctl("daemon-reload")


def units_that_systemd_does_not_read(user: UserManager) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": f"{user.home}/elsewhere"}


def no_data_directory(user: UserManager) -> dict[str, str]:
    user.write("file", b"")
    return {"SESAME_DATA_DIR": f"{user.home}/file/data"}


FAULTS = (
    no_directory_for_units, unit_in_the_way, second_unit_in_the_way, service_that_fails, socket_that_fails,
    units_that_systemd_does_not_read, no_data_directory,
)  # fmt: skip


def install(user: UserManager, *flags: str, environ: dict[str, str] | None = None) -> str:
    """Install in vain; what is said."""
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "service", "install", *flags, environ=environ)
    assert ran.returncode in {3, 4}, ran
    said = without_notices(ran.stderr)
    assert said.count("\n") == 1
    return said


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_install_leaves_nothing(user: UserManager, fault: Fault) -> None:
    """Whichever step fails, all changes were undone, and a search works as before."""
    environ = fault(user)
    before, units = tree(user), loaded(user)
    assert "all changes were undone" in install(user, "--socket", environ=environ)
    assert (tree(user), loaded(user)) == (before, units)
    assert found(user) == ["session-1"]


@pytest.mark.parametrize("fault", [service_that_fails, socket_that_fails])
def test_a_failed_install_gives_the_daemon_back(user: UserManager, fault: Fault) -> None:
    """A daemon that had to make way runs again."""
    assert found(user) == ["session-1"]
    fault(user)
    before, pid = tree(user), answering(user)
    assert pid is not None
    install(user, "--socket")
    assert tree(user) == before
    assert found(user, "--no-start") == ["session-1"]
    assert main_pid(user) == 0


def test_a_failed_change_gives_the_service_back(user: UserManager) -> None:
    """The service that was there is there again, and runs."""
    user.ctl("service", "install")
    socket_that_fails(user)
    before = tree(user)
    assert "all changes were undone" in install(user, "--socket")
    assert tree(user) == before
    assert answering(user) == main_pid(user) != 0


def test_a_masked_unit_is_left_alone(user: UserManager) -> None:
    """Whoever masks the service wants none: none is installed, the mask stays, and a search needs no service."""
    user.systemctl("mask", "sesamed.service")
    before = tree(user)
    assert "sesamed.service is masked (`systemctl --user unmask sesamed.service` undoes that)" in user.ctl(
        "service", "install", code=4
    )
    assert "left alone: sesamed.service is masked" in user.ctl("service", "uninstall")
    assert tree(user) == before
    assert found(user) == ["session-1"]
    assert main_pid(user) == 0
    assert "No problems found." in user.ctl("doctor")
    user.systemctl("unmask", "sesamed.service")
    user.ctl("service", "install")
    assert answering(user) == main_pid(user)


def test_a_unit_that_is_masked_until_the_next_boot(user: UserManager) -> None:
    """A mask elsewhere counts as well."""
    user.systemctl("mask", "--runtime", "sesamed.service")
    before = tree(user)
    assert f"sesamed.service is masked by {user.runtime}/systemd/user/sesamed.service" in user.ctl(
        "service", "install", code=4
    )
    assert tree(user) == before
    user.systemctl("unmask", "--runtime", "sesamed.service")


@pytest.mark.parametrize("name", ["sesamed.service", "sesamed.socket"])
def test_a_unit_of_somebody_else_is_left_alone(user: UserManager, name: str) -> None:
    """A unit of the same name that we did not write is neither changed, removed nor started."""
    path = user.write(f"{UNITS}/{name}", FOREIGN)
    before = tree(user)
    assert f"{path} was not written by sesame; it was left alone" in user.ctl("service", "install", code=4)
    assert f"left alone: {path} was not written by sesame" in user.ctl("service", "uninstall")
    assert tree(user) == before
    assert "(left alone: " in user.ctl("service", "status")
    assert found(user) == ["session-1"]
    assert user.shown("ActiveEnterTimestamp", name) == ""


def test_a_unit_of_the_system_is_left_alone(user: UserManager) -> None:
    """One of a distribution's package would be hidden by ours."""
    place = f"{user.runtime}/systemd/user/sesamed.service"
    user.run("sh", "-c", f"printf '[Service]\\nExecStart=/bin/true\\n' > {place}")
    user.systemctl("daemon-reload")
    assert f"there is another sesamed.service, {place}; it was left alone" in user.ctl("service", "install", code=4)
    user.run("rm", place)


def test_a_drop_in_stays(user: UserManager) -> None:
    """What somebody laid over the service is theirs."""
    user.ctl("service", "install")
    user.drop_in("[Service]\nNice=7\n")
    user.ctl("service", "uninstall")
    assert (user.home / f"{UNITS}/sesamed.service.d/test.conf").exists()


def test_an_uninstall_without_a_manager(user: UserManager) -> None:
    """Where the manager cannot be asked, what would start the service at the next login is removed all the same."""
    user.ctl("service", "install", "--socket")
    alone = {"XDG_RUNTIME_DIR": f"{user.home}/none"}
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "service", "uninstall", environ=alone)
    assert ran.returncode == 0, ran.stderr
    assert not [path for path in (user.home / UNITS).rglob("*") if path.is_symlink() or path.is_file()]


@pytest.mark.parametrize("flags", [(), ("--socket",)])
def test_a_wrong_configuration(user: UserManager, flags: tuple[str, ...]) -> None:
    """Everyone who asks is told in the daemon's words, however often; once it is corrected, the next search works."""
    user.ctl("service", "install", *flags)
    user.ctl("stop")
    user.write(CONFIG, b'{\n  "sweepSeconds": 5,\n  "gone": \n}\n')
    for _ in range(2 if flags else 6):  # systemd gives up after five, with a socket within the first of them
        said = user.ctl("search", "quince", code=3)
        assert said.startswith(f"sesamectl: sesamed did not start: {user.home}/{CONFIG} is not valid JSON5: line 4")
    assert user.shown("ActiveState") == "failed"
    user.write(CONFIG, b'{"sweepSeconds": 5}')
    assert found(user) == ["session-1"]
    assert answering(user) == main_pid(user)
    if flags:
        assert user.shown("ActiveState", "sesamed.socket") == "active"


def test_a_wrong_configuration_does_not_end_a_good_daemon(user: UserManager) -> None:
    """Neither a restart nor an install stops the daemon for one that cannot start; what it says is what the service would say."""
    user.ctl("service", "install")
    before = main_pid(user)
    user.write(CONFIG, b'{"sweepSecond": 5}')
    for words in (["restart"], ["service", "install", "--socket"]):
        assert f"{CONFIG}: line 1: $: Object contains unknown field `sweepSecond`" in user.ctl(*words, code=3)
        assert main_pid(user) == before
    user.write(CONFIG, b'{"sweepSeconds": 5}')
    user.ctl("restart")
    eventually(lambda: main_pid(user) not in {0, before})
    assert found(user, "--no-start") == ["session-1"]


@pytest.mark.parametrize("advice", [Advice.READABLE, Advice.EXCLUDE])
def test_what_may_not_be_read(user: UserManager, advice: Advice) -> None:
    """A file that is closed to its owner is opened by what the doctor advises, somebody else's is left out."""
    closed = user.write(".pi/agent/sessions/a/it's closed.jsonl", PiSession(id="session-2").user("a quince").bytes())
    closed.chmod(0)
    if advice is Advice.EXCLUDE:
        os.chown(closed, 0, 0)
    user.ctl("service", "install")
    (wrong,) = doctor(user)
    assert wrong["advice"] == advice.name.lower()
    if advice is Advice.EXCLUDE:
        user.write(CONFIG, json.dumps({"exclude": ["**/*closed.jsonl"]}).encode())
    for command in re.findall("`([^`]+)`", wrong["todo"]):
        assert user.run("sh", "-c", command).returncode == 0, command
    assert "No problems found." in user.ctl("doctor")
    assert sorted(found(user)) == ["session-1", "session-2"][: 2 if advice is Advice.READABLE else 1]


def test_a_directory_that_may_not_be_written(user: UserManager) -> None:
    """A data directory or a socket's in which the daemon could make nothing is named, and opened by what is advised: `Advice.WRITABLE`."""
    assert found(user) == ["session-1"]
    user.ctl("stop")
    for directory in (user.home / ".local/share/sesame", Path(f"{user.runtime}/sesame")):
        for mode in ("500", "0"):
            user.run("chmod", mode, str(directory))
            wrong, *_ = doctor(user)
            assert wrong["message"] == f"{directory} is closed to you (mode {mode})"
            assert wrong["advice"] == "writable"
            (command,) = re.findall("`([^`]+)`", wrong["todo"])
            assert user.run("sh", "-c", command).returncode == 0
        assert "No problems found." in user.ctl("doctor")


def test_a_drop_in_that_fails(user: UserManager) -> None:
    """What is laid over the service and keeps it from running is named; without it, the next start works."""
    user.ctl("service", "install")
    user.ctl("stop")
    service_that_fails(user)
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "start")
    assert (ran.returncode, "systemd reports 'exit-code'" in ran.stderr) == (3, True)
    wrong = [found for found in doctor(user) if found["check"] == "service"]
    drop_in = user.home / f"{UNITS}/sesamed.service.d/test.conf"
    assert [found["todo"] for found in wrong] == [f"correct {drop_in}"]
    drop_in.unlink()
    user.ctl("start")
    assert doctor(user) == []


def doctor(user: UserManager) -> list[dict[str, str]]:
    """What the doctor finds to be wrong."""
    ran = user.run(sys.executable, "-P", "-m", "sesamectl", "doctor", "--json")
    return [found for found in json.loads(ran.stdout)["findings"] if found["level"] == "wrong"]

"""Each finding of the doctor about a daemon that answers, and what it makes of checks that fail; by a stub."""

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

import sesamectl
from sesamectl.commands.doctor import _lines
from sesamectl.doctor import daemon, examine, pi, sources
from sesamectl.doctor import paths as paths_check
from sesamectl.doctor.finding import NOTE, OK, WRONG, Advice, Checkup, Finding, Level
from sesamectl.errors import ClosedError
from sesamectl.locations import data_directory
from sesamectl.render.terminal import Terminal
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import build_spec
from sesamed.errors import ConfigError
from sesamed.model import RootCode, TroubleCode
from sesamed.paths import Paths, find
from tests.support.systemctl import FakeSystemctl
from tests.unit.ctl.conftest import Stub

ROOT = Path(sesamectl.__file__).parent.parent
HELLO = {"name": "sesamed", "version": sesamectl.__version__, "protocol": 1, "minProtocol": 1, "pid": 7}
STATUS: dict[str, Any] = {
    "state": "ready", "warnings": [], "freshness": {"samples": 0}, "indexing": None, "sources": [],
    "database": {"sqliteVersion": "3.99.0", "path": "/d/index.sqlite"},
}  # fmt: skip


def levels(findings: Iterator[Finding]) -> list[tuple[Level, str]]:
    return [(found.level, f"{found.text}; {found.todo}") for found in findings]


@pytest.fixture
def paths(stub: Stub) -> Paths:
    return find({"SESAME_SOCKET": stub.path, "SESAME_DATA_DIR": "/d"})


def ask(environ: Mapping[str, str], paths: Paths) -> tuple[Checkup, list[tuple[Level, str]]]:
    """What a shell finds out about the daemon at its socket."""
    checkup = Checkup({**environ, "SESAME_SOCKET": paths.socket}, deep=False)
    return checkup, [*levels(daemon.find_daemon(checkup)), *levels(daemon.check_socket(checkup))]


@pytest.fixture
def systemctl(tmp_path: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch) -> FakeSystemctl:
    fake = FakeSystemctl(tmp_path)
    for name, value in fake.environ.items():
        monkeypatch.setenv(name, value)
    return fake


def test_the_socket(stub: Stub, paths: Paths) -> None:
    """Who answers there holds its lock, and nobody else can connect."""
    stub.on("hello", HELLO)
    stub.on("status", STATUS)
    os.chmod(stub.path, 0o600)
    Path(stub.path + ".lock").write_text("7 0.1.0\n")
    checkup, found = ask({"SESAME_DATA_DIR": "/d"}, paths)
    assert [level for level, _ in found] == [NOTE, OK]
    assert (checkup.hello, checkup.status, checkup.paths) == (HELLO, STATUS, paths)


def test_a_daemon_of_another_environment(stub: Stub, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own paths are looked at, what differs is said, and with whose variables; a restart keeps to them."""
    stub.on("hello", HELLO)
    stub.on("status", STATUS | {"configFile": "/c d/config.jsonc"})
    monkeypatch.setenv("XDG_DATA_HOME", "/x")
    checkup, found = ask({"XDG_DATA_HOME": "/x"}, paths)
    assert checkup.paths == replace(paths, config_dir="/c d")
    assert found[:2] == [
        (
            NOTE,
            "sesamed has its index in /d; started from this shell, it would have it in /x/sesame (XDG_DATA_HOME); ",
        ),
        (
            NOTE,
            f"sesamed has its configuration in /c d; started from this shell, it would have it in {find({}).config_dir} (HOME); ",
        ),
    ]
    assert checkup.restart == "SESAME_DATA_DIR=/d SESAME_CONFIG_DIR='/c d' sesamectl restart"
    assert (WRONG, f"/p is open; `{checkup.restart}`") in levels(
        iter([checkup.wrong("paths", "/p is open", Advice.RESTART)])
    )


@pytest.mark.parametrize("lock", ["8 0.1.0\n", "", "nonsense", None])
def test_a_socket_with_faults(stub: Stub, paths: Paths, lock: str | None) -> None:
    """A socket that is open to others, another holder of the lock, and variables of this shell are each a line."""
    stub.on("hello", HELLO)
    stub.on("status", STATUS)
    os.chmod(stub.path, 0o666)
    if lock is not None:
        Path(stub.path + ".lock").write_text(lock)
    _, found = ask({"SESAME_NO_START": "", "SESAME_DATA_DIR": "/d"}, paths)
    assert [level for level, _ in found] == [NOTE, OK, WRONG, WRONG]
    assert found[0][1].startswith(f"this shell sets SESAME_DATA_DIR=/d SESAME_SOCKET={stub.path};")
    assert f"chmod go= {stub.path}" in found[2][1]
    assert f"pid 7 answers, but {'pid 8' if lock and lock[0] == '8' else 'nobody'} holds the lock" in found[3][1]


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    ("hello", "sqlite", "text"),
    [
        ({"version": "0.0.1"}, "3.99.0", "sesamed 0.0.1 is running, but sesamectl is"),
        (
            {"version": "99.0.0"},
            "3.99.0",
            f"sesamed 99.0.0 is running, but sesamectl is {sesamectl.__version__}; update sesamectl",
        ),
        ({"minProtocol": 2, "protocol": 3}, "3.99.0", "sesamed speaks protocol 3, sesamectl 1; update sesamectl"),
        ({"minProtocol": 0, "protocol": 0}, "3.99.0", "sesamed speaks protocol 0, sesamectl 1; `sesamectl restart`"),
        ({}, "3.51.2", "SQLite 3.51.2 has a bug that can damage the index; `sesamectl restart`"),
    ],
)
def test_versions(systemctl: FakeSystemctl, hello: dict[str, Any], sqlite: str, text: str) -> None:
    """What does not go together is wrong."""
    checkup = Checkup({}, deep=False, hello=HELLO | hello, status={"database": {"sqliteVersion": sqlite}})
    assert next(found for level, found in levels(daemon.check_versions(checkup)) if level == WRONG).startswith(text)
    fine = Checkup({}, deep=False, hello=HELLO, status=STATUS)
    assert [level for level, _ in levels(daemon.check_versions(fine))] == [OK]


def test_two_versions_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client and a daemon that were installed together are of one version."""
    monkeypatch.setattr("sesamed.__version__", "9.9.9")
    assert any(
        "with sesamed 9.9.9; reinstall sesame, then `sesamectl restart`" in text
        for _, text in levels(daemon.check_versions(Checkup({}, deep=False)))
    )


def service(paths: Paths, hello: dict[str, Any] | None = HELLO) -> tuple[Level, str]:
    """What is found about the service."""
    (found,) = levels(daemon.check_service(Checkup(os.environ, deep=False, own=paths, paths=paths, hello=hello)))
    return found


@pytest.fixture
def systemd(systemctl: FakeSystemctl) -> Systemd:
    """With a service of ours that runs as pid 7."""
    made = Systemd(systemctl.environ)
    for path, text in made.render(build_spec(os.environ), socket=False).items():
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(text)
    systemctl.say("shown", "ActiveState=active\nMainPID=7\nStatusText=ready\n")
    return made


def change(systemd: Systemd, old: str, new: str) -> None:
    """Change the unit."""
    unit = Path(systemd.unit_path())
    unit.write_text(unit.read_text().replace(old, new))


def test_no_service(systemctl: FakeSystemctl, paths: Paths) -> None:
    """None is needed."""
    assert service(paths) == (OK, "not installed; sesamectl starts the daemon when needed; ")


def test_the_service(systemctl: FakeSystemctl, systemd: Systemd, paths: Paths) -> None:
    """One that runs is fine; one that is down, of another socket or without a manager is named, with what to do."""
    unit = systemd.unit_path()
    assert service(paths) == (OK, f"{unit} is active, ready; ")
    assert service(paths, None) == (WRONG, "active (never ran), and nothing answers; `sesamectl start`")
    theirs = f"{unit}.d/override.conf"
    systemctl.say("shown", f"ActiveState=failed\nResult=exit-code\nDropInPaths=/run/service.d/log.conf {theirs}\n")
    failed = "failed (exit-code), and nothing answers"
    assert service(paths, None) == (WRONG, f"{failed}; {theirs} changes it; correct {theirs}")
    systemctl.say("shown", "ActiveState=failed\nResult=exit-code\n")
    assert service(paths) == (WRONG, "failed (exit-code), and another process answers; `sesamectl service install`")
    other = find({"SESAME_SOCKET": "/other"})
    assert service(other) == (NOTE, f"{unit} is for the socket {paths.socket}, this shell's is /other; ")
    shutil.rmtree(systemctl.runtime / "systemd")
    assert "but your systemd user manager is not running" in (found := service(paths))[1]
    assert found[0] == NOTE


def test_a_service_that_is_not_ours(systemctl: FakeSystemctl, systemd: Systemd, paths: Paths) -> None:
    """One that somebody else wrote, or masked, is named and left alone."""
    change(systemd, "# Written", "# Made")
    left = "it is left alone, and sesamectl starts the daemon when needed; "
    assert service(paths) == (NOTE, f"{systemd.unit_path()} was not written by sesame; {left}")
    os.unlink(systemd.unit_path())
    os.symlink("/dev/null", systemd.unit_path())
    todo = "(`systemctl --user unmask sesamed.service` undoes that)"
    assert service(paths) == (NOTE, f"sesamed.service is masked {todo}; {left}")


def test_a_service_of_another_installation(systemd: Systemd, paths: Paths, directory: str) -> None:
    """It is replaced by ours only if it is not newer, and only if it is for the same index."""
    unit, ours = systemd.unit_path(), build_spec(os.environ).python
    change(systemd, "Nice=5", "Nice=6")
    assert service(paths) == (
        WRONG,
        f"{unit} differs from what `sesamectl service install` writes; `sesamectl service install`",
    )
    other = f"{directory}/python"
    change(systemd, ours, other)
    found = (
        WRONG,
        f"{unit} runs {other}, which is gone, but this sesamectl runs in {ours}; `sesamectl service install`",
    )
    assert service(paths) == found
    for version, todo in (("0.0.1", "`sesamectl service install`"), ("99.0.0", "update sesamectl")):
        Path(other).write_text(f'#!/bin/sh\n[ "$*" = "-P -m sesamed --version" ] && echo sesamed {version}\n')
        os.chmod(other, 0o755)
        assert service(paths) == (WRONG, f"{unit} runs {other}, but this sesamectl runs in {ours}; {todo}")
    change(systemd, f'"SESAME_SOCKET={paths.socket}"', f'"SESAME_SOCKET={paths.socket}" "SESAME_DATA_DIR=/theirs"')
    here = data_directory(os.environ)
    assert service(paths) == (NOTE, f"{unit} is for the index in /theirs, this shell's is in {here}; ")


def test_an_older_daemon_that_the_service_starts(systemctl: FakeSystemctl, systemd: Systemd, paths: Paths) -> None:
    """A restart would bring it back, so what starts it is named."""

    def advise() -> str:
        checkup = Checkup(os.environ, deep=False, own=paths, paths=paths, hello=HELLO | {"version": "0.0.1"})
        return levels(daemon.check_versions(checkup))[0][1].partition("; ")[2]

    assert advise() == "`sesamectl restart`"
    systemctl.say("shown", "ActiveState=active\nMainPID=7\nDropInPaths=/d/a.conf /d/b.conf\n")
    assert advise() == "/d/b.conf may be why; correct /d/b.conf"
    change(systemd, "Nice=5", "Nice=6")
    assert advise() == f"{systemd.unit_path()} starts it; `sesamectl service install`"


def test_every_warning_of_the_daemon_has_an_advice() -> None:
    """Or is known to need none."""
    assert set(daemon.TROUBLES) == set(get_args(TroubleCode))
    assert set(paths_check.LIMIT_CODES) < set(get_args(RootCode))


@pytest.mark.parametrize("code", ["workstation", "unheard-of"])
def test_a_warning(stub: Stub, code: str) -> None:
    """One that only a person can judge is a note; one that this version does not know is wrong."""
    stub.on("sync", {"pending": {"files": 0, "bytes": 0}})
    status = STATUS | {"socket": stub.path, "warnings": [{"code": code, "message": "odd"}]}
    found = levels(daemon.check_state(Checkup({}, deep=False, status=status)))[0]
    report = (WRONG, "odd; if it persists, report it with the output of `sesamectl logs`")
    assert found == ((NOTE, "odd; ") if code == "workstation" else report)


def test_what_is_wrong_has_an_advice() -> None:
    """In the code of every check."""
    for file in Path(examine.__file__).parent.glob("*.py"):
        calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
        for call in calls:
            first = call.args[0] if call.args else None
            assert not (isinstance(first, ast.Name) and first.id == "WRONG" and file.name != "finding.py"), ast.unparse(
                call
            )


@pytest.mark.fault(70)
def test_places_on_a_network(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index or a socket on a share is noted, whatever system it is: on Linux by its list of mounts, on macOS by its program's."""
    runtime = os.path.dirname(paths.socket)
    at_a_mac = f"//me@nas/d on / (smbfs, nodev)\nnas:/r on {os.path.realpath(runtime)} (nfs)\n"
    at_linux = f"1 0 0:1 / / rw - cifs nas rw\n2 1 0:2 / {os.path.realpath(runtime)} rw - nfs4 nas rw\n"
    for platform, mounts, kinds in (("darwin", at_a_mac, ("smbfs", "nfs")), ("linux", at_linux, ("cifs", "nfs4"))):
        monkeypatch.setattr("sys.platform", platform)
        monkeypatch.setattr("sesamed.discovery._read_mounts", lambda mounts=mounts: mounts)
        index, socket, space = levels(paths_check.check_disk(Checkup({}, deep=False, paths=paths)))
        assert (index[0], socket[0], space[0]) == (NOTE, NOTE, OK)
        assert index[1].startswith(f"the index is on {kinds[0]}; use it from one machine only")
        assert socket[1].startswith(f"the socket {paths.socket} is on {kinds[1]}, where it leads to this machine only")


UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def examined(environ: Mapping[str, str], through: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What is wrong with the directories, as a person's doctor says; and what to do."""
    done = subprocess.run(
        [*through, sys.executable, "-m", "sesamectl", "doctor", "--json"], env={**os.environ, **environ}, cwd=ROOT,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    found = [one for one in json.loads(done.stdout)["findings"] if one["check"] == "paths" and one["level"] == "wrong"]
    assert done.returncode == bool(found)
    return [(one["message"], one["todo"]) for one in found]


def test_a_directory_that_cannot_be_made_below_a_file(directory: str) -> None:
    """It is no new one: the file is named, and what to do holds."""
    data, file = f"{directory}/file/a/b", f"{directory}/file"
    Path(file).touch()
    environ = {"SESAME_DATA_DIR": data, "SESAME_RUNTIME_DIR": f"{directory}/run", "HOME": directory}
    ((text, todo),) = examined(environ)
    assert text == f"{data} cannot be made or opened: {file} is a regular file"
    subprocess.run(todo.strip("`"), shell=True, check=True)
    assert examined(environ) == []


@pytest.mark.skipif(
    bool(UNPRIVILEGED) and shutil.which("setpriv") is None,
    reason="root can write everywhere, unless setpriv takes that away",
)
@pytest.mark.parametrize("mode", [0o500, 0o000])
def test_a_directory_that_cannot_be_made_below_a_closed_one(directory: str, mode: int) -> None:
    """Likewise: the one that is closed is named, and what to do opens it."""
    data, closed = f"{directory}/closed/a/b", f"{directory}/closed"
    os.mkdir(closed, mode)
    environ = {"SESAME_DATA_DIR": data, "SESAME_RUNTIME_DIR": f"{directory}/run", "HOME": directory}
    ((text, todo),) = examined(environ, UNPRIVILEGED)
    assert text == f"{data} cannot be made or opened: {closed} is closed to you (mode {mode:o})"
    subprocess.run(todo.strip("`"), shell=True, check=True)
    assert examined(environ, UNPRIVILEGED) == []


def test_a_directory_that_cannot_be(directory: str) -> None:
    """What the system takes for no name is as wrong."""
    data = f"{directory}/{'x' * 300}"
    environ = {"SESAME_DATA_DIR": data, "SESAME_RUNTIME_DIR": f"{directory}/run", "HOME": directory}
    ((text, todo),) = examined(environ)
    assert text == f"{data} cannot be made or opened: File name too long"
    assert todo == "correct SESAME_DATA_DIR in this shell, or unset it"


@pytest.mark.parametrize(("indexing", "level"), [(None, WRONG), ({"filesDone": 1}, NOTE)])
def test_what_is_not_searchable_yet(stub: Stub, indexing: dict[str, int] | None, level: Level) -> None:
    """Files that are not searchable in time are wrong, unless an index run says why; measurements and warnings are shown."""
    stub.on("sync", {"pending": {"files": 1, "bytes": 2048}})
    times = {"samples": 2, "p50Ms": 1.0, "p99Ms": 2.0}
    status = STATUS | {
        "socket": stub.path,
        "indexing": indexing,
        "freshness": times,
        "state": "degraded",
        "warnings": [{"code": "storage", "message": "full"}],
    }
    assert levels(daemon.check_state(Checkup({}, deep=False, status=status))) == [
        (WRONG, "full; free some space on that disk"),
        (NOTE, "degraded; appended lines are searchable after 1.0 ms (p50), 2.0 ms (p99); "),
        (
            level,
            "1 file (2.0 KiB) not searchable after 5 s; wait; `sesamectl status` shows the progress",
        ),
    ]


def test_bad_lines(stub: Stub) -> None:
    """A few files by name, with where the next lines are; an older daemon is not asked."""
    file = {
        "path": "/a.jsonl",
        "part": None,
        "badLines": 5,
        "lines": [{"line": n, "reason": "odd"} for n in (2, 4, 6, 8, 9)],
    }
    whole = {"path": "/b.db", "part": "s1", "badLines": 1, "lines": [{"line": None, "reason": "too large"}]}
    stub.on(
        "list_bad_lines", {"total": 7, "files": [file, whole], "unfinished": [{"path": "/c.jsonl", "bytes": 2048}] * 4}
    )
    status = STATUS | {"socket": stub.path}
    hello = HELLO | {"methods": ["list_bad_lines"]}
    assert levels(sources.check_lines(Checkup({}, deep=False, status=status, hello=hello))) == [
        (NOTE, "/a.jsonl:2: odd; 4 more lines: 4, 6, 8, …; "),
        (NOTE, "/b.db (s1): too large; "),
        (NOTE, f"5 more files with lines that could not be decoded; {Advice.DEEP.value}"),
        *[(NOTE, "/c.jsonl: 2.0 KiB at its end wait for the rest of the line; ")] * 3,
        (NOTE, "1 more file whose last line is not whole; "),
    ]
    assert list(sources.check_lines(Checkup({}, deep=False, status=status, hello=HELLO | {"methods": []}))) == []
    stub.on("list_bad_lines", {"total": 0, "files": [], "unfinished": []})
    assert levels(sources.check_lines(Checkup({}, deep=False, status=status, hello=hello))) == [
        (OK, "every complete line could be decoded; ")
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConfigError("no home"), "no home"), (ClosedError("it hung up"), "it hung up"), (OSError(13, "denied"), "[Errno 13] denied"),
        (KeyError("state"), "this check failed (KeyError: 'state')"),
    ],
)  # fmt: skip
def test_a_check_that_fails(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    """It is a finding, and the next checks are made."""

    def fail(_: Checkup) -> Iterator[Finding]:
        raise error
        yield

    def succeed(_: Checkup) -> Iterator[Finding]:
        yield Finding(OK, "b", "fine")

    monkeypatch.setattr(examine, "CHECKS", (("a", fail), ("b", succeed)))
    assert levels(examine.examine({}, deep=False)) == [(WRONG, f"{text}; {Advice.REPORT.value}"), (OK, "fine; ")]


def test_the_report() -> None:
    """A line for each finding; at a terminal it is folded, and what to do stands by itself."""
    todo = "correct /etc/config.jsonc"
    finding = {
        "level": "wrong",
        "check": "config",
        "message": "a word " * 20 + "is wrong",
        "advice": "correct",
        "todo": todo,
    }
    answer = {"wrong": 1, "findings": [finding, {**finding, "level": "ok", "message": "fine", "todo": None}]}
    text = f"wrong  config    {finding['message']}; {todo}"
    assert list(_lines(answer, Terminal())) == [text, "ok     config    fine", "1 problem found."]
    lines = list(_lines(answer, Terminal(60)))
    assert max(map(len, lines)) <= 60
    assert " ".join(line.removeprefix("wrong  config ").strip() for line in lines[:-3]) == finding["message"]
    assert lines[-3:] == [f"{'':17}fix: {todo}", "ok     config    fine", "1 problem found."]


def settings_of_pi(home: Path, text: str) -> list[tuple[str, str]]:
    """What is found where pi's settings are these."""
    (home / ".pi/agent").mkdir(parents=True)
    (home / ".pi/agent/settings.json").write_text(text)
    return [(found.level, found.text) for found in pi.check_pi(Checkup({"HOME": str(home)}, deep=False))]


@pytest.mark.parametrize(
    "package",
    [
        "../x/sesamectl/pi",
        "~/x/sesamectl/pi",
        {"source": "/x/sesamectl/pi", "skills": []},
        "/home/me/src/sesame-main/pi",
    ],
)
def test_a_package_of_ours_that_pi_does_not_find(tmp_path: Path, package: object) -> None:
    """By whatever path it is named."""
    ((level, text),) = settings_of_pi(tmp_path, json.dumps({"packages": [package]}))
    assert level == WRONG
    assert text.startswith(f"{tmp_path}/.pi/agent/settings.json names /")
    assert "pi, which is gone: pi says nothing" in text


@pytest.mark.parametrize(
    "settings",
    [
        "{}", "[]", "no json", '{"packages": 1}', '{"packages": [1, null, {}, {"source": 2}]}',
        '{"packages": ["npm:sesamectl/pi", "git:github.com/me/sesame/pi", "https://x/sesamectl/pi", "/another/package"]}',
        '{"packages": ["a\\u0000/sesamectl/pi"]}',
    ],
)  # fmt: skip
def test_what_others_have_in_pis_settings_is_theirs(tmp_path: Path, settings: str) -> None:
    """Nor is it ours to judge what pi cannot read."""
    assert settings_of_pi(tmp_path, settings) == []


def test_a_package_that_is_there(tmp_path: Path) -> None:
    """And a variable that moves pi's settings."""
    place = tmp_path / "sesamectl/pi"
    place.mkdir(parents=True)
    (place / "package.json").write_text('{"name": "sesame-pi"}')
    (tmp_path / "settings.json").write_text(json.dumps({"packages": ["sesamectl/pi"]}))
    (found,) = pi.check_pi(Checkup({"PI_CODING_AGENT_DIR": str(tmp_path), "HOME": "/none"}, deep=False))
    assert (found.level, found.text) == (OK, f"has the package in {place}")

"""Each finding of the doctor about a daemon that answers, and what it makes of checks that fail; by a stub."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sesamectl
from sesamectl.doctor import daemon, examine, sources
from sesamectl.doctor.finding import NOTE, OK, WRONG, Checkup, Finding, Level
from sesamectl.errors import ClosedError
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import build_spec
from sesamed.errors import ConfigError
from sesamed.paths import Paths, find
from tests.support.systemctl import FakeSystemctl
from tests.unit.ctl.conftest import Stub

HELLO = {"name": "sesamed", "version": sesamectl.__version__, "protocol": 1, "minProtocol": 1, "pid": 7}
STATUS: dict[str, Any] = {
    "state": "ready", "warnings": [], "freshness": {"samples": 0}, "indexing": None, "database": {"sqliteVersion": "3.99.0"},
}  # fmt: skip


def levels(findings: Iterator[Finding]) -> list[tuple[Level, str]]:
    return [(found.level, f"{found.text}; {found.todo}") for found in findings]


@pytest.fixture
def paths(stub: Stub) -> Paths:
    return find({"SESAME_SOCKET": stub.path, "SESAME_DATA_DIR": "/d"})


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
    checkup = Checkup({}, deep=False, paths=paths)
    assert [level for level, _ in levels(daemon.check_socket(checkup))] == [OK]
    assert (checkup.hello, checkup.status) == (HELLO, STATUS)


@pytest.mark.parametrize("lock", ["8 0.1.0\n", "", "nonsense", None])
def test_a_socket_with_faults(stub: Stub, paths: Paths, lock: str | None) -> None:
    """A socket that is open to others, another holder of the lock, and variables of this shell are each a line."""
    stub.on("hello", HELLO)
    stub.on("status", STATUS)
    os.chmod(stub.path, 0o666)
    if lock is not None:
        Path(stub.path + ".lock").write_text(lock)
    found = levels(
        daemon.check_socket(Checkup({"SESAME_SOCKET": stub.path, "SESAME_NO_START": ""}, deep=False, paths=paths))
    )
    assert [level for level, _ in found] == [NOTE, OK, WRONG, WRONG]
    assert found[0][1].startswith(f"this shell sets SESAME_SOCKET={stub.path};")
    assert f"chmod go= {stub.path}" in found[2][1]
    assert f"pid 7 answers, but pid {'8' if lock and lock[0] == '8' else None} holds the lock" in found[3][1]


@pytest.mark.fault(60)
@pytest.mark.parametrize(
    ("hello", "sqlite", "text"),
    [
        ({"version": "0.0.1"}, "3.99.0", "sesamed 0.0.1 is running, but sesamectl is"),
        ({"minProtocol": 2, "protocol": 3}, "3.99.0", "sesamed speaks protocol 3, sesamectl 1; `sesamectl restart`"),
        ({}, "3.51.2", "SQLite 3.51.2 has a bug that can damage the index; `pip install -U apsw`"),
    ],
)
def test_versions(hello: dict[str, Any], sqlite: str, text: str) -> None:
    """What does not go together is wrong."""
    checkup = Checkup({}, deep=False, hello=HELLO | hello, status={"database": {"sqliteVersion": sqlite}})
    assert next(found for level, found in levels(daemon.check_versions(checkup)) if level == WRONG).startswith(text)
    fine = Checkup({}, deep=False, hello=HELLO, status=STATUS)
    assert [level for level, _ in levels(daemon.check_versions(fine))] == [OK]


def test_two_versions_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client and a daemon that were installed together are of one version."""
    monkeypatch.setattr("sesamed.__version__", "9.9.9")
    assert any(
        "with sesamed 9.9.9; reinstall sesame" in text
        for _, text in levels(daemon.check_versions(Checkup({}, deep=False)))
    )


def test_the_service(systemctl: FakeSystemctl, paths: Paths, stub: Stub) -> None:
    """No service is fine; one that runs, too; one that is edited, of another socket, down, or without a manager is not."""
    checkup = Checkup({}, deep=False, paths=paths, hello=HELLO)
    assert levels(daemon.check_service(checkup)) == [(OK, "not installed; sesamectl starts the daemon when needed; ")]
    systemd = Systemd(systemctl.environ)
    for path, text in systemd.render(build_spec(os.environ), socket=False).items():
        Path(path).parent.mkdir(parents=True)
        Path(path).write_text(text)
    systemctl.say("shown", "ActiveState=active\nMainPID=7\nStatusText=ready\n")
    unit = systemd.unit_path()
    assert levels(daemon.check_service(checkup)) == [(OK, f"{unit} is active, ready; ")]
    down = levels(daemon.check_service(Checkup({}, deep=False, paths=paths)))
    assert down == [
        (WRONG, "active (never ran), and nothing answers; `sesamectl service install`, `sesamectl service logs`")
    ]
    systemctl.say("shown", "ActiveState=failed\nResult=exit-code\n")
    ((level, text),) = levels(daemon.check_service(checkup))
    assert (level, text.partition(";")[0]) == (WRONG, "failed (exit-code), and another process answers")
    with open(unit, "a") as file:
        file.write("# mine\n")
    assert levels(daemon.check_service(checkup))[0][1].startswith(
        f"{unit} was edited, or belongs to another installation"
    )
    other = Checkup({}, deep=False, paths=find({"SESAME_SOCKET": "/other"}), hello=HELLO)
    assert levels(daemon.check_service(other)) == [(NOTE, f"{unit} is for another socket than /other; ")]
    shutil.rmtree(systemctl.runtime / "systemd")
    assert "but your systemd user manager is not running" in levels(daemon.check_service(checkup))[0][1]


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
        "warnings": [{"message": "full"}],
    }
    assert levels(daemon.check_state(Checkup({}, deep=False, status=status))) == [
        (WRONG, "full; "),
        (WRONG, "degraded; appended lines are searchable after 1.0 ms (p50), 2.0 ms (p99); "),
        (level, "1 file (2.0 KiB) not searchable after 5 s; wait for the index; `sesamectl status` shows its progress"),
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
        (NOTE, "5 more files with lines that could not be decoded; `sesamectl doctor --deep` names them"),
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
    assert levels(examine.examine({}, deep=False)) == [(WRONG, f"{text}; "), (OK, "fine; ")]

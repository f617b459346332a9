"""The doctor: nothing to say of a healthy daemon, and every fault found that is made on purpose."""

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from sesamectl.doctor import daemon, paths
from sesamectl.doctor.finding import WRONG, Checkup
from sesamectl.doctor.sources import BEHIND, MISSING, _classify
from sesamed.store.checksums import connect
from sesamed.store.sqlite import plain
from sesamed.store.upkeep import FileRow
from tests.integration.test_upgrade import running
from tests.support.machine import Machine
from tests.support.sessions import PiSession


class Clinic(Machine):
    """A machine with a doctor."""

    def doctor(self, *flags: str, wrong: bool = True) -> list[dict[str, Any]]:
        """What the doctor finds; whether it is wrong is the exit code."""
        done = self.run("doctor", *flags, "--json")
        assert done.stderr == ""
        answer = json.loads(done.stdout)
        assert done.returncode == (1 if wrong else 0), answer
        found: list[dict[str, Any]] = answer["findings"]
        assert answer["wrong"] == sum(finding["level"] == "wrong" for finding in found)
        return found

    def complains(self, check: str, *flags: str) -> str:
        """What is wrong with this, and what to do."""
        wrong = [
            finding for finding in self.doctor(*flags) if finding["level"] == "wrong" and finding["check"] == check
        ]
        assert wrong
        return " ".join(f"{finding['message']}; {finding['todo']}" for finding in wrong)


@pytest.fixture
def machine() -> Iterator[Clinic]:
    made = Clinic()
    made.write("one", "a quince")
    made.write("two", "a medlar")
    try:
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def index(machine: Clinic) -> Iterator[apsw.Connection]:
    """The index, while no daemon has it; then a daemon is started."""
    machine.run("stop")
    connection = connect(str(machine.data / "index.sqlite"))
    unpack: Any = plain
    connection.create_scalar_function("plain", unpack, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)
    yield connection
    connection.close()
    machine.run("start")


def test_settings_that_the_daemon_does_not_read(machine: Clinic) -> None:
    """A restart is advised for what it would change, whenever the file was written."""
    file = machine.config / "config.jsonc"
    file.write_text('{"sweepSeconds": 50}')
    machine.run("start")
    file.write_text('{"sweepSeconds": 50, "memory": {"command": ["true"]}} // it costs')
    machine.doctor(wrong=False)
    file.write_text('{"sweepSeconds": 51, "memory": {"command": ["true"]}}')
    os.utime(file, (0, 0))
    assert "has changed since sesamed read it; `sesamectl restart`" in machine.complains("source")
    machine.run("restart")
    machine.doctor(wrong=False)


def test_a_healthy_daemon(machine: Clinic) -> None:
    """Nothing is wrong: exit 0, one line for each thing, and every check has said something."""
    machine.run("search", "quince")
    found = machine.doctor(wrong=False)
    assert [finding["check"] for finding in found if finding["level"] == "wrong"] == []
    checks = {
        "config",
        "paths",
        "socket",
        "versions",
        "service",
        "watch",
        "disk",
        "state",
        "fresh",
        "index",
        "source",
        "lines",
    }
    assert {finding["check"] for finding in found} == checks
    assert any("2 files indexed" in finding["message"] for finding in found)
    assert "every page, row and full-text entry" in json.dumps(machine.doctor("--deep", wrong=False))
    lines = machine.run("doctor").stdout.splitlines()
    assert lines[-1] == "No problems found."
    assert len(lines) == len(found) + 1
    assert not [path for path in machine.data.iterdir() if path.name.startswith("doctor-")]


def test_bad_lines(machine: Clinic) -> None:
    """They are noted with file, line and reason; nothing can be done about them, so nothing is wrong."""
    for name in ("one", "two"):
        with open(machine.sessions / f"{name}.jsonl", "ab") as file:
            file.write(b"\0\0\n" * (5 if name == "one" else 0) + b'{"torn')
    machine.run("index")
    notes = [finding for finding in machine.doctor(wrong=False) if finding["check"] == "lines"]
    assert {finding["level"] for finding in notes} == {"note"}
    bad, *torn = sorted((finding["message"] for finding in notes), key=lambda text: "end wait" in text)
    reason = "only NUL bytes, as a power failure leaves them"
    assert bad == f"{machine.sessions}/one.jsonl:4: {reason}; 4 more lines: 5, 6, 7, …"
    assert sorted(torn) == [
        f"{machine.sessions}/{name}.jsonl: 6 bytes at its end wait for the rest of the line" for name in ("one", "two")
    ]
    assert "12 bytes of unfinished last lines" in machine.run("status").stdout


def test_a_new_machine(machine: Clinic) -> None:
    """That no daemon runs yet is no fault, and none is started; everything else is looked at all the same."""
    (note,) = [
        found
        for found in machine.doctor(wrong=False)
        if found["check"] == "socket" and "nothing listens" in found["message"]
    ]
    assert note["level"] == "note"
    assert note["message"].endswith("; sesamectl starts it when it is needed")
    assert not machine.data.exists()
    assert machine.run("status").returncode == 3


def test_a_daemon_that_could_not_start(machine: Clinic) -> None:
    """That none runs is a fault where none could start, with the reason."""
    (machine.config / "config.jsonc").write_text('{"sweepSecond": 5}')
    (wrong,) = [
        found for found in machine.doctor(wrong=True) if found["check"] == "socket" and found["level"] == "wrong"
    ]
    assert "sesamed is not running: nothing listens at" in wrong["message"]
    assert "sweepSecond" in wrong["message"]


def test_a_wrong_configuration(machine: Clinic) -> None:
    """What no daemon would start with is named with its place."""
    (machine.config / "config.jsonc").write_text('{"sweepSecond": 5}')
    assert "sweepSecond" in machine.complains("config")


def test_an_impossible_socket(machine: Clinic) -> None:
    """A socket that cannot be is said to be none, whatever else can be looked at."""
    machine.environ["SESAME_SOCKET"] = "/" + "x" * 200
    assert "correct SESAME_SOCKET in this shell" in machine.complains("paths")


@pytest.mark.parametrize("name", ["", "index.sqlite", "sesamed.log"])
def test_what_is_open_to_others(machine: Clinic, name: str) -> None:
    """The directory and the files in it are nobody else's business."""
    machine.run("search", "quince")
    place = machine.data / name
    place.chmod(place.stat().st_mode | 0o044)
    assert f"chmod go= {place}" in machine.complains("paths")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_belongs_to_another(machine: Clinic) -> None:
    """A daemon that was once run as somebody else leaves files that are not ours."""
    machine.run("search", "quince")
    os.chown(machine.data / "sesamed.log", 65534, 65534)
    said = machine.complains("paths")
    assert "(uid 65534), and you are root (uid 0); `mv " in said
    assert "chown" not in said


def test_a_daemon_that_hangs(machine: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is there and does not answer is told apart from one that is not there."""
    machine.run("search", "quince")
    pid = machine.pid()
    monkeypatch.setattr(daemon, "ANSWER_S", 0.2)
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    os.kill(pid, signal.SIGSTOP)
    try:
        checkup = Checkup(os.environ, deep=False)
        list(daemon.find_daemon(checkup))
        (found,) = [finding for finding in daemon.check_socket(checkup) if finding.level == WRONG]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert f"(pid {pid})" in found.text
    assert "did not answer within 0.2 s" in found.text


def test_another_version(machine: Clinic) -> None:
    """A daemon of another version is wrong, and one command away from being right."""
    with running(machine, "0.0.9"):
        assert "sesamed 0.0.9 is running" in machine.complains("versions")


@pytest.mark.fault(62)
def test_damage_of_the_full_text(machine: Clinic) -> None:
    """Damage in the full-text index, which a search would only answer with fewer hits, is found by the quick check."""
    machine.run("search", "quince")
    with index(machine) as connection:
        connection.execute("INSERT INTO fts(fts) VALUES('optimize')")
        connection.execute("DELETE FROM fts_data WHERE id = (SELECT max(id) FROM fts_data)")
    assert "`sesamectl index --full`" in machine.complains("index")
    assert machine.run("index", "--full").returncode == 0
    machine.doctor(wrong=False)


@pytest.mark.fault(63)
def test_texts_without_their_words(machine: Clinic) -> None:
    """A text that the full-text index does not know is found by the deep check."""
    machine.run("search", "quince")
    with index(machine) as connection:
        connection.execute("DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)")
    machine.doctor(wrong=False)
    assert "is damaged" in machine.complains("index", "--deep")


def test_a_damaged_page(machine: Clinic) -> None:
    """A file that is no database any more is said to be damaged."""
    machine.run("search", "quince")
    machine.run("stop")
    database = machine.data / "index.sqlite"
    database.write_bytes(database.read_bytes()[:100] + b"\x5a" * 20_000)
    assert "damaged" in machine.complains("index")


def test_an_index_of_nobody(machine: Clinic) -> None:
    """What cannot be looked at does not keep the rest from being looked at."""
    machine.run("search", "quince")
    machine.run("stop")
    connection = connect(str(machine.data / "index.sqlite"))
    connection.execute("DROP TABLE files")
    connection.close()
    found = machine.doctor(wrong=False)
    assert {"config", "disk", "index"} <= {finding["check"] for finding in found}


def test_what_is_not_indexed_and_why(machine: Clinic, tmp_path: Path) -> None:
    """Files on disk that are not in the index are counted by their reason."""
    (machine.sessions / "hidden").mkdir()
    shutil.copy(machine.sessions / "one.jsonl", machine.sessions / "hidden/one.jsonl")
    (machine.sessions / "notes.jsonl").write_text('{"nothing": "of ours"}\n')
    (machine.sessions / "link.jsonl").symlink_to(machine.sessions / "one.jsonl")
    (machine.config / "config.jsonc").write_text('{"exclude": ["**/hidden"]}')
    project = tmp_path / "project"
    project.mkdir()
    (project / ".sesameignore").touch()
    (machine.sessions / "private.jsonl").write_bytes(PiSession(cwd=str(project)).user("quince").bytes())
    machine.run("search", "quince")
    text = json.dumps(machine.doctor(wrong=False))
    for reason in (
        "2 files indexed",
        "1 excluded by the configuration or .sesameignore",
        "1 links or special files",
        "1 without a session of this agent",
        "1 excluded by the .sesameignore of a project",
    ):
        assert reason in text


def test_what_was_missed(machine: Clinic) -> None:
    """A file that the daemon does not know, or has not read to its end, is wrong, and named."""
    place = machine.sessions / "one.jsonl"
    path, status = os.fsencode(place), place.stat()
    known = FileRow(True, True, status.st_size, status.st_mtime_ns)
    assert _classify(path, {path: known}, lambda _: False) == "indexed"
    assert _classify(path, {}, lambda _: False) == MISSING
    assert _classify(path, {path: known._replace(size=status.st_size - 1)}, lambda _: False) == BEHIND
    assert _classify(path, {path: known._replace(is_complete=False)}, lambda _: False) == BEHIND
    assert _classify(path + b"x", {}, lambda _: False) == "gone"


def test_too_few_watches(machine: Clinic, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fewer watches than directories: the very command that mends it."""
    (tmp_path / "max_user_watches").write_text("1000\n")
    monkeypatch.setattr(paths, "LIMITS", str(tmp_path))
    checkup = Checkup({}, deep=False)
    checkup.status = {"sources": [{"path": "/s", "mode": "events", "directories": 900, "warnings": []}]}
    (found,) = [finding for finding in paths.check_watch(checkup) if finding.level == WRONG]
    assert found.todo == "`sudo sysctl fs.inotify.max_user_watches=7696`, then `sesamectl restart`"


@pytest.mark.parametrize(
    ("codes", "level"),
    [(["tooFewWatches"], "wrong"), (["tooFewInstances"], "wrong"), (["unwatchable"], "note"), (None, "note")],
)
def test_warnings_of_a_root(codes: list[str] | None, level: str) -> None:
    """Its code, not its text, says whether a warning is wrong; that of an older daemon, without a code, is a note."""
    source: dict[str, Any] = {"path": "/s", "mode": "polling", "directories": 1, "warnings": ["raise fs.inotify"]}
    checkup = Checkup({}, deep=False, status={"sources": [source | ({"warningCodes": codes} if codes else {})]})
    assert level in {finding.level for finding in paths.check_watch(checkup) if "/s: raise" in finding.text}


def test_what_the_daemon_complains_of(machine: Clinic) -> None:
    """What the daemon itself says is wrong is wrong."""
    machine.run("search", "quince")
    machine.run("stop")
    (machine.data / "index.sqlite").write_bytes(b"\xff" * 50_000)
    machine.run("search", "quince")
    assert "was damaged" in machine.complains("state")

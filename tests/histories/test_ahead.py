"""An index that is made with the process that reads ahead is as one that is made without it, whatever becomes of process and files."""

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest

from sesamed.exclusion import Exclusion
from sesamed.ingest.ahead import child
from sesamed.ingest.ahead.child import Ahead
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.project import Projects
from sesamed.ingest.state import Target
from sesamed.ingest.sweep import Root, Sweep
from sesamed.ingest.withholding import Withholding
from sesamed.masking import Secrets
from sesamed.source import Lines
from sesamed.sources import SOURCES
from sesamed.store import sqlite
from sesamed.store.rows import FileRows, IndexedFile
from tests.support.dump import dumped
from tests.support.growing import GOLDEN
from tests.support.history import NOON, same
from tests.support.indexes import Indexes, make_directory
from tests.support.sessions import PiSession

SLICE_BYTES = 20_000
LIMITS = ReadLimits(line_bytes=30_000, chunk_bytes=10_000)
OF_LINES = [
    name for name, source in SOURCES.items() if isinstance(shape := source.shapes[0], Lines) and shape.begins is None
]
LONG = 5
COLUMNS = """
    SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
    WHERE t.type = 'table' AND t.schema = 'main' AND t.name NOT LIKE 'sqlite_%'
"""


class Noting(Ahead):
    """Notes what was taken from it."""

    def __init__(self, limits: ReadLimits = LIMITS) -> None:
        super().__init__(limits, SLICE_BYTES)
        self.taken = list[bytes]()

    def take(self, target: Target, known: IndexedFile | None) -> FileRows | None:
        """Note it."""
        change = super().take(target, known)
        if change is not None:
            self.taken.append(target.path)
        return change

    def start(self) -> "Noting":
        """Start it, and wait until it can be asked."""
        self.begin(0)
        assert self._reader is not None
        assert self._reader._poll.poll(child.PATIENCE_S * 1000)
        return self

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process is not None
        return self._process.pid


class Load:
    """A root with the golden files of a source; for pi with sessions that are longer than what is committed at once, and one that is
    longer than what is read at once."""

    def __init__(self, source: str = "pi") -> None:
        self._source = source
        self.base = make_directory("ahead-")
        self.root = self.base / "root"
        shutil.copytree(GOLDEN / source, self.root, ignore=shutil.ignore_patterns("*.expected.json"))
        if source == "pi":
            self._write_long()
        for path in self.root.rglob("*"):
            os.utime(path, (NOON, NOON))
        self.exclusion = Exclusion()
        self._sweep = Sweep([Root(source, str(self.root))], self.exclusion, {source: SOURCES[source].shapes})
        self._indexes = Indexes()

    def _write_long(self) -> None:
        for number in range(LONG):
            session = PiSession(id=f"long-{number}", cwd=str(self.base / "project"))
            for at in range(100):
                session.user(f"alpha beta {number} {at} " + "gamma delta " * (2000 if number == 0 else 20))
                session.tool("bash", {"command": f"make {at}"}, "done")
            session.raw(b"{bad").user("x" * 40_000).user("ghp_R7kQ2mZ9xT4vB8nL1cW6yH3jF5dS0aG7eU2p")
            (self.root / f"long-{number}.jsonl").write_bytes(session.bytes())
        (self.root / "torn.jsonl").write_bytes(PiSession(id="torn").user("whole").user("beta").bytes()[:-40])

    def close(self) -> None:
        """Take everything away."""
        self._indexes.close()
        shutil.rmtree(self.base)

    def open(self, name: str, limits: ReadLimits = LIMITS) -> Ingest:
        """A new index."""
        decoder = Decoder(SOURCES, limits, lambda: NOON + 3600, withholding=Withholding(Projects()))
        return Ingest(self._indexes.open(name), decoder)

    def read(
        self, ingest: Ingest, ahead: Ahead | None = None, between: Callable[[], None] = lambda: None
    ) -> dict[str, Any]:
        """The dump of an index when all is read, a commit or two at a time."""
        before = 0

        def stop() -> bool:
            return ingest.writer.commits > before

        while waiting := [item.target for item in self._sweep.due(ingest)]:
            while waiting:
                before = ingest.writer.commits
                waiting = ingest.run(waiting, stop, ahead).unfinished
                between()
        connection = ingest.writer.connection
        return list_rows(connection) if self._source == "codex" else dumped(connection)  # the dump knows no threads


def list_rows(connection: apsw.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All that is in its tables, by table, but for revisions, which count commits."""
    columns: dict[str, list[str]] = {}
    for table, name in sqlite.rows(connection, COLUMNS):
        if name not in ("revision", "floor") and table not in ("metadata", "totals"):
            columns.setdefault(table, []).append(name)
    return {
        table: sorted(sqlite.rows(connection, f"SELECT {', '.join(names)} FROM {table}"), key=repr)
        for table, names in columns.items()
    }


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Little is committed at once, and little is worth a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sesamed.ingest.look.SLICE_BYTES", SLICE_BYTES)
        patch.setattr(child, "LEAST_BYTES", 0)
        patch.setattr(child, "count_cores", lambda: 2)
        yield


@pytest.fixture(scope="module")
def ahead() -> Iterator[Noting]:
    """One that many loads have."""
    made = Noting().start()
    yield made
    made.end()


@pytest.fixture
def own() -> Iterator[Noting]:
    """One for this test."""
    made = Noting().start()
    yield made
    made.end()


@pytest.fixture
def load() -> Iterator[Load]:
    made = Load()
    yield made
    made.close()


@pytest.mark.parametrize("source", OF_LINES)
def test_the_index_is_as_without_it(ahead: Noting, source: str) -> None:
    """For all formats of lines, files that are as they should be come from it."""
    load = Load(source)
    try:
        ahead.taken.clear()
        same(load.read(load.open("with"), ahead), load.read(load.open("without")))
        assert ahead.taken
    finally:
        load.close()


def test_long_files_come_in_parts(ahead: Noting, load: Load) -> None:
    """Each of them to its end; a last line that may be half a line is left to the daemon."""
    ahead.taken.clear()
    found = load.read(load.open("with"), ahead)
    parts = [path for path in ahead.taken if b"long-" in path]
    assert len(set(parts)) == LONG
    assert len(parts) > LONG + 4
    assert not any(path.endswith(b"torn.jsonl") for path in ahead.taken)
    same(found, load.read(load.open("without")))


@pytest.mark.parametrize("secrets", ["drop", "keep"])
def test_it_does_with_secrets_what_the_daemon_does(load: Load, secrets: Secrets) -> None:
    """As it is configured."""
    limits = ReadLimits(line_bytes=30_000, chunk_bytes=10_000, secrets=secrets)
    own = Noting(limits).start()
    try:
        found = load.read(load.open("with", limits), own)
        same(found, load.read(load.open("without", limits)))
        assert any("ghp_R7kQ" in text for _, text in found["chunks"]) == (secrets == "keep")
        assert any(b"long-" in path for path in own.taken)
    finally:
        own.end()


def test_what_a_project_excludes_stays_out(ahead: Noting, load: Load) -> None:
    """It reads such files; the daemon keeps nothing of them, and remembers why, as if it had read them itself."""
    (load.base / "project").mkdir()
    (load.base / "project/.sesameignore").write_text("/\n")
    ahead.taken.clear()
    one, other = load.open("with"), load.open("without")
    found = load.read(one, ahead)
    same(found, load.read(other))
    assert not any("long" in session for session in found["sessions"])
    assert any(b"long-" in path for path in ahead.taken)
    assert {path: state.withheld for path, state in one.states.withheld.items()} == {
        path: state.withheld for path, state in other.states.withheld.items()
    }


@pytest.mark.fault(54)
@pytest.mark.parametrize("commits", [0, 1, 2, 5])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_its_end_loses_nothing_and_doubles_nothing(load: Load, own: Noting, commits: int, number: int) -> None:
    """Killed or hanging at any time: what it has not given is read by the daemon itself, and there is no other one in this load."""
    pid, times = own.pid, 0

    def end() -> None:
        if number == signal.SIGSTOP and own._reader is not None:
            own._reader._patience_ms = 50  # and not before: one that is slow would not be there any more
        os.kill(pid, number)

    def between() -> None:
        nonlocal times
        if times == commits:
            end()
        times += 1

    if commits == 0:
        end()
        times = 1
    found = load.read(load.open("with"), own, between)
    same(found, load.read(load.open("without")))
    if commits == 0:
        assert not own.taken
        own.begin(0)
        assert own._process is None
        own.end()  # with the load
        own.begin(0)
        assert own._process is not None


def test_files_that_change_are_read_as_they_are(load: Load, own: Noting) -> None:
    """What it has read of a file that was written to since, replaced, moved or deleted does not count."""
    paths, times = sorted(load.root.glob("long-*.jsonl")), 0

    def between() -> None:
        nonlocal times
        times += 1
        if times == 2:
            with open(paths[0], "ab") as file:
                file.write(PiSession(id="more").user("appended").lines()[-1] + b"\n")
            paths[1].write_bytes(PiSession(id="long-1").user("written anew").bytes())
            paths[2].rename(load.root / "moved.jsonl")
            paths[3].unlink()

    found = load.read(load.open("with"), own, between)
    files = {path for path in found["files"] if os.path.exists(path)}
    without = load.read(load.open("without"))
    same({path: found["files"][path] for path in files}, without["files"])
    gone = found["sessions"].keys() - without["sessions"].keys()
    assert gone <= {"pi:long-3"}
    for name in without["sessions"]:
        same(found["sessions"][name]["items"], without["sessions"][name]["items"], name)


def test_another_version_is_not_asked(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """While this one is upgraded, what is started is another program."""
    own = Noting()
    monkeypatch.setattr(child, "identify", lambda: b"another")
    try:
        found = load.read(load.open("with"), own.start())
        same(found, load.read(load.open("without")))
        assert not own.taken
        assert own._process is None
    finally:
        own.end()


def test_without_one_the_daemon_reads(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no process can be started."""
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    own = Noting()
    own.begin(0)
    assert own._process is None
    same(load.read(load.open("with"), own), load.read(load.open("without")))


def test_one_that_hangs_is_ended(own: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked to end, and not for long."""
    monkeypatch.setattr(child, "END_S", 0.05)
    pid = own.pid
    os.kill(pid, signal.SIGSTOP)
    own.end()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_one_that_does_not_listen_is_ended(load: Load, own: Noting, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is told does not fit into the pipe; then the daemon reads by itself."""
    monkeypatch.setattr(child, "PATIENCE_S", 0.05)
    os.kill(own.pid, signal.SIGSTOP)
    names = (f"{load.root}/{number:0200}.jsonl".encode() for number in range(10_000))
    assert not own.ask((Target(name, str(load.root), "pi") for name in names), lambda _: True)
    assert own._process is None
    same(load.read(load.open("with"), own), load.read(load.open("without")))


@pytest.mark.fault(48)
def test_a_very_long_file_is_read_in_turns(load: Load, ahead: Noting) -> None:
    """It has more size than content: none of it is read ahead, and whatever comes after it is."""
    sparse = load.root / "sparse.jsonl"
    sparse.touch()
    os.truncate(sparse, 65 << 20)
    ahead.taken.clear()
    same(load.read(load.open("with"), ahead), load.read(load.open("without")))
    assert os.fsencode(sparse) not in ahead.taken
    assert any(b"long-" in path for path in ahead.taken)

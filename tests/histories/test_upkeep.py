"""Merging, checkpoints and free pages: what each commit writes is counted, not how long it takes."""

import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from sesamed.errors import StoreError
from sesamed.store import sqlite, upkeep
from sesamed.store.index import Index
from sesamed.store.upkeep import Segments, Upkeep, read_segments, wal_bytes
from sesamed.store.writing.transaction import Writer
from tests.support.state_machines import is_night

APPENDS = 10_000 if is_night() else 400
MERGE_PAGES, LIFT_PAGES = (4, 8), 40  # for an index of some megabytes
OLD_SETTINGS = {"automerge": 4, "crisismerge": 16}  # of indexes that earlier versions made
LOAD = 60  # commits, of 4 pages of words each
COMMIT_PAGES = 20  # that a commit of one chunk may write
STEP_PAGES = 60  # that a step may write, where there are few segments: a quarter of what the load has made
PAGES_OF_EACH = 6  # that it may write of each segment, where there are many


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(str(tmp_path / "index.sqlite"))
    yield made
    made.close()


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MERGE_PAGES", MERGE_PAGES)
    monkeypatch.setattr(upkeep, "LIFT_PAGES", LIFT_PAGES)


class Commits:
    """Writes texts, and counts the pages of each commit, by the frames of the WAL."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.pages: list[int] = []  # of commits that write
        self.step_pages: list[int] = []  # of the others
        self._is_writing = False
        self._random = random.Random(1)
        self._next = itertools.count(1)
        self._in_wal = 0
        writer.connection.set_wal_hook(self._note)

    def _note(self, connection: apsw.Connection, database: str, pages: int) -> int:
        (self.pages if self._is_writing else self.step_pages).append(
            pages - self._in_wal if pages >= self._in_wal else pages
        )
        self._in_wal = pages
        return self.writer._note_wal(connection, database, pages)

    def write(self, rows: int, words: int, *, remove: int | None = None) -> None:
        """One commit of new chunks, and perhaps of the removal of an old one."""

        def work(connection: apsw.Connection) -> None:
            if remove is not None:
                old = sqlite.rows(connection, "SELECT id, text FROM chunks WHERE id = ?", (remove << 3,))
                connection.executemany("INSERT INTO fts(fts, rowid, text, inner) VALUES('delete', ?, ?, '')", old)
                connection.execute("DELETE FROM chunks WHERE id = ?", (remove << 3,))
            texts = [(next(self._next) << 3, self._text(words)) for _ in range(rows)]
            connection.executemany("INSERT INTO chunks(id, text) VALUES(?, ?)", texts)
            connection.executemany("INSERT INTO fts(rowid, text, inner) VALUES(?, ?, '')", texts)

        self._is_writing = True
        self.writer.change(work)
        self._is_writing = False

    def _text(self, words: int) -> str:
        return " ".join(
            [f"{bits:x}" for bits in self._random.randbytes(3 * words)[::3]]
            + [self._random.randbytes(4 * words).hex(" ", 4)]
        )


def load(commits: Commits, keeping: Upkeep, count: int) -> None:
    """A bulk load of so many commits."""
    keeping.bulk(on=True)
    for _ in range(count):
        commits.write(40, 100)
        keeping.wrote()
        if keeping.must_step():
            keeping.urgent_step()
    keeping.bulk(on=False)


def segments(index: Index) -> Segments:
    """What FTS5 has."""
    (block,) = sqlite.one(index.writer.connection, upkeep.STRUCTURE)
    return read_segments(block)


def check(index: Index) -> None:
    """FTS5 compares all its words with the texts."""
    index.writer.connection.execute("INSERT INTO fts(fts, rank) VALUES('integrity-check', 1)")


def run(keeping: Upkeep) -> None:
    """All there is to do."""
    for _ in range(10_000):
        if not keeping.has_work:
            return
        keeping.step()
        keeping.wait()
    raise AssertionError("upkeep never ends")


@pytest.mark.usefixtures("small_steps")
def test_a_bulk_load_is_merged_afterwards(index: Index) -> None:
    """Nothing while it goes on, one segment in the end, which appends do not reach, and then nothing to do."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    load(commits, keeping, LOAD)
    assert segments(index).total == LOAD
    assert keeping.is_busy
    run(keeping)
    assert max(commits.step_pages) <= PAGES_OF_EACH * LOAD
    found = segments(index)
    assert (found.total, any(found.levels[: upkeep.HIGH])) == (1, False)
    assert not keeping.is_busy
    assert wal_bytes(index.path) == 0
    check(index)


@pytest.mark.usefixtures("small_steps")
def test_appends_right_after_a_load_wait_for_no_merging(index: Index) -> None:
    """What the load has left is merged when they pause; as it was before that is done, there may be many more segments."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    load(commits, keeping, LOAD)
    for _ in range(upkeep.SEGMENTS + 1):
        commits.write(1, 10)
        keeping.wrote()
        if keeping.must_step():
            keeping.urgent_step()
    assert segments(index).total == LOAD + upkeep.SEGMENTS + 1
    run(keeping)
    for number in range(upkeep.SEGMENTS + 1):
        commits.write(1, 10)
        keeping.wrote()
        work(index, keeping, number)


def rest(index: Index, keeping: Upkeep, number: int) -> Upkeep:
    """The daemon rests after every tenth append."""
    work(index, keeping, number)
    if number % 10 == 0:
        run(keeping)
    return keeping


def work(index: Index, keeping: Upkeep, _: int) -> Upkeep:
    """The daemon never rests."""
    if keeping.must_step():
        keeping.urgent_step()
    assert segments(index).total <= upkeep.SEGMENTS + 2
    return keeping


def begin_again(index: Index, keeping: Upkeep, number: int) -> Upkeep:
    """The daemon is killed all the time."""
    if number % 20 == 0:
        return Upkeep(index.writer)
    keeping.step()
    return keeping


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("go_on", [rest, work, begin_again])
@pytest.mark.parametrize("removes", [False, True])
def test_no_commit_pays_for_others(
    index: Index, go_on: Callable[[Index, Upkeep, int], Upkeep], *, removes: bool
) -> None:
    """However many are appended after a load, and whatever is removed."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    load(commits, keeping, LOAD)
    run(keeping)
    commits.pages.clear()
    commits.step_pages.clear()
    for number in range(1, APPENDS + 1):
        commits.write(1, 20, remove=number if removes else None)
        keeping.wrote()
        keeping = go_on(index, keeping, number)
    run(keeping)
    assert max(commits.pages) <= COMMIT_PAGES
    assert max(commits.step_pages) <= STEP_PAGES
    assert max(map(len, segments(index).levels)) < 4
    check(index)


@pytest.mark.usefixtures("small_steps")
def test_merging_goes_on_after_a_kill(index: Index) -> None:
    """From where it was, also when commits come in between."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    load(commits, keeping, LOAD)
    steps = 0
    while keeping.has_work:
        keeping.step()
        keeping.wait()
        steps += 1
        if steps in (3, 10, 20):
            commits.write(1, 20)
            keeping = Upkeep(index.writer)
    assert steps < 100
    assert segments(index).total <= 3
    check(index)


@pytest.mark.usefixtures("small_steps")
def test_an_index_of_an_earlier_version_is_merged_in_steps(index: Index) -> None:
    """FTS5 keeps its settings in the index, and what a load has left is where appends would be merged with it."""
    commits = Commits(index.writer)
    for name, value in OLD_SETTINGS.items():
        index.writer.connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))
    for _ in range(LOAD + 4):
        commits.write(40, 100)
    assert segments(index).is_low
    commits.step_pages.clear()
    keeping = Upkeep(index.writer)
    settings = dict(sqlite.rows(index.writer.connection, "SELECT k, v FROM fts_config"))
    assert (settings["automerge"], settings["crisismerge"]) == (0, 1000)
    run(keeping)
    assert max(commits.step_pages) <= 2 * STEP_PAGES
    assert not any(segments(index).levels[: upkeep.HIGH])
    check(index)


# -- checkpoints


@pytest.mark.fault(59)
def test_a_checkpoint_waits_for_no_reader(index: Index) -> None:
    """It copies what it can; the rest when the reader has gone, whether or not anything is written then."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    with index.readers.lend() as reader:
        reader.execute("SELECT * FROM metadata").fetchall()
        commits.write(40, 100)
        keeping.wrote()
        while not keeping._checkpointing:
            keeping.step()
        keeping.wait()
        keeping.step()
        assert keeping.has_work
        assert wal_bytes(index.path) > 0
    run(keeping)
    assert wal_bytes(index.path) == 0


def test_a_short_log_can_wait(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all is merged: who folds it in waits longer for quiet than with a long one. It is done all the same."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    run(keeping)
    commits.write(0, 1)
    keeping.wrote()
    assert not keeping.can_wait
    keeping.step()
    assert (keeping.can_wait, keeping.has_work, index.writer.checkpoints.is_running) == (True, True, False)
    monkeypatch.setattr(upkeep, "FEW_WAL_PAGES", index.writer.wal_pages - 1)
    assert not keeping.can_wait
    run(keeping)
    assert wal_bytes(index.path) == 0


def test_commits_wait_for_no_checkpoint(index: Index) -> None:
    """It has a thread and a connection of its own."""
    keeping, commits, end = Upkeep(index.writer), Commits(index.writer), threading.Event()
    index.writer.checkpoints._thread.submit(end.wait)  # as if the disk were slow
    while not keeping._checkpointing:
        keeping.step()
    commits.write(1, 20)
    keeping.wrote()
    assert index.writer.checkpoints.is_running
    end.set()
    run(keeping)
    assert wal_bytes(index.path) == 0


def test_closing_waits_for_a_checkpoint(index: Index, tmp_path: Path) -> None:
    """Else its connection would keep the WAL alive, beside a file that may be replaced next."""
    writer = Writer(str(tmp_path / "other.sqlite"))
    keeping, commits = Upkeep(writer), Commits(writer)
    commits.write(40, 100)
    while not keeping._checkpointing:
        keeping.step()
    writer.close()
    assert sorted(path.name for path in tmp_path.glob("other*")) == ["other.sqlite"]


@pytest.fixture
def short_wal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "WAL_PAGES", 100)
    monkeypatch.setattr(upkeep, "LONGEST_WAL_PAGES", 200)
    monkeypatch.setattr(upkeep, "SHORT_PAGES", 20)
    monkeypatch.setattr(upkeep, "READER_WAIT_MS", 1)


def append_and_keep_up(commits: Commits, keeping: Upkeep) -> None:
    """As the daemon does when it never rests."""
    commits.write(1, 20)
    if keeping.must_step():
        keeping.urgent_step()


@pytest.mark.fault(59)
@pytest.mark.usefixtures("short_wal")
def test_the_wal_stays_short_when_the_daemon_never_rests(index: Index) -> None:
    """Whether checkpoints are quick, or so slow that commits have to wait for them."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    for _ in range(200):
        append_and_keep_up(commits, keeping)
        assert index.writer.wal_pages < 3 * 100
    assert sum(commits.pages) > 1000


@pytest.mark.fault(59)
@pytest.mark.usefixtures("short_wal")
def test_a_reader_that_stays_is_waited_for_seldom(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time when the WAL is twice as long; it is short again soon after the reader has gone."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    waits, truncate = list[int](), Upkeep._truncate_wal

    def note(keeping: Upkeep, wait_ms: int = 0) -> bool:
        waits.append(wait_ms)
        return truncate(keeping, wait_ms)

    monkeypatch.setattr(Upkeep, "_truncate_wal", note)
    with index.readers.lend() as reader:
        reader.execute("SELECT * FROM metadata").fetchall()
        for _ in range(200):
            append_and_keep_up(commits, keeping)
        assert 1 <= len(waits) <= 6
        assert index.writer.wal_pages > 1000
    keeping.wrote()
    run(keeping)
    append_and_keep_up(commits, keeping)
    assert index.writer.wal_pages < 100


def test_what_a_checkpoint_cannot_do_is_an_error_of_the_index(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a commit: a full disk, say. The next step tries again."""
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    commits.write(1, 20)

    def fail(_: sqlite.Checkpoints) -> int:
        raise apsw.FullError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sqlite.Checkpoints, "_run", fail)
        with pytest.raises(StoreError, match="disk is full"):
            run(keeping)
    keeping.wrote()
    run(keeping)
    assert wal_bytes(index.path) == 0


# -- free pages


def test_free_pages_are_given_back_in_steps(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but those that the next commits will need."""
    monkeypatch.setattr(upkeep, "FREE_PAGES", 20)
    monkeypatch.setattr(upkeep, "VACUUM_PAGES", 8)
    keeping, commits = Upkeep(index.writer), Commits(index.writer)
    connection = index.writer.connection
    connection.execute("CREATE TABLE more(text)")
    connection.execute(f"INSERT INTO more VALUES(zeroblob({200 * 16384}))")
    commits.write(1, 20)
    connection.execute("DROP TABLE more")
    before, commits.step_pages = connection.pragma("page_count"), []
    keeping.wrote()
    run(keeping)
    after = connection.pragma("page_count")
    assert after <= before - 180
    assert max(commits.step_pages) <= 4 * 8
    assert os.path.getsize(index.path) == after * 16384
    check(index)


def test_an_index_without_a_map_of_its_pages_stays_as_long_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions made such; a rebuild makes another."""
    monkeypatch.setattr(upkeep, "FREE_PAGES", 0)
    monkeypatch.setattr(upkeep, "FREE_PERCENT", 0)
    monkeypatch.setattr(sqlite, "WRITER_PRAGMAS", [name for name in sqlite.WRITER_PRAGMAS if "vacuum" not in name])
    writer = Writer(str(tmp_path / "index.sqlite"))
    keeping = Upkeep(writer)
    run(keeping)
    assert wal_bytes(writer.path) == 0
    writer.close()

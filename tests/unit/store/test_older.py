"""An index of an older schema becomes one of today's, whatever happens on the way, and keeps what no file holds any more."""

import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path

import apsw
import pytest

from sesamed.errors import StoreError
from sesamed.store import schema, sqlite
from sesamed.store.index import Index, remove_index
from sesamed.store.older import OlderIndex, older_indexes, set_older_aside
from sesamed.store.writing.replay import Replay
from sesamed.store.writing.transaction import Writer
from tests.support.dump import dumped
from tests.support.history import same
from tests.support.older import made

GONE_MS = 1_780_000_120_012  # in the golden index


@pytest.fixture
def database(tmp_path: Path) -> str:
    return made(tmp_path / "index.sqlite")


def opened(path: str) -> Index:
    """As the daemon opens it."""
    set_older_aside(path)
    index = Index(path)
    for name in older_indexes(path):
        older = OlderIndex(name)
        older.copy_metadata(index.writer)
        older.close()
    return index


def carried_over(path: str, index: Index) -> Generator[None, None, None]:
    """As the daemon does it once the files are read; each step is a commit."""
    for name in older_indexes(path):
        older = OlderIndex(name)
        try:
            yield from Replay(older, index.writer, lambda path, gone: True).run()
        finally:
            older.close()
        yield
        remove_index(name)
        yield


@pytest.fixture
def expected(tmp_path: Path) -> Callable[[Index], None]:
    """Whether an index holds what the golden one held."""
    connection = apsw.Connection(made(tmp_path / "expected.sqlite"))
    sqlite.add_functions(connection)
    connection.execute(schema.OLDER[4])
    before = dumped(connection)
    connection.close()

    def check(index: Index) -> None:
        same(dumped(index.writer.connection), before)

    return check


def test_all_of_it_is_carried_over(database: str, expected: Callable[[Index], None]) -> None:
    """Gone sessions, words on sessions, forks and their results, what is forgotten, and what is kept beside the rows."""
    index = opened(database)
    for _ in carried_over(database, index):
        pass
    expected(index)
    connection = index.writer.connection
    gone = sqlite.rows(connection, "SELECT public_id FROM sessions WHERE gone ORDER BY 1")
    assert [name for (name,) in gone] == ["child", "early", "long"]
    sql = "SELECT gone_ms FROM files WHERE path = ?"
    assert sqlite.one(connection, sql, (b"/golden/pi/zz-long.jsonl",)) == (GONE_MS,)
    sql = "SELECT name, summary, tags FROM sessions WHERE public_id = 'late'"
    assert sqlite.one(connection, sql) == ("Late harvest", "What became of the delta", '["harvest","delta"]')
    assert sqlite.rows(connection, "SELECT source, native_id FROM forgotten") == [("pi", "secret")]
    assert sqlite.one(connection, "SELECT count(*) FROM other_results") == (2,)
    assert (index.get("workstation"), index.get("last_sync_at")) == ("golden00", "1780000000000")
    for table in ("fts", "headings"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('integrity-check', 1)")
    assert sorted(path.name for path in Path(database).parent.glob("index.sqlite*")) == [
        "index.sqlite", "index.sqlite-shm", "index.sqlite-wal",
    ]  # fmt: skip
    index.close()


def test_a_crash_between_any_two_steps_loses_nothing(
    database: str, tmp_path: Path, expected: Callable[[Index], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon is killed after each step, started again, and ends what it began."""
    monkeypatch.setattr("sesamed.store.writing.replay.RECORDS_AT_ONCE", 2)
    index = opened(database)
    steps = 0
    for steps, _ in enumerate(carried_over(database, index), 1):
        killed = tmp_path / f"killed-{steps}"
        killed.mkdir()
        for path in [database, f"{database}-wal", *older_indexes(database)]:
            shutil.copy(path, killed)
        again = opened(str(killed / "index.sqlite"))
        for _ in carried_over(again.path, again):
            pass
        expected(again)
        assert older_indexes(again.path) == []
        again.close()
    assert steps > 20
    index.close()


def test_a_crash_before_the_new_index_is_made_loses_nothing(database: str, expected: Callable[[Index], None]) -> None:
    """Only the old one was renamed; or its WAL was folded in, and nothing else."""
    sqlite.fold_wal(database)
    set_older_aside(database)
    assert [os.path.basename(path) for path in older_indexes(database)] == ["index.sqlite.old-4"]
    index = opened(database)
    for _ in carried_over(database, index):
        pass
    expected(index)
    index.close()


def test_what_is_known_meanwhile_is_kept(database: str) -> None:
    """A second start copies nothing over what has changed since."""
    index = opened(database)
    index.put("last_sync_at", "1790000000000")
    index.close()
    index = opened(database)
    assert index.get("last_sync_at") == "1790000000000"
    index.close()


def test_two_upgrades_keep_both(database: str) -> None:
    """The first one's rest could not be carried over; somebody went back to the older version, and on again."""
    set_older_aside(database)
    set_older_aside(made(Path(database)))
    assert [os.path.basename(path) for path in older_indexes(database)] == [
        "index.sqlite.old-4",
        "index.sqlite.old-4-1",
    ]


def test_an_index_that_somebody_has_open_is_left_alone(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older daemon still runs, say."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 0)
    other = apsw.Connection(database)
    other.execute("BEGIN; SELECT * FROM files").fetchall()
    writer = apsw.Connection(database)
    writer.execute("INSERT INTO metadata VALUES('x', 'y')")
    with pytest.raises(StoreError, match="still in use"):
        set_older_aside(database)
    assert os.path.exists(database)
    other.close()
    writer.close()


def test_todays_index_and_others_are_not_set_aside(tmp_path: Path) -> None:
    """Nor one that is not there, nor a newer one, nor somebody else's: opening those says why it can't be done."""
    path = str(tmp_path / "index.sqlite")
    set_older_aside(path)
    writer = Writer(path)
    writer.close()
    set_older_aside(path)
    for application, version in ((schema.APPLICATION_ID, schema.VERSION + 1), (7, 4)):
        connection = apsw.Connection(path)
        connection.pragma("application_id", application)
        connection.pragma("user_version", version)
        connection.close()
        set_older_aside(path)
    assert older_indexes(path) == []


def test_an_older_index_is_not_written_to(database: str) -> None:
    """Who opens it without setting it aside is told what to do."""
    with pytest.raises(sqlite.SchemaTooOldError, match="schema 4"):
        Writer(database)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_was_never_released_is_kept_and_not_read(tmp_path: Path, version: int) -> None:
    """Its metadata comes over."""
    path = made(tmp_path / "index.sqlite")
    connection = apsw.Connection(path)
    connection.execute("DROP TABLE forgotten")
    connection.pragma("user_version", version)
    connection.close()
    index = opened(path)
    assert index.get("workstation") == "golden00"
    older = OlderIndex(*older_indexes(path))
    assert not older.is_readable
    older.close()
    index.close()

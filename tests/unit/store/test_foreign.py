"""Other programs' databases are read whole, and left alone."""

import errno
import os
import shutil
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from sesamed.source import Query
from sesamed.store.foreign import (
    HEADER_BYTES,
    DamagedDatabaseError,
    ForeignDatabaseError,
    LockedDatabaseError,
    open_database,
    read_counters,
)
from tests.support.owner import Owner

PARTS = "SELECT data FROM part WHERE session = :unit"
QUERIES = (
    Query(units="SELECT id, version, wrong FROM session", rows=(PARTS,)),
    Query(units="SELECT id, version FROM session", rows=("SELECT title FROM session WHERE id = :unit", PARTS)),
)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    (tmp_path / "agent").mkdir()
    with Owner(tmp_path / "agent/x.db") as started:
        started.say("s1", "k1", "alpha")
        yield started


def read(path: Path, within: Callable[[], object] = lambda: None) -> list[tuple[str, int]]:
    """The sessions, each with how many parts it has; something may happen while they are read."""
    scratch = path.parent.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    with open_database(os.fsencode(path), QUERIES, str(scratch)) as database:
        units = [str(unit) for unit, _ in database.units()]
        within()
        found = [(unit, len(list(database.rows(1, unit)))) for unit in units]
    assert os.listdir(scratch) == []
    return found


def look(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that is in a directory."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes()) for path in directory.iterdir()}


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("end", ["alive", "closed", "killed"])
@pytest.mark.parametrize("shm", [True, False])
def test_nothing_is_left_beside_a_database(tmp_path: Path, journal: str, end: str, shm: bool) -> None:
    """Whether its owner lives or not, and with what that left there; and all of it is read, also what is in the WAL only."""
    (tmp_path / "agent").mkdir()
    owner = Owner(tmp_path / "agent/x.db", journal)
    owner.say("s1", "k1", "alpha")
    if end == "closed":
        owner.end()
    elif end == "killed":
        owner.kill()
    path = owner.path
    if not shm and end != "alive":
        (tmp_path / "agent/x.db-shm").unlink(missing_ok=True)
    before = look(tmp_path / "agent")
    assert read(path) == [("s1", 1)]
    assert look(tmp_path / "agent") == before
    owner.end()


def test_a_copy_with_its_wal_is_read(tmp_path: Path, owner: Owner) -> None:
    """As backups have it: the WAL is there, and nothing else."""
    (tmp_path / "copy").mkdir()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{owner.path}{suffix}", tmp_path / f"copy/x.db{suffix}")
    before = look(tmp_path / "copy")
    assert read(tmp_path / "copy/x.db") == [("s1", 1)]
    assert look(tmp_path / "copy") == before


def test_an_owner_commits_and_checkpoints_while_it_is_read(owner: Owner) -> None:
    """And does not wait, nor is what is read mixed."""

    def write() -> None:
        owner.say("s1", "k2", "beta")
        owner.say("s2", "k3", "gamma")
        owner.run("PRAGMA wal_checkpoint(PASSIVE)")

    assert read(owner.path, write) == [("s1", 1)]
    assert read(owner.path) == [("s1", 2), ("s2", 1)]
    owner.run("BEGIN EXCLUSIVE")
    owner.run("PRAGMA user_version = 7")
    assert read(owner.path) == [("s1", 2), ("s2", 1)]
    owner.run("COMMIT")


def test_an_owner_without_wal_is_never_locked_out(tmp_path: Path) -> None:
    """It may write at any moment, and does not try twice; what was read then is not used."""
    (tmp_path / "agent").mkdir()
    with Owner(tmp_path / "agent/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        for key in ("k2", "k3"):
            with pytest.raises(LockedDatabaseError):
                read(owner.path, lambda key=key: owner.say("s1", key, "beta"))  # type: ignore[misc]  # bound now
        assert read(owner.path) == [("s1", 3)]
        owner.run("BEGIN EXCLUSIVE")
        owner.run("UPDATE session SET title = 'x'")  # nothing of it is in the file
        assert read(owner.path) == [("s1", 3)]
        owner.run("COMMIT")


def test_what_was_read_before_an_owner_wrote_is_used(tmp_path: Path) -> None:
    """From one session to the next; and what comes after that is as it is then."""
    (tmp_path / "agent").mkdir()
    with Owner(tmp_path / "agent/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database:
            assert len(list(database.rows(1, "s1"))) == 1
            database.release()
            owner.say("s2", "k2", "beta")
            assert len(list(database.rows(1, "s2"))) == 1
            database.release()
            owner.say("s2", "k3", "gamma")


def test_an_owner_that_writes_between_two_sessions_is_waited_for(tmp_path: Path) -> None:
    """Another time, when it does not end."""
    (tmp_path / "agent").mkdir()
    owner = Owner(tmp_path / "agent/x.db", "delete")
    owner.say("s1", "k1", "alpha")

    def read_twice() -> None:
        with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database:
            assert len(list(database.rows(1, "s1"))) == 1
            database.release()
            owner.write_half()
            list(database.rows(1, "s1"))

    with pytest.raises(LockedDatabaseError):
        read_twice()
    owner.kill()


def test_a_write_that_has_not_ended_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it is in the file. What an owner left that was killed meanwhile is taken back in a copy."""
    monkeypatch.setattr("sesamed.store.foreign.LEFT_S", 3600.0)
    (tmp_path / "agent").mkdir()
    owner = Owner(tmp_path / "agent/x.db", "delete")
    owner.say("s1", "k1", "alpha")
    owner.write_half()
    with pytest.raises(LockedDatabaseError):
        read(owner.path)
    owner.kill()
    journal = tmp_path / "agent/x.db-journal"
    os.utime(journal, (0, 0))
    before = look(tmp_path / "agent")
    assert read(owner.path) == [("s1", 1)]
    assert look(tmp_path / "agent") == before


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_whatever_cannot_be_told_all_of_it_is_read_or_nothing(
    tmp_path: Path, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many files are open, once: what its owner left in a WAL or in a journal is no less there."""
    (tmp_path / "agent").mkdir()
    owner = Owner(tmp_path / "agent/x.db", journal)
    owner.say("s1", "k1", "alpha")
    if journal == "wal":
        owner.run("PRAGMA wal_checkpoint(TRUNCATE)")
        owner.say("s1", "k2", "beta")
    else:
        owner.write_half()
    owner.kill()
    (tmp_path / "agent/x.db-shm").unlink(missing_ok=True)
    if journal == "delete":
        os.utime(tmp_path / "agent/x.db-journal", (0, 0))
    everything = read(owner.path)
    calls, refused = 0, 0

    def refuse(call: Callable[..., object], number: int) -> Callable[..., object]:
        def called(path: str | bytes | Path, *more: object, **named: object) -> object:
            nonlocal calls
            if os.fsencode(path).startswith(bytes(owner.path)):
                calls += 1
                if calls == number:
                    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return call(path, *more, **named)

        return called

    while calls >= refused:
        calls = 0
        with monkeypatch.context() as patch:
            for name in ("open", "lstat"):
                patch.setattr(os, name, refuse(getattr(os, name), refused + 1))
            try:
                assert read(owner.path) == everything
            except OSError as error:
                assert error.errno == errno.EMFILE  # noqa: PT017  # some are nobody's concern
        refused += 1
    assert refused > 10


def test_a_database_that_cannot_be_opened_again_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when it is opened, and no bug of ours; it is not damaged, either."""
    (tmp_path / "agent").mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise apsw.CantOpenError

    def read_twice(owner: Owner) -> None:
        with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database, monkeypatch.context() as patch:
            assert len(list(database.rows(1, "s1"))) == 1
            database.release()
            owner.say("s2", "k2", "beta")
            patch.setattr(apsw, "Connection", refuse)
            list(database.rows(1, "s2"))

    with Owner(tmp_path / "agent/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        with pytest.raises(ForeignDatabaseError, match="CantOpen") as caught:
            read_twice(owner)
        assert not isinstance(caught.value, DamagedDatabaseError)
        assert read(owner.path) == [("s1", 1), ("s2", 1)]


def test_only_in_wal_mode_there_are_counters_beside_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody else left there, and nobody can read, is nothing that changes."""
    (tmp_path / "agent").mkdir()
    path = tmp_path / "agent/x.db"
    with Owner(path, "delete") as owner:
        owner.say("s1", "k1", "alpha")
    open_file = os.open

    def refuse(name: bytes, *more: int) -> int:
        if name.endswith(b"-shm"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_file(name, *more)

    monkeypatch.setattr(os, "open", refuse)
    assert read_counters(bytes(path)) == read_counters(bytes(path))


def test_counters_that_cannot_be_read_are_like_none(
    tmp_path: Path, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that has them is looked at again for as long as they cannot. What is no file has none."""
    counters = read_counters(os.fsencode(owner.path))
    (tmp_path / "link.db").symlink_to(owner.path)
    for nothing in ("no.db", "agent", "link.db", "agent/x.db/x.db"):
        assert read_counters(os.fsencode(tmp_path / nothing)) == b""
    opened = os.open

    def refuse(path: bytes, flags: int) -> int:
        if path.endswith(b"-shm"):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, flags)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        seen = {read_counters(os.fsencode(owner.path)) for _ in range(3)}
    assert len(seen - {counters, counters[:HEADER_BYTES]}) == 3
    assert read_counters(os.fsencode(owner.path)) == counters


def test_every_commit_is_counted(owner: Owner) -> None:
    """Also where size and times stay: a WAL is written over from its beginning."""
    seen = {read_counters(os.fsencode(owner.path))}
    for number in range(20):
        owner.run("UPDATE session SET title = ?", str(number))
        owner.run("PRAGMA wal_checkpoint(RESTART)")
        seen.add(read_counters(os.fsencode(owner.path)))
    assert len(seen) == 21


def test_a_database_of_another_version_fits_no_query(tmp_path: Path) -> None:
    """And neither does one that has no tables yet, or is none."""
    (tmp_path / "agent").mkdir()
    path = tmp_path / "agent/x.db"

    def fits() -> tuple[bool, bool]:
        with open_database(os.fsencode(path), QUERIES, str(tmp_path)) as database:
            assert list(database.units()) == []
            return database.query is not None, database.is_empty

    path.touch()
    assert fits() == (False, True)
    path.write_bytes(b"not SQLite" * 100)
    assert fits() == (False, False)
    path.unlink()
    with Owner(path, tables=False) as owner:
        assert fits() == (False, True)
        owner.run("CREATE TABLE session(id)")
        assert fits() == (False, False)
        owner.run("DROP TABLE session")
        owner.run("CREATE TABLE session(id TEXT PRIMARY KEY, version INTEGER, title TEXT)")
        owner.run("CREATE TABLE part(id INTEGER PRIMARY KEY, session TEXT, data)")
        assert fits() == (True, False)


@pytest.mark.parametrize("wal", [True, False])
def test_a_damaged_database_is_an_error(tmp_path: Path, owner: Owner, wal: bool) -> None:
    """Not a crash, and not half of its sessions."""
    for number in range(40):
        owner.say(f"s{number}", f"k{number}", "x" * 1000)
    owner.run("PRAGMA wal_checkpoint(TRUNCATE)")
    if wal:
        owner.say("s1", "last", "alpha")
        owner.kill()
    else:
        owner.end()
    data = bytearray(owner.path.read_bytes())
    data[4096 : len(data) - 4096] = b"\xa5" * (len(data) - 8192)
    owner.path.write_bytes(data)
    with pytest.raises(DamagedDatabaseError):
        read(owner.path)


def test_a_large_table_is_read_row_by_row(tmp_path: Path) -> None:
    """In bounded memory."""
    (tmp_path / "agent").mkdir()
    path = tmp_path / "agent/x.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE session(id TEXT PRIMARY KEY, version INTEGER, title TEXT)")
        database.execute("CREATE TABLE part(id INTEGER PRIMARY KEY, session TEXT, data)")
        database.execute("INSERT INTO session VALUES('s1', 1, '')")
        sql = "INSERT INTO part WITH n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 30000) SELECT x, 's1', 'row ' || x FROM n"
        database.execute(sql)
        database.commit()
    with open_database(os.fsencode(path), QUERIES, str(tmp_path)) as database:
        tracemalloc.start()
        try:
            assert sum(1 for _ in database.rows(1, "s1")) == 30_000
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()


def test_text_that_is_no_utf8_comes_as_bytes(owner: Owner, tmp_path: Path) -> None:
    """It alone: other text, and what is bytes, come as they are."""
    for value in ("'plain'", "CAST(x'ff00fe' AS TEXT)", "x'6162'", "'é'", "7", "NULL"):
        owner.run(f"INSERT INTO part(session, data) VALUES('s2', {value})")
    owner.run("INSERT INTO session VALUES('s2', 1, CAST(x'ff' AS TEXT))")
    with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database:
        assert [value for (value,) in database.rows(1, "s2")] == ["plain", b"\xff\x00\xfe", b"ab", "é", 7, None]
        assert list(database.rows(0, "s2")) == [(b"\xff",)]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_session_that_was_deleted_has_no_version(tmp_path: Path, journal: str) -> None:
    """Nor has it rows that say so: its owner wrote while it was read. What is there has one."""
    (tmp_path / "agent").mkdir()
    with Owner(tmp_path / "agent/x.db", journal) as owner:
        for session in ("s1", "s2", "s3"):
            owner.say(session, "k1", "alpha")
        with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database:
            assert dict(database.units()) == {"s1": 1, "s2": 1, "s3": 1}
            database.release()
            owner.run("DELETE FROM session WHERE id = 's2'")
            owner.say("s3", "k2", "beta")
            assert [database.version("s1"), database.version("s3")] == [1, 2]
            with pytest.raises(LockedDatabaseError):
                database.version("s2")


@pytest.mark.parametrize(
    ("declared", "value", "can_be_read"),
    [
        ("TEXT", "'7'", True),
        ("TEXT", "CAST(x'73ff' AS TEXT)", True),
        ("INTEGER", "7", True),
        ("REAL", "7", True),
        ("", "7", True),
        ("", "0.5", True),
        ("", "'7'", True),
        ("TEXT", "NULL", False),
        ("TEXT", "x'7331'", False),
    ],
)
def test_the_version_of_a_session_is_found_whatever_its_id_is(
    tmp_path: Path, declared: str, value: str, can_be_read: bool
) -> None:
    """Text, no UTF-8, a number; where nothing equals it, it is not gone for all that."""
    (tmp_path / "agent").mkdir()
    with Owner(tmp_path / "agent/x.db", tables=False) as owner:
        owner.run(f"CREATE TABLE session(id {declared}, version INTEGER, title TEXT)")
        owner.run(f"CREATE TABLE part(id INTEGER PRIMARY KEY, session {declared}, data)")
        owner.run(f"INSERT INTO session VALUES('other', 1, ''), ({value}, 2, '')")
        owner.run(f"INSERT INTO part(session, data) VALUES({value}, 'alpha')")
        with open_database(os.fsencode(owner.path), QUERIES, str(tmp_path)) as database:
            listed = dict(database.units())
            assert sorted(listed.values()) == [1, 2]  # type: ignore[type-var]  # numbers
            assert {unit: database.version(unit) for unit in listed} == listed
            (unit,) = listed.keys() - {"other"}
            assert len(list(database.rows(1, unit))) == can_be_read

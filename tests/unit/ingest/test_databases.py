"""Sessions in other programs' databases, and in trees of files: noticed by their versions, read by difference, kept when they go."""

import errno
import json
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from copy import deepcopy
from pathlib import Path

import apsw
import pytest

from sesamed.ingest import units, whole
from sesamed.ingest.content import LAST_ITEMS, WORTH_ITEMS
from sesamed.ingest.queue import Queue
from sesamed.ingest.tail import Tail, open_tail
from sesamed.ingest.whole import WHOLE_BYTES
from sesamed.model import Operation
from sesamed.source import Bundle, Row, Value
from sesamed.sources import SOURCES
from sesamed.store.foreign import ForeignDatabase
from sesamed.store.rows import BadLine, FileRows, Signature
from sesamed.store.writing.records import Records
from sesamed.store.writing.sessions import Tally
from tests.support.crush import SCHEMA as CRUSH_SCHEMA
from tests.support.crush import CrushSession
from tests.support.goose import SCHEMA as GOOSE_SCHEMA
from tests.support.goose import GooseSession
from tests.support.history import same
from tests.support.letters import Desk, with_sessions
from tests.support.opencode import SCHEMA as OPENCODE_SCHEMA
from tests.support.opencode import OpenCodeSession
from tests.support.owner import Owner
from tests.support.whole_sources import State, Tables


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


@pytest.fixture
def owner(desk: Desk) -> Iterator[Owner]:
    with Owner(desk.base / "tables/x.db") as started:
        yield started


def test_sessions_of_a_database_are_units(desk: Desk, owner: Owner) -> None:
    """Each with its path, and read again when its version is another one; the others are left alone."""
    owner.say("s1", "k1", "alpha")
    owner.say("s2", "k2", "beta")
    desk.look()
    owner.say("s1", "k3", "gamma")
    result = desk.look()
    assert desk.texts("tables:s1") == ["alpha", "gamma"]
    assert desk.texts("tables:s2") == ["beta"]
    assert result.updated == 2  # the session, and the database
    assert desk.ingest.states.rest() == 0
    assert {session["path"] for session in desk.dump()["sessions"].values()} == {str(owner.path)}
    assert desk.look().updated == 0


def test_what_comes_to_a_session_before_it_is_read_and_is_taken_back(
    desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions are all listed before the first session is read; one may be again what it was then."""
    owner.say("s1", "k1", "alpha")
    owner.say("s2", "k2", "beta")
    release = ForeignDatabase.release

    def goes_on(database: ForeignDatabase) -> None:
        release(database)
        if not said:
            said.append("gamma")
            owner.say("s2", "k3", "gamma")

    said = list[str]()
    with monkeypatch.context() as patch:
        patch.setattr(ForeignDatabase, "release", goes_on)
        desk.look()
    assert said
    assert desk.texts("tables:s2") == ["beta", "gamma"]
    owner.run("DELETE FROM part WHERE data LIKE '%gamma%'")
    owner.run("UPDATE session SET version = 1")
    desk.look()
    assert desk.texts("tables:s2") == ["beta"]


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_session_that_is_deleted_before_it_is_read_is_kept(
    desk: Desk, journal: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of it stays, and the next look says that it is gone; of one that was new nothing comes."""
    with Owner(desk.base / "tables/x.db", journal) as owner:
        owner.say("s1", "k1", "alpha")
        owner.say("s2", "k2", "beta")
        desk.look()
        owner.say("s1", "k3", "gamma")
        owner.say("s2", "k4", "delta")
        owner.say("s3", "k5", "epsilon")
        release, units, listed = ForeignDatabase.release, ForeignDatabase.units, list[list[str]]()

        def delete(database: ForeignDatabase) -> None:
            release(database)
            for session in ("s2", "s3") if len(listed) == 1 else ():
                owner.run("DELETE FROM part WHERE session = ?", session)
                owner.run("DELETE FROM session WHERE id = ?", session)

        def note(database: ForeignDatabase) -> Iterator[tuple[str, Value]]:
            found = list(units(database))
            listed.append([name for name, _ in found])
            yield from found

        with monkeypatch.context() as patch:
            patch.setattr(ForeignDatabase, "release", delete)
            patch.setattr(ForeignDatabase, "units", note)
            desk.look()
        assert listed == [["s1", "s2", "s3"], ["s1"], ["s1"]]  # once more to see whether it is gone, and once anew
        assert desk.texts("tables:s1") == ["alpha", "gamma"]
        assert desk.texts("tables:s2") == ["beta"]
        gone = {name: session["gone"] for name, session in desk.dump()["sessions"].items()}
        assert gone == {"tables:s1": False, "tables:s2": True}
        assert desk.look().updated == 0
        assert desk.ingest.states.rest() == 0


def test_a_session_whose_id_equals_nothing_is_read(desk: Desk, owner: Owner) -> None:
    """It is there all the same: not even its owner finds it by its name, as of an id that is bytes."""
    owner.say("s2", "k2", "beta")
    owner.run("INSERT INTO session VALUES(CAST('s1' AS BLOB), 1, 's1')")
    owner.run("INSERT INTO part(session, data) VALUES('s1', ?)", json.dumps({"key": "k1", "text": "alpha"}))
    desk.look()
    assert desk.texts("tables:s1") == ["alpha"]
    assert desk.texts("tables:s2") == ["beta"]
    assert desk.look().updated == 0


def test_a_session_that_is_deleted_is_kept(desk: Desk, owner: Owner) -> None:
    """So are those of a database that is; what comes back is there again."""
    owner.say("s1", "k1", "alpha")
    owner.say("s2", "k2", "beta")
    desk.look()
    owner.run("DELETE FROM session WHERE id = 's1'")
    desk.look()
    assert {name: session["gone"] for name, session in desk.dump()["sessions"].items()} == {
        "tables:s1": True,
        "tables:s2": False,
    }
    same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))
    owner.say("s1", "k3", "gamma")
    desk.look()
    assert desk.texts("tables:s1") == ["alpha", "gamma"]
    assert not desk.dump()["sessions"]["tables:s1"]["gone"]
    owner.end()
    owner.path.unlink()
    desk.look()
    assert all(session["gone"] for session in desk.dump()["sessions"].values())
    same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))


def test_a_row_that_does_not_decode_is_skipped(desk: Desk, owner: Owner) -> None:
    """And counts, with its number, and the others are read; the next version mends it. Text that is no UTF-8 is such a row."""
    owner.say("s1", "k1", "alpha")
    desk.look()
    for broken in ("'{'", "CAST(x'ff00fe' AS TEXT)", "NULL"):
        owner.run(f"INSERT INTO part VALUES(99, 's1', {broken})")
        owner.run("UPDATE session SET version = version + 1")
        owner.say("s1", "k2", "beta")
        desk.look()
        assert list(desk.bad().values()) == [1]
        assert {name: bad.line for name, (bad,) in desk.reasons().items()} == {"tables/x.db\0s1": 3}
        assert desk.texts("tables:s1") == ["alpha", "beta"]
        owner.run("DELETE FROM part WHERE id >= 99")
        owner.run("UPDATE session SET version = version + 1")
        desk.look()
        assert desk.bad() == {}


def test_what_none_of_the_rows_says_any_more_is_kept(desk: Desk, owner: Owner) -> None:
    """As of a session that is one row, which another version has written anew."""
    owner.say("s1", "k1", "alpha")
    desk.look()
    owner.run("UPDATE part SET data = 'of another version'")
    owner.run("UPDATE session SET version = version + 1")
    desk.look()
    assert list(desk.bad().values()) == [1]
    assert desk.texts("tables:s1") == ["alpha"]


REAL: dict[str, tuple[str, str, CrushSession | GooseSession | OpenCodeSession, str, str]] = {
    "crush": (
        "crush.db",
        CRUSH_SCHEMA,
        CrushSession("s1"),
        "UPDATE messages SET {} WHERE parts LIKE '%beta%'",
        "parts",
    ),
    "goose": (
        "sessions.db",
        GOOSE_SCHEMA,
        GooseSession("s1"),
        "UPDATE messages SET {} WHERE content_json LIKE '%beta%'",
        "content_json",
    ),
    "opencode": (
        "opencode.db",
        OPENCODE_SCHEMA,
        OpenCodeSession(id="s1"),
        "UPDATE part SET {} WHERE data LIKE '%beta%'",
        "data",
    ),
}


@pytest.mark.parametrize("agent", REAL)
@pytest.mark.parametrize("broken", ["'{'", "CAST(x'ff00fe' AS TEXT)", "zeroblob(3)", "'[]]'"])
def test_a_row_that_does_not_decode_takes_no_other_with_it(agent: str, broken: str) -> None:
    """Of none of these agents."""
    name, schema, session, update, column = REAL[agent]
    desk = Desk(SOURCES[agent])
    with closing(sqlite3.connect(desk.base / agent / name, isolation_level=None)) as connection:
        connection.executescript(schema)
        for statement, values in deepcopy(session).user("alpha").answer("beta").user("gamma").statements():
            connection.execute(statement, values)
        connection.execute(update.format(f"{column} = {broken}"))
    desk.look()
    assert desk.texts(f"{agent}:s1") == ["alpha", "gamma"]
    assert list(desk.bad().values()) == [1]
    desk.close()


ODD_ID = "CAST(x'7aff' AS TEXT)"
RENAMES = {
    "crush": (f"UPDATE sessions SET id = {ODD_ID}", f"UPDATE messages SET session_id = {ODD_ID}"),
    "goose": (f"UPDATE sessions SET id = {ODD_ID}", f"UPDATE messages SET session_id = {ODD_ID}"),
    "opencode": (
        f"UPDATE session SET id = {ODD_ID}",
        f"UPDATE message SET session_id = {ODD_ID}",
        f"UPDATE part SET session_id = {ODD_ID}",
    ),
}


@pytest.mark.parametrize("agent", REAL)
def test_an_id_that_is_no_utf8_is_one(agent: str) -> None:
    """Its session is read, and said by what can be said of it."""
    name, schema, session, *_ = REAL[agent]
    desk = Desk(SOURCES[agent])
    with closing(sqlite3.connect(desk.base / agent / name, isolation_level=None)) as connection:
        connection.executescript(schema)
        for statement, values in deepcopy(session).user("alpha").statements():
            connection.execute(statement, values)
        for statement in RENAMES[agent]:
            connection.execute(statement)
    desk.look()
    assert desk.ingest.states.rest() == 0
    assert desk.texts(f"{agent}:z\ufffd") == ["alpha"]
    desk.close()


def test_an_owner_without_wal_may_write_while_we_decode(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is kept, and nothing is lost."""
    with Owner(desk.base / "tables/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        owner.say("s2", "k2", "beta")
        step, said = Tables.step, list[str]()

        def write_meanwhile(self: Tables, state: State, item: Row) -> tuple[State, list[Operation]]:
            if not said:
                said.append("k3")
                owner.say("s1", "k3", "gamma")
            return step(self, state, item)

        monkeypatch.setattr(Tables, "step", write_meanwhile)
        desk.look()
        desk.look()
        assert desk.texts("tables:s1") == ["alpha", "gamma"]
        assert desk.texts("tables:s2") == ["beta"]


def test_what_was_read_when_an_owner_came_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was being read is read again."""
    with Owner(desk.base / "tables/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        owner.say("s2", "k2", "beta")
        release, released = ForeignDatabase.release, list[str]()

        def write_meanwhile(self: ForeignDatabase) -> None:
            released.append("s")
            if len(released) == 2:
                owner.say("s2", "k3", "gamma")
            release(self)

        monkeypatch.setattr(ForeignDatabase, "release", write_meanwhile)
        result = desk.ingest.run([desk.target(owner.path)])
        assert [target.path for target in result.unfinished] == [bytes(owner.path)]
        assert list(desk.dump()["sessions"]) == ["tables:s1"]
        desk.ingest.run(result.unfinished)
        assert desk.texts("tables:s2") == ["beta", "gamma"]
        assert len(released) == 3


def test_one_session_never_stops_the_others(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it fails when it is decoded or when it is written; it is tried again, and well when that works."""
    for number in range(3):
        owner.say(f"s{number}", f"k{number}", f"alpha{number}")
    step, put_all = Tables.step, Records.put_all

    def fail_to_decode(self: Tables, state: State, item: Row) -> tuple[State, list[Operation]]:
        assert b"alpha1" not in str(item.values).encode()
        return step(self, state, item)

    def fail_to_write(self: Records, file: int, session: int | None, change: FileRows) -> tuple[int, Tally]:
        assert not change.path.endswith(b"s1")
        return put_all(self, file, session, change)

    for kind, name, function in ((Tables, "step", fail_to_decode), (Records, "put_all", fail_to_write)):
        with monkeypatch.context() as patch:
            patch.setattr(kind, name, function)
            for _ in range(2):
                desk.ingest.run([due.target for due in desk.sweep.due(desk.ingest)])
                (state,) = desk.ingest.states.list_unreadable()
                assert state.target.path == bytes(owner.path)
                assert sorted(desk.dump()["sessions"]) == ["tables:s0", "tables:s2"]
        desk.look()
        assert len(desk.dump()["sessions"]) == 3
        assert desk.ingest.states.list_unreadable() == []
        desk.ingest.drop([state.target.path for state in desk.ingest.states])


def test_values_may_be_bytes(desk: Desk, owner: Owner) -> None:
    """As they come."""
    owner.say("s1", "k1", "alpha")
    owner.run(
        "INSERT INTO part(session, data) VALUES('s1', CAST(? AS BLOB))", json.dumps({"key": "k2", "text": "zebra"})
    )
    desk.look()
    assert desk.texts("tables:s1") == ["alpha", "zebra"]


def test_a_database_of_another_version_is_said_once(desk: Desk) -> None:
    """It is none of ours, and no trouble; it counts, until it is one that is known."""
    path = desk.base / "tables/x.db"
    with Owner(path, tables=False) as owner:
        desk.look()
        assert desk.bad() == {}
        owner.run("CREATE TABLE session(id TEXT PRIMARY KEY)")
        desk.look()
        (state,) = desk.ingest.states.list_warned()
        assert (state.target.path, state.trouble) == (bytes(path), None)
        assert desk.bad() == {"tables/x.db": 1}
        ((bad,),) = desk.reasons().values()
        assert bad.reason == state.warning
        assert desk.look().updated == 0
        owner.run("ALTER TABLE session ADD COLUMN version")
        owner.run("ALTER TABLE session ADD COLUMN title")
        owner.run("CREATE TABLE part(id INTEGER PRIMARY KEY, session TEXT, data)")
        owner.say("s1", "k1", "alpha")
        desk.look()
        assert desk.ingest.states.list_warned() == []
        assert desk.bad() == {}
        assert desk.texts("tables:s1") == ["alpha"]


def test_databases_of_other_programs_are_passed_over(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever they are: of other tables, damaged, no database at all. Nobody hears of it unless he asks."""
    (desk.base / "tables/shared").mkdir()
    with Owner(desk.base / "tables/shared/notes.db", "delete", tables=False) as owner:
        owner.run("CREATE TABLE note(id)")
    whole = owner.path.read_bytes()
    desk.write("tables/shared/damaged.db", whole[:100] + b"\xa5" * (len(whole) - 100))
    desk.write("tables/shared/text.db", b"no database " * 1000)
    desk.write("tables/shared/empty.db", b"")
    with caplog.at_level(logging.DEBUG, "sesamed.ingest.decode"):
        desk.look()
    assert desk.bad() == {}
    assert desk.ingest.states.list_warned() == []
    assert "count=4" in caplog.text
    assert desk.look().updated == 0


@pytest.mark.parametrize("error", [apsw.CantOpenError, apsw.IOError, apsw.NoMemError])
def test_a_database_that_cannot_be_opened_is_not_passed_over(
    desk: Desk, error: type[apsw.Error], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows yet whose it is: with fewer open files, and more memory, the next sweep finds out."""
    (desk.base / "tables/shared").mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise error

    with Owner(desk.base / "tables/shared/x.db") as owner:
        owner.say("s1", "k1", "alpha")
        with monkeypatch.context() as patch:
            patch.setattr(apsw, "Connection", refuse)
            desk.ingest.run([due.target for due in desk.sweep.due(desk.ingest)])
        assert [state.trouble for state in desk.ingest.states.list_unreadable()] == [
            f"cannot be read ({error.__name__})"
        ]
        desk.look()
        assert desk.texts("tables:s1") == ["alpha"]
        assert desk.ingest.states.list_unreadable() == []


@pytest.mark.parametrize(
    ("which", "trouble"),
    [
        (1, []),  # how it looks: it is looked at
        (2, ["Too many open files"]),  # whether it has a WAL
        (3, ["Too many open files"]),  # whether that is copied while nobody writes
    ],
)
def test_too_many_open_files_are_no_sign_that_there_is_no_wal(
    desk: Desk, which: int, trouble: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which its owner left with the latest sessions: without it they would be gone, and others as they were."""
    owner = Owner(desk.base / "tables/x.db")
    owner.say("s1", "k1", "alpha")
    owner.run("PRAGMA wal_checkpoint(TRUNCATE)")
    owner.say("s1", "k2", "beta")
    owner.say("s2", "k3", "gamma")
    owner.kill()
    Path(f"{owner.path}-shm").unlink()
    desk.look()
    os.utime(owner.path)
    before, opened, tried = desk.dump()["sessions"], os.open, list[bytes]()

    def refuse(path: bytes, *more: int, **named: int) -> int:
        if path == bytes(owner.path):
            tried.append(path)
            if len(tried) == which:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, *more, **named)

    due = [due.target for due in desk.sweep.due(desk.ingest)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        desk.ingest.run(due)
    assert len(tried) >= which
    assert [state.trouble for state in desk.ingest.states.list_unreadable()] == trouble
    assert desk.dump()["sessions"] == before
    assert [due.target for due in desk.sweep.due(desk.ingest)] == due
    desk.look()
    assert desk.dump()["sessions"] == before
    assert desk.sweep.due(desk.ingest) == []
    assert desk.ingest.states.list_unreadable() == []


def test_a_database_that_was_ours_is_not_passed_over(desk: Desk) -> None:
    """Another version of the agent has written it, although it lies among others."""
    (desk.base / "tables/shared").mkdir()
    with Owner(desk.base / "tables/shared/x.db") as owner:
        owner.say("s1", "k1", "alpha")
        desk.look()
        owner.run("ALTER TABLE part RENAME TO piece")
        desk.look()
        assert [state.target.path for state in desk.ingest.states.list_warned()] == [bytes(owner.path)]
        assert desk.bad() == {"tables/shared/x.db": 1}
        assert desk.texts("tables:s1") == ["alpha"]


def test_a_locked_database_is_tried_again_soon(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without being a trouble of anybody's."""
    monkeypatch.setattr("sesamed.store.foreign.LEFT_S", 3600.0)
    with Owner(desk.base / "tables/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        desk.look()
        owner.say("s1", "k2", "beta")
        owner.write_half()
        desk.ingest.run([desk.target(owner.path)])
        state = desk.ingest.states.get(bytes(owner.path))
        assert state is not None
        assert state.trouble is None
        assert state.quiet_at is not None
        owner.run("ROLLBACK")
        desk.look()
        assert desk.texts("tables:s1") == ["alpha", "beta"]


def test_a_damaged_database_keeps_its_sessions(desk: Desk, owner: Owner) -> None:
    """And is a trouble until it is whole."""
    for number in range(100):
        owner.say("s1", f"k{number}", "alpha " * 100)
    owner.end()
    desk.look()
    whole = owner.path.read_bytes()
    owner.path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    desk.ingest.run([desk.target(owner.path)])
    assert [state.trouble for state in desk.ingest.states.list_unreadable()] == [
        "damaged, or written over while it was read"
    ]
    assert len(desk.texts("tables:s1")) == 100
    owner.path.write_bytes(whole)
    desk.look()
    assert desk.ingest.states.list_unreadable() == []


def test_many_sessions_take_several_commits(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Live appends come between."""
    monkeypatch.setattr("sesamed.ingest.decode.WHOLE_BYTES", WHOLE_BYTES // 20)
    for number in range(20):
        owner.say(f"s{number}", f"k{number}", f"{number + 10} " * 10_000)
    commits = desk.ingest.writer.commits
    assert desk.look().added == 21
    assert desk.ingest.writer.commits - commits >= 2


def test_a_trouble_is_over_when_it_is_over(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a file that has not changed meanwhile."""
    letter = desk.write("letters/a.letter", {"session": "s1", "records": [{"key": "k1", "text": "alpha"}]})
    owner.say("s1", "k1", "alpha")
    desk.look()
    targets = [desk.target(letter), desk.target(owner.path)]

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(desk.ingest.decoder, "look_at", refuse)
        desk.ingest.run(targets)
        assert len(desk.ingest.states.list_unreadable()) == 2
    assert {due.target for due in desk.sweep.due(desk.ingest)} == {*targets}
    desk.look()
    assert desk.ingest.states.list_unreadable() == []
    assert desk.sweep.due(desk.ingest) == []


def test_who_syncs_is_told_of_a_database_that_is_locked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not take a look for theirs that could not read it, when it is free again by then."""
    monkeypatch.setattr("sesamed.store.foreign.LEFT_S", 3600.0)
    with Owner(desk.base / "tables/x.db", "delete") as owner:
        owner.say("s1", "k1", "alpha")
        desk.look()
        owner.say("s1", "k2", "beta")
        owner.write_half()
        queue = Queue(desk.ingest.states)
        before = queue.add(desk.sweep.due(desk.ingest))
        queue.take()
        desk.ingest.run([desk.target(owner.path)])
        owner.run("ROLLBACK")
        (ticket,) = queue.add(desk.sweep.due(desk.ingest))
        queue.finish()
        assert queue.pending(before).files == 1
        assert not ticket.is_served
        queue.take()
        desk.ingest.run([desk.target(owner.path)])
        queue.finish()
    assert queue.pending([*before, ticket]).files == 0
    assert desk.texts("tables:s1") == ["alpha", "beta"]


def tree(desk: Desk, **files: object) -> None:
    """Files of a bundle."""
    for name, said in files.items():
        desk.write(f"folders/{name.replace('__', '/')}.json", said)


def test_a_bundle_is_one_session(desk: Desk) -> None:
    """Of all its members; one that comes, grows or goes is a change of the whole."""
    tree(
        desk,
        session__p__s1={"session": "s1"},
        message__s1__m1={"key": "m1", "text": "alpha"},
        part__m1__p1={"key": "p1", "text": "beta"},
    )
    desk.look()
    assert desk.texts("folders:s1") == ["alpha", "beta"]
    tree(desk, message__s1__m2={"key": "m2", "text": "delta"}, part__m1__p1={"key": "p1", "text": "beta gamma"})
    part = desk.base / "folders/part/m1/p1.json"
    desk.look_at([part])
    assert desk.texts("folders:s1") == ["alpha", "beta gamma", "delta"]
    part.unlink()
    desk.look()
    assert desk.texts("folders:s1") == ["alpha", "delta"]
    assert desk.look().updated == 0


def test_a_member_that_does_not_decode_keeps_the_session(desk: Desk) -> None:
    """Half written, or larger than all members may be."""
    tree(desk, session__p__s1={"session": "s1"}, message__s1__m1={"key": "m1", "text": "alpha"})
    desk.look()
    for broken, reason in (
        (b'{"key": "m2"', "message/s1/m2.json is not whole"),
        (
            json.dumps({"key": "m2", "text": "x" * (1 << 20)}).encode(),
            "larger than 1,048,576 bytes; the rest is left out",
        ),
    ):
        tree(desk, message__s1__m2=broken)
        desk.look()
        assert desk.bad() == {"folders/session/p/s1.json": 1}
        assert desk.reasons() == {"folders/session/p/s1.json": [BadLine(None, reason)]}
        assert desk.texts("folders:s1") == ["alpha"]
    tree(desk, message__s1__m2={"key": "m2", "text": "beta"})
    desk.look()
    assert desk.bad() == {}
    assert desk.texts("folders:s1") == ["alpha", "beta"]


def test_a_member_that_is_not_there_when_it_is_read_keeps_the_session(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was replaced while we looked."""
    tree(desk, session__p__s1={"session": "s1"}, message__s1__m1={"key": "m1", "text": "alpha"})
    desk.look()
    tree(desk, message__s1__m1={"key": "m1", "text": "beta"})
    missing = desk.base / "folders/message/s1/m0.json"

    def list_members(bundle: object, path: bytes, root: str) -> Iterator[tuple[bytes, Signature | None]]:
        yield bytes(missing), None

    with monkeypatch.context() as patch:
        patch.setattr("sesamed.ingest.whole.list_members", list_members)
        desk.look()
        assert desk.bad() == {"folders/session/p/s1.json": 1}
        ((bad,),) = desk.reasons().values()
        assert bad.reason == "a part of it is missing, or is no regular file"
        assert desk.texts("folders:s1") == ["alpha"]
    desk.restart()
    desk.look()
    assert desk.texts("folders:s1") == ["beta"]


def test_what_comes_to_a_bundle_before_it_is_read_and_is_taken_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks again as it did when it was due, and has to be read all the same."""
    tree(desk, session__p__s1={"session": "s1"}, message__s1__m1={"key": "m1", "text": "alpha"})

    def list_members(bundle: Bundle, path: bytes, root: str) -> Iterator[tuple[bytes, Signature]]:
        tree(desk, message__s1__m2={"key": "m2", "text": "beta"})
        yield from units.list_members(bundle, path, root)

    with monkeypatch.context() as patch:
        patch.setattr("sesamed.ingest.whole.list_members", list_members)
        desk.look()
    assert desk.texts("folders:s1") == ["alpha", "beta"]
    (desk.base / "folders/message/s1/m2.json").unlink()
    desk.look()
    assert desk.texts("folders:s1") == ["alpha"]


def test_a_bundle_with_a_directory_that_cannot_be_listed_keeps_what_it_has(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little memory, too many open files: that is no sign that its members are gone."""
    tree(
        desk,
        session__p__s1={"session": "s1"},
        message__s1__m1={"key": "m1", "text": "alpha"},
        part__m1__p1={"key": "p1", "text": "beta"},
    )
    desk.look()
    tree(desk, message__s1__m2={"key": "m2", "text": "gamma"})
    due = [due.target for due in desk.sweep.due(desk.ingest)]
    parts, list_names = desk.base / "folders/part/m1", os.listdir

    def list_directory(path: bytes) -> list[bytes]:
        if path == os.fsencode(parts):
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return list_names(path)

    with monkeypatch.context() as patch:
        patch.setattr("os.listdir", list_directory)
        assert [due.target for due in desk.sweep.due(desk.ingest)] == due
        assert desk.sweep.target(os.fsencode(parts / "p2.json")) is not None  # by what was found before
        desk.ingest.run(due)
        assert [state.trouble for state in desk.ingest.states.list_unreadable()] == ["Cannot allocate memory"]
        assert desk.texts("folders:s1") == ["alpha", "beta"]
    desk.look()
    assert desk.texts("folders:s1") == ["alpha", "beta", "gamma"]


def test_a_part_that_is_missing_for_a_moment_is_read_when_it_is_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though it looks then as it did when it was due."""
    tree(desk, session__p__s1={"session": "s1"}, message__s1__m1={"key": "m1", "text": "alpha"})
    desk.look()
    tree(desk, message__s1__m2={"key": "m2", "text": "beta"})
    messages, away = desk.base / "folders/message/s1", desk.base / "away"

    def open_later(path: bytes, root: str) -> AbstractContextManager[Tail]:
        if path.endswith(b"m2.json"):
            messages.rename(away)
        return open_tail(path, root)

    with monkeypatch.context() as patch:
        patch.setattr(whole, "open_tail", open_later)
        desk.look()
    assert desk.texts("folders:s1") == ["alpha"]
    away.rename(messages)
    desk.look()
    assert desk.texts("folders:s1") == ["alpha", "beta"]
    assert desk.bad() == {}


def test_a_bundle_that_goes_is_kept(desk: Desk) -> None:
    """Known by its first file."""
    tree(desk, session__p__s1={"session": "s1"}, message__s1__m1={"key": "m1", "text": "alpha"})
    desk.look()
    Path(desk.base / "folders/session/p/s1.json").unlink()
    desk.look()
    assert desk.dump()["sessions"]["folders:s1"]["gone"]
    same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))


def test_of_a_large_session_what_is_new_is_decoded(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the rows that were there at the last look, but for the last ones; whatever is changed is read all the same."""
    rows = [(1 + n, "s1", json.dumps({"key": f"k{n}", "text": f"alpha{n}"})) for n in range(2 * WORTH_ITEMS)]
    rows[5] = (6, "s1", json.dumps({"key": "k5", "text": "make", "tool": "bash"}))
    owner.run("INSERT INTO session VALUES('s1', 1, 's1')")
    for row in rows:
        owner.run("INSERT INTO part VALUES(?, ?, ?)", *row)
    step, decoded = Tables.step, list[Row]()

    def note(self: Tables, state: State, item: Row) -> tuple[State, list[Operation]]:
        decoded.append(item)
        return step(self, state, item)

    monkeypatch.setattr(Tables, "step", note)

    def count(change: str, *values: object) -> int:
        decoded.clear()
        owner.run(change, *values)
        owner.run("UPDATE session SET version = version + 1")
        desk.look()
        found = len(decoded)
        fresh = desk.make_empty_index()
        desk.look(fresh)
        same(desk.dump(), desk.dump(fresh))
        return found

    add = "INSERT INTO part VALUES(?, 's1', ?)"
    everything = len(rows) + 1
    assert count("SELECT 1") == everything
    for number in range(3):
        new = json.dumps({"key": f"new{number}", "text": f"beta{number}"})
        assert LAST_ITEMS < count(add, 9000 + number, new) <= LAST_ITEMS + 2
    call = {"key": "k5", "text": "make", "tool": "bash", "output": "done"}
    assert count(add, 9005, json.dumps(call)) <= LAST_ITEMS + 2  # said again: it is one already
    assert count("UPDATE part SET data = ? WHERE id = 100", json.dumps({"key": "k99", "text": "gamma"})) > everything
    assert count("DELETE FROM part WHERE id = 100") > everything
    assert count("DELETE FROM part WHERE id = 9005") <= LAST_ITEMS
    desk.restart()
    assert count("UPDATE session SET title = 'tart'") > everything - 10


def test_a_result_of_a_call_long_ago_is_its_own(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one that had none, of one that had one already, and one that is taken away again; and what is taken back is so from there on."""
    monkeypatch.setattr(whole, "LAST_ITEMS", 2)
    monkeypatch.setattr(whole, "WORTH_ITEMS", 4)
    call = {"text": "make", "tool": "bash"}
    said: list[dict[str, object]] = [{"key": "k1", **call}, {"key": "k2", **call, "output": "alpha"}]
    said += [{"key": f"m{n}", "text": f"beta{n}"} for n in range(9)]
    later: list[dict[str, object]] = [
        {"result": "k1", "output": "gamma"},
        {"result": "k2", "output": "delta"},
        {"result": "k1", "output": "boom", "failed": True},
        {"undone": "m3"},
        {"key": "m20", "text": "at the end"},
    ]
    owner.run("INSERT INTO session VALUES('s1', 1, 's1')")
    steps = [(n, record) for n, record in enumerate(said + later, 1)]
    for number, record in steps:
        owner.run("INSERT INTO part VALUES(?, 's1', ?)", number, json.dumps(record))
        owner.run("UPDATE session SET version = version + 1")
        if number >= len(said):
            desk.look()
            fresh = desk.make_empty_index()
            desk.look(fresh)
            same(desk.dump(), desk.dump(fresh))
    for number, _ in reversed(steps[len(said) :]):
        owner.run("DELETE FROM part WHERE id = ?", number)
        owner.run("UPDATE session SET version = version + 1")
        desk.look()
        fresh = desk.make_empty_index()
        desk.look(fresh)
        same(desk.dump(), desk.dump(fresh))


def test_what_takes_several_commits_is_decoded_once(desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it changes meanwhile."""
    monkeypatch.setattr(whole, "WHOLE_BYTES", 10_000)
    step, decoded = Tables.step, list[Row]()

    def note(self: Tables, state: State, item: Row) -> tuple[State, list[Operation]]:
        decoded.append(item)
        return step(self, state, item)

    monkeypatch.setattr(Tables, "step", note)
    owner.run("INSERT INTO session VALUES('s1', 1, 's1')")
    for number in range(60):
        data = json.dumps({"key": f"k{number}", "text": f"alpha{number} " * 100})
        owner.run("INSERT INTO part VALUES(?, 's1', ?)", number, data)
    targets = [due.target for due in desk.sweep.due(desk.ingest)]
    commits = desk.ingest.writer.commits
    targets = desk.ingest.run(targets).unfinished
    assert targets
    owner.say("s1", "k99", "beta")
    while targets:
        targets = desk.ingest.run(targets).unfinished
    assert desk.ingest.writer.commits - commits >= 4
    assert len(decoded) == 61 + 62
    desk.look()
    fresh = desk.make_empty_index()
    desk.look(fresh)
    same(desk.dump(), desk.dump(fresh))


def test_of_a_session_over_the_limit_the_first_rows_are_read(
    desk: Desk, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tree the first files; and it is said that there are more."""
    monkeypatch.setattr(whole, "MAX_BYTES", 300)
    for number in range(20):
        owner.say("s1", f"k{number}", f"alpha{number}")
    said = {"session/p/f1.json": {"session": "f1"}} | {
        f"message/f1/{n}.json": {"key": n, "text": "x" * 99_000} for n in range(20)
    }
    for name, value in said.items():
        desk.write(f"folders/{name}", value)
    desk.look()
    rest = "; the rest is left out"
    assert desk.reasons() == {
        "tables/x.db\0s1": [BadLine(None, f"larger than 300 bytes{rest}")],
        "folders/session/p/f1.json": [BadLine(None, f"larger than 1,048,576 bytes{rest}")],
    }
    assert 5 < len(desk.texts("tables:s1")) < 20
    assert len(desk.texts("folders:f1")) == 10

"""An index that is older, newer, damaged, deleted or somebody else's."""

import os
from pathlib import Path

import apsw
import pytest

from sesamed.store.index import older_indexes, remove_index
from sesamed.store.schema import VERSION
from sesamed.store.sqlite import rows
from tests.support.daemon import ANOTHER, CONFIGURATION, Daemon, check_private, eventually
from tests.support.older import made
from tests.support.sessions import PiSession


@pytest.mark.fault(68)
def test_a_newer_schema() -> None:
    """An index of a newer sesame is refused with 78 and left untouched."""
    with Daemon() as daemon:
        daemon.fill().stop()
        with daemon.opened(writable=True) as connection:
            connection.pragma("user_version", 99)
        before = daemon.database.read_bytes()
        code, said = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert "99" in said
        assert daemon.database.read_bytes() == before
        with daemon.opened(writable=True) as connection:
            connection.pragma("user_version", VERSION)
        assert len(daemon.start().found("quince")) == 3


def test_an_older_schema() -> None:
    """A new index is made from the files, and from what only the old one holds, which then goes; answers wait for none of it."""
    with Daemon() as daemon:
        daemon.fill().stop()
        remove_index(str(daemon.database))
        made(daemon.database)
        daemon.start()
        assert daemon.call("hello")["schema"] == VERSION
        daemon.sync()
        assert len(daemon.found("quince")) == 3
        eventually(lambda: older_indexes(str(daemon.database)) == [])
        assert daemon.found("marrow") == ["long"]
        assert "tool: shell\ncommand: ls\noutput:\na" in str(daemon.everything()).replace(
            "\\n", "\n"
        )  # it was JSON, and its file is gone
        assert daemon.call("get_session_meta", sessionId="late")["summary"] == "What became of the delta"
        assert daemon.call("list_sessions")["sessions"][0]["key"].startswith(
            daemon.call("status")["workstation"]["id"] + ":"
        )
        assert "secret" not in str(daemon.everything())
        daemon.check_index()
        assert len(daemon.restart().found("marrow")) == 1


def test_an_older_schema_that_cannot_be_carried_over() -> None:
    """The old index stays, and the status says so; a later start tries again."""
    with Daemon() as daemon:
        daemon.allowed.append("cannot carry over an older index")
        daemon.fill().stop()
        remove_index(str(daemon.database))
        connection = apsw.Connection(made(daemon.database))
        connection.execute("ALTER TABLE rivals RENAME TO lost")
        connection.close()
        daemon.start()
        (warning,) = eventually(lambda: daemon.call("status")["warnings"])
        assert warning["code"] == "older-index"
        (old,) = older_indexes(str(daemon.database))
        assert old in warning["message"]
        assert len(daemon.found("quince")) == 3
        daemon.stop()
        connection = apsw.Connection(old)
        connection.execute("ALTER TABLE lost RENAME TO rivals")
        connection.close()
        daemon.start()
        eventually(lambda: older_indexes(str(daemon.database)) == [])
        assert daemon.found("marrow") == ["long"]
        assert daemon.call("status")["warnings"] == []


def test_an_older_index_that_is_damaged() -> None:
    """It stays beside the new one, which is none the worse for it at any start."""
    with Daemon() as daemon:
        daemon.allowed.append("an older index")
        daemon.fill().stop()
        old = Path(f"{daemon.database}.old-4")
        old.write_bytes(b"nothing of a database" * 1000)
        for _ in range(2):
            daemon.start()
            assert len(daemon.found("quince")) == 3
            (warning,) = eventually(lambda: daemon.call("status")["warnings"])
            assert str(old) in warning["message"]
            daemon.stop()
        assert list(daemon.database.parent.glob("*.damaged-*")) == []


def test_a_schema_that_was_never_released() -> None:
    """Files are read anew; what is gone stays in the old index, and the status says where."""
    with Daemon() as daemon:
        daemon.fill().stop()
        remove_index(str(daemon.database))
        connection = apsw.Connection(made(daemon.database))
        connection.pragma("user_version", 3)
        connection.close()
        daemon.start()
        (warning,) = eventually(lambda: daemon.call("status")["warnings"])
        assert "index.sqlite.old-3 has schema 3, which was never released" in warning["message"]
        assert len(daemon.found("quince")) == 3
        assert daemon.found("marrow") == []
        assert daemon.call("list_sessions")["sessions"][0]["key"].startswith(
            daemon.call("status")["workstation"]["id"] + ":"
        )


def test_a_foreign_database() -> None:
    """A database of another program is refused, and left untouched."""
    with Daemon() as daemon:
        daemon.stop()
        daemon.database.unlink()
        connection = apsw.Connection(str(daemon.database))
        connection.execute("CREATE TABLE theirs(a); INSERT INTO theirs VALUES('important')")
        connection.close()
        before = daemon.database.read_bytes()
        code, said = daemon.refuses_to_start()
        assert code not in {0, ANOTHER}
        assert "another program" in said
        assert "Traceback" not in said
        assert daemon.database.read_bytes() == before


def _header(data: bytearray) -> None:
    data[:100] = b"nothing of a database " * 4 + b"at all, no."[:12]


def _first_page(data: bytearray) -> None:
    data[100:8000] = b"\x5a" * 7900


def _emptied_of_sense(data: bytearray) -> None:
    data[:] = b"\xff" * len(data)


def _cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


@pytest.mark.fault(61, 65)
@pytest.mark.parametrize("damage", [_header, _first_page, _emptied_of_sense, _cut])
def test_a_damaged_index(damage: object) -> None:
    """A damaged index is set aside and built anew, and the status says so until somebody deletes what was set aside."""
    assert callable(damage)
    with Daemon() as daemon:
        daemon.fill(30).stop()
        data = bytearray(daemon.database.read_bytes())
        damage(data)
        daemon.database.write_bytes(data)
        daemon.allowed.append("damaged")
        daemon.start().sync()
        assert len(daemon.found("quince", limit=100)) == 30
        (aside,) = daemon.data_dir.glob("*.damaged-*Z")
        assert aside.read_bytes() == bytes(data)
        for _ in range(2):
            status = daemon.call("status")
            assert (status["state"], status["warnings"][0]["code"]) == ("degraded", "damaged")
            assert str(aside) in status["warnings"][0]["message"]
            assert daemon.call("search", query="quince")["warnings"]
            daemon.check_index()
            daemon.restart().sync()
        aside.unlink()
        eventually(lambda: daemon.call("status")["state"] == "ready")
        assert daemon.call("search", query="quince")["warnings"] == []
        check_private(daemon.data_dir)


@pytest.mark.fault(64)
def test_an_empty_database_file() -> None:
    """An index file of no bytes is an index that is yet to be made."""
    with Daemon() as daemon:
        daemon.fill().stop()
        daemon.database.write_bytes(b"")
        daemon.start().sync()
        assert len(daemon.found("quince")) == 3


def test_a_rebuild_that_was_killed() -> None:
    """What a killed rebuild left behind is removed."""
    with Daemon() as daemon:
        daemon.fill().kill()
        Path(f"{daemon.database}.new").write_bytes(b"half of it")
        Path(f"{daemon.database}.new-wal").write_bytes(b"more")
        daemon.start()
        assert not list(daemon.data_dir.glob("*.new*"))
        assert len(daemon.found("quince")) == 3


@pytest.mark.fault(64)
def test_an_index_that_is_deleted_under_the_daemon() -> None:
    """The index can be deleted at any time: it is made anew from the files, without a restart, and status never fails."""
    with Daemon() as daemon:
        daemon.fill(5)
        daemon.allowed.append("removed or replaced")
        for path in daemon.data_dir.glob("index.sqlite*"):
            path.unlink()
        daemon.call("status")
        eventually(daemon.database.exists)
        eventually(lambda: len(daemon.found("quince")) == 5)
        daemon.check_index()


def test_gone_sessions_of_an_index_that_is_deleted_under_the_daemon() -> None:
    """Nobody has them any more: which files they were in is written down, and told, also after a restart, until that is deleted."""
    with Daemon() as daemon:
        daemon.allowed.append("removed or replaced")
        daemon.fill(3)
        os.unlink(daemon.path("1.jsonl"))
        daemon.sync()
        for path in daemon.data_dir.glob("index.sqlite*"):
            path.unlink()
        (note,) = eventually(lambda: list(daemon.data_dir.glob("index.sqlite.lost-*.txt")))
        assert note.read_bytes() == daemon.path("1.jsonl") + b"\n"
        daemon.restart().sync()
        (warning,) = daemon.call("status")["warnings"]
        assert (warning["code"], str(note) in warning["message"]) == ("damaged", True)
        check_private(daemon.data_dir)
        note.unlink()
        eventually(lambda: daemon.call("status")["warnings"] == [])


def test_gone_sessions_of_a_damaged_index() -> None:
    """They are carried over, and only what was on the page that cannot be read is lost; it is told, and logged nowhere in words."""
    with Daemon() as daemon:
        daemon.allowed.append("damaged")
        daemon.fill(3)
        daemon.write("gone.jsonl", PiSession(id="gone-1").user("a unique turnip").bytes())
        daemon.sync()
        os.unlink(daemon.path("gone.jsonl"))
        daemon.sync()
        daemon.stop()
        spoil_page(daemon, "totals")
        daemon.start()
        message = eventually(
            lambda: next(
                (w["message"] for w in daemon.call("status")["warnings"] if "carried over" in w["message"]), ""
            )
        )
        assert "1 were carried over" in message
        assert daemon.found("turnip") == ["gone-1"]
        assert len(daemon.found("quince")) == 3
        daemon.restart().sync()
        assert daemon.found("turnip") == ["gone-1"]
        daemon.check_index()


def test_a_damaged_index_and_what_is_forgotten() -> None:
    """An index that was set aside goes with what is forgotten, which may be in it."""
    with Daemon() as daemon:
        daemon.allowed.append("damaged")
        daemon.fill(3).stop()
        spoil_page(daemon, "chunks")
        daemon.start().sync()
        assert daemon.refuses("list_messages", sessionId="session-1").code == 6
        eventually(lambda: any("carried over" in w["message"] for w in daemon.call("status")["warnings"]))
        assert list(daemon.data_dir.glob("*.damaged-*"))
        daemon.call("forget", sessionId="session-1")
        assert list(daemon.data_dir.glob("*.damaged-*")) == []
        assert daemon.call("status")["warnings"] == []


def test_a_damaged_index_is_rebuilt_by_whoever_asks_for_it() -> None:
    """An index run that meets damage ends well, in another index."""
    with Daemon() as daemon:
        daemon.allowed.append("damaged")
        daemon.fill(3)
        os.unlink(daemon.path("1.jsonl"))
        daemon.sync()
        daemon.stop()
        spoil_page(daemon, "chunks")
        daemon.start().sync()
        assert daemon.call("index", full=True)["errors"] == 0
        assert list(daemon.data_dir.glob("*.damaged-*Z"))
        assert {"session-0", "session-2"} <= set(daemon.found("quince"))
        daemon.check_index()


def spoil_page(daemon: Daemon, table: str) -> None:
    """Flip a bit in the last page of a table."""
    with daemon.opened() as connection:
        ((page,),) = rows(connection, "SELECT max(pageno) FROM dbstat WHERE name = ?", (table,))
    with daemon.database.open("r+b") as file:
        file.seek(int(page) * 16384 - 100)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))

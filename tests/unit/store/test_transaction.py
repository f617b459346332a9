"""One transaction after the other."""

from pathlib import Path

import apsw
import pytest
from msgspec.structs import replace

from sesamed.model import Identity
from sesamed.store import sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import Cursor, FileRows, RecordRow, Signature, Text
from sesamed.store.sqlite import Packer, plain
from sesamed.store.writing.transaction import Writer
from tests.support.tiny import session, tiny

TORN = "\ud83d"  # half of a surrogate pair: no text that SQLite takes
PACKER = Packer()


def make_text(text: str) -> Text:
    """A chunk, of half a character if need be."""
    return replace(PACKER.make_text(Kind.USER, text.encode(errors="replace").decode()), text=text)


def make_change(name: str, *texts: str) -> FileRows:
    """A new file whose records have these texts."""
    return FileRows(
        path=f"/r/{name}".encode(), root="/r", source="pi", source_version=1, signature=Signature(1, 1, 1, 1, 1), cursor=Cursor(),
        complete=True, identity=Identity(native_id=name, origin=""), counted_from_start=True,
        rows=[
            RecordRow(key=hash((name, text)), role="user", kind=Kind.USER, prompt=True, texts=(make_text(text),))
            for text in texts
        ],
    )  # fmt: skip


def test_nothing_of_a_failed_transaction_is_in_the_next_one(tmp_path: Path) -> None:
    """What was gathered before the failure is gone, too, and so is what is known of its records."""
    writer = Writer(str(tmp_path / "index.sqlite"))
    try:
        with pytest.raises(UnicodeEncodeError):
            writer.write([make_change("one", "dig a burrow"), make_change("two", TORN)])
        written = writer.write([make_change("three", "count the wombats"), make_change("one", "dig a burrow")])
        assert (written.added, written.updated) == (2, 0)
        assert [known.path for known in written.known] == [b"/r/three", b"/r/one"]
        assert list_texts(writer.connection) == ["count the wombats", "dig a burrow"]
        assert writer.connection.execute("SELECT chunks, messages FROM totals").fetchone() == (2, 2)
    finally:
        writer.close()


def test_a_file_dates_its_session_last(tmp_path: Path) -> None:
    """Anything in it with a time is better: the file may be a copy, or checked out just now."""
    writer = Writer(str(tmp_path / "index.sqlite"))
    try:
        change = make_change("one", "a", "b")
        change.rows = [
            RecordRow(
                key=n, role="custom", kind=Kind.CUSTOM, texts=(PACKER.make_text(Kind.CUSTOM, "a"),), time_ms=time_ms
            )
            for n, time_ms in enumerate((None, 1_000_000, 2_000_000))
        ]
        writer.write([change])
        sql = "SELECT created_ms, modified_ms FROM sessions"
        assert writer.connection.execute(sql).fetchone() == (1_000_000, 2_000_000)
    finally:
        writer.close()


def list_texts(connection: apsw.Connection) -> list[str]:
    """All texts that the index holds."""
    return sorted(plain(text) for (text,) in connection.execute("SELECT text FROM chunks"))


def test_a_session_was_last_active_when_its_last_entry_was_written() -> None:
    """A result counts, a summary, and the end of an answer that took long."""
    with tiny(
        session(0).user("why?").tool("bash", {}, "x"),
        session(1).user("why?").assistant("Because.").compaction("All is said."),
        session(2)
        .user("why?")
        .entry("message", message={"role": "assistant", "content": "Because.", "timestamp": 1772355601500}),
    ) as small:
        rows = small.connection.execute("SELECT native_id, modified_ms - created_ms FROM sessions ORDER BY 1")
        assert rows.fetchall() == [("s0", 2000), ("s1", 2000), ("s2", 1000)]


def test_an_entry_of_which_nothing_is_kept_is_activity() -> None:
    """A thought that the person stopped, also when it is all that is new."""
    talk = session(0).user("why?").assistant("Because.")
    with tiny(talk) as small:
        talk.assistant(thinking="Hm.")
        small.history.write(small.history.roots[0] / talk.file_name, talk.bytes())
        small.history.look_at_everything()
        assert small.connection.execute("SELECT modified_ms - created_ms FROM sessions").fetchone() == (2000,)


def test_entries_in_another_order_change_nothing() -> None:
    """A prompt that was typed while a tool ran is written after its result, in the same step or later."""
    session_ = session(0).user("why?").tool("bash", {}, "x")
    early = {"role": "user", "content": "and why not?", "timestamp": 1772355601000}
    with tiny(session_) as small:
        for _ in range(2):
            session_.entry("message", message=early, timestamp="2026-03-01T09:00:01.000Z")
            small.history.write(small.history.roots[0] / session_.file_name, session_.bytes())
            small.history.look_at_everything()
            sql = "SELECT modified_ms - created_ms FROM sessions"
            assert small.connection.execute(sql).fetchone() == (2000,)


def test_words_are_written_last(tmp_path: Path) -> None:
    """FTS5 makes its segment in the commit, which goes on in another thread: not before, whatever else is written."""
    writer = Writer(str(tmp_path / "index.sqlite"))
    try:
        sql = "SELECT count(*) FROM fts_data"
        before = sqlite.one(writer.connection, sql)
        writer.begin([make_change("one", "dig a burrow"), make_change("two", "count the wombats")])
        assert sqlite.one(writer.connection, sql) == before
        writer.commit()
        assert sqlite.one(writer.connection, sql) > before
    finally:
        writer.close()


def test_many_rows_push_no_statement_out(tmp_path: Path) -> None:
    """What is written for each file is prepared once, not for each: that took a sixth of the time of a first index."""
    writer = Writer(str(tmp_path / "index.sqlite"))
    try:
        for name in ("one", "two"):
            writer.write([make_change(name, *(f"wombat {name} {number}" for number in range(120)))])
        before = writer.connection.cache_stats()["misses"]
        writer.write([make_change("three", *(f"wombat three {number}" for number in range(120)))])
        assert writer.connection.cache_stats()["misses"] == before
    finally:
        writer.close()

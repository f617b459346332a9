"""An index of any earlier schema becomes one of today's, and keeps what it held."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from sesamed.methods.search import Searcher
from sesamed.store import schema, sqlite
from sesamed.store.search import filters, query

GOLDEN = Path(__file__).parents[2] / "golden/schema"


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_an_older_index_gets_todays_schema(tmp_path: Path, version: int) -> None:
    """Tables and columns, indexes and views are those of a new one; only the order of columns may differ."""
    old, new = str(tmp_path / "old.sqlite"), str(tmp_path / "new.sqlite")
    connection = apsw.Connection(old)
    connection.execute((GOLDEN / f"v{version}.sql").read_text())
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("user_version", version)
    connection.close()
    assert described(sqlite.connect_writer(old)) == described(sqlite.connect_writer(new))


def test_copies_keep_the_time_of_their_record(tmp_path: Path) -> None:
    """1 -> 2: each place has a time of its own."""
    path = str(tmp_path / "old.sqlite")
    connection = apsw.Connection(path)
    connection.execute((GOLDEN / "v1.sql").read_text())
    connection.execute("INSERT INTO records(id, key, role, kind, prompt, time_ms) VALUES(2097152, 1, 'user', 0, 1, 77)")
    connection.execute("INSERT INTO copies(file, position, record) VALUES(2, 0, 2097152)")
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()
    assert sqlite.rows(sqlite.connect_writer(path), "SELECT file, time_ms FROM copies") == [(2, 77)]


def described(connection: apsw.Connection) -> dict[str, Any]:
    """The schema without its text."""
    named = sqlite.rows(connection, "SELECT type, name, tbl_name FROM sqlite_schema")
    columns = {name: columns_of(connection, name) for type_, name, _ in named if type_ in ("table", "view")}
    indexed = {name: columns_of(connection, name, "index_xinfo") for type_, name, _ in named if type_ == "index"}
    return {"names": sorted(named), "columns": columns, "indexes": indexed}


def columns_of(connection: apsw.Connection, name: str, pragma: str = "table_info") -> list[Any]:
    """A table's columns by name; an index's in their order."""
    rows = sqlite.rows(connection, f"SELECT * FROM pragma_{pragma}(?)", (name,))
    return [row[2] for row in rows] if pragma == "index_xinfo" else sorted(row[1:] for row in rows)


def test_old_texts_are_found_by_the_words_within_their_words(tmp_path: Path) -> None:
    """3 -> 4: the full-text index is built anew, and titles are found."""
    path = str(tmp_path / "old.sqlite")
    connection = apsw.Connection(path)
    sqlite.add_functions(connection)
    connection.execute((GOLDEN / "v3.sql").read_text())
    connection.execute("""
        INSERT INTO sessions(id, source, native_id, origin, public_id, name) VALUES(7, 'pi', 'a', '', 'a', 'The Frobnication');
        INSERT INTO files(id, path, root, source, source_version, session, dev, ino, size, mtime_ns, ctime_ns, offset, skipping, head, tail,
          digest, loose, loose_digest, position, state, complete)
        VALUES(1, 'a', '', 'pi', 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, '', 1);
        INSERT INTO facts VALUES(1, '', '', 'name', 2, 'The Frobnication');
        INSERT INTO records(id, key, role, kind, prompt) VALUES(2097152, 1, 'user', 0, 1);
        INSERT INTO chunks VALUES(16777216, 'please call streamSimple for me');
        INSERT INTO fts(rowid, text) VALUES(16777216, 'please call streamSimple for me');
        INSERT INTO totals VALUES(1, 1, 0);
    """)
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("user_version", 3)
    connection.close()
    connection = sqlite.connect_writer(path)
    for table in ("fts", "headings"):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('integrity-check', 1)")
    for text in ("simple", "frobnication", "streamsimple"):
        searcher = Searcher(connection, query.compiled(text), filters.compiled(filters.Where()), "w")
        assert [hit.session_id for hit in searcher.run(10, 0, recent=False).hits] == ["a"]
    assert sqlite.one(connection, "SELECT opening IS NOT NULL, title FROM sessions") == (1, "The Frobnication")

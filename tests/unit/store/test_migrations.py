"""An index of any earlier schema becomes one of today's, and keeps what it held."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from sesamed.store import schema, sqlite

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

"""An index of an older schema becomes today's, with all that it holds."""

from pathlib import Path
from typing import Any

import apsw
import pytest

from sesamed.store import schema, sqlite
from sesamed.store.write import Writer

OLD = sorted(Path(__file__).with_name("schemas").glob("*.sql"))


def old_index(path: Path, ddl: Path) -> None:
    """As that schema's sesame made it, with a session in it."""
    connection = apsw.Connection(str(path))
    unpack: Any = sqlite.plain
    connection.create_scalar_function("plain", unpack, 1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)
    connection.execute(ddl.read_text())
    connection.execute(
        "INSERT INTO sessions(id, source, native_id, origin, public_id, name) VALUES(1, 'pi', 'a', 'a', 'a', 'x')"
    )
    connection.execute("""
        INSERT INTO files(id, path, root, source, source_version, session, dev, ino, size, mtime_ns, ctime_ns, offset, skipping, head,
          tail, digest, loose, loose_digest, position, state, complete)
        VALUES(1, x'2f61', '/', 'pi', 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, x'', 1)
    """)
    connection.execute(
        "INSERT INTO facts(file, native_id, field, rank, value) VALUES(1, '', 'name', 1, 'x'), (1, 'b', 'name', 4, 'y')"
    )
    connection.pragma("application_id", schema.APPLICATION_ID)
    connection.pragma("user_version", int(ddl.stem))
    connection.close()


def shape(connection: apsw.Connection) -> dict[str, Any]:
    """Tables with their columns, and indexes, whatever the order of the columns."""
    names = sqlite.rows(connection, "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'index', 'view')")
    columns = 'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)'
    return {f"{kind} {name}": sorted(sqlite.rows(connection, columns, (name,)), key=str) for kind, name in names}


@pytest.mark.parametrize("ddl", OLD, ids=lambda ddl: ddl.stem)
def test_an_older_index_becomes_todays(ddl: Path, tmp_path: Path) -> None:
    """Every column is there as in an index that is made today, and what files said is kept."""
    old_index(tmp_path / "index.sqlite", ddl)
    migrated, fresh = Writer(str(tmp_path / "index.sqlite")), Writer(str(tmp_path / "fresh.sqlite"))
    try:
        assert shape(migrated.connection) == shape(fresh.connection)
        assert migrated.connection.pragma("user_version") == schema.VERSION
        facts = "SELECT native_id, source, field, rank, value FROM facts ORDER BY native_id"
        assert sqlite.rows(migrated.connection, facts) == [("", "", "name", 1, "x"), ("b", "", "name", 4, "y")]
        assert sqlite.rows(migrated.connection, "SELECT name, summary FROM sessions") == [("x", None)]
    finally:
        migrated.close()
        fresh.close()


def test_there_is_an_index_of_every_older_schema() -> None:
    """What is migrated is tried."""
    assert [int(ddl.stem) for ddl in OLD] == list(range(1, schema.VERSION))

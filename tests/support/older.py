"""An index of an older schema."""

import os
import shutil
from pathlib import Path

import apsw

from sesamed.store import sqlite

GOLDEN = Path(__file__).parents[1] / "golden/schema/v4.sql"


def made(path: Path) -> str:
    """The golden index, as a daemon left it that was killed: its WAL is not folded in."""
    connection = apsw.Connection(str(path))
    sqlite.add_functions(connection)
    connection.pragma("journal_mode", "WAL")
    connection.pragma("wal_autocheckpoint", 0)
    with connection:
        connection.execute(GOLDEN.read_text())
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{path}.killed{suffix}")
    connection.close()
    for suffix in ("", "-wal"):
        os.replace(f"{path}.killed{suffix}", f"{path}{suffix}")
    assert os.path.getsize(f"{path}-wal")
    return str(path)

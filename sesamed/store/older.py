"""Indexes of older schemas: set aside, and read by today's names of tables and columns, until everything that only they contain is in the
new index.

The steps, each of which may be the last one before a crash: the old index becomes one file (its WAL is folded in) and is renamed; a
new one is made; what is kept beside the rows is copied; files are read; the rest is played back (`writing.replay`); the old
index is removed, once the disk has all of that.
"""

import os
from glob import escape, glob
from urllib.parse import quote

import apsw

from sesamed.store import schema, sqlite
from sesamed.store.writing.transaction import Writer

CARRIED_METADATA = ("roots",)
NUMBERED = """
    SELECT source, native_id, origin, ordinal FROM sessions WHERE (source, native_id) IN (
      SELECT source, native_id FROM sessions GROUP BY source, native_id HAVING count(*) > 1)
"""


class OlderIndex:
    """An index that was set aside, open for reading under today's names."""

    def __init__(self, path: str) -> None:
        self.path = path
        with sqlite.errors(path):
            # Nobody writes to it, and it has no WAL: SQLite need not make files beside it to find that out.
            self.connection = apsw.Connection(
                f"file:{quote(path)}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            )
            try:
                sqlite.add_functions(self.connection)
                self.version = int(self.connection.pragma("user_version"))
                if self.is_readable:
                    self.connection.execute(schema.OLDER[self.version])
            except BaseException:
                self.connection.close()
                raise

    @property
    def is_readable(self) -> bool:
        """Whether sessions can be carried over from it."""
        return self.version in schema.OLDER

    @property
    def has_plain_texts(self) -> bool:
        """Whether its texts are what would be written today."""
        return self.version >= schema.PLAIN_TEXTS_SINCE

    def copy_metadata(self, new: Writer) -> None:
        """Copy metadata that the new index does not have yet, what is forgotten, and the numbers of sessions that share an id."""
        with sqlite.errors(new.path), new.connection:
            for name in CARRIED_METADATA:
                sql = "SELECT value FROM metadata WHERE name = ?"
                if (row := self.connection.execute(sql, (name,)).fetchone()) is not None:
                    new.connection.execute("INSERT OR IGNORE INTO metadata(name, value) VALUES(?, ?)", (name, row[0]))
            if self.is_readable:
                forgotten = sqlite.rows(self.connection, "SELECT source, native_id, origin FROM forgotten")
                sql = "INSERT OR IGNORE INTO forgotten(source, native_id, origin) VALUES(?, ?, ?)"
                new.connection.executemany(sql, forgotten)
                shared = sqlite.rows(self.connection, NUMBERED)
                sql = "INSERT OR IGNORE INTO numbers(source, native_id, origin, ordinal) VALUES(?, ?, ?, ?)"
                new.connection.executemany(sql, shared)
        new.load_numbers()

    def close(self) -> None:
        """Close it; the file stays."""
        self.connection.close()


def older_indexes(path: str) -> list[str]:
    """The indexes that were set aside and are still needed."""
    return sorted(glob(f"{escape(path)}.old-*[0-9]"))


def set_older_aside(path: str) -> None:
    """Rename an index of an older schema, as one file. Raises StoreError when another program has it open."""
    if not 0 < (version := sqlite.schema_of(path)) < schema.VERSION:
        return
    with sqlite.errors(path):
        sqlite.fold_wal(path)
        target = f"{path}.old-{version}"
        while os.path.exists(target):  # the one of an earlier upgrade could not be carried over yet
            target += "-1"
        os.replace(path, target)
        sqlite.sync_directory(os.path.dirname(path))

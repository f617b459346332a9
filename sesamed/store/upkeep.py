"""Merging and checkpointing: work that appends must not wait for. Done in small steps, when nothing else is to do.

A bulk load leaves many FTS segments; the first append after it would pay for merging them (0.2 to 0.8 s at 100,000 messages). So a
bulk load merges nothing, and `step` does it afterwards, some pages at a time.
"""

import os

from sesamed.store import sqlite
from sesamed.store.write import Writer

AUTOMERGE = 4
MERGE_PAGES = 64  # a step takes 10 to 20 ms
WAL_BYTES = 64 << 20  # more than this is folded in even while there is work


class Upkeep:
    """The state of an index's upkeep."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._bulk = False
        self._merging = False
        self._written = True  # perhaps an earlier run left something

    def bulk(self, *, on: bool) -> None:
        """Begin or end loading much at once."""
        if on == self._bulk:
            return
        self._bulk = on
        with sqlite.errors(self._writer.path):
            self._fts("automerge", 0 if on else AUTOMERGE)
        self._written = True
        self._merging = self._merging or on

    @property
    def is_merging(self) -> bool:
        """A bulk load has left segments to merge."""
        return self._merging

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._merging or self._written

    def wrote(self) -> None:
        """Something was committed."""
        self._written = True

    def must_checkpoint(self) -> bool:
        """Whether the WAL has grown so long that it can't wait."""
        return wal_bytes(self._writer.path) > WAL_BYTES

    def step(self) -> None:
        """Do a little."""
        with sqlite.errors(self._writer.path):
            if self._merging:
                self._merging = self._merge()
            elif self._written:
                self.checkpoint()
                self._written = False

    def checkpoint(self) -> None:
        """Fold the WAL into the database, as far as readers let it be done without waiting for them."""
        connection = self._writer.connection
        _, pages, done = sqlite.one(connection, "PRAGMA wal_checkpoint(PASSIVE)")
        if pages == done:
            connection.set_busy_timeout(0)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.set_busy_timeout(sqlite.BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA shrink_memory").fetchall()

    def _merge(self) -> bool:
        """Merge some pages into fewer segments; false when all is one."""
        connection = self._writer.connection
        before = connection.total_changes()
        self._fts("merge", -MERGE_PAGES)
        return connection.total_changes() - before >= 2  # FTS5: less than two means that there was nothing to do

    def _fts(self, name: str, value: int) -> None:
        self._writer.connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))


def wal_bytes(path: str) -> int:
    """How long the WAL is."""
    try:
        return os.path.getsize(path + "-wal")
    except FileNotFoundError:
        return 0

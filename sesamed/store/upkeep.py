"""Keeps an index in order: merging and checkpointing, in small steps while the daemon is idle, so that appends don't wait for them; and
checks whether it is consistent.

A bulk load leaves many FTS segments; the first append after it would pay for merging them (0.2 to 0.8 s at 100,000 messages). So a
bulk load merges nothing, and `step` does it afterwards, some pages at a time.
"""

import os
from typing import NamedTuple

from sesamed.store import sqlite
from sesamed.store.rows import WITHHELD
from sesamed.store.writing.transaction import Writer

AUTOMERGE, CRISISMERGE = 4, 16
NEVER = 1900  # FTS5 cannot have more than 2000 segments
BULK_SEGMENTS = 256  # so many commits of a bulk load are not merged; from then on it pays for some merging as it goes
MERGE_PAGES = 64  # a step takes 10 to 20 ms
BULK_MERGE_PAGES = 128  # more than a commit writes, so that segments get fewer
WAL_BYTES = 64 << 20  # more than this is folded in even while there is work
BULK_WAL_BYTES = 320 << 20  # the same while loading much; what is left of it at the end is what an append may wait for


class Upkeep:
    """The state of an index's upkeep."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._bulk = False
        self._begun_at = writer.commits
        self._merging = self._was_loading()
        self._written = True  # perhaps an earlier run left something

    def bulk(self, *, on: bool) -> None:
        """Begin or end a bulk load."""
        if on == self._bulk:
            return
        self._bulk = on
        with sqlite.errors(self._writer.path):
            self._fts("automerge", 0 if on else AUTOMERGE)
            self._fts("crisismerge", NEVER)  # until all is merged: the next commit would merge all of it at once
        self._begun_at = self._writer.commits
        self._written = True
        self._merging = self._merging or on

    @property
    def is_merging(self) -> bool:
        """Whether a bulk load has left segments to merge."""
        return self._merging

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._merging or self._written

    def wrote(self) -> None:
        """Note that something was committed."""
        self._written = True

    def must_step(self) -> bool:
        """Whether upkeep cannot wait until the daemon is idle."""
        too_long = wal_bytes(self._writer.path) > (BULK_WAL_BYTES if self._bulk else WAL_BYTES)
        return too_long or self._too_many_segments()

    def urgent_step(self) -> None:
        """Do what cannot wait."""
        with sqlite.errors(self._writer.path):
            if self._too_many_segments():
                self._fts("merge", BULK_MERGE_PAGES)
            if wal_bytes(self._writer.path) > (BULK_WAL_BYTES if self._bulk else WAL_BYTES):
                self.checkpoint()

    def step(self) -> None:
        """Do one small step: merge or checkpoint."""
        with sqlite.errors(self._writer.path):
            if self._merging:
                self._merging = self._merge()
                if not self._merging:
                    self._fts("crisismerge", CRISISMERGE)
            elif self._written:
                self.checkpoint()
                self._written = False

    def checkpoint(self) -> None:
        """Checkpoint the WAL, as far as that is possible without waiting for readers."""
        connection = self._writer.connection
        _, pages, done = sqlite.one(connection, "PRAGMA wal_checkpoint(PASSIVE)")
        if pages == done:
            connection.set_busy_timeout(0)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.set_busy_timeout(sqlite.BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA shrink_memory").fetchall()

    def _was_loading(self) -> bool:
        """Whether a process was killed during a load: FTS5 keeps its settings in the index."""
        with sqlite.errors(self._writer.path):
            settings = dict(sqlite.rows(self._writer.connection, "SELECT k, v FROM fts_config"))
            if settings.get("automerge") != AUTOMERGE:
                self._fts("automerge", AUTOMERGE)
        return bool(settings.get("crisismerge", CRISISMERGE) != CRISISMERGE)

    def _too_many_segments(self) -> bool:
        return self._bulk and self._writer.commits - self._begun_at > BULK_SEGMENTS

    def _merge(self) -> bool:
        """Merge some pages into fewer segments; false if there are few on each level.

        Not a negative number of pages, which means to merge all into one: with appends in between FTS5 begins that anew each time, on
        a level of its own, and an append then pays for all those levels (0.4 to 1 s measured).
        """
        connection = self._writer.connection
        before = connection.total_changes()
        self._fts("merge", MERGE_PAGES)
        return connection.total_changes() - before >= 2  # FTS5: less than two means that there was nothing to do

    def _fts(self, name: str, value: int) -> None:
        self._writer.connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))


def wal_bytes(path: str) -> int:
    """The size of the WAL."""
    try:
        return os.path.getsize(path + "-wal")
    except FileNotFoundError:
        return 0


# -- checks

FULL_TEXTS = "SELECT name FROM sqlite_schema WHERE sql LIKE '%USING fts5(%'"
FILES = f"""
    SELECT path, session IS NOT NULL, complete, size, mtime_ns, substr(state, 1, {len(WITHHELD)}) = x'{WITHHELD.hex()}'
    FROM files WHERE gone_ms IS NULL
"""


class FileRow(NamedTuple):
    """What the index says of a file."""

    has_session: bool
    is_complete: bool
    size: int
    mtime_ns: int
    is_withheld: bool = False  # by a `.sesameignore` in a project


def quick_check(path: str) -> list[str]:
    """Check pages and rows; gives the problems."""
    connection = sqlite.connect_reader(path)
    try:
        return _problems(connection, "PRAGMA quick_check(10)")
    finally:
        connection.close()


def deep_check(path: str, copy: str) -> list[str]:
    """Check every page, row and full-text entry, on a copy that is made here, because such a check would hold up the writer."""
    with sqlite.errors(path):
        sqlite.copy(path, copy)
        connection = sqlite.connect_writer(copy)
        try:
            problems = _problems(connection, "PRAGMA integrity_check(10)")
            for (name,) in sqlite.rows(connection, FULL_TEXTS):
                problems += _problems(connection, f"INSERT INTO {name}({name}, rank) VALUES('integrity-check', 1)")
        finally:
            connection.close()
    return problems


def list_files(path: str) -> dict[bytes, FileRow]:
    """The files that are not gone."""
    connection = sqlite.connect_reader(path)
    try:
        return {
            bytes(file): FileRow(bool(session), bool(complete), size, mtime_ns, bool(withheld))
            for file, session, complete, size, mtime_ns, withheld in sqlite.rows(connection, FILES)
        }
    finally:
        connection.close()


def _problems(connection: sqlite.Connection, sql: str) -> list[str]:
    """The problems that a check reports; a statement that fails on damage is a problem, too."""
    try:
        with sqlite.errors("index"):
            return [str(row[0]) for row in connection.execute(sql) if row[0] != "ok"]
    except sqlite.DamagedError as error:
        return [str(error.__cause__)]

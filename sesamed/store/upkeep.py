"""Merging, checkpoints and free pages: in small steps, mostly while the daemon is idle, so that no commit does more than write its rows.

Left alone, FTS5 merges in the commit that is one too many: all segments of a level when there are 16, and after a bulk load that is all
of the index (3,400 pages and 0.5 s at 100,000 messages, 7 s at a million). So it is told to leave merging to `merge`, which takes some
pages at a time. Each merge of a level makes a segment of the next one, and appends climb by a level each time they are four times as
many. What a load has left is lifted above the levels that they reach, or it would be merged with them again and again.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from sesamed.store import ids, schema, sqlite
from sesamed.store.rows import WITHHELD
from sesamed.store.writing.transaction import Writer

MERGE_PAGES = 64, 256  # of 16 kB that a step makes; it takes 15 to 60 ms
SEGMENTS = 24  # when there are more, merging does not wait until the daemon is idle
BULK_SEGMENTS = 256  # so many commits of a bulk load are not merged; from then on it pays for some merging as it goes
LEFT_SEGMENTS = 512  # the same as long as what a load has left is not merged: then a step takes 60 to 100 ms, and appends come first
HIGH = 12  # the level from which on segments are out of the way: 4 ** 12 appends do not get there
LIFT_PAGES = 1024  # less is not worth it

STRUCTURE = "SELECT block FROM fts_data WHERE id = 10"  # https://sqlite.org/src/file/ext/fts5/fts5_index.c
COME = "INSERT INTO fts(rowid, text, inner) VALUES(0, 'x', '')"  # 0 is no chunk's number
LEAVE = "INSERT INTO fts(fts, rowid, text, inner) VALUES('delete', 0, 'x', '')"

WAL_PAGES = 4096  # 64 MB; more than this is folded in even while there is work
BULK_WAL_PAGES = 8192  # 128 MB, the same while loading much
FEW_WAL_PAGES = 1024  # 16 MB; less is left until it has been quiet for a while
LONGEST_WAL_PAGES = 16384  # 256 MB; with more, commits wait
SHORT_PAGES = 256  # so much the writer folds in itself
READER_WAIT_MS = 300  # so long they wait for readers

FREE_PAGES, FREE_PERCENT = 1024, 5  # so many free pages are kept for what comes
VACUUM_PAGES = 64  # that a step gives back
INCREMENTAL = 2


class Segments(NamedTuple):
    """The segments of the full-text index, by levels: how many pages each of them has."""

    levels: list[list[int]]

    @property
    def total(self) -> int:
        """How many there are: each costs a search some look-ups for every word."""
        return sum(map(len, self.levels))

    @property
    def is_low(self) -> bool:
        """Whether too much of the index is where appends would be merged with it."""
        low, high = (sum(map(sum, levels)) for levels in (self.levels[:HIGH], self.levels[HIGH:]))
        return low >= LIFT_PAGES and low * 2 >= high


class Upkeep:
    """The state of an index's upkeep."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._checkpoints = writer.checkpoints
        self._bulk = self._has_left = False  # there is a load, or what it has left
        self._is_busy = False
        self._unmerged = self._written = True  # perhaps an earlier run left something
        self._checkpointing = False
        self._look_at = 0  # the commit after which there may be too many segments
        self._retry_at = 0  # how long the WAL may get because readers need it
        with sqlite.errors(writer.path):
            self._configure()

    def bulk(self, *, on: bool) -> None:
        """Begin or end a bulk load."""
        if on != self._bulk:
            self._bulk = on
            self._is_busy = self._has_left = True
            self._look_at = 0
            self.wrote()

    @property
    def is_busy(self) -> bool:
        """Whether the next step need not wait until all is quiet: it goes on with what the last one did, or with what a load left."""
        return self._is_busy

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return self._unmerged or self._written or self._checkpointing

    @property
    def can_wait(self) -> bool:
        """Whether nothing is left but a short WAL. To fold it in takes several fsyncs, and one of the next commit, which begins it anew."""
        return not (self._unmerged or self._checkpointing) and self._writer.wal_pages <= FEW_WAL_PAGES

    def wrote(self) -> None:
        """Note that something was committed."""
        self._unmerged = self._written = True

    def must_step(self) -> bool:
        """Whether upkeep cannot wait until the daemon is idle."""
        return self._writer.commits >= self._look_at or self._writer.wal_pages > self._most_wal_pages

    def urgent_step(self) -> None:
        """Do what cannot wait."""
        with sqlite.errors(self._writer.path), self._writer.at_work():
            if self._writer.commits >= self._look_at:
                self._reduce_segments()
            self._shorten_wal()

    def step(self) -> None:
        """Do one small step: merge, give pages back, or checkpoint."""
        with sqlite.errors(self._writer.path), self._writer.at_work():
            if self._unmerged:
                self._unmerged = self._is_busy = self._merge_or_vacuum()
                self._has_left &= self._is_busy
                if self._is_busy:
                    self._shorten_wal()
                if self._is_busy or self.can_wait:
                    return
            if self._written:
                self._checkpoints.start()
                self._written, self._checkpointing = False, True
            elif not self._checkpoints.is_running:
                self._checkpointing = (
                    not self._truncate_wal()
                )  # again, as long as a reader needs it: nobody else comes by

    def wait(self) -> None:
        """Wait for the end of a checkpoint that goes on meanwhile."""
        self._checkpoints.wait()

    def _merge_or_vacuum(self) -> bool:
        return self._merge() or self._give_pages_back()

    def _give_pages_back(self) -> bool:
        """Shorten the file by some of its free pages, if there are many; what has no map of its pages is left as it is."""
        connection = self._writer.connection
        free, pages = connection.pragma("freelist_count"), connection.pragma("page_count")
        if free < FREE_PAGES or free * 100 < pages * FREE_PERCENT or connection.pragma("auto_vacuum") != INCREMENTAL:
            return False
        connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
        return True

    def _shorten_wal(self) -> None:
        """Checkpoint a WAL that is too long while commits go on. When little is left of it, the writer does that itself: only when all is
        in the database, and no reader needs it, the next commit begins the WAL anew.
        """
        pages, most = self._writer.wal_pages, self._most_wal_pages
        if pages <= most:
            self._retry_at = 0
        elif pages > self._retry_at:
            if pages > LONGEST_WAL_PAGES:
                self._checkpoints.wait()
            if self._checkpoints.is_running:
                return
            if pages - self._checkpoints.done > SHORT_PAGES and pages <= LONGEST_WAL_PAGES:
                self._checkpoints.start()
            elif not self._truncate_wal(READER_WAIT_MS if pages > LONGEST_WAL_PAGES else 0):
                self._retry_at = pages * 2

    def _truncate_wal(self, wait_ms: int = 0) -> bool:
        """Checkpoint what is left and begin the WAL anew; false if readers need it for longer."""
        connection = self._writer.connection
        connection.set_busy_timeout(wait_ms)
        try:
            busy, _, _ = sqlite.one(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.set_busy_timeout(sqlite.BUSY_TIMEOUT_MS)
        if not busy:
            self._writer.wal_pages = self._checkpoints.done = 0
            self._writer.wal_status = None  # it is another one, for whoever has just looked at it
        connection.execute("PRAGMA shrink_memory").fetchall()
        return not busy

    @property
    def _most_wal_pages(self) -> int:
        return BULK_WAL_PAGES if self._bulk else WAL_PAGES

    @property
    def _most_segments(self) -> int:
        if self._bulk:
            return BULK_SEGMENTS
        return LEFT_SEGMENTS if self._has_left else SEGMENTS

    def _configure(self) -> None:
        """Give FTS5 today's settings, which it keeps in the index."""
        settings = dict(sqlite.rows(self._writer.connection, "SELECT k, v FROM fts_config"))
        for name, value in schema.FTS_SETTINGS:
            if settings.get(name) != value:
                self._set(name, value)

    def _reduce_segments(self) -> None:
        """Merge some if there are too many; else look again when there may be."""
        most, count = self._most_segments, self._segments().total
        if count > most:
            self._merge_pages(count)
        else:
            self._look_at = self._writer.commits + most - count + 1

    def _merge(self) -> bool:
        """Merge some pages into fewer segments; false if there are few on each level."""
        segments = self._segments()
        if segments.is_low:
            self._lift()
            return True
        return self._merge_pages(segments.total)

    def _merge_pages(self, segments: int) -> bool:
        """Merge some pages, more if there are many segments: a step writes three pages of each that it merges, whatever it makes."""
        connection, (least, most) = self._writer.connection, MERGE_PAGES
        before = connection.total_changes()
        self._set("merge", min(most, max(least, segments)))
        return connection.total_changes() - before >= 2  # FTS5: less than two means that there was nothing to do

    def _lift(self) -> None:
        """Put all segments on a level above all others, and begin to merge them there.

        That is what FTS5 does with a negative number of pages, if not all are on one level already: so a row comes and goes before it.
        """
        with self._writer.connection:
            self._writer.connection.execute(COME)
            self._writer.connection.execute(LEAVE)
        self._set("merge", -1)

    def _segments(self) -> Segments:
        (block,) = sqlite.one(self._writer.connection, STRUCTURE)
        return read_segments(block)

    def _set(self, name: str, value: int) -> None:
        self._writer.connection.execute("INSERT INTO fts(fts, rank) VALUES(?, ?)", (name, value))


def read_segments(structure: bytes) -> Segments:
    """What FTS5's structure record says: a cookie of four bytes, and then numbers."""
    numbers = _read_numbers(structure[4:])
    level_count, _, _ = next(numbers), next(numbers), next(numbers)
    levels = list[list[int]]()
    for _ in range(level_count):
        _, count = next(numbers), next(numbers)
        segments = [(next(numbers), next(numbers), next(numbers)) for _ in range(count)]
        levels.append([last - first + 1 for _, first, last in segments])
    return Segments(levels)


def _read_numbers(data: bytes) -> Iterator[int]:
    """SQLite's varints; those of nine bytes do not occur."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 127
        if byte < 128:
            yield value
            value = 0


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


# What must not be there, by a name for people. `places` are those of records and of their copies.
PLACES = f"(SELECT id FROM records UNION ALL SELECT {ids.sql_record('file', 'position')} FROM copies)"
LEFT_OVER = {
    "texts of no message": f"SELECT count(*) FROM chunks WHERE {ids.sql_record_of('id')} NOT IN (SELECT id FROM records)",
    "copies of no message": "SELECT count(*) FROM copies WHERE record NOT IN (SELECT id FROM records)",
    "messages of no file": f"SELECT count(*) FROM records WHERE {ids.sql_file('id')} NOT IN (SELECT id FROM files)",
    "copies in no file": "SELECT count(*) FROM copies WHERE file NOT IN (SELECT id FROM files)",
    "touched files of no call": f"SELECT count(*) FROM touched WHERE place NOT IN {PLACES}",
    "results of no holder": f"SELECT count(*) FROM results_by_holder WHERE place NOT IN {PLACES}",
    "results of no call": "SELECT count(*) FROM other_results WHERE record NOT IN (SELECT id FROM records)",
    "results that nobody holds": f"""
        SELECT count(*) FROM other_results o WHERE NOT EXISTS(SELECT 1 FROM results_by_holder h WHERE h.digest = o.digest AND (
          h.place = o.record OR h.place IN (SELECT {ids.sql_record("file", "position")} FROM copies WHERE record = o.record)))
    """,
    "facts of no file": "SELECT count(*) FROM facts WHERE file NOT IN (SELECT id FROM files)",
    "remarks of no file": "SELECT count(*) FROM remarks WHERE file NOT IN (SELECT id FROM files)",
    "directories of no file": "SELECT count(*) FROM directories WHERE file NOT IN (SELECT id FROM files)",
    "lines of no file": "SELECT count(*) FROM line_ids WHERE file NOT IN (SELECT id FROM files)",
    "lines that somebody speaks of": """
        SELECT count(*) FROM line_ids e WHERE NOT wanted AND EXISTS(SELECT 1 FROM remarks WHERE entry = e.digest)
    """,
    "jumps of no file": "SELECT count(*) FROM jumps WHERE file NOT IN (SELECT id FROM files) OR follows >= position",
    "lines that are no messages, of no file": "SELECT count(*) FROM passed_lines WHERE file NOT IN (SELECT id FROM files)",
    "numbers of no message": f"SELECT count(*) FROM ordinals WHERE {ids.sql_record('file', 'position')} NOT IN {PLACES}",
    "undone messages that are none": f"""
        SELECT count(*) FROM undone WHERE {ids.sql_record("file", "first")} NOT IN {PLACES}
        OR {ids.sql_record("file", "last")} NOT IN {PLACES}
    """,
    "bad lines of no file": "SELECT count(*) FROM bad_lines WHERE file NOT IN (SELECT id FROM files)",
    "sessions of no file": "SELECT count(*) FROM sessions WHERE id NOT IN (SELECT session FROM files WHERE session IS NOT NULL)",
    "wrong totals": f"""
        SELECT (chunks, messages, tool_calls) IS NOT (
          (SELECT count(*) FROM chunks WHERE {ids.sql_is_indexed("id")}), (SELECT count(*) FROM records r WHERE NOT {ids.sql_is_call("r")}),
          (SELECT count(*) FROM records r WHERE {ids.sql_is_call("r")})) FROM totals
    """,
}


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
            problems += find_left_over(connection)
        finally:
            connection.close()
    return problems


def find_left_over(connection: sqlite.Connection) -> list[str]:
    """Rows that the writer should have removed with what they belong to: its own invariant."""
    found = {name: sqlite.one(connection, sql)[0] for name, sql in LEFT_OVER.items()}
    return [f"{count} {name}" for name, count in found.items() if count]


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

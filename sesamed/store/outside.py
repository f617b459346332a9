"""The index as another process of ours reads it, to answer as the daemon's readers would: what it has to be told, and its reader.

It answers of exactly the snapshot that it is asked of, or not at all. What it keeps in memory is right for the same reason as with the
daemon's readers: it is told which chunks were changed, up to that snapshot, and of nothing that is not committed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import apsw
import msgspec

from sesamed.store import sqlite
from sesamed.store.array_file import BorrowedFile, Mark
from sesamed.store.changes import Changes
from sesamed.store.ids import READ_REVISION
from sesamed.store.index import Index
from sesamed.store.search.headings import HeadingTexts
from sesamed.store.search.stems import ForeignStems
from sesamed.store.shelf import Shelf, find_view

PAUSE_STEPS = 100_000  # of SQLite's machine, some milliseconds


class News(msgspec.Struct, frozen=True, array_like=True):
    """Of which snapshot is asked, and what has changed before it."""

    revision: int  # the next one, in the snapshot
    since: int
    changed: list[int]  # chunks, from that revision on
    anew: bool  # what was changed before is not known, or was never told
    mark: Mark | None  # of the file of posting arrays, if one fits
    arrays: bool  # they are used


class Teller:
    """What was told, as the daemon knows it."""

    def __init__(self, index: Index) -> None:
        self._readers, self._writer, self._changes = index.readers, index.writer, index.writer.changes
        self._told: int | None = None

    def tell(self) -> News:
        """The news as of the last commit."""
        revision, mark = self._writer.committed, self._readers.arrays.mark
        arrays = self._readers.have_arrays
        told, self._told = self._told, revision
        if told is not None and (changed := self._changes.list_between(told, revision)) is not None:
            return News(revision, told, sorted(changed), anew=False, mark=mark, arrays=arrays)
        since = revision if mark is None else min(mark.revision, revision)
        changed = self._changes.list_between(since, revision)
        if changed is None:  # then the file does not fit either
            since, changed = revision, set()
        return News(revision, since, sorted(changed), anew=True, mark=mark, arrays=arrays)


class OtherSnapshotError(Exception):
    """There is another one by now."""


class OutsideReader:
    """The reader."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection = sqlite.connect_reader(path)
        self._file = BorrowedFile(path)
        self._changes = Changes()
        self._connection.stems, self._connection.headings = ForeignStems(), HeadingTexts()
        self._connection.shelf = Shelf(self._changes, self._file)

    @contextmanager
    def see(self, news: News, is_over: Callable[[], bool]) -> Iterator[apsw.Connection]:
        """A connection with the snapshot that the news are of. Raises OtherSnapshotError if that is not the one that there is."""
        self._hear(news)
        self._connection.set_progress_handler(is_over, PAUSE_STEPS)
        with sqlite.snapshot(self._connection):
            if sqlite.one(self._connection, READ_REVISION)[0] != news.revision:
                raise OtherSnapshotError
            yield self._connection

    def prepare(self, news: News, is_over: Callable[[], bool]) -> None:
        """Read what the first question would wait for."""
        with suppress(OtherSnapshotError), self.see(news, is_over) as connection:
            find_view(connection, read=news.arrays)

    def stat_log(self) -> tuple[int, int] | None:
        """Time and size of the WAL, after an answer; the daemon knows what they should be."""
        try:
            status = os.stat(self._path + "-wal")
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _hear(self, news: News) -> None:
        if news.anew:
            self._changes.begin(news.since)
        if news.changed:
            self._changes.note(news.revision - 1, news.changed)
            self._changes.settle(committed=True)
        self._file.lend(news.mark)

    def close(self) -> None:
        """Close it."""
        self._connection.close()

"""What the readers of one index have in common: posting arrays, from the first question on that needs them. numpy is imported then.

Once somebody has asked, the arrays of common words also lie in a file (`array_file`), from which the next question after a pause or a start
goes on; without it all would be read from the index again.
"""

import importlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import apsw

from sesamed.store.array_file import ArrayFile, Stop
from sesamed.store.changes import ALL, Changes
from sesamed.store.sqlite import Reader

if TYPE_CHECKING:
    from sesamed.store.search.postings import Postings, View


FEW_CHUNKS = 20_000  # an index with no more never needs posting arrays, nor numpy
UNUSED_S = 600.0  # so long arrays are kept for the next question
LATE_PAYS = 1_000  # changed chunks: with more, the next question after a pause takes longer than a new file is worth
MAKING_SHARE = 0.01  # of the time that passes may go into files
RETRY_S = 3600.0  # after one that could not be written
SOON_S = 60.0  # after one for which all was to be read again so soon that it did not pay


class Shelf:
    """The posting arrays of an index, if there are any."""

    def __init__(self, changes: Changes, file: ArrayFile | None = None) -> None:
        self._changes, self._file = changes, file
        self._lock = threading.Lock()
        self._postings: Postings | None = None
        self._making = threading.Lock()
        self._make_at_s = 0.0  # not before

    def see(self, connection: apsw.Connection, *, read: bool) -> "View | None":
        """All chunks of the connection's snapshot, if they are known, or can be `read`."""
        if self._postings is None and (read or self._fits):
            self._open()
        if self._postings is None:
            return None
        view = self._postings.see(connection, read=read)
        if self._file is not None and view is not None:
            self._file.is_wanted = self._file.is_asked = True
        return view

    @property
    def is_used(self) -> bool:
        """Whether somebody has asked what is answered from arrays."""
        return self._postings is not None

    @property
    def _fits(self) -> bool:
        return self._file is not None and self._file.mark is not None

    def _open(self) -> "Postings":
        prepare()
        from sesamed.store.search.postings import Postings

        with self._lock:
            if self._postings is None:
                self._postings = Postings(self._changes, self._file)
            return self._postings

    def drop_unused(self, unused_s: float = UNUSED_S) -> None:
        """Give the memory back that nobody has used for a while."""
        if self._postings is not None:
            self._postings.drop(unused_s)

    # -- the file

    def is_due(self) -> bool:
        """Whether there should be a file, or another one."""
        file = self._file
        if file is None or not file.is_wanted or time.monotonic() < self._make_at_s:
            return False
        if file.mark is None or not file.is_whole:
            return True
        changed = self._changes.list_between(file.mark.revision, ALL)
        return changed is None or (file.is_asked and len(changed) > LATE_PAYS)

    def make_file(self, connection: apsw.Connection, is_over: Callable[[], bool]) -> None:
        """Make a file of the connection's snapshot, if the index is large enough. Raises OSError if it cannot be written."""
        with self._making:
            self._make_file(connection, is_over)

    def keep_words(self) -> None:
        """Have the words that were asked for so far in a file, if there is none, for another process that would read them again: that takes
        less than a second, and the whole file a minute. Raises OSError if it cannot be written."""
        file, postings = self._file, self._postings
        if file is None or file.mark is not None or postings is None or not self._making.acquire(blocking=False):
            return
        try:
            first = postings.first
            if first is not None and first.first_reach > FEW_CHUNKS:
                from sesamed.store.search.making import write_words

                write_words(file, first)
        finally:
            self._making.release()

    def _make_file(self, connection: apsw.Connection, is_over: Callable[[], bool]) -> None:
        assert self._file is not None
        begun_s, self._make_at_s = time.monotonic(), time.monotonic() + RETRY_S
        postings = self._open()
        view = postings.see(connection)
        if view is None:
            self._make_at_s = begun_s + SOON_S
            return
        if len(view.ids) <= FEW_CHUNKS:
            return
        from sesamed.store.search.making import make_file

        make_file(self._file, view, connection, is_over)
        self._file.is_asked = False
        self._changes.forget_before(view.counted.revision)
        postings.drop(0.0)
        self._make_at_s = time.monotonic() + (time.monotonic() - begun_s) / MAKING_SHARE

    def stop(self, revision: int) -> Stop | None:
        """What the index has to say of the file when it is closed; None if none fits it. There are no readers any more."""
        if self._file is None or (mark := self._file.mark) is None:
            return None
        changed = self._changes.list_between(mark.revision, revision)
        return None if changed is None else Stop(mark.nonce, mark.revision, revision, sorted(changed))


def prepare() -> None:
    """Import what arrays need, which takes 50 ms, once."""
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # nothing here is linear algebra, for which numpy begins a thread a core
    importlib.import_module("sesamed.store.search.large")


def find_view(connection: apsw.Connection, *, read: bool) -> "View | None":
    """All chunks of the connection's snapshot, if it has a shelf."""
    if isinstance(connection, Reader) and connection.shelf is not None:
        return connection.shelf.see(connection, read=read)
    return None

"""What the readers of one index have in common: posting arrays, from the first question on that needs them. numpy is imported then."""

import os
import threading
from typing import TYPE_CHECKING

import apsw

from sesamed.store.changes import Changes
from sesamed.store.sqlite import Reader

if TYPE_CHECKING:
    from sesamed.store.search.postings import Postings, View


UNUSED_S = 600.0  # so long arrays are kept for the next question


class Shelf:
    """The posting arrays of an index, if there are any."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._lock = threading.Lock()
        self._postings: Postings | None = None

    def see(self, connection: apsw.Connection, *, read: bool) -> "View | None":
        """All chunks of the connection's snapshot, if they are known, or can be `read`."""
        if self._postings is None and read:
            self._open()
        return None if self._postings is None else self._postings.see(connection, read=read)

    def _open(self) -> None:
        os.environ.setdefault(
            "OPENBLAS_NUM_THREADS", "1"
        )  # nothing here is linear algebra, for which numpy begins a thread a core
        from sesamed.store.search.postings import Postings

        with self._lock:
            if self._postings is None:
                self._postings = Postings(self._changes)

    def drop_unused(self, unused_s: float = UNUSED_S) -> None:
        """Give the memory back that nobody has used for a while."""
        if self._postings is not None:
            self._postings.drop(unused_s)


def find_view(connection: apsw.Connection, *, read: bool) -> "View | None":
    """All chunks of the connection's snapshot, if it has a shelf."""
    if isinstance(connection, Reader) and connection.shelf is not None:
        return connection.shelf.see(connection, read=read)
    return None

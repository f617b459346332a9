"""Which chunks a writer changes, noted for what is kept of them in memory (`search/postings`).

A reader knows its snapshot by the next revision in it: whatever was committed before that is in it, and nothing else.
"""

import threading
from collections import deque
from collections.abc import Iterable

MOST_NOTED = 20_000  # chunks; after more, whoever keeps something reads it again


class Changes:
    """The chunks that came, went or became others, since somebody wants to know."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notes = deque[tuple[int, frozenset[int]]]()
        self._count = 0
        self._is_wanted = self._is_open = False
        self._since = -(1 << 62)  # all notes from this revision on are here

    def note(self, revision: int, chunks: Iterable[int]) -> None:
        """The transaction of this revision changes these. It stands here before it is committed: nobody sees it late."""
        with self._lock:
            self._notes.append((revision, frozenset(chunks)))
            self._count += len(self._notes[-1][1])
            self._is_open = True
            if not self._is_wanted or self._count > MOST_NOTED:
                self._begin_anew(revision)

    def settle(self, *, committed: bool) -> None:
        """The transaction has ended. Of one that failed nobody knows what a reader sees."""
        with self._lock:
            if self._is_open and not committed:
                self._begin_anew(self._notes[-1][0])
            self._is_open = False

    def _begin_anew(self, revision: int) -> None:
        self._notes.clear()
        self._count, self._since, self._is_open = 0, revision + 1, False

    def want(self) -> None:
        """From now on they are noted."""
        with self._lock:
            self._is_wanted = True

    def resume(self, first: int, last: int, chunks: Iterable[int]) -> None:
        """Go on from what was noted before a stop: these changed from one revision on, before another one."""
        with self._lock:
            self._notes.append((last - 1, frozenset(chunks)))
            self._count += len(self._notes[-1][1])
            self._is_wanted, self._since = True, first

    def begin(self, first: int) -> None:
        """Know of nothing that was changed before this revision, and of all that comes."""
        with self._lock:
            self._begin_anew(first - 1)
            self._is_wanted = True

    def forget_before(self, revision: int) -> None:
        """Nobody will ask for what was changed before this revision."""
        with self._lock:
            while self._notes and self._notes[0][0] < revision:
                self._count -= len(self._notes.popleft()[1])
            self._since = max(self._since, revision)

    def list_between(self, first: int, last: int) -> set[int] | None:
        """What was changed from one revision on, before another one; None if that is not known."""
        with self._lock:
            if first < self._since:
                return None
            return set[int]().union(*(chunks for revision, chunks in self._notes if first <= revision < last))

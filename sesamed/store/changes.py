"""Which chunks a writer changes, noted for what is kept of them in memory (`search/postings`).

A reader knows its snapshot by the next revision in it: whatever was committed before that is in it, and nothing else.
"""

import threading
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

MOST_NOTED = 20_000  # chunks; after more, whoever keeps something reads it again
ALL = 1 << 62  # more than any chunk's number


class Note(NamedTuple):
    """The chunks that the transaction of a revision changes."""

    revision: int
    chunks: frozenset[int]
    least: int  # the first of them

    @staticmethod
    def of(revision: int, chunks: Iterable[int]) -> "Note":
        """What is noted of these."""
        kept = frozenset(chunks)
        return Note(revision, kept, min(kept, default=ALL))

    def list_up_to(self, number: int) -> Iterable[int]:
        """Those up to one of them; of a load most are behind what somebody keeps, which are not looked at one by one."""
        if self.least > number:
            return ()
        return self.chunks if number == ALL else (chunk for chunk in self.chunks if chunk <= number)


class Changes:
    """The chunks that came, went or became others. Of very many only those are kept up to some chunk:
    who keeps all of these reads again what comes behind them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut, self._notes = deque[Note](), deque[Note]()  # the older ones without those behind
        self._count = 0
        self._is_open = False
        self._since = self._cut_before = -ALL  # all notes from this revision on are here; and are whole
        self._last = 0  # revision that was noted
        self._seen = -ALL
        self._up_to = self._reach = ALL  # of what is noted from now on, and of what was cut

    def note(self, revision: int, chunks: Iterable[int]) -> None:
        """The transaction of this revision changes these. It stands here before it is committed: nobody sees it late."""
        with self._lock:
            self._append(Note.of(revision, chunks))
            self._is_open = True
            self._make_room()
            if self._count > MOST_NOTED:
                self._begin_anew(revision)

    def settle(self, *, committed: bool) -> None:
        """The transaction has ended. Of one that failed nobody knows what a reader sees."""
        with self._lock:
            if self._is_open and not committed:
                self._begin_anew(self._last)
            self._is_open = False

    def _append(self, note: Note) -> None:
        self._notes.append(note)
        self._count += len(note.chunks)
        self._last = note.revision

    def _make_room(self) -> None:
        """Forget the oldest notes that whoever keeps most has seen; of the others, what is behind that."""
        if self._count > MOST_NOTED:
            self._forget_before(self._seen)
        while self._count > MOST_NOTED and self._notes and self._up_to < ALL:
            whole = self._notes.popleft()
            note = Note.of(whole.revision, whole.list_up_to(self._up_to))
            if note.chunks:
                self._cut.append(note)
            self._count -= len(whole.chunks) - len(note.chunks)
            self._cut_before, self._reach = whole.revision + 1, min(self._reach, self._up_to)

    def _begin_anew(self, revision: int) -> None:
        self._cut.clear()
        self._notes.clear()
        self._count, self._is_open = 0, False
        self._since = self._cut_before = revision + 1
        self._reach = ALL

    def note_up_to(self, number: int, revision: int) -> None:
        """Somebody keeps all chunks up to this one as of a revision, and reads those behind it again if these are very many."""
        with self._lock:
            self._up_to, self._seen = number, revision

    def resume(self, first: int, last: int, chunks: Iterable[int]) -> None:
        """Go on from what was noted before a stop: these changed from one revision on, before another one."""
        with self._lock:
            self._append(Note.of(last - 1, chunks))
            self._since = first

    def begin(self, first: int) -> None:
        """Know of nothing that was changed before this revision, and of all that comes."""
        with self._lock:
            self._begin_anew(first - 1)

    def forget_before(self, revision: int) -> None:
        """Nobody will ask for what was changed before this revision."""
        with self._lock:
            self._forget_before(revision)

    def _forget_before(self, revision: int) -> None:
        for notes in (self._cut, self._notes):
            while notes and notes[0].revision < revision:
                self._count -= len(notes.popleft().chunks)
        self._since = max(self._since, revision)
        if revision >= self._cut_before:
            self._reach = ALL

    def list_between(self, first: int, last: int, up_to: int = ALL) -> set[int] | None:
        """What was changed from one revision on, before another one, of the chunks up to some number; None if that is not known."""
        notes = self._find(first, last, up_to)
        return None if notes is None else set[int]().union(*(note.list_up_to(up_to) for note in notes))

    def count_between(self, first: int, last: int) -> int | None:
        """How much that is at most, of all chunks; None if that is not known."""
        notes = self._find(first, last, ALL)
        return None if notes is None else sum(len(note.chunks) for note in notes)

    def _find(self, first: int, last: int, up_to: int) -> list[Note] | None:
        with self._lock:
            if first < self._since or (first < self._cut_before and self._reach < up_to):
                return None
            return [note for note in (*self._cut, *self._notes) if first <= note.revision < last]

"""What all sessions are called, and where they worked, as one text in memory: whether something is within any of that; and which sessions
have the words in it that were asked for last.

A word that nobody knows is looked for within the words of headings as well, of which there is no index. To read all of them takes 4 ms with
20,000 sessions, and mostly it is not there. A word of a directory that they all have in common takes 2.5 ms to be found in 20,000.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import apsw

from sesamed.store import sqlite
from sesamed.store.ids import READ_REVISION
from sesamed.store.schema import HEADING

MOST_CHARACTERS = 4 << 20
MOST_CHANGED = 200  # sessions that are added one by one; of more all are read again
CHANGED = f"SELECT concat_ws(char(10), {HEADING}) FROM sessions WHERE revision >= ? LIMIT ?"
MOST_SESSIONS = 100_000  # of all words that are kept: 8 MB
WORD_SESSIONS = 10  # take as much as a word does by itself
# What FTS5 writes with every change of the headings: how much there is, and where, with a count of what was written, which it keeps where
# it merges by itself, as it does here. https://sqlite.org/src/file/ext/fts5/fts5_index.c
STAMP = "SELECT group_concat(hex(block)) FROM headings_data WHERE id IN (1, 10)"
ALL = f"SELECT DISTINCT concat_ws(char(10), {HEADING}) FROM sessions"


Sets = tuple[frozenset[int], ...]


class HeadingSets:
    """Which sessions have a pattern in their headings, for as long as no heading changes."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._stamp: str | None = None
        self._kept = OrderedDict[str, Sets]()
        self._count, self._used_at_s = 0, 0.0

    def find(self, connection: apsw.Connection, find: Callable[[str], Sets]) -> Callable[[str], Sets]:
        """How a snapshot's are found, which `find` looks for."""
        stamp, self._used_at_s = sqlite.one(connection, STAMP)[0], time.monotonic()
        with self._changing:
            if stamp != self._stamp:
                self._stamp, self._count = stamp, 0
                self._kept.clear()

        def find_or_look(match: str) -> Sets:
            with self._changing:
                if self._stamp == stamp and (known := self._kept.get(match)) is not None:
                    self._kept.move_to_end(match)
                    return known
            found = find(match)
            with self._changing:
                if self._stamp == stamp and match not in self._kept:
                    self._put(match, found)
            return found

        return find_or_look

    def drop(self, unused_s: float) -> None:
        """Give the memory back that nobody has used for so long."""
        if time.monotonic() - self._used_at_s >= unused_s:
            with self._changing:
                self._stamp, self._count = None, 0
                self._kept.clear()

    def _put(self, match: str, found: Sets) -> None:
        self._kept[match] = found
        self._count += _count(found)
        while self._count > MOST_SESSIONS:
            self._count -= _count(self._kept.popitem(last=False)[1])


def _count(found: Iterable[frozenset[int]]) -> int:
    return WORD_SESSIONS + sum(map(len, found))


class HeadingTexts:
    """The headings of one index, and some that were there before, for all its readers."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._text: str | None = None  # folded
        self._added = set[str]()  # since it was read: a session that goes on is still called the same
        self._revision = 0
        self._most = MOST_CHARACTERS  # then it is read again
        self.sets = HeadingSets()

    def may_have(self, connection: apsw.Connection, text: str) -> bool:
        """Whether a heading may have this within; otherwise none has."""
        if self._most <= 0:
            return True
        revision = int(sqlite.one(connection, READ_REVISION)[0])
        with sqlite.awaited(connection, self._changing):
            known = self._see(connection, revision)
        return known is None or text.casefold() in known

    def _see(self, connection: apsw.Connection, revision: int) -> str | None:
        """All headings of a snapshot; None if they are too long, or if it is older than what was seen."""
        if self._text is not None and revision < self._revision:
            return None
        if not self._add_changed(connection):
            text = "\n".join(heading for (heading,) in connection.execute(ALL)).casefold()
            self._most = 2 * len(text) + MOST_CHANGED * 100 if len(text) <= MOST_CHARACTERS else 0
            self._text = text if self._most else None
            self._added.clear()
        self._revision = revision
        return self._text

    def _add_changed(self, connection: apsw.Connection) -> bool:
        """Add what has changed since; false if that is too much."""
        if self._text is None:
            return False
        changed = sqlite.rows(connection, CHANGED, (self._revision, MOST_CHANGED + 1))
        headings = {heading.casefold() for (heading,) in changed[:MOST_CHANGED]} - self._added
        if headings:
            self._text = "\n".join((self._text, *headings))  # there may be no memory for it
            self._added |= headings
        return len(changed) <= MOST_CHANGED and len(self._text) <= self._most

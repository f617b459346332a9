"""What all sessions are called, and where they worked, as one text in memory: whether something is within any of that.

A word that nobody knows is looked for within the words of headings as well, of which there is no index. To read all of them takes 4 ms with
20,000 sessions, and mostly it is not there.
"""

import threading

import apsw

from sesamed.store import sqlite
from sesamed.store.ids import READ_REVISION
from sesamed.store.schema import HEADING

MOST_CHARACTERS = 4 << 20
MOST_CHANGED = 200  # sessions that are added one by one; of more all are read again
CHANGED = f"SELECT concat_ws(char(10), {HEADING}) FROM sessions WHERE revision >= ? LIMIT ?"
ALL = f"SELECT DISTINCT concat_ws(char(10), {HEADING}) FROM sessions"


class HeadingTexts:
    """The headings of one index, and some that were there before, for all its readers."""

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._text: str | None = None  # folded
        self._added = set[str]()  # since it was read: a session that goes on is still called the same
        self._revision = 0
        self._most = MOST_CHARACTERS  # then it is read again

    def may_have(self, connection: apsw.Connection, text: str) -> bool:
        """Whether a heading may have this within; otherwise none has."""
        if self._most <= 0:
            return True
        revision = int(sqlite.one(connection, READ_REVISION)[0])
        with self._changing:
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
            self._added |= headings
            self._text = "\n".join((self._text, *headings))
        return len(changed) <= MOST_CHANGED and len(self._text) <= self._most

"""A client that follows an index: it applies what changed to what it has, page by page, and starts over only when it is told to."""

from typing import Any

import apsw
import msgspec

from sesamed.store import sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.summary import list_changes, list_sessions, read_revision
from sesamed.store.search import filters
from sesamed.store.search.filters import Conditions

ALL = filters.to_sql(filters.Where(empty=True))
Entries = dict[tuple[str, str], dict[str, Any]]


class Follower:
    """What it knows, by source and id; with the messages, if it reads them, too."""

    def __init__(self, *, limit: int = 3, where: Conditions = ALL) -> None:
        self.limit = limit
        self.where = where
        self.revision = 0
        self.epoch = ""
        self.entries: Entries = {}
        self.messages: dict[tuple[str, str], list[tuple[Any, ...]]] = {}

    def follow(self, connection: apsw.Connection) -> int:
        """Apply all that changed since it last asked; how many entries that were."""
        entries = 0
        last, epoch = read_revision(connection)
        if epoch != self.epoch:
            self.revision, self.epoch = 0, epoch
            self.entries.clear()
            self.messages.clear()
        while self.revision < last:
            changes = list_changes(connection, self.where, self.revision, self.limit, "here")
            assert len(changes.sessions) + len(changes.removed) <= self.limit
            assert changes.revision > self.revision
            for removed in changes.removed:
                self.entries.pop((removed.source, removed.session_id), None)
                self.messages.pop((removed.source, removed.session_id), None)
            for session in changes.sessions:
                key = (session.source, session.session_id)
                self._read_messages(connection, key, session.revision)
                self.entries[key] = msgspec.to_builtins(session)
            entries += len(changes.sessions) + len(changes.removed)
            self.revision = changes.revision
        assert self.entries == list_all(connection, self.where)
        return entries

    def _read_messages(self, connection: apsw.Connection, key: tuple[str, str], revision: int) -> None:
        """The session's messages: those that are not above the revision that it was last seen at are as they were."""
        had, before = self.messages.get(key, []), self.entries.get(key, {}).get("revision", 0)
        self.messages[key] = []
        for item in read_messages(connection, key):
            assert item.revision <= revision
            now = (*item._replace(record=0, revision=0), read.read_whole_text(connection, item.record))
            assert item.revision > before or had[item.position] == now, (key, before, item)
            self.messages[key].append(now)


def read_messages(connection: apsw.Connection, key: tuple[str, str]) -> list[read.Item]:
    """A session's messages, but for those that it inherits, which change with the session that they are of."""
    sql = "SELECT id FROM sessions WHERE (source, public_id) = (?, ?)"
    (number,) = sqlite.one(connection, sql, key)
    inherited = read.count_inherited(connection, number)
    items = read.read_items(connection, number, inherited, 10_000)
    return [item._replace(position=item.position - inherited) for item in items]


def list_all(connection: apsw.Connection, where: Conditions) -> Entries:
    """All sessions, without following anything."""
    _, everything = list_sessions(connection, where._replace(folds=False), 1 << 40, 0, "here")
    return {(s.source, s.session_id): msgspec.to_builtins(s) for s in everything.values()}

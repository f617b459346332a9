"""What goes to a hub: all that is known of a session, and its records with their keys and texts."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import apsw

from sesamed.model import Session
from sesamed.store import ids, sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.summary import TAGS, Details, read_details


class Times(NamedTuple):
    """When something happened in a session, by what its records say, and when its file was last written to; in milliseconds."""

    first_ms: int | None
    last_ms: int | None
    file_ms: int


class Leaving(NamedTuple):
    """A session, whole but for its records."""

    number: int
    session: Session
    details: Details
    tags: list[str]
    recall_words: list[str]
    times: Times
    opening: int | None
    tool_counts: Mapping[str, int]
    total: int  # its records, with those that it inherits
    inherits: bool  # some of which change without a revision of its own
    title: str | None  # its name, where that is more than the beginning of its first prompt


class LeavingRecord(NamedTuple):
    """A record at its place in a session."""

    item: read.Item
    key: int
    prompt: bool
    kind: int  # of its text
    text: str
    result: str | None  # of a call, if those leave


ROW = "SELECT first_ms, last_ms, file_ms, opening, base IS NOT NULL, title FROM sessions WHERE id = ?"
KEYS = "SELECT id, key, prompt FROM records WHERE id IN carray(:records)"
# The sessions that continue one of these without a copy.
CONTINUING = """
    SELECT c.id FROM sessions c WHERE c.base IS NOT NULL AND EXISTS(
      SELECT 1 FROM sessions s WHERE s.id IN carray(:sessions) AND s.source = c.source AND s.id <> c.id
        AND substr(c.base, 1, length(s.native_id) + 1) = s.native_id || ':')
"""


def read_leaving(connection: apsw.Connection, number: int, session: Session) -> Leaving:
    """All that is known of a session but its records."""
    first_ms, last_ms, file_ms, opening, inherits, title = sqlite.one(connection, ROW, (number,))
    details = read_details(connection, number)
    return Leaving(
        number=number,
        session=session,
        details=details,
        tags=TAGS.decode(details.tags or "[]"),
        recall_words=TAGS.decode(details.recall_words or "[]"),
        times=Times(first_ms, last_ms, file_ms),
        opening=opening,
        tool_counts=read.count_tools(connection, number),
        total=read.count_items(connection, number)[1],
        inherits=bool(inherits),
        title=title,
    )


def list_continuing(connection: apsw.Connection, sessions: Iterable[int]) -> list[int]:
    """The sessions that inherit records of these."""
    rows = connection.execute(CONTINUING, {"sessions": sqlite.numbers(sessions)})
    return [number for (number,) in rows]


def is_still(connection: apsw.Connection, leaving: Leaving) -> bool:
    """Whether its number still stands for this session: another index may have come in the place of the one it was read from."""
    sql = "SELECT 1 FROM sessions WHERE id = ? AND ':' || project || ':' || public_id = ?"
    return (
        connection.execute(sql, (leaving.number, leaving.session.key[leaving.session.key.index(":") :])).fetchone()
        is not None
    )


def read_records(
    connection: apsw.Connection, number: int, first: int, count: int, since: int, *, with_results: bool
) -> list[LeavingRecord]:
    """Those of some records of a session that changed after a revision."""
    items = [item for item in read.read_items(connection, number, first, count) if item.revision > since]
    rows = connection.execute(KEYS, {"records": sqlite.numbers(item.record for item in items)})
    keys = {record: (key, bool(prompt)) for record, key, prompt in rows}
    return [_read_record(connection, item, *keys[item.record], with_results) for item in items]


def _read_record(
    connection: apsw.Connection, item: read.Item, key: int, prompt: bool, with_results: bool
) -> LeavingRecord:
    parts = read.read_texts(connection, item.record)
    result = parts.pop(ids.Kind.RESULT, None)
    kind, text = next(iter(parts.items()), (int(ids.Kind.UNINDEXED), ""))
    return LeavingRecord(item, key, prompt, kind, text, result if with_results else None)

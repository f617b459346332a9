"""Sessions that go on from a part of another one without copying it: what belongs to such a thread, the oldest part first.

A fork says where it left its parent by the ordinal that the parent's lines have there.
"""

from typing import NamedTuple

import apsw

from sesamed.store import sqlite

MAX_DEPTH = 32  # of forks of forks

BASE = "SELECT source, base FROM sessions WHERE id = ? AND base IS NOT NULL"
NAMED = "SELECT id FROM sessions WHERE (source, native_id, ordinal) = (?, ?, 1)"
BEFORE = "SELECT count(*) FROM ordinals o JOIN files f ON f.id = o.file WHERE f.session = ? AND o.ordinal < ?"


class Part(NamedTuple):
    """The first records of a session, or all of them."""

    session: int
    length: int | None


def parts(connection: apsw.Connection, session: int) -> list[Part]:
    """What a session consists of; most sessions of themselves. What is not indexed is left out."""
    found, seen, end = [Part(session, None)], {session}, None
    while len(found) <= MAX_DEPTH and (base := _base(connection, found[0].session)) is not None:
        above, ordinal = base
        if above in seen:
            break
        seen.add(above)
        end = ordinal if end is None else min(end, ordinal)
        found.insert(0, Part(above, int(sqlite.one(connection, BEFORE, (above, end))[0])))
    return found


def inherited(connection: apsw.Connection, session: int) -> int:
    """How many records come before a session's own."""
    return sum(part.length or 0 for part in parts(connection, session))


def _base(connection: apsw.Connection, session: int) -> tuple[int, int] | None:
    """The session that this one goes on from, and up to where."""
    row = connection.execute(BASE, (session,)).fetchone()
    if row is None:
        return None
    native_id, _, ordinal = row[1].rpartition(":")
    above = connection.execute(NAMED, (row[0], native_id)).fetchone()
    return (above[0], int(ordinal)) if above is not None and ordinal.isdecimal() else None

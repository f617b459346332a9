"""What the index knows about the daemon's own sessions: which can be appended to, and where a record ended up."""

import os

import apsw

from sesamed.errors import RefusedError, StoreError
from sesamed.model import SessionKey, Utterance
from sesamed.store import sqlite
from sesamed.store.reading.resolve import find
from sesamed.store.reading.session import find_position


def find_writable(connection: apsw.Connection, reference: str) -> str:
    """The file of a session that can be appended to. A row number would not do, because the index may be swapped in between."""
    session = find(connection, reference)
    source, public, gone = sqlite.one(
        connection, "SELECT source, public_id, gone FROM sessions WHERE id = ?", (session,)
    )
    if source != "sesame":
        raise RefusedError(f"{public} is written by {source}; append_message only works for sessions from new_session")
    if gone:
        raise RefusedError(f"{public}'s file no longer exists; use new_session for another one")
    (path,) = sqlite.one(
        connection, "SELECT path FROM files WHERE session = ? ORDER BY gone_ms IS NOT NULL, path LIMIT 1", (session,)
    )
    return os.fsdecode(path)


def check_call(connection: apsw.Connection, key: int, utterance: Utterance) -> None:
    """Check that a call's id is new in the session, or that its call has no result yet."""
    row = connection.execute("SELECT is_error FROM records WHERE key = ?", (key,)).fetchone()
    if row is None:
        return
    if utterance.role != "tool":
        raise RefusedError("toolCallId: the session already has a call with this id; use another one")
    if row[0] is not None:
        raise RefusedError("toolCallId: this call already has a result")


def find_written(connection: apsw.Connection, key: int, path: str) -> int:
    """The number of the record with this key in the session that it was written to."""
    sql = "SELECT f.session, r.id FROM files f JOIN records r ON r.key = ?2 WHERE f.path = ?1 AND f.session IS NOT NULL"
    row = connection.execute(sql, (os.fsencode(path), key)).fetchone()
    if row is None:
        raise StoreError(f"{path} was written, but the line could not be indexed; limits.maxLineBytes may be too small")
    return find_position(connection, *row)


def identify(connection: apsw.Connection, reference: str) -> tuple[SessionKey, str]:
    """A session's key, and a reference to this session only."""
    session = find(connection, reference)
    source, native_id, public = sqlite.one(
        connection, "SELECT source, native_id, public_id FROM sessions WHERE id = ?", (session,)
    )
    return SessionKey(source, native_id), f"{source}:{public}"

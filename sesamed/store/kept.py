"""What may be written to, and where it came to stand, as the index knows it. Reads only."""

import apsw

from sesamed.errors import RefusedError, StoreError
from sesamed.model import SessionKey, Utterance
from sesamed.store import read, sqlite, summaries


def writable(connection: apsw.Connection, reference: str) -> tuple[int, str]:
    """A session that can be added to, and its file."""
    session = summaries.find(connection, reference)
    source, public, gone = sqlite.one(
        connection, "SELECT source, public_id, gone FROM sessions WHERE id = ?", (session,)
    )
    if source != "sesame":
        raise RefusedError(f"{public} is written by {source}; append_message adds to sessions of new_session only")
    if gone:
        raise RefusedError(f"{public} has lost its file; begin another one with new_session")
    (path,) = sqlite.one(
        connection, "SELECT path FROM files WHERE session = ? ORDER BY gone_ms IS NOT NULL, path LIMIT 1", (session,)
    )
    return session, path.decode("utf-8", "surrogateescape")


def check_call(connection: apsw.Connection, key: int, said: Utterance) -> None:
    """A call's id names one call of the session, which has one result."""
    row = connection.execute("SELECT is_error FROM records WHERE key = ?", (key,)).fetchone()
    if row is None:
        return
    if said.role != "tool":
        raise RefusedError("toolCallId: the session has a call with this id already; use another one")
    if row[0] is not None:
        raise RefusedError("toolCallId: that call has its result already")


def place(connection: apsw.Connection, session: int, key: int, path: str) -> int:
    """Where the record with this key stands in the session that it was written to."""
    row = connection.execute("SELECT id FROM records WHERE key = ?", (key,)).fetchone()
    if row is None:
        raise StoreError(f"{path} was written, but the line could not be indexed; limits.maxLineBytes may be too small")
    return read.position(connection, session, row[0])


def named(connection: apsw.Connection, reference: str) -> tuple[SessionKey, str]:
    """What a session is, and a name that is its own alone."""
    session = summaries.find(connection, reference)
    source, native_id, public = sqlite.one(
        connection, "SELECT source, native_id, public_id FROM sessions WHERE id = ?", (session,)
    )
    return SessionKey(source, native_id), f"{source}:{public}"

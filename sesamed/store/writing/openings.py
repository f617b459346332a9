"""How sessions begin. Agents on patrol, forks and copies begin alike; such sessions are shown as one hit.

A digest of the first prompts is kept with a session. One prompt is enough unless it is short: many sessions begin with `hello`, and
differ all the same.
"""

from typing import Any

import apsw

from sesamed.digest import digest
from sesamed.store import ids

FIRST = 64  # prompts are looked for in so many records of a file
ENOUGH_CHARACTERS = 40
LEAST_WORDS = 3  # who says less in all has not begun like anybody
MOST_PROMPTS = 3
MOST_CHARACTERS = 4096  # of a prompt

PROMPTS = f"""
    SELECT record FROM (
      SELECT id AS record, {ids.sql_position("id")} AS position FROM records WHERE prompt AND {ids.sql_in_file("id", "?1", last="?2 - 1")}
      UNION ALL
      SELECT c.record, c.position FROM copies c JOIN records r ON r.id = c.record WHERE c.file = ?1 AND c.position < ?2 AND r.prompt
    ) ORDER BY position LIMIT ?3
"""


def update_opening(connection: apsw.Connection, session: Any) -> None:
    """Bring a session's digest up to date; what is looked at does not grow with the session."""
    opening = _opening(connection, session)
    opened = None
    if sum(len(text.split()) for text in opening) >= LEAST_WORDS:
        opened = digest("\n".join(opening).encode())
    change = "UPDATE sessions SET opening = ?2 WHERE id = ?1 AND opening IS NOT ?2"
    connection.execute(change, (session, opened))


def _opening(connection: apsw.Connection, session: Any) -> list[str]:
    found: list[str] = []
    files = "SELECT id FROM files WHERE session = ? ORDER BY path LIMIT 8"
    for (file,) in connection.execute(files, (session,)).fetchall():
        for (record,) in connection.execute(PROMPTS, (file, FIRST, MOST_PROMPTS)).fetchall():
            found.append(_text(connection, record))
            if len(found) == MOST_PROMPTS or sum(map(len, found)) >= ENOUGH_CHARACTERS:
                return found
    return found


def _text(connection: apsw.Connection, record: Any) -> str:
    sql = "SELECT plain(text) FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1"
    row = connection.execute(sql, ids.chunks_of(record)).fetchone()
    return "" if row is None else " ".join(str(row[0])[:MOST_CHARACTERS].split())

"""What sessions are called and where they worked, as text to be found (the `headings` index of store/schema.py)."""

from collections import Counter

import apsw

from sesamed.store.schema import HEADING

# How many messages a column counts for. A title or a short summary says what a session is about; a directory is only where it was.
TITLE_COUNT, PLACE_COUNT = 3, 1
PLACE = ("cwd", "git_branch")
TITLE = tuple(column for column in HEADING.split(", ") if column not in PLACE)

FOUND = "SELECT rowid FROM headings WHERE headings MATCH ?"


def counts(connection: apsw.Connection, match: str) -> Counter[int]:
    """The sessions with this in their heading, and how much that counts."""
    found: Counter[int] = Counter()
    for columns, times in ((TITLE, TITLE_COUNT), (PLACE, PLACE_COUNT)):
        for (session,) in connection.execute(FOUND, (f"{{{' '.join(columns)}}} : {match}",)):
            found[session] += times
    return found


def texts(connection: apsw.Connection, session: int) -> list[str]:
    """A session's heading."""
    row = connection.execute(f"SELECT {HEADING} FROM sessions WHERE id = ?", (session,)).fetchone()
    return [] if row is None else [text for text in row if text]

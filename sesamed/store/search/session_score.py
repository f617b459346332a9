"""The session-level half of ranking: BM25 over sessions, of what was said in them and what they are called and where they worked.

A session's count of a word is the number of its messages that hold it (which ranks as well as counting the word itself does), and more
for its title. It is made when asked for: nothing is written anew when a session grows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.schema import HEADING
from sesamed.store.search.terms import Pattern, Terms

K1, B = 0.8, 0.5
MANY_NAMED = 200  # a word in more headings than this (`home` of all directories) is no reason to show a session
MESSAGES_BY_FILE = f"SELECT {ids.sql_file_of('rowid')}, count(*) FROM fts WHERE fts MATCH ? AND {ids.sql_is_message('rowid')} GROUP BY 1"
ABOUT = """
    SELECT f.id, s.id, s.messages FROM files f CROSS JOIN sessions s ON s.id = f.session WHERE f.id IN carray(?1)
    UNION ALL SELECT NULL, id, messages FROM sessions WHERE id IN carray(?2)
"""


# How many messages a column counts for. A title or a short summary says what a session is about; a directory is only where it was.
TITLE_COUNT, PLACE_COUNT = 3, 1
PLACE = ("cwd", "git_branch")
TITLE = tuple(column for column in HEADING.split(", ") if column not in PLACE)
HEADED = "SELECT rowid FROM headings WHERE headings MATCH ?"


class Counts(NamedTuple):
    """How often each pattern stands in each session, how many messages those have, and the sessions whose headings hold any."""

    patterns: tuple[Mapping[int, int], ...]
    messages: Mapping[int, int]
    named: frozenset[int]


def count(connection: apsw.Connection, terms: Terms) -> Counts:
    """Count all patterns of a question."""
    patterns = {pattern.match: pattern for term in terms.terms for pattern in term.patterns}
    called = {match: count_headings(connection, match) for match in patterns}
    in_messages = {
        match: terms.message_counts.get(match) or _count_messages(connection, one)
        for match, one in patterns.items()
        if one.chunks
    }
    named = frozenset(session for found in called.values() if len(found) <= MANY_NAMED for session in found)
    headed = {session for found in called.values() for session in found}
    files = {file for found in in_messages.values() for file in found}
    rows = list(connection.execute(ABOUT, (sqlite.numbers(files), sqlite.numbers(headed))))
    session_of = {file: session for file, session, _ in rows}
    for match, found in called.items():
        for file, times in in_messages.get(match, {}).items():
            found[session_of[file]] += times
    return Counts(tuple(called.values()), {session: messages for _, session, messages in rows}, named)


def count_headings(connection: apsw.Connection, match: str) -> Counter[int]:
    """The sessions with this in their heading, and how much that counts."""
    found: Counter[int] = Counter()
    for columns, times in ((TITLE, TITLE_COUNT), (PLACE, PLACE_COUNT)):
        for (session,) in connection.execute(HEADED, (f"{{{' '.join(columns)}}} : {match}",)):
            found[session] += times
    return found


def read_heading(connection: apsw.Connection, session: int) -> list[str]:
    """What a session is called, and where it worked."""
    row = connection.execute(f"SELECT {HEADING} FROM sessions WHERE id = ?", (session,)).fetchone()
    return [] if row is None else [text for text in row if text]


def _count_messages(connection: apsw.Connection, pattern: Pattern) -> Mapping[int, int]:
    return dict(connection.execute(MESSAGES_BY_FILE, (pattern.match,)))


def score(connection: apsw.Connection, counted: Counts) -> dict[int, float]:
    """BM25 of each session. Words in most sessions weigh little, but never nothing: an answer can be made of them alone."""
    sessions, messages = next(connection.execute("SELECT (SELECT count(*) FROM sessions), messages FROM totals"))
    average = messages / max(1, sessions) + 1
    result: dict[int, float] = defaultdict(float)
    lengths = {session: 1 - B + B * (own + 1) / average for session, own in counted.messages.items()}
    for count in counted.patterns:
        weight = math.log(1 + (sessions - len(count) + 0.5) / (len(count) + 0.5))
        for session, times in count.items():
            result[session] += weight * times * (K1 + 1) / (times + K1 * lengths[session])
    return result

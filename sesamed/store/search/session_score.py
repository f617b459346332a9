"""The session-level half of ranking: BM25 over sessions, of what was said in them and what they are called.

A session's count of a word is the number of its messages that hold it (which ranks as well as counting the word itself does), and more
for its title. It is made when asked for: nothing is written anew when a session grows.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.search import headings
from sesamed.store.search.terms import Form, Terms

K1, B = 0.8, 0.5
MANY_NAMED = 200  # a word in more headings than this (`home` of all directories) is no reason to show a session
SAID = f"SELECT {ids.sql_file_of('rowid')}, count(*) FROM fts WHERE fts MATCH ? AND {ids.sql_is_message('rowid')} GROUP BY 1"
ABOUT = """
    SELECT f.id, s.id, s.messages FROM files f CROSS JOIN sessions s ON s.id = f.session WHERE f.id IN carray(?1)
    UNION ALL SELECT NULL, id, messages FROM sessions WHERE id IN carray(?2)
"""


class Counts(NamedTuple):
    """How often each form stands in each session, how many messages those have, and the sessions whose headings hold any."""

    forms: tuple[Mapping[int, int], ...]
    messages: Mapping[int, int]
    named: frozenset[int]


def counts(connection: apsw.Connection, terms: Terms) -> Counts:
    """Count all forms of a question."""
    said = {form: terms.said.get(form.match) or _said(connection, form) for form in terms.forms}
    called = {form: headings.counts(connection, form.match) for term in terms.terms for form in term.forms}
    named = frozenset(session for count in called.values() if len(count) <= MANY_NAMED for session in count)
    headed = {session for count in called.values() for session in count}
    files = {file for found in said.values() for file in found}
    rows = sqlite.rows(connection, ABOUT, (sqlite.numbers(files), sqlite.numbers(headed)))
    session_of = {file: session for file, session, _ in rows}
    found = []
    for form, count in called.items():
        for file, times in said.get(form, {}).items():
            count[session_of[file]] += times
        found.append(count)
    return Counts(tuple(found), {session: messages for _, session, messages in rows}, named)


def _said(connection: apsw.Connection, form: Form) -> Mapping[int, int]:
    return dict(sqlite.rows(connection, SAID, (form.match,)))


def scores(connection: apsw.Connection, counted: Counts) -> dict[int, float]:
    """BM25 of each session. Words in most sessions weigh little, but never nothing: an answer can be made of them alone."""
    sessions, messages = sqlite.one(connection, "SELECT (SELECT count(*) FROM sessions), messages FROM totals")
    average = messages / max(1, sessions) + 1
    result: dict[int, float] = defaultdict(float)
    lengths = {session: 1 - B + B * (own + 1) / average for session, own in counted.messages.items()}
    for count in counted.forms:
        weight = math.log(1 + (sessions - len(count) + 0.5) / (len(count) + 0.5))
        for session, times in count.items():
            result[session] += weight * times * (K1 + 1) / (times + K1 * lengths[session])
    return result

"""The session-level half of ranking: BM25 over sessions, of what was said in them and what they are called.

A session's count of a word is the number of its messages that hold it (which ranks as well as counting the word itself does), and more
for its title. It is made when asked for: nothing is written anew when a session grows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import apsw

from sesamed.store import sqlite
from sesamed.store.terms import Form, Terms

K1, B = 0.8, 0.5
TITLE_COUNT, PLACE_COUNT = 3, 1  # a title or short summary counts as so many messages; so does the directory or branch
TITLE, PLACE = "{name}", "{cwd git_branch}"
SAID = "SELECT rowid >> 24, count(*) FROM fts WHERE fts MATCH ? AND rowid & 7 < 4 GROUP BY 1"
CALLED = "SELECT rowid FROM headings WHERE headings MATCH ?"


class Counts(NamedTuple):
    """How often each form stands in each session, and which sessions' headings hold any."""

    forms: tuple[tuple[Form, Mapping[int, int]], ...]
    headings: frozenset[int]


def counts(connection: apsw.Connection, terms: Terms) -> Counts:
    """Count all forms of a question."""
    said = {form: dict(sqlite.rows(connection, SAID, (form.match,))) for form in terms.forms}
    files = {file for found in said.values() for file in found}
    sql = "SELECT id, session FROM files WHERE id IN carray(?)"
    session_of = dict(sqlite.rows(connection, sql, (sqlite.numbers(files),)))
    headings: set[int] = set()
    found = []
    for form in dict.fromkeys(form for term in terms.terms for form in term.forms):
        count: Counter[int] = Counter()
        for file, messages in said.get(form, {}).items():
            count[session_of[file]] += messages
        for column, times in ((TITLE, TITLE_COUNT), (PLACE, PLACE_COUNT)):
            for (session,) in connection.execute(CALLED, (f"{column} : {form.match}",)):
                count[session] += times
                headings.add(session)
        found.append((form, count))
    return Counts(tuple(found), frozenset(headings))


def scores(connection: apsw.Connection, counted: Counts) -> dict[int, float]:
    """BM25 of each session. Words in most sessions weigh little, but never nothing: an answer can be made of them alone."""
    sessions, messages = sqlite.one(connection, "SELECT (SELECT count(*) FROM sessions), messages FROM totals")
    lengths = _lengths(connection, {session for _, count in counted.forms for session in count})
    average = messages / max(1, sessions) + 1
    result: dict[int, float] = defaultdict(float)
    for _, count in counted.forms:
        weight = math.log(1 + (sessions - len(count) + 0.5) / (len(count) + 0.5))
        for session, times in count.items():
            length = 1 - B + B * (lengths[session] + 1) / average
            result[session] += weight * times * (K1 + 1) / (times + K1 * length)
    return result


def _lengths(connection: apsw.Connection, sessions: set[int]) -> dict[int, int]:
    sql = "SELECT id, messages FROM sessions WHERE id IN carray(?)"
    return dict(sqlite.rows(connection, sql, (sqlite.numbers(sessions),)))

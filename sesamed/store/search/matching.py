"""What matches a query, for both halves of the ranking: chunks, and sessions as a whole. By statements, which is quickest for what is in
few chunks, or by posting arrays (`large`): both find the same, and nothing is left out.

Chunks: BM25 over the OR of all patterns, weighed by kind, the best three a file. FTS5 is asked for each pattern by itself, since its
score is the sum of theirs: so each has the idf of `terms.weigh_rarity`, which FTS5's own is not for words in half of the chunks. The
row number carries file and kind, so that rows are grouped before anything is joined.

Sessions: BM25 of what was said in them, what they are called and where they worked. A session's count of a word is the number of its
messages that hold it (which ranks as well as counting the word itself does), and more for its title. It is made when asked for: nothing
is written anew when a session grows.
"""

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.schema import HEADING
from sesamed.store.search import filters, scoring
from sesamed.store.search.scoring import DAMPED, KIND_WEIGHTS, Matched, Naming, choose_chunks, share_out
from sesamed.store.search.terms import Pattern, Terms

WEIGHTS = " ".join(f"WHEN {kind:d} THEN {weight}" for kind, weight in KIND_WEIGHTS.items())
WEIGHT = f"CASE {ids.sql_kind('m.chunk')} {WEIGHTS} ELSE 1.0 END"
ABOVE = 1000.0  # far more than any score
LEAST_IDF = 1e-6  # of FTS5's, which are not below it

# Each is materialized: bm25() cannot be used in an aggregate, nor in what SQLite makes a part of one.
MATCHED = """
    p(pattern, factor, has_word) AS MATERIALIZED (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:patterns)),
    m(chunk, score, has_word) AS MATERIALIZED (
      SELECT fts.rowid, -bm25(fts) * p.factor, p.has_word FROM p CROSS JOIN fts WHERE fts MATCH p.pattern {also})
"""
FILE = ids.sql_file_of("chunk")
RECORD = ids.sql_record_of("w.chunk")
IS_MESSAGE = ids.sql_is_message("chunk")


class Best(NamedTuple):
    """The chunks of the best sessions, and what sessions are worth as a whole; `is_all`: there are no others."""

    chunks: dict[int, list[Matched]]
    whole: Mapping[int, float]
    is_all: bool


class Matches(Protocol):
    """What matches a query, and passes the filters."""

    def has(self, session: int) -> bool:
        """Whether it has a chunk that matches."""

    def take(self, count: int, called: set[int], naming: Naming) -> Best:
        """At least so many sessions with the best chunks, all that are called so, and those by which the halves are measured."""


# A record's home is the earliest session that holds it. Where a filter leaves that one out, the earliest of the others has the hit; where
# sessions are shown each by itself, all of them have.
PLACE = ids.sql_chunk(ids.sql_record("c.file", "c.position"), ids.sql_kind("w.chunk"))
COPIED = f"""
    SELECT session, chunk, score, {IS_MESSAGE}, has_word, place FROM (
      SELECT f.session, w.chunk, w.score, w.has_word, {PLACE} AS place,
        row_number() OVER (PARTITION BY w.chunk{{each}} ORDER BY {ids.OWNER_FIRST}, c.position) AS turn
      FROM (SELECT DISTINCT record FROM copies) d JOIN w ON {RECORD} = d.record JOIN copies c ON c.record = d.record
      JOIN files f ON f.id = c.file JOIN sessions s ON s.id = f.session
      WHERE {{passing}} AND {ids.sql_file("d.record")} NOT IN (
        SELECT f.id FROM files f JOIN sessions s ON s.id = f.session WHERE {{homes}})
    ) WHERE turn = 1
"""
BEST = f"""
    WITH {{matched}},
    w(chunk, score, has_word) AS MATERIALIZED (
      SELECT m.chunk, sum(m.score) * {WEIGHT}, max(m.has_word) FROM m {{records}} GROUP BY m.chunk)
    SELECT f.session, chunk, score, {IS_MESSAGE}, has_word, chunk FROM (
      SELECT chunk, score, has_word, row_number() OVER (PARTITION BY {FILE} ORDER BY score + {{tier}} DESC, chunk) AS turn FROM w) w
    CROSS JOIN files f ON f.id = {FILE} CROSS JOIN sessions s ON s.id = f.session WHERE turn <= {len(DAMPED)} AND {{passing}}
"""
# Who holds copies of matching records that count for another session: for that of their home, or that of the copy that stands for it.
HELD = f"""
    WITH homes(session, file) AS (
      SELECT f.session, f.id FROM files f WHERE f.session IN carray(:owners)
        AND EXISTS(SELECT 1 FROM copies c WHERE {ids.sql_in_file("c.record", "f.id")}) {{adopted}}),
    shared(session, record) AS (
      SELECT homes.session, {ids.sql_record_of("fts.rowid")} FROM homes CROSS JOIN fts ON fts MATCH :match
        AND {ids.sql_chunk_in_file("fts.rowid", "homes.file")})
    SELECT DISTINCT shared.session, f.session FROM shared CROSS JOIN copies c ON c.record = shared.record
    CROSS JOIN files f ON f.id = c.file CROSS JOIN sessions s ON s.id = f.session CROSS JOIN records r ON r.id = shared.record
    WHERE f.session <> shared.session AND {{passing}} AND {{records}} AND shared.session IN (
      SELECT h.session FROM files h WHERE h.id = {ids.sql_file("shared.record")}
      UNION SELECT h.session FROM copies d JOIN files h ON h.id = d.file WHERE d.record = shared.record)
"""
ADOPTED = f"""UNION SELECT f.session, {ids.sql_file("c.record")} FROM files f JOIN copies c ON c.file = f.id
    WHERE f.session IN carray(:owners) AND {ids.sql_file("c.record")} NOT IN (
      SELECT f.id FROM files f JOIN sessions s ON s.id = f.session WHERE {{passing}})"""
FILTERED = f"JOIN records r ON r.id = {ids.sql_record_of('m.chunk')} WHERE "


class FewMatches:
    """What matches, by statements."""

    def __init__(self, connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> None:
        self._chunks = choose_chunks(find_best(connection, terms, where), terms)
        self._whole = score_sessions(connection, terms)

    def has(self, session: int) -> bool:
        """Whether it has a chunk that matches."""
        return session in self._chunks

    def take(self, count: int, called: set[int], naming: Naming) -> Best:
        """All of them."""
        return Best(self._chunks, self._whole, is_all=True)


def find_best(connection: apsw.Connection, terms: Terms, where: filters.Conditions) -> list[Matched]:
    """The best chunks of each file that has any."""
    if not terms.patterns:
        return []
    passing = where.session or "1"
    shares = bool(where.session) and has_copies(connection)
    also = "" if shares or not where.session else f"AND {ids.sql_file_of('fts.rowid')} IN ({list_files(where)})"
    sql = BEST.format(
        matched=MATCHED.format(also=also),
        passing=passing,
        tier=f"has_word * {2 * ABOVE}" + f" + ({IS_MESSAGE}) * {ABOVE}" * (len(terms.terms) == 1),
        records=FILTERED + where.record if where.record else "",
    )
    if shares:
        sql += "UNION ALL" + copied(where)
    values = {**where.values, "patterns": json.dumps(list(list_patterns(terms)))}
    return [Matched(*row) for row in connection.execute(sql, values)]


def copied(where: filters.Conditions) -> str:
    """What of `w` is only copied by what passes the filters."""
    each, homes = (", f.session", "0") if where.apart else ("", where.session)
    return COPIED.format(passing=where.session, each=each, homes=homes)


def list_files(where: filters.Conditions) -> str:
    """The files of the sessions that pass."""
    return f"SELECT f.id FROM files f JOIN sessions s ON s.id = f.session WHERE {where.session}"


def list_patterns(terms: Terms) -> Iterable[tuple[str, float, bool]]:
    """What FTS5 is asked, what its score is multiplied by, and whether it is a whole word."""
    words = whole_words(terms)
    without = f" NOT ({_any(terms.excluded)})" if terms.excluded else ""
    for pattern in terms.patterns:
        factor = terms.weigh_pattern(pattern) / weigh_by_fts5(terms.chunks, pattern.chunks)
        yield f"({pattern.match}){without}", factor, pattern.match in words


def weigh_by_fts5(chunks: int, found: int) -> float:
    """The idf that bm25() has for what is in so many chunks."""
    return max(LEAST_IDF, math.log((chunks - found + 0.5) / (found + 0.5))) if found <= chunks else LEAST_IDF


def whole_words(terms: Terms) -> set[str]:
    """The patterns that are words of the query, and not only parts of one."""
    return {pattern.match for term in terms.terms for pattern in term.wholes if pattern.chunks}


def find_holders(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, owners: Iterable[int]
) -> dict[int, set[int]]:
    """Of some sessions that match, the others that hold copies of what matches, and pass the filters as well."""
    found: dict[int, set[int]] = defaultdict(set)
    if terms.patterns and not where.apart and has_copies(connection):
        passing = where.session or "1"
        sql = HELD.format(
            passing=passing,
            records=where.record or "1",
            adopted=ADOPTED.format(passing=passing) if where.session else "",
        )
        values = {**where.values, "owners": sqlite.numbers(owners), "match": match_any(terms)}
        for owner, holder in connection.execute(sql, values):
            found[owner].add(holder)
    return found


def match_any(terms: Terms) -> str:
    """Everything that is asked for, for FTS5."""
    patterns = dict.fromkeys(pattern.match for term in terms.terms for pattern in term.patterns)
    without = f" NOT ({_any(terms.excluded)})" if terms.excluded else ""
    return f"({_any(patterns)}){without}"


def _any(matches: Iterable[str]) -> str:
    return " OR ".join(matches)


def has_copies(connection: apsw.Connection) -> bool:
    """Whether any session shares records with another one."""
    return bool(sqlite.one(connection, "SELECT EXISTS(SELECT 1 FROM copies)")[0])


# -- sessions as a whole


COLUMNS = HEADING.split(", ")
HEADINGS = f"SELECT id, {HEADING} FROM sessions WHERE id IN carray(?)"
MESSAGES_BY_FILE = f"SELECT {ids.sql_file_of('rowid')}, count(*) FROM fts WHERE fts MATCH ? AND {ids.sql_is_message('rowid')} GROUP BY 1"
ABOUT = """
    SELECT f.id, s.id, s.messages FROM files f CROSS JOIN sessions s ON s.id = f.session WHERE f.id IN carray(?1)
    UNION ALL SELECT NULL, id, messages FROM sessions WHERE id IN carray(?2)
"""


HOLDS = "SELECT one.value FROM carray(:chunks) one CROSS JOIN fts ON fts.rowid = one.value WHERE fts MATCH :match"


def name_sessions(connection: apsw.Connection, terms: Terms) -> Naming:
    """Which sessions are called so."""
    return scoring.name_sessions(terms, partial(_choose_titled, connection))


def _choose_titled(connection: apsw.Connection, titled: Mapping[int, float]) -> frozenset[int]:
    """Those with the most of the query in their titles, the newest first."""
    least = heapq.nlargest(scoring.MANY_NAMED, titled.values())[-1]
    above = frozenset(session for session, share in titled.items() if share > least)
    equal = sqlite.numbers(session for session, share in titled.items() if share == least)
    sql = "SELECT id FROM sessions WHERE id IN carray(?) ORDER BY modified_ms DESC, source, public_id LIMIT ?"
    return above.union(session for (session,) in connection.execute(sql, (equal, scoring.MANY_NAMED - len(above))))


def score_sessions(connection: apsw.Connection, terms: Terms) -> dict[int, float]:
    """BM25 of each session."""
    patterns = {pattern.match: pattern for term in terms.terms for pattern in term.patterns if pattern.chunks}
    in_messages = {
        match: terms.message_counts.get(match) or _count_messages(connection, one) for match, one in patterns.items()
    }
    headed = {session for found in terms.headings.values() for some in found for session in some}
    files = {file for found in in_messages.values() for file in found}
    rows = list(connection.execute(ABOUT, (sqlite.numbers(files), sqlite.numbers(headed))))
    session_of = {file: session for file, session, _ in rows}
    said = {match: ((session_of[file], times) for file, times in found.items()) for match, found in in_messages.items()}
    own_messages = {session: messages for _, session, messages in rows}
    sessions, messages = next(connection.execute("SELECT (SELECT count(*) FROM sessions), messages FROM totals"))
    return scoring.score_sessions(terms, scoring.count_patterns(terms, said), own_messages, sessions, messages)


def measure_fit(connection: apsw.Connection, terms: Terms, chunks: Iterable[int]) -> float:
    """How much of the query is in one of these chunks, at most. A prefix is not looked for: that would cost as much as the whole search."""
    shares: dict[int, float] = dict.fromkeys(chunks, 0.0)
    for term, share in share_out(terms):
        patterns = [pattern for pattern in term.patterns if pattern.chunks]
        if any(pattern.is_prefix for pattern in patterns):
            holders = list(shares)
        else:
            values = {"chunks": sqlite.numbers(shares), "match": _any(one.match for one in patterns)}
            holders = [chunk for (chunk,) in connection.execute(HOLDS, values)] if patterns else []
        for chunk in holders:
            shares[chunk] += share
    return max(shares.values(), default=0.0)


def read_headings(connection: apsw.Connection, sessions: Iterable[int]) -> dict[int, dict[str, str]]:
    """Each session's title, summary and so on, directory and branch, by the names of the columns."""
    return {session: _make_heading(row) for session, *row in connection.execute(HEADINGS, (sqlite.numbers(sessions),))}


def _make_heading(row: Iterable[str | None]) -> dict[str, str]:
    heading = {column: text for column, text in zip(COLUMNS, row, strict=True) if text}
    for column in heading.keys() & {"tags", "recall_words"}:
        heading[column] = ", ".join(json.loads(heading[column]))
    return heading


def _count_messages(connection: apsw.Connection, pattern: Pattern) -> Mapping[int, int]:
    return dict(connection.execute(MESSAGES_BY_FILE, (pattern.match,)))

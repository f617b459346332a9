"""What matches a query, for both halves of the ranking: chunks, and sessions as a whole.

Chunks: BM25 over the OR of all patterns, weighed by kind, the best three a file; filters before LIMIT. The row number carries file and
kind, so that the many rows of a common word are grouped before anything is joined.

Sessions: BM25 of what was said in them, what they are called and where they worked. A session's count of a word is the number of its
messages that hold it (which ranks as well as counting the word itself does), and more for its title. It is made when asked for: nothing
is written anew when a session grows.
"""

import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.schema import HEADING
from sesamed.store.search import filters, scoring
from sesamed.store.search.scoring import KIND_WEIGHTS, Counts, Matched, share_out
from sesamed.store.search.terms import Pattern, Terms

WEIGHTS = " ".join(f"WHEN {kind:d} THEN {weight}" for kind, weight in KIND_WEIGHTS.items())
WEIGHT = f"CASE {ids.sql_kind('m.chunk')} {WEIGHTS} ELSE 1.0 END"
# What is in more chunks than this is looked for in messages only, when rarer words are asked for, too.
ROWS_OF_ALL_KINDS = 15_000
FEW_ROWS = 1000  # what is in no more chunks is searched at once, so that all hits are counted
BEST_CHUNKS = 3
BEST_FILES = 200  # of the other ones only the best chunk counts
ABOVE = 1000.0  # far more than any score

# The hits of one question to FTS5. LIMIT -1 keeps SQLite from merging this into the aggregates below, where bm25() cannot be used.
MATCHED = "SELECT * FROM (SELECT rowid, -bm25(fts) FROM fts WHERE fts MATCH :{name} {also} LIMIT -1)"
MESSAGES = f"AND {ids.sql_is_message('rowid')}"
FILE = ids.sql_file_of("chunk")
IN_FILE = ids.sql_file_of("w.chunk")
RECORD = ids.sql_record_of("w.chunk")
IS_MESSAGE = ids.sql_is_message("chunk")
HAS_WORD = "m.chunk IN (SELECT rowid FROM fts WHERE fts MATCH :words)"
# The + keeps SQLite from asking FTS5 anew for each of these rows.
ONLY_WORDS = "AND +rowid IN (SELECT rowid FROM fts WHERE fts MATCH :words)"


class Step(NamedTuple):
    """How much of an index is looked at."""

    all_kinds: bool  # else common words are looked for in messages only
    only_words: bool = False  # not in chunks with only parts of words


EVERYTHING = Step(all_kinds=True)


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
    WITH m(chunk, score) AS NOT MATERIALIZED ({{matched}}),
    w(chunk, score, has_word) AS MATERIALIZED (SELECT m.chunk, m.score * {WEIGHT}, {{has_word}} FROM m {{records}}),
    b(file, chunk, score, has_word, grade) AS (SELECT {FILE}, chunk, score, has_word, max(score + {{tier}}) FROM w GROUP BY {FILE}),
    p(file, session, chunk, score, has_word, grade) AS MATERIALIZED (
      SELECT b.file, f.session, b.chunk, b.score, b.has_word, b.grade
      FROM b CROSS JOIN files f ON f.id = b.file CROSS JOIN sessions s ON s.id = f.session WHERE {{passing}}),
    top(file, session) AS MATERIALIZED (SELECT file, session FROM p WHERE grade >= (
      SELECT min(grade) FROM (SELECT grade FROM p ORDER BY grade DESC LIMIT {BEST_FILES})))
    SELECT session, chunk, score, {IS_MESSAGE}, has_word, chunk FROM (
      SELECT top.session, w.chunk, w.score, w.has_word,
        row_number() OVER (PARTITION BY top.file ORDER BY w.score + {{tier}} DESC, w.chunk) AS turn
      FROM w JOIN top ON top.file = {IN_FILE}) WHERE turn <= {BEST_CHUNKS}
    UNION ALL
    SELECT session, chunk, score, {IS_MESSAGE}, has_word, chunk FROM p WHERE file NOT IN (SELECT file FROM top)
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
SAID_FIRST = f"({ids.sql_is_message('w.chunk')}) * {ABOVE}"


def plan(terms: Terms) -> list[Step]:
    """The steps in which a search looks at more and more of the index, if what it finds is not enough. Parts of words are often very
    common (`src` of `src/index.ts`), and what has only those comes last."""
    steps = list[Step]()
    words = _whole_words(terms)
    total = sum(pattern.chunks for pattern in terms.patterns)
    rows = sum(pattern.chunks for pattern in terms.patterns if pattern.match in words)
    if total <= min(FEW_ROWS, ROWS_OF_ALL_KINDS):
        return [EVERYTHING]
    if 0 < rows < total:
        steps.append(Step(all_kinds=rows <= ROWS_OF_ALL_KINDS, only_words=True))
    if (total > ROWS_OF_ALL_KINDS or len(terms.terms) == 1) and all(step.all_kinds for step in steps):
        steps.append(Step(all_kinds=False))
    return [*steps, EVERYTHING]


def find_best(connection: apsw.Connection, terms: Terms, where: filters.Conditions, step: Step) -> list[Matched]:
    """The best chunks of each file that has any."""
    if not terms.patterns:
        return []
    parts, values = _ask(connection, terms, where, step)
    passing = where.session or "1"
    sql = BEST.format(
        matched=" UNION ALL ".join(parts),
        passing=passing,
        tier=f"has_word * {2 * ABOVE}" + f" + {SAID_FIRST}" * (len(terms.terms) == 1),
        has_word="1" if step.only_words else _has_word(terms, values),
        records=FILTERED + where.record if where.record else "",
    )
    if where.session and _has_copies(connection):
        each, homes = (", f.session", "0") if where.apart else ("", passing)
        sql += "UNION ALL" + COPIED.format(passing=passing, each=each, homes=homes)
    return [Matched(*row) for row in connection.execute(sql, {**where.values, **values})]


def _whole_words(terms: Terms) -> set[str]:
    return {pattern.match for term in terms.terms for pattern in term.wholes if pattern.chunks}


def _has_word(terms: Terms, values: dict[str, Any]) -> str:
    """Whether a chunk has a word of the query, and not only parts of one; most queries ask for nothing else."""
    words = _whole_words(terms)
    if words.issuperset(pattern.match for pattern in terms.patterns):
        return "1"
    if not words:
        return "0"
    values["words"] = " OR ".join(sorted(words))
    return HAS_WORD


def find_holders(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, owners: Iterable[int]
) -> dict[int, set[int]]:
    """Of some sessions that match, the others that hold copies of what matches, and pass the filters as well."""
    found: dict[int, set[int]] = defaultdict(set)
    if terms.patterns and not where.apart and _has_copies(connection):
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
    patterns = {pattern.match: pattern for term in terms.terms for pattern in term.patterns}
    return f"({_any(list(patterns.values()))}){_without(terms)}"


def _ask(
    connection: apsw.Connection, terms: Terms, where: filters.Conditions, step: Step
) -> tuple[list[str], dict[str, Any]]:
    """One or two FTS5 queries. For rare words *and* all words, FTS5 scores by all of them but only visits the rare ones."""
    also, values = "", dict[str, Any]()
    if where.session and not _has_copies(connection):
        also = f"AND {ids.sql_file_of('rowid')} IN (SELECT f.id FROM files f JOIN sessions s ON s.id = f.session WHERE {where.session})"
    if step.only_words:
        also += ONLY_WORDS
        values["words"] = " OR ".join(sorted(_whole_words(terms)))
    without = _without(terms)
    most = 0 if len(terms.terms) == 1 else ROWS_OF_ALL_KINDS  # what is only done by tools is below all that is said
    rare, common = (terms.patterns, []) if step.all_kinds else _split(terms.patterns, most)
    parts = []
    if rare:
        values["rare"] = f"({_any(rare)})" + (f" AND ({_any([*rare, *common])})" if common else "") + without
        parts.append(MATCHED.format(name="rare", also=also))
    if common:
        values["common"] = f"({_any(common)})" + (f" NOT ({_any(rare)})" if rare else "") + without
        parts.append(MATCHED.format(name="common", also=f"{MESSAGES} {also}"))
    return parts, values


def _without(terms: Terms) -> str:
    return f" NOT ({' OR '.join(terms.excluded)})" if terms.excluded else ""


def _split(patterns: list[Pattern], most: int) -> tuple[list[Pattern], list[Pattern]]:
    """Patterns that are looked up everywhere, and those that are too common for it."""
    total, rare = 0, 0
    for pattern in patterns:
        total += pattern.chunks
        rare += total <= most
    return patterns[:rare], patterns[rare:]


def _any(patterns: list[Pattern]) -> str:
    return " OR ".join(pattern.match for pattern in patterns)


def _has_copies(connection: apsw.Connection) -> bool:
    return bool(sqlite.one(connection, "SELECT EXISTS(SELECT 1 FROM copies)")[0])


# -- sessions as a whole


COLUMNS = HEADING.split(", ")
MESSAGES_BY_FILE = f"SELECT {ids.sql_file_of('rowid')}, count(*) FROM fts WHERE fts MATCH ? AND {ids.sql_is_message('rowid')} GROUP BY 1"
ABOUT = """
    SELECT f.id, s.id, s.messages FROM files f CROSS JOIN sessions s ON s.id = f.session WHERE f.id IN carray(?1)
    UNION ALL SELECT NULL, id, messages FROM sessions WHERE id IN carray(?2)
"""


HOLDS = "SELECT one.value FROM carray(:chunks) one CROSS JOIN fts ON fts.rowid = one.value WHERE fts MATCH :match"


def count_patterns(connection: apsw.Connection, terms: Terms) -> Counts:
    """Count all patterns of a query."""
    patterns = {pattern.match: pattern for term in terms.terms for pattern in term.patterns}
    in_messages = {
        match: terms.message_counts.get(match) or _count_messages(connection, one)
        for match, one in patterns.items()
        if one.chunks
    }
    headed = {session for match in patterns for found in terms.headings[match] for session in found}
    files = {file for found in in_messages.values() for file in found}
    rows = list(connection.execute(ABOUT, (sqlite.numbers(files), sqlite.numbers(headed))))
    session_of = {file: session for file, session, _ in rows}
    said = {match: ((session_of[file], times) for file, times in found.items()) for match, found in in_messages.items()}
    messages = {session: messages for _, session, messages in rows}
    return scoring.count_patterns(terms, said, messages, partial(_choose_titled, connection))


def _choose_titled(connection: apsw.Connection, titled: Mapping[int, float]) -> frozenset[int]:
    """Those with the most of the query in their titles, the newest first."""
    least = heapq.nlargest(scoring.MANY_NAMED, titled.values())[-1]
    above = frozenset(session for session, share in titled.items() if share > least)
    equal = sqlite.numbers(session for session, share in titled.items() if share == least)
    sql = "SELECT id FROM sessions WHERE id IN carray(?) ORDER BY modified_ms DESC, source, public_id LIMIT ?"
    return above.union(session for (session,) in connection.execute(sql, (equal, scoring.MANY_NAMED - len(above))))


def score_sessions(connection: apsw.Connection, counted: Counts) -> dict[int, float]:
    """BM25 of each session."""
    sessions, messages = next(connection.execute("SELECT (SELECT count(*) FROM sessions), messages FROM totals"))
    return scoring.score_sessions(counted, sessions, messages)


def measure_fit(connection: apsw.Connection, terms: Terms, chunks: Iterable[int]) -> float:
    """How much of the query is in one of these chunks, at most. A prefix is not looked for: that would cost as much as the whole search."""
    shares: dict[int, float] = dict.fromkeys(chunks, 0.0)
    for term, share in share_out(terms):
        patterns = [pattern for pattern in term.patterns if pattern.chunks]
        if any(pattern.is_prefix for pattern in patterns):
            holders = list(shares)
        else:
            values = {"chunks": sqlite.numbers(shares), "match": _any(patterns)}
            holders = [chunk for (chunk,) in connection.execute(HOLDS, values)] if patterns else []
        for chunk in holders:
            shares[chunk] += share
    return max(shares.values(), default=0.0)


def read_heading(connection: apsw.Connection, session: int) -> dict[str, str]:
    """A session's title, summary and so on, directory and branch, by the names of the columns."""
    row = connection.execute(f"SELECT {HEADING} FROM sessions WHERE id = ?", (session,)).fetchone()
    heading = {} if row is None else {column: text for column, text in zip(COLUMNS, row, strict=True) if text}
    for column in heading.keys() & {"tags", "recall_words"}:
        heading[column] = ", ".join(json.loads(heading[column]))
    return heading


def _count_messages(connection: apsw.Connection, pattern: Pattern) -> Mapping[int, int]:
    return dict(connection.execute(MESSAGES_BY_FILE, (pattern.match,)))

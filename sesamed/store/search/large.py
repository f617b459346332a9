"""What matches a question whose words are in very many chunks, by posting arrays: all of it is scored, and the best sessions are handed on.

The same as `matching` finds by statements, chunk by chunk and session by session; a property test compares them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.search import filters, matching, scoring
from sesamed.store.search.matching import Best
from sesamed.store.search.postings import NONE, Ints, Posting, View, read_numbers
from sesamed.store.search.scoring import (
    DAMPED,
    KIND_WEIGHTS,
    MESSAGES_FIRST,
    PLACE_COUNT,
    SESSION_SHARE,
    TITLE_COUNT,
    Matched,
    Naming,
    saturate_in_chunk,
    saturate_in_session,
)
from sesamed.store.search.terms import Terms, find_stems, weigh_rarity

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

WEIGHTS = np.array([KIND_WEIGHTS.get(kind, 1.0) for kind in range(ids.KIND_MASK + 1)])
WITH_WORD, SAID = 2, 1  # what a tier is made of
ABOVE = 1000.0  # far more than any score
SPARSE = 20  # with fewer than one of so many chunks, those that match are sorted instead of laid out
FEW = 100  # sessions, of which one may be the best
MARGIN = 1e-9  # of a score: what is so near to the last of the best is among them
RECORDS = "SELECT group_concat(r.id) FROM carray(:records) one CROSS JOIN records r ON r.id = one.value WHERE {passing}"
SHARED = "SELECT group_concat(DISTINCT record) FROM copies"
COPIED = "WITH w(chunk, score, has_word) AS MATERIALIZED (SELECT value, 0.0, 0 FROM carray(:shared)) "


class Scored(NamedTuple):
    """Chunks with a pattern, by their ordinals: what they are worth, whatever they are, and whether they have a word of the query."""

    ordinals: Ints
    scores: Floats
    has_word: Flags


class Chunks(NamedTuple):
    """The chunks that match, in the order of their places, and which session each counts for."""

    numbers: Ints
    places: Ints
    sessions: Ints
    scores: Floats
    tiers: NDArray[np.uint8]  # with a word, and not only parts of one: 2 more; one word, and said: 1 more


class Sessions(NamedTuple):
    """The sessions that match: where their chunks begin and end, the best tier that each has, and the score of the best chunk in it."""

    numbers: Ints
    begins: Ints
    ends: Ints
    tiers: NDArray[np.uint8]
    tops: Floats


class ManyMatches:
    """What matches, by posting arrays."""

    def __init__(self, connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions) -> None:
        self._terms = terms
        postings = {
            pattern.match: view.find(connection, pattern.match, find_stems(connection, pattern.match))
            for pattern in terms.patterns
        }
        self._whole = _score_sessions(view, terms, postings)
        self._chunks = _pick_chunks(connection, view, terms, where, _score_chunks(view, terms, postings))
        self._chunks, self._sessions = _group(self._chunks)
        self._matches = np.zeros(len(self._whole), np.bool_)
        self._matches[self._sessions.numbers] = True

    def has(self, session: int) -> bool:
        """Whether it has a chunk that matches."""
        return bool(self._matches[session])

    def take(self, count: int, called: set[int], naming: Naming) -> Best:
        """The best of them, and others that have to be scored to know that."""
        sessions = self._sessions
        if not len(sessions.numbers):
            return Best({}, {session: float(self._whole[session]) for session in called}, is_all=True)
        whole = self._whole[sessions.numbers]
        with_word = sessions.tiers >= WITH_WORD
        with_word |= np.isin(sessions.numbers, _numbers(naming.headed))
        has_word = bool(with_word.any()) or not called.isdisjoint(naming.headed)
        measures = with_word if has_word else np.ones(len(whole), np.bool_)
        measured = measures if measures.any() else ~measures
        said = sessions.tiers % 2 == SAID
        measured = measured & said if (measured & said).any() else measured
        first = np.flatnonzero(measured & (sessions.tops >= _nth(sessions.tops[measured], FEW)))
        bound = _damp(self._chunks, sessions, first)[1].max()
        best = np.flatnonzero(measured & (sum(DAMPED) * sessions.tops >= bound - MARGIN))
        halves = _damp(self._chunks, sessions, best)[1]
        most = halves.max()
        of_called = [float(self._whole[one]) for one in called if not has_word or one in naming.headed]
        most_whole = max([*of_called, float(whole[measures].max(initial=0.0))]) or 1.0
        rest = SESSION_SHARE * whole / most_whole + MESSAGES_FIRST * said + ABOVE * with_word
        chosen = self._choose(count, most, rest)
        chosen |= np.isin(sessions.numbers, _numbers(naming.titled))
        chosen[best[halves == most]] = True
        chosen[np.argmax(np.where(measures, whole, -1.0))] = True
        at = np.flatnonzero(chosen)
        shown = [*sessions.numbers[at].tolist(), *called]
        of_shown = dict(zip(shown, self._whole[shown].tolist(), strict=True))
        return Best(self._list_chunks(at), of_shown, is_all=len(at) == len(whole))

    def _choose(self, count: int, most: float, rest: Floats) -> Flags:
        """At least so many of the best, by their chunks, of which the best counts `most`, and by the rest. A session's chunks count at
        least what the first does, and at most as if all were as good: only where that does not tell they are looked through."""
        least = self._sessions.tops / most + rest
        if len(rest) <= count:
            return np.ones(len(rest), np.bool_)
        first = np.flatnonzero(least >= _nth(least, count))
        bound = self._score(first, most, rest).min() - MARGIN
        near = np.flatnonzero((sum(DAMPED) - 1) * self._sessions.tops / most + least >= bound)
        scores = self._score(near, most, rest)
        chosen = np.zeros(len(rest), np.bool_)
        chosen[near[scores >= _nth(scores, count) - MARGIN]] = True
        return chosen

    def _score(self, at: Ints, most: float, rest: Floats) -> Floats:
        scores: Floats = _damp(self._chunks, self._sessions, at)[1] / most + rest[at]
        return scores

    def _list_chunks(self, at: Ints) -> dict[int, list[Matched]]:
        """The best chunks of these sessions; and of one in several files all that are as good as the first, if there are so many."""
        chunks, sessions = self._chunks, self._sessions
        rows = _damp(chunks, sessions, at)[0]
        found = dict[int, list[Matched]]()
        for chunk in self._list_rows(rows[rows >= 0]):
            found.setdefault(chunk.session, []).append(chunk)
        first, last = sessions.begins[at], sessions.ends[at] - 1
        several = ids.files_of(chunks.places[first]) != ids.files_of(chunks.places[last])
        level = (rows[:, -1] >= 0) & (chunks.scores[rows[:, -1]] == chunks.scores[rows[:, 0]])
        for one in np.flatnonzero(several & level).tolist():
            within, best = np.arange(first[one], last[one] + 1), rows[one, 0]
            found[int(sessions.numbers[at[one]])] = self._list_rows(
                within[chunks.scores[within] == chunks.scores[best]]
            )
        return found

    def _list_rows(self, rows: Ints) -> list[Matched]:
        chunks = self._chunks
        columns = (
            chunks.sessions[rows].tolist(), chunks.numbers[rows].tolist(), chunks.scores[rows].tolist(),
            (ids.kinds_of(chunks.numbers[rows]) < Kind.CALL).tolist(), (chunks.tiers[rows] >= WITH_WORD).tolist(),
            chunks.places[rows].tolist(),
        )  # fmt: skip
        return [Matched(*row) for row in zip(*columns, strict=True)]


def _numbers(sessions: Iterable[int]) -> Ints:
    return np.fromiter(sessions, np.int64)


# -- chunks


def _score_chunks(view: View, terms: Terms, postings: Mapping[str, Posting]) -> Scored:
    """All chunks with a pattern."""
    words = matching.whole_words(terms)
    scored = list[tuple[Ints, Floats, bool]]()
    for match, posting in postings.items():
        found = posting.ordinals.astype(np.int64)
        idf = weigh_rarity(view.counted.chunks, len(found))
        scored.append((found, idf * saturate_in_chunk(posting.times, view.norms[view.lengths[found]]), match in words))
    if len(scored) == 1:
        found, scores, is_word = scored[0]
        return Scored(found, scores, np.full(len(found), is_word))
    if sum(len(found) for found, *_ in scored) * SPARSE < len(view.ids):
        union, at = np.unique(np.concatenate([NONE, *(found for found, *_ in scored)]), return_inverse=True)
        begins = np.cumsum([0, *(len(found) for found, *_ in scored)]).tolist()
        scored = [
            (at[begin:][: len(found)], values, is_word)
            for begin, (found, values, is_word) in zip(begins, scored, strict=False)
        ]
        return Scored(union, *_add_up(len(union), scored))
    scores, has_word = _add_up(len(view.ids), scored)
    union = np.flatnonzero(scores > 0.0)
    return Scored(union, scores[union], has_word[union])


def _add_up(count: int, scored: Iterable[tuple[Ints, Floats, bool]]) -> tuple[Floats, Flags]:
    scores, has_word = np.zeros(count), np.zeros(count, np.bool_)
    for at, values, is_word in scored:
        scores[at] += values
        if is_word:
            has_word[at] = True
    return scores, has_word


def _pick_chunks(
    connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions, scored: Scored
) -> Chunks:
    """Those that pass the filters, weighed by kind."""
    found, scores, has_word = scored
    numbers = view.ids[found]
    if terms.excluded or where.record:
        kept = _filter_records(connection, view, terms, where, found)
        numbers, scores, has_word, found = numbers[kept], scores[kept], has_word[kept], found[kept]
    if len(found) and found[-1] >= view.first_late:  # what came late stands behind all others
        order = np.argsort(numbers)
        numbers, scores, has_word = numbers[order], scores[order], has_word[order]
    kinds = ids.kinds_of(numbers)
    tiers = has_word.astype(np.uint8) * WITH_WORD
    if len(terms.terms) == 1:
        tiers |= kinds < Kind.CALL
    sessions = view.places.session_of[ids.files_of(numbers)]
    chunks = Chunks(numbers, numbers, sessions, scores * WEIGHTS[kinds], tiers)
    if where.session:
        chunks = _filter_sessions(connection, chunks, where)
    return _sort_by_session(chunks)


def _filter_records(
    connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions, found: Ints
) -> Ints:
    """Which of these chunks are not excluded, and of records that pass."""
    keep = np.ones(len(found), np.bool_)
    if terms.excluded:
        keep = ~np.isin(found, view.find_any(connection, " OR ".join(terms.excluded)))
    if where.record:
        records = ids.records_of_chunks(view.ids[found])
        values = {**where.values, "records": sqlite.numbers(records[keep].tolist())}
        keep &= np.isin(records, read_numbers(connection, RECORDS.format(passing=where.record), values))
    return np.flatnonzero(keep)


def _filter_sessions(connection: apsw.Connection, chunks: Chunks, where: filters.Conditions) -> Chunks:
    """Those in files that pass, and those that are copied by what passes."""
    files = read_numbers(connection, f"SELECT group_concat(id) FROM ({matching.list_files(where)})", where.values)
    passing = _take(chunks, np.flatnonzero(np.isin(ids.files_of(chunks.numbers), files)))
    shared = read_numbers(connection, SHARED)
    shared = chunks.numbers[np.isin(ids.records_of_chunks(chunks.numbers), shared)]
    if not len(shared):
        return passing
    values = {**where.values, "shared": sqlite.numbers(shared.tolist())}
    rows = connection.execute(COPIED + matching.copied(where), values).fetchall()
    if not rows:
        return passing
    sessions, numbers, _, _, _, places = (np.array(column) for column in zip(*rows, strict=True))
    at = np.searchsorted(chunks.numbers, numbers)
    copied = Chunks(numbers, places, sessions, chunks.scores[at], chunks.tiers[at])
    columns: Any = (np.concatenate(both) for both in zip(*cast(Any, (passing, copied)), strict=True))
    both = Chunks(*columns)
    return _take(both, np.argsort(both.places, kind="stable"))


def _sort_by_session(chunks: Chunks) -> Chunks:
    """In the order of sessions, and of places in each; mostly a session is one file."""
    begins = np.flatnonzero(np.diff(ids.files_of(chunks.places), prepend=-1))
    sessions = chunks.sessions[begins]
    if np.all(np.diff(sessions) > 0):
        return chunks
    return _take(chunks, np.argsort(chunks.sessions, kind="stable"))


def _take(chunks: Chunks, at: Ints) -> Chunks:
    columns: Any = (column[at] for column in chunks)
    return Chunks(*columns)


# -- sessions


def _group(chunks: Chunks) -> tuple[Chunks, Sessions]:
    """The sessions of these chunks, and of their chunks those in the best tier that each has: no others count."""
    begins = np.flatnonzero(np.diff(chunks.sessions, prepend=-1))
    if not len(begins):
        return chunks, Sessions(begins, begins, begins, chunks.tiers, chunks.scores)
    ends = np.append(begins[1:], len(chunks.sessions))
    tiers = np.maximum.reduceat(chunks.tiers, begins)
    if tiers.min() != chunks.tiers.max() or chunks.tiers.min() != tiers.min():
        kept = np.flatnonzero(chunks.tiers == np.repeat(tiers, ends - begins))
        chunks = _take(chunks, kept)
        begins = np.searchsorted(kept, begins)
        ends = np.append(begins[1:], len(kept))
    return chunks, Sessions(chunks.sessions[begins], begins, ends, tiers, np.maximum.reduceat(chunks.scores, begins))


def _nth(values: Floats, count: int) -> float:
    """The largest but so many, or the least there is."""
    return float(np.partition(values, -count)[-count]) if len(values) > count else float(values.min())


def _damp(chunks: Chunks, sessions: Sessions, at: Ints) -> tuple[Ints, Floats]:
    """The best three chunks of some sessions (-1: none), and what they count together."""
    counts = sessions.ends[at] - sessions.begins[at]
    begins = np.cumsum(counts) - counts
    which = np.repeat(np.arange(len(at)), counts)
    rows = np.arange(len(which)) + (sessions.begins[at] - begins)[which]
    scores = chunks.scores[rows]
    halves, best = np.zeros(len(at)), np.full((len(at), len(DAMPED)), -1)
    for turn, share in enumerate(DAMPED):
        top = np.maximum.reduceat(scores, begins)
        level = np.flatnonzero((scores == top[which]) & (scores > 0.0))
        first = level[np.flatnonzero(np.diff(which[level], prepend=-1))]
        best[which[first], turn] = rows[first]
        halves += share * top
        scores[first] = 0.0
    return best, halves


def _score_sessions(view: View, terms: Terms, postings: Mapping[str, Posting]) -> Floats:
    """BM25 of each session as a whole, by its number."""
    places, counted = view.places, view.counted
    average = scoring.measure_average(counted.sessions, counted.messages)
    result = np.zeros(len(places.messages))
    for match, headings in terms.headings.items():
        times = np.zeros(len(result))
        if (posting := postings.get(match)) is not None:
            times += np.bincount(places.session_of[posting.files], posting.messages, len(result))
        for sessions, count in ((headings.titled, TITLE_COUNT), (headings.placed, PLACE_COUNT)):
            times[_numbers(sessions)] += count
        held = np.flatnonzero(times > 0)
        weight = weigh_rarity(counted.sessions, len(held))
        result[held] += weight * saturate_in_session(times[held], places.messages[held], average)
    return result

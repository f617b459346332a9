"""What matches a question whose words are in very many chunks, by posting arrays: all of it is scored, and the best sessions are handed on.

The same as `matching` finds by statements, chunk by chunk and session by session; a property test compares them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.search import filters, matching
from sesamed.store.search.arrays import NONE, Ints, Posting
from sesamed.store.search.matching import Best
from sesamed.store.search.postings import View, read_numbers
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
SPARSE = 80  # with fewer than one of so many chunks, those that match are sorted instead of laid out
AT_ONCE = (
    1 << 15
)  # chunks: what is computed of them stays in a core's cache, and no memory has to be given back and taken again
FEW = 100  # sessions, of which one may be the best
MARGIN = 1e-9  # of a score: what is so near to the last of the best is among them
RECORDS = "SELECT group_concat(r.id) FROM carray(:records) one CROSS JOIN records r ON r.id = one.value WHERE {passing}"
SHARED = "SELECT group_concat(DISTINCT record) FROM copies"
COPIED = "WITH w(chunk, score, has_word) AS MATERIALIZED (SELECT value, 0.0, 0 FROM carray(:shared)) "


class Part(NamedTuple):
    """A pattern of a question: where it is, what it is worth, and whether it is a word of the query, and not only a part of one."""

    posting: Posting
    idf: float
    is_word: bool


class Scored(NamedTuple):
    """Chunks with a pattern, by their ordinals: what they are worth, and whether they have a word of the query."""

    ordinals: Ints
    scores: Floats
    has_word: Flags


class Chunks(NamedTuple):
    """The chunks that match, by session and place, and which session each counts for."""

    ordinals: Ints
    sessions: NDArray[Any]
    scores: Floats
    tiers: NDArray[np.uint8]  # with a word, and not only parts of one: 2 more; one word, and said: 1 more
    places: Ints | None = None  # where they are, unless all are where their numbers say


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
        self._terms, self._view = terms, view
        postings = {
            pattern.match: view.find(connection, pattern.match, find_stems(connection, pattern.match))
            for pattern in terms.patterns
        }
        self._whole = _score_sessions(view, terms, postings)
        self._chunks = _pick_chunks(connection, view, terms, where, _score_chunks(view, terms, postings))
        self._chunks, self._sessions = _group(self._chunks)
        self._halves = Halves(self._chunks, self._sessions)
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
        bound = self._halves.measure(first).max()
        best = np.flatnonzero(measured & (self._halves.most >= bound - MARGIN))
        halves = self._halves.measure(best)
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
        near = np.flatnonzero(self._halves.most / most + rest >= bound)
        scores = self._score(near, most, rest)
        chosen = np.zeros(len(rest), np.bool_)
        chosen[near[scores >= _nth(scores, count) - MARGIN]] = True
        return chosen

    def _score(self, at: Ints, most: float, rest: Floats) -> Floats:
        scores: Floats = self._halves.measure(at) / most + rest[at]
        return scores

    def _list_chunks(self, at: Ints) -> dict[int, list[Matched]]:
        """The best chunks of these sessions; and of one in several files all that are as good as the first, if there are so many."""
        chunks, sessions = self._chunks, self._sessions
        rows = self._halves.list_rows(at)
        found = dict[int, list[Matched]]()
        for chunk in self._list_rows(rows[rows >= 0]):
            found.setdefault(chunk.session, []).append(chunk)
        first, last = sessions.begins[at], sessions.ends[at] - 1
        several = ids.files_of(self._list_places(first)) != ids.files_of(self._list_places(last))
        level = (rows[:, -1] >= 0) & (chunks.scores[rows[:, -1]] == chunks.scores[rows[:, 0]])
        for one in np.flatnonzero(several & level).tolist():
            within, best = np.arange(first[one], last[one] + 1), rows[one, 0]
            found[int(sessions.numbers[at[one]])] = self._list_rows(
                within[chunks.scores[within] == chunks.scores[best]]
            )
        return found

    def _list_rows(self, rows: Ints) -> list[Matched]:
        chunks, numbers = self._chunks, self._view.ids[self._chunks.ordinals[rows]]
        columns = (
            chunks.sessions[rows].tolist(), numbers.tolist(), chunks.scores[rows].tolist(),
            (ids.kinds_of(numbers) < Kind.CALL).tolist(), (chunks.tiers[rows] >= WITH_WORD).tolist(),
            self._list_places(rows).tolist(),
        )  # fmt: skip
        return [Matched(*row) for row in zip(*columns, strict=True)]

    def _list_places(self, rows: Ints) -> Ints:
        places: Ints | None = self._chunks.places
        return self._view.ids[self._chunks.ordinals[rows]] if places is None else places[rows]


def _numbers(sessions: Iterable[int]) -> Ints:
    return np.fromiter(sessions, np.int64)


# -- chunks


def _score_chunks(view: View, terms: Terms, postings: Mapping[str, Posting]) -> Scored:
    """All chunks with a pattern, weighed by kind."""
    words = matching.whole_words(terms)
    weights = terms.weights
    parts = [
        Part(posting, weigh_rarity(view.counted.chunks, len(posting.ordinals)) * weights[match], match in words)
        for match, posting in postings.items()
        if len(posting.ordinals)
    ]
    scored = [_weigh(view, one) for one in _list_scored(view, parts)]
    if len(scored) == 1:
        return scored[0]
    columns: Any = (np.concatenate(column) for column in zip(*scored, strict=True))
    return Scored(*columns) if scored else Scored(NONE, np.empty(0), np.empty(0, np.bool_))


def _weigh(view: View, scored: Scored) -> Scored:
    np.multiply(scored.scores, WEIGHTS[view.kinds[scored.ordinals]], out=scored.scores)
    return scored


def _list_scored(view: View, parts: Sequence[Part]) -> Iterator[Scored]:
    """The chunks, some after the other: what is computed of so many at a time stays in a core's cache."""
    if len(parts) == 1:
        count = len(parts[0].posting.ordinals)
        for begin in range(0, count, AT_ONCE):
            found, scores = _score_part(view, parts[0], begin, begin + AT_ONCE)
            yield Scored(found, scores, np.full(len(found), parts[0].is_word))
    elif parts and sum(len(part.posting.ordinals) for part in parts) * SPARSE < len(view.ids):
        yield _sort_up(view, parts)
    else:
        edges = range(0, len(view.ids) + AT_ONCE, AT_ONCE)
        bounds = [
            np.searchsorted(part.posting.ordinals, np.array(edges, part.posting.ordinals.dtype)).tolist()
            for part in parts
        ]
        for turn, edge in enumerate(edges[:-1]):
            within = [(part, *bound[turn : turn + 2]) for part, bound in zip(parts, bounds, strict=True)]
            yield _add_up(view, edge, [one for one in within if one[1] < one[2]])


def _score_part(view: View, part: Part, begin: int = 0, end: int | None = None) -> tuple[Ints, Floats]:
    """What some chunks with a pattern are worth for it."""
    found = part.posting.ordinals[begin:end].astype(np.int64)
    scores: Floats = saturate_in_chunk(part.posting.times[begin:end], view.norms[view.lengths[found]])
    scores *= part.idf
    return found, scores


def _sort_up(view: View, parts: Sequence[Part]) -> Scored:
    """Few chunks with several patterns: they are brought into order."""
    scored = [_score_part(view, part) for part in parts]
    union, at = np.unique(np.concatenate([found for found, _ in scored]), return_inverse=True)
    scores: Floats = np.bincount(at, np.concatenate([values for _, values in scored]), len(union)).astype(
        np.float64, copy=False
    )
    are_words = np.repeat([part.is_word for part in parts], [len(found) for found, _ in scored])
    return Scored(union, scores, np.bincount(at, are_words, len(union)) > 0)


def _add_up(view: View, edge: int, within: Iterable[tuple[Part, int, int]]) -> Scored:
    """The chunks from one on: they are laid out, whether they match or not."""
    scores, has_word = np.zeros(AT_ONCE), np.zeros(AT_ONCE, np.bool_)
    for part, begin, end in within:
        found, values = _score_part(view, part, begin, end)
        at = found - edge
        scores[at] += values
        if part.is_word:
            has_word[at] = True
    union = np.flatnonzero(scores > 0.0)
    return Scored(union + edge, scores[union], has_word[union])


def _pick_chunks(
    connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions, scored: Scored
) -> Chunks:
    """Those that pass the filters, by session and place."""
    found, scores, has_word = scored
    if terms.excluded or where.record:
        kept = _filter_records(connection, view, terms, where, found)
        found, scores, has_word = found[kept], scores[kept], has_word[kept]
    if len(found) and found[-1] >= view.first_late:
        order = _put_late_ones_in(view, found)
        found, scores, has_word = found[order], scores[order], has_word[order]
    tiers = has_word.astype(np.uint8) * WITH_WORD
    if len(terms.terms) == 1:
        tiers |= view.kinds[found] < Kind.CALL
    chunks = Chunks(found, view.sessions[found], scores, tiers)
    if where.session:
        chunks = _filter_sessions(connection, view, chunks, where)
    return _sort_by_session(chunks)


def _put_late_ones_in(view: View, found: Ints) -> Ints:
    """The order of their numbers, which chunks that came late have not: they stand behind all others."""
    count = int(np.searchsorted(found, view.first_late))
    late = view.ids[found[count:]]
    order = np.argsort(late)
    before = np.searchsorted(found[:count], np.searchsorted(view.ids[: view.first_late], late[order]))
    return np.insert(np.arange(count), before, order + count)


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


def _filter_sessions(connection: apsw.Connection, view: View, chunks: Chunks, where: filters.Conditions) -> Chunks:
    """Those in files that pass, and those that are copied by what passes."""
    files = read_numbers(connection, f"SELECT group_concat(id) FROM ({matching.list_files(where)})", where.values)
    numbers = view.ids[chunks.ordinals]
    passing = _take(chunks, np.flatnonzero(np.isin(ids.files_of(numbers), files)))
    shared = np.isin(ids.records_of_chunks(numbers), read_numbers(connection, SHARED))
    if not shared.any():
        return passing
    values = {**where.values, "shared": sqlite.numbers(numbers[shared].tolist())}
    rows = connection.execute(COPIED + matching.copied(where), values).fetchall()
    if not rows:
        return passing
    sessions, copied, _, _, _, places = (np.array(column) for column in zip(*rows, strict=True))
    at = np.searchsorted(numbers, copied)
    copies = _take(chunks, at)._replace(sessions=sessions, places=places)
    passing = passing._replace(places=view.ids[passing.ordinals])
    columns: Any = [np.concatenate(both) for both in zip(*cast(Any, (passing, copies)), strict=True)]
    return _take(Chunks(*columns), np.argsort(columns[-1], kind="stable"))


def _sort_by_session(chunks: Chunks) -> Chunks:
    """In the order of sessions, and of places in each; mostly a session is one file, and in that order already."""
    begins = _find_begins(chunks.sessions)
    sessions = chunks.sessions[begins]
    if np.all(sessions[1:] > sessions[:-1]):
        return chunks
    counts = np.diff(begins, append=len(chunks.sessions))
    order = np.argsort(sessions, kind="stable")
    ends = np.cumsum(counts[order])
    moved = np.repeat(begins[order] - ends + counts[order], counts[order])
    return _take(chunks, np.arange(len(moved)) + moved)


def _find_begins(sessions: NDArray[Any]) -> Ints:
    """Where another session begins."""
    if not len(sessions):
        return NONE
    return np.concatenate(([0], np.flatnonzero(sessions[1:] != sessions[:-1]) + 1))


def _take(chunks: Chunks, at: Ints) -> Chunks:
    columns: Any = (None if column is None else column[at] for column in chunks)
    return Chunks(*columns)


# -- sessions


def _group(chunks: Chunks) -> tuple[Chunks, Sessions]:
    """The sessions of these chunks, and of their chunks those in the best tier that each has: no others count."""
    begins = _find_begins(chunks.sessions)
    if not len(begins):
        return chunks, Sessions(begins, begins, begins, chunks.tiers, chunks.scores)
    ends = np.append(begins[1:], len(chunks.sessions))
    if chunks.tiers.min() == chunks.tiers.max():
        tiers = chunks.tiers[begins]
    else:
        tiers = np.maximum.reduceat(chunks.tiers, begins)
        kept = np.flatnonzero(chunks.tiers == np.repeat(tiers, ends - begins))
        chunks = _take(chunks, kept)
        begins = np.searchsorted(kept, begins)
        ends = np.append(begins[1:], len(kept))
    return chunks, Sessions(chunks.sessions[begins], begins, ends, tiers, np.maximum.reduceat(chunks.scores, begins))


def _nth(values: Floats, count: int) -> float:
    """The largest but so many, or the least there is."""
    return float(np.partition(values, -count)[-count]) if len(values) > count else float(values.min())


class Halves:
    """What the best three chunks of each session count together, and which these are (-1: none): of each when it is asked for."""

    def __init__(self, chunks: Chunks, sessions: Sessions) -> None:
        self._scores, self._begins, self._counts = chunks.scores, sessions.begins, sessions.ends - sessions.begins
        self._values = np.full(len(self._begins), np.nan)
        self._rows = np.full((len(self._begins), len(DAMPED)), -1)
        self.most = np.cumsum(DAMPED)[np.minimum(self._counts, len(DAMPED)) - 1] * sessions.tops  # at most so much

    def list_rows(self, at: Ints) -> Ints:
        """The best three chunks of some sessions."""
        self.measure(at)
        return self._rows[at]

    def measure(self, at: Ints) -> Floats:
        """What those of some sessions count."""
        values = self._values[at]
        missing = at[np.isnan(values)]
        if len(missing):
            self._damp(missing)
            values = self._values[at]
        return values

    def _damp(self, at: Ints) -> None:
        counts = self._counts[at]
        begins = np.cumsum(counts) - counts
        rows = np.arange(counts.sum()) + np.repeat(self._begins[at] - begins, counts)
        scores = self._scores[rows]
        halves = np.zeros(len(at))
        for turn, share in enumerate(DAMPED):
            top = np.maximum.reduceat(scores, begins)
            halves += share * top
            level = np.flatnonzero(scores == np.repeat(np.where(top > 0.0, top, np.inf), counts))
            which = np.searchsorted(begins, level, "right") - 1
            first = np.flatnonzero(np.diff(which, prepend=-1))
            self._rows[at[which[first]], turn] = rows[level[first]]
            scores[level[first]] = 0.0
        self._values[at] = halves


def _score_sessions(view: View, terms: Terms, postings: Mapping[str, Posting]) -> Floats:
    """BM25 of each session as a whole, by its number."""
    places, counted = view.places, view.counted
    norms, weights = view.session_norms, terms.weights
    result = np.zeros(len(places.messages))
    for match, headings in terms.headings.items():
        times = np.zeros(len(result))
        if (posting := postings.get(match)) is not None:
            times += np.bincount(places.session_of[posting.files], posting.messages, len(result))
        for sessions, count in ((headings.titled, TITLE_COUNT), (headings.placed, PLACE_COUNT)):
            times[_numbers(sessions)] += count
        weight = weigh_rarity(counted.sessions, int(np.count_nonzero(times))) * weights[match]
        result += weight * saturate_in_session(times, norms)
    return result

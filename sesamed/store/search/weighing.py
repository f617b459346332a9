"""What chunks count for a question, by posting arrays: those of some files, or all; and which are the best three of each session."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.search import filters, matching
from sesamed.store.search.arrays import NONE, Ints, Posting, find_begins, list_ranges
from sesamed.store.search.ceilings import WEIGHTS, Floats, damp
from sesamed.store.search.packed import read_numbers
from sesamed.store.search.postings import View
from sesamed.store.search.scoring import DAMPED, Matched, saturate_in_chunk
from sesamed.store.search.terms import Terms

Flags = NDArray[np.bool_]

WITH_WORD, SAID = 2, 1  # what a tier is made of
# Chunks: what is computed of them stays in a core's cache, and no memory has to be given back and taken again.
AT_ONCE = 1 << 15
SPARSE = 80  # with fewer than one of so many chunks, those that match are sorted instead of laid out
RECORDS = "SELECT group_concat(r.id) FROM carray(:records) one CROSS JOIN records r ON r.id = one.value WHERE {passing}"
SHARED = "SELECT group_concat(DISTINCT record) FROM copies"
COPIED = "WITH w(chunk, score, has_word) AS MATERIALIZED (SELECT value, 0.0, 0 FROM carray(:shared)) "


class Part(NamedTuple):
    """A pattern of a question: where it is, what it is worth, and whether it is a word of the query, and not only a part of one."""

    posting: Posting
    edges: Ints  # of its files
    idf: float
    is_word: bool

    def list_rows(self, files: Ints) -> tuple[Any, Ints, Ints]:
        """The rows of its posting that are in these files; in which of them, and how many in each."""
        known = self.posting.files
        at = np.searchsorted(known, files)
        which = np.flatnonzero(known[np.minimum(at, len(known) - 1)] == files) if len(known) else NONE
        at = at[which]
        begins = self.edges[at]
        counts = self.edges[at + 1] - begins
        if len(at) and at[-1] - at[0] + 1 == len(at):
            return slice(begins[0], begins[-1] + counts[-1]), which, counts
        return list_ranges(begins, counts), which, counts

    def score(self, view: View, rows: Any) -> tuple[Ints, Floats]:
        """The chunks in some rows of it that live, and what they are worth for it."""
        found = self.posting.ordinals[rows].astype(np.int64)
        scores = self.weigh(rows, view.norms[view.lengths[found]])
        if view.is_dead is not None and self.posting.dead:
            live = ~view.is_dead[found]
            return found[live], scores[live]
        return found, scores

    def weigh(self, rows: Any, norms: Floats) -> Floats:
        """What these rows are worth for it, in chunks of these norms."""
        scores: Floats = saturate_in_chunk(self.posting.times[rows], norms)
        scores *= self.idf
        return scores


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


# -- scores


def score_all(view: View, parts: Sequence[Part]) -> Scored:
    """All chunks that have a pattern, weighed by kind."""
    return _join(view, _list_all(view, parts))


def score_files(view: View, parts: Sequence[Part], files: Ints) -> Scored:
    """The same of the chunks of these files."""
    return _join(view, _list_some(view, parts, files))


def _join(view: View, scored: Iterable[Scored]) -> Scored:
    some = [_weigh(view, one) for one in scored]
    if len(some) == 1:
        return some[0]
    columns: Any = (np.concatenate(column) for column in zip(*some, strict=True))
    return Scored(*columns) if some else Scored(NONE, np.empty(0), np.empty(0, np.bool_))


def _weigh(view: View, scored: Scored) -> Scored:
    np.multiply(scored.scores, WEIGHTS[view.kinds[scored.ordinals]], out=scored.scores)
    return scored


def _list_all(view: View, parts: Sequence[Part]) -> Iterator[Scored]:
    """The chunks, some after the other: what is computed of so many at a time stays in a core's cache."""
    if len(parts) == 1:
        for begin in range(0, len(parts[0].posting.ordinals), AT_ONCE):
            yield _score_one(view, parts[0], slice(begin, begin + AT_ONCE))
    elif parts and sum(part.posting.chunks for part in parts) * SPARSE < len(view.ids):
        yield _sort_up(view, parts)
    else:
        edges = range(0, view.first_late + AT_ONCE, AT_ONCE)
        bounds = [
            np.searchsorted(part.posting.ordinals, np.array(edges, part.posting.ordinals.dtype)).tolist()
            for part in parts
        ]
        for turn, edge in enumerate(edges[:-1]):
            laid = _Laid(AT_ONCE, parts)
            for part, bound in zip(parts, bounds, strict=True):
                found, scores = part.score(view, slice(bound[turn], bound[turn + 1]))
                laid.add(part, found - edge, scores)
            yield laid.list_found(np.arange(edge, edge + AT_ONCE))
    yield from _list_late(view, parts, view.late)


def _sort_up(view: View, parts: Sequence[Part]) -> Scored:
    """Few chunks with several patterns: they are brought into order."""
    scored = [part.score(view, slice(None)) for part in parts]
    union, at = np.unique(np.concatenate([found for found, _ in scored]), return_inverse=True)
    scores: Floats = np.bincount(at, np.concatenate([values for _, values in scored]), len(union)).astype(
        np.float64, copy=False
    )
    are_words = np.repeat([part.is_word for part in parts], [len(found) for found, _ in scored])
    return Scored(union, scores, np.bincount(at, are_words, len(union)) > 0)


def _list_some(view: View, parts: Sequence[Part], files: Ints) -> Iterator[Scored]:
    """Some files after the other, and then what came late."""
    if len(parts) == 1:
        yield _score_one(view, parts[0], parts[0].list_rows(files)[0])
    else:
        first, counts = view.list_first(files)
        edges = find_begins(np.cumsum(counts) // AT_ONCE)
        for begin, end in pairwise([*edges.tolist(), len(files)]):
            yield _add_up(view, parts, files[begin:end], first[begin:end], counts[begin:end])
    if len(view.late):
        yield from _list_late(view, parts, view.late[np.isin(ids.files_of(view.ids[view.late]), files)])


def _score_one(view: View, part: Part, rows: Any) -> Scored:
    """The chunks with the only pattern."""
    found, scores = part.score(view, rows)
    return Scored(found, scores, np.full(len(found), part.is_word))


def _add_up(view: View, parts: Sequence[Part], files: Ints, first: Ints, counts: Ints) -> Scored:
    """The same of several: the chunks of these files are laid out, whether they match or not."""
    ordinals = list_ranges(first, counts)
    before = np.cumsum(counts) - counts - first
    norms, laid = view.norms[view.lengths[ordinals]], _Laid(len(ordinals), parts)
    for part in parts:
        rows, which, held = part.list_rows(files)
        at = part.posting.ordinals[rows] + np.repeat(before[which], held)
        laid.add(part, at, part.weigh(rows, norms[at]))
    if view.is_dead is not None:
        laid.drop(view.is_dead[ordinals])
    return laid.list_found(ordinals)


def _list_late(view: View, parts: Sequence[Part], late: Ints) -> Iterator[Scored]:
    """The same of chunks that came late, which are not where their numbers say."""
    if not any(len(part.posting.late.ordinals) for part in parts):
        return
    late = np.sort(late)
    norms, laid = view.norms[view.lengths[late]], _Laid(len(late), parts)
    for part in parts:
        found, times = part.posting.late
        here = np.flatnonzero(np.isin(found, late))
        at = np.searchsorted(late, found[here])
        laid.add(part, at, part.idf * saturate_in_chunk(times[here], norms[at]))
    yield laid.list_found(late)


class _Laid:
    """So many chunks side by side, to which patterns are added."""

    def __init__(self, count: int, parts: Iterable[Part]) -> None:
        self._scores, self._are_words = np.zeros(count), all(part.is_word for part in parts)
        self._has_word = np.full(count, self._are_words)

    def add(self, part: Part, at: Ints, scores: Floats) -> None:
        """What some of them are worth for a pattern."""
        self._scores[at] += scores
        if part.is_word and not self._are_words:
            self._has_word[at] = True

    def drop(self, which: Any) -> None:
        """These are dead."""
        self._scores[which] = 0.0

    def list_found(self, ordinals: Ints) -> Scored:
        """Those that match, if they are these."""
        at = np.flatnonzero(self._scores > 0.0)
        return Scored(ordinals[at], self._scores[at], self._has_word[at])


# -- which of them pass, and count for whom


def pick_chunks(
    connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions, scored: Scored
) -> Chunks:
    """Those that pass the filters, by session and place."""
    found, scores, has_word = scored
    if terms.excluded or where.record:
        kept = _filter_records(connection, view, terms, where, found)
        found, scores, has_word = found[kept], scores[kept], has_word[kept]
    chunks = pick_all(view, terms, Scored(found, scores, has_word))
    if where.session:
        chunks = _sort_by_session(_filter_sessions(connection, view, chunks, where))
    return chunks


def pick_all(view: View, terms: Terms, scored: Scored) -> Chunks:
    """All of them, by session and place."""
    found, scores, has_word = scored
    if len(found) and found[-1] >= view.first_late:
        order = _put_late_ones_in(view, found)
        found, scores, has_word = found[order], scores[order], has_word[order]
    tiers = has_word.astype(np.uint8) * WITH_WORD
    if len(terms.terms) == 1:
        tiers |= view.kinds[found] < Kind.CALL
    return _sort_by_session(Chunks(found, view.sessions[found], scores, tiers))


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


def list_passing(connection: apsw.Connection, where: filters.Conditions) -> Ints:
    """The files of sessions that pass."""
    return read_numbers(connection, f"SELECT group_concat(id) FROM ({matching.list_files(where)})", where.values)


def _filter_sessions(connection: apsw.Connection, view: View, chunks: Chunks, where: filters.Conditions) -> Chunks:
    """Those in files that pass, and those that are copied by what passes."""
    numbers = view.ids[chunks.ordinals]
    passing = _take(chunks, np.flatnonzero(np.isin(ids.files_of(numbers), list_passing(connection, where))))
    shared = np.isin(ids.records_of_chunks(numbers), read_numbers(connection, SHARED))
    if not shared.any():
        return passing
    values = {**where.values, "shared": sqlite.numbers(numbers[shared].tolist())}
    rows = connection.execute(COPIED + matching.copied(where), values).fetchall()
    if not rows:
        return passing
    order = np.argsort(numbers)
    sessions, copied, _, _, _, places = (np.array(column) for column in zip(*rows, strict=True))
    at = order[np.searchsorted(numbers, copied, sorter=order)]
    copies = _take(chunks, at)._replace(sessions=sessions, places=places)
    passing = passing._replace(places=view.ids[passing.ordinals])
    columns: Any = [np.concatenate(both) for both in zip(*cast(Any, (passing, copies)), strict=True)]
    return _take(Chunks(*columns), np.argsort(columns[-1], kind="stable"))


def _sort_by_session(chunks: Chunks) -> Chunks:
    """In the order of sessions, and of places in each; mostly a session is one file, and in that order already."""
    begins = find_begins(chunks.sessions)
    sessions = chunks.sessions[begins]
    if np.all(sessions[1:] > sessions[:-1]):
        return chunks
    counts = np.diff(begins, append=len(chunks.sessions))
    order = np.argsort(sessions, kind="stable")
    return _take(chunks, list_ranges(begins[order], counts[order]))


def _take(chunks: Chunks, at: Ints) -> Chunks:
    columns: Any = (None if column is None else column[at] for column in chunks)
    return Chunks(*columns)


# -- by session


class Grouped:
    """Chunks by the sessions that they count for: of each session those in the best tier that it has, as no others count."""

    def __init__(self, view: View, chunks: Chunks) -> None:
        self._view = view
        begins = find_begins(chunks.sessions)
        self.tiers = np.maximum.reduceat(chunks.tiers, begins) if len(begins) else chunks.tiers
        if len(begins) and chunks.tiers.min() != chunks.tiers.max():
            counts = np.diff(begins, append=len(chunks.sessions))
            kept = np.flatnonzero(chunks.tiers == np.repeat(self.tiers, counts))
            chunks, begins = _take(chunks, kept), np.searchsorted(kept, begins)
        self._chunks, self._begins = chunks, begins
        self._counts = np.diff(begins, append=len(chunks.sessions))
        self.numbers: Ints = chunks.sessions[begins].astype(np.int64)
        tops = np.maximum.reduceat(chunks.scores, begins) if len(begins) else chunks.scores
        self.most: Floats = np.cumsum(DAMPED)[np.minimum(self._counts, len(DAMPED)) - 1] * tops  # at most so much
        self._values = np.full(len(begins), np.nan)
        self._rows = np.full((len(begins), len(DAMPED)), -1)

    def measure(self, at: Ints) -> Floats:
        """What the best three chunks of some sessions count together: of each when it is asked for."""
        missing = at[np.isnan(self._values[at])]
        if len(missing):
            counts = self._counts[missing]
            rows = list_ranges(self._begins[missing], counts)
            self._values[missing], best = damp(self._chunks.scores[rows], np.cumsum(counts) - counts)
            self._rows[missing] = np.where(best < 0, -1, rows[best])
        return self._values[at]

    def look_at_all(self) -> None:
        """They are."""

    def list_chunks(self, at: Ints) -> dict[int, list[Matched]]:
        """The best chunks of these sessions; and of one in several files all that are as good as the first, if there are so many."""
        self.measure(at)
        rows, scores = self._rows[at], self._chunks.scores
        found = dict[int, list[Matched]]()
        for chunk in self._list_rows(rows[rows >= 0]):
            found.setdefault(chunk.session, []).append(chunk)
        first, last = self._begins[at], self._begins[at] + self._counts[at] - 1
        several = ids.files_of(self._list_places(first)) != ids.files_of(self._list_places(last))
        level = (rows[:, -1] >= 0) & (scores[rows[:, -1]] == scores[rows[:, 0]])
        for one in np.flatnonzero(several & level).tolist():
            within, best = np.arange(first[one], last[one] + 1), rows[one, 0]
            found[int(self.numbers[at[one]])] = self._list_rows(within[scores[within] == scores[best]])
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

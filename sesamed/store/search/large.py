"""What matches a question whose words are in very many chunks, by posting arrays: the same as `matching` finds by statements, chunk by
chunk and session by session; a property test compares them.

Nothing is left out, but not everything is scored. What the chunks of a session can count at most is known of each pattern (`ceilings`),
and what it counts as a whole exactly; so chunks are only scored of sessions that may be among those that are wanted.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store.ids import files_of
from sesamed.store.search import filters, matching
from sesamed.store.search.arrays import Ints, Posting
from sesamed.store.search.ceilings import Floats
from sesamed.store.search.matching import Best
from sesamed.store.search.postings import View
from sesamed.store.search.scoring import (
    MESSAGES_FIRST,
    PLACE_COUNT,
    SESSION_SHARE,
    TITLE_COUNT,
    Matched,
    Naming,
    saturate_in_session,
)
from sesamed.store.search.shown import are_few
from sesamed.store.search.terms import Terms, find_stems, weigh_rarity
from sesamed.store.search.weighing import (
    SAID,
    WITH_WORD,
    Flags,
    Grouped,
    Part,
    Scored,
    list_passing,
    pick_all,
    pick_chunks,
    score_all,
    score_files,
)

ABOVE = 1000.0  # far more than any score
FEW = 50  # sessions, of which one may be the best
# Of the sessions that may count most, so many times as are wanted are scored at first, and then so many times as before: the more are
# scored, the fewer of the others may be better.
FIRST, MORE = 2, 3
GUESSED = 1.3  # how much more sessions may count by their ceilings than the best does
# What scoring costs, about: all of some places, and of chunks that are laid out, by themselves and for each pattern; and only some of them.
PLACE_NS, LAID_NS, AGAIN_NS, LOOK_NS, PART_NS = 5.0, 2.0, 0.3, 500_000, 300_000
SPARSE = 6  # with more than one of so many sessions to score, all are scored
MARGIN = 1e-9  # of a score: what is so near to the last of the best is among them


class Candidates(Protocol):
    """The sessions that match: by their numbers the best tier that each has, and what its chunks count at most."""

    numbers: Ints
    tiers: NDArray[np.uint8]
    most: Floats

    def measure(self, at: Ints) -> Floats:
        """What the best three chunks of some of them count together."""

    def list_chunks(self, at: Ints) -> dict[int, list[Matched]]:
        """These chunks."""

    def look_at_all(self) -> None:
        """Very many will be asked for: `most` may be less then."""


class ManyMatches:
    """What matches, by posting arrays."""

    def __init__(self, connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions) -> None:
        postings = {
            pattern.match: view.find(connection, pattern.match, find_stems(connection, pattern.match))
            for pattern in terms.patterns
        }
        self._whole = _score_sessions(view, terms, postings)
        self._sessions = _find_candidates(connection, view, terms, where, _list_parts(view, terms, postings))
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
        said = sessions.tiers % 2 == SAID
        of_called = [float(self._whole[one]) for one in called if not has_word or one in naming.headed]
        most_whole = max([*of_called, float(whole[measures].max(initial=0.0))]) or 1.0
        rest = SESSION_SHARE * whole / most_whole + MESSAGES_FIRST * said + ABOVE * with_word
        measured = measures if measures.any() else ~measures
        measured = measured & said if (measured & said).any() else measured
        self._measure_first(count, measured, rest)
        best, halves = self._find_best(measured)
        most = halves.max()
        chosen = self._choose(count, most, rest)
        chosen |= np.isin(sessions.numbers, _numbers(naming.titled))
        chosen[best[halves == most]] = True
        chosen[np.argmax(np.where(measures, whole, -1.0))] = True
        at = np.flatnonzero(chosen)
        shown = [*sessions.numbers[at].tolist(), *called]
        of_shown = dict(zip(shown, self._whole[shown].tolist(), strict=True))
        return Best(sessions.list_chunks(at), of_shown, is_all=len(at) == len(whole))

    def _measure_first(self, count: int, measured: Flags, rest: Floats) -> None:
        """Those that will be asked for, as far as that can be told yet: one look costs less than several."""
        most = np.where(measured, self._sessions.most, 0.0)
        guess = GUESSED * self._sessions.most / most.max() + rest
        self._sessions.measure(np.flatnonzero((most >= _nth(most, FEW)) | (guess >= _nth(guess, FIRST * count))))

    def _find_best(self, measured: Flags) -> tuple[Ints, Floats]:
        """Those by which chunks are measured, among which the best are, and what they count."""
        most = self._sessions.most
        first = np.flatnonzero(measured & (most >= _nth(most[measured], FEW)))
        bound = self._sessions.measure(first).max()
        best = np.flatnonzero(measured & (most >= bound - MARGIN))
        return best, self._sessions.measure(best)

    def _choose(self, count: int, most: float, rest: Floats) -> Flags:
        """At least so many of the best, by their chunks, of which the best counts `most`, and by the rest. What the chunks of a session
        count is only asked for where it may be one of them."""
        if are_few(len(rest), count):
            return np.ones(len(rest), np.bool_)
        ceiling = self._sessions.most / most + rest
        looked_at = FIRST * count
        near = np.flatnonzero(ceiling >= _nth(ceiling, looked_at))
        while True:
            scores = self._score(near, most, rest)
            bound = _nth(scores, count) - MARGIN
            within = np.flatnonzero(ceiling >= bound)
            if len(within) <= len(near):
                break
            if len(within) * SPARSE > len(rest):
                self._sessions.look_at_all()
                ceiling = self._sessions.most / most + rest
                within = np.flatnonzero(ceiling >= bound)
            looked_at *= MORE
            near = within[ceiling[within] >= _nth(ceiling[within], looked_at)]
        chosen = np.zeros(len(rest), np.bool_)
        chosen[near[scores >= _nth(scores, count) - MARGIN]] = True
        return chosen

    def _score(self, at: Ints, most: float, rest: Floats) -> Floats:
        scores: Floats = self._sessions.measure(at) / most + rest[at]
        return scores


def _numbers(sessions: Iterable[int]) -> Ints:
    return np.fromiter(sessions, np.int64)


def _nth(values: Floats, count: int) -> float:
    """The largest but so many, or the least there is."""
    return float(np.partition(values, -count)[-count]) if len(values) > count else float(values.min())


# -- chunks


def _list_parts(view: View, terms: Terms, postings: Mapping[str, Posting]) -> list[Part]:
    """The patterns that are anywhere."""
    words, weights = matching.whole_words(terms), terms.weights
    return [
        Part(
            posting, posting.edges, weigh_rarity(view.counted.chunks, posting.chunks) * weights[match], match in words
        )
        for match, posting in postings.items()
        if posting.chunks
    ]  # fmt: skip


def _find_candidates(
    connection: apsw.Connection, view: View, terms: Terms, where: filters.Conditions, parts: list[Part]
) -> Candidates:
    """The sessions that match. What passes is a question of each chunk where records are filtered, and where some are shared."""
    is_of_chunks = terms.excluded or where.record or (where.session and matching.has_copies(connection))
    if is_of_chunks or _is_quick(view, parts):
        return Grouped(view, pick_chunks(connection, view, terms, where, score_all(view, parts)))
    passing = list_passing(connection, where) if where.session else None
    return Bounded(view, terms, parts, passing)


def _is_quick(view: View, parts: list[Part]) -> bool:
    """Whether all chunks are scored as quickly as ceilings are added up and some of them are scored. With several patterns all chunks are
    laid out."""
    laid = len(view.ids) if len(parts) > 1 else 0
    places = sum(part.posting.chunks for part in parts)
    return PLACE_NS * places + (LAID_NS + AGAIN_NS * len(parts)) * laid <= LOOK_NS + PART_NS * len(parts)


class Bounded:
    """Sessions of which all chunks count that have a pattern: these are scored of each session when it is asked for."""

    def __init__(self, view: View, terms: Terms, parts: list[Part], passing: Ints | None) -> None:
        self._view, self._terms, self._parts = view, terms, parts
        self._files = np.ones(len(view.places.session_of), np.bool_)
        if passing is not None:
            self._files[:] = False
            self._files[passing[passing < len(self._files)]] = True
        self.numbers, self.tiers, self.most = self._bound()
        self._values = np.full(len(self.numbers), np.nan)
        self._all: Grouped | None = None
        self._looks, self._which, self._at = list[Grouped](), np.zeros_like(self.numbers), np.zeros_like(self.numbers)

    def _bound(self) -> tuple[Ints, NDArray[np.uint8], Floats]:
        count, one_word = len(self._view.places.messages), len(self._terms.terms) == 1
        most, most_said, tiers = np.zeros(count), np.zeros(count), np.zeros(count, np.uint8)
        matches = np.zeros(count, np.bool_)
        # A part of a word is in no higher tier than a word.
        for part in sorted(self._parts, key=lambda one: one.is_word):
            at = np.flatnonzero(self._files[part.posting.files] & (part.posting.most > 0.0))  # else all are dead
            sessions = self._view.places.session_of[part.posting.files[at]]
            matches[sessions] = True
            most += np.bincount(sessions, part.idf * part.posting.most[at].astype(np.float64), count)
            if part.is_word:
                tiers[sessions] = np.maximum(tiers[sessions], WITH_WORD)
            if one_word:
                said = part.posting.most_said[at].astype(np.float64)
                most_said += np.bincount(sessions, part.idf * said, count)
                tiers[sessions[said > 0.0]] = WITH_WORD + SAID if part.is_word else SAID
        numbers = np.flatnonzero(matches)
        tiers = tiers[numbers]
        return numbers, tiers, self._view.slack * np.where(tiers % 2 == SAID, most_said[numbers], most[numbers])

    def measure(self, at: Ints) -> Floats:
        """What the best three chunks of some sessions count together."""
        missing = at[np.isnan(self._values[at])]
        if len(missing) * SPARSE > len(self.numbers):
            self.look_at_all()
        if self._all is not None:
            return self._all.measure(at)
        if len(missing):
            look = self._look(self.numbers[missing])
            self._which[missing], self._at[missing] = len(self._looks), np.arange(len(missing))
            self._values[missing] = look.measure(np.arange(len(missing)))
            self._looks.append(look)
        return self._values[at]

    def _look(self, sessions: Ints) -> Grouped:
        wanted = np.zeros(len(self._view.places.messages), np.bool_)
        wanted[sessions] = True
        files = np.flatnonzero(wanted[self._view.places.session_of] & self._files)
        return Grouped(self._view, pick_all(self._view, self._terms, score_files(self._view, self._parts, files)))

    def look_at_all(self) -> None:
        """To score all is quicker than so many of them."""
        if self._all is None:
            scored = score_all(self._view, self._parts)
            if not self._files.all():
                kept = self._files[files_of(self._view.ids[scored.ordinals])]
                scored = Scored(*(column[kept] for column in scored))
            self._all = Grouped(self._view, pick_all(self._view, self._terms, scored))
            self.most = np.minimum(self.most, self._all.most)

    def list_chunks(self, at: Ints) -> dict[int, list[Matched]]:
        """The best chunks of these sessions."""
        self.measure(at)
        if self._all is not None:
            return self._all.list_chunks(at)
        found = dict[int, list[Matched]]()
        for turn in np.unique(self._which[at]).tolist():
            found |= self._looks[turn].list_chunks(self._at[at[self._which[at] == turn]])
        return found


# -- sessions as a whole


def _score_sessions(view: View, terms: Terms, postings: Mapping[str, Posting]) -> Floats:
    """BM25 of each session, by its number."""
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

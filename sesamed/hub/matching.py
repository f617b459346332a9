"""What matches in a hub: the messages with each pattern, the rarest first, and what each session is worth by the score of the index
(`store.search.scoring`).
"""

import heapq
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from sesamed.hub.conditions import Conditions
from sesamed.hub.sessions import bind_keys, find_shown, read_unread
from sesamed.hub.words import CollectingTermMaker, HubTermMaker, Known, Sessions, join_any
from sesamed.store.ids import Kind
from sesamed.store.search import scoring
from sesamed.store.search.scoring import KIND_WEIGHTS, Matched
from sesamed.store.search.shown import Found, fold_enough, take_best
from sesamed.store.search.terms import Pattern, Query, Terms, expand_with
from sesamed.store.sqlite import Connection as Tokenizing

if TYPE_CHECKING:
    from sesamed.hub.question import Question

MOST_SCANNED = 15_000  # messages with a word: of all words but the rarest together
MOST_OF_ONE = 20_000
CANDIDATES = 300  # messages in which common words are looked for
LENGTH_BITS, KIND_BITS = 20, 4
MOST_WORDS = (1 << LENGTH_BITS) - 1

KIND = f"""CASE WHEN v.kind <> 'message' THEN {Kind.CALL:d} WHEN v.role = 'user' THEN {Kind.USER:d}
    WHEN v.role = 'summary' THEN {Kind.SUMMARY:d} WHEN v.role = 'custom' THEN {Kind.CUSTOM:d} ELSE {Kind.ASSISTANT:d} END"""
PLACE = (
    f"(v.msg_idx::bigint << {LENGTH_BITS + KIND_BITS}) | (least(v.words, {MOST_WORDS})::bigint << {KIND_BITS}) | {KIND}"
)
OF_SESSION = """EXISTS(SELECT 1 FROM sesame.hub_sessions s WHERE s.owner = v.owner AND s.workstation_id = v.workstation_id
    AND s.composite_key = v.composite_key AND ({session}))"""
SCAN = f"""
    SELECT v.owner, v.workstation_id, v.composite_key, array_agg(v.place), array_agg(v.record_key) FROM (
      SELECT v.owner, v.workstation_id, v.composite_key, v.record_key, {PLACE} AS place
      FROM sesame.hub_vectors v WHERE {{matching}} LIMIT %(most)s) v
    GROUP BY 1, 2, 3
"""
WEIGHED = """
    SELECT k.n, ARRAY(SELECT q.n FROM unnest(%(common)s::text[]) WITH ORDINALITY AS q(query, n) WHERE v.vector @@ q.query::tsquery),
      l.lexemes, l.times
    FROM unnest(%(owners)s::text[], %(workstations)s::text[], %(keys)s::text[], %(numbers)s::integer[]) WITH ORDINALITY
      AS k(owner, workstation_id, composite_key, msg_idx, n)
    JOIN sesame.hub_vectors v USING (owner, workstation_id, composite_key, msg_idx)
    CROSS JOIN LATERAL (SELECT array_agg(l.lexeme) AS lexemes, array_agg(cardinality(l.positions)) AS times
      FROM unnest(v.vector) AS l WHERE l.lexeme = ANY(%(lexemes)s)) AS l
"""


class Ranked(NamedTuple):
    """The first hits; how many there are, or, unless that is exact, at least; the best; the sessions by their numbers, and each chunk's
    place."""

    hits: list[Found]
    total: int
    is_exact: bool
    best: Found | None
    sessions: list[Known]
    places: list[tuple[int, int]]  # of a chunk: its session, and its number in it


class Row:
    """A message that matches. There are tens of thousands of them in an answer: what can be done once for each is."""

    __slots__ = ("patterns", "place", "score", "times")

    def __init__(self, place: int, pattern: int) -> None:
        self.place = place
        self.patterns = [pattern]
        self.times: Mapping[int, int] | None = None  # how often each is in it, where that was asked
        self.score = 0.0

    @property
    def number(self) -> int:
        """Its number in its session."""
        return self.place >> (LENGTH_BITS + KIND_BITS)

    @property
    def kind(self) -> int:
        """What it is."""
        return self.place & ((1 << KIND_BITS) - 1)

    @property
    def words(self) -> int:
        """How long it is."""
        return self.place >> KIND_BITS & MOST_WORDS


class Matching:
    """The messages that match, by session and number."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.rows: dict[int, dict[int, Row]] = {}
        self._first: dict[
            int, tuple[int, int]
        ] = {}  # of a record: the session that it was found in first, and its number there
        self._copies: dict[
            int, dict[int, int]
        ] = {}  # of one that others have, too: all of them, with its number in each

    def add(self, pattern: int, found: list[tuple[Any, ...]]) -> None:
        """What a scan has found."""
        for *who, places, records in found:
            session = self._sessions.number(Known(*who))
            rows = self.rows.setdefault(session, {})
            for place, record in zip(places, records, strict=True):
                number = place >> (LENGTH_BITS + KIND_BITS)
                if (row := rows.get(number)) is not None:
                    row.patterns.append(pattern)
                    continue
                rows[number] = Row(place, pattern)
                if self._first.setdefault(record, (session, number))[0] == session and record not in self._copies:
                    self._first[record] = (session, number)
                else:
                    self._note_copy(record, session, number)

    def _note_copy(self, record: int, session: int, number: int) -> None:
        first, its_number = self._first[record]
        self._copies.setdefault(record, {first: its_number})[session] = number

    def leave_out(self, found: list[tuple[Any, ...]]) -> set[int]:
        """Without what these contain; gives the sessions in which it was said."""
        without = set[int]()
        for *who, places, _ in found:
            session = self._sessions.number(Known(*who))
            for place in places:
                row = self.rows.get(session, {}).pop(place >> (LENGTH_BITS + KIND_BITS), None)
                if (row or Row(place, 0)).kind < Kind.CALL:
                    without.add(session)
        return without

    def drop(self, sessions: Iterable[int]) -> None:
        """Without all of these."""
        for session in sessions:
            self.rows.pop(session, None)

    def drop_copies(self, role: str) -> set[tuple[int, int]]:
        """What several sessions hold is the asker's own, and the earliest one's; gives the others, with whose theirs is. Keys and times
        are what others have written: their rows never stand before one's own."""
        known, copied = self._sessions.known, set[tuple[int, int]]()
        for holders in self._copies.values():
            there = [session for session, number in holders.items() if number in self.rows.get(session, ())]
            there.sort(key=lambda one: (known[one].owner != role, known[one].created_s, known[one][:3]))
            for session in there[1:]:
                del self.rows[session][holders[session]]
                copied.add((session, there[0]))
        self.rows = {session: rows for session, rows in self.rows.items() if rows}
        return copied

    def count(self) -> dict[int, dict[int, int]]:
        """In how many messages of each session each pattern is."""
        counted: dict[int, dict[int, int]] = {}
        for session, rows in self.rows.items():
            for row in rows.values():
                if row.kind < Kind.CALL:
                    for pattern in row.patterns:
                        of_pattern = counted.setdefault(pattern, {})
                        of_pattern[session] = of_pattern.get(session, 0) + 1
        return counted


class Search:
    """One search of a hub."""

    def __init__(self, question: "Question", tokenizing: Tokenizing, query: Query, where: Conditions) -> None:
        self._question = question
        self._where = where
        collecting = CollectingTermMaker(tokenizing)
        expand_with(collecting, query)
        self._maker = HubTermMaker(question, tokenizing, where, list(collecting.matches))
        self.terms = expand_with(self._maker, query)
        self._patterns = {pattern.match: number for number, pattern in enumerate(self.terms.patterns)}
        self._once: dict[int, float] = {}  # what a pattern counts that is once in a message of this length
        self._idfs = [self.terms.weigh_pattern(pattern) for pattern in self.terms.patterns]

    def rank(self, limit: int, *, recent: bool) -> Ranked:
        """The sessions that match best."""
        terms, sessions = self.terms, self._maker.sessions
        scanned, common = _choose(terms)
        matching = self._match(scanned)
        without = self._leave_out(matching)
        matching.drop(read_unread(self._question, sessions))
        copied = matching.drop_copies(self._question.role)
        self._look_closely(matching, scanned, common)
        said = {terms.patterns[number].match: times.items() for number, times in matching.count().items()}
        messages = {number: known.messages for number, known in enumerate(sessions.known)}
        naming = scoring.name_sessions(terms, partial(_choose_titled, sessions))
        counted = scoring.count_patterns(terms, said)
        whole = scoring.score_sessions(self.terms, counted, messages, self._question.sessions, self._question.said)
        places, chunks = self._list_chunks(matching)
        best_of = scoring.choose_chunks(chunks, terms)
        named = {session for session in naming.first_named - without if sessions.known[session].passes}
        called = set[int]() if self._where.message != "true" else named - best_of.keys()
        titled = naming.titled
        called -= {fork for fork, owner in copied if titled.get(owner, 0.0) >= titled.get(fork, 0.0)}
        measure_fit = partial(self._measure_fit, matching, places)
        scored = scoring.put_parts_last(scoring.fuse(best_of, called, naming, whole, terms, measure_fit))
        shown = partial(find_shown, self._question, sessions, folds=self._where.folds)
        found, is_complete = fold_enough(partial(take_best, scored), limit, shown, recent=recent)
        is_whole = not common and all(pattern.chunks < MOST_OF_ONE for pattern in scanned)
        is_exact = is_complete and is_whole and naming.first_named == naming.named
        best = max(found, key=lambda one: one.score, default=None)
        return Ranked(found[:limit], len(found), is_exact, best, sessions.known, places)

    @property
    def lexemes(self) -> set[str]:
        """All words that are searched, as the hub has them."""
        asked = self._maker.translator.translate(self._patterns)
        return {lexeme for match in self._patterns for word in asked[match].lexemes for lexeme in word}

    def _match(self, patterns: list[Pattern]) -> Matching:
        matching = Matching(self._maker.sessions)
        translated = self._maker.translator.translate(pattern.match for pattern in patterns)
        queries = [translated[pattern.match].said for pattern in patterns]
        for pattern, rows in zip(patterns, self._scan(queries, self._where), strict=True):
            matching.add(self._patterns[pattern.match], rows)
        return matching

    def _scan(self, queries: list[str], where: Conditions) -> list[list[tuple[Any, ...]]]:
        parts = [where.message]
        if where.session != "true":
            parts.append(OF_SESSION.format(session=where.session))
        statement = SCAN.format(matching=" AND ".join(f"({part})" for part in parts))
        return self._question.search(queries, statement, {**where.values, "most": MOST_OF_ONE})

    def _leave_out(self, matching: Matching) -> set[int]:
        """Without sessions in which what is excluded was said, or that are called so, and calls that contain it."""
        if not self.terms.excluded:
            return set()
        translated = self._maker.translator.translate(self.terms.excluded)
        query = join_any(translated[match].said for match in self.terms.excluded)
        without = set[int]()
        for rows in self._scan([query], self._where._replace(message="true")):
            without |= matching.leave_out(rows)
        for match in self.terms.excluded:
            without |= frozenset[int]().union(*self._maker.headings(match))
        matching.drop(without)
        return without

    def _look_closely(self, matching: Matching, scanned: list[Pattern], common: list[Pattern]) -> None:
        """How often the words are in the best messages, by what is known so far, and which common words they have."""
        every = [(session, row) for session, rows in matching.rows.items() for row in rows.values()]
        for _, row in every:
            row.score = self._score_row(row)
        best = heapq.nlargest(CANDIDATES, every, key=lambda one: one[1].score)
        if not best:
            return
        known = [self._maker.sessions.known[session] for session, _ in best]
        translated = self._maker.translator.translate(self._patterns)
        of_patterns = [translated[match].lexemes for match in self._patterns]
        values = {
            **bind_keys(known),
            "numbers": [row.number for _, row in best],
            "common": [translated[pattern.match].said for pattern in common],
            "lexemes": sorted(self.lexemes),
        }
        query = join_any(translated[pattern.match].said for pattern in scanned)
        for n, held, lexemes, times in self._question.search([query], WEIGHED, values)[0]:
            row = best[n - 1][1]
            row.patterns += [self._patterns[common[at - 1].match] for at in held]
            counts = dict(zip(lexemes or (), times or (), strict=True))
            each = {
                pattern: [sum(counts.get(lexeme, 0) for lexeme in word) for word in of_patterns[pattern]]
                for pattern in row.patterns
            }
            row.times = {pattern: max(1, min(some, default=1)) for pattern, some in each.items()}
            row.score = self._score_row(row)

    def _score_row(self, row: Row) -> float:
        weight, words = KIND_WEIGHTS.get(row.kind, 1.0), row.words
        if row.times is not None:
            patterns = [(self._idfs[pattern], row.times[pattern]) for pattern in row.patterns]
            return weight * scoring.score_chunk(patterns, words, self._question.average_words)
        if (once := self._once.get(words)) is None:
            once = self._once[words] = scoring.score_chunk([(1.0, 1)], words, self._question.average_words)
        return weight * sum([self._idfs[pattern] * once for pattern in row.patterns])

    def _list_chunks(self, matching: Matching) -> tuple[list[tuple[int, int]], list[Matched]]:
        """The messages as candidates, and the places that their numbers mean."""
        wholes = {pattern.match for term in self.terms.terms for pattern in term.wholes}
        whole = {number for match, number in self._patterns.items() if match in wholes}
        places, chunks = list[tuple[int, int]](), list[Matched]()
        for session, rows in matching.rows.items():
            for number, row in rows.items():
                has_word = not whole.isdisjoint(row.patterns)
                chunks.append(Matched(session, len(places), row.score, row.kind < Kind.CALL, has_word, number))
                places.append((session, number))
        return places, chunks

    def _measure_fit(self, matching: Matching, places: list[tuple[int, int]], chunks: Iterable[int]) -> float:
        """How much of the question is in one of these, at most."""
        shares: Mapping[int, frozenset[int]] = {
            chunk: frozenset(matching.rows[places[chunk][0]][places[chunk][1]].patterns) for chunk in chunks
        }
        of_terms = [
            (share, {self._patterns[one.match] for one in term.patterns if one.match in self._patterns})
            for term, share in scoring.share_out(self.terms)
        ]
        held = (sum(share for share, patterns in of_terms if patterns & there) for there in shares.values())
        return max(held, default=0.0)


def _choose(terms: Terms) -> tuple[list[Pattern], list[Pattern]]:
    """The patterns that are looked up, the rarest first, and those that are too common for it."""
    total, scanned = 0, list[Pattern]()
    for pattern in terms.patterns:
        total += pattern.chunks
        if scanned and total > MOST_SCANNED:
            break
        scanned.append(pattern)
    return scanned, terms.patterns[len(scanned) :]


def _choose_titled(sessions: Sessions, titled: Mapping[int, float]) -> frozenset[int]:
    """Those with the most of the question in their titles, the newest first."""
    known = sessions.known
    first = sorted(titled, key=lambda one: (-titled[one], -known[one].created_s, known[one].key))
    return frozenset(first[: scoring.MANY_NAMED])

"""The score: what a session is worth as an answer, from what matches in it. No statements: candidates come from the index
(`matching`) or from a hub, and are scored alike.

A candidate is a chunk with its BM25, weighed by kind; or a session in which a word was said so often, and which is called so. Two halves
are added, the best chunks of a session and the session as a whole; each by its best in this answer. docs/search.md has what each step is
worth.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sesamed.store.ids import Kind
from sesamed.store.search.terms import Headings, Term, Terms, weigh_rarity

# A tool's output mentions much and is about little.
KIND_WEIGHTS: Mapping[int, float] = {Kind.USER: 1.3, Kind.CALL: 0.8, Kind.RESULT: 0.4}  # others: 1

DAMPED = (1.0, 0.5, 0.25)  # what the best, second and third chunk count; all of them would make long sessions win
SESSION_SHARE = 0.6
TITLE_FLOOR = 1.0  # the first half of a session whose title has the whole query is as good as the best
TITLE_BONUS = 1.0  # times the square of the part of the query that is in the title
MESSAGES_FIRST = 10.0  # more than any score: one word is either said, or only done

# An answer is weak when its best hit has less than this share of the question's weight, or, lacking a word, less than this by its score:
# words that it has far from each other, or in what a tool said, are a coincidence. docs/search.md has how often this is right.
ENOUGH = 0.3
ENOUGH_BY_SCORE = 0.7

CHUNK_K1, CHUNK_B = 1.2, 0.75  # as FTS5 has them
K1, B = 0.8, 0.5  # of sessions
# How many messages a heading counts for. A title or a short summary says what a session is about; a directory is only where it was.
TITLE_COUNT, PLACE_COUNT = 3, 1
MANY_NAMED = 200  # a word in more headings than this (`home` of all directories) is no reason to show a session


class Matched(NamedTuple):
    """A chunk that matches, whether it is something said, whether it has a word of the query and not only parts of one, and its place in
    the session's own files: a shared record is stored in another one's."""

    session: int
    chunk: int
    score: float
    is_message: bool
    has_word: bool
    place: int


class Naming(NamedTuple):
    """What sessions are called: how much of the query is in each title, and the sessions that may be hits by their headings alone."""

    titled: Mapping[int, float]
    headed: frozenset[int]  # with a word of the query in their heading, and not only parts of one
    named: frozenset[int]
    first_named: frozenset[int]  # of too many, those with the most of the query in their titles, the newest first


class Scored(NamedTuple):
    """A session's score and best chunk."""

    session: int
    chunk: int | None
    score: float
    has_word: bool = True
    strength: float | None = (
        None  # how much of the question its best chunk is by its score, and its heading; None without a chunk
    )


def measure_norm(length: Any, average: float) -> Any:
    """What the length of a chunk takes from what is in it. Of a number, or of an array of them; so are the next two."""
    return CHUNK_K1 * (1 - CHUNK_B + CHUNK_B * length / average)


def saturate_in_chunk(times: Any, norm: Any) -> Any:
    """What a pattern counts that is so often in a chunk of this norm: BM25 without the idf."""
    return times * (CHUNK_K1 + 1) / (times + norm)


def measure_session_norm(messages: Any, average: float) -> Any:
    """The same of the length of a session. `average` is `measure_average`'s."""
    return K1 * (1 - B + B * (messages + 1) / average)


def saturate_in_session(times: Any, norm: Any) -> Any:
    """What a pattern counts that is in so many messages of a session of this norm."""
    return times * (K1 + 1) / (times + norm)


def measure_average(sessions: int, messages: int) -> float:
    """How long a session is among so many with so many messages."""
    return messages / max(1, sessions) + 1


def score_chunk(patterns: Iterable[tuple[float, int]], length: int, average: float) -> float:
    """BM25 of a chunk: of patterns with an idf each, and how often they are in it."""
    norm = measure_norm(length, average)
    return sum(idf * float(saturate_in_chunk(times, norm)) for idf, times in patterns)


def fuse(
    chunks: Mapping[int, list[Matched]],
    called: set[int],
    naming: Naming,
    whole: Mapping[int, float],
    terms: Terms,
    measure_fit: Callable[[Iterable[int]], float],
) -> dict[int, Scored]:
    """The score of each session that has chunks, or is called so. `measure_fit` says how much of the query is in one of some chunks.
    Each half is measured by the best session with a word of the query, if there is one, and not only parts of words."""
    one_word = len(terms.terms) == 1
    halves = {session: damp(some) for session, some in chunks.items()}
    sessions = chunks.keys() | called
    with_word = {one for one in sessions if one in naming.headed or (one in chunks and chunks[one][0].has_word)}
    measures = with_word or sessions
    with_messages = {session for session, some in chunks.items() if one_word and some[0].is_message}
    measured = measures & halves.keys() or halves.keys()
    most = max((halves[session] for session in measured & with_messages or measured), default=0.0) or 1.0
    most_whole = max((whole.get(session, 0.0) for session in measures), default=0.0) or 1.0
    fit = 1.0
    if halves and naming.titled and not one_word:  # otherwise it changes no order
        fit = measure_fit(chunks[session][0].chunk for session, half in halves.items() if half == most) or 1.0
    result, everything = {}, _weigh_known(terms) or 1.0
    for session in sessions:
        share = naming.titled.get(session, 0.0)
        score = max(halves.get(session, 0.0) / most, TITLE_FLOOR * share)
        score = fit * (score + SESSION_SHARE * whole.get(session, 0.0) / most_whole)
        score += TITLE_BONUS * share**2 * (not one_word)
        if session in with_messages or (one_word and (share or session in called)):
            score += MESSAGES_FIRST
        best = chunks[session][0] if session in chunks else None
        result[session] = Scored(
            session,
            None if best is None else best.chunk,
            score,
            session in with_word,
            None if best is None else best.score / everything + share,
        )
    return result


def is_weak(terms: Terms, matched: Collection[str], strength: float | None) -> bool:
    """Whether the best hit, which contains these words and is so strong, is hardly relevant: rare words weigh more than common ones."""
    if _weigh_held(terms, matched) < ENOUGH * _weigh_all(terms):
        return True
    lacks_one = any(term.word.text not in matched for term in terms.terms)
    return lacks_one and strength is not None and strength < ENOUGH_BY_SCORE


def measure_share(terms: Terms, matched: Collection[str]) -> float:
    """How much of the question these words are."""
    whole = _weigh_all(terms)
    return min(1.0, _weigh_held(terms, matched) / whole) if whole > 0 else 1.0


def _weigh_all(terms: Terms) -> float:
    return sum(terms.weigh(term) for term in terms.terms)


def _weigh_known(terms: Terms) -> float:
    return sum(terms.weigh_found(term) for term in terms.terms)


def _weigh_held(terms: Terms, matched: Collection[str]) -> float:
    return sum(terms.weigh_found(term) for term in terms.terms if term.word.text in matched)


def choose_chunks(chunks: Iterable[Matched], terms: Terms) -> dict[int, list[Matched]]:
    """The chunks of each session that count, the best first: those with a word of the query, if there are any; then, if it is a single
    word, those in which it was said. Of equal ones the first of the session is the best."""
    one_word = len(terms.terms) == 1
    by_session: dict[int, list[Matched]] = defaultdict(list)
    for chunk in chunks:
        by_session[chunk.session].append(chunk)
    for session, some in by_session.items():
        some.sort(key=lambda one: (not one.has_word, one_word and not one.is_message, -one.score, one.place))
        first = some[0]
        by_session[session] = [
            one
            for one in some
            if one.has_word == first.has_word and (not one_word or one.is_message == first.is_message)
        ]
    return by_session


def put_parts_last(scored: Mapping[int, Scored]) -> list[Scored]:
    """Sessions with only parts of words (`package` of `package.json`) come below those with a word."""
    with_word = [one for one in scored.values() if one.has_word]
    parts = [one for one in scored.values() if not one.has_word]
    if not (with_word and parts):
        return with_word or parts
    factor = 0.99 * min(one.score for one in with_word) / max(one.score for one in parts)
    return [*with_word, *(one._replace(score=one.score * min(1.0, factor)) for one in parts)]


def damp(chunks: list[Matched]) -> float:
    """What the chunks of a session are worth together, the best first."""
    return sum(share * one.score for share, one in zip(DAMPED, chunks, strict=False))


def score_sessions(
    terms: Terms,
    counted: Mapping[str, Mapping[int, int]],
    own_messages: Mapping[int, int],
    sessions: int,
    messages: int,
) -> dict[int, float]:
    """BM25 of each session, of so many with so many messages. Words in most of them have little weight, but never none: an answer can
    consist of them alone."""
    average = measure_average(sessions, messages)
    result: dict[int, float] = defaultdict(float)
    weights = terms.weights
    for match, count in counted.items():
        weight = weigh_rarity(sessions, len(count)) * weights[match]
        for session, times in count.items():
            norm = measure_session_norm(own_messages[session], average)
            result[session] += weight * float(saturate_in_session(times, norm))
    return result


def count_patterns(terms: Terms, said: Mapping[str, Iterable[tuple[int, int]]]) -> Mapping[str, Mapping[int, int]]:
    """How often each session contains each pattern: in how many of its messages it was said, and what its heading counts for."""
    counted = {match: count_headings(found) for match, found in terms.headings.items()}
    for match, found in counted.items():
        for session, times in said.get(match, ()):
            found[session] += times
    return counted


def count_headings(found: Headings) -> Counter[int]:
    """How many messages the headings with a pattern count for."""
    return Counter(dict.fromkeys(found.titled, TITLE_COUNT)) + Counter(dict.fromkeys(found.placed, PLACE_COUNT))


def name_sessions(terms: Terms, choose_titled: Callable[[Mapping[int, float]], frozenset[int]]) -> Naming:
    """What sessions are called. `choose_titled` takes the first of those with a part of the query in their titles."""
    titled = share_titles(terms)
    in_title = {session: titled.get(session, 0.0) for found in terms.headings.values() for session in found.titled}
    placed = frozenset[int]().union(
        *(found.placed for found in terms.headings.values() if len(found.placed | found.titled) <= MANY_NAMED)
    )
    return Naming(
        titled,
        frozenset[int]().union(*(found for term in terms.terms for found in term.headings)),
        placed.union(in_title),
        placed | (frozenset(in_title) if len(in_title) <= MANY_NAMED else choose_titled(in_title)),
    )


def share_titles(terms: Terms) -> dict[int, float]:
    """How much of the query is in each title, and in the annotations."""
    shares: dict[int, float] = defaultdict(float)
    for term, share in share_out(terms):
        for session in term.headings.titled:
            shares[session] += share
    return shares


def share_out(terms: Terms) -> list[tuple[Term, float]]:
    """How much of the query each word is: rare ones more than common ones. That two stand side by side is a part of it, too."""
    weights = [(term, terms.weigh_found(term)) for term in (*terms.terms, *terms.pairs) if term.is_known]
    whole = sum(weight for _, weight in weights) or 1.0
    return [(term, weight / whole) for term, weight in weights]

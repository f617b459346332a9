"""A query: what a person typed, and what FTS5 is asked for it in one index, which chunks and headings contain it, and what is dropped.

Only four things mean anything in what is typed: `"a phrase"`, `-word`, `-"a phrase"` and a trailing `*`. Everything else is text, whatever
characters it has; FTS5 is asked in quoted strings.

FTS5 makes a phrase of `package.json` by itself. Besides the word as it was typed, its parts are asked for, the parts of identifiers,
pairs of characters in scripts without spaces, and for a word that the index does not know the nearest ones that it does.
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import apsw
import msgspec

from sesamed.sanitize import clean_text
from sesamed.store import ids, sqlite, subwords
from sesamed.store.schema import HEADING, TOKENIZER
from sesamed.store.search import forms
from sesamed.store.search.spelling import IndexVocabulary, Speller, Vocabulary
from sesamed.store.search.stems import list_stems
from sesamed.store.shelf import find_view

MAX_WORDS = 64
MOST_TYPED = 2000  # words that are looked at for these: a line of 1 MB has 500,000, which took 2.5 s of the event loop
MAX_WORD_CHARACTERS = 256
EVERYTHING = ("", "*")

# A phrase begins and ends where words do; else its quotes are characters like any other.
TYPED = re.compile(r'(?P<minus>-?)"(?P<phrase>[^"]+)"(?!\S)|(?P<word>\S+)')
ENDS = re.compile(r"^\W+|\W+$")
STOP_WORDS = frozenset(
    """
    a an and are as at be been but by can could did do does for from had has have he her his how i if in into is
    it its me my no not of on or our she should so such that the their them then there these they this to us was
    we were what when where which who why will with would you your
    """.split()
)


class Word(msgspec.Struct, frozen=True):
    """A word, phrase or prefix, without its marks."""

    text: str
    is_phrase: bool = False
    is_prefix: bool = False

    @property
    def bare(self) -> str:
        """What a text has to contain to show it, in lower case."""
        return ENDS.sub("", self.text).casefold()


class Query(msgspec.Struct, frozen=True):
    """A parsed query. `everything` asks for all sessions."""

    words: tuple[Word, ...] = ()
    excluded: tuple[Word, ...] = ()
    dropped: tuple[str, ...] = ()  # left out: no letter or digit in it, or too much of it
    everything: bool = False
    neighbours: tuple[tuple[Word, Word], ...] = ()  # words that were typed one behind the other


def clean(text: str) -> str:
    """A query as texts are indexed."""
    return clean_text(text.replace("\0", " ").encode("utf-8", "replace").decode())


def parse(text: str) -> Query:
    """Parse a query. Every text is valid."""
    if text.strip() in EVERYTHING:
        return Query(everything=True)
    wanted: dict[tuple[str, bool], Word] = {}
    excluded: list[tuple[str, Word]] = []
    dropped: list[str] = []
    neighbours: list[tuple[Word, Word]] = []
    before: Word | None = None
    text, end = clean(text), 0
    for found in islice(TYPED.finditer(text), MOST_TYPED):
        end = found.end()
        word, last, before = _word(found), before, None
        if not any(character.isalnum() for character in word.text) or len(wanted) + len(excluded) >= MAX_WORDS:
            dropped.append(found[0][:MAX_WORD_CHARACTERS])
        elif _excludes(found):
            excluded.append((found[0], word))
        else:
            wanted.setdefault((word.bare, word.is_prefix), word)  # in any case, and whatever stands around it
            before = None if word.is_phrase or word.is_prefix else word
            if last is not None and before is not None:
                neighbours.append((last, word))
    if rest := text[end:].strip():
        dropped.append(rest[:MAX_WORD_CHARACTERS])
    if not wanted:  # nothing but exclusions: then they are meant as text
        return Query(tuple(Word(typed[:MAX_WORD_CHARACTERS]) for typed, _ in excluded), (), tuple(dropped))
    words, without = tuple(wanted.values()), tuple(word for _, word in excluded)
    return Query(words, without, tuple(dropped), neighbours=tuple(dict.fromkeys(neighbours)))


def _word(found: re.Match[str]) -> Word:
    if (phrase := found["phrase"]) is not None:
        return Word(" ".join(phrase.split())[:MAX_WORD_CHARACTERS], is_phrase=True)
    text = found["word"]
    if _excludes(found):
        text = text[1:]
    is_prefix = len(text) > 2 and text[-1] == "*" and text[-2].isalnum()
    return Word((text[:-1] if is_prefix else text)[:MAX_WORD_CHARACTERS], is_prefix=is_prefix)


def _excludes(found: re.Match[str]) -> bool:
    if found["phrase"] is not None:
        return found["minus"] == "-"
    return len(found["word"]) > 1 and found["word"][0] == "-" and found["word"][1].isalnum()


# Phrases and prefixes are counted by looking for them, which is expensive, so everything else that is needed is counted in the same pass.
STANDS = f"""
    SELECT {ids.sql_file_of("rowid")}, count(*), count(*) FILTER (WHERE {ids.sql_is_message("rowid")})
    FROM fts WHERE fts MATCH ? GROUP BY 1
"""

PLACE = ("cwd", "git_branch")
TITLE = tuple(column for column in HEADING.split(", ") if column not in PLACE)
HEADED = "SELECT rowid FROM headings WHERE headings MATCH ?"
# Words within words are not in the index of the headings; there are few, so they are looked through, once for all columns: each pass over
# 20,000 sessions takes 1 ms, and what is made of each row before it is compared as much again.
LIKE = "{} LIKE ?1 ESCAPE '\\'"
WITHIN = "SELECT id, {} FROM sessions WHERE {}".format(
    ", ".join(
        f"iif({LIKE.format(joined)}, {joined}, NULL)"
        for joined in (f"concat_ws(' ', {', '.join(some)})" for some in (TITLE, PLACE))
    ),
    " OR ".join(map(LIKE.format, (*TITLE, *PLACE))),
)
LEAST_WITHIN = 3  # letters of a word that is looked for within others

MAX_PARTS = 8  # of one word
MAX_PAIRS = 32
MOST_PAIRED = 8  # neighbours of one question: each is a question of its own to FTS5
MOST_SPLIT = (
    8  # unknown words of one question that are taken apart: of one with 40 letters up to 186 words are looked up
)
FEW_CHUNKS = 1000  # in a small index nothing is too common
COMMON_SHARE = 0.5  # words in more of the chunks than this tell nothing: BM25 gives them no weight

# Two forms of one word that stemming leaves apart: simplify is simplifi, simplification is simplif.
IFY = re.compile(r"([a-z]{2,})(if(?:y|ies|ied|ying)|ifications?)", re.IGNORECASE)

MOST_FORMS = 24  # of one word, the most common ones
MOST_HEADINGS = 200  # that are looked through for forms
LAST = "\U0010ffff"  # behind the beginning of words it is above all of them
BEGINNING = "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ?"
HEADINGS_BEGINNING = f"""
    SELECT concat_ws(' ', {HEADING}) FROM sessions
    WHERE id IN (SELECT rowid FROM headings WHERE headings MATCH ? LIMIT {MOST_HEADINGS})
"""


class Pattern(NamedTuple):
    """One thing that is searched for a word, and in how many chunks it stands. `stems` have to follow each other in a text for the word
    to stand there, the last one perhaps only begun; a part of a word that is searched has none."""

    match: str  # a string or prefix, for FTS5
    chunks: int
    stems: tuple[str, ...] = ()
    is_prefix: bool = False
    weight: float = 1.0  # of its idf: where a word is searched in many forms that are in one another


class Headings(NamedTuple):
    """The sessions with a pattern in their title or annotations, and those with it in their directory or branch."""

    titled: frozenset[int] = frozenset()
    placed: frozenset[int] = frozenset()


class Term(NamedTuple):
    """One word. `chunks` counts the word as typed, `patterns` are all that is searched for it."""

    word: Word
    chunks: int
    patterns: tuple[Pattern, ...]
    corrected: tuple[str, ...]
    wholes: tuple[Pattern, ...] = ()  # the patterns that mean the word itself, not a part of it
    has_runs: bool = False  # of characters in a script without spaces
    headings: Headings = Headings()  # that contain the word itself
    forms: int = 0  # chunks that contain it in another form: within a longer word, or as -ification of -ify

    @property
    def is_known(self) -> bool:
        """Whether any of its patterns is in the index."""
        return bool(any(self.headings) or any(pattern.chunks for pattern in self.patterns))

    @property
    def is_nowhere(self) -> bool:
        """Whether neither the word nor another form of it is in the index."""
        return not (self.chunks or self.forms or any(self.headings))


class Terms(NamedTuple):
    """All terms of a query."""

    terms: tuple[Term, ...]
    excluded: tuple[str, ...]
    dropped: tuple[str, ...]
    chunks: int  # in the index
    message_counts: Mapping[
        str, Mapping[int, int]
    ]  # of patterns that had to be looked for to be counted: messages by file
    patterns: list[Pattern]  # all that is searched, each once, the rarest first
    corrected: dict[str, str]  # the words that the index does not know, and what was searched instead
    headings: Mapping[str, Headings] = {}  # by pattern
    pairs: tuple[Term, ...] = ()  # of neighbouring words, as phrases: asked for by nobody, but told by where they stand

    def weigh(self, term: Term) -> float:
        """The idf of a word."""
        return self._idf(count_word(term))

    def weigh_found(self, term: Term) -> float:
        """The idf of what is found for it: the words that were searched instead say no more than they do elsewhere."""
        slips = set(map(quote, term.corrected))
        return self._idf(
            max(count_word(term), sum(pattern.chunks for pattern in term.patterns if pattern.match in slips))
        )

    def weigh_pattern(self, pattern: Pattern) -> float:
        """What a pattern counts in a chunk: its idf, or its part of that of its word."""
        return self._idf(pattern.chunks) * pattern.weight

    @property
    def weights(self) -> dict[str, float]:
        """What part of its idf each pattern counts; of two words the larger one."""
        patterns = (one for term in (*self.terms, *self.pairs) for one in term.patterns)
        return {one.match: one.weight for one in sorted(patterns, key=lambda one: one.weight)}

    def _idf(self, chunks: int) -> float:
        return weigh_rarity(self.chunks, chunks)


def count_word(term: Term) -> int:
    """In how many chunks a word is: in a script without spaces it stands within others mostly."""
    return max(term.chunks, *(pattern.chunks for pattern in term.wholes)) if term.has_runs else term.chunks


def weigh_rarity(everything: int, found: int) -> float:
    """The idf of what is in so many of all chunks, or sessions: never negative, so that an answer can consist of common words alone."""
    return math.log(1 + (max(everything, found) - found + 0.5) / (found + 0.5))


def expand(connection: apsw.Connection, query: Query) -> Terms:
    """Translate a query into the words of the index."""
    return expand_with(IndexTermMaker(connection), query)


def expand_with(maker: "TermMaker", query: Query) -> Terms:
    """Translate a query into the words of what a maker knows."""
    if any(word.bare in forms.TELLING or not word.text.isascii() for word in query.words):
        maker.language = forms.tell_language(word.bare for word in query.words)
    kept = [word for word in query.words if not maker.is_stop_word(word)] or list(query.words)
    terms = [term for term in map(maker.term, kept) if term.patterns]
    most = COMMON_SHARE * maker.chunks
    telling = [term for term in terms if maker.chunks < FEW_CHUNKS or term.word.is_phrase or term.chunks <= most]
    telling = telling if any(term.is_known for term in telling) else terms
    searched = {term.word for term in telling}
    dropped = [*query.dropped, *(word.text for word in query.words if word not in searched)]
    excluded = [pattern.match for word in query.excluded for pattern in maker.term(word, exact=True).patterns]
    pairs = _pair_neighbours(maker, query, telling)
    searched_for = (pattern for term in (*telling, *pairs) for pattern in term.patterns if pattern.chunks)
    patterns = {pattern.match: pattern for pattern in sorted(searched_for, key=lambda one: one.weight)}
    return Terms(
        terms=tuple(telling),
        excluded=tuple(excluded),
        dropped=tuple(dropped),
        chunks=maker.chunks,
        message_counts=maker.message_counts,
        patterns=sorted(patterns.values(), key=lambda pattern: (pattern.chunks, pattern.match)),
        headings={pattern.match: maker.headings(pattern.match) for term in telling for pattern in term.patterns},
        corrected={term.word.text: ", ".join(term.corrected) for term in telling if term.corrected},
        pairs=pairs,
    )


def _pair_neighbours(maker: "TermMaker", query: Query, telling: Iterable[Term]) -> tuple[Term, ...]:
    """Neighbouring words as phrases, where they stand so anywhere; of many those with the rarest words."""
    chunks = {term.word.bare: term.chunks for term in telling if not term.has_runs}
    pairs = [pair for pair in query.neighbours if all(chunks.get(word.bare, 0) for word in pair)]
    pairs.sort(key=lambda pair: min(chunks[word.bare] for word in pair))
    made = [maker.term(Word(f"{one.text} {other.text}", is_phrase=True)) for one, other in pairs[:MOST_PAIRED]]
    return tuple(term for term in made if term.chunks or any(term.headings))


def count_shown(terms: Terms, texts: Sequence[str]) -> Terms:
    """The same terms, where a word that is nowhere as such counts in the texts that show it within a longer word."""
    if not any(term.is_nowhere for term in terms.terms):
        return terms
    lowered = [text.casefold() for text in texts]
    counted = (
        term._replace(forms=sum(term.word.bare in text for text in lowered)) if term.is_nowhere else term
        for term in terms.terms
    )
    return terms._replace(terms=tuple(counted))


def find_headings(connection: apsw.Connection, match: str) -> Headings:
    """The sessions whose headings contain a pattern."""
    titled, placed = (
        frozenset(session for (session,) in connection.execute(HEADED, (f"{{{' '.join(columns)}}} : {match}",)))
        for columns in (TITLE, PLACE)
    )
    return Headings(titled, placed)


def find_within(
    connection: apsw.Connection, text: str, is_part: Callable[[str], bool] = lambda inside: True
) -> Headings:
    """The sessions whose headings contain a text within their words."""
    kept = connection.headings if isinstance(connection, sqlite.Reader) else None
    if kept is not None and not kept.may_have(connection, text):
        return Headings()
    like = "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
    found: tuple[set[int], set[int]] = set(), set()
    for session, *headings in connection.execute(WITHIN, (like,)):
        for sessions, heading in zip(found, headings, strict=True):
            if heading is not None and is_part(subwords.inner_words(ids.Kind.USER, heading)):
                sessions.add(session)
    return Headings(*map(frozenset, found))


def open_tokenizer() -> apsw.Connection:
    """A connection to nothing: the tokenizer of the index is there, too."""
    return apsw.Connection(":memory:")


def find_stems(connection: apsw.Connection, match: str) -> list[str]:
    """What FTS5 looks for where it is asked for this."""
    return list_stems(connection.fts5_tokenizer(*TOKENIZER), match)


class TermMaker(ABC):
    """Makes terms of words. What there is of them, an index or a hub says; a connection is needed for its tokenizer alone."""

    def __init__(self, connection: apsw.Connection, chunks: int) -> None:
        self._tokenize = connection.fts5_tokenizer(*TOKENIZER)
        self.chunks = chunks
        self.message_counts: dict[str, dict[int, int]] = {}
        self._headings: dict[str, Headings] = {}
        self.language: forms.Language | None = None  # of the question, if it is not English

    @abstractmethod
    def _chunks_with(self, match: str) -> int:
        """How many chunks match."""

    @abstractmethod
    def _find_headings(self, match: str) -> Headings:
        """The sessions whose headings contain a pattern."""

    @abstractmethod
    def _find_within(self, text: str, is_part: Callable[[str], bool] = lambda inside: True) -> Headings:
        """The sessions whose headings contain a text within their words."""

    @abstractmethod
    def _list_vocabulary(self) -> Vocabulary:
        """What a word is corrected by."""

    def term(self, word: Word, *, exact: bool = False) -> Term:
        """What is searched for a word; nothing if FTS5 sees no word in it."""
        typed = self.tokens(word.text)
        if not typed:
            return Term(word, 0, (), ())
        written = [text for text, _ in typed]
        stems = tuple(stem for _, stem in typed)
        found = {quote(word.text) + " *" * word.is_prefix: Pattern("", 0, stems, word.is_prefix)}
        chunks = self._chunks_with(next(iter(found)))
        corrected: list[str] = []
        inner = subwords.take_apart(word.text) if subwords.HAS_INNER.search(word.text) else subwords.NOTHING
        for pairs in inner.runs:
            text = quote(" ".join(pairs[:MAX_PAIRS])) + " *" * (len(pairs[0]) == 1)
            found[text] = Pattern("", 0, self._stems(text), is_prefix=len(pairs[0]) == 1)
            if not exact:
                self._headings[text] = self._find_within(pairs[0] + "".join(pair[1:] for pair in pairs[1:]))
        if not (exact or word.is_phrase):
            for text in inner.identifiers:
                found[quote(text)] = Pattern("", 0, self._stems(text))
            others = (*_other_forms(word), *self._list_forms(word, stems))
            found.update((quote(text), Pattern("", 0, self._stems(text))) for text in others)
            if not (word.is_prefix or any(map(self._is_known, found)) or self._is_within(next(iter(found)), word.text)):
                speller = Speller(self._list_vocabulary(), self._stem_near)
                corrected = [near for text in written[:MAX_PARTS] for near in speller.find_nearest(text)]
                found.update((quote(text), Pattern("", 0, self._stems(text))) for text in corrected)
                written = written if corrected else [*written, *self._split(word)]
            parts = [text for text in written if len(written) > 1 and not self._is_small(text)][:MAX_PARTS]
            for part in (*parts, *(pair for pairs in inner.runs for pair in pairs[:MAX_PAIRS]), *inner.beside):
                found.setdefault(quote(part), Pattern("", 0))
        patterns = [one._replace(match=match, chunks=self._chunks_with(match)) for match, one in found.items()]
        if inner.runs and not exact:
            patterns = self._weigh_once(patterns, inner.runs)
        wholes = tuple(pattern for pattern in patterns if pattern.stems)
        headings = Headings() if exact else self._unite(pattern.match for pattern in wholes)
        slips = set(map(quote, corrected))
        otherwise = max((pattern.chunks for pattern in wholes[1:] if pattern.match not in slips), default=0)
        return Term(word, chunks, tuple(patterns), tuple(corrected), wholes, bool(inner.runs), headings, otherwise)

    def is_stop_word(self, word: Word) -> bool:
        """Whether a word tells nothing, in English or in the language of the question."""
        return self._is_small(word.text) and not (word.is_phrase or word.is_prefix)

    def _is_small(self, text: str) -> bool:
        folded = text.casefold()
        return folded in STOP_WORDS or (self.language is forms.IN_FRENCH and folded in forms.SMALL_IN_FRENCH)

    def _list_forms(self, word: Word, stems: Sequence[str]) -> list[str]:
        """Forms of a word that have other stems than it, and are there. A hub stems in the languages that it is told."""
        return []

    def _split(self, word: Word) -> list[str]:
        """The words that an unknown one was put together from."""
        return []

    def _weigh_once(self, patterns: list[Pattern], runs: list[list[str]]) -> list[Pattern]:
        """The forms of a word in a script without spaces, together with the weight of one word: where it stands they all do. If it is
        nowhere as a whole, it is a sentence of words with two characters each."""
        known = {one: weigh_rarity(self.chunks, one.chunks) for one in patterns if self._is_known(one.match)}
        if not known:
            return patterns
        weight = max(known.values())
        if not any(one.stems for one in known):
            words = sum(len(pairs) // 2 + 1 for pairs in runs)
            weight = sum(known.values()) * min(1.0, words / len(known))
        share = weight / (sum(known.values()) or 1.0)
        return [one._replace(weight=share) for one in patterns]

    def _is_known(self, match: str) -> bool:
        return bool(self._chunks_with(match) or any(self.headings(match)))

    def _is_within(self, match: str, text: str) -> bool:
        """Whether a word is part of an identifier in a heading, where nothing else knows it."""
        if len(text) < LEAST_WITHIN or not (text.isascii() and text.isalnum()):
            return False
        stem = self._stems(text)
        self._headings[match] = self._find_within(
            text, lambda inside: stem in [self._stems(part) for part in inside.split()]
        )
        return any(self._headings[match])

    def headings(self, match: str) -> Headings:
        """The sessions whose headings contain a pattern."""
        if match not in self._headings:
            self._headings[match] = self._find_headings(match)
        return self._headings[match]

    def _unite(self, matches: Iterable[str]) -> Headings:
        found = [self.headings(match) for match in matches]
        return Headings(*(frozenset[int]().union(*some) for some in zip(*found, strict=True)))

    def tokens(self, text: str) -> list[tuple[str, str]]:
        """The words of a text, as written and as the index keeps them."""
        data = text.encode()
        found: Any = self._tokenize(data, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)
        return [(data[begin:end].decode("utf-8", "replace"), stem) for begin, end, stem in found]

    def _stem_near(self, text: str) -> str:
        """What a word that is near an unknown one is counted as."""
        return self._stems(text)[0]

    def _stems(self, text: str) -> tuple[str, ...]:
        return tuple(stem for _, stem in self.tokens(text))


class IndexTermMaker(TermMaker):
    """Of words in the index."""

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(connection, int(next(connection.execute("SELECT chunks FROM totals"))[0]))
        self._connection = connection
        if isinstance(connection, sqlite.Reader) and connection.stems is not None:
            connection.stems.want()
        kept = connection.headings if isinstance(connection, sqlite.Reader) else None
        find = partial(find_headings, connection)
        self._find_sets = find if kept is None else kept.sets.find(connection, find)
        self._view = find_view(connection, read=False)
        self._counted: dict[str, int] = {}
        self._splits = 0

    def _chunks_with(self, match: str) -> int:
        """How many chunks match."""
        if match not in self._counted:
            self._counted[match] = self._count(match)
        return self._counted[match]

    def _count(self, match: str) -> int:
        stems = self._stems(match)
        if not stems:  # there is no letter in it to the index, as in a Japanese middle dot
            return 0
        if self._view is not None and (known := self._view.count(self._connection, match, stems)) is not None:
            return known
        if len(stems) == 1 and not match.endswith("*"):
            row = self._connection.execute("SELECT doc FROM vocabulary WHERE term = ?", (stems[0],)).fetchone()
            return 0 if row is None else int(row[0])
        if self._view is not None:
            return self._view.find(self._connection, match, stems).chunks
        rows = list(self._connection.execute(STANDS, (match,)))
        self.message_counts[match] = {file: messages for file, _, messages in rows if messages}
        return sum(chunks for _, chunks, _ in rows)

    def _find_headings(self, match: str) -> Headings:
        return Headings(*self._find_sets(match))

    def _find_within(self, text: str, is_part: Callable[[str], bool] = lambda inside: True) -> Headings:
        return find_within(self._connection, text, is_part)

    def _list_vocabulary(self) -> Vocabulary:
        return IndexVocabulary(self._connection)

    def _list_forms(self, word: Word, stems: Sequence[str]) -> list[str]:
        """Of what begins as they do, in texts or in headings."""
        if len(stems) != 1 or word.is_prefix or (self.language is None and word.text.isascii()):
            return []
        if (wanted := forms.find_stem(word.bare, self.language)) is None:
            return []
        rows = self._connection.execute(BEGINNING, (wanted.begin, wanted.begin + LAST))
        there = {str(stem): int(chunks) for stem, chunks in rows}
        for (heading,) in self._connection.execute(HEADINGS_BEGINNING, (quote(wanted.begin) + " *",)):
            for _, stem in self.tokens(str(heading)):
                there.setdefault(stem, 0)
        found = [stem for stem in there if stem != stems[0] and self._is_form(stem, wanted)]
        return sorted(found, key=lambda stem: (-there[stem], stem))[:MOST_FORMS]

    def _is_form(self, stem: str, wanted: forms.Stem) -> bool:
        found = forms.find_stem(stem, self.language)
        return found is not None and found.key == wanted.key and self._stems(stem) == (stem,)

    def _split(self, word: Word) -> list[str]:
        """Where it has no other mark in it: what a path or a name consists of is searched anyway."""
        self._splits += 1
        if self._splits > MOST_SPLIT:
            return []
        return forms.split_compound(word.bare, lambda text: self._chunks_with(quote(text)) > 0)


def _other_forms(word: Word) -> list[str]:
    """The noun of a verb in -ify, and the verb of such a noun."""
    if word.is_prefix or (found := IFY.fullmatch(word.text)) is None:
        return []
    return [found[1] + ("ify" if found[2].casefold().startswith("ification") else "ification")]


def quote(word: str) -> str:
    """A word as an FTS5 string."""
    return '"' + word.replace('"', '""') + '"'

"""The words that are nearest to one that the index, or a hub, does not contain.

The vocabulary has stems only, and stems are no words: the nearest one to `extnsion` is `extensio`, a text that was cut off, not
`extens`. So stems are candidates, and the words that were written with them are compared.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, Protocol

import apsw

from sesamed.store import ids, sqlite, subwords
from sesamed.store.search.stems import Sought, Stems, mask_letters

LEAST_LETTERS = 4
MOST_LETTERS = 24
SHORT_LETTERS = 6  # two slips in so few letters may be any word
ENDING = 5  # letters that stemming may cut off: ation, ments
NEAREST = 3
CANDIDATES = 8  # stems, of which written words are looked for
READ_CHUNKS = 8  # for the words of one stem
# Words that are measured side by side have a lane each: a bit for each letter, and room for what is carried.
LANE_BYTES = 4
ONE_LANE = bytes([1, 0, 0, 0])
TOP_BIT = 8 * LANE_BYTES - 1
SET = b"\x80"

OCCURRENCES = f"""
    SELECT {ids.sql_kind("c.id")}, c.text FROM (SELECT DISTINCT doc FROM occurrences WHERE term = ? LIMIT {READ_CHUNKS}) o
    JOIN chunks c ON c.id = o.doc
"""


class Near(NamedTuple):
    """A word that was written, by how far it is from the one that was asked for, and in how many chunks its stem is."""

    distance: int
    rarity: int  # less is more common
    word: str


class Vocabulary(Protocol):
    """The stems that there are."""

    def has(self, stem: str) -> bool:
        """Whether it is one of them."""

    def list_near(self, sought: Sought) -> Iterable[tuple[str, int]]:
        """Those that may be near a word, and in how many chunks each is; not what stands only once."""

    def read_texts(self, stem: str) -> list[tuple[int, str]]:
        """Some texts with a stem, and their kinds."""


class IndexVocabulary:
    """The stems of the index."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        shared = connection.stems if isinstance(connection, sqlite.Reader) else None
        self._stems = shared or Stems()

    def has(self, stem: str) -> bool:
        """Whether it is one of them."""
        return self._connection.execute("SELECT 1 FROM vocabulary WHERE term = ?", (stem,)).fetchone() is not None

    def list_near(self, sought: Sought) -> Iterable[tuple[str, int]]:
        """Those that may be near a word, and in how many chunks each is."""
        return self._stems.list_near(self._connection, sought)

    def read_texts(self, stem: str) -> list[tuple[int, str]]:
        """Some texts with a stem, and their kinds."""
        rows = list(self._connection.execute(OCCURRENCES, (stem,)))
        return [(kind, sqlite.plain(packed)) for kind, packed in rows]


class Speller:
    """Corrects words. `stem` is what the tokenizer makes of a word."""

    def __init__(self, vocabulary: Vocabulary, stem: Callable[[str], str]) -> None:
        self._vocabulary = vocabulary
        self._stem = stem

    def find_nearest(self, word: str) -> list[str]:
        """Up to three words for an unknown one; none for a known one. The first letter is taken to be right."""
        if not (word.isascii() and word.isalpha() and LEAST_LETTERS <= len(word) <= MOST_LETTERS):
            return []
        word = word.lower()
        if self._vocabulary.has(self._stem(word)):
            return []
        most = 1 if len(word) <= SHORT_LETTERS else 2
        candidates = self._find_candidates(word, most)
        near = sorted(self._find_written({term: rarity for _, rarity, term in candidates}, word, most))
        best = [found for found in near if found.distance == near[0].distance]
        return list(dict.fromkeys(found.word for found in best if not _is_cut_off(found, near)))[:NEAREST]

    def _find_candidates(self, word: str, most: int) -> list[tuple[int, int, str]]:
        """The first of the stems that the word may begin with: distance, rarity, and stem."""
        shortest, longest = max(len(word) // 2, len(word) - ENDING - most), len(word) + most
        letters = {length: mask_letters(word[:length]) for length in range(shortest, longest + 1)}
        sought = Sought(word[0], letters, 2 * most)
        chunks = dict(self._vocabulary.list_near(sought))
        found = Ruler(word).find_near(chunks, ENDING, most)
        return sorted((far, -chunks[term], term) for far, term in found)[:CANDIDATES]

    def _find_written(self, rarities: Mapping[str, int], word: str, most: int) -> Iterator[Near]:
        """Of each stem the nearest word that was written with it, if it is near enough: FTS5 would stem a stem again."""
        read = [(term, kind, text) for term in rarities for kind, text in self._vocabulary.read_texts(term)]
        # Stemming changes the last letter of a stem at most: hoping is hope, happy is happi.
        patterns = {term: re.compile(re.escape(term[:-1]) + "[a-z]*") for term in rarities}
        written: dict[str, Counter[str]] = {term: Counter() for term in rarities}
        for term, kind, text in read:
            pattern = patterns[term]
            written[term].update(_find_words(pattern, text) or _find_words(pattern, subwords.inner_words(kind, text)))
        stems = {found: self._stem(found) for found in {found for words in written.values() for found in words}}
        for term, words in written.items():
            near = [
                (distance(word, found, most), -times, found) for found, times in words.items() if stems[found] == term
            ]
            yield from (Near(far, rarities[term], found) for far, _, found in sorted(near)[:1] if far <= most)


def _find_words(pattern: re.Pattern[str], text: str) -> list[str]:
    """The words that match; a pattern that begins with letters is found quickest by itself."""
    text = text.lower()
    return [
        found[0] for found in pattern.finditer(text) if not text[max(0, found.start() - 1) : found.start()].isalpha()
    ]


def _is_cut_off(found: Near, near: list[Near]) -> bool:
    """Whether a word is the beginning of a more common one that is near, too: texts are cut off anywhere."""
    return any(
        other.word != found.word and other.word.startswith(found.word) and other.rarity <= found.rarity
        for other in near
    )


def distance(one: str, other: str, limit: int) -> int:
    """How many letters must be inserted, removed, changed or swapped; more than `limit` is limit + 1."""
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    return min(Ruler(one).measure_beginnings(other)[-1], limit + 1)


class Ruler:
    """Measures how far the beginnings of one word are from others: the table of distances by columns, as differences between its cells,
    each column in a few numbers (Hyyrö, A bit-vector algorithm for computing Levenshtein and Damerau edit distances, 2003). Many others
    are measured at once, side by side in these numbers: 400 stems take a seventh of what they take one by one.
    """

    def __init__(self, word: str) -> None:
        self._word = word
        self._every = (1 << len(word)) - 1
        self._places: dict[str, int] = {}
        for row, letter in enumerate(word):
            self._places[letter] = self._places.get(letter, 0) | 1 << row

    def measure_beginnings(self, other: str) -> list[int]:
        """How far each beginning is, the empty one first."""
        find = self._places.get
        more, less = self._measure([find(letter, 0) for letter in other], 1)
        found = [len(other)]
        for row in range(len(self._word)):
            found.append(found[-1] + (more >> row & 1) - (less >> row & 1))
        return found

    def find_near(self, others: Iterable[str], shorter: int, most: int) -> Iterator[tuple[int, str]]:
        """Those of the others that are near, and how near: to the nearest of the beginnings that are at most so much shorter than the word,
        which has letters of ASCII alone, and at most `MOST_LETTERS`."""
        by_length: dict[int, list[str]] = {}
        for other in others:
            by_length.setdefault(len(other), []).append(other)
        for length, some in by_length.items():
            yield from self._find_near(some, length, shorter, most)

    def _find_near(self, others: list[str], length: int, shorter: int, most: int) -> Iterator[tuple[int, str]]:
        ones = int.from_bytes(ONE_LANE * len(others), "little")
        more, less = self._measure(self._list_columns(others, length), ones)
        far, top = ones * length, ones << TOP_BIT
        near = [0] * (most + 1)  # of each lane the top bit, if it is no further than that
        for row in range(len(self._word) + 1):
            if row >= len(self._word) - shorter:
                near = [found | (top + ones * least) - far for least, found in enumerate(near)]
            far = far + (more >> row & ones) - (less >> row & ones)
        nearer = 0
        for least, found in enumerate(near):
            yield from ((least, others[lane]) for lane in _list_lanes((found ^ (found & nearer)) & top, len(others)))
            nearer |= found

    @cached_property
    def _tables(self) -> list[bytes]:
        """For each eight letters of the word: in which of them a letter stands, by its code."""
        tables = [bytearray(256) for _ in range(0, len(self._word), 8)]
        for letter, places in self._places.items():
            for part, table in enumerate(tables):
                table[ord(letter)] = places >> 8 * part & 255
        return [bytes(table) for table in tables]

    def _list_columns(self, others: list[str], length: int) -> Iterator[int]:
        """Of each letter of the others the places in the word, a lane for each of them."""
        letters = "".join(others).encode("latin-1", "replace")  # a letter each, and none of the word's but itself
        lanes = bytearray(LANE_BYTES * len(others))
        for number in range(length):
            column = letters[number::length]
            for part, table in enumerate(self._tables):
                lanes[part::LANE_BYTES] = column.translate(table)
            yield int.from_bytes(lanes, "little")

    def _measure(self, columns: Iterable[int], ones: int) -> tuple[int, int]:
        """Which rows of the last column are one more than the row above, and which one less; of as many others as there are ones."""
        every = ones * self._every
        more, less, same, before = every, 0, 0, 0
        for here in columns:
            swapped = ((here ^ (here & same)) << 1) & before
            same = (((here & more) + more) ^ more) | here | less | swapped
            further = ((less | (every ^ (every & (same | more)))) << 1) | ones
            nearer = (same & more) << 1
            more = (nearer & every) | (every ^ (every & (same | further)))
            less, before = further & same & every, here
        return more, less


def _list_lanes(bits: int, count: int) -> Iterator[int]:
    """The lanes with their top bit."""
    tops = bits.to_bytes(LANE_BYTES * count, "little")[LANE_BYTES - 1 :: LANE_BYTES]
    lane = tops.find(SET)
    while lane >= 0:
        yield lane
        lane = tops.find(SET, lane + 1)

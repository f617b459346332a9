"""The stems that a slip may mean, by their first letters, kept in memory: to say in how many chunks a stem is, FTS5 reads all that it has
of it.

To read the stems of a letter takes as long as one slip took before there were these lists, so the daemon does it soon after the first
question (`list_missing`); who makes a slip before that reads the letter of it. What is committed from then on is counted in. Where that
is much, as in a load, all is forgotten, and read again when it is over.
"""

import re
import string
import threading
import time
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import apsw

from sesamed.store import sqlite
from sesamed.store.ids import READ_REVISION
from sesamed.store.rows import ChangedWords
from sesamed.store.schema import TOKENIZER

LEAST_CHUNKS = 2  # what stands only once may be a slip itself
SHORTEST, LONGEST = 2, 26  # letters of a stem that is near a word which may be corrected (`spelling`)
MOST_CHANGED = 20_000  # stems that are counted beside the lists: 3 MB
LETTERS = 26
BITS = {letter: 1 << number for number, letter in enumerate(string.ascii_lowercase)}
SETTLE_S = 2.0  # so long no commit may have made the lists void before all are read again
MOST_TOLD = 1 << 20  # characters of commits that are not counted in yet; the daemon does it each second
READING_SHARE = 0.01  # of the time that passes may go into that

# With three characters that are no letters a stem is too far from any word.
TOO_FAR = re.compile("[^a-z].*[^a-z].*[^a-z]")
STEMS = f"""
    SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ? AND doc >= {LEAST_CHUNKS}
    AND length(term) BETWEEN {SHORTEST} AND {LONGEST} AND term NOT GLOB '*[^a-z]*[^a-z]*[^a-z]*'
"""
COUNT = "SELECT doc FROM vocabulary WHERE term = ?"


class Sought(NamedTuple):
    """What a stem must look like to be near a word: which letters it has, by its length, but for so many."""

    first: str
    letters: Mapping[int, int]
    apart: int

    def fits(self, stem: str) -> bool:
        """Whether it may be near."""
        return len(stem) in self.letters and self.count_apart(stem) <= self.apart

    def count_apart(self, stem: str) -> int:
        """How many letters only one of both has."""
        return (mask_letters(stem) ^ self.letters[len(stem)]).bit_count()


def mask_letters(text: str) -> int:
    """Which letters are in a text, as bits; and above them, one for each other character."""
    try:
        return sum(map(BITS.__getitem__, set(text)))  # most stems have nothing else: a quarter of the time
    except KeyError:
        return _mask_others(text)


def _mask_others(text: str) -> int:
    mask, others = 0, 0
    for character in set(text):
        if character in BITS:
            mask |= BITS[character]
        else:
            others += 1
    return mask | (1 << others) - 1 << LETTERS


class _Letter:
    """The stems that begin with a letter, as they were in one snapshot, and what was committed after it."""

    def __init__(self, last_noted: int) -> None:
        self.last_noted = last_noted  # the revision of the last commit that is not counted in
        self._revision: int | None = None  # of the snapshot
        self._waiting: list[tuple[int, Counter[str]]] = []  # for the snapshot
        # By length: all stems one after the other, the chunks of each, and its letters.
        self._stems: dict[int, tuple[str, array[int], array[int]]] = {}
        self._changed: dict[int, Counter[str]] = defaultdict(Counter)

    def fill(self, rows: Iterable[tuple[str, int]], revision: int) -> None:
        """Take what a snapshot has."""
        found: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for stem, chunks in rows:
            found[len(stem)].append((stem, chunks))
        for length, some in found.items():
            masks = array("I", [mask_letters(stem) for stem, _ in some])
            self._stems[length] = "".join(stem for stem, _ in some), array("I", [chunks for _, chunks in some]), masks
        self._revision = revision

    def begin(self) -> None:
        """Count in what was committed since the snapshot."""
        for revision, counted in self._waiting:
            self.note(revision, counted)
        self._waiting.clear()

    def note(self, revision: int, counted: Counter[str]) -> None:
        """Count in what was committed."""
        if self._revision is None:
            self._waiting.append((revision, counted))
        elif revision > self._revision:
            for stem, chunks in counted.items():
                self._changed[len(stem)][stem] += chunks

    def count_changed(self) -> int:
        """How many stems are counted beside those of the snapshot."""
        return sum(map(len, self._changed.values()))

    def copy_changed(self, sought: Sought) -> dict[str, int]:
        """Those of them that may be near."""
        return {
            stem: chunks
            for length in sought.letters
            for stem, chunks in self._changed.get(length, {}).items()
            if sought.fits(stem)
        }

    def list_kept(self, sought: Sought) -> dict[str, int]:
        """Those of the snapshot that may be near, and their chunks."""
        near = {}
        for length, wanted in sought.letters.items():
            stems, chunks, masks = self._stems.get(length, NONE)
            for number, mask in enumerate(masks):
                if (mask ^ wanted).bit_count() <= sought.apart:
                    near[stems[number * length : (number + 1) * length]] = chunks[number]
        return near


NONE = "", array("I"), array("I")


class Stems:
    """The stems of one index, for all its readers."""

    def __init__(self) -> None:
        self._counting = threading.Lock()  # before the other one
        self._changing = threading.Lock()
        self._told: list[tuple[int, list[ChangedWords]]] = []  # commits that are not counted in yet
        self._told_characters = 0
        self._letters: dict[str, _Letter] = {}
        self._begun: dict[_Letter, str] = {}  # that are being read
        self._noted = 0  # the revision after the last commit that was told
        self.is_wanted = False  # somebody asks questions
        self._void_at_s = -SETTLE_S
        self._read_at_s = self._took_s = 0.0  # when all were read last, and how long it took

    def want(self) -> None:
        """Somebody has asked something: the next word may be a slip."""
        self.is_wanted = True

    def list_missing(self) -> list[str]:
        """The letters to read before somebody needs them; none while much is committed, nor so often that it would cost more than
        slips do."""
        now_s = time.monotonic()
        is_time = now_s >= max(self._void_at_s + SETTLE_S, self._read_at_s + self._took_s / READING_SHARE)
        if not (self.is_wanted and is_time):
            return []
        return [first for first in string.ascii_lowercase if first not in self._letters]

    def note_reading(self, took_s: float) -> None:
        """The missing ones were read, which took so long."""
        self._read_at_s, self._took_s = time.monotonic(), took_s

    def read(self, connection: apsw.Connection, first: str) -> None:
        """Read the stems of a letter, if nobody has meanwhile."""
        if first not in self._letters:
            self._read(connection, first)

    def list_near(self, connection: apsw.Connection, sought: Sought) -> list[tuple[str, int]]:
        """Those that may be near a word, and in how many chunks each is; not what stands only once."""
        self.count_told()
        letter = self._letters.get(sought.first) or self._read(connection, sought.first)
        near = letter.list_kept(sought)
        with self._changing:
            changed = letter.copy_changed(sought)
        for stem, chunks in changed.items():
            if stem in near:
                near[stem] += chunks
            elif row := connection.execute(COUNT, (stem,)).fetchone():  # it may have stood once
                near[stem] = int(row[0])
        return [(stem, chunks) for stem, chunks in near.items() if chunks >= LEAST_CHUNKS]

    def note(self, words: list[ChangedWords] | None, revision: int) -> None:
        """Take what a commit added and removed; None: it was much. In the writer's thread, and after the commit, so that it only takes it:
        of a long message all stems take half a millisecond."""
        with self._changing:
            self._noted = revision
            if words is None:
                self._forget()
            elif self._letters or self._begun:
                self._told_characters += sum(len(text) + len(inner) for _, text, inner in words)
                self._told.append((revision, words))
                if self._told_characters > MOST_TOLD:
                    self._forget()

    @property
    def has_told(self) -> bool:
        """Whether there is something to count in."""
        return bool(self._told)

    def count_told(self) -> None:
        """Count in what commits have told; who asks meanwhile waits for it."""
        try:
            with self._counting:
                if self._told:
                    self._count_told()
        except MemoryError:
            with self._changing:
                self._forget()

    def _count_told(self) -> None:
        with self._changing:
            told, self._told, self._told_characters = self._told, [], 0
            kept = [*self._letters.items(), *((first, letter) for letter, first in self._begun.items())]
        for revision, words in told:
            counted = self._count(words, frozenset(first for first, _ in kept))
            with self._changing:
                for first, letter in kept:
                    letter.note(revision, counted[first])
        with self._changing:
            if sum(letter.count_changed() for letter in self._letters.values()) > MOST_CHANGED:
                self._forget()

    def clear(self) -> None:
        """Another index is in this one's place. Nobody reads."""
        with self._changing:
            self._forget()
            self._noted = 0

    def _forget(self) -> None:
        self._void_at_s = time.monotonic()
        self._told, self._told_characters = [], 0
        self._letters.clear()
        self._begun.clear()

    def _read(self, connection: apsw.Connection, first: str) -> _Letter:
        """Read a letter, and keep it, unless the snapshot is older than what has been told."""
        with self._changing:
            letter = _Letter(self._noted)
            self._begun[letter] = first
        try:
            revision = int(sqlite.one(connection, READ_REVISION)[0])
            letter.fill(connection.execute(STEMS, (first, chr(ord(first) + 1))), revision)
        except BaseException:  # it may be interrupted
            with self._changing:
                self._begun.pop(letter, None)
            raise
        with self._changing:
            letter.begin()
            if self._begun.pop(letter, None) is not None and revision >= letter.last_noted:
                self._letters[first] = letter
        return letter

    @cached_property
    def _connection(self) -> apsw.Connection:
        """For its tokenizer."""
        return apsw.Connection(":memory:")

    def _count(self, words: list[ChangedWords], letters: frozenset[str]) -> dict[str, Counter[str]]:
        """In how many chunks more, or fewer, each stem is that begins with one of these letters."""
        tokenize = self._connection.fts5_tokenizer(*TOKENIZER)
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for change, text, inner in words:
            stems = {stem for part in (text, inner) for stem in list_stems(tokenize, part)}
            for stem in stems:
                if stem[0] in letters and SHORTEST <= len(stem) <= LONGEST and not TOO_FAR.search(stem):
                    counted[stem[0]][stem] += change
        return counted


class NoStemsError(Exception):
    """Whoever asks has no stems: where there are some, they know better."""


class ForeignStems(Stems):
    """The stems of a process that is not told what words are committed, so that it keeps none."""

    def list_near(self, connection: apsw.Connection, sought: Sought) -> list[tuple[str, int]]:
        """Raises NoStemsError."""
        raise NoStemsError


def list_stems(tokenize: apsw.FTS5Tokenizer, text: str) -> list[str]:
    """The words of a text, as the index keeps them."""
    found: Any = tokenize(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return list[str](found)

"""What is kept of all chunks of an index, and how it is brought up to a snapshot."""

import threading
from collections import OrderedDict
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.schema import TOKENIZER
from sesamed.store.search.arrays import Base, Column, Ints, Posting
from sesamed.store.search.packed import read_averages, read_chunks
from sesamed.store.search.stems import list_stems

CACHE_BYTES = 128 << 20
LATE = "SELECT id, text, inner FROM texts WHERE id IN carray(?)"
LAST = "SELECT max(id) FROM fts_docsize"
SESSIONS = "SELECT s.id, s.messages, f.id FROM sessions s LEFT JOIN files f ON f.session = s.id WHERE s.revision >= ?"
BEFORE_ALL = -(1 << 62)
BETWEEN = -1  # the number of no word, at the end of each text
TEXTS = ("text", "inner")  # of a chunk


class InconsistentError(Exception):
    """What is kept of the index does not fit it."""


class Counted(NamedTuple):
    """How much there is, as of a snapshot."""

    revision: int
    chunks: int
    messages: int
    sessions: int


class Places(NamedTuple):
    """Which session each file belongs to, and how many messages each session has; by their numbers, 0 where there is none."""

    session_of: Ints
    messages: Ints


NOWHERE = Places(np.zeros(1, np.int64), np.zeros(1, np.int64))


class Held(NamedTuple):
    """A word that was read: of how many first chunks, and how many had died by then."""

    posting: Posting
    reach: int
    died: int


class Cache:
    """The words that were read, the last used ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = OrderedDict[str, Held]()
        self._bytes = 0

    def get(self, stem: str) -> Held | None:
        """A word."""
        with self._lock:
            if stem in self._kept:
                self._kept.move_to_end(stem)
            return self._kept.get(stem)

    def list_all(self) -> list[tuple[str, Held]]:
        """All words."""
        with self._lock:
            return list(self._kept.items())

    def put(self, stem: str, held: Held) -> None:
        """Keep a word, instead of those that were not used for longest."""
        with self._lock:
            if stem in self._kept and self._kept[stem].reach > held.reach:
                return
            self._drop(stem)
            self._kept[stem] = held
            self._bytes += held.posting.nbytes
            while self._bytes > CACHE_BYTES:
                self._drop(next(iter(self._kept)))

    def _drop(self, stem: str) -> None:
        if stem in self._kept:
            self._bytes -= self._kept.pop(stem).posting.nbytes


class Kept:
    """What was read of all chunks, and what has come since. First there are chunks in the order of their numbers: those that were read at
    the beginning, and in a load those that have come behind them; then those that came late. Who reads an array may go on to do so."""

    def __init__(self, base: Base, places: Places) -> None:
        self.revision = base.revision
        self.first_revision = base.revision  # of the beginning
        self.ids, self.lengths = base.ids, base.lengths
        self.first_late = len(self.ids.values)
        self.words, self.owners = (
            Column(np.empty(0, np.int32)) for _ in range(2)
        )  # of late chunks, one after the other
        self.numbers = dict[str, int]()  # of these words
        self.dead: Ints = np.empty(0, np.int64)
        self.died = 0
        self.places = _cover(places, self.ids.values)
        self.kinds = Column(ids.kinds_of(self.ids.values).astype(np.uint8))
        self.sessions = Column(self._list_sessions(self.ids.values))
        self._cache, self._base, self.first_reach = Cache(), base, self.first_late
        self._late = dict[int, int]()  # their ordinals by their numbers
        self._length, self.longest = base.length, base.longest
        self.first_average = measure_average_length(base.length, self.first_late)
        self.file_begins = self._find_begins(0, self.places)

    @property
    def last(self) -> int:
        """The number of the last one that did not come late."""
        return int(self.ids.values[self.first_late - 1]) if self.first_late else -1

    @property
    def count_late(self) -> int:
        """How many chunks have come, or become others."""
        return len(self.ids.values) - self.first_late

    @property
    def count_within(self) -> int:
        """How many of these live, and have not come behind the first ones."""
        return sum(number <= self.last for number in self._late)

    def get(self, key: str, reach: int, died: int) -> Held | None:
        """A word, if it is known of no more first chunks than that, as of when no more had died."""
        held = self._cache.get(key)
        if (held is None or held.reach > reach or held.died > died) and (posting := self._base.find(key)) is not None:
            held = Held(posting, self.first_reach, 0)
        return held if held is not None and held.reach <= reach and held.died <= died else None

    def list_first(self) -> list[tuple[str, Posting]]:
        """The words that were read of the chunks of the beginning, as they were then."""
        known = self.first_reach, 0
        return [(key, held.posting) for key, held in self._cache.list_all() if (held.reach, held.died) == known]

    def put(self, key: str, held: Held) -> None:
        """Keep a word."""
        self._cache.put(key, held)

    def bring_up(
        self, connection: apsw.Connection, counted: Counted, changed: set[int], *, goes_on: bool = False
    ) -> None:
        """See what these chunks are now; and, if it `goes_on`, which ones have come behind the first ones."""
        places = read_places(connection, self.revision, self.places)
        numbers, lengths, words = self._take_apart(connection, changed)
        if goes_on:  # from here on nothing is read that takes so long that it might be given up in the middle
            places = self._append(connection, places)
        dead = self._find(np.array(sorted(changed), np.int64))
        self._length -= int(self.lengths.values[dead].sum())
        self.dead, self.died = np.union1d(self.dead, dead), self.died + len(dead)
        for number in changed:
            self._late.pop(number, None)
        self._late.update((number, ordinal) for ordinal, number in enumerate(numbers, len(self.ids.values)))
        late = np.arange(len(self.ids.values), len(self.ids.values) + len(numbers), dtype=np.int32)
        self.owners.append(np.repeat(late, lengths))
        self.words.append(np.array(words, np.int32))
        self._add(np.array(numbers, np.int64), np.array(lengths, np.int32) - len(TEXTS))
        self._note_sessions(places)
        self.revision = counted.revision
        self.check(connection, counted)

    def _take_apart(self, connection: apsw.Connection, changed: set[int]) -> tuple[list[int], list[int], list[int]]:
        """Those of some chunks that are there; how many words each has, with what is between its texts; and all of these, as numbers."""
        numbers, lengths, words = list[int](), list[int](), list[int]()
        tokenize = connection.fts5_tokenizer(*TOKENIZER)
        for number, *texts in connection.execute(LATE, (sqlite.numbers(changed),)):
            begin = len(words)
            for text in texts:
                words += (self.numbers.setdefault(stem, len(self.numbers)) for stem in list_stems(tokenize, text))
                words.append(BETWEEN)
            numbers.append(number)
            lengths.append(len(words) - begin)
        return numbers, lengths, words

    def _add(self, numbers: Ints, lengths: NDArray[np.int32]) -> None:
        self.ids.append(numbers)
        self.lengths.append(lengths)
        self._length += int(lengths.sum())
        self.longest = max(self.longest, int(lengths.max(initial=0)))

    def _append(self, connection: apsw.Connection, places: Places) -> Places:
        """All chunks that have come behind the first ones are first ones, too. What came late stays behind all of them, and moves."""
        numbers, lengths = read_chunks(connection, self.last)
        places = _cover(places, numbers)
        late = {number: ordinal for number, ordinal in self._late.items() if number <= self.last}
        at = np.array(list(late.values()), np.int64)
        stays = self.ids.values[at], self.lengths.values[at]
        self._length -= int(self.lengths.values[list(self._late.values())].sum())
        if self.count_late:  # other arrays: who reads these may go on to do so
            self.ids, self.lengths = self.ids.take(self.first_late), self.lengths.take(self.first_late)
            self.kinds, self.sessions = self.kinds.take(self.first_late), self.sessions.take(self.first_late)
            self.dead = self.dead[self.dead < self.first_late]
        self._add(numbers, lengths)
        self.first_late = len(self.ids.values)
        self._add(*stays)
        self._move_words(at)
        self._late = {number: ordinal for ordinal, number in enumerate(late, self.first_late)}
        known = int(ids.files_of(numbers[:1]).sum()) + 1 if len(numbers) else len(self.file_begins)
        self.file_begins = np.append(self.file_begins[:known], self._find_begins(known, places))
        return places

    def _move_words(self, late: Ints) -> None:
        """The words of what came late, of these chunks alone, which stand behind the first ones now."""
        owners = self.owners.values
        stays = np.isin(owners, late)
        moved = (np.searchsorted(late, owners[stays]) + self.first_late).astype(np.int32)
        self.owners, self.words = Column(moved), Column(self.words.values[stays])

    def _find_begins(self, file: int, places: Places) -> Ints:
        """Where the first chunks of each file begin, from one file on, and where they end."""
        files = np.arange(file, len(places.session_of) + 1)
        begins: Ints = np.searchsorted(self.ids.values[: self.first_late], files << ids.FILE_BITS)
        return begins

    def _list_sessions(self, numbers: Ints) -> NDArray[np.int32]:
        sessions: NDArray[np.int32] = self.places.session_of.astype(np.int32)[ids.files_of(numbers)]
        return sessions

    def _note_sessions(self, places: Places) -> None:
        """Whose the late chunks are; and all of them, where a file has come to belong to another session."""
        before, self.places = self.places.session_of, places
        known = len(self.sessions.values)
        late = self.ids.values[known:]
        self.kinds.append(ids.kinds_of(late).astype(np.uint8))
        if np.array_equal(before, places.session_of[: len(before)]):
            self.sessions.append(self._list_sessions(late))
        else:
            self.sessions = Column(self._list_sessions(self.ids.values))

    def _find(self, numbers: Ints) -> Ints:
        """The ordinals of those that are there and live."""
        first = self.ids.values[: self.first_late]
        at = np.searchsorted(first, numbers)
        found = at[first[np.minimum(at, len(first) - 1)] == numbers] if len(first) else at[:0]
        late = [self._late[number] for number in numbers.tolist() if number in self._late]
        return np.setdiff1d(np.concatenate((found, np.array(late, np.int64))), self.dead)

    def check(self, connection: apsw.Connection, counted: Counted) -> None:
        """Raise InconsistentError if FTS5 says something else, which counts its rows and words, too."""
        rows, *words = read_averages(connection) or [0]
        if (counted.chunks, rows) != (len(self.ids.values) - len(self.dead),) * 2 or sum(words) != self._length:
            raise InconsistentError

    @property
    def average(self) -> float:
        """The length of a chunk."""
        return measure_average_length(self._length, len(self.ids.values) - len(self.dead))


def measure_average_length(length: int, chunks: int) -> float:
    """Of so many chunks with so many words."""
    return max(1, length) / max(1, chunks)


def read_base(connection: apsw.Connection, counted: Counted) -> Base:
    """All chunks, from the index."""
    numbers, lengths = read_chunks(connection)
    length, longest = int(lengths.sum()), int(lengths.max(initial=0))
    return Base(counted.revision, Column(numbers), Column(lengths), length, longest, lambda stem: None)


def read_last(connection: apsw.Connection) -> int:
    """The number of the last chunk."""
    return int(sqlite.one(connection, LAST)[0] or -1)


def read_places(connection: apsw.Connection, revision: int, places: Places) -> Places:
    """Where sessions are that changed since this revision."""
    rows = connection.execute(SESSIONS, (revision,)).fetchall()
    if not rows:
        return places
    sessions, messages, files = (
        np.array([value or 0 for value in column], np.int64) for column in zip(*rows, strict=True)
    )
    return Places(_put(places.session_of, files, sessions), _put(places.messages, sessions, messages))


def _cover(places: Places, numbers: Ints) -> Places:
    """With all files of these chunks: some may have gone since they were read."""
    missing = int(ids.files_of(numbers[-1])) + 1 - len(places.session_of) if len(numbers) else 0
    return places if missing <= 0 else places._replace(session_of=np.pad(places.session_of, (0, missing)))


def _put(values: Ints, at: Ints, what: Ints) -> Ints:
    changed = np.zeros(max(len(values), int(at.max()) + 1), np.int64)
    changed[: len(values)] = values
    changed[at] = what
    changed[0] = 0
    return changed

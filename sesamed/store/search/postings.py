"""Posting lists as arrays: which chunks hold a word, and how often, read from FTS5 once and kept right while the index changes.

A question whose words are in very many chunks is answered from these (`large`): FTS5 gives a chunk in half a microsecond, an array in
some nanoseconds. A chunk is an ordinal: first all chunks as of some revision, in the order of their numbers; then those that have come
since, or have become others, in the order in which they came. Of these the words are read from the texts. What went, or became another
one, is dead. A `View` is all of that as of one snapshot.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.array_file import ArrayFile, VoidError
from sesamed.store.changes import Changes
from sesamed.store.schema import TOKENIZER
from sesamed.store.search.arrays import NONE, Base, Column, Ints, Late, Posting, list_ranges
from sesamed.store.search.ceilings import Rows, describe, measure_slack, sum_up
from sesamed.store.search.mapped import open_base
from sesamed.store.search.matching import weigh_by_fts5
from sesamed.store.search.scoring import CHUNK_K1, measure_average, measure_norm, measure_session_norm
from sesamed.store.search.stems import list_stems

CACHE_BYTES = 128 << 20
MOST_LATE = 8_000  # chunks; with more, all is read again
MOST_AT_ONCE = 1_000  # of them in one question: reading all again is quicker than their words
READING_SHARE = 0.05  # of the time that passes may go into reading all again
VIEWS = 4  # of the last snapshots
ROWS_AT_ONCE = 200_000
SLICE = 1 << 20  # characters that are parsed at once: other threads wait for the GIL meanwhile
SIZE_DIGITS = 20  # of two numbers of FTS5's, as long as they can be

# Many rows as one string: a row each would cost ten times as much, and the GIL each time.
CHUNKS = f"""
    SELECT group_concat(id), group_concat(substr(hex(sz) || '{"0" * SIZE_DIGITS}', 1, {SIZE_DIGITS}), '')
    FROM (SELECT id, sz FROM fts_docsize WHERE id > ? ORDER BY id LIMIT {ROWS_AT_ONCE})
"""
WORD = "SELECT group_concat(doc) FROM occurrences WHERE term = ?"
PREFIX = "SELECT group_concat(doc) FROM occurrences WHERE term >= ? AND term <= ?"
SCORE_UNIT = 1e15
PHRASE = f"""
    WITH m(id, score) AS MATERIALIZED (SELECT rowid, -bm25(fts) FROM fts WHERE fts MATCH ?)
    SELECT group_concat(id), group_concat(CAST(score * {SCORE_UNIT} AS INTEGER)) FROM m
"""
MATCHING = "SELECT group_concat(rowid) FROM fts WHERE fts MATCH ?"
LATE = "SELECT id, text, inner FROM texts WHERE id IN carray(?)"
AVERAGES = "SELECT block FROM fts_data WHERE id = 1"  # https://sqlite.org/src/file/ext/fts5/fts5_index.c
SESSIONS = "SELECT s.id, s.messages, f.id FROM sessions s LEFT JOIN files f ON f.session = s.id WHERE s.revision >= ?"
COUNTS = "SELECT next_revision, chunks, messages, (SELECT count(*) FROM sessions) FROM totals"
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


class Cache:
    """The words that were read, the last used ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = OrderedDict[str, tuple[Posting, int]]()
        self._bytes = 0

    def get(self, stem: str, dead: int) -> Posting | None:
        """A word that was read when no more chunks were dead than that."""
        with self._lock:
            posting, dead_then = self._kept.get(stem, (None, 0))
            if posting is None or dead_then > dead:
                return None
            self._kept.move_to_end(stem)
            return posting

    def put(self, stem: str, dead: int, posting: Posting) -> None:
        """Keep a word, instead of those that were not used for longest."""
        with self._lock:
            self._drop(stem)
            self._kept[stem] = posting, dead
            self._bytes += posting.nbytes
            while self._bytes > CACHE_BYTES:
                self._drop(next(iter(self._kept)))

    def _drop(self, stem: str) -> None:
        if stem in self._kept:
            self._bytes -= self._kept.pop(stem)[0].nbytes


class Kept:
    """What was read of all chunks, and what has come since. Everything grows at its end only, for those who read it."""

    def __init__(self, base: Base, places: Places) -> None:
        self.revision = base.revision
        self.ids, self.lengths = base.ids, base.lengths
        self.first_late = len(self.ids.values)
        self.words, self.owners = (
            Column(np.empty(0, np.int32)) for _ in range(2)
        )  # of late chunks, one after the other
        self.numbers = dict[str, int]()  # of these words
        self.dead: Ints = np.empty(0, np.int64)
        self.places = _cover(places, self.ids.values)
        self.kinds = Column(ids.kinds_of(self.ids.values).astype(np.uint8))
        self.sessions = Column(self._list_sessions(self.ids.values))
        self._cache, self._base = Cache(), base
        self._late = dict[int, int]()  # their ordinals by their numbers
        self._length, self.longest = base.length, base.longest
        self.first_average = measure_average_length(base.length, self.first_late)
        files = np.arange(len(self.places.session_of) + 1)
        self.file_begins: Ints = np.searchsorted(self.ids.values, files << ids.FILE_BITS)

    @property
    def count_late(self) -> int:
        """How many chunks have come, or become others."""
        return len(self.ids.values) - self.first_late

    def get(self, key: str, dead: int) -> Posting | None:
        """A word, if it is known as of when no more chunks were dead than that."""
        return self._base.find(key) or self._cache.get(key, dead)

    def put(self, key: str, dead: int, posting: Posting) -> None:
        """Keep a word."""
        self._cache.put(key, dead, posting)

    def bring_up(self, connection: apsw.Connection, counted: Counted, changed: set[int]) -> None:
        """See what these chunks are now."""
        numbers, lengths, words = list[int](), list[int](), list[int]()
        tokenize = connection.fts5_tokenizer(*TOKENIZER)
        for number, *texts in connection.execute(LATE, (sqlite.numbers(changed),)):
            begin = len(words)
            for text in texts:
                words += (self.numbers.setdefault(stem, len(self.numbers)) for stem in list_stems(tokenize, text))
                words.append(BETWEEN)
            numbers.append(number)
            lengths.append(len(words) - begin)
        places = _read_places(connection, self.revision, self.places)
        dead = self._find(np.array(sorted(changed), np.int64))
        held = np.array(lengths, np.int32) - len(TEXTS)
        self._length += int(held.sum()) - int(self.lengths.values[dead].sum())
        self.dead = np.union1d(self.dead, dead)
        for number in changed:
            self._late.pop(number, None)
        self._late.update((number, ordinal) for ordinal, number in enumerate(numbers, len(self.ids.values)))
        late = np.arange(len(self.ids.values), len(self.ids.values) + len(numbers), dtype=np.int32)
        self.owners.append(np.repeat(late, lengths))
        self.words.append(np.array(words, np.int32))
        self.ids.append(np.array(numbers, np.int64))
        self.lengths.append(held)
        self._note_sessions(places)
        self.longest = max(self.longest, int(held.max(initial=0)))
        self.revision = counted.revision
        self.check(connection, counted)

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
        rows, *words = _read_varints(sqlite.one(connection, AVERAGES)[0]) or [0]
        if (counted.chunks, rows) != (len(self.ids.values) - len(self.dead),) * 2 or sum(words) != self._length:
            raise InconsistentError

    @property
    def average(self) -> float:
        """The length of a chunk."""
        return measure_average_length(self._length, len(self.ids.values) - len(self.dead))


def measure_average_length(length: int, chunks: int) -> float:
    """Of so many chunks with so many words."""
    return max(1, length) / max(1, chunks)


class View:
    """All chunks of one snapshot."""

    def __init__(self, kept: Kept, counted: Counted) -> None:
        self.counted = counted
        self.places = kept.places
        self.ids, self.lengths = kept.ids.values, kept.lengths.values
        self.kinds, self.sessions = kept.kinds.values, kept.sessions.values
        self.norms: NDArray[np.float64] = measure_norm(np.arange(kept.longest + 1), kept.average)  # by length
        self.slack = measure_slack(kept.average, kept.first_average)  # of what postings say at most
        average = measure_average(counted.sessions, counted.messages)
        self.session_norms: NDArray[np.float64] = measure_session_norm(
            self.places.messages, average
        )  # by their numbers
        self._kept, self.dead, self.first_late = kept, kept.dead, kept.first_late
        self._words, self._owners = kept.words.values, kept.owners.values
        self.is_dead: NDArray[np.bool_] | None = None  # of each chunk, if any is
        if len(self.dead):
            self.is_dead = np.zeros(len(self.ids), np.bool_)
            self.is_dead[self.dead] = True
        late = np.setdiff1d(np.arange(self.first_late, len(self.ids)), self.dead)
        self.late: Ints = late[np.argsort(self.ids[late])]

    def count(self, match: str, stems: Sequence[str]) -> int | None:
        """In how many chunks a pattern is, if it was read before."""
        posting = self._kept.get(_key(match, stems), len(self.dead))
        if posting is None:
            return None
        return len(posting.ordinals) - len(self._find_dead(posting)) + len(self._find_late(match, stems).ordinals)

    def find(self, connection: apsw.Connection, match: str, stems: Sequence[str]) -> Posting:
        """The chunks with a pattern, which is these words to FTS5."""
        key = _key(match, stems)
        posting = self._kept.get(key, len(self.dead))
        if posting is None:
            read = self._read_phrase if len(stems) > 1 else self._read_prefix if _is_begun(match) else self._read_word
            posting = read(connection, match, stems[0])
            self._kept.put(key, len(self.dead), posting)
        return self._bring_up(posting, match, stems)

    def find_once(self, connection: apsw.Connection, stem: str) -> Posting:
        """The chunks with a word that need not be kept for the next question."""
        posting = self._kept.get(stem, len(self.dead)) or self._read_word(connection, stem, stem)
        return self._bring_up(posting, stem, [stem])

    def list_live(self) -> Ints:
        """The ordinals of all chunks, by their numbers."""
        live = np.delete(np.arange(len(self.ids)), self.dead)
        return live[np.argsort(self.ids[live], kind="stable")]

    def _read_word(self, connection: apsw.Connection, _match: str, stem: str) -> Posting:
        numbers = read_numbers(connection, WORD, (stem,))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        return self._make_posting(numbers[starts], np.diff(starts, append=len(numbers)))

    def _read_prefix(self, connection: apsw.Connection, _match: str, stem: str) -> Posting:
        numbers = read_numbers(connection, PREFIX, (stem, stem + chr(0x10FFFF)))
        return self._make_posting(*np.unique(numbers, return_counts=True))

    def _read_phrase(self, connection: apsw.Connection, match: str, _stem: str) -> Posting:
        """How often a phrase is in a chunk, FTS5 says in its score alone."""
        found, told = sqlite.one(connection, PHRASE, (match,))
        numbers, scores = (_parse(found), _parse(told)) if found is not None else (NONE, NONE)
        at, is_there = self._place(numbers)
        shares = scores / SCORE_UNIT / weigh_by_fts5(self.counted.chunks, len(numbers))
        norm = self.norms[self.lengths[at]]
        times = np.ones(len(numbers), np.int64)
        times[is_there] = np.maximum(1, np.rint(shares[is_there] * norm / (CHUNK_K1 + 1 - shares[is_there])))
        return self._make_posting(numbers, times)

    def find_any(self, connection: apsw.Connection, match: str) -> Ints:
        """The ordinals of the chunks that match."""
        return self._place(read_numbers(connection, MATCHING, (match,)))[0]

    def _place(self, numbers: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The ordinals of chunks, and which of them are there."""
        at, is_first = self._look_up(numbers)
        is_first[is_first] = ~np.isin(at[is_first], self.dead)
        late = self.ids[self.late]
        other = np.searchsorted(late, numbers)
        is_late = np.zeros(len(numbers), np.bool_)
        if len(late):
            other = np.minimum(other, len(late) - 1)
            is_late = late[other] == numbers
            at[is_late] = self.late[other[is_late]]
        is_there = is_first | is_late
        return at[is_there], is_there

    def _look_up(self, numbers: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Where these are among the first chunks, and whether they are."""
        first = self.ids[: self.first_late]
        if not len(first):
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
        at = np.minimum(np.searchsorted(first, numbers), len(first) - 1)
        return at, first[at] == numbers

    def _make_posting(self, numbers: Ints, times: Ints) -> Posting:
        """Of the first chunks; what is dead, or late, is seen to by whoever looks it up."""
        at, is_first = self._look_up(numbers)
        ordinals = at[is_first]
        return describe(ordinals, self._list_rows(ordinals, times[is_first]), self._kept.first_average)

    def _list_rows(self, ordinals: Ints, times: Ints) -> Rows:
        return Rows(self.ids[ordinals], self.lengths[ordinals], times)

    def list_first(self, files: Ints) -> tuple[Ints, Ints]:
        """Where the chunks of some files begin, and how many each has: of those that did not come late."""
        begins = self._kept.file_begins
        first, last = (begins[np.minimum(files + turn, len(begins) - 1)] for turn in range(2))
        return first, last - first

    def _bring_up(self, posting: Posting, match: str, stems: Sequence[str]) -> Posting:
        """What was read of the first chunks, with those that came late, and with what files count now in which some did, or are dead."""
        dead, late = self._find_dead(posting), self._find_late(match, stems)
        if not (len(dead) or len(late.ordinals)):
            return posting
        changed = np.concatenate((posting.ordinals[dead], late.ordinals))
        return self._describe_again(
            posting._replace(late=late, dead=len(dead)), np.unique(ids.files_of(self.ids[changed]))
        )

    def _find_dead(self, posting: Posting) -> Ints:
        """Its rows that are dead."""
        ordinals = posting.ordinals
        if not len(ordinals):
            return NONE
        at = np.searchsorted(ordinals, self.dead)
        found: Ints = at[ordinals[np.minimum(at, len(ordinals) - 1)] == self.dead]
        return found

    def list_live_rows(self, posting: Posting) -> tuple[Ints, Ints]:
        """The chunks of a posting, and how often the pattern is in each."""
        dead = self._find_dead(posting)
        ordinals, times = (np.delete(column, dead) for column in (posting.ordinals, posting.times))
        return np.concatenate((ordinals, posting.late.ordinals)), np.concatenate((times, posting.late.times))

    def _describe_again(self, posting: Posting, touched: Ints) -> Posting:
        """With what these files count now; some may be new, and some have nothing any more."""
        files = posting.files
        at = np.searchsorted(files, touched)
        new = touched[files[np.minimum(at, len(files) - 1)] != touched] if len(files) else touched
        if len(new):
            posting = _make_room(posting, new)
            at = np.searchsorted(posting.files, touched)
        edges = posting.edges
        rows = list_ranges(edges[at], edges[at + 1] - edges[at])
        rows = rows[~np.isin(posting.ordinals[rows], self.dead)]
        ordinals = np.concatenate((posting.ordinals[rows], posting.late.ordinals))
        times = np.concatenate((posting.times[rows], posting.late.times))
        order = np.argsort(ids.files_of(self.ids[ordinals]), kind="stable")
        there, _, *columns = sum_up(self._list_rows(ordinals[order], times[order]), self._kept.first_average)
        which = np.searchsorted(posting.files, there)
        told = []
        for before, now in zip((posting.messages, posting.most, posting.most_said), columns, strict=True):
            column = before.astype(np.result_type(before, now))
            column[at] = 0
            column[which] = now
            told.append(column)
        messages, most, said = told
        return posting._replace(messages=messages, most=most, most_said=said)

    def _find_late(self, match: str, stems: Sequence[str]) -> Late:
        """The late chunks with a pattern, and how often it is in each."""
        numbers = self._kept.numbers
        known = [[numbers[stem]] if stem in numbers else [] for stem in stems]
        if _is_begun(match):
            known[-1] = [number for stem, number in list(numbers.items()) if stem.startswith(stems[-1])]
        count = len(self._words) - len(stems) + 1
        if count < 1 or not all(known):
            return Late(NONE, NONE)
        is_here = np.ones(count, np.bool_)
        for turn, some in enumerate(known):
            words = self._words[turn : turn + count]
            is_here &= words == some[0] if len(some) == 1 else np.isin(words, some)
        owners = self._owners[:count][is_here]
        late, times = np.unique(owners[~np.isin(owners, self.dead)], return_counts=True)
        return Late(late.astype(np.int64), times)


def _make_room(posting: Posting, files: Ints) -> Posting:
    """With files of which nothing is known yet."""
    at = np.searchsorted(posting.files, files)
    begins = posting.edges[at]
    return posting._replace(
        files=np.insert(posting.files, at, files),
        begins=np.insert(posting.begins, at, begins),
        messages=np.insert(posting.messages, at, 0),
        most=np.insert(posting.most, at, 0),
        most_said=np.insert(posting.most_said, at, 0),
    )


def _is_begun(match: str) -> bool:
    return match.endswith("*")


def _key(match: str, stems: Sequence[str]) -> str:
    return match if len(stems) > 1 or _is_begun(match) else stems[0]


class Postings:
    """What is kept for the questions to one index."""

    def __init__(self, changes: Changes, file: ArrayFile | None = None) -> None:
        self._changes, self._file = changes, file
        self._lock = threading.Lock()
        self._kept: Kept | None = None
        self._views = OrderedDict[int, View]()
        self._took_s, self._read_at_s, self._used_at_s = 0.0, 0.0, 0.0

    def see(self, connection: apsw.Connection, *, read: bool = True) -> View | None:
        """All chunks of a connection's snapshot; None if it is older than what is known, or if reading them again would not pay.
        Without `read`: None if they were never read, and no file has them."""
        if self._kept is None and not read and not self._has_file:
            return None
        counted = Counted(*sqlite.one(connection, COUNTS))
        self._used_at_s = time.monotonic()
        with self._lock:
            view = self._views.get(counted.revision)
            if view is None and (kept := self._bring_up(connection, counted, read=read)) is not None:
                view = self._views[counted.revision] = View(kept, counted)
                while len(self._views) > VIEWS:
                    self._views.popitem(last=False)
            return view

    def drop(self, unused_s: float) -> None:
        """Give the memory back that nobody has used for so long."""
        if time.monotonic() - self._used_at_s >= unused_s:
            with self._lock:
                self._drop()

    @property
    def _has_file(self) -> bool:
        return self._file is not None and self._file.mark is not None

    def _drop(self) -> None:
        self._kept = None
        self._views.clear()

    def _bring_up(self, connection: apsw.Connection, counted: Counted, *, read: bool) -> Kept | None:
        """What is kept, as of this snapshot."""
        kept = self._kept
        if kept is not None and counted.revision < kept.revision:
            return None
        try:
            if kept is not None and (changed := self._list_changed(kept, counted.revision)) is not None:
                kept.bring_up(connection, counted, changed)
                return kept
        except InconsistentError:
            self._drop()
            self._void()
        self._kept = self._map(connection, counted)
        if self._kept is None and read and time.monotonic() >= self._read_at_s + self._took_s / READING_SHARE:
            self._kept = self._read(connection, counted)
        return self._kept

    def _map(self, connection: apsw.Connection, counted: Counted) -> Kept | None:
        """What the file has, if it fits."""
        if self._file is None or (mark := self._file.mark) is None or counted.revision < mark.revision:
            return None
        self._drop()
        changed = self._changes.list_between(mark.revision, counted.revision)
        try:
            if changed is not None and len(changed) <= MOST_LATE:
                base = open_base(self._file)
                if base.revision == mark.revision:
                    kept = Kept(base, _read_places(connection, BEFORE_ALL, NOWHERE))
                    kept.bring_up(connection, counted, changed)
                    return kept
        except (VoidError, InconsistentError):
            pass
        if (
            self._file.mark == mark
        ):  # else another one was made meanwhile, perhaps of what this snapshot does not show yet
            self._void()
        return None

    def _void(self) -> None:
        if self._file is not None:
            self._file.void()

    def _read(self, connection: apsw.Connection, counted: Counted) -> Kept | None:
        """All again, from the index."""
        self._drop()
        self._changes.want()
        begun_s = time.monotonic()
        try:
            base = _read_base(connection, counted)
            kept = Kept(base, _read_places(connection, BEFORE_ALL, NOWHERE))
            kept.check(connection, counted)
        except InconsistentError:
            return None
        else:
            return kept
        finally:
            self._read_at_s = time.monotonic()
            self._took_s = self._read_at_s - begun_s

    def _list_changed(self, kept: Kept, revision: int) -> set[int] | None:
        """The chunks that are others now; None if they are too many, or not known."""
        changed = self._changes.list_between(kept.revision, revision)
        is_few = changed is not None and len(changed) <= MOST_AT_ONCE and kept.count_late + len(changed) <= MOST_LATE
        return changed if is_few else None


def _read_base(connection: apsw.Connection, counted: Counted) -> Base:
    numbers, lengths = _read_chunks(connection)
    length, longest = int(lengths.sum()), int(lengths.max(initial=0))
    return Base(counted.revision, Column(numbers), Column(lengths), length, longest, lambda stem: None)


def _read_chunks(connection: apsw.Connection) -> tuple[Ints, NDArray[np.int32]]:
    """The numbers of all chunks, and how many words each has."""
    numbers, lengths, last = [np.empty(0, np.int64)], [np.empty(0, np.int32)], -1
    while True:
        found, sizes = sqlite.one(connection, CHUNKS, (last,))
        if found is None:
            return np.concatenate(numbers), np.concatenate(lengths)
        numbers.append(_parse(found))
        lengths.append(_add_varints(np.frombuffer(bytes.fromhex(sizes), np.uint8).reshape(-1, SIZE_DIGITS // 2)))
        last = int(numbers[-1][-1])


def _add_varints(table: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The sum of the two numbers with which each row begins: seven bits a byte, the highest first, and the last byte below 128."""
    total, value, ended = (np.zeros(len(table), np.int32) for _ in range(3))
    for byte in table.T:
        value = value << 7 | byte & 127
        ends = byte < 128
        total += np.where(ends & (ended < 2), value, 0)
        value[ends] = 0
        ended += ends
        if ended.min(initial=2) >= 2:
            break
    return total


def _read_varints(block: bytes) -> list[int]:
    found, value = list[int](), 0
    for byte in block:
        value = value << 7 | byte & 127
        if byte < 128:
            found.append(value)
            value = 0
    return found


def _read_places(connection: apsw.Connection, revision: int, places: Places) -> Places:
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


def read_numbers(connection: apsw.Connection, sql: str, values: sqlite.Values = ()) -> Ints:
    """The numbers that a statement gives as one string."""
    (found,) = sqlite.one(connection, sql, values)
    return np.empty(0, np.int64) if found is None else _parse(found)


def _parse(text: str) -> Ints:
    """Numbers with commas between them."""
    parts, begin = list[Ints](), 0
    while begin < len(text):
        end = text.find(",", begin + SLICE)
        end = len(text) if end < 0 else end
        parts.append(np.fromstring(text[begin:end], np.int64, sep=","))
        begin = end + 1
    return np.concatenate(parts)

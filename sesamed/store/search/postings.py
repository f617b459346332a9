"""Posting lists as arrays: which chunks hold a word, and how often, read from FTS5 once and kept right while the index changes.

A question whose words are in very many chunks is answered from these (`large`): FTS5 gives a chunk in half a microsecond, an array in
some nanoseconds. A chunk is an ordinal: first all chunks as of some revision, in the order of their numbers, behind which others are put
while very many come; then those that have come since, or have become others, in the order in which they came. Of these the words are read
from the texts. What went, or became another one, is dead. A `View` is all of that as of one snapshot.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids, sqlite
from sesamed.store.array_file import ArrayFile, VoidError
from sesamed.store.changes import ALL, Changes
from sesamed.store.search.arrays import NONE, Ints, Late, Posting, list_ranges
from sesamed.store.search.ceilings import Rows, cut_last, describe, join, measure_slack, sum_up
from sesamed.store.search.kept import (
    BEFORE_ALL,
    NOWHERE,
    Counted,
    Held,
    InconsistentError,
    Kept,
    read_base,
    read_last,
    read_places,
)
from sesamed.store.search.mapped import open_base
from sesamed.store.search.packed import parse, read_numbers
from sesamed.store.search.scoring import measure_average, measure_norm, measure_session_norm

MOST_LATE = 8_000  # chunks; with more, all is read again
MOST_AT_ONCE = (
    1_000  # of them in one question: to go on behind the others, or to read all again, is quicker than their words
)
MOST_GROWN = 0.5  # of the chunks; of more, a word is read again
READING_SHARE = 0.05  # of the time that passes may go into reading all again
VIEWS = 4  # of the last snapshots

WORD = "SELECT group_concat(doc) FROM occurrences WHERE term = ?"
PREFIX = "SELECT group_concat(doc) FROM occurrences WHERE term >= ? AND term <= ?"
PHRASE = f"""
    WITH m(id, times) AS MATERIALIZED (SELECT rowid, {sqlite.TIMES}(fts) FROM fts WHERE fts MATCH ? AND rowid > ?)
    SELECT group_concat(id), group_concat(times) FROM m
"""
MATCHING = "SELECT group_concat(rowid) FROM fts WHERE fts MATCH ?"
COUNTS = "SELECT next_revision, chunks, messages, (SELECT count(*) FROM sessions) FROM totals"


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
        self._kept, self.dead, self._died, self.first_late = kept, kept.dead, kept.died, kept.first_late
        self._file_begins = kept.file_begins
        self._words, self._owners = kept.words.values, kept.owners.values
        self.is_dead: NDArray[np.bool_] | None = None  # of each chunk, if any is
        if len(self.dead):
            self.is_dead = np.zeros(len(self.ids), np.bool_)
            self.is_dead[self.dead] = True
        late = np.setdiff1d(np.arange(self.first_late, len(self.ids)), self.dead)
        self.late: Ints = late[np.argsort(self.ids[late])]

    def count(self, connection: apsw.Connection, match: str, stems: Sequence[str]) -> int | None:
        """In how many chunks a pattern is, if it was read before."""
        posting = self._know(connection, match, stems)
        if posting is None:
            return None
        return len(posting.ordinals) - len(self._find_dead(posting)) + len(self._find_late(match, stems).ordinals)

    def find(self, connection: apsw.Connection, match: str, stems: Sequence[str]) -> Posting:
        """The chunks with a pattern, which is these words to FTS5."""
        posting = self._know(connection, match, stems)
        if posting is None:
            read = self._read_phrase if len(stems) > 1 else self._read_prefix if _is_begun(match) else self._read_word
            posting = self._make_posting(*read(connection, match, stems[0]))
            self._keep(match, stems, posting)
        return self._bring_up(posting, match, stems)

    def find_once(self, connection: apsw.Connection, stem: str) -> Posting:
        """The chunks with a word that need not be kept for the next question."""
        held = self._kept.get(stem, self.first_late, self._died)
        if held is not None and held.reach == self.first_late:
            return self._bring_up(held.posting, stem, [stem])
        return self._bring_up(self._make_posting(*self._read_word(connection, stem, stem)), stem, [stem])

    def _know(self, connection: apsw.Connection, match: str, stems: Sequence[str]) -> Posting | None:
        """What was read of a pattern before, and what has come behind that."""
        held = self._kept.get(_key(match, stems), self.first_late, self._died)
        if held is None or held.reach < MOST_GROWN * self.first_late:
            return None
        if held.reach == self.first_late:
            return held.posting
        numbers, times = self._read_phrase(connection, match, stems[0], int(self.ids[held.reach - 1]))
        posting = self._put_behind(held.posting, numbers, times)
        self._keep(match, stems, posting)
        return posting

    def _keep(self, match: str, stems: Sequence[str], posting: Posting) -> None:
        self._kept.put(_key(match, stems), Held(posting, self.first_late, self._died))

    def list_live(self) -> Ints:
        """The ordinals of all chunks, by their numbers."""
        live = np.delete(np.arange(len(self.ids)), self.dead)
        return live[np.argsort(self.ids[live], kind="stable")]

    def _read_word(self, connection: apsw.Connection, _match: str, stem: str) -> tuple[Ints, Ints]:
        numbers = read_numbers(connection, WORD, (stem,))
        starts = np.flatnonzero(np.diff(numbers, prepend=-1))
        return numbers[starts], np.diff(starts, append=len(numbers))

    def _read_prefix(self, connection: apsw.Connection, _match: str, stem: str) -> tuple[Ints, Ints]:
        numbers, times = np.unique(read_numbers(connection, PREFIX, (stem, stem + chr(0x10FFFF))), return_counts=True)
        return numbers, times

    def _read_phrase(self, connection: apsw.Connection, match: str, _stem: str, after: int = -1) -> tuple[Ints, Ints]:
        """Whatever the pattern is: the chunks with it after one of them, and how often it is in each."""
        found, times = sqlite.one(connection, PHRASE, (match, after))
        return (NONE, NONE) if found is None else (parse(found), parse(times))

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

    def _put_behind(self, posting: Posting, numbers: Ints, times: Ints) -> Posting:
        """With chunks that are behind all of these; the last file of the one may be the first of the other."""
        at, is_first = self._look_up(numbers)
        ordinals, times = at[is_first], times[is_first]
        if not len(ordinals):
            return posting
        if len(posting.files) and posting.files[-1] == ids.files_of(self.ids[ordinals[:1]])[0]:
            begin = int(posting.begins[-1])
            ordinals = np.concatenate((posting.ordinals[begin:], ordinals))
            times = np.concatenate((posting.times[begin:], times))
            posting = cut_last(posting)
        return join(posting, describe(ordinals, self._list_rows(ordinals, times), self._kept.first_average))

    def _list_rows(self, ordinals: Ints, times: Ints) -> Rows:
        return Rows(self.ids[ordinals], self.lengths[ordinals], times)

    def list_first(self, files: Ints) -> tuple[Ints, Ints]:
        """Where the chunks of some files begin, and how many each has: of those that did not come late."""
        begins = self._file_begins
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
        with sqlite.awaited(connection, self._lock):
            view = self._views.get(counted.revision)
            if view is None and (kept := self._bring_up(connection, counted, read=read)) is not None:
                view = self._views[counted.revision] = View(kept, counted)
                while len(self._views) > VIEWS:
                    self._views.popitem(last=False)
            return view

    @property
    def first(self) -> Kept | None:
        """What is kept, if it has not grown, and all changes since it was read are known and few: it may be mapped by somebody else."""
        kept = self._kept
        if kept is None or kept.first_late > kept.first_reach:
            return None
        changed = self._changes.list_between(kept.first_revision, ALL)
        return None if changed is None or len(changed) > MOST_LATE else kept

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
        kept, mark = self._kept, None if self._file is None else self._file.mark
        if kept is not None and counted.revision < kept.revision:
            return None
        try:
            if kept is not None and self._go_on(kept, connection, counted):
                return kept
        except InconsistentError:
            self._drop()
            if self._file is not None and mark is not None:
                self._file.void(mark)
        except MemoryError:  # with a part of what has changed it would answer wrongly
            self._drop()
            raise
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
                    kept = Kept(base, read_places(connection, BEFORE_ALL, NOWHERE))
                    kept.bring_up(connection, counted, changed)
                    return kept
        except (VoidError, InconsistentError):
            pass
        except OSError:  # too few descriptors, or too little memory
            return None
        self._file.void(
            mark
        )  # another one may have been made meanwhile, perhaps of what this snapshot does not show yet
        return None

    def _read(self, connection: apsw.Connection, counted: Counted) -> Kept | None:
        """All again, from the index."""
        self._drop()
        self._changes.note_up_to(read_last(connection), counted.revision)
        if self._changes.list_between(counted.revision, counted.revision) is None:
            return None  # of what is written just now too much was to be noted: what is read would be of no use to the next question
        begun_s = time.monotonic()
        try:
            base = read_base(connection, counted)
            kept = Kept(base, read_places(connection, BEFORE_ALL, NOWHERE))
            kept.check(connection, counted)
        except InconsistentError:
            return None
        else:
            return kept
        finally:
            self._read_at_s = time.monotonic()
            self._took_s = self._read_at_s - begun_s

    def _go_on(self, kept: Kept, connection: apsw.Connection, counted: Counted) -> bool:
        """Bring up what is kept, unless what has changed is not known, or too much for that."""
        since = kept.revision
        count = self._changes.count_between(since, counted.revision)
        are_few = count is not None and count <= MOST_AT_ONCE and kept.count_late + count <= MOST_LATE
        if are_few and (changed := self._changes.list_between(since, counted.revision)) is not None:
            kept.bring_up(connection, counted, changed)
            return True
        within = self._changes.list_between(since, counted.revision, kept.last)
        if within is None or len(within) > MOST_AT_ONCE or kept.count_within + len(within) > MOST_LATE:
            return False
        kept.bring_up(connection, counted, within, goes_on=True)
        self._changes.note_up_to(kept.last, kept.revision)
        return True

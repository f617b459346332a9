"""Which of a session's records lead to one of them, by their numbers: in a tree of messages a person may have gone back to an earlier one,
and on from there. Where nobody did, that is all of them.

What is not on the way to the newest one is another branch. In a conversation that is no tree, what was taken back is left out instead.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apsw

from sesamed.errors import ParamsError
from sesamed.store import ids, sqlite
from sesamed.store.ids import line_digest
from sesamed.store.reading import session as read
from sesamed.store.reading.resolve import quote

LEAF = "leaf"

NEWEST_FILE = f"""
    {read.IN_ORDER} SELECT p.file FROM place p ORDER BY p.time_ms DESC, p.path DESC, p.position DESC LIMIT 1
"""
NEXT = f"""
    SELECT 1 + max(coalesce((SELECT max({ids.sql_position("id")}) FROM records WHERE {ids.sql_in_file("id", "?1")}), -1),
      coalesce((SELECT max(position) FROM copies WHERE file = ?1), -1))
"""
JUMP = "SELECT position, follows FROM jumps WHERE file = ? AND position <= ? ORDER BY position DESC LIMIT 1"
JUMP_AT = "SELECT follows FROM jumps WHERE file = ? AND position = ?"
TAKEN_BACK = "SELECT first, last FROM undone WHERE file = ? AND last < ? ORDER BY first"
WITH_ENTRY = f"""
    SELECT max(position) FROM (
      SELECT {ids.sql_position("id")} AS position FROM records WHERE {ids.sql_in_file("id", ":file")} AND entry = :entry
      UNION ALL SELECT position FROM copies WHERE file = :file AND entry = :entry
    ) WHERE position < :before
"""
PASSED = "SELECT follows FROM passed_lines WHERE file = ? AND digest = ?"
NUMBERS = f"""
    {read.IN_ORDER} SELECT DISTINCT o.position FROM place p JOIN ordered o ON o.record = p.record
    WHERE p.file = :file AND p.position BETWEEN :first AND :last
"""
# Of a thread in several files: where the file goes on in those before it.
BEFORE_FILE = """
    SELECT o.file, o.position FROM facts b JOIN files f ON f.id = b.file JOIN files g ON g.session = f.session AND g.path < f.path
      JOIN ordinals o ON o.file = g.id
    WHERE b.file = ? AND b.native_id = '' AND b.field = 'base' AND o.ordinal < CAST(substr(b.value, instr(b.value, ':') + 1) AS INTEGER)
    ORDER BY g.path DESC, o.position DESC LIMIT 1
"""


class Span(NamedTuple):
    """Numbers, or positions, that follow each other: the first and the last."""

    first: int
    last: int


class Place(NamedTuple):
    """A position in a file that a branch leads to, and before which position it was said: what was taken back later counts."""

    file: int
    at: int
    end: int


class Branch:
    """Some of a session's records, in order."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans = list(spans)
        self._ends = [0]
        for first, last in self._spans:
            self._ends.append(self._ends[-1] + last - first + 1)

    @property
    def total(self) -> int:
        """How many there are."""
        return self._ends[-1]

    def index_of(self, number: int) -> int:
        """Where a number stands, or the next one that is there."""
        at = bisect_left(self._spans, number, key=lambda span: span.last)
        return self.total if at == len(self._spans) else self._ends[at] + max(0, number - self._spans[at].first)

    def cut(self, begin: int, count: int) -> list[Span]:
        """So many numbers from an index on."""
        found = []
        for (first, _), start, end in zip(self._spans, self._ends, self._ends[1:], strict=False):
            low, high = max(begin, start), min(begin + count, end)
            if low < high:
                found.append(Span(first + low - start, first + high - 1 - start))
        return found


def find_branch(connection: apsw.Connection, session: int, leaf: str) -> Branch:
    """The records that lead to the newest one (`leaf`), or to the one with this entry id, which is among them."""
    segments = read.find_segments(connection, session)
    begin = sum(segment.length or 0 for segment in segments)
    found: list[Span] = []
    is_wanted = leaf == LEAF
    for segment in reversed(segments):
        begin -= segment.length or 0
        spans = _trace(connection, segment, None if is_wanted else leaf)
        is_wanted = is_wanted or spans is not None
        found = [Span(begin + first, begin + last) for first, last in spans or ()] + found
    if not is_wanted:
        raise ParamsError(
            f"branch: no message of the session has the id {quote(leaf)}; list_messages gives them as entryId"
        )
    return Branch(found)


def _trace(connection: apsw.Connection, segment: read.Segment, entry: str | None) -> list[Span] | None:
    """The numbers of one session, in order; None if it does not have the entry."""
    files = read.list_files(connection, segment.session)
    place = _find_leaf(connection, segment, files) if entry is None else _find_place(connection, files, entry)
    if place is None:
        return None
    if len(files) > 1:
        numbers = _trace_files(connection, segment.session, place)
        return _join(number for number in numbers if segment.length is None or number < segment.length)
    if segment.length is not None and place.at >= segment.length:
        return None
    return _trace_file(connection, place)


def _find_leaf(connection: apsw.Connection, segment: read.Segment, files: Sequence[int]) -> Place:
    """What the next record would follow, in the file that was written to last."""
    if len(files) == 1:
        file, end = files[0], segment.length
    else:
        row = connection.execute(NEWEST_FILE, {"session": segment.session}).fetchone()
        file, end = (files[0] if row is None else row[0]), None
    if end is None:
        end = int(sqlite.one(connection, NEXT, (file,))[0])
    row = connection.execute(JUMP_AT, (file, end)).fetchone()
    return Place(file, end - 1 if row is None else int(row[0]), end)


def _find_place(connection: apsw.Connection, files: Sequence[int], entry: str) -> Place | None:
    """Where a line stands, or the record that it stands behind."""
    for file in reversed(files):
        (source,) = sqlite.one(connection, "SELECT source FROM files WHERE id = ?", (file,))
        if (found := find_entry(connection, file, source, entry)) is not None:
            return Place(file, found, found)
    return None


def find_entry(
    connection: apsw.Connection, file: int, source: str, entry: str, before: int = ids.LAST_POSITION + 1
) -> int | None:
    """The position of a line: of its last record, or of the one that it stands behind. All of the file's records are looked through."""
    row = connection.execute(PASSED, (file, line_digest(source, entry))).fetchone()
    if row is None:
        row = next(connection.execute(WITH_ENTRY, {"file": file, "entry": entry, "before": before}))
    return None if row[0] is None else int(row[0])


def _trace_files(connection: apsw.Connection, session: int, place: Place) -> list[int]:
    """The numbers of a session with several files, each of which may go on from the one before it."""
    found: set[int] = set()
    while True:
        for first, last in _trace_file(connection, place):
            values = {"session": session, "file": place.file, "first": first, "last": last}
            found.update(number for (number,) in sqlite.rows(connection, NUMBERS, values))
        row = connection.execute(BEFORE_FILE, (place.file,)).fetchone()
        if row is None:
            return sorted(found)
        file, at = row
        place = Place(file, at, at + 1)


def _trace_file(connection: apsw.Connection, place: Place) -> list[Span]:
    """The positions that lead to this one, but for what had been taken back by then."""
    file, at, end = place
    spans: list[Span] = []
    while at >= 0:
        first, follows = connection.execute(JUMP, (file, at)).fetchone() or (0, -1)
        spans.insert(0, Span(first, at))
        at = min(follows, first - 1)
    return list(_without(spans, sqlite.rows(connection, TAKEN_BACK, (file, end))))


def _without(spans: Iterable[Span], taken: Sequence[tuple[int, ...]]) -> Iterable[Span]:
    """Spans without these parts; both in order."""
    for first, last in spans:
        begin = first
        for low, high in taken:
            if low > last or high < begin:
                continue
            if low > begin:
                yield Span(begin, low - 1)
            begin = max(begin, high + 1)
        if begin <= last:
            yield Span(begin, last)


def _join(numbers: Iterable[int]) -> list[Span]:
    """Numbers in order as spans."""
    found: list[Span] = []
    for number in numbers:
        if found and found[-1].last == number - 1:
            found[-1] = Span(found[-1].first, number)
        else:
            found.append(Span(number, number))
    return found

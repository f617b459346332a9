"""The texts of records: chunks and their full-text rows, always written together, and the totals that count them; and which of several
results of a call is shown.

FTS5 makes a segment of what it has in memory whenever a row number does not grow, and before any other statement. So changes of full-text
rows are gathered, and made together at the end of the transaction: 1,500 records that moved to an older session were 3,000 segments.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal

import apsw

from sesamed.model import digest
from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import ChangedWords, ResultRow, Text
from sesamed.store.sqlite import plain
from sesamed.store.subwords import inner_words
from sesamed.way import Way

_PLACE = itemgetter(1, 2)  # record and kind
DELETE_AT_ONCE = 1000
CHARACTERS_AT_ONCE = 8 << 20  # of words; a commit of a load has fewer. What is dropped may be larger than memory
CHARACTERS_TOLD = 1 << 19  # of words in a commit, in which who counts them takes 25 ms; a commit of a load has more
NUMBER = ids.sql_chunk("?", "?")
ADD_CHUNK = f"INSERT INTO chunks(id, text, raw) VALUES({NUMBER}, ?, ?)"
CHANGE_WORDS = f"INSERT INTO fts(fts, rowid, text, inner) VALUES(?, {NUMBER}, ?, ?)"  # NULL: add


class Chunks:
    """The chunks of one transaction."""

    def __init__(self, connection: apsw.Connection, way: Way | None = None) -> None:
        self._connection = connection
        self._way = way or Way()
        self._rows: list[tuple[int, int, bytes, bytes | None]] = []
        self._words: list[tuple[str | None, int, int, str, str]] = []
        self.changed = set[int]()  # full-text rows of this transaction
        self._added = self._characters = 0
        self._told: list[ChangedWords] | None = []
        self._told_characters = 0

    def add(self, record: int, text: Text) -> None:
        """Take a chunk of a record; `flush` writes it."""
        self._rows.append((record, text.kind, text.packed, text.packed_raw))
        if text.kind != Kind.UNINDEXED:
            self._added += 1
            self._change_words(None, record, text)

    def flush(self) -> None:
        """Write the chunks that were taken."""
        if not self._rows:
            return
        self._connection.executemany(ADD_CHUNK, self._way.between(self._rows) if self._way.is_open else self._rows)
        self._connection.execute("UPDATE totals SET chunks = chunks + ?", (self._added,))
        self._rows.clear()
        self._added = 0
        if self._characters > CHARACTERS_AT_ONCE:
            self._write_words()

    def finish(self) -> None:
        """Write chunks and full-text rows."""
        self.flush()
        self._write_words()

    def _change_words(self, command: Literal["delete"] | None, record: int, text: Text) -> None:
        self._words.append((command, record, text.kind, text.text, text.inner))
        self.changed.add(ids.chunk_of(record, text.kind))
        self._characters += len(text.text)

    def _write_words(self) -> None:
        """Change the full-text rows, in the order of their numbers; those of one number in the order in which they came."""
        self._tell()
        self._words.sort(key=_PLACE)
        self._connection.executemany(CHANGE_WORDS, self._way.between(self._words) if self._way.is_open else self._words)
        self._words.clear()
        self._characters = 0

    def take_told(self) -> list[ChangedWords] | None:
        """The words that came and went since this was asked; None: too many to say which."""
        told, self._told, self._told_characters = self._told, [], 0
        return told

    def _tell(self) -> None:
        self._told_characters += self._characters
        if self._told is None or self._told_characters > CHARACTERS_TOLD:
            self._told = None
        else:
            self._told += [
                ChangedWords(1 if command is None else -1, text, inner) for command, _, _, text, inner in self._words
            ]

    def chunk(self, record: int, kind: int) -> Text | None:
        """A chunk of a record that is already written."""
        sql = "SELECT text, raw FROM chunks WHERE id = ?"
        row = self._connection.execute(sql, (ids.chunk_of(record, kind),)).fetchone()
        return None if row is None else unpack(kind, *row)

    def remove(self, record: int, kind: int) -> None:
        """Remove one chunk."""
        number = ids.chunk_of(record, kind)
        self._remove(sqlite.rows(self._connection, "SELECT id, text FROM chunks WHERE id = ?", (number,)))

    def remove_records(self, first: int, last: int) -> None:
        """Take the chunks of records out, some at a time: a file may be larger than memory."""
        bounds = (ids.chunks_of(first)[0], ids.chunks_of(last)[1], DELETE_AT_ONCE)
        sql = "SELECT id, text FROM chunks WHERE id BETWEEN ? AND ? LIMIT ?"
        while some := sqlite.rows(self._connection, sql, bounds):
            self._remove(some)

    def move(self, record: int, target: int) -> None:
        """Give a record's chunks to another row number."""
        sql = "SELECT id, text, raw FROM chunks WHERE id BETWEEN ? AND ?"
        rows = sqlite.rows(self._connection, sql, ids.chunks_of(record))
        self._remove([row[:2] for row in rows])
        for number, packed, raw in rows:
            self.add(target, unpack(ids.kind_of(number), packed, raw))
        self.flush()

    def _remove(self, rows: Sequence[tuple[Any, ...]]) -> None:
        texts = [(number, unpack(ids.kind_of(number), packed)) for number, packed in rows]
        words = [(number, text) for number, text in texts if text.kind != Kind.UNINDEXED]
        for number, text in words:
            self._change_words("delete", ids.record_of(number), text)
        self._connection.executemany("DELETE FROM chunks WHERE id = ?", [(number,) for number, _ in rows])
        self._connection.execute("UPDATE totals SET chunks = chunks - ?", (len(words),))
        if self._characters > CHARACTERS_AT_ONCE:
            self._write_words()


def unpack(kind: int, packed: bytes, raw: bytes | None = None) -> Text:
    """A chunk from its stored form."""
    text = plain(packed)
    return Text(kind, text, packed, inner_words(kind, text), None if raw is None else plain(raw), raw)


# -- results
#
# A session that was forked between a call and its result may have another one. One result is shown for all: the smallest, so that the order
# in which files are read makes no difference. Of a shared call each holder's result is kept as a digest, and the texts that are not shown
# beside it; so one holder can be dropped without reading the others again.

DIGESTS = f"""
    SELECT DISTINCT digest FROM results_by_holder
    WHERE place = :record OR place IN (SELECT {ids.sql_record("file", "position")} FROM copies WHERE record = :record)
"""


class Results:
    """The results, within one transaction."""

    def __init__(self, connection: apsw.Connection, chunks: Chunks) -> None:
        self._connection = connection
        self._chunks = chunks

    def record(self, record: int, place: int, result: ResultRow) -> None:
        """A holder has this result for a call."""
        if self._is_shared(record):
            self._record_digest(place, _digest(result))
        current = self._current(record)
        if current is not None and _digest(current) == _digest(result):
            return
        if current is None or _order(result) < _order(current):
            self._make_current(record, result)
            if current is None:
                return
            result = current
        if self._is_shared(record):
            self._keep_other(record, result)

    def correct(self, record: int, place: int, *, is_error: bool) -> None:
        """A holder says that the call failed, or not, after all; the text is the same."""
        before = self.result_at(place, record)
        if before is None or before.is_error == is_error:
            return
        result = ResultRow(before.key, before.text, is_error)
        if not self._is_shared(record):
            self._make_current(record, result)
            return
        self._record_digest(place, _digest(result))
        self._keep_other(record, result)
        self.choose_again(record)

    def begin_sharing(self, record: int) -> None:
        """The record gets its first copy: the current result is that of its home."""
        if not self._is_shared(record) and (current := self._current(record)) is not None:
            self._record_digest(record, _digest(current))

    def choose_again(self, record: int) -> None:
        """A holder was dropped: a result that only it had goes with it."""
        if (current := self._current(record)) is None:
            return
        held = {digest for (digest,) in sqlite.rows(self._connection, DIGESTS, {"record": record})}
        others = sorted((other for other in self._others(record) if _digest(other) in held), key=_order)
        if _digest(current) not in held:
            self._make_current(record, others.pop(0) if others else None)
        self._connection.execute("DELETE FROM other_results WHERE record = ?", (record,))
        for other in others:
            self._keep_other(record, other)

    def remove_records(self, first: int, last: int) -> None:
        """These records go: nobody holds them any more."""
        self._connection.execute("DELETE FROM other_results WHERE record BETWEEN ? AND ?", (first, last))

    def move(self, record: int, target: int) -> None:
        """The record has another number."""
        self._connection.execute("UPDATE OR REPLACE other_results SET record = ? WHERE record = ?", (target, record))

    def result_at(self, place: int, record: int) -> ResultRow | None:
        """The result of the holder at this place."""
        current = self._current(record)
        if not self._is_shared(record):
            return current
        row = self._connection.execute("SELECT digest FROM results_by_holder WHERE place = ?", (place,)).fetchone()
        results = [*self._others(record), *([] if current is None else [current])]
        return next((result for result in results if row is not None and _digest(result) == row[0]), None)

    def _keep_other(self, record: int, result: ResultRow) -> None:
        """Keep a result that is not the one shown."""
        sql = "INSERT OR IGNORE INTO other_results(record, digest, is_error, text, raw) VALUES(?, ?, ?, ?, ?)"
        text, raw = (None, None) if result.text is None else (result.text.packed, result.text.packed_raw)
        self._connection.execute(sql, (record, _digest(result), result.is_error, text, raw))

    def _is_shared(self, record: int) -> bool:
        return bool(sqlite.one(self._connection, "SELECT EXISTS(SELECT 1 FROM copies WHERE record = ?)", (record,))[0])

    def _record_digest(self, place: int, digest: int) -> None:
        self._connection.execute("REPLACE INTO results_by_holder(place, digest) VALUES(?, ?)", (place, digest))

    def _current(self, record: int) -> ResultRow | None:
        is_error, key = sqlite.one(self._connection, "SELECT is_error, key FROM records WHERE id = ?", (record,))
        return None if is_error is None else ResultRow(key, self._chunks.chunk(record, Kind.RESULT), bool(is_error))

    def _make_current(self, record: int, result: ResultRow | None) -> None:
        self._chunks.remove(record, Kind.RESULT)
        is_error = None if result is None else result.is_error
        self._connection.execute(
            f"UPDATE records SET is_error = ?, revision = {ids.NEXT_REVISION} WHERE id = ?", (is_error, record)
        )
        if result is not None and result.text is not None:
            self._chunks.add(record, result.text)
            self._chunks.flush()

    def _others(self, record: int) -> list[ResultRow]:
        sql = "SELECT is_error, text, raw FROM other_results WHERE record = ?"
        return [
            ResultRow(0, None if packed is None else unpack(Kind.RESULT, packed, raw), bool(is_error))
            for is_error, packed, raw in sqlite.rows(self._connection, sql, (record,))
        ]


def _order(result: ResultRow) -> tuple[bool, str]:
    return result.is_error, "" if result.text is None else result.text.whole


def _digest(result: ResultRow) -> int:
    is_error, text = _order(result)
    return digest(text.encode(), person=b"failed" if is_error else b"done")

"""Chunks and their full-text rows, always written together, and the totals that count them.

FTS5 flushes what it holds in memory whenever a row number does not grow, so inserts are gathered and written in order.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import apsw

from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import Text
from sesamed.store.sqlite import plain
from sesamed.store.subwords import inner_words

DELETE_AT_ONCE = 1000
_PLACE = itemgetter(0, 1)  # record and kind
ADD_CHUNK = f"INSERT INTO chunks(id, text) VALUES({ids.sql_chunk('?', '?')}, ?)"
ADD_WORDS = f"INSERT INTO fts(rowid, text, inner) VALUES({ids.sql_chunk('?', '?')}, ?, ?)"


class Chunks:
    """The chunks of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[int, int, str | bytes]] = []
        self._words: list[tuple[int, int, str, str]] = []

    def add(self, record: int, text: Text) -> None:
        """Take a chunk of a record; `flush` writes it."""
        self._rows.append((record, text.kind, text.packed))
        if text.kind != Kind.UNINDEXED:
            self._words.append((record, text.kind, text.text, text.inner))

    def flush(self) -> None:
        """Write the chunks that were taken; full-text rows last, because any other statement makes FTS5 write out what it has gathered."""
        if not self._rows:
            return
        self._connection.executemany(ADD_CHUNK, self._rows)
        self._connection.execute("UPDATE totals SET chunks = chunks + ?", (len(self._words),))
        self._words.sort(key=_PLACE)
        self._connection.executemany(ADD_WORDS, self._words)
        self._rows.clear()
        self._words.clear()

    def chunk(self, record: int, kind: int) -> Text | None:
        """A chunk of a record that is already written."""
        row = self._connection.execute("SELECT text FROM chunks WHERE id = ?", (ids.chunk_of(record, kind),)).fetchone()
        return None if row is None else unpack(kind, row[0])

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
        rows = self._chunks(record)
        self._remove(rows)
        for number, packed in rows:
            self.add(target, unpack(ids.kind_of(number), packed))
        self.flush()

    def _chunks(self, record: int) -> list[tuple[Any, ...]]:
        return sqlite.rows(
            self._connection, "SELECT id, text FROM chunks WHERE id BETWEEN ? AND ?", ids.chunks_of(record)
        )

    def _remove(self, rows: Sequence[tuple[Any, ...]]) -> None:
        texts = [(number, unpack(ids.kind_of(number), packed)) for number, packed in rows]
        words = [(number, text.text, text.inner) for number, text in texts if text.kind != Kind.UNINDEXED]
        self._connection.executemany("INSERT INTO fts(fts, rowid, text, inner) VALUES('delete', ?, ?, ?)", words)
        self._connection.executemany("DELETE FROM chunks WHERE id = ?", [(number,) for number, _ in rows])
        self._connection.execute("UPDATE totals SET chunks = chunks - ?", (len(words),))


def unpack(kind: int, packed: str | bytes) -> Text:
    """A chunk from its stored form."""
    text = plain(packed)
    return Text(kind, text, packed, inner_words(kind, text))

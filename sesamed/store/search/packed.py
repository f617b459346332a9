"""Many numbers at once, out of SQLite and of what FTS5 keeps: a row each would cost ten times as much, and the GIL each time."""

import apsw
import numpy as np
from numpy.typing import NDArray

from sesamed.store import sqlite
from sesamed.store.search.arrays import Ints

ROWS_AT_ONCE = 200_000
SLICE = 1 << 20  # characters that are parsed at once: other threads wait for the GIL meanwhile
SIZE_DIGITS = 20  # of two numbers of FTS5's, as long as they can be

CHUNKS = f"""
    SELECT group_concat(id), group_concat(substr(hex(sz) || '{"0" * SIZE_DIGITS}', 1, {SIZE_DIGITS}), '')
    FROM (SELECT id, sz FROM fts_docsize WHERE id > ? ORDER BY id LIMIT {ROWS_AT_ONCE})
"""
AVERAGES = "SELECT block FROM fts_data WHERE id = 1"  # https://sqlite.org/src/file/ext/fts5/fts5_index.c


def read_chunks(connection: apsw.Connection, last: int = -1) -> tuple[Ints, NDArray[np.int32]]:
    """The numbers of all chunks, or of those after one of them, and how many words each has."""
    numbers, lengths = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    while True:
        found, sizes = sqlite.one(connection, CHUNKS, (last,))
        if found is None:
            return np.concatenate(numbers), np.concatenate(lengths)
        numbers.append(parse(found))
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


def read_averages(connection: apsw.Connection) -> list[int]:
    """How many rows FTS5 has, and how many words in each column."""
    return _read_varints(sqlite.one(connection, AVERAGES)[0])


def _read_varints(block: bytes) -> list[int]:
    found, value = list[int](), 0
    for byte in block:
        value = value << 7 | byte & 127
        if byte < 128:
            found.append(value)
            value = 0
    return found


def read_numbers(connection: apsw.Connection, sql: str, values: sqlite.Values = ()) -> Ints:
    """The numbers that a statement gives as one string."""
    (found,) = sqlite.one(connection, sql, values)
    return np.empty(0, np.int64) if found is None else parse(found)


def parse(text: str) -> Ints:
    """Numbers with commas between them."""
    parts, begin = list[Ints](), 0
    while begin < len(text):
        end = text.find(",", begin + SLICE)
        end = len(text) if end < 0 else end
        parts.append(np.fromstring(text[begin:end], np.int64, sep=","))
        begin = end + 1
    return np.concatenate(parts)

"""What a pattern can count at most, file by file: so that the best sessions are known before their chunks are scored.

A session's best three chunks count for a question at most what the best three count for each of its patterns, added up. That is kept of
each pattern, as of one mean length of a chunk; by another one a chunk counts more by no more than by what these two differ.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sesamed.store import ids
from sesamed.store.ids import Kind
from sesamed.store.search.arrays import NONE, Ints, Posting, find_begins, pack
from sesamed.store.search.scoring import DAMPED, KIND_WEIGHTS, measure_norm, saturate_in_chunk

Floats = NDArray[np.float64]

WEIGHTS = np.array([KIND_WEIGHTS.get(kind, 1.0) for kind in range(ids.KIND_MASK + 1)])
ROUNDED = 1e-9  # of a sum


class Rows(NamedTuple):
    """Chunks with a pattern, in the order of their files."""

    numbers: Ints
    lengths: NDArray[Any]
    times: NDArray[Any]


class Damped(NamedTuple):
    """What the best three chunks of each group count together, and which these are (-1: none)."""

    values: Floats
    rows: Ints


def damp(scores: Floats, begins: Ints) -> Damped:
    """Of chunks in groups, by where each group begins. What counts nothing is none of them."""
    scores = scores.copy()
    counts = np.diff(begins, append=len(scores))
    values, rows = np.zeros(len(begins)), np.full((len(begins), len(DAMPED)), -1)
    for turn, share in enumerate(DAMPED if len(begins) else ()):
        top = np.maximum.reduceat(scores, begins)
        values += share * top
        level = np.flatnonzero(scores == np.repeat(np.where(top > 0.0, top, np.inf), counts))
        which = np.searchsorted(begins, level, "right") - 1
        first = np.flatnonzero(np.diff(which, prepend=-1))
        rows[which[first], turn] = level[first]
        scores[level[first]] = 0.0
    return Damped(values, rows)


def describe(ordinals: Ints, rows: Rows, average: float) -> Posting:
    """The posting of some chunks, none of which came late."""
    files, begins, messages, most, said = sum_up(rows, average)
    places = files.astype(np.int32), begins.astype(np.int32)
    return Posting(ordinals.astype(np.int32), pack(rows.times), *places, messages, most, said)


def cut_last(posting: Posting) -> Posting:
    """Without its last file."""
    end = int(posting.begins[-1])
    ordinals, times, files, begins, messages, most, said = posting[:7]
    return Posting(ordinals[:end], times[:end], files[:-1], begins[:-1], messages[:-1], most[:-1], said[:-1])


def join(posting: Posting, behind: Posting) -> Posting:
    """One and another, whose chunks and files are all behind it."""
    moved = behind._replace(begins=behind.begins + np.int32(len(posting.ordinals)))
    columns = (np.concatenate(both) for both in zip(posting[:7], moved[:7], strict=True))
    ordinals, times, files, begins, messages, most, said = columns
    return Posting(ordinals, times, files, begins, messages, most, said)


def sum_up(rows: Rows, average: float) -> tuple[NDArray[Any], ...]:
    """The files of some chunks; where each begins, in how many of its messages the pattern is, and what it can count at most."""
    files, kinds = ids.files_of(rows.numbers), ids.kinds_of(rows.numbers)
    begins, is_message = find_begins(files), kinds < Kind.CALL
    scores = WEIGHTS[kinds] * saturate_in_chunk(rows.times, measure_norm(rows.lengths, average))
    messages = np.add.reduceat(is_message, begins, dtype=np.int64) if len(begins) else NONE
    most, said = (_round_up(damp(values, begins).values) for values in (scores, scores * is_message))
    return files[begins], begins, pack(messages), most, said


def _round_up(values: Floats) -> NDArray[np.float16]:
    rounded = values.astype(np.float16)
    return np.where(rounded < values, np.nextafter(rounded, np.float16(np.inf)), rounded)


def measure_slack(average: float, other: float) -> float:
    """How much more a chunk can count by one mean length than by another one."""
    return max(average / other, other / average) * (1.0 + ROUNDED)

"""What posting arrays are: of each word the chunks that hold it; and of all chunks what they are called, and how long they are."""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.int32)
NONE: Ints = np.empty(0, np.int64)


class Late(NamedTuple):
    """The chunks with a pattern that came late, and how often it is in each."""

    ordinals: NDArray[Any]
    times: NDArray[Any]


class Posting(NamedTuple):
    """The chunks with a pattern, in the order of their numbers, and how often it is in each: some of them may be dead. And the files that
    they are in: where the first of each file is, in how many messages of it the pattern is, and what its best three chunks can count
    at most, all of them and its messages alone. These are of the chunks that live, those that came late among them."""

    ordinals: NDArray[Any]
    times: NDArray[Any]
    files: NDArray[Any]
    begins: NDArray[Any]
    messages: NDArray[Any]
    most: NDArray[np.float16]
    most_said: NDArray[np.float16]
    late: Late = Late(NONE, NONE)
    dead: int = 0

    @property
    def chunks(self) -> int:
        """How many there are."""
        return len(self.ordinals) - self.dead + len(self.late.ordinals)

    @property
    def edges(self) -> Ints:
        """Where each file begins, and where the last one ends."""
        return np.append(self.begins, len(self.ordinals))

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return sum(array.nbytes for array in self[:7])


class Column(Generic[Number]):
    """An array that grows at its end. What is there stays, so that others may read it meanwhile."""

    def __init__(self, room: NDArray[Number], count: int | None = None) -> None:
        self._room: NDArray[Number] = room
        self.values: NDArray[Number] = room[:count]

    def take(self, count: int) -> "Column[Number]":
        """A column with the first of them, that grows by itself."""
        return Column(self.values[:count])

    def append(self, added: NDArray[Number]) -> None:
        """Add some."""
        count, whole = len(self.values), len(self.values) + len(added)
        if whole > len(self._room):
            self._room = np.empty(whole + max(4096, whole // 8), self._room.dtype)
            self._room[:count] = self.values
        self._room[count:whole] = added
        self.values = self._room[:whole]


class Base(NamedTuple):
    """All chunks as of some revision, in the order of their numbers; and words in them that need not be read."""

    revision: int
    ids: Column[np.int64]
    lengths: Column[np.int32]
    length: int  # of all of them
    longest: int
    find: Callable[[str], Posting | None]


def list_ranges(begins: Ints, counts: Ints) -> Ints:
    """All numbers of some ranges, one range behind the other."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - ends + counts, counts)


def find_begins(values: NDArray[Any]) -> Ints:
    """Where another value begins."""
    if not len(values):
        return NONE
    return np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1))


def pack(counts: Ints) -> NDArray[Any]:
    """The same numbers, in as few bytes as the largest needs."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))))

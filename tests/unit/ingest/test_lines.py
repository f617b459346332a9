"""Bytes to lines: however they are cut, the lines are the same."""

from itertools import pairwise
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from sesamed.ingest.tail import Cutter

PIECES = [
    b"\n",
    b"\r",
    b"\r\n",
    b"\x0b",
    b"\x0c",
    b"{}",
    b"\xff",
    "\u2028".encode(),
    "\u0085".encode(),
    b"\0",
    b"abc",
    b"\n\n",
]
DATA = st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)
LIMITS = st.sampled_from([0, 1, 3, 7, 1000])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, some of them empty."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def expected(data: bytes, limit: int) -> tuple[list[bytes | None], bytes]:
    """The lines, and what comes after the last newline."""
    *lines, rest = data.split(b"\n")
    return [line if len(line) <= limit else None for line in lines], rest


@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LIMITS)
def test_any_cutting_gives_the_same_lines(data: bytes, places: list[int], limit: int) -> None:
    """Only a newline ends a line; one over the limit comes out as None."""
    cutter = Cutter(limit)
    lines = [line for piece in cut(data, places) for line in cutter.feed(piece)]
    whole, rest = expected(data, limit)
    assert lines == whole
    assert cutter.skipping == (len(rest) > limit)
    assert cutter.rest == (b"" if cutter.skipping else rest)


@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LIMITS)
def test_consumed_and_digest_are_those_of_the_lines(data: bytes, places: list[int], limit: int) -> None:
    """What is not consumed will be read again."""
    cutter = Cutter(limit)
    for piece in cut(data, places):
        cutter.feed(piece)
    assert cutter.consumed == len(data) - len(cutter.rest)
    assert cutter.digest == crc32(data[: cutter.consumed])


@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LIMITS)
def test_a_new_cutter_goes_on_where_another_one_stopped(data: bytes, places: list[int], limit: int) -> None:
    """A restart: all that is kept is how much was consumed, its digest, and whether a line is being passed over."""
    lines: list[bytes | None] = []
    consumed, digest, skipping, end = 0, 0, False, 0
    for piece in cut(data, places):
        end += len(piece)
        cutter = Cutter(limit, skipping=skipping, digest=digest)
        lines += cutter.feed(data[consumed:end])
        consumed, digest, skipping = consumed + cutter.consumed, cutter.digest, cutter.skipping
    assert lines == expected(data, limit)[0]
    assert digest == crc32(data[:consumed])

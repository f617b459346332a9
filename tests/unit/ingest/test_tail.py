"""A file and its cursor to what is new in it."""

import fcntl
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sesamed.ingest import tail as tail_module
from sesamed.ingest.tail import (
    HEAD_BYTES,
    TAIL_BYTES,
    Cutter,
    FileChange,
    NotRegularError,
    Read,
    Tail,
    open_tail,
    signature,
)
from sesamed.store.rows import Cursor, Signature

if sys.version_info >= (3, 14):
    from compression.zstd import compress
else:
    from backports.zstd import compress

LIMIT = 1 << 30


@contextmanager
def tail_of(path: Path) -> Iterator[Tail]:
    """The file, opened below its directory."""
    with open_tail(os.fsencode(path), str(path.parent)) as tail:
        yield tail


def read(path: Path, cursor: Cursor | None = None, budget: int = LIMIT, limit: int = LIMIT) -> Read:
    """What is new."""
    with tail_of(path) as tail:
        return tail.read(cursor or Cursor(), budget, limit)


def looked_at(path: Path) -> tuple[Cursor, Signature]:
    """A cursor at the end, and what `stat` said then."""
    with tail_of(path) as tail:
        return tail.read(Cursor(), LIMIT, LIMIT).cursor, tail.signature


def verdict(path: Path, before: tuple[Cursor, Signature]) -> FileChange:
    """What happened since."""
    with tail_of(path) as tail:
        return tail.compare(*before)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "a.jsonl"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(2000)))
    return path


def test_reads_whole_lines_and_leaves_the_rest(tmp_path: Path) -> None:
    """The cursor stays before what is not whole."""
    path = tmp_path.resolve() / "a.jsonl"
    path.write_bytes(b"one\r\ntwo\n\xe2\x80")
    found = read(path)
    assert found.lines == [b"one\r", b"two"]
    assert (found.cursor.offset, found.rest, found.at_end) == (9, b"\xe2\x80", True)


def test_goes_on_at_the_cursor(file: Path) -> None:
    """Only what was appended is read."""
    cursor, _ = looked_at(file)
    with file.open("ab") as end:
        end.write(b"new\n")
    with tail_of(file) as tail:
        assert tail.read(cursor, LIMIT, LIMIT).lines == [b"new"]
        assert tail.bytes_read < 1000


def test_work_for_an_appended_line_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """Recognised by a few KB, however long the file is."""
    counts = []
    for lines in (2_000, 200_000):
        path = tmp_path.resolve() / f"{lines}.jsonl"
        path.write_bytes(b"some line of some length\n" * lines)
        before = looked_at(path)
        with path.open("ab") as end:
            end.write(b"new\n")
        with tail_of(path) as tail:
            assert tail.compare(*before) is FileChange.GROWN
            tail.read(before[0], LIMIT, LIMIT)
            counts.append(tail.bytes_read)
    assert counts[0] == counts[1] < 2 * (HEAD_BYTES + TAIL_BYTES)


def test_what_was_appended_to_has_grown(file: Path) -> None:
    """Though its inode, size and times say nothing by themselves."""
    before = looked_at(file)
    with file.open("ab") as end:
        end.write(b"new\n")
    assert verdict(file, before) is FileChange.GROWN


def test_touched_is_the_same(file: Path) -> None:
    """Modification times lie."""
    before = looked_at(file)
    os.utime(file, (1, 1))
    assert verdict(file, before) is FileChange.SAME


@pytest.mark.fault(39)
@pytest.mark.parametrize("at", [0, 10_000, -20])
def test_a_byte_changed_anywhere_at_the_same_size_is_another_file(file: Path, at: int) -> None:
    """The digest of all that was read tells."""
    before = looked_at(file)
    data = bytearray(file.read_bytes())
    data[at] = ord("X")
    file.write_bytes(data)
    assert verdict(file, before) is FileChange.REPLACED


@pytest.mark.fault(38, 51)
@pytest.mark.parametrize("data", [b"", b"line 0\n", b"other\n" * 5000])
def test_truncated_or_rewritten_is_another_file(file: Path, data: bytes) -> None:
    """Shorter, or longer and different."""
    before = looked_at(file)
    file.write_bytes(data)
    assert verdict(file, before) is FileChange.REPLACED


@pytest.mark.fault(38)
def test_cut_and_grown_beyond_where_it_was_is_another_file(file: Path) -> None:
    """It begins as it did, for longer than what is compared there: what stood before the cursor tells."""
    before = looked_at(file)
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2] + b"something else\n" * (len(data) // 10))
    assert len(data) // 2 > HEAD_BYTES
    assert file.stat().st_size > len(data)
    assert verdict(file, before) is FileChange.REPLACED


@pytest.mark.fault(40)
def test_the_same_content_in_another_inode_has_grown(file: Path) -> None:
    """An editor's save, a copy put back: content decides."""
    before = looked_at(file)
    other = file.with_suffix(".new")
    other.write_bytes(file.read_bytes() + b"more\n")
    other.replace(file)
    assert verdict(file, before) is FileChange.GROWN


@pytest.mark.fault(41)
def test_other_content_in_the_same_inode_is_another_file(file: Path) -> None:
    """Inodes are used again at once on some file systems."""
    before = looked_at(file)
    with file.open("r+b") as same:
        same.write(b"LINE")
    assert verdict(file, before) is FileChange.REPLACED


@pytest.mark.parametrize(
    ("after", "expected"), [(b"", FileChange.SAME), (b"\n", FileChange.GROWN), (b"x", FileChange.REPLACED)]
)
def test_a_loose_line_stays_only_when_it_becomes_whole(tmp_path: Path, after: bytes, expected: FileChange) -> None:
    """It was read without its newline; if it goes on, it was another line."""
    path = tmp_path.resolve() / "a.jsonl"
    path.write_bytes(b"one\n{}")
    cursor, before = looked_at(path)
    cursor = replace(cursor, loose=2, loose_digest=crc32(b"{}"))
    path.write_bytes(b"one\n{}" + after)
    assert verdict(path, (cursor, before)) is expected


@pytest.mark.fault(49)
def test_stops_after_its_budget_and_goes_on_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slices together are the whole."""
    monkeypatch.setattr("sesamed.ingest.tail.BLOCK_BYTES", 512)
    cursor, lines, rounds = Cursor(), list[bytes | None](), 0
    while True:
        found = read(file, cursor, budget=1000)
        cursor, rounds = found.cursor, rounds + 1
        lines += found.lines
        if found.at_end:
            break
    assert lines == file.read_bytes().split(b"\n")[:-1]
    assert rounds > 10
    assert cursor == looked_at(file)[0]


def test_has_newline_looks_behind_a_place_only(tmp_path: Path) -> None:
    """What was searched before is not searched again."""
    path = tmp_path.resolve() / "a.jsonl"
    path.write_bytes(b"one\n" + b"x" * 100)
    with tail_of(path) as tail:
        assert tail.has_newline(0)
        assert not tail.has_newline(4)


@pytest.mark.fault(46)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe without a writer would block for ever, a device might never end."""
    base = tmp_path.resolve()
    (base / "file").write_bytes(b"x\n")
    os.mkfifo(base / "fifo.jsonl")
    os.symlink(base / "file", base / "link.jsonl")
    os.symlink(base / "nowhere", base / "dangling.jsonl")
    os.symlink(base / "loop.jsonl", base / "loop.jsonl")
    (base / "directory.jsonl").mkdir()
    for path in base.glob("*.jsonl"):
        with pytest.raises(NotRegularError), tail_of(path):
            pass
    with pytest.raises(NotRegularError), open_tail(b"/dev/null", "/dev"):
        pass


@pytest.mark.fault(47)
def test_a_file_outside_its_root_is_refused(tmp_path: Path) -> None:
    """A directory on the way became a link since it was walked."""
    base = tmp_path.resolve()
    (base / "root").mkdir()
    (base / "outside").mkdir()
    (base / "outside" / "a.jsonl").write_bytes(b"secret\n")
    (base / "root" / "sub").symlink_to(base / "outside")
    with pytest.raises(NotRegularError), open_tail(os.fsencode(base / "root" / "sub" / "a.jsonl"), str(base / "root")):
        pass
    with pytest.raises(NotRegularError), open_tail(os.fsencode(base / "outside" / "a.jsonl"), str(base / "out")):
        pass


@pytest.mark.fault(47)
def test_a_file_outside_its_root_is_refused_on_a_mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no /proc there, but a call that tells where a file is, which may give the root another name."""
    base = tmp_path.resolve()
    (base / "root/sub").mkdir(parents=True)
    (base / "outside").mkdir()
    (base / "alias").symlink_to(base / "root")
    (base / "root/link").symlink_to(base / "outside")
    for place in ("root/a.jsonl", "root/sub/a.jsonl", "outside/a.jsonl"):
        (base / place).write_bytes(b"{}\n")

    read_link = os.readlink

    def no_proc(path: bytes) -> bytes:
        raise FileNotFoundError(path)

    def tell(descriptor: int, command: int, room: bytes) -> bytes:
        assert command == 50
        place = read_link(f"/proc/self/fd/{descriptor}").replace(f"{base}/root/", f"{base}/alias/")
        return os.fsencode(place).ljust(len(room), b"\0")

    monkeypatch.setattr(fcntl, "F_GETPATH", 50, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", tell)
    monkeypatch.setattr(os, "readlink", no_proc)
    for place in ("root/a.jsonl", "root/sub/a.jsonl"):
        with open_tail(os.fsencode(base / place), str(base / "root")) as tail:
            assert tail.signature.size == 3
    for place, root in (("root/link/a.jsonl", "root"), ("outside/a.jsonl", "root"), ("root/a.jsonl", "root/sub")):
        with pytest.raises(NotRegularError), open_tail(os.fsencode(base / place), str(base / root)):
            pass


def test_an_inode_with_64_bits_can_be_stored(tmp_path: Path) -> None:
    """SQLite's integers have a sign."""
    status = os.stat_result(
        (stat.S_IFREG, 2**64 - 1, 2**64 - 1, 1, 0, 0, 5, 0, 0, 0), {"st_mtime_ns": 0, "st_ctime_ns": 0}
    )
    assert (signature(status).ino, signature(status).dev) == (-1, -1)


# -- bytes to lines: however they are cut, the lines are the same

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
LINE_LIMITS = st.sampled_from([0, 1, 3, 7, 1000])


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces, some of them empty."""
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def expected(data: bytes, limit: int) -> tuple[list[bytes | None], bytes]:
    """The lines, and what comes after the last newline."""
    *lines, rest = data.split(b"\n")
    return [line if len(line) <= limit else None for line in lines], rest


@pytest.mark.fault(24, 33)
@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LINE_LIMITS)
def test_any_cutting_gives_the_same_lines(data: bytes, places: list[int], limit: int) -> None:
    """Only a newline ends a line; one over the limit comes out as None."""
    cutter = Cutter(limit)
    lines = [line for piece in pieces(data, places) for line in cutter.feed(piece)]
    whole, rest = expected(data, limit)
    assert lines == whole
    assert cutter.skipping == (len(rest) > limit)
    assert cutter.rest == (b"" if cutter.skipping else rest)


@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LINE_LIMITS)
def test_consumed_and_digest_are_those_of_the_lines(data: bytes, places: list[int], limit: int) -> None:
    """What is not consumed will be read again."""
    cutter = Cutter(limit)
    for piece in pieces(data, places):
        cutter.feed(piece)
    assert cutter.consumed == len(data) - len(cutter.rest)
    assert cutter.digest == crc32(data[: cutter.consumed])


@given(DATA, DATA, LINE_LIMITS, st.integers(1, 20), st.booleans())
def test_lines_are_counted_up_to_the_cursor(data: bytes, more: bytes, limit: int, budget: int, packed: bool) -> None:
    """In however many steps they are read, also of a compressed file, and when a line is passed over."""
    with TemporaryDirectory() as directory, patch.object(tail_module, "BLOCK_BYTES", 3):
        path = Path(directory).resolve() / ("a.jsonl.zst" if packed else "a.jsonl")
        found = Read([], Cursor(), b"", at_end=False)
        for content in (data, data + more):
            path.write_bytes(compress(content) if packed else content)
            found = found._replace(at_end=False)
            while not found.at_end:
                found = read(path, found.cursor, budget, limit)
                assert found.cursor.lines == content[: found.cursor.offset].count(b"\n")
            assert found.cursor.lines == content.count(b"\n")


@given(DATA, st.lists(st.integers(0, 1000), max_size=8), LINE_LIMITS)
def test_a_new_cutter_goes_on_where_another_one_stopped(data: bytes, places: list[int], limit: int) -> None:
    """A restart: all that is kept is how much was consumed, its digest, and whether a line is being passed over."""
    lines: list[bytes | None] = []
    consumed, digest, skipping, end = 0, 0, False, 0
    for piece in pieces(data, places):
        end += len(piece)
        cutter = Cutter(limit, skipping=skipping, digest=digest)
        lines += cutter.feed(data[consumed:end])
        consumed, digest, skipping = consumed + cutter.consumed, cutter.digest, cutter.skipping
    assert lines == expected(data, limit)[0]
    assert digest == crc32(data[:consumed])

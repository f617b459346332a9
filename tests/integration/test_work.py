"""The work for an appended line does not grow with its file, its session or the index: counted, not timed.

What is read of session files is recorded by the traced daemon, what is written is the growth of the WAL, which holds whole pages of
16 KiB. Commits are counted by `data_version`, which another connection sees change with each of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.store.sqlite import rows
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.traced import PROGRAM, events

HEAD_BYTES, TAIL_BYTES = 4096, 256  # what a cursor recognises its file by
PAGE_BYTES = 16384
SMALL, LARGE = "small.jsonl", "large.jsonl"


class Bench:
    """A daemon with an index of some size, a small session and a large one."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.sessions = {SMALL: PiSession(id="small-1").user("a first quince"), LARGE: PiSession(id="large-1")}
        for number in range(10_000):
            self.sessions[LARGE].user(f"line {number} of a long session, with some words to make it longer")
        for name, session in self.sessions.items():
            daemon.write(name, session.bytes())
        for number in range(300):
            session = PiSession(id=f"other-{number}", start=f"2025-01-01T{number // 60:02}:{number % 60:02}:00.000Z")
            for turn in range(30):
                session.user(
                    f"other words {number} {turn} " + " ".join(f"word{number * turn % 977 + k}" for k in range(30))
                )
            daemon.write(f"others/{number}.jsonl", session.bytes())
        daemon.sync()
        self.settle()

    @property
    def wal(self) -> int:
        """How long the WAL is."""
        wal = Path(f"{self.daemon.database}-wal")
        return wal.stat().st_size if wal.exists() else 0

    def settle(self) -> None:
        """Wait until nothing is left to merge or fold in."""
        eventually(lambda: self.wal == 0, 30)

    def line(self, name: str, text: str) -> bytes:
        """A new line of a session."""
        return self.sessions[name].user(text).last_line()

    def append(self, name: str, text: str) -> int:
        """Append a line, and have it indexed; gives how many bytes it has."""
        data = self.line(name, text)
        path = self.daemon.append(name, data)
        self.daemon.sync(paths=[path])
        return len(data)

    def read_since(self, before: int) -> dict[str, int]:
        """Bytes that were read of each session file after so many events."""
        found: dict[str, int] = {}
        for event in list(events(self.daemon.directory / "trace"))[before:]:
            if event.what == "read":
                found[event.path] = found.get(event.path, 0) + event.size
        return found

    def events(self) -> int:
        """How much was recorded so far."""
        return sum(1 for _ in events(self.daemon.directory / "trace"))


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Daemon({"sweepSeconds": 86_400}, program=PROGRAM, arguments=["trace"]) as daemon:
        yield Bench(daemon)


@pytest.mark.parametrize("name", [SMALL, LARGE])
def test_it_reads_the_line(bench: Bench, name: str) -> None:
    """Of an appended line's file only the line is read, and the few bytes by which the file is recognised."""
    bench.append(name, "to have it open")
    for number in range(3):
        before = bench.events()
        size = bench.append(name, f"one more line {number}")
        read = bench.read_since(before)
        assert read.keys() == {os.fsdecode(bench.daemon.path(name))}
        heads = 1 if name == LARGE else 2  # a file that is shorter than the head is recognised anew by all of it
        assert sum(read.values()) <= heads * HEAD_BYTES + 2 * TAIL_BYTES + size


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the kernel does not count")
def test_the_process_reads_little(bench: Bench) -> None:
    """All that the process reads for an appended line, index and socket included, is as much for a large session as for a small one."""

    def read() -> int:
        text = Path(f"/proc/{bench.daemon.pid}/io").read_text()
        return int(text.split()[1])

    cost = {}
    for name in (SMALL, LARGE):
        bench.append(name, "to have it open")
        before = read()
        for number in range(10):
            bench.append(name, f"again a line {number}")
        cost[name] = (read() - before) / 10
    assert cost[LARGE] < 4 * PAGE_BYTES
    assert cost[LARGE] < 2 * cost[SMALL] + HEAD_BYTES


def test_it_writes_its_rows(bench: Bench) -> None:
    """An appended line writes the pages of its rows: a few, and as many in a large session as in a small one."""
    cost: dict[str, list[int]] = {SMALL: [], LARGE: []}
    for number in range(12):
        for name, written in cost.items():
            bench.settle()
            bench.append(name, f"the next line {number}")
            written.append(bench.wal)
    middle = {name: sorted(written)[len(written) // 2] for name, written in cost.items()}
    assert middle[LARGE] <= 24 * PAGE_BYTES
    assert middle[LARGE] <= middle[SMALL] + 4 * PAGE_BYTES


def test_one_transaction(bench: Bench) -> None:
    """A line is one commit: rows and cursor together."""
    with bench.daemon.opened() as connection:

        def commits() -> int:
            return int(connection.pragma("data_version"))

        bench.settle()
        before = commits()
        data = bench.line(LARGE, "a kohlrabi")
        sql = "SELECT (SELECT count(*) FROM records), (SELECT sum(offset) FROM files)"
        records, read = rows(connection, sql)[0]
        bench.daemon.append(LARGE, data)
        while not bench.daemon.found("kohlrabi"):
            assert rows(connection, sql) in ([(records, read)], [(records + 1, read + len(data))])
        assert rows(connection, sql) == [(records + 1, read + len(data))]
        assert commits() == before + 1


def test_a_burst_coalesces(bench: Bench) -> None:
    """Many appends in a burst are far fewer looks and commits than appends; all of them are found."""
    count = 400
    before = bench.events()
    for number in range(count):
        bench.daemon.append(SMALL, bench.line(SMALL, f"burst {number}"))
    bench.daemon.sync()
    since = list(events(bench.daemon.directory / "trace"))[before:]
    looks = sum(event.what == "open" and event.path.endswith(SMALL) for event in since)
    assert looks < count
    texts = bench.daemon.texts("small-1")
    assert texts[-count:] == [f"burst {number}" for number in range(count)]


@pytest.mark.fault(15)
def test_nothing_is_done_for_nothing(bench: Bench) -> None:
    """A sync over unchanged files opens none and writes nothing."""
    bench.settle()
    before = bench.events()
    for _ in range(3):
        bench.daemon.sync()
    assert bench.read_since(before) == {}
    assert bench.wal == 0


def test_a_long_line_that_grows(bench: Bench) -> None:
    """A long line that comes in many pieces is not read again with each of them."""
    piece, pieces = "many words " * 2000, 60
    data = bench.line(SMALL, piece * pieces)
    path = os.fsdecode(bench.daemon.path(SMALL))
    before = bench.events()
    for start in range(0, len(data), len(data) // pieces):
        bench.daemon.append(SMALL, data[start : start + len(data) // pieces])
        bench.daemon.sync(paths=[path])
    assert bench.read_since(before)[path] < 4 * len(data) + pieces * 3 * HEAD_BYTES
    assert bench.daemon.texts("small-1")[-1].startswith("many words many words")

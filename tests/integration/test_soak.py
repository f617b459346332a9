"""The same process, for as long as SESAME_SOAK_S says: answers stay true, and nothing grows.

Each round writes sessions while others ask, compares the index with the files, and takes everything away again; what a round leaves
in the process is what must not add up.
"""

import contextlib
import itertools
import os
import platform
import random
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest

from sesamectl.errors import ClosedError, RpcError
from sesamed.standstill import FAILED
from sesamed.store import checksums, index, sqlite
from sesamed.store.upkeep import COME, FREE_PAGES, LEAVE
from tests.support.author import WORDS, Author, as_in_the_files
from tests.support.crew import Crew, sources
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.shifted import PROGRAM

SOAK_S = float(os.environ.get("SESAME_SOAK_S", "2"))
LINES = 150  # of a round: times that the author goes on
WARM_ROUNDS = 2  # caches are filled by then
HEAP_BYTES = 64 << 20  # glibc's for each thread but the first: mapped at multiples of that
CONNECTIONS = 1 + index.CONNECTIONS  # each may keep all pages of the index
MORE_THREADS = 5  # for three readers, the ingest and the sweep; idle ones end after ten seconds
MORE_DESCRIPTORS = 1  # a connection whose end the daemon has not read yet

IN_USE = """SELECT count(*) FROM dbstat WHERE name NOT IN
    (SELECT name FROM sqlite_schema WHERE tbl_name IN ('numbers', 'removed'))"""
MOST_WAL_MB = 128  # at any moment that is looked at: a checkpoint begins with 64, and commits go on meanwhile
LOG_KB_A_ROUND = 8  # a line for each rebuild, start and complaint


class Pages(NamedTuple):
    """Of an index. What is not merged yet differs by the moment, sixfold; what is remembered for good of each session that there was
    (docs/decisions.md, 39 and 44) does not count as in use."""

    total: int
    free: int
    merged: int  # in use once all is merged


class Size(NamedTuple):
    """What the process holds, and what it keeps on disk."""

    resident_mb: float
    threads: int
    descriptors: int
    pages: Pages
    wal_mb: float
    log_kb: float


def measure(daemon: Daemon) -> Size:
    with open(f"/proc/{daemon.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    resident, threads = (int(fields[name].split()[0]) for name in ("VmRSS", "Threads"))
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    wal = Path(f"{daemon.database}-wal")
    return Size(
        resident / 1024,
        threads,
        descriptors,
        count_pages(daemon),
        wal.stat().st_size / (1 << 20) if wal.exists() else 0,
        daemon.log_file.stat().st_size / 1024,
    )


def count_pages(daemon: Daemon) -> Pages:
    """As whoever reads the index now sees it: the file alone is as old as the last checkpoint."""
    name = str(daemon.database)
    with (
        closing(checksums.connect(name, apsw.SQLITE_OPEN_READONLY)) as now,
        closing(apsw.Connection(":memory:")) as copy,
    ):
        with copy.backup("main", now, "main") as backup:
            backup.step()
        total, free = copy.pragma("page_count"), copy.pragma("freelist_count")
        # Segments of one level are merged into one that keeps what says of words that they are gone; those of two levels leave nothing.
        for _ in range(2):
            copy.execute(f"{COME}; {LEAVE}; INSERT INTO fts(fts) VALUES('optimize')")
        return Pages(total, free, int(sqlite.one(copy, IN_USE)[0]))


@contextmanager
def asked_meanwhile(daemon: Daemon, chance: random.Random) -> Iterator[None]:
    """Somebody else asks all the time; no question may fail."""
    done, faults, seed = threading.Event(), list[Exception](), chance.random()

    def ask() -> None:
        words = random.Random(seed)
        try:
            with daemon.connect() as client:
                while not done.is_set():
                    client.call("search", query=" ".join(words.sample(WORDS, 2)), fresh=words.random() < 0.1)
                    for session in client.call("list_sessions", limit=3)["sessions"]:
                        client.call("list_messages", sessionId=session["sessionId"], limit=5)
        except Exception as error:
            faults.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        done.set()
        asking.join()
    assert faults == []


@pytest.mark.fault(101)
@pytest.mark.timeout(300 + 2 * SOAK_S)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="sizes come from /proc")
def test_nothing_grows(chance: random.Random) -> None:
    """Round after round the index has what the files have, and the process is as big as it was."""
    sizes: list[Size] = []
    until = time.monotonic() + SOAK_S
    with Daemon({"sweepSeconds": 5}) as daemon:
        empty = count_pages(daemon)
        while time.monotonic() < until or len(sizes) < WARM_ROUNDS + 2:
            with asked_meanwhile(daemon, chance):
                author = Author(daemon, chance, f"round-{len(sizes)}")
                for _ in range(LINES):
                    author.go_on()
                daemon.call("index", full=chance.random() < 0.3)
                author.finish()
            daemon.sync()
            as_in_the_files(daemon)
            clear(daemon)
            sizes.append(measure(daemon))
        eventually(lambda: count_pages(daemon).free < FREE_PAGES)
        daemon.check_index()
    print(*sizes[:: max(1, len(sizes) // 20)], f"{len(sizes)} rounds", sep="\n")  # noqa: T201  # for who reads the output of a long run
    assert {size.pages.merged for size in sizes} == {empty.merged}
    warm = max(WARM_ROUNDS, len(sizes) // 5)
    settled, last = sizes[warm:-1], sizes[-1]
    pages_mb = CONNECTIONS * max(size.pages.total for size in sizes) * checksums.PAGE_BYTES / (1 << 20)
    assert last.resident_mb < min(size.resident_mb for size in settled) + pages_mb
    assert last.threads <= min(size.threads for size in settled) + MORE_THREADS
    assert last.descriptors <= min(size.descriptors for size in settled) + MORE_DESCRIPTORS
    assert last.log_kb - sizes[0].log_kb <= LOG_KB_A_ROUND * len(sizes)
    assert max(size.wal_mb for size in sizes) < MOST_WAL_MB


def killed(daemon: Daemon, crew: Crew, chance: random.Random) -> None:
    """With -9, at any moment."""
    for _ in range(5):
        crew.go_on(10)
        time.sleep(chance.uniform(0, 0.2))  # to die somewhere within what follows
        daemon.kill()
        crew.go_on(2)
        daemon.start()


def full_disk(daemon: Daemon, crew: Crew, _: random.Random) -> None:
    """For files that would grow."""
    largest = max(path.stat().st_size for path in daemon.data_dir.iterdir())
    with limited(daemon, "fsize", largest // 2):
        crew.go_on(LINES)
        eventually(lambda: daemon.call("status")["warnings"])


def clock_jumps(daemon: Daemon, crew: Crew, chance: random.Random) -> None:
    """Years ahead, years back."""
    for days in (3000, -3000, chance.randrange(-20, 20), 0):
        (daemon.directory / "clock").write_text(str(days * 86400))
        crew.go_on(10)
        daemon.call("search", query="quince", fresh=True)


def low_memory(daemon: Daemon, crew: Crew, chance: random.Random) -> None:
    """No more than it has, while a message comes that needs some."""
    with open(f"/proc/{daemon.pid}/statm") as pages:
        size = int(pages.read().split()[0]) * resource.getpagesize()
    name = f"pi/large-{chance.getrandbits(32)}.jsonl"
    with limited(daemon, "as", size):
        daemon.write(name, PiSession(id=name).user(f"{chance.random()} quince " * 150_000).bytes())
        crew.go_on(LINES)
    daemon.hang_up()
    eventually(lambda: answers_again(daemon))


def answers_again(daemon: Daemon) -> bool:
    """Whether it answers, or the next one does: without memory for a thread's first step it stands still, and ends after a minute."""
    assert daemon.process is not None
    if daemon.process.poll() is not None:
        assert daemon.wait() == FAILED
        daemon.start()
    return answers(daemon)


def answers(daemon: Daemon) -> bool:
    """Whether somebody who connects now is answered."""
    with contextlib.suppress(OSError, ClosedError, RpcError), daemon.connect() as client:
        return bool(client.call("search", query="quince", limit=1)["results"])
    return False


def nothing(_: Daemon, __: Crew, ___: random.Random) -> None:
    """A quiet day."""


EVENTS = (nothing, killed, full_disk, clock_jumps, low_memory)


@contextmanager
def limited(daemon: Daemon, what: str, size: int) -> Iterator[None]:
    """The process may not have more of this."""
    subprocess.run(["prlimit", f"--pid={daemon.pid}", f"--{what}={size}:"], check=True)
    try:
        yield
    finally:
        if daemon.process is not None and daemon.process.poll() is None:
            subprocess.run(["prlimit", f"--pid={daemon.pid}", f"--{what}=unlimited"], check=True)


@contextmanager
def asked_in_spite_of_all(daemon: Daemon) -> Iterator[None]:
    """Somebody asks, and asks again when there is no answer."""
    done = threading.Event()

    def ask() -> None:
        while not done.wait(0.01):
            with contextlib.suppress(OSError, ClosedError, RpcError), daemon.connect() as client:
                while not done.is_set():
                    client.call("search", query=" ".join(random.sample(WORDS, 2)))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield
    finally:
        done.set()
        asking.join()


@pytest.mark.timeout(300 + 2 * SOAK_S)
@pytest.mark.skipif(shutil.which("prlimit") is None, reason="needs prlimit")
def test_whatever_happens(chance: random.Random) -> None:
    """Ten agents that append to files and four that don't at work, while somebody asks, while the daemon is killed, disk or memory
    are full and the clock jumps: after each round the index says what a new one does, and it needs as much disk as before."""
    sizes: list[Size] = []
    until = time.monotonic() + SOAK_S
    daemon = Daemon({"sources": None}, program=PROGRAM, arguments=["clock"])
    daemon.configure({"sources": sources(daemon.root), "sweepSeconds": 1})
    daemon.allowed += [
        "cannot",
        "could not",
        "full",
        "disk I/O",
        "memory",
        "Memory",
        "new thread",
        "internal error",
        "connection failed",
    ]
    with daemon:
        empty = count_pages(daemon)
        for number, happens in enumerate(itertools.cycle(EVENTS)):
            if time.monotonic() > until and number >= len(EVENTS):
                break
            crew = Crew(daemon, chance, f"round-{number}")
            with asked_in_spite_of_all(daemon):
                crew.go_on(LINES)
                happens(daemon, crew, chance)
                crew.go_on(LINES)
            eventually(lambda: daemon.call("status")["warnings"] == [])
            daemon.sync()
            before = daemon.everything()
            assert len(before[0]) >= len(list(daemon.root.rglob("*.jsonl*"))) // 2 > 0
            assert crew.parsers() <= {session["source"] for session in before[0]}
            there = sorted(str(path) for path in daemon.root.rglob("*") if path.is_file())
            daemon.call("index", full=True)
            assert daemon.everything() == before, (happens, there, daemon.log[-4000:])
            crew.clear()
            clear(daemon)
            sizes.append(measure(daemon))
        eventually(lambda: count_pages(daemon).free < FREE_PAGES)
        daemon.check_index()
    print(*sizes[:: max(1, len(sizes) // 20)], f"{len(sizes)} rounds", sep="\n")  # noqa: T201  # for who reads the output of a long run
    assert {size.pages.merged for size in sizes} == {empty.merged}
    assert sizes[-1].log_kb - sizes[0].log_kb <= LOG_KB_A_ROUND * len(sizes)
    assert max(size.wal_mb for size in sizes) < MOST_WAL_MB


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has a heap for each thread")
@pytest.mark.parametrize(("environ", "one"), [({}, True), ({"MALLOC_ARENA_MAX": "8"}, False)])
def test_threads_share_a_heap(chance: random.Random, environ: dict[str, str], one: bool) -> None:
    """Unless the environment says otherwise."""
    with Daemon(environ=environ) as daemon:
        with asked_meanwhile(daemon, chance):
            author = Author(daemon, chance)
            author.go_on(40)
            author.finish()
            daemon.sync()
        heaps = count_heaps(daemon.pid)
    assert (heaps == 0) == one


def count_heaps(pid: int) -> int:
    """The heaps of threads: what is in use of one begins where HEAP_BYTES divide the address, and the rest of it is reserved."""
    with open(f"/proc/{pid}/maps") as maps:
        lines = [line.split(maxsplit=2) for line in maps]
    areas = [(int(place.partition("-")[0], 16), int(place.partition("-")[2], 16), rights) for place, rights, _ in lines]
    return sum(
        begin % HEAP_BYTES == 0 and used == "rw-p" and (end, begin + HEAP_BYTES, "---p") == reserved
        for (begin, end, used), reserved in itertools.pairwise(areas)
    )


def clear(daemon: Daemon) -> None:
    """No file and no session any more."""
    for path in daemon.root.rglob("*.jsonl"):
        path.unlink()
    daemon.sync()
    daemon.call("index", dropGone=True)
    left = [(s["path"], s["gone"], s["messageCount"]) for s in daemon.sessions()]
    assert left == []

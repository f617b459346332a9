"""The same process, for as long as SESAME_SOAK_S says: answers stay true, and nothing grows.

Each round writes sessions while others ask, compares the index with the files, and takes everything away again; what a round leaves
in the process is what must not add up.
"""

import itertools
import os
import platform
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from sesamed.store import index
from tests.support.author import WORDS, Author, as_in_the_files
from tests.support.daemon import Daemon

SOAK_S = float(os.environ.get("SESAME_SOAK_S", "2"))
LINES = 150  # of a round: times that the author goes on
WARM_ROUNDS = 2  # caches are filled by then
HEAP_BYTES = 64 << 20  # glibc's for each thread but the first: mapped at multiples of that
CONNECTIONS = 1 + index.CONNECTIONS  # each may keep all pages of the index
MORE_THREADS = 5  # for three readers, the ingest and the sweep; idle ones end after ten seconds
MORE_DESCRIPTORS = 1  # a connection whose end the daemon has not read yet


class Size(NamedTuple):
    """What the process holds."""

    resident_mb: float
    threads: int
    descriptors: int
    index_mb: float


def measure(daemon: Daemon) -> Size:
    with open(f"/proc/{daemon.pid}/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    resident, threads = (int(fields[name].split()[0]) for name in ("VmRSS", "Threads"))
    descriptors = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    return Size(resident / 1024, threads, descriptors, daemon.database.stat().st_size / (1 << 20))


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
        daemon.check_index()
    print(*sizes[:: max(1, len(sizes) // 20)], f"{len(sizes)} rounds", sep="\n")  # noqa: T201  # for who reads the output of a long run
    settled, last = sizes[max(WARM_ROUNDS, len(sizes) // 5) : -1], sizes[-1]
    pages_mb = CONNECTIONS * max(size.index_mb for size in sizes)
    assert last.resident_mb < min(size.resident_mb for size in settled) + pages_mb
    assert last.threads <= min(size.threads for size in settled) + MORE_THREADS
    assert last.descriptors <= min(size.descriptors for size in settled) + MORE_DESCRIPTORS


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
    assert daemon.sessions() == []

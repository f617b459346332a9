"""The process that reads ahead, beside a real daemon: there during a load and not after it, and whoever is killed, nothing is lost."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.author import Author, as_in_the_files
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

# For a load of any size there is one, and most of it is read by it.
PROGRAM = """
import sys
import os, anyio
from pathlib import Path
from sesamed.ingest import indexer
from sesamed.ingest.ahead import child
hold, rest = Path(os.environ["SESAME_RUNTIME_DIR"], "hold"), indexer.Indexer._rest
async def rest_when_it_was_met(self):
    while hold.exists() and not self._ahead.is_idle:
        await anyio.sleep(0.01)
    await rest(self)
indexer.Indexer._rest = rest_when_it_was_met
child.LEAST_BYTES = indexer.BULK_FILES = 0
child.count_cores = lambda: 2
from sesamed.cli import main
sys.exit(main())
"""
KILLS = int(os.environ.get("SESAME_KILLS", "50"))
FILES, LINES = 150, 60  # a second or so of reading, most of which is left when the process is there


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon(program=("-c", PROGRAM)) as made:
        yield made


def write_load(daemon: Daemon, name: str) -> None:
    """Many sessions at once."""
    daemon.stop()
    daemon.runtime_dir.mkdir(exist_ok=True)
    (daemon.runtime_dir / "hold").touch()
    for number in range(FILES):
        session = PiSession(id=f"{name}-{number:04}", start=f"2026-01-02T{number // 60:02}:{number % 60:02}:00.000Z")
        for at in range(LINES):
            session.user(f"quince {name} {number} {at} " + "medlar salsify skirret " * 20)
        daemon.write(f"{name}/{number}.jsonl", session.bytes())


def find_reading(daemon: Daemon) -> list[int]:
    """The processes that read ahead for it."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [
        int(pid)
        for pid, parent, *program in rows
        if int(parent) == daemon.pid and "sesamed.ingest.ahead" in str(program)
    ]


def meet(daemon: Daemon) -> int:
    """Its process, which is there as long as there is something to read, and during the load that was written at least until now."""
    pid = eventually(lambda: find_reading(daemon))[0]
    (daemon.runtime_dir / "hold").unlink(missing_ok=True)
    return pid


# It says when it stands still, and when it imports what posting arrays need.
WAYS = """
import os
from pathlib import Path
from sesamed import daemon, way
from sesamed.store import shelf
daemon.READY_S = 0.05
place = Path(os.environ["SESAME_RUNTIME_DIR"])
def said(name, function):
    def say(*arguments):
        (place / name).touch()
        return function(*arguments)
    return say
way.time = type("Time", (), {"monotonic": way.time.monotonic, "sleep": staticmethod(said("stood", way.time.sleep))})
shelf.prepare = said("prepared", shelf.prepare)
"""


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_is_there_during_a_load_only(daemon: Daemon) -> None:
    """For the first index, and for one that is built anew; none is at rest."""
    write_load(daemon, "first")
    daemon.start()
    meet(daemon)
    daemon.sync()
    eventually(lambda: not find_reading(daemon))
    daemon.client.send("index", full=True)
    meet(daemon)
    daemon.sync()
    eventually(lambda: not find_reading(daemon))
    as_in_the_files(daemon)
    daemon.check_index()


def test_whoever_asks_during_a_load_comes_first() -> None:
    """The load stands still while a question is answered, and has ready what the next one may need."""
    with Daemon(program=("-c", WAYS + PROGRAM)) as daemon:
        write_load(daemon, "first")
        daemon.start()
        meet(daemon)
        said = {name: daemon.runtime_dir / name for name in ("stood", "prepared")}
        while not all(path.exists() for path in said.values()):
            daemon.call("search", query="quince medlar salsify")
            assert find_reading(daemon), "the load was over before"
        daemon.sync()
        as_in_the_files(daemon)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_daemon(daemon: Daemon, number: signal.Signals) -> None:
    """Stopped, it is gone when the daemon is; when that is killed, at once."""
    write_load(daemon, "first")
    daemon.start()
    pid = meet(daemon)
    if number == signal.SIGTERM:
        daemon.stop()
        assert not is_there(pid)
    else:
        daemon.kill()
        eventually(lambda: not is_there(pid))
    daemon.start().sync()
    as_in_the_files(daemon)


@pytest.mark.fault(54)
def test_when_it_is_killed_the_daemon_reads_on(daemon: Daemon) -> None:
    """It says so in its log."""
    daemon.allowed.append("without reading ahead")
    write_load(daemon, "first")
    daemon.start()
    os.kill(meet(daemon), signal.SIGKILL)
    daemon.sync()
    as_in_the_files(daemon)
    daemon.check_index()


@pytest.mark.fault(54)
@pytest.mark.timeout(60 + 10 * KILLS)
def test_exactly_once_whoever_is_killed(daemon: Daemon, chance: random.Random) -> None:
    """The daemon or the other process, at random moments of loads, while files grow."""
    daemon.allowed.append("without reading ahead")
    author = Author(daemon, chance)
    for number in range(max(3, KILLS // 25)):
        write_load(daemon, f"load-{number}")
        daemon.start()
        author.go_on(chance.choice((1, 20)))
        pid = meet(daemon)
        time.sleep(chance.uniform(0, 0.5))  # to die somewhere within what follows
        if chance.random() < 0.5:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            author.go_on(5)
        else:
            daemon.kill()
            daemon.start()
        daemon.sync()
    author.finish()
    daemon.sync()
    as_in_the_files(daemon)
    daemon.check_index()

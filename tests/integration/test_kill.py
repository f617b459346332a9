"""kill -9 at any moment of indexing loses nothing and doubles nothing. SESAME_KILLS says how often; `.ci/long` kills far more."""

import os
import random
import time

import pytest

from sesamed.store.sqlite import rows
from tests.support.author import Author, as_in_the_files
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

KILLS = int(os.environ.get("SESAME_KILLS", "50"))


@pytest.mark.fault(54)
@pytest.mark.timeout(60 + 10 * KILLS)
def test_exactly_once(chance: random.Random) -> None:
    """At any kill point each record is in the index once: killed at random moments of indexing, while files grow, the index has in
    the end what a plain reading of the files has, each record once, and agrees with itself."""
    with Daemon() as daemon:
        author = Author(daemon, chance)
        while_it_takes = time_to_index(daemon, author)
        in_the_middle = 0
        for number in range(KILLS):
            if daemon.process is None:
                author.go_on(chance.choice((0, 5, 40)))
                daemon.start()
            if number % 10 == 3:
                daemon.client.send("index", full=True)
            for _ in range(chance.randrange(6)):
                time.sleep(chance.uniform(0, while_it_takes / 4))  # to die somewhere within what follows
                author.go_on(chance.choice((1, 5)))
            time.sleep(chance.uniform(0, chance.choice((while_it_takes / 8, while_it_takes))))
            daemon.kill()
            in_the_middle += unread(daemon) > 0
            if number % 25 == 24:
                daemon.check_index()
        author.finish()
        daemon.start().sync()
        as_in_the_files(daemon)
        daemon.check_index()
        print(f"killed in the middle: {in_the_middle} of {KILLS}")  # noqa: T201  # for who reads the output of a long run
        assert in_the_middle > KILLS / 10, "too few of the kills came while there was something to do"


def time_to_index(daemon: Daemon, author: Author) -> float:
    """How long a start with something to read takes, at least 30 ms; a slow machine is killed later."""
    daemon.stop()
    author.go_on(10)
    daemon.start()
    begun = time.monotonic()
    daemon.sync()
    return max(0.03, time.monotonic() - begun)


def unread(daemon: Daemon) -> int:
    """How many bytes of whole lines are not in the index of a killed daemon."""
    with daemon.opened() as connection:
        ((read,),) = rows(connection, "SELECT coalesce(sum(offset), 0) FROM files")
    return sum(path.read_bytes().rfind(b"\n") + 1 for path in daemon.root.rglob("*.jsonl")) - int(read)


@pytest.mark.fault(67)
def test_kills_in_a_rebuild(chance: random.Random) -> None:
    """Killed while the index is built anew, the old one or the new one is there, whole; gone sessions included."""
    with Daemon() as daemon:
        author = Author(daemon, chance)
        gone = daemon.write("gone.jsonl", PiSession(id="gone-1").user("a unique turnip").bytes())
        author.go_on(60)
        author.finish()
        daemon.sync()
        os.unlink(gone)
        daemon.sync()
        for _ in range(10):
            daemon.client.send("index", full=True)
            time.sleep(chance.uniform(0, 0.25))  # to die somewhere within
            daemon.kill()
            daemon.start()
            assert not list(daemon.data_dir.glob("*.new*"))
            assert daemon.found("turnip") == ["gone-1"]
        daemon.sync()
        as_in_the_files(daemon, gone=["gone-1"])
        daemon.check_index()

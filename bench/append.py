"""One appended line to found by `search`, with a whole corpus indexed.

    python -m bench.append CORPUS [--samples 300]

A line with a word of its own is appended to a session, and search is asked for that word, back to back on one connection, until it
is found: so this is what a client sees, with the time of the last search in it, and the searches themselves compete with the
indexing for the interpreter. For random sessions, and for the longest one: the cost must not follow from a file's length. Between
appends is a random pause of up to 50 ms, and of half a second after every twentieth, so that upkeep gets its turns, too.
`freshness` is the daemon's own word on these: from the event being seen to the commit.

The hard cases come first, and are not part of the goals: while the cold index is being made (an append to any session, read or not),
and right after it, while segments are merged and the WAL is folded in; there the pauses are up to 10 ms. Works on a copy of the
corpus.
"""

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any

from bench.instance import Instance, is_settled, scratch, session_files
from bench.tables import Table, ms, percentile, run_alone

PAUSE_S = 0.05
BUSY_PAUSE_S = 0.01
AFTER_S = 2.0
REST_S = 0.5
REST_EVERY = 20
PATIENCE_S = 60.0
Row = tuple[str, ...]
HEADER = ("", "samples", "p50", "p90", "p99", "max", "over 50 ms")


class Appender:
    """Appends lines, and waits for each to be found."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._number = 0

    def run(self, daemon: Instance, paths: list[str], samples: int) -> list[float]:
        """Milliseconds of each append."""
        times = list[float]()
        for number in range(1, samples + 1):
            time.sleep(REST_S if number % REST_EVERY == 0 else self._random.random() * PAUSE_S)
            times.append(self._one(daemon, self._random.choice(paths)))
        return times

    def run_while(self, daemon: Instance, goes_on: Callable[[], bool], paths: list[str]) -> list[float]:
        """The same with short pauses, as long as something goes on."""
        times = list[float]()
        while not times or goes_on():
            time.sleep(self._random.random() * BUSY_PAUSE_S)
            times.append(self._one(daemon, self._random.choice(paths)))
        return times

    def _one(self, daemon: Instance, path: str) -> float:
        self._number += 1
        word = f"append{self._number:07d}q"
        line = session_line(f"what came last is {word} in this session").encode()
        with open(path, "ab", buffering=0) as file:
            begun = time.perf_counter()
            file.write(line)
        while not daemon.call("search", query=word, limit=1)["resultCount"]:
            if time.perf_counter() - begun > PATIENCE_S:
                raise RuntimeError(f"{word} in {path} was not found in {PATIENCE_S:.0f} s")
        return (time.perf_counter() - begun) * 1000


def session_line(text: str) -> str:
    """A user's message of a pi session, which follows the one before."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": int(time.time() * 1000)}
    entry = {"type": "message", "id": uuid.uuid4().hex[:8], "timestamp": now, "message": message}
    return json.dumps(entry) + "\n"


def measure(corpus: str, samples: int) -> list[Table]:
    """Appends to random sessions and to the longest one."""
    with scratch() as place:
        copy = os.path.join(place, "corpus")
        shutil.copytree(corpus, copy)
        paths = session_files(copy)
        appender = Appender(Random(1))
        with Instance(place, copy) as daemon:
            rows = _busy_rows(daemon, appender, paths)
        with Instance(place, copy) as daemon:  # another one: the first one's `freshness` is of the busy time
            daemon.until_settled()
            daemon.until_folded()
            rows += _calm_rows(daemon, appender, paths, samples)
    return [Table("Append to found, ms", HEADER, rows, f"{len(paths)} sessions indexed.")]


def _busy_rows(daemon: Instance, appender: Appender, paths: list[str]) -> list[Row]:
    """While it indexes all, and for some seconds after it."""
    during = appender.run_while(daemon, lambda: not is_settled(daemon.call("status")), paths)
    end = time.perf_counter() + AFTER_S
    after = appender.run_while(daemon, lambda: time.perf_counter() < end, paths)
    daemon.until_folded()
    return [row("during the cold index", during), row(f"in the {AFTER_S:.0f} s after it", after)]


def _calm_rows(daemon: Instance, appender: Appender, paths: list[str], samples: int) -> list[Row]:
    longest = max(paths, key=os.path.getsize)
    size = os.path.getsize(longest) / 1e6
    return [
        row("**random sessions**", appender.run(daemon, paths, samples)),
        row(f"the longest session ({size:.1f} MB)", appender.run(daemon, [longest], max(1, samples // 3))),
        row("(a search that finds nothing)", _misses(daemon, samples)),
        _freshness(daemon.call("status")["freshness"]),
    ]


def _misses(daemon: Instance, samples: int) -> list[float]:
    """What one turn of the waiting costs."""
    times = []
    for number in range(samples):
        begun = time.perf_counter()
        daemon.call("search", query=f"missing{number:07d}q", limit=1)
        times.append((time.perf_counter() - begun) * 1000)
    return times


def row(name: str, times: list[float]) -> Row:
    """How long appends took."""
    shares = [ms(percentile(times, share)) for share in (50, 90, 99)]
    return (name, str(len(times)), *shares, ms(max(times)), str(sum(one > 50 for one in times)))


def _freshness(said: Any) -> Row:
    return ("the daemon's `freshness`", str(said["samples"]), ms(said["p50Ms"]), "", ms(said["p99Ms"]), "", "")


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=300)

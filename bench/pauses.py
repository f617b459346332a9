"""The first question after a pause, and after everything that the system kept of the index in memory is gone.

    python -m bench.pauses CORPUS [--pause_s 620] [--pauses 3] [--asleep 6] [--starts 5]

A daemon gives back after ten quiet minutes what it holds, so the pause is really waited for. Several daemons, each with a copy of the
index, pause at the same time; then each is asked one question, on a new connection, as a command would. Before the pause each has answered
questions of all kinds, and these, asked again right away, are `warm`. The kinds of question are the six of `bench.query` by turns; after
every second pause they are its other kinds.

`cache dropped`: a daemon is started over its index, and when it is up to date, what the system has of files in memory is dropped; then
comes the one question. Root drops all of it (`/proc/sys/vm/drop_caches`: others on the machine have to read their files again, too); who
is not root, or was asked to be gentle, drops the files of the index (`posix_fadvise`), unless a process has them mapped.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import apsw

from bench.instance import Instance, find_index, scratch
from bench.query import Kinds, draw_questions, kinds, other_kinds, pool
from bench.tables import Table, ms, percentile, run_alone
from sesamectl.client import Client

PATIENCE_S = 600.0
WARMING = 10  # questions of each kind
GROUPS: dict[str, Kinds] = {"": kinds, ", other kinds": other_kinds}
DROP = "/proc/sys/vm/drop_caches"
HEADER = ("", "n", "p50", "p90", "p99", "max", "MB resident before", "after")


class Sleeper(Instance):
    """A daemon that is asked like by a command: on a connection of its own."""

    def ask(self, question: str) -> float:
        """Milliseconds from connecting to the answer."""
        begun = time.perf_counter()
        with Client(self.socket_path, PATIENCE_S) as client:
            client.call("search", query=question)
        return (time.perf_counter() - begun) * 1000


class Questions(NamedTuple):
    """Of some kinds, by turns: those that a daemon is warmed with, and those that are asked once."""

    name: str  # behind that of a row
    warming: list[str]
    dropped: list[str]
    paused: Iterator[str]


def measure(
    corpus: str, pause_s: float, pauses: int, asleep: int, starts: int, *, whole_cache: bool = False
) -> list[Table]:
    """Warm, after a pause, and with nothing in memory: `starts` for each kind of question."""
    index = find_index(corpus)
    database = os.path.join(index, "data", "index.sqlite")
    with contextlib.closing(apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        random = Random(3)
        words = pool(connection, random)
    groups = [
        Questions(
            name,
            draw_questions(words, random, WARMING, of),
            draw_questions(words, random, starts, of),
            iter(draw_questions(words, random, pauses * asleep, of)),
        )
        for name, of in GROUPS.items()
    ]
    with contextlib.ExitStack() as places:
        copies = [_copy(places.enter_context(scratch()), index) for _ in range(asleep)]
        rows = _paused_rows(corpus, copies, groups, (pause_s, pauses))
        how = ""
        for group in groups:
            row, how = _dropped_row(corpus, copies[0], group, whole_cache=whole_cache)
            rows.append(row)
    note = f"Pauses of {pause_s:.0f} s, {asleep} daemons at a time, {pauses} times. Dropped: {how}."
    return [Table("The first question, ms", HEADER, rows, note)]


def _copy(place: str, index: str) -> str:
    shutil.copytree(os.path.join(index, "data"), os.path.join(place, "data"))
    return place


def _paused_rows(
    corpus: str, copies: list[str], groups: list[Questions], spans: tuple[float, int]
) -> list[tuple[str, ...]]:
    pause_s, pauses = spans
    warm: dict[str, list[float]] = {group.name: [] for group in groups}
    first: dict[str, list[float]] = {group.name: [] for group in groups}
    before, after = list[float](), list[float]()
    with contextlib.ExitStack() as stack:
        daemons = [stack.enter_context(Sleeper(place, corpus)) for place in copies]
        for daemon in daemons:
            daemon.until_settled()
        for number in range(pauses):
            for daemon in daemons:
                for group in groups:
                    for question in group.warming:
                        daemon.ask(question)
                    warm[group.name] += map(daemon.ask, group.warming)
            before += [daemon.resident_mb() for daemon in daemons]
            time.sleep(pause_s)
            after += [daemon.resident_mb() for daemon in daemons]
            asked = groups[number % len(groups)]
            first[asked.name] += [daemon.ask(next(asked.paused)) for daemon in daemons]
    memory = (f"{max(before):.0f}", f"{max(after):.0f}")
    rows = [_row(f"warm{name}", times, ("", "")) for name, times in warm.items()]
    return rows + [_row(f"**after a pause{name}**", times, memory) for name, times in first.items() if times]


def _dropped_row(corpus: str, place: str, group: Questions, *, whole_cache: bool) -> tuple[tuple[str, ...], str]:
    times, how = list[float](), ""
    for question in group.dropped:
        with Sleeper(place, corpus) as daemon:
            daemon.until_settled()
            how = _drop(os.path.join(place, "data"), whole_cache=whole_cache)
            times.append(daemon.ask(question))
    return _row(f"after a start, cache dropped{group.name}", times, ("", "")), how


def _drop(directory: str, *, whole_cache: bool) -> str:
    """Drop what the system has of files in memory, or of those in a directory; which it was."""
    os.sync()  # what is not written yet would stay
    if whole_cache and os.access(DROP, os.W_OK):
        with contextlib.suppress(OSError), open(DROP, "w", encoding="ascii") as file:
            file.write("1")
            return "the page cache"
    for name in os.listdir(directory):
        if os.path.isfile(path := os.path.join(directory, name)):
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
    return "the files of the index"


def _row(name: str, times: list[float], memory: tuple[str, str]) -> tuple[str, ...]:
    return (name, str(len(times)), *(ms(percentile(times, share)) for share in (50, 90, 99, 100)), *memory)


if __name__ == "__main__":
    run_alone(measure, __doc__, pause_s=620.0, pauses=3, asleep=6, starts=5)

"""Which modules of `sesamed` a line and a question pass in a running daemon, in the order of the calls.

- *from event to commit*: a user's message is appended to an indexed pi session; from the first call after the write to the first
  commit. The tail of it, until the daemon is quiet again, holds upkeep too, and differs from time to time.
- *from line to answer*: `search` for two words, one of them mistyped, which one session has; from the first call after the request
  was sent to the last write to a socket before the answer was here.

A module is *passed* when one of its functions was called, and *switched to* when the call before it was in another module, whatever
the thread. Each is done several times; the median by switches is told, without the first time, which loads and compiles. Nothing
here knows a name of `sesamed` but its command line, so that any commit can be measured.
"""

import json
import os
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import apsw

from bench import generate
from bench.append import session_line
from bench.instance import PROJECT, TICK_S, Instance, scratch, session_files
from bench.profiled import COMMITTED, SENT

TO_COMMIT, UNTIL_QUIET, TO_ANSWER = "from event to commit", "from event until quiet", "from line to answer"
TEXT, QUESTION = "the wombat dug a deep burrow", "wombat burow"
ROUNDS = 8
QUIET_S = 0.3
MESSAGES, SESSIONS = 400, 8
MARKS = (COMMITTED, SENT)


class Call(NamedTuple):
    """A function was entered; or something was done that ends a path, then the module is one of MARKS."""

    at_ns: int
    thread: int
    module: str
    function: str


class Path(NamedTuple):
    """Calls in the order of time."""

    calls: list[Call]

    @property
    def modules(self) -> list[str]:
        """The modules passed, by their first call."""
        return list(dict.fromkeys(call.module for call in self.calls))

    @property
    def functions(self) -> int:
        """How many different ones were called."""
        return len({(call.module, call.function) for call in self.calls})

    @property
    def switches(self) -> int:
        """How often the next call was in another module."""
        return sum(before.module != after.module for before, after in pairwise(self.calls))

    @property
    def thread_switches(self) -> int:
        """How often the next call was in another thread."""
        return sum(before.thread != after.thread for before, after in pairwise(self.calls))

    def legs(self) -> Iterator[tuple[str, list[str]]]:
        """The path as it is walked: a module, and what was called in it before it was left."""
        functions = list[str]()
        for before, after in pairwise([*self.calls, Call(0, 0, "", "")]):
            functions.append(before.function)
            if after.module != before.module:
                yield before.module, list(dict.fromkeys(functions))
                functions = []


class Moment(NamedTuple):
    """When something was asked of the daemon, and when it was done."""

    path: str
    begin_ns: int
    end_ns: int


def trace_paths(tree: str) -> dict[str, Path]:
    """The usual paths in the `sesamed` of a tree."""
    return {name: _usual(paths) for name, paths in trace_rounds(tree).items()}


def trace_rounds(tree: str) -> dict[str, list[Path]]:
    """The paths of each round, without those of the first one."""
    with scratch() as place, scratch() as corpus:
        generate.generate(generate.Corpus(corpus, MESSAGES, SESSIONS), 1)
        record = os.path.join(place, "calls")
        program = (os.path.join(PROJECT, "bench", "profiled.py"), os.path.realpath(tree), record)
        with Instance(place, corpus, module=program) as daemon:
            daemon.until_settled()
            daemon.until_folded()
            moments = list(_ask_and_append(daemon, session_files(corpus)[0]))
        with open(record, encoding="utf-8") as file:
            calls = [Call(*row) for row in json.load(file)]
    found = {
        name: [_cut(calls, moment) for moment in moments if moment.path == name] for name in (UNTIL_QUIET, TO_ANSWER)
    }
    found[TO_COMMIT] = [_until_commit(path) for path in found[UNTIL_QUIET]]
    return {name: [_without_marks(calls) for calls in found[name][1:]] for name in (TO_COMMIT, UNTIL_QUIET, TO_ANSWER)}


def _ask_and_append(daemon: Instance, path: str) -> Iterator[Moment]:
    index = apsw.Connection(daemon.database, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for _ in range(ROUNDS):
            begin_ns = time.monotonic_ns()
            _append(index, path)
            time.sleep(QUIET_S)
            yield Moment(UNTIL_QUIET, begin_ns, time.monotonic_ns())
            begin_ns = time.monotonic_ns()
            assert daemon.call("search", query=QUESTION)["resultCount"] == 1
            yield Moment(TO_ANSWER, begin_ns, time.monotonic_ns())
            time.sleep(QUIET_S)
    finally:
        index.close()


def _append(index: apsw.Connection, path: str) -> None:
    """Append a line, and wait for a commit without asking the daemon."""
    before = index.execute("PRAGMA data_version").get
    with open(path, "ab", buffering=0) as file:
        file.write(session_line(TEXT).encode())
    while index.execute("PRAGMA data_version").get == before:
        time.sleep(TICK_S)


def _cut(calls: list[Call], moment: Moment) -> list[Call]:
    """What was called then; for an answer, only until it was sent."""
    then = [call for call in calls if moment.begin_ns <= call.at_ns <= moment.end_ns]
    if moment.path == TO_ANSWER:
        then = then[: max(number for number, call in enumerate(then) if call.module == SENT)]
    return then


def _until_commit(calls: list[Call]) -> list[Call]:
    return calls[: next(number for number, call in enumerate(calls) if call.module == COMMITTED)]


def _without_marks(calls: list[Call]) -> Path:
    return Path([call for call in calls if call.module not in MARKS])


def _usual(paths: list[Path]) -> Path:
    return sorted(paths, key=_switches)[len(paths) // 2]


def _switches(path: Path) -> int:
    return path.switches

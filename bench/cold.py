"""Cold index through the real daemon against the floor, and the second start over files that did not change.

    python -m bench.cold CORPUS [--rounds 3]

Rounds are interleaved, floor and daemon by turns, each with a new index: on a machine that is not quiet the ratio is worth more than
the seconds. `hello` is the time from exec to the first answer, `indexed` from that answer until everything is searchable, `folded`
until the merging and checkpointing that follow are done, too (to 0.4 s; the floor's time holds its checkpoint, and no merging). The
rate is of `indexed`; the ratio is the daemon's rate by the floor's. `newest` is when a search first finds the word that stands only
in the session that was written last (of those that have one), from the first answer on. The status is asked 20 times a second, or so
often that it costs the daemon a tenth at most.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import NamedTuple

from bench.instance import PROJECT, Instance, scratch, session_files
from bench.tables import Table, median, run_alone

NEEDLE = re.compile(rb"needle\d{7}x")
STRACE = ("-f", "-qq", "--seccomp-bpf", "-e", "trace=open,openat,openat2", "-o")

# Where there is no strace: Python's own word on what it opens. It does not see what SQLite opens.
AUDITED = """
import os, runpy, sys
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
def heard(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        os.write(log, os.fsencode(args[0]).replace(b"\\n", b"?") + b'"\\n')
sys.addaudithook(heard)
sys.argv = ["sesamed"]
runpy.run_module("sesamed", run_name="__main__")
"""


class Round(NamedTuple):
    """A cold index."""

    chunks: int
    hello_s: float
    indexed_s: float
    folded_s: float
    newest_s: float | None
    peak_mb: float
    megabytes: float

    @property
    def rate(self) -> float:
        """Chunks a second."""
        return self.chunks / self.indexed_s


class Again(NamedTuple):
    """A start over an index that is up to date."""

    hello_s: float
    ready_s: float


class FloorRun(NamedTuple):
    """The floor's own report."""

    chunks: int
    megabytes: float
    seconds: float
    peak_mb: float

    @property
    def rate(self) -> float:
        """Chunks a second."""
        return self.chunks / self.seconds


class _Newest:
    """Looks for the newest session while the daemon indexes."""

    def __init__(self, daemon: Instance, corpus: str) -> None:
        self._daemon = daemon
        self._word = next(filter(None, map(_needle, session_files(corpus))), None)
        self.found_s: float | None = None

    def look(self) -> None:
        """Note the time when it is found."""
        if self._word and self.found_s is None and self._daemon.call("search", query=self._word)["resultCount"]:
            self.found_s = self._daemon.age_s - self._daemon.hello_s


def _needle(path: str) -> str | None:
    with open(path, "rb") as file:
        found = NEEDLE.search(file.read())
    return found[0].decode() if found else None


def cold(place: str, corpus: str) -> Round:
    """One cold index; it is left in `place`."""
    with Instance(place, corpus) as daemon:
        newest = _Newest(daemon, corpus)
        indexed_s = daemon.until_settled(newest.look) - daemon.hello_s
        newest.look()
        folded_s = daemon.until_folded() - daemon.hello_s
        status = daemon.call("status")
        size = status["database"]["bytes"] / 1e6
        chunks = status["counts"]["chunks"]
        return Round(chunks, daemon.hello_s, indexed_s, folded_s, newest.found_s, daemon.peak_mb(), size)


def floor(corpus: str) -> FloorRun:
    """One run of the floor, in a process of its own."""
    command = (sys.executable, "-m", "bench.floor", corpus)
    return FloorRun(**json.loads(subprocess.run(command, cwd=PROJECT, check=True, stdout=subprocess.PIPE).stdout))


def again(place: str, corpus: str) -> Again:
    """One more start."""
    with Instance(place, corpus) as daemon:
        return Again(daemon.hello_s, daemon.until_settled())


def opened(place: str, corpus: str) -> tuple[int, str]:
    """How many times session files are opened by one more start, and who counted."""
    log = os.path.join(place, "opened")
    if strace := shutil.which("strace"):
        daemon = Instance(place, corpus, wrapper=(strace, *STRACE, log))
    else:
        daemon = Instance(place, corpus, module=("-c", AUDITED, log))
    with daemon:
        daemon.until_settled()
        time.sleep(1)  # whatever comes late
    with open(log, encoding="utf-8", errors="replace") as lines:
        below = os.path.realpath(corpus) + "/"  # the daemon's own files of that name are no sessions
        count = sum(below in line and ('.jsonl"' in line or '.jsonl.zst"' in line) for line in lines)
    return count, "strace" if strace else "audit hook"


def measure(corpus: str, rounds: int) -> list[Table]:
    """Both tables."""
    floors, colds, starts = list[FloorRun](), list[Round](), list[Again]()
    with contextlib.ExitStack() as places:
        for _ in range(rounds):
            place = places.enter_context(scratch())
            floors.append(floor(corpus))
            colds.append(cold(place, corpus))
        starts = [again(place, corpus) for _ in range(max(5, rounds))]
        count, counter = opened(place, corpus)
    return [_cold_table(floors, colds, corpus), _start_table(starts, (count, counter), corpus)]


def _cold_table(floors: list[FloorRun], colds: list[Round], corpus: str) -> Table:
    rows = [
        _floor_row(str(number), measured) for number, measured in enumerate(floors, 1)
    ] + [
        _cold_row(str(number), measured, measured.rate / beside.rate)
        for number, (measured, beside) in enumerate(zip(colds, floors, strict=True), 1)
    ]  # fmt: skip
    ratio = median([measured.rate / beside.rate for measured, beside in zip(colds, floors, strict=True)])
    files = session_files(corpus)
    size = sum(map(os.path.getsize, files)) / 1e6
    note = (
        f"{len(files)} sessions, {size:.0f} MB, {colds[0].chunks} chunks; median ratio **{ratio:.2f}**;"
        f" {colds[0].megabytes:.0f} MB of index."
    )
    header = ("", "round", "hello s", "indexed s", "chunks/s", "ratio", "newest s", "folded s", "peak MB")
    return Table("Cold index", header, rows, note)


def _floor_row(number: str, run: FloorRun) -> tuple[str, ...]:
    return ("floor", number, "", f"{run.seconds:.2f}", f"{run.rate:.0f}", "1", "", "", f"{run.peak_mb:.0f}")


def _cold_row(number: str, run: Round, ratio: float) -> tuple[str, ...]:
    newest = "" if run.newest_s is None else f"{run.newest_s:.2f}"
    times = (f"{run.hello_s:.2f}", f"{run.indexed_s:.2f}", f"{run.rate:.0f}", f"**{ratio:.2f}**", newest)
    return ("daemon", number, *times, f"{run.folded_s:.2f}", f"{run.peak_mb:.0f}")


def _start_table(starts: list[Again], opens: tuple[int, str], corpus: str) -> Table:
    rows = [
        ("exec to hello", *_three([start.hello_s for start in starts])),
        ("exec until everything is searchable", *_three([start.ready_s for start in starts])),
    ]
    count, counter = opens
    note = f"{len(session_files(corpus))} unchanged files; session files opened: **{count}** ({counter})."
    return Table("Second start, ms", ("", "median", "least", "most"), rows, note)


def _three(seconds: list[float]) -> tuple[str, str, str]:
    return f"{median(seconds) * 1000:.0f}", f"{min(seconds) * 1000:.0f}", f"{max(seconds) * 1000:.0f}"


if __name__ == "__main__":
    run_alone(measure, __doc__, rounds=3)

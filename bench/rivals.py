"""Other programs that search the same sessions, by turns with ours in one run, as ratios; those that are installed.

    python -m bench.rivals CORPUS [--rounds 3] [--samples 100]

Each gets a home of its own, where pi's sessions are the corpus, and makes its first index of it: `s` is from the start of the process to
its end, for us from the start of the daemon until everything is searchable. Then each is asked the same questions on its command line,
from the start of the process to its end; kinds of questions are the six of `bench.query` by turns, and who is asked first changes. They do
not find the same: what each was asked, and what it indexes, stands beside the figures. Programs are looked for on the PATH; `python -m
bench --rival NAME=PROGRAM` names others. They are told not to report home, and a server that one needs listens on loopback.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

import apsw

from bench.cold import cold
from bench.instance import Instance, indexed, scratch
from bench.query import draw_questions, pool
from bench.tables import Table, median, ms, percentile, run_alone

OURS = os.path.join(os.path.dirname(sys.executable), "sesamectl")
KINDS = 6
PATIENCE_S = 3600.0
LIMIT = ("--limit", "10")
INDEX_HEADER = ("", "rounds", "s", "peak MB", "MB on disk", "sesame is so many times as fast", "what it indexes")
ASK_HEADER = ("", "n", "p50", "p90", "p99", "max", "sesame's p50 : its", "asked")
LISTENING = re.compile(rb"listening at http://127\.0\.0\.1:\d+")

# How long a program takes, and the most memory that it has: of a child of a large process, that one's would count.
TIMED = """
import resource, subprocess, sys, time
begun = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=sys.stderr)
print(time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


class Rival(NamedTuple):
    """A program, and how it is used."""

    name: str
    indexes: str
    index: tuple[str, ...] | None  # arguments; None: it has no index
    asks: Mapping[
        str, Callable[[str, str], tuple[str, ...]]
    ]  # by what is asked: the arguments for a question and a corpus
    version: tuple[str, ...] = ("--version",)
    server: tuple[str, ...] | None = None  # without which it does not answer


def _first_word(question: str, corpus: str) -> tuple[str, ...]:
    return ("-l", "-F", "-i", question.split()[0], corpus)


def _just(*arguments: str) -> Callable[[str, str], tuple[str, ...]]:
    return lambda question, corpus: (*arguments, question)


RIVALS = (
    Rival("rg", "nothing", None, {"`rg -l -F -i`, the first word": _first_word}),
    Rival(
        "sesame", "texts and calls of tools", ("index",), {"`search --json`": _just("search", "--json", *LIMIT)},
        version=(),
    ),
    Rival(
        "agentsview", "messages, tools, and a rendering of both", ("sync",),
        {"`session search --fts --json`, by its own server": _just("session", "search", "--fts", "--json", *LIMIT)},
        server=("serve", "--no-browser", "--no-update-check", "--port", "0"),
    ),
    Rival(
        "fast-resume", "prose, no tools", ("--rebuild", "--json", "--limit", "1", "nothing"),
        {
            "`--json --no-refresh`: it does not look for what is new": _just("--json", "--no-refresh", *LIMIT),
            "`--json`": _just("--json", *LIMIT),
        },
    ),
)  # fmt: skip
NAMES = tuple(rival.name for rival in RIVALS)


class Found(NamedTuple):
    """A rival that is installed, as what, and where it has its index."""

    rival: Rival
    program: str
    version: str
    home: str

    @property
    def title(self) -> str:
        """What it is called in tables."""
        return f"{self.rival.name} {self.version}".strip()


class Indexed(NamedTuple):
    """One first index."""

    seconds: float
    peak_mb: float
    disk_mb: float


def parse_program(text: str) -> tuple[str, str]:
    """NAME=PROGRAM."""
    name, _, given = text.partition("=")
    program = shutil.which(given)
    if name not in NAMES or program is None:
        raise argparse.ArgumentTypeError(f"{text}: NAME is one of {', '.join(NAMES)}, PROGRAM can be run")
    return name, os.path.abspath(program)


def measure(corpus: str, rounds: int, samples: int, programs: Mapping[str, str] | None = None) -> list[Table]:
    """Indexing and asking."""
    with scratch() as place:
        found, notes = _find(place, os.path.realpath(corpus), programs or {})
        indexes, broken = _index_all(found, corpus, rounds)
        notes += broken
        working = [one for one in found if one.rival.index is None or one.rival.name in indexes]
        with contextlib.ExitStack() as servers:
            for one in working:
                if one.rival.server:
                    servers.enter_context(_served(one))
            asked = _ask_all(working, corpus, samples)
    note = " ".join(notes)
    return [_index_table(working, indexes, note), _ask_table(working, asked, note)]


def _find(place: str, corpus: str, programs: Mapping[str, str]) -> tuple[list[Found], list[str]]:
    """Those that are installed, each with a home; and who is not."""
    found, absent = list[Found](), list[str]()
    for rival in RIVALS:
        program = programs.get(rival.name) or shutil.which(rival.name)
        if program is None:
            absent.append(rival.name)
            continue
        home = os.path.join(place, rival.name)
        _make_home(home, corpus)
        said = _run((program, *rival.version), home).stdout.decode(errors="replace") if rival.version else ""
        version = re.search(r"\d+(\.\d+)+", said)
        found.append(Found(rival, os.path.abspath(program), version[0] if version else "", home))
    return found, [f"Not installed: {', '.join(absent)}."] if absent else []


def _make_home(home: str, corpus: str) -> None:
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(os.path.join(home, ".pi", "agent"))
    os.symlink(corpus, os.path.join(home, ".pi", "agent", "sessions"))


def _environment(home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR")}
    return {**kept, "HOME": home, "DO_NOT_TRACK": "1", "AGENTSVIEW_TELEMETRY_ENABLED": "0"}


def _run(command: Sequence[str], home: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, env=_environment(home) | more, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip


# -- first indexes


def _index_all(found: list[Found], corpus: str, rounds: int) -> tuple[dict[str, list[Indexed]], list[str]]:
    """All first indexes, ours and theirs by turns; who fails is left out, and said."""
    indexes: dict[str, list[Indexed]] = {"": []}
    failed = dict[str, str]()
    for _ in range(rounds):
        with scratch() as place:
            ours = cold(place, corpus)
        indexes[""].append(Indexed(ours.hello_s + ours.indexed_s, ours.peak_mb, ours.megabytes))
        for one in found:
            name = one.rival.name
            if one.rival.index is None or name in failed:
                continue
            made = _index(one, os.path.realpath(corpus))
            if isinstance(made, str):
                failed[name] = made
                indexes.pop(name, None)
            else:
                indexes.setdefault(name, []).append(made)
    return indexes, [f"{name} could not index it: {why}." for name, why in failed.items()]


def _index(one: Found, corpus: str) -> Indexed | str:
    """One first index, or why there is none."""
    assert one.rival.index is not None
    _make_home(one.home, corpus)
    before = _disk_mb(one.home)
    done = _run((sys.executable, "-S", "-c", TIMED, one.program, *one.rival.index), one.home, AGENTSVIEW_NO_DAEMON="1")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().split("\n")[-1][:200]
        return last.replace("|", "/") or f"exit code {done.returncode}"
    took_s, peak_kb = map(float, done.stdout.split())
    return Indexed(took_s, peak_kb / 1024, _disk_mb(one.home) - before)


def _disk_mb(home: str) -> float:
    """What a home holds, without the corpus, which is a link."""
    files = (os.path.join(here, name) for here, _, names in os.walk(home) for name in names)
    return sum(os.lstat(path).st_size for path in files) / 1e6


def _index_table(found: list[Found], indexes: Mapping[str, list[Indexed]], note: str) -> Table:
    ours = median([one.seconds for one in indexes[""]])
    rows = [_index_row("**sesame, this one**", indexes[""], ours, "texts, calls and results of tools")]
    rows += [
        _index_row(one.title, indexes[one.rival.name], ours, one.rival.indexes)
        for one in found
        if one.rival.name in indexes
    ]
    return Table("First index, with others", INDEX_HEADER, rows, note)


def _index_row(title: str, made: list[Indexed], ours: float, indexes: str) -> tuple[str, ...]:
    seconds = median([one.seconds for one in made])
    sizes = (f"{max(one.peak_mb for one in made):.0f}", f"{made[-1].disk_mb:.0f}")
    return (title, str(len(made)), f"{seconds:.2f}", *sizes, f"{seconds / ours:.2f}", indexes)


# -- questions


@contextlib.contextmanager
def _served(one: Found) -> Iterator[None]:
    """While its server runs."""
    assert one.rival.server is not None
    log = os.path.join(one.home, "served")
    with open(log, "wb") as said:
        process = subprocess.Popen(
            (one.program, *one.rival.server),
            env=_environment(one.home),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
    try:
        _wait_until_it_listens(process, log)
        yield
    finally:
        process.terminate()
        process.wait(60)


def _wait_until_it_listens(process: subprocess.Popen[bytes], log: str) -> None:
    while True:
        with open(log, "rb") as said:
            if LISTENING.search(said.read()):
                return
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended before it listened")
        time.sleep(0.05)


def _ask_all(found: list[Found], corpus: str, samples: int) -> dict[tuple[str, str], list[float]]:
    """Milliseconds by program and by what it was asked."""
    with indexed(corpus) as daemon:
        with contextlib.closing(apsw.Connection(daemon.database, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            random = Random(5)
            words = pool(connection, random)
        questions = draw_questions(words, random, samples // KINDS + 1)
        turns = _turns(found, daemon, corpus)
        times: dict[tuple[str, str], list[float]] = {key: [] for key in turns}
        for question in questions[:KINDS]:  # code and pages, not figures
            for ask in turns.values():
                ask(question)
        for question in questions[KINDS : KINDS + samples] or questions:
            for key in random.sample(list(turns), len(turns)):
                times[key].append(turns[key](question))
    return times


def _turns(found: list[Found], daemon: Instance, corpus: str) -> dict[tuple[str, str], Callable[[str], float]]:
    """How each is asked one question."""
    own = {"SESAME_SOCKET": daemon.socket_path, "SESAME_NO_START": "1"}
    turns: dict[tuple[str, str], Callable[[str], float]] = {
        ("", "`search --json`"): lambda question: _time((OURS, "search", "--json", question), daemon.place, own)
    }
    for one in found:
        for what, arguments in one.rival.asks.items():
            turns[one.rival.name, what] = lambda question, one=one, arguments=arguments: _time(  # type: ignore[misc]
                (one.program, *arguments(question, corpus)), one.home, {}
            )
    return turns


def _time(command: Sequence[str], home: str, more: Mapping[str, str]) -> float:
    begun = time.perf_counter()
    done = _run(command, home, **more)
    took_ms = (time.perf_counter() - begun) * 1000
    if done.returncode > 1:  # 1: nothing was found
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-300:]}")
    return took_ms


def _ask_table(found: list[Found], times: Mapping[tuple[str, str], list[float]], note: str) -> Table:
    titles = {"": "**sesame, this one**", **{one.rival.name: one.title for one in found}}
    ours = next(median(some) for (name, _), some in times.items() if not name)
    rows = []
    for (name, what), some in times.items():
        shares = [ms(percentile(some, share)) for share in (50, 90, 99, 100)]
        rows.append((titles[name], str(len(some)), *shares, f"1 : {median(some) / ours:.2f}", what))
    return Table("A question on the command line, with others, ms", ASK_HEADER, rows, note)


if __name__ == "__main__":
    run_alone(measure, __doc__, rounds=3, samples=100)

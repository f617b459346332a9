"""What session memory buys and what it costs, on real sessions, with questions and metadata of `bench/sets`.

    python -m bench.memory --corpus DIR [--sets bench/sets] [--store]

The corpus holds a folder for each source (pi, claude, codex); sets/README.md says which one, and how questions and metadata were made.

A daemon over the corpus is asked all questions through `search`: with no metadata, then with that of every second session (in
the order of their ids), then with all of it, stored through `set_session_meta` as `sesamectl remember` stores it. A question is
answered by any of the sessions that it means. `weak` are answers that say so of themselves; of questions about nothing that is
there (bench/absent.txt) all should.

What it costs: by how much the index grew; what `sesamectl remember --due --dry-run` would send, and what that makes for a day of 50
sessions; and from an appended line to `search` finding it, as bench.append measures it, while `sesamectl remember --due` runs with a
command that answers at once (`cat`), and before and after it. Appends go to a copy of the corpus.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from random import Random
from typing import IO, Any, NamedTuple

from bench import append, figures, ranking
from bench.instance import PROJECT, Instance, scratch, session_files
from bench.tables import Table, machine, show
from sesamed.store import sqlite

SETS = os.path.join(PROJECT, "bench", "sets")
ABSENT = os.path.join(PROJECT, "bench", "absent.txt")
HEADER = ("questions", "n", "memory of", "P@1", "H@3", "H@10", "MRR@10", "weak")
MODEL = "bench"
GENERATED_AT = "2026-01-01T00:00:00.000Z"
A_DAY = 50  # sessions of a busy person
CALM_S = 10.0
SCRIPT = (sys.executable, "-m", "sesamectl")
PAGES = "SELECT (SELECT page_count FROM pragma_page_count) - (SELECT freelist_count FROM pragma_freelist_count)"
PAGE_SIZE = "SELECT page_size FROM pragma_page_size"

Entry = Mapping[str, Any]


class Question(NamedTuple):
    """A question, and the ids of the sessions that answer it."""

    text: str
    kind: str
    meant: frozenset[str]


class Answer(NamedTuple):
    """At which place a session stands that was meant; whether there was an answer, and whether it calls itself weak."""

    place: int | None
    is_any: bool
    is_weak: bool


class Sets(NamedTuple):
    """What is asked, and what is stored."""

    questions: list[Question]
    absent: list[str]
    entries: list[Entry]  # in the order of the sessions' ids


def read_sets(place: str) -> Sets:
    """Those of a directory."""
    with open(os.path.join(place, "questions.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    with open(os.path.join(place, "metadata.jsonl"), encoding="utf-8") as file:
        entries = sorted(map(json.loads, file), key=lambda entry: str(entry["session"]))
    with open(ABSENT, encoding="utf-8") as file:
        absent = file.read().splitlines()
    questions = [Question(text, kind, frozenset(meant.split("|"))) for text, kind, meant in lines]
    return Sets(questions, absent, entries)


def remember(daemon: Instance, entries: Iterable[Entry]) -> None:
    """Store what a model wrote of sessions."""
    for entry in entries:
        identity = entry["session"]
        up_to = daemon.call("list_messages", sessionId=identity, limit=0)["total"] - 1
        written = {name: entry[name] for name in ("description", "summary", "tags", "recallWords")}
        generated = {"model": MODEL, "at": GENERATED_AT, "upTo": up_to, "costUsd": None}
        daemon.call("set_session_meta", sessionId=identity, title=entry["name"], generated=generated, **written)


def ask(daemon: Instance, text: str, meant: frozenset[str]) -> Answer:
    """One question."""
    answer = daemon.call("search", query=text, limit=10)
    for place, hit in enumerate(answer["results"], 1):
        if meant & {hit["sessionId"], (hit["match"] or hit)["sessionId"]}:
            return Answer(place, is_any=True, is_weak=answer["weak"])
    return Answer(None, is_any=bool(answer["results"]), is_weak=answer["weak"])


def ask_all(daemon: Instance, sets: Sets, memory_of: str) -> list[tuple[str, ...]]:
    """All questions: a row of the table for each kind, and one of what is not there."""
    answers = [(question.kind, ask(daemon, question.text, question.meant)) for question in sets.questions]
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in answers):
        of_kind = [answer for its_kind, answer in answers if its_kind == kind]
        _, *shares, _ = ranking.measured(kind, [(answer.place, answer.is_any) for answer in of_kind])
        rows.append((kind, str(len(of_kind)), memory_of, *shares, str(sum(answer.is_weak for answer in of_kind))))
    weak = sum(ask(daemon, text, frozenset()).is_weak for text in sets.absent)
    return [*rows, ("about nothing there", str(len(sets.absent)), memory_of, "", "", "", "", str(weak))]


class Sizes(NamedTuple):
    """Bytes of the index in use, and of the annotations themselves."""

    database: int
    stored: int


def weigh(daemon: Instance) -> Sizes:
    """After upkeep."""
    daemon.until_settled()
    daemon.until_folded()
    connection = sqlite.connect_reader(daemon.database)
    try:
        database = sqlite.one(connection, PAGES)[0] * sqlite.one(connection, PAGE_SIZE)[0]
    finally:
        connection.close()
    words = os.path.join(daemon.place, "data", "sessions")
    stored = sum(os.path.getsize(os.path.join(here, name)) for here, _, names in os.walk(words) for name in names)
    return Sizes(database, stored)


def measure_worth(corpus: str, sets: Sets) -> list[Table]:
    """What it buys, by how much of it there is; and by how much the index grew."""
    steps = {
        "none": list[Entry](),
        "every second session": sets.entries[::2],
        "all sessions": sets.entries[1::2],
    }
    rows, sizes = list[tuple[str, ...]](), list[Sizes]()
    with scratch() as place, ranking.Corpus(place, corpus) as daemon:
        daemon.until_settled()
        for name, more in steps.items():
            remember(daemon, more)
            sizes.append(weigh(daemon))
            rows += ask_all(daemon, sets, name)
        sessions = daemon.call("list_sessions", limit=1)["total"]
    kinds = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: kinds.index(row[0]))
    note = f"{len(sets.entries)} of {sessions} sessions have metadata in the end."
    return [Table("What memory finds", HEADER, rows, note), _grown(sizes[0], sizes[-1], len(sets.entries))]


def _grown(before: Sizes, after: Sizes, sessions: int) -> Table:
    rows = [
        (name, f"{first:,}", f"{last:,}", f"{(last - first) / sessions:,.0f}")
        for name, first, last in (
            ("index", before.database, after.database),
            ("what is stored of it", before.stored, after.stored),
        )
    ]
    return Table("Bytes on disk", ("", "without", "with", "a session"), rows, "")


class Cat(ranking.Corpus):
    """A daemon over a corpus, and a command that answers at once."""

    answer = "/dev/null"

    def configuration(self) -> dict[str, Any]:
        """With the command."""
        return {**super().configuration(), "memory": {"command": ["cat", self.answer], "model": MODEL}}

    def begin_remembering(self, output: IO[bytes], *flags: str) -> subprocess.Popen[bytes]:
        """`sesamectl remember --due`, of all sessions; its answer goes into a file, as a pipe would hold it up."""
        names = {"SESAME_CONFIG_DIR": "config", "SESAME_DATA_DIR": "data", "SESAME_RUNTIME_DIR": "run"}
        places = {name: os.path.join(self.place, value) for name, value in names.items()}
        environ = {**os.environ, **places, "SESAME_SOCKET": self.socket_path, "SESAME_NO_START": "1"}
        command = (*SCRIPT, "remember", "--due", "--limit", "500", "--json", *flags)
        return subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.DEVNULL)


def measure_cost(corpus: str, entry: Entry) -> list[Table]:
    """What would be sent, and appends while all of it is remembered."""
    with scratch() as place:
        copy, answer = os.path.join(place, "corpus"), os.path.join(place, "answer.json")
        shutil.copytree(corpus, copy)
        with open(answer, "w", encoding="utf-8") as file:
            json.dump(entry, file)
        daemon = Cat(place, copy)
        daemon.answer = answer
        with daemon:
            daemon.until_settled()
            daemon.until_folded()
            return [_sent(daemon), _appended(daemon, session_files(os.path.join(copy, "pi")))]


def _sent(daemon: Cat) -> Table:
    with tempfile.TemporaryFile() as output:
        daemon.begin_remembering(output, "--dry-run").wait()
        sizes = [int(one["bytes"]) for one in _read(output)["wouldSend"]]
    mean = statistics.mean(sizes)
    row = (
        f"{len(sizes)}",
        f"{statistics.median(sizes):,.0f}",
        f"{mean:,.0f}",
        f"{max(sizes):,}",
        f"{A_DAY}",
        f"{A_DAY * mean:,.0f}",
    )
    header = ("sessions", "median", "mean", "most", "calls a day", "bytes a day")
    return Table("Bytes sent", header, [row], f"A day: {A_DAY} sessions of the mean size, each done once.")


def _appended(daemon: Cat, paths: list[str]) -> Table:
    """By the same appender, with the same pauses."""
    appender = append.Appender(Random(1))
    without = _append_for(CALM_S, appender, daemon, paths)
    with tempfile.TemporaryFile() as output:
        running = daemon.begin_remembering(output)
        meanwhile = appender.run_while(daemon, lambda: running.poll() is None, paths)
        done = len(_read(output)["remembered"])
    afterwards = _append_for(CALM_S, appender, daemon, paths)
    rows = [
        append.row("without", without),
        append.row(f"while {done} sessions are remembered", meanwhile),
        append.row("afterwards", afterwards),
    ]
    return Table(
        "Append to found meanwhile, ms", append.HEADER, rows, "Sessions that were just appended to are not due."
    )


def _append_for(seconds: float, appender: append.Appender, daemon: Instance, paths: list[str]) -> list[float]:
    end = time.perf_counter() + seconds
    return appender.run_while(daemon, lambda: time.perf_counter() < end, paths)


def _read(output: IO[bytes]) -> Any:
    output.seek(0)
    return json.load(output)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    flags = parser.parse_args()
    sets = read_sets(flags.sets)
    tables = measure_worth(flags.corpus, sets) + measure_cost(flags.corpus, sets.entries[0])
    if flags.store:
        figures.store({"memory": figures.Measured(f"{machine()}; load {os.getloadavg()[0]:.1f} at the end", tables)})
        figures.write()
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()

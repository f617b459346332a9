"""What a run consists of: its benches, on which corpus, and how much of each.

`quick` runs beside the tests, to see that every bench works; its figures say little. `usual` is for a change that may have made something
slower. `full` is what documents show: everything on the usual corpus, and on one ten times as large what may depend on its size.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import NamedTuple

from bench import (
    append,
    client,
    cold,
    crowd,
    figures,
    follow,
    generate,
    hub,
    idle,
    keep,
    loading,
    pauses,
    query,
    rivals,
    shapes,
    stalls,
    throughput,
)
from bench.instance import scratch
from bench.tables import Table

MESSAGES_A_SESSION = 50
TIMES_LARGER = 10
SWEEPS = 5  # minutes of idling with so many files that sweeps are minutes apart
SEED = 1


class Amount(NamedTuple):
    """How much of everything."""

    messages: int  # of the usual corpus
    rounds: int  # of a cold index beside the floor, and beside rivals
    samples: int  # of appends and of programs run
    questions: int  # of each kind
    settle_s: float  # between a load and being idle
    idle_s: float
    ask_s: float  # of each number of clients
    pause_s: float  # without a question
    pauses: int
    asleep: int  # daemons that pause at the same time
    starts: int  # with a dropped page cache, for each kind of question
    long_messages: int  # of the long session


QUICK = Amount(3_000, 1, 20, 3, 0.5, 1.0, 0.5, 1.0, 1, 1, 1, 500)
USUAL = Amount(100_000, 3, 300, 50, 60.0, 60.0, 10.0, 60.0, 1, 3, 5, 50_000)
FULL = USUAL._replace(pause_s=620.0, asleep=6)  # a daemon lies down after ten minutes

QUICK_PARTS = ("cold", "loading", "append", "keep", "query", "pauses", "throughput", "client", "idle", "rivals")
USUAL_PARTS = (
    "cold", "loading", "append", "shapes", "stalls", "keep", "query", "throughput", "client", "idle", "hub", "follow",
    "rivals",
)  # fmt: skip
FULL_PARTS = (*USUAL_PARTS, *(name + figures.LARGE for name in figures.FULL))
Measure = Callable[[str], list[Table]]


class Corpora(contextlib.ExitStack):
    """Corpora that are made when they are needed, and kept in a directory if there is one for them."""

    def __init__(self, given: str | None, kept: str | None, seed: int = SEED) -> None:
        super().__init__()
        self._given, self._kept, self._seed = given, kept, seed
        self._made = dict[int, str]()

    def find(self, messages: int) -> str:
        """Where one of this size is."""
        if self._given:
            return self._given
        if messages not in self._made:
            self._made[messages] = self._make(messages)
        return self._made[messages]

    def _make(self, messages: int) -> str:
        place = os.path.join(self._kept or self.enter_context(scratch()), f"{messages}-{self._seed}")
        if not os.path.exists(place):
            begun = place + ".part"  # a run that was stopped leaves no half corpus behind
            corpus = generate.Corpus(begun, messages, count_sessions(messages), self._seed)
            generate.generate(corpus, os.cpu_count() or 1)
            os.rename(begun, place)
        return place

    def describe(self, messages: int) -> str:
        """What it is, for the figures."""
        return self._given or f"{messages:,} messages in {count_sessions(messages):,} sessions"


def count_sessions(messages: int) -> int:
    """How many sessions a corpus of so many messages has."""
    return max(1, messages // MESSAGES_A_SESSION)


def size_of(part: str, amount: Amount) -> int:
    """How many messages the corpus of a part has."""
    return amount.messages * TIMES_LARGER if part.endswith(figures.LARGE) else amount.messages


def measures(amount: Amount, programs: Mapping[str, str], *, quick: bool) -> dict[str, Measure]:
    """How each part is measured, given its corpus. Of the large corpus there is one round of what takes minutes."""
    usual: dict[str, Measure] = {
        "cold": lambda corpus: cold.measure(corpus, amount.rounds),
        "loading": lambda corpus: loading.measure(corpus),
        "append": lambda corpus: append.measure(corpus, amount.samples),
        "shapes": lambda corpus: shapes.measure(
            max(shapes.LENGTH, amount.messages // 10), max(1, amount.samples // 30)
        ),
        "stalls": lambda corpus: stalls.measure(corpus, amount.samples * 5),
        "keep": lambda corpus: keep.measure(corpus, amount.samples, amount.long_messages),
        "query": lambda corpus: query.measure(corpus, amount.questions),
        "pauses": lambda corpus: pauses.measure(
            corpus, amount.pause_s, amount.pauses, amount.asleep, amount.starts, whole_cache=not quick
        ),
        "throughput": lambda corpus: throughput.measure(corpus, amount.ask_s),
        "crowd": lambda corpus: crowd.measure(corpus, 30, 8, amount.ask_s * 2, "a*"),
        "client": lambda corpus: client.measure(corpus, amount.samples),
        "idle": lambda corpus: idle.measure(corpus, amount.settle_s, amount.idle_s),
        "hub": lambda corpus: hub.measure(corpus, amount.samples),
        "follow": lambda corpus: follow.measure(corpus, max(1, amount.samples // 5)),
        "rivals": lambda corpus: rivals.measure(corpus, amount.rounds, amount.samples // 3, programs),
    }
    once: dict[str, Measure] = {
        "cold": lambda corpus: cold.measure(corpus, 1),
        "idle": lambda corpus: idle.measure(corpus, amount.settle_s, amount.idle_s * SWEEPS),
        "rivals": lambda corpus: rivals.measure(corpus, 1, amount.samples // 3, programs),
    }
    return usual | {name + figures.LARGE: once.get(name, usual[name]) for name in figures.FULL}

"""What a search takes while a corpus is indexed for the first time.

    python -m bench.loading CORPUS [--pause_s 0.3]

Questions of two to four common words, one after the other with a pause, so that the load is not held up by them, from the first answer of
a daemon until everything is searchable; then the same ones again, of the finished index. How many are asked depends on how long the load
takes. Words are drawn from another index of the same corpus. `loaded in` is said beside what a load takes of which nobody asks anything.
While it loads nearly every question has a word that nobody asked for before, which has to be read: of the finished index that has a row
of its own, from a daemon that was asked nothing yet. `p95 of idle` is by the other row, when all was asked before.
"""

import contextlib
import os
import time
from random import Random

import apsw

from bench.instance import Instance, find_index, is_settled, scratch
from bench.query import kinds, pool
from bench.tables import Table, ms, percentile, run_alone

KIND = "2-4 common words"
LEAST = 10  # questions of the finished index
HEADER = ("", "n", "p50", "p90", "p95", "p99", "max", "p95 of idle")


def measure(corpus: str, pause_s: float = 0.3) -> list[Table]:
    """While it loads, and then."""
    index = os.path.join(find_index(corpus), "data", "index.sqlite")
    with contextlib.closing(apsw.Connection(index, flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        random = Random(7)
        make = kinds(pool(connection, random), random)[KIND]
    questions = list[str]()
    with scratch() as place, Instance(place, corpus) as daemon:
        during = list[float]()
        while not is_settled(daemon.call("status")):
            questions.append(" ".join(make()))
            during.append(_ask(daemon, questions[-1]))
            time.sleep(pause_s)
        loaded_s = daemon.age_s
        if not during:
            raise RuntimeError("everything was indexed before anything could be asked: take a larger corpus")
        daemon.until_folded()
        questions += [" ".join(make()) for _ in range(LEAST - len(questions))]
        for question in questions:
            _ask(daemon, question)
        idle = [_ask(daemon, question) for question in questions]
    with scratch() as place, Instance(place, corpus) as daemon:
        alone_s = daemon.until_settled()
        daemon.until_folded()
        first = [_ask(daemon, question) for question in questions]
    rows = [
        _row("**while it loads**", during, idle),
        _row("of the finished index, each for the first time", first, idle),
        _row("of the finished index", idle, idle),
    ]
    note = f"Loaded in {loaded_s:.1f} s; in {alone_s:.1f} s when nobody asks."
    return [Table("Search of common words meanwhile, ms", HEADER, rows, note)]


def _ask(daemon: Instance, question: str) -> float:
    begun = time.perf_counter()
    daemon.call("search", query=question)
    return (time.perf_counter() - begun) * 1000


def _row(name: str, times: list[float], idle: list[float]) -> tuple[str, ...]:
    shares = [ms(percentile(times, share)) for share in (50, 90, 95, 99, 100)]
    return (name, str(len(times)), *shares, f"{percentile(times, 95) / percentile(idle, 95):.1f}")


if __name__ == "__main__":
    run_alone(measure, __doc__, pause_s=0.3)

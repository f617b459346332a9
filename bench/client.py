"""What `sesamectl search` costs beyond the daemon's own time and a bare interpreter.

    python -m bench.client CORPUS [--samples 200]

`bare` is `python -c pass` of the same environment, from the start of the process to its end; `search` is the console script
with a query, over the socket of a running daemon, measured the same way and by turns with the bare one. `daemon` is the `tookMs`
of the same queries. `client` is search - bare - daemon, each by its median: the goal is 8 ms. The client's
compiled files are made first; the output goes to a pipe.
"""

import compileall
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from random import Random

import apsw

import sesamectl
from bench.instance import indexed
from bench.query import kinds, pool
from bench.tables import Table, median, ms, percentile, run_alone

HEADER = ("program", "n", "p50 ms", "p90", "p99", "p50 - bare", "daemon p50", "client p50")
GOAL_MS = 8
SCRIPT = os.path.join(os.path.dirname(sys.executable), "sesamectl")
VARIANTS = (("search", ()), ("search --json", ("--json",)))


def measure(corpus: str, samples: int) -> list[Table]:
    """Bare interpreter and search, by turns."""
    compileall.compile_dir(os.path.dirname(sesamectl.__file__), quiet=2)
    with indexed(corpus) as daemon:
        queries = _queries(daemon.database, samples)
        environ = {**os.environ, "SESAME_SOCKET": daemon.socket_path, "SESAME_NO_START": "1"}
        rows = _rows(queries, environ)
    return [
        Table(
            "Client, ms",
            HEADER,
            rows,
            f"Goal: client p50 at most {GOAL_MS} ms.",
        )
    ]


def _queries(database: str, samples: int) -> list[list[str]]:
    """Words as people type them; the first one is to warm things up."""
    random = Random(1)
    connection = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        make = kinds(pool(connection, random), random)["1 mid word"]
        return [make() for _ in range(samples + 1)]
    finally:
        connection.close()


def _rows(queries: list[list[str]], environ: Mapping[str, str]) -> list[tuple[str, ...]]:
    bare: list[float] = []
    times: dict[str, list[float]] = {name: [] for name, _ in VARIANTS}
    daemon: list[float] = []
    _timed((SCRIPT, "search", *queries[0]), environ)
    for words in queries[1:]:
        bare.append(_timed((sys.executable, "-c", "pass"), environ)[0])
        for name, flags in VARIANTS:
            took, output = _timed((SCRIPT, "search", *flags, *words), environ)
            times[name].append(took)
            if flags:
                daemon.append(json.loads(output)["tookMs"])
    rows = [_row("bare interpreter", bare, median(bare), 0.0)]
    return rows + [_row(name, samples, median(bare), median(daemon)) for name, samples in times.items()]


def _timed(command: Sequence[str], environ: Mapping[str, str]) -> tuple[float, bytes]:
    begun = time.perf_counter()
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True)
    return (time.perf_counter() - begun) * 1000, done.stdout


def _row(name: str, samples: list[float], bare: float, daemon: float) -> tuple[str, ...]:
    figures = [ms(percentile(samples, share)) for share in (50, 90, 99)]
    more = [ms(median(samples) - bare), ms(daemon), ms(median(samples) - bare - daemon)] if daemon else ["-", "-", "-"]
    return (name, str(len(samples)), *figures, *more)


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=200)

"""All benches with one command; prints markdown.

    python -m bench.run [--messages 100000] [--sessions 2000] [--corpus DIR] [--only cold,append,…] [--store]

Makes the corpus unless it is given one. Takes about ten minutes, four of them idle. What the figures mean is in docs/benchmarks.md, which
shows those that `--store` kept.
"""

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator

from bench import append, client, cold, figures, follow, generate, hub, idle, keep, query, shapes, stalls
from bench.figures import Measured
from bench.instance import scratch
from bench.tables import Table, machine, show

BENCHES = ("cold", "append", "shapes", "stalls", "keep", "query", "client", "idle", "hub", "follow")


def main() -> None:
    """The command."""
    flags = _parser().parse_args()
    wanted = flags.only.split(",")
    if unknown := set(wanted) - set(BENCHES):
        raise SystemExit(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    if flags.store and flags.corpus:
        raise SystemExit(
            "only figures of generated sessions are stored, which can be had again: leave out --corpus or --store"
        )
    with _corpus(flags) as corpus:
        benches: dict[str, Callable[[], list[Table]]] = {
            "cold": lambda: cold.measure(corpus, flags.rounds),
            "append": lambda: append.measure(corpus, flags.samples),
            "shapes": lambda: shapes.measure(max(shapes.LENGTH, flags.messages // 10), max(1, flags.samples // 30)),
            "stalls": lambda: stalls.measure(corpus, flags.samples * 5),
            "keep": lambda: keep.measure(corpus, flags.samples),
            "query": lambda: query.measure(corpus, max(1, flags.samples // 6)),
            "client": lambda: client.measure(corpus, flags.samples),
            "idle": lambda: idle.measure(corpus, flags.settle, flags.seconds),
            "hub": lambda: hub.measure(corpus, flags.samples),
            "follow": lambda: follow.measure(corpus, max(1, flags.samples // 5)),
        }
        scale = flags.corpus or f"{flags.messages:,} messages in {flags.sessions:,} sessions"
        measured = {name: _measure(benches[name], scale) for name in BENCHES if name in wanted}
    if flags.store:
        figures.store(measured)
        figures.write()
    if flags.json:
        show([table for bench in measured.values() for table in bench.tables], as_json=True)
    else:
        print("\n".join(bench.markdown() for bench in measured.values()))


def _measure(bench: Callable[[], list[Table]], scale: str) -> Measured:
    """One bench, and how busy the machine was."""
    before = os.getloadavg()[0]
    tables = bench()
    load = f"load {before:.1f} at the start, {os.getloadavg()[0]:.1f} at the end"
    return Measured(f"{machine()}; {scale}; {load}", tables)


@contextlib.contextmanager
def _corpus(flags: argparse.Namespace) -> Iterator[str]:
    if flags.corpus:
        yield flags.corpus
        return
    with scratch() as place:
        generate.generate(generate.Corpus(place, flags.messages, flags.sessions, flags.seed), os.cpu_count() or 1)
        yield place


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", help="measure with these sessions, and make none")
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of floor and daemon")
    parser.add_argument(
        "--samples", type=int, default=300, help="of appends and of client calls; a sixth of it of each kind of query"
    )
    parser.add_argument("--settle", type=float, default=60.0, help="seconds between indexing and being idle")
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of being idle")
    parser.add_argument("--only", default=",".join(BENCHES), help="some of the benches, with commas")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    return parser


if __name__ == "__main__":
    main()

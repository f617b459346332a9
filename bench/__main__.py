"""All benches with one command; prints markdown, each bench as soon as it is measured.

    python -m bench                      # on 100,000 messages: half an hour
    python -m bench --quick              # whether all of it works, in half a minute; the figures say little
    python -m bench --full --store       # what documents show: on 1,000,000 messages as well; two hours
    python -m bench --full --only query_large,pauses_large --keep DIR

What the figures mean, and how long each part takes, is in docs/benchmarks.md, which shows those that `--store` kept. A bench that fails
says so on stderr, the others go on, and the exit code is 1.
"""

import argparse
import json
import signal
import sys
import time
import traceback
from types import FrameType

from bench import figures, parts, rivals
from bench.conditions import Conditions, raise_group
from bench.figures import Measured


def main() -> int:
    """The command."""
    flags = _parser().parse_args()
    amount, names = _choose(flags)
    group = raise_group() if flags.may_raise else "scheduling group not raised (--no-raise)"
    for number in (signal.SIGTERM, signal.SIGHUP):  # so that daemons are stopped, and directories removed
        signal.signal(number, _end)
    print(f"{group}.\n", flush=True)
    measures = parts.measures(amount, dict(flags.rival), quick=flags.quick)
    measured, failed = dict[str, Measured](), list[str]()
    with parts.Corpora(flags.corpus, flags.keep) as corpora:
        for name in names:
            size = parts.size_of(name, amount)
            try:
                measured[name] = _measure(measures[name], corpora, size, group)
            except Exception:
                print(f"{name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                failed.append(name)
                continue
            print(measured[name].markdown(), flush=True)
            _keep(flags, name, measured)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    sys.exit(128 + number)


def _measure(measure: parts.Measure, corpora: parts.Corpora, size: int, group: str) -> Measured:
    """One bench, and what it was measured under."""
    corpus = corpora.find(size)
    conditions, begun = Conditions(group), time.perf_counter()
    tables = measure(corpus)
    took = f"took {time.perf_counter() - begun:.0f} s"
    return Measured(f"{conditions.describe(corpora.describe(size))}, {took}", tables)


def _keep(flags: argparse.Namespace, name: str, measured: dict[str, Measured]) -> None:
    """After each bench: a run of hours may be stopped."""
    if flags.json:
        with open(flags.json, "w", encoding="utf-8") as file:
            json.dump(figures.as_json(measured), file, indent=1, ensure_ascii=False)
    if flags.store:
        figures.store({name: measured[name]})
        figures.write()


def _choose(flags: argparse.Namespace) -> tuple[parts.Amount, list[str]]:
    """How much of what is measured."""
    if flags.store and (flags.corpus or flags.quick):
        raise SystemExit(
            "only figures of generated sessions, enough of them, are stored, which can be had again:"
            " leave out --store, or --corpus and --quick"
        )
    if flags.quick:
        amount, names = parts.QUICK, parts.QUICK_PARTS
    elif flags.full:
        amount, names = parts.FULL, parts.FULL_PARTS
    else:
        amount, names = parts.USUAL, parts.USUAL_PARTS
    wanted = set(flags.only.split(",")) if flags.only else set(names)
    if unknown := wanted - set(names):
        raise SystemExit(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    given = {"messages": flags.messages, "rounds": flags.rounds, "samples": flags.samples, "pause_s": flags.pause}
    changed = amount._replace(**{name: value for name, value in given.items() if value is not None})
    return changed, [name for name in names if name in wanted]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.split("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a little of everything")
    size.add_argument("--full", action="store_true", help="everything, and on ten times as many messages")
    parser.add_argument(
        "--no-raise", dest="may_raise", action="store_false",
        help="leave the scheduling group as it is, where others are at work that must not stand still",
    )  # fmt: skip
    parser.add_argument("--only", metavar="PARTS", help="some of the benches, with commas")
    parser.add_argument("--corpus", metavar="DIR", help="measure with these sessions, and make none")
    parser.add_argument("--keep", metavar="DIR", help="make sessions here, and take those that an earlier run made")
    parser.add_argument(
        "--messages", type=int, help="of the usual corpus; the large one of --full has ten times as many"
    )
    parser.add_argument("--rounds", type=int, help="of floor, daemon and rivals")
    parser.add_argument("--samples", type=int, help="of appends and of programs run")
    parser.add_argument(
        "--pause", type=float, metavar="SECONDS", help="without a question, before the first one after it"
    )
    parser.add_argument(
        "--rival", type=rivals.parse_program, action="append", default=[], metavar="NAME=PROGRAM",
        help=f"one that is not on the PATH: {', '.join(rivals.NAMES)}",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="the same as JSON")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    return parser


if __name__ == "__main__":
    sys.exit(main())

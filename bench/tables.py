"""Figures as people read them: percentiles and markdown tables."""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import apsw


class Table(NamedTuple):
    """One measurement's figures, and what to keep in mind with them."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""

    def markdown(self) -> str:
        """The table as markdown."""
        lines = [f"### {self.title}", "", _line(self.header), _line(["---"] * len(self.header)), *map(_line, self.rows)]
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that is not below `share` percent of them."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share / 100))]


def median(samples: Sequence[float]) -> float:
    """The one in the middle."""
    return percentile(samples, 50)


def ms(value: float) -> str:
    """Milliseconds, to three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def machine() -> str:
    """What the figures were measured with, without saying whose it is."""
    model = _cpu_model()
    versions = f"Python {platform.python_version()}, SQLite {apsw.sqlite_lib_version()} (apsw {apsw.apsw_version()})"
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{datetime.now(UTC):%Y-%m-%d}; {model}; {system}; {versions}"


def run_alone(measure: Callable[..., list[Table]], about: str, **defaults: float) -> None:
    """The command of one bench: a corpus, its numbers as flags, and --json."""
    parser = argparse.ArgumentParser(description=about.split("\n")[0])
    parser.add_argument("corpus", help="a directory of sessions; bench.generate makes one")
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help="%(default)s unless given")
    parser.add_argument("--json", action="store_true")
    flags = vars(parser.parse_args())
    as_json = flags.pop("json")
    show(measure(flags.pop("corpus"), **flags), as_json=as_json)


def show(tables: list[Table], *, as_json: bool) -> None:
    """Print tables."""
    if as_json:
        json.dump([table._asdict() for table in tables], sys.stdout, indent=1)
        print()
    else:
        print("\n".join(table.markdown() for table in tables))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cpu_model() -> str:
    import os

    cores = os.cpu_count()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return f"{cores} cores of {names[0] if names else platform.processor() or platform.machine()}"

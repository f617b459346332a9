"""The figures of the last stored runs, and the documents that show them.

    python -m bench.run --store      # measure, keep the figures of each bench in bench/figures.json, and do what follows
    python -m bench.figures          # write them into the documents

A document has them between `<!-- figures: NAME -->` and `<!-- end of figures -->`. NAME is a bench of that file, `summary` (those that the
README shows) or `goals` (those that have one). A test does the same and compares, so no figure is in a document that was not measured.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.tables import Table

PROJECT = Path(__file__).parents[1]
STORED = PROJECT / "bench/figures.json"
DOCUMENTS = (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)

# What the README shows: what it is, and where that is: bench, table, row, the columns of the median and of the 99th percentile.
SUMMARY = (
    ("an appended line is found by a search", "append", "Append to found, ms", "**random sessions**", ("p50", "p99")),
    ("a search, over the socket", "query", "Search, ms", "all", ("socket p50", "p99")),
    ("`sesamectl search`, with the start of its interpreter", "client", "Client, ms", "search", ("p50 ms", "p99")),
)

# What is aimed at: what it is, the goal, and which figures say how far it is reached: bench, table, row, columns with their units.
GOALS = (
    ("cold index, 100,000 messages in 2,000 sessions", "≥ 0.5 of the floor's rate, peak memory < 200 MB",
     "cold", "Cold index", "daemon", (("ratio", ""), ("peak MB", " MB"))),
    ("append to found", "p50 < 5 ms, p99 < 50 ms",
     "append", "Append to found, ms", "**random sessions**", (("p50", " ms"), ("p99", " ms"))),
    ("search over the socket", "p50 < 10 ms", "query", "Search, ms", "all", (("socket p50", " ms"),)),
    ("`sesamectl search`, beyond the bare interpreter and the daemon's time", "p50 ≤ 12 ms",
     "client", "Client, ms", "search", (("client p50", " ms"),)),
    ("idle, a minute after indexing", "< 0.2 % of a core, < 80 MB resident",
     "idle", "Idle", "after a cold index", (("CPU, % of a core", " %"), ("resident MB", " MB"))),
    ("second start over 2,000 unchanged files", "ready in < 500 ms, no file opened",
     "cold", "Second start, ms", "exec until everything is searchable", (("median", " ms"),)),
)  # fmt: skip


class Measured(NamedTuple):
    """The tables of one bench, and under which conditions they came about."""

    conditions: str
    tables: list[Table]

    def markdown(self) -> str:
        """Both, as a document shows them."""
        return "\n".join([f"Measured {self.conditions}.\n", *(table.markdown() for table in self.tables)])


def load() -> dict[str, Measured]:
    """All that is stored, by bench."""
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    return {
        name: Measured(bench["conditions"], [Table(**table) for table in bench["tables"]])
        for name, bench in stored.items()
    }


def store(measured: dict[str, Measured]) -> None:
    """Keep these, in the place of what was stored of the same benches."""
    everything = {**(load() if STORED.exists() else {}), **measured}
    stored = {
        name: {"conditions": bench.conditions, "tables": [table._asdict() for table in bench.tables]}
        for name, bench in sorted(everything.items())
    }
    STORED.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def render(document: str, stored: dict[str, Measured]) -> str:
    """The document with these figures."""

    def fill(block: re.Match[str]) -> str:
        begin, name, end = block.groups()
        chosen = {"summary": _summary, "goals": _goals}
        return f"{begin}\n{chosen[name](stored) if name in chosen else stored[name].markdown()}\n{end}"

    return BLOCK.sub(fill, document)


def _summary(stored: dict[str, Measured]) -> str:
    scale = stored["query"].conditions.split("; ")[-2]
    lines = [f"| {scale} | median | 99 % within |", "|---|---|---|"]
    for what, bench, title, row, columns in SUMMARY:
        table = _find(stored, bench, title)
        lines.append(f"| {what} | {' | '.join(f'{_cell(table, row, column)} ms' for column in columns)} |")
    return "\n".join([*lines, "", *_sentences(stored)]) + "\n"


def _goals(stored: dict[str, Measured]) -> str:
    lines = ["| | goal | measured |", "|---|---|---|"]
    for what, goal, bench, title, row, columns in GOALS:
        table = _find(stored, bench, title)
        lines.append(f"| {what} | {goal} | {', '.join(_cell(table, row, column) + unit for column, unit in columns)} |")
    return "\n".join(lines) + "\n"


def _sentences(stored: dict[str, Measured]) -> Iterator[str]:
    cold, idle = _find(stored, "cold", "Cold index"), _find(stored, "idle", "Idle")
    seconds = _cell(cold, "daemon", "indexed s")
    share, resident = (_cell(idle, "after a second start", column) for column in ("CPU, % of a core", "resident MB"))
    corpus, *_, size = cold.note.rstrip(".").split("; ")
    yield f"{corpus.partition(', ')[2]}: indexed in {seconds} s, {size}. Idle: {share} % of a core, {resident} MB."
    date, machine, *_ = stored["query"].conditions.split("; ")
    yield f"Measured {date} on {machine}: [benchmarks](docs/benchmarks.md)."


def _find(stored: dict[str, Measured], bench: str, title: str) -> Table:
    return next(table for table in stored[bench].tables if table.title == title)


def _cell(table: Table, row: str, column: str) -> str:
    """A figure; of several rows of that name (rounds) the one in the middle."""
    found = [cells[table.header.index(column)].strip("*") for cells in table.rows if cells[0] == row]
    return sorted(found, key=float)[len(found) // 2]


def write() -> None:
    """Write what is stored into the documents."""
    stored = load()
    for path in DOCUMENTS:
        before = path.read_text(encoding="utf-8")
        if (after := render(before, stored)) != before:
            path.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    write()

"""The figures of the last stored runs, and the documents that show them.

    python -m bench --full --store   # measure, keep the figures of each bench in bench/figures.json, and do what follows
    python -m bench.figures          # write them into the documents

A document has them between `<!-- figures: NAME -->` and `<!-- end of figures -->`. NAME is a bench of that file, `summary` (those that
the README shows), `goals` (those that have one) or `full` (what a full run measures beyond the usual one). A test does the same and
compares, so no figure is in a document that was not measured.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.tables import Table

PROJECT = Path(__file__).parents[1]
STORED = PROJECT / "bench/figures.json"
LARGE = "_large"  # of a corpus ten times as large
# What a full run measures beyond what has a place of its own in a document, in the order in which it is shown.
FULL = (
    "cold",
    "loading",
    "append",
    "stalls",
    "keep",
    "query",
    "pauses",
    "throughput",
    "crowd",
    "client",
    "idle",
    "rivals",
)
DOCUMENTS = (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")))
NOT_STORED = "not stored yet"
BLOCK = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)

# What the README shows: what it is, and where that is: bench, table, row, the columns of the median and of the 99th percentile.
SUMMARY = (
    ("an appended line is found by a search", "append", "Append to found, ms", "**random sessions**", ("p50", "p99")),
    ("a search, over the socket", "query", "Search, ms", "all", ("socket p50", "p99")),
    ("`sesamectl search`, with the start of its interpreter", "client", "Client, ms", "search", ("p50 ms", "p99")),
)

# What is aimed at: what it is, the goal, and which figures say how far it is reached: bench, table, row, columns with their units.
COLD = ("Cold index", "daemon", (("ratio", ""), ("peak MB", " MB")))
SEARCH = ("Search, ms", "all", (("socket p50", " ms"), ("p99", " ms")))
APPEND = ("Append to found, ms", "**random sessions**", (("p50", " ms"), ("p99", " ms")))
KEPT = ("append_message to its answer, ms", "the daemon's `freshness`", (("p50", " ms"),))
LOAD = ("Questions without a pause, ms", "10 clients", (("of one client's", "x"), ("p99 of the first row's", "x")))
GOOD = ("Questions without a pause, ms", "**a good client, beside 10**", (("p99 of the first row's", "x"),))
IDLE = ("Idle", "after a cold index", (("CPU, % of a core", " %"), ("resident MB", " MB")))
GOALS = (
    ("cold index", "≥ 0.75 of the floor's rate, peak memory < 200 MB", "cold", *COLD),
    ("the same, a million", "≥ 0.75, < 200 MB", "cold_large", *COLD),
    ("search over the socket, warm", "p50 ≤ 4 ms, p99 ≤ 15 ms", "query", *SEARCH),
    ("the same, a million", "p50 ≤ 6 ms, p99 ≤ 25 ms", "query_large", *SEARCH),
    ("the first question after ten quiet minutes, a million", "≤ 150 ms",
     "pauses_large", "The first question, ms", "**after a pause**", (("p50", " ms"), ("max", " ms"))),
    ("ten clients beside one, a million", "≥ 1.7x of its answers, p99 ≤ 4x", "throughput_large", *LOAD),
    ("a good client beside these", "p99 ≤ 3x of when it is alone", "throughput_large", *GOOD),
    ("append to found", "p50 ≤ 2 ms, p99 ≤ 10 ms", "append", *APPEND),
    ("the same, a million", "p50 ≤ 2 ms, p99 ≤ 10 ms", "append_large", *APPEND),
    ("an append while a million is indexed", "p50 ≤ 60 ms, p99 ≤ 250 ms",
     "append_large", "Append to found, ms", "during the cold index", (("p50", " ms"), ("p99", " ms"))),
    ("a search of common words meanwhile", "p95 ≤ 3x of when it is idle",
     "loading_large", "Search of common words meanwhile, ms", "**while it loads**", (("p95 of idle", "x"),)),
    ("an append right after that", "p99 ≤ 50 ms", "append_large", "Append to found, ms", "in the 2 s after it", (("p99", " ms"),)),
    ("what indexing adds to `append_message`", "p50 ≤ 1 ms", "keep", *KEPT),
    ("the same, a million", "p50 ≤ 1 ms", "keep_large", *KEPT),
    ("`sesamectl search`, beyond the bare interpreter and the daemon's time", "p50 ≤ 8 ms",
     "client", "Client, ms", "search", (("client p50", " ms"),)),
    ("idle, a minute after indexing", "< 0.2 % of a core, ≤ 64 MB resident", "idle", *IDLE),
    ("the same, a million", "< 0.2 % of a core, ≤ 90 MB resident", "idle_large", *IDLE),
    ("second start over unchanged files", "ready in < 500 ms, no file opened",
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
    STORED.write_text(json.dumps(as_json(everything), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def is_of_full(name: str) -> bool:
    """Whether it is shown with what a full run measures beyond the usual one."""
    return name.endswith(LARGE) or name in ("loading", "throughput", "rivals")


def as_json(measured: dict[str, Measured]) -> dict[str, Any]:
    """As it is stored."""
    return {
        name: {"conditions": bench.conditions, "tables": [table._asdict() for table in bench.tables]}
        for name, bench in sorted(measured.items())
    }


def render(document: str, stored: dict[str, Measured]) -> str:
    """The document with these figures."""

    def fill(block: re.Match[str]) -> str:
        begin, name, end = block.groups()
        chosen = {"summary": _summary, "goals": _goals, "full": _full}
        shown = chosen[name](stored) if name in chosen else stored[name].markdown()
        return f"{begin}\n{shown}\n{end}"

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
        measured = NOT_STORED
        if bench in stored:
            table = _find(stored, bench, title)
            measured = ", ".join(_cell(table, row, column) + unit for column, unit in columns)
        lines.append(f"| {what} | {goal} | {measured} |")
    return "\n".join(lines) + "\n"


def _full(stored: dict[str, Measured]) -> str:
    """What a full run measures beyond the usual one."""
    named = {name: bench for name, bench in stored.items() if is_of_full(name)}
    ordered = sorted(named, key=lambda name: (name.endswith(LARGE), FULL.index(name.removesuffix(LARGE))))
    return "\n".join(named[name].markdown() for name in ordered) or f"{NOT_STORED.capitalize()}.\n"


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

"""How the code is built: sizes, imports, names, and the ways through it of an appended line and of a question.

    python -m bench.house [--tree DIR] [--only sizes,imports,names,paths] [--legs]

`--tree` measures another checkout, of any commit, with this environment's packages. Sizes and imports are read from the source
(methods and inner functions count, `self` is no argument, imports for types and within functions do). The paths are those of a
daemon that runs: `bench/call_paths.py` says from where to where, `--legs` shows every step. Takes about 20 seconds.
"""

import argparse
import os

from bench.call_paths import Path, trace_paths
from bench.code_figures import measure_imports, measure_sizes, named_by_participle, read_package
from bench.instance import PROJECT
from bench.tables import Table, show

PACKAGES = ("sesamed", "sesamectl", "tests", "bench")
OURS = ("sesamed", "sesamectl")  # the others are not installed
PARTS = ("sizes", "imports", "names", "paths")


def measure(tree: str, wanted: list[str], *, legs: bool = False) -> list[Table]:
    """Some of the figures of a tree."""
    packages = {package: read_package(tree, package) for package in PACKAGES}
    tables = []
    if "sizes" in wanted:
        tables.append(_table("Sizes", {package: measure_sizes(sources) for package, sources in packages.items()}))
    if "imports" in wanted:
        tables.append(_table("Imports", {package: measure_imports(sources) for package, sources in packages.items()}))
    if "names" in wanted:
        sources = [source for package in OURS for source in packages[package]]
        names = named_by_participle(sources)
        functions = sum(len(source.functions) for source in sources)
        rows = [(str(len(names)), str(functions), f"{len(names) / functions:.0%}")]
        note = " ".join(f"`{name}`" for name in sorted(set(names), key=lambda name: name.strip("_")))
        tables.append(Table("Functions named by a participle", ("participles", "functions", "share"), rows, note))
    if "paths" in wanted:
        tables += _path_tables(trace_paths(tree), legs)
    return tables


def _table(title: str, figures: dict[str, dict[str, str]]) -> Table:
    header = ("", *next(iter(figures.values())))
    return Table(title, header, [(package, *row.values()) for package, row in figures.items()])


def _path_tables(paths: dict[str, Path], legs: bool) -> list[Table]:
    header = ("", "modules", "switches", "functions", "calls", "switches of thread")
    rows = [
        (name, *map(str, (len(path.modules), path.switches, path.functions, len(path.calls), path.thread_switches)))
        for name, path in paths.items()
    ]
    note = "\n\n".join(f"{name}: {' '.join(f'`{module}`' for module in path.modules)}" for name, path in paths.items())
    tables = [Table("Paths through sesamed", header, rows, note)]
    if legs:
        tables += [
            Table(name.capitalize(), ("module", "functions"), [(leg, ", ".join(called)) for leg, called in path.legs()])
            for name, path in paths.items()
        ]
    return tables


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tree", default=PROJECT, help="the checkout to measure; this one unless given")
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}, with commas")
    parser.add_argument("--legs", action="store_true", help="each module in turn, with what is called in it")
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    wanted = flags.only.split(",")
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    show(measure(os.path.realpath(flags.tree), wanted, legs=flags.legs), as_json=flags.json)


if __name__ == "__main__":
    main()

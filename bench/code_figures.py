"""Figures of source code: sizes of files and functions, who imports whom, and functions that are named by a participle."""

import ast
import io
import os
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

SHORT_FILE = 40  # lines: below it a file with a single importer should be part of that one
LONG_FUNCTION = 45
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With, ast.AsyncWith, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.Lambda)
DOCUMENTED = (*FUNCTIONS, ast.ClassDef, ast.Module)
IRREGULAR = frozenset(
    """begun bound bought brought built caught chosen dealt done drawn driven fallen felt forgotten found frozen given gone got grown
    heard held hidden hung kept known laid led left lost made meant met paid said seen sent shown sold spent spoken stolen stood
    stuck taken thought thrown told torn understood won worn wound written""".split()
)
VERBS_IN_ED = frozenset(["embed", "exceed", "feed", "heed", "need", "proceed", "seed", "shed", "speed"])
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """One Python file."""

    def __init__(self, path: str, module: str, is_package: bool) -> None:
        self.module = module
        self.is_package = is_package
        with open(path, encoding="utf-8") as file:
            self._text = file.read()
        self._tree = ast.parse(self._text)

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return len(self._text.splitlines())

    @property
    def comment_lines(self) -> int:
        """How many lines have a comment."""
        tokens = tokenize.generate_tokens(io.StringIO(self._text).readline)
        return sum(token.type == tokenize.COMMENT for token in tokens)

    @property
    def docstring_lines(self) -> int:
        """How many lines are docstrings."""
        documented = (node for node in ast.walk(self._tree) if isinstance(node, DOCUMENTED) and ast.get_docstring(node))
        return sum(_height(node.body[0]) for node in documented)

    @cached_property
    def functions(self) -> list[Function]:
        """All functions in it, methods and inner ones too."""
        return [node for node in ast.walk(self._tree) if isinstance(node, FUNCTIONS)]

    def imports(self) -> Iterator[str]:
        """What it imports, anywhere in it, as dotted names; `from a import b` may be a module `a.b`, or a name in `a`."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{self._origin(node)}.{alias.name}" for alias in node.names)

    def _origin(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        up = node.level - self.is_package
        parts = self.module.split(".")
        return ".".join([*parts[: len(parts) - up], *([node.module] if node.module else [])])


def read_package(tree: str, package: str) -> list[Source]:
    """All Python files of a package."""
    found = []
    for here, _, names in os.walk(os.path.join(tree, package)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(here, name)
                module = os.path.relpath(path, tree).removesuffix(".py").replace(os.sep, ".")
                found.append(Source(path, module.removesuffix(".__init__"), name == "__init__.py"))
    return sorted(found, key=lambda source: source.module)


def measure_sizes(sources: Sequence[Source]) -> dict[str, str]:
    """Sizes of files and functions, and how much is said about them."""
    files = [source.lines for source in sources]
    functions = list(chain.from_iterable(source.functions for source in sources))
    heights = [_height(function) for function in functions]
    arguments = [_count_arguments(function) for function in functions]
    depths = [_depth(function) for function in functions]
    documented = sum(ast.get_docstring(function) is not None for function in functions)
    return {
        "files": str(len(files)),
        "lines": f"{sum(files):,}",
        "file med / max": f"{share_of(files, 50)} / {max(files)}",
        f"files < {SHORT_FILE}": str(sum(lines < SHORT_FILE for lines in files)),
        "functions": str(len(functions)),
        "lines med / p90 / max": f"{share_of(heights, 50)} / {share_of(heights, 90)} / {max(heights)}",
        f"> {LONG_FUNCTION} lines": str(sum(height > LONG_FUNCTION for height in heights)),
        "args p90 / max, > 5": f"{share_of(arguments, 90)} / {max(arguments)}, {sum(one > 5 for one in arguments)}",
        "nesting p90 / max, > 3": f"{share_of(depths, 90)} / {max(depths)}, {sum(depth > 3 for depth in depths)}",
        "with docstring": f"{documented / len(functions):.0%}",
        "docstring lines": f"{sum(source.docstring_lines for source in sources) / sum(files):.0%}",
        "comments / line": f"{sum(source.comment_lines for source in sources) / sum(files):.1%}",
    }


def measure_imports(sources: Sequence[Source]) -> dict[str, str]:
    """The graph of imports within a package."""
    graph = import_graph(sources)
    importers = {module: [other for other, targets in graph.items() if module in targets] for module in graph}
    lines = {source.module: source.lines for source in sources}
    fan_out = max(graph, key=lambda module: len(graph[module]))
    fan_in = max(graph, key=lambda module: len(importers[module]))
    single = [module for module in graph if len(importers[module]) == 1]
    small = [module for module in single if lines[module] < SHORT_FILE]
    return {
        "modules": str(len(graph)),
        "edges / module": f"{sum(map(len, graph.values())) / len(graph):.1f}",
        "max fan-out": f"`{fan_out}` {len(graph[fan_out])}",
        "max fan-in": f"`{fan_in}` {len(importers[fan_in])}",
        "cycles": "; ".join(" ".join(sorted(cycle)) for cycle in find_cycles(graph)) or "none",
        "one importer only": str(len(single)),
        f"of those < {SHORT_FILE} lines": " ".join(f"`{module}`" for module in small) or "none",
    }


def import_graph(sources: Sequence[Source]) -> dict[str, set[str]]:
    """The modules that each module imports, of the same package; imports within functions and for types count."""
    modules = {source.module for source in sources}
    graph: dict[str, set[str]] = {}
    for source in sources:
        targets = {_module_of(name, modules) for name in source.imports()} - {source.module, None}
        graph[source.module] = {target for target in targets if target is not None}
    return graph


def _module_of(name: str, modules: set[str]) -> str | None:
    if name in modules:
        return name
    parent = name.rpartition(".")[0]
    return parent if parent in modules else None


def find_cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Groups of modules that reach each other."""
    reached = {module: _reach(graph, module) for module in graph}
    cycles: list[set[str]] = []
    for module in graph:
        if module in reached[module] and not any(module in cycle for cycle in cycles):
            cycles.append({other for other in reached[module] if module in reached[other]})
    return cycles


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting.extend(graph[module])
    return seen


def named_by_participle(sources: Iterable[Source]) -> list[str]:
    """The functions whose name begins with a participle instead of a verb or a noun."""
    functions = (function.name for source in sources for function in source.functions)
    return [name for name in functions if _is_participle(name.strip("_").split("_")[0])]


def _is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and word not in VERBS_IN_ED)


def share_of(values: Sequence[int], share: int) -> int:
    """The smallest value that is not below `share` percent of them."""
    return sorted(values)[min(len(values) - 1, len(values) * share // 100)]


def _height(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _count_arguments(function: Function) -> int:
    taken = function.args
    return sum(argument.arg not in ("self", "cls") for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs))


def _depth(node: ast.AST, depth: int = 0) -> int:
    """How many blocks stand within each other, without functions in it."""
    children = (child for child in ast.iter_child_nodes(node) if not isinstance(child, SCOPES))
    return max((_depth(child, depth + isinstance(child, BLOCKS)) for child in children), default=depth)

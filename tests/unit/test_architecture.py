"""docs/architecture.md is true: it has a line for every module and none for another one, and its rings are the import contracts.

Its tables begin with "| module of `sesamed/store` | what it does |"; a name there is a module below that directory, or a package
whose `__init__` contains code.
"""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
WHOLE = "sesamectl/commands"  # a line for the package is enough: what each does is in its help


def has_code(path: Path) -> bool:
    """Whether a module is more than a docstring and imports."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return not all(isinstance(node, ast.Expr | ast.Import | ast.ImportFrom) for node in body)


def modules() -> set[str]:
    """Modules as paths without a suffix; a package is one where its __init__ contains code."""
    paths = (path for package in ("sesamed", "sesamectl") for path in (ROOT / package).rglob("*.py"))
    named = (path for path in paths if path.name != "__init__.py" or (has_code(path) and path.parent.parent != ROOT))
    names = {path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__") for path in named}
    return {WHOLE if name.startswith(WHOLE) else name for name in names}


def tables(header: str) -> dict[str, list[tuple[str, str]]]:
    """The tables whose header begins so: the rows' first and second columns, by what the header names."""
    found = re.findall(rf"^\| {header} `([\w/]+)` \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return {name: re.findall(r"^\| (.*?) \| ?(.*?) \|$", rows, re.MULTILINE) for name, rows in found}


def documented() -> dict[str, str]:
    """What the page says about each module."""
    return {
        f"{directory}/{name}": about
        for directory, rows in tables("module of").items()
        for names, about in rows
        for name in re.findall(r"`([\w/]+)`", names)
    }


def test_every_module_has_a_line() -> None:
    """In a row of its own or with its next of kin; what is gone from the code is gone from the page."""
    assert sorted(modules() - documented().keys()) == []
    assert sorted(documented().keys() - modules()) == []
    assert [name for name, about in documented().items() if len(about) < 10] == []


@pytest.mark.parametrize("package", ["sesamed", "sesamectl"])
def test_rings_are_the_contracts(package: str) -> None:
    """The layers in pyproject.toml, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(
        contract["layers"]
        for contract in contracts
        if contract["type"] == "layers" and contract["layers"][0].startswith(f"{package}.")
    )
    rings = [names for names, _ in tables("ring of")[package]]
    assert [set(re.findall(r"`(\w+)`", names)) for names in rings] == [
        {module.removeprefix(f"{package}.") for module in layer.split(" | ")} for layer in layers
    ]


def test_named_files_exist() -> None:
    """A file that a document or a comment names, in full or below a package, is there."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "sesamed").rglob("*.py")]
    pages += [*(ROOT / "sesamectl").rglob("*.py")]
    named = {(page.name, name) for page in pages for name in re.findall(r"\b[\w/]+/\w+\.py\b", page.read_text("utf-8"))}
    places = [ROOT, ROOT / "sesamed", ROOT / "sesamectl", ROOT / "sesamed/store"]
    assert sorted((page, name) for page, name in named if not any((place / name).exists() for place in places)) == []


def test_no_merge_was_left_half_done() -> None:
    """A linter sees that in code, nobody in documents."""
    pages = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*"),
        *(ROOT / "bench").rglob("*"),
        *(ROOT / "pi").rglob("*.md"),
    ]
    marks = re.compile(rb"^(?:<{7} |>{7} |={7}$)", re.MULTILINE)
    assert [str(page) for page in pages if page.is_file() and marks.search(page.read_bytes())] == []

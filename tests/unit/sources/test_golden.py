"""What real bytes become, case by case.

`UPDATE_GOLDEN=1 pytest tests/unit/sources/test_golden.py` writes what is expected anew: read the difference before you
keep it.
"""

import json
import os
from pathlib import Path, PurePath
from typing import Any

import msgspec
import pytest

from sesamed.model import Operation
from sesamed.source import BadLineError, Document, ForeignFileError, Member, Row, Rows, Shape, ShapeFinder
from sesamed.sources import SOURCES

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(
    file
    for pattern in ("*.json*", "*.md")
    for file in GOLDEN.glob(f"*/**/{pattern}")
    if not file.name.endswith(".expected.json")
)


@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("file", CASES, ids=lambda file: str(file.relative_to(GOLDEN)))
def test_a_file_gives_the_operations_that_stand_beside_it(file: Path) -> None:
    """The same bytes give the same operations, in every release that has this version of the source."""
    expected = file.with_suffix(".expected.json")
    given = operations_of(file)
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text("[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in given) + "\n]\n")
    assert given == json.loads(expected.read_text())


def operations_of(file: Path) -> list[dict[str, Any]]:
    """Each operation as an object, with the number of its line (0: before the first one) and no defaults."""
    agent, *path = file.relative_to(GOLDEN).parts
    source = SOURCES[agent]
    shape = ShapeFinder(source.shapes).find("/".join(path).encode()) or source.shapes[0]
    unit, items = read_items(file, PurePath(*path), shape)
    state, begun = source.begin(*unit)
    given = [described(0, operation) for operation in begun]
    for number, item in enumerate(items, 1):
        try:
            state, operations = source.step(state, item)
        except (BadLineError, ForeignFileError) as error:
            given.append({"line": number, "raises": type(error).__name__})
        else:
            given += [described(number, operation) for operation in operations]
    end = getattr(source, "end", None)
    return given if end is None else [*given, *(described(len(items) + 1, operation) for operation in end(state))]


def read_items(file: Path, path: PurePath, shape: Shape) -> tuple[tuple[PurePath, str], list[Any]]:
    """The unit that a file is, and its items. Files and rows of a unit stand in one file, with the place of each before it."""
    whole = file.read_bytes()
    if isinstance(shape, Rows):
        case = json.loads(whole)
        return (PurePath(case["unit"]), case["part"]), [make_item(*given) for given in case["items"]]
    return (path, ""), [whole] if isinstance(shape, Document) else whole.split(b"\n")[:-1]


def make_item(place: int | str, given: Any) -> Member | Row:
    """A file by its path, as text or as JSON, or a row by the number of its statement; JSON is a text in that."""
    if isinstance(place, str):
        return Member(PurePath(place), given.encode() if isinstance(given, str) else json.dumps(given).encode())
    return Row(place, tuple(json.dumps(value) if isinstance(value, dict) else value for value in given))


def described(number: int, operation: Operation) -> dict[str, Any]:
    """An operation as JSON."""
    fields = {field.name: getattr(operation, field.name) for field in msgspec.structs.fields(operation)}
    defaults = {field.name: field.default for field in msgspec.structs.fields(operation)}
    told = {name: value for name, value in fields.items() if value != defaults[name]}
    if "paths" in told:
        told["paths"] = list(told["paths"])
    if "arguments" in told:
        told["arguments"] = told["arguments"].decode()
    return {"line": number, "operation": type(operation).__name__, **told}

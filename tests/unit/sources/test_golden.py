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
from sesamed.source import BadLineError, ForeignFileError
from sesamed.sources import SOURCES

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = sorted(GOLDEN.glob("*/*.jsonl"))


@pytest.mark.parametrize("file", CASES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_file_gives_the_operations_that_stand_beside_it(file: Path) -> None:
    """The same bytes give the same operations, in every release that has this version of the source."""
    expected = file.with_suffix(".expected.json")
    given = operations_of(file)
    if os.environ.get("UPDATE_GOLDEN"):
        expected.write_text("[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in given) + "\n]\n")
    assert given == json.loads(expected.read_text())


def operations_of(file: Path) -> list[dict[str, Any]]:
    """Each operation as an object, with the number of its line (0: before the first one) and no defaults."""
    source = SOURCES[file.parent.name]
    state, begun = source.begin(PurePath(file.name))
    given = [described(0, operation) for operation in begun]
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            state, operations = source.step(state, line)
        except (BadLineError, ForeignFileError) as error:
            given.append({"line": number, "raises": type(error).__name__})
        else:
            given += [described(number, operation) for operation in operations]
    return given


def described(number: int, operation: Operation) -> dict[str, Any]:
    """An operation as JSON."""
    fields = {field.name: getattr(operation, field.name) for field in msgspec.structs.fields(operation)}
    defaults = {field.name: field.default for field in msgspec.structs.fields(operation)}
    told = {name: value for name, value in fields.items() if value != defaults[name]}
    if "arguments" in told:
        told["arguments"] = told["arguments"].decode()
    return {"line": number, "operation": type(operation).__name__, **told}

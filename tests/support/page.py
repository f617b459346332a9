"""docs/protocol.md as data: its tables of parameters, results and objects, and its exchanges. What a client may rely on is what it says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PAGE = (Path(__file__).parents[2] / "docs/protocol.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^##? ([\w ]+)\n(.*?)(?=^##? |\Z)", PAGE, re.MULTILINE | re.DOTALL))
PARTS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^#{1,3} |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BASE = re.compile(r"All (?:fields|parameters|\[filters\]).*?\(#(\w+)\), and:\n\n$")
UNIT = re.compile(r" \((?:ms|bytes|code points)\)")
LINK = re.compile(r"\[(\w+)\]\(#\w+\)")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
PLAIN: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class Row(NamedTuple):
    """A row of a table: the type, the default of a parameter, and what it means."""

    type: str
    default: str
    meaning: str


class Table(NamedTuple):
    """A table, and the name of the one that it goes on from, as in a link."""

    base: str
    rows: dict[str, Row]


def list_objects() -> list[str]:
    """The objects that have a table of their own."""
    return [name for name, text in PARTS.items() if "\n| field |" in text]


def parameters(method: str) -> Table:
    """The parameters that a method's own table has."""
    return _table(SECTIONS[method].partition("\n### ")[0], "parameter")


def filters() -> Table:
    """The parameters that three methods share."""
    return _table(SECTIONS["Filters"], "parameter")


def result(method: str) -> Table:
    """The fields of a method's result; those of an object, if it is one that others have, too."""
    text = SECTIONS[method].partition("\n### ")[0]
    named = re.search(r"^The result is an? \[(\w+)\]", text, re.MULTILINE)
    return Table(named[1].lower(), {}) if named else _table(text, "field")


def fields(name: str) -> Table:
    """The fields that an object's own table has."""
    return _table(PARTS[name], "field")


def exchange(method: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The request of a method's section, and the lines of its answer."""
    text = re.search(r"^```\n→ (.*?)^```$", SECTIONS[method], re.MULTILINE | re.DOTALL)
    assert text, method
    asked, *answered = text[1].replace("\n   ", " ").split("\n← ")
    return json.loads(asked), [json.loads(line) for line in answered]


def _table(text: str, kind: str) -> Table:
    before, _, after = text.partition(f"| {kind} |")
    base = BASE.search(before)
    rows = dict[str, Row]()
    for line in after.split("\n")[2:] if after else ():
        if not line.startswith("| `"):
            break
        name, *cells = (cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        rows[name.strip("`")] = Row(cells[0], cells[1] if len(cells) > 2 else "", cells[-1])
    return Table(base[1] if base else "", rows)


# -- values


def check_result(method: str, value: Any) -> None:
    """Fails with the place where a result is not what its section says."""
    _check_fields(value, result(method), method)


def check_object(name: str, value: Any) -> None:
    """Fails with the place where an object is not what its table says."""
    _check_fields(value, fields(name), name)


def check(value: Any, kind: str, where: str) -> None:
    """Fails with the place where a value is not of this type, in the words of the page."""
    told = list(_complaints(value, UNIT.sub("", kind), where))
    assert not told, told


def _check_fields(value: Any, table: Table, where: str) -> None:
    rows = _all_rows(table)
    assert isinstance(value, dict), f"{where} is {value!r}"
    assert value.keys() == rows.keys(), f"{where}: too many {value.keys() - rows}, missing {rows.keys() - value}"
    for name, row in rows.items():
        check(value[name], row.type, f"{where}.{name}")


def _all_rows(table: Table) -> dict[str, Row]:
    base = next((name for name in PARTS if name.lower() == table.base), None)
    return {**(_all_rows(fields(base)) if base else {}), **table.rows}


def _complaints(value: Any, kind: str, where: str) -> Iterator[str]:
    """What speaks against each of the alternatives; nothing if one of them fits."""
    told = []
    for alternative in kind.split(" or "):
        try:
            if _fits(value, alternative, where):
                return
        except AssertionError as error:
            told.append(str(error))
    yield from told or [f"{where} is {value!r}, not {kind}"]


def _fits(value: Any, kind: str, where: str) -> bool:
    for word, container in (("array of ", list), ("object of ", dict)):
        if kind.startswith(word):
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for name, item in items:
                check(item, kind.removeprefix(word), f"{where}.{name}")
            return isinstance(value, container)
    if named := LINK.fullmatch(kind):
        if value is not None:
            check_object(named[1], value)
        return value is not None
    return _is(value, kind)


def _is(value: Any, kind: str) -> bool:
    """Whether a value is of a type without others in it, or one of those that are listed."""
    if kind.startswith('`"'):
        return value in json.loads(f"[{kind.replace('`', '')}]")
    if kind == "[integer, integer]":
        return [type(item) for item in value] == [int, int]
    if kind == "time":
        return isinstance(value, str) and TIME.fullmatch(value) is not None
    return type(value) in PLAIN[kind]

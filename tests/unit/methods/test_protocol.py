"""docs/protocol.md says of every method, parameter and field what the structs say, and so does pi's `wire.ts`: both ways."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from sesamed.methods import index, lists, own, search, sessions, windows
from sesamed.methods.filters import Filters
from sesamed.methods.index import ProgressLine
from sesamed.methods.method import Method, Params
from sesamed.methods.search import SearchParams
from sesamed.methods.table import METHODS
from sesamed.model import Answer
from sesamed.server.connection import ClientLimits
from sesamed.server.dispatch import MAX_ANSWER_BYTES
from sesamed.sources.records import SHORT_CHARS
from sesamed.store import schema
from tests.support import page
from tests.support.page import Table

WORDS: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


# -- structs in the words of the page


def describe(hint: Any, unit: str = "") -> str:
    """A type in the words of the page."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        extra = next((meta.extra for meta in arguments[1:] if isinstance(meta, Meta) and meta.extra), {})
        return str(extra["form"]) if "form" in extra else describe(arguments[0], extra.get("unit", unit))
    if origin in (Union, UnionType):
        parts = [part for part in arguments if part is not NoneType]
        return " or ".join(describe(part, unit) for part in [*parts, *[NoneType] * (len(parts) < len(arguments))])
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin is tuple and ... not in arguments:
        return describe_tuple(arguments)
    return describe_container(origin, arguments, unit) if origin is not None else describe_plain(hint, unit)


def describe_tuple(arguments: tuple[Any, ...]) -> str:
    """An array of so many items, all of one unit."""
    kinds = [describe(part).partition(" (") for part in arguments]
    (unit,) = {space + unit for _, space, unit in kinds}
    return f"[{', '.join(kind for kind, *_ in kinds)}]{unit}"


def describe_container(origin: Any, arguments: tuple[Any, ...], unit: str) -> str:
    """A list, or an object with any names."""
    if issubclass(origin, Mapping):
        return f"object of {describe(arguments[1], unit)}"
    return f"array of {describe(arguments[0], unit)}"


def describe_plain(kind: Any, unit: str) -> str:
    """A struct as a link to its table, or a value."""
    if issubclass(kind, Struct):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return WORDS[kind] + (f" ({unit})" if unit and kind in (int, float) else "")


def unit_of(name: str) -> str:
    """What a number counts, where its name says so."""
    if name.endswith("Ms"):
        return "ms"
    return "bytes" if "bytes" in name.lower() else ""


def own_fields(struct: type[Struct], base: type[Struct] | None) -> Iterator[tuple[FieldInfo, str]]:
    """The fields that a struct adds to its base, each with its type."""
    hints = get_type_hints(struct, include_extras=True)
    for field in msgspec.structs.fields(struct):
        if base is None or field.name not in base.__struct_fields__:
            yield field, describe(hints[field.name], unit_of(field.encode_name))


def default_of(field: FieldInfo) -> str:
    """A default as JSON."""
    return "required" if field.required else f"`{msgspec.json.encode(field.default).decode()}`"


@cache
def objects() -> dict[str, type[Struct]]:
    """All structs in results and parameters, those that others begin with included, by the names that links have."""
    found: dict[str, type[Struct]] = {}

    def add(hint: Any) -> None:
        for part in get_args(hint):
            add(part)
        if isinstance(hint, type) and issubclass(hint, Struct) and hint.__name__.lower() not in found:
            found[hint.__name__.lower()] = hint
            for part in (*get_type_hints(hint, include_extras=True).values(), *hint.__bases__):
                add(part)

    given = (hint for method in METHODS for hint in get_type_hints(method.params).values())
    for hint in (*(method.result for method in METHODS), ProgressLine, *given):
        add(hint)
    return {name: kind for name, kind in found.items() if kind not in (Answer, Params, Struct)}


# -- the page


@each_method
def test_parameters(method: Method[Any, Any]) -> None:
    """Name, type, null and default of each parameter, and nothing else."""
    table = page.parameters(method.name)
    base = {"": None, "filters": Filters, "search": SearchParams}[table.base]
    assert base is None or issubclass(method.params, base)
    given = {field.encode_name: (kind, default_of(field)) for field, kind in own_fields(method.params, base)}
    assert {name: (row.type, row.default) for name, row in table.rows.items()} == given


def test_filters() -> None:
    """They have a table of their own."""
    given = {field.encode_name: (kind, default_of(field)) for field, kind in own_fields(Filters, None)}
    assert {name: (row.type, row.default) for name, row in page.filters().rows.items()} == given


@each_method
def test_results(method: Method[Any, Any]) -> None:
    """Name and type of each field, and nothing else; results that are objects with a table of their own are linked."""
    table = page.result(method.name)
    if not table.rows:
        assert objects()[table.base or method.result.__name__.lower()] is method.result
        assert table.base or not method.result.__struct_fields__
    else:
        agree(table, method.result)


def test_objects() -> None:
    """All that results and parameters contain, and nothing that none contains."""
    inline = {method.result.__name__.lower() for method in METHODS if page.result(method.name).rows}
    shown = {name.lower(): name for name in page.list_objects()}
    assert shown.keys() == objects().keys() - inline - {"empty"}
    for name, heading in shown.items():
        assert objects()[name].__name__ == heading
        agree(page.fields(heading), objects()[name])


def agree(table: Table, struct: type[Struct]) -> None:
    """A table has the fields that the struct adds to the one that the table goes on from."""
    base = objects()[table.base] if table.base else None
    assert base is None or issubclass(struct, base)
    given = {field.encode_name: kind for field, kind in own_fields(struct, base)}
    assert {name: row.type for name, row in table.rows.items()} == given


@each_method
def test_exchanges(method: Method[Any, Any]) -> None:
    """The request can be sent as it stands there, and its answer has all fields of today, of their types."""
    asked, answered = page.exchange(method.name)
    assert asked["method"] == method.name
    msgspec.convert(asked["params"], method.params)
    for line in answered[:-1]:
        page.check_object("ProgressLine", line["params"])
    page.check_result(method.name, answered[-1]["result"])


def test_the_exchange_of_hello_is_todays() -> None:
    """Methods in their order, and versions."""
    answer = page.exchange("hello")[1][-1]["result"]
    assert answer["methods"] == [method.name for method in METHODS]
    assert answer["schema"] == page.exchange("status")[1][-1]["result"]["database"]["schema"] == schema.VERSION


# -- limits

# By the place that says "at most": a method or an object, and a parameter or field.
LIMITS = {
    ("search", "limit"): search.MAX_HITS,
    ("search_sessions", "contextAfter"): windows.WINDOW_ITEMS,
    ("list_sessions", "limit"): lists.MAX_SESSIONS,
    ("list_messages", "limit"): sessions.MAX_MESSAGES,
    ("list_bad_lines", "limit"): index.MAX_BAD_FILES,
    ("list_bad_lines", "unfinished"): index.MAX_BAD_FILES,
    **{("new_session", name): own.MAX_LINE for name in ("agent", "sender", "title")},
    ("new_session", "cwd"): SHORT_CHARS,
    **{("set_session_meta", name): own.MAX_TEXT for name in ("summary", "description")},
    ("set_session_meta", "title"): own.MAX_LINE,
    ("set_session_meta", "tags"): own.MAX_TAGS,
    ("GeneratedBy", "model"): own.MAX_LINE,
    ("WindowItem", "snippet"): windows.SNIPPET_BYTES,
    ("MessageItem", "text"): sessions.TEXT_BYTES,
}


def test_limits() -> None:
    """What the tables say is at most so much, is."""
    tables = {name: page.fields(name) for name in page.list_objects()}
    rows = {
        (place, name): row.meaning
        for place, table in [
            *((m.name, page.parameters(m.name)) for m in METHODS),
            *((m.name, page.result(m.name)) for m in METHODS),
            *tables.items(),
        ]
        for name, row in table.rows.items()
    }
    told = {place: found[1] for place, text in rows.items() if (found := re.search(r"at most ([0-9,]*[0-9])", text))}
    assert told == {place: f"{limit:,}" for place, limit in LIMITS.items()}


def test_limits_of_connections() -> None:
    """The first part of the page names them in words."""
    limits, units = ClientLimits(), {"MiB": 1 << 20}
    assert f"{limits.connections} connections with {limits.in_flight} requests in flight" in page.PAGE
    assert f"A request is at most {limits.request_bytes // units['MiB']} MiB" in page.PAGE
    assert f"an answer at most {MAX_ANSWER_BYTES // units['MiB']} MiB" in page.PAGE
    assert f"`limit` is at most {windows.MAX_WINDOWS}." in page.PAGE
    times = limits.idle_s, limits.line_s, limits.write_s
    assert times == (600, 10, 30)
    assert (
        "ten minutes without a request, and when a line takes ten seconds to arrive, or an answer thirty" in page.PAGE
    )


# -- pi

WIRE = (Path(__file__).parents[3] / "pi/sesame/wire.ts").read_text(encoding="utf-8")
INTERFACE = re.compile(r"^export interface (\w+)(?: extends (\w+))? \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"^  (\w+)(\??): (.*);$", re.MULTILINE)
# An interface, its struct, and the fields that pi has no use for: a new field stands in one of both.
INTERFACES: dict[str, tuple[str, set[str]]] = {
    "Hello": ("hello", {"name", "version", "protocol", "minProtocol", "pid", "schema", "methods", "startedAt"}),
    "Session": ("session", {"projectPath", "revision"}),
    "Match": ("match", {"path", "entryId", "undone"}),
    "Hit": ("hit", {"subagents"}),
    "Pending": ("pending", set()),
    "TimeFilter": ("timefilter", {"after", "before"}),
    "Word": ("wordcount", set()),
    "Found": ("searchresult", {"query", "excluded", "contentTrust", "tookMs"}),
    "Listed": ("sessionlist", {"removed", "revision", "epoch", "more"}),
    "Message": ("messageitem", {"revision"}),
    "Generated": ("generated", {"model", "costUsd", "fields"}),
    "Page": ("messagelist", set()),
    "Meta": (
        "sessionmeta",
        {"exchangeCount", "createdBy", "children", "archived", "resumeHere", "recallWords"},
    ),
}  # fmt: skip
TYPESCRIPT = {
    "integer": "number",
    "time": "string",
    "[Pending](#pending)": "Pending",
    "[TimeFilter](#timefilter)": "TimeFilter",
    "[Match](#match)": "Match",
    "array of [Hit](#hit)": "Hit[]",
    "array of [WordCount](#wordcount)": "Word[]",
    "array of [Session](#session)": "Session[]",
    "array of [MessageItem](#messageitem)": "Message[]",
    "array of string": "string[]",
    "array of [integer, integer]": "[number, number][]",
    "[Generated](#generated)": "Generated",
    "object of array of string": "Record<string, string[]>",
    "object of integer": "Record<string, number>",
    "object of string": "Record<string, string>",
    "[Resume](#resume)": "{ command: string[]; cwd: string | null }",
    "[ResumeProblem](#resumeproblem)": "{ code: string; message: string }",
}


def interfaces() -> dict[str, dict[str, str]]:
    """The members of each interface, those that it extends included."""
    found: dict[str, dict[str, str]] = {}
    for name, base, body in INTERFACE.findall(WIRE):
        found[name] = {**found.get(base, {}), **{member: kind for member, _, kind in MEMBER.findall(body)}}
    return found


def in_typescript(kind: str) -> str:
    """A type of the page as pi writes it. Roles are texts there: it shows them, whatever they are."""
    parts = page.UNIT.sub("", kind).split(" or ")
    return " | ".join(TYPESCRIPT.get(part, part.replace("`", "").replace(", ", " | ")) for part in parts)


@pytest.mark.parametrize("name", INTERFACES)
def test_pi_knows_each_field(name: str) -> None:
    """As it is, or says that it has no use for it."""
    struct, unused = INTERFACES[name]
    base = INTERFACES["Session"][1] if name in ("Hit", "Meta") else set()
    given = {f.encode_name: in_typescript(kind) for f, kind in own_fields(objects()[struct], None)}
    told = interfaces()[name]
    assert told.keys() == given.keys() - unused - base
    texts = {member for member, kind in told.items() if kind.startswith("string") and given[member].startswith('"')}
    assert {m: kind for m, kind in told.items() if m not in texts} == {m: given[m] for m in told if m not in texts}
    assert all((kind.endswith("null")) == (given[member].endswith("null")) for member, kind in told.items())


def test_pi_has_no_other_interfaces() -> None:
    """A new one is compared with its struct as well."""
    assert interfaces().keys() == INTERFACES.keys()

"""Filters as clients write them become filters as the store takes them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from sesamed.errors import ParamsError, RefusedError
from sesamed.methods.filters import Filters, make_where, to_milliseconds, warn_of_unknown_tools
from sesamed.methods.method import Context, QueryRunner
from sesamed.sources import TOOL_FAMILIES
from sesamed.store.index import Index
from sesamed.store.reading.summary import list_sessions
from sesamed.store.search.filters import Where, to_sql
from tests.support.history import History
from tests.support.sessions import PiSession

NOW = 1_780_000_000_000
HOUR = 3_600_000


class Here:
    """What of the daemon filters look at."""

    workstation = "0123abcd"
    queries = QueryRunner(cast("Index", None), 1000)


CONTEXT = cast("Context", Here())


async def where(**given: Any) -> dict[str, Any]:
    """What differs from no filter at all."""
    made, none = await make_where(CONTEXT, msgspec.convert(given, Filters)), Where()
    return {
        name: getattr(made, name)
        for name in made.__struct_fields__
        if getattr(made, name) != getattr(none, name)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        ({"source": "pi"}, {"source": ("pi",)}),
        ({"role": ["user", "assistant"]}, {"role": ("user", "assistant")}),
        ({"exclude": []}, {"exclude": ()}),
        ({"tool": ["ba\x1b[31msh\u202e"]}, {"tool": ("bash",)}),
        ({"toolFamily": ["web", "read"]}, {"tool_family": (*TOOL_FAMILIES["web"], *TOOL_FAMILIES["read"])}),
        ({"tools": True, "status": "error"}, {"tools": True, "status": "error"}),
        ({"path": ""}, {}),
        ({"path": "a/b.ts"}, {"path": "a/b.ts"}),
        ({"subagents": "only", "project": "p"}, {"subagents": "only", "project": "p"}),
        ({"workstation": "0123abcd"}, {"workstation": ""}),
        ({"workstation": "other"}, {"workstation": "other"}),
        ({"after": "1970-01-01", "before": "1970-01-02T00:00:00Z"}, {"after": 0, "before": 24 * HOUR}),
    ],
)
async def test_what_the_store_gets(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """Most filters as they are; one as a list, times in milliseconds, tools by their clean names."""
    assert await where(**given) == expected


async def test_the_top_of_a_worktree_means_its_repository(tmp_path: Path) -> None:
    """A directory within one means only what is there."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "sub").mkdir()
    top, below = str(tmp_path), str(tmp_path / "sub")
    assert await where(cwd=top) == {"cwd": top, "cwd_project": top}
    assert await where(cwd=below) == {"cwd": below}


async def test_a_relative_directory_is_refused() -> None:
    """Nobody knows what it is relative to."""
    with pytest.raises(RefusedError, match="relative"):
        await where(cwd="a/b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12h", NOW - 12 * HOUR),
        ("7d", NOW - 7 * 24 * HOUR),
        ("2w", NOW - 14 * 24 * HOUR),
        ("30min", NOW - HOUR // 2),
        ("1mo", NOW - 30 * 24 * HOUR),
        (" 1970-01-01T01:00:00+01:00 ", 0),
        ("1970-01-01T00:00:00.005", 5),
    ],
)
def test_times(text: str, expected: int) -> None:
    """How long ago, or when; without a zone in UTC."""
    assert to_milliseconds(text, "after", NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "7", "d", "7y", "1970-13-01", "9999999d", "12:00"])
def test_what_is_not_a_time_is_refused(text: str) -> None:
    """By the name of its filter."""
    with pytest.raises(ParamsError, match="after"):
        to_milliseconds(text, "after", NOW)


@pytest.mark.parametrize("text", ["30m", " 1m "])
def test_a_bare_m_is_refused(text: str) -> None:
    """Minutes or months: nobody can know which of them is meant."""
    span = text.strip()
    with pytest.raises(ParamsError, match=f"after: {span}: write {span}in or {span}o"):
        to_milliseconds(text, "after", NOW)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"role": "asistant"},
            "role: there is no 'asistant' [(]did you mean assistant[?][)]; expected assistant, .*user",
        ),
        ({"role": ["user", "system"]}, "role: there is no 'system'; expected .*user"),
        ({"source": "gemni"}, "source: there is no 'gemni' [(]did you mean gemini[?][)]; expected gemini, .*pi"),
        ({"source": "Codex"}, "source: there is no 'Codex' [(]did you mean codex[?][)]; expected codex, "),
        ({"source": "cluade"}, "source: there is no 'cluade' [(]did you mean claude[?][)]; expected claude, "),
        ({"source": "x"}, "source: there is no 'x'; expected "),
    ],
)
async def test_names_that_there_are_not_are_refused(given: dict[str, Any], message: str) -> None:
    """With those that there are, the nearest first: they would find nothing and say nothing."""
    with pytest.raises(ParamsError, match=message):
        await where(**given)


# -- tools

OTHERS = ("mcp__github__search_code", "mcp_github_search_code", "BASH", "todo", "bashful", "rebash")


@pytest.fixture(scope="module")
def called() -> Iterator[apsw.Connection]:
    """An index with a session for each name of a tool, which is the session's id."""
    history = History()
    for name in {name for names in TOOL_FAMILIES.values() for name in names if name[-1] != "*"} | {*OTHERS}:
        session = PiSession(id=name).tool(name, {}, "plum")
        history.write(history.roots[0] / session.file_name, session.bytes())
    history.look_at_everything()
    yield history.ingest.writer.connection
    history.close()


async def found(connection: apsw.Connection, **given: Any) -> set[str]:
    filters = to_sql(await make_where(CONTEXT, msgspec.convert(given, Filters)))
    return {session.session_id for session in list_sessions(connection, filters, 100, 0, "w")[1].values()}


@pytest.mark.parametrize("family", TOOL_FAMILIES)
async def test_a_family_finds_what_its_names_find(called: apsw.Connection, family: str) -> None:
    """The union of them, and for a `*` all names that begin so."""
    names = TOOL_FAMILIES[family]
    expected = await found(called, tool=[name for name in names if name[-1] != "*"])
    expected |= {name for name in OTHERS if name.startswith(tuple(name[:-1] for name in names if name[-1] == "*"))}
    assert await found(called, toolFamily=family) == expected
    assert {name for name in names if name[-1] != "*"} <= expected


async def test_a_name_is_exact_but_for_case(called: apsw.Connection) -> None:
    """And with a family, either."""
    assert await found(called, tool="bash") == {"bash", "BASH"}
    assert await found(called, tool="bas") == set()
    assert await found(called, tool="todo", toolFamily="write") == {"todo"} | await found(called, toolFamily="write")
    assert await found(called, tool="todo", toolFamily=[]) == {"todo"}
    assert await found(called, toolFamily=[]) == set()


async def test_an_unknown_family_is_refused_with_the_list() -> None:
    """The nearest first."""
    with pytest.raises(
        ParamsError, match=r"toolFamily: there is no 'shel' \(did you mean shell\?\); expected shell, .*mcp"
    ):
        await where(toolFamily="shel")


def test_a_tool_that_no_call_has_is_told(called: apsw.Connection) -> None:
    """With the nearest; those that are known are not."""
    known = Filters(tool=["bash", "Todo", "apply_patch"])
    assert warn_of_unknown_tools(called, known) == warn_of_unknown_tools(called, Filters()) == []
    slips = Filters(tool=["rebsh", "todo", "x" * 1000])
    first, second = warn_of_unknown_tools(called, slips)
    assert first.startswith("no indexed call uses a tool named 'rebsh'; nearest: rebash, ")
    assert len(second) < 300


def test_in_an_empty_index_no_tool_is_near() -> None:
    """There is none."""
    history = History()
    warnings = warn_of_unknown_tools(history.ingest.writer.connection, Filters(tool="bash"))
    history.close()
    assert warnings == ["no indexed call uses a tool named 'bash'"]

"""Filters as clients write them become filters as the store takes them."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from sesamed.errors import ParamsError, RefusedError
from sesamed.methods.filters import Filters, make_where, warn_of_unknown_tools
from sesamed.methods.method import Context, QueryRunner
from sesamed.sources import TOOL_FAMILIES
from sesamed.store.index import Index
from sesamed.store.reading.summary import list_sessions
from sesamed.store.search.filters import Where, to_sql
from tests.support.history import History
from tests.support.sessions import PiSession

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
        ({"subagents": "only", "project": "0f161eeb"}, {"subagents": "only", "project": "0f161eeb"}),
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


async def read_bounds(**given: str) -> tuple[int | None, int | None]:
    """From when on a session was active, and before when it began."""
    made = await make_where(CONTEXT, msgspec.convert(given, Filters))
    return made.after, made.before


DAY = 24 * HOUR
MARCH = 59 * DAY  # the first of it, 1970


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"after": " 1970-01-01T01:00:00+01:00 "}, (0, None)),
        ({"after": "1970-01-01T00:00:00.005"}, (5, None)),
        ({"after": "1970-03"}, (MARCH, None)),
        ({"before": "1970-03"}, (None, MARCH)),
        ({"until": "1970-03"}, (None, MARCH + 31 * DAY)),
        ({"until": "1970-03-01"}, (None, MARCH + DAY)),
        ({"until": "1970-03-01T12:00"}, (None, MARCH + DAY // 2)),
        ({"on": "1970-03-01"}, (MARCH, MARCH + DAY)),
        ({"on": "1970-03"}, (MARCH, MARCH + 31 * DAY)),
        ({"on": "1970-03-01T12:00", "timeZone": "-01:00"}, (MARCH + HOUR, MARCH + DAY + HOUR)),
        ({"after": "1970-03-01", "timeZone": "Asia/Tokyo"}, (MARCH - 9 * HOUR, None)),
        ({"after": "1970-03-01T00:00Z", "timeZone": "Asia/Tokyo"}, (MARCH, None)),
        ({"on": "1970", "after": "1970-03", "before": "1970-03-02", "until": "1970-04"}, (MARCH, MARCH + DAY)),
        ({"on": "1970-03", "after": "1970", "until": "1970"}, (MARCH, MARCH + 31 * DAY)),
        ({"until": "9999", "on": "9999"}, (253_370_764_800_000, None)),
        ({"timeZone": "Asia/Tokyo"}, (None, None)),
    ],
)
async def test_times(given: dict[str, str], expected: tuple[int | None, int | None]) -> None:
    """What is named begins somewhere and ends somewhere; of several bounds the narrowest holds."""
    assert await read_bounds(**given) == expected


@pytest.mark.parametrize(
    ("text", "back"), [("12h", 12 * HOUR), ("7d", 7 * DAY), ("2w", 14 * DAY), ("30min", HOUR // 2), ("1mo", 30 * DAY)]
)
async def test_spans_back(text: str, back: int) -> None:
    """So long before now, whatever the filter; on the day in which that lies."""
    now = int(time.time() * 1000)
    for name, place in (("after", 0), ("before", 1), ("until", 1)):
        assert now <= ((await read_bounds(**{name: text}))[place] or 0) + back <= now + HOUR, name
    first, end = await read_bounds(on=text, timeZone="UTC")
    assert first is not None
    assert end == first + DAY
    assert first <= now - back + HOUR
    assert now - back < end


@pytest.mark.parametrize("name", ["after", "before", "until", "on"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a time; expected an ISO date or time "),
        ("7", "'7' is not a time; expected "),
        ("12:00", "'12:00' is not a time; expected "),
        ("yesterdy", "'yesterdy' is not a time (did you mean yesterday?); expected "),
        ("Munday", "'Munday' is not a time (did you mean monday?); expected "),
        ("3 dayz ago", "'3 dayz ago' is not a time (did you mean 3 days ago?); expected "),
        ("x" * 1000, f"'{'x' * 64}' is not a time; expected "),
        (f"{'1' * 70} dayz", f"'{'1' * 64}' is not a time; expected "),
        ("30m", "30m: write 30min or 30mo"),
        (" 1m ", "1m: write 1min or 1mo"),
    ],
)
async def test_what_is_not_a_time_is_refused(name: str, text: str, message: str) -> None:
    """By the name of its filter, with what was probably meant. A bare `m` may be minutes or months."""
    with pytest.raises(ParamsError) as refused:
        await read_bounds(**{name: text})
    assert refused.value.message.startswith(f"{name}: {message}")


@pytest.mark.parametrize(
    "given",
    [
        {"on": "999999w"},
        {"on": "999999mo"},
        {"on": "9999-12-31T23:59:59.999999"},
        {"on": "0001-01-01T00:00:00+14:00", "timeZone": "UTC"},
    ],
)
async def test_a_day_that_no_calendar_has_is_refused(given: dict[str, str]) -> None:
    """There is the moment, but not all of its day."""
    with pytest.raises(ParamsError, match="on: "):
        await read_bounds(**given)


async def test_a_home_directory_is_ones_own() -> None:
    """Others' are not looked up, and nothing is found where no path can be."""
    for path in ("~\0", "~/\0", "~root/x"):
        assert (await make_where(CONTEXT, Filters(path=path))).path == path
    assert (await make_where(CONTEXT, Filters(path="~/x"))).path == str(Path.home() / "x")


async def test_a_zone_that_there_is_not() -> None:
    """Is refused, whatever else is asked."""
    with pytest.raises(ParamsError, match="timeZone: 'Berlin' is not a time zone; expected a name"):
        await read_bounds(timeZone="Berlin", after="7d")


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

"""Filters as clients write them become filters as the store takes them."""

from pathlib import Path
from typing import Any, cast

import pytest

from sesamed.errors import ParamsError, RefusedError
from sesamed.methods.filters import Filters, make_where, to_milliseconds
from sesamed.methods.method import Context, QueryRunner
from sesamed.store.index import Index
from sesamed.store.search.filters import Where

NOW = 1_780_000_000_000
HOUR = 3_600_000


class Here:
    """What of the daemon filters look at."""

    workstation = "0123abcd"
    queries = QueryRunner(cast("Index", None), 1000)


CONTEXT = cast("Context", Here())


async def where(**given: Any) -> dict[str, Any]:
    """What differs from no filter at all."""
    made, none = await make_where(CONTEXT, Filters(**given)), Where()
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
        ({"tools": True, "status": "error"}, {"tools": True, "status": "error"}),
        ({"path": ""}, {}),
        ({"path": "a/b.ts"}, {"path": "a/b.ts"}),
        ({"subagents": "only", "project": "p"}, {"subagents": "only", "project": "p"}),
        ({"workstation": "0123abcd"}, {"here": True}),
        ({"workstation": "other"}, {"here": False}),
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
        ({"role": "asistant"}, "role: there is no 'asistant'; expected assistant, .*user"),
        ({"role": ["user", "system"]}, "role: there is no 'system'; expected .*user"),
        ({"source": "gemni"}, "source: there is no 'gemni'; expected gemini, .*pi"),
        ({"source": "Codex"}, "source: there is no 'Codex'; expected codex, "),
    ],
)
async def test_names_that_there_are_not_are_refused(given: dict[str, Any], message: str) -> None:
    """With those that there are, the nearest first: they would find nothing and say nothing."""
    with pytest.raises(ParamsError, match=message):
        await where(**given)

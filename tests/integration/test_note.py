"""`sesamectl note`: a person says what a session is, with a real daemon."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.machine import Machine


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    machine = Machine()
    machine.write("quince-1", "a quince for the pie")
    machine.write("medlar-1", "a medlar")
    try:
        yield machine
    finally:
        machine.remove()


def note(machine: Machine, *words: str) -> dict[str, Any]:
    done = machine.run("note", *words, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    return {field: answer[field] for field in ("name", "summary", "description", "tags")}


def test_a_session_is_noted(machine: Machine) -> None:
    """By its id or its name; all of it is found and shown, one field leaves the others, and each can be taken away."""
    before = note(machine, "quince")
    assert before == {"name": "a quince for the pie", "summary": None, "description": None, "tags": []}
    assert "no description, summary or tags" in machine.run("note", "quince").stdout
    said = note(
        machine,
        "quince-1",
        "--title",
        "Kitchen plans",
        "--summary",
        "Sugar won.\nNo honey.",
        "--tag",
        "fruit",
        "--tag",
        "oven",
    )
    assert said == {
        "name": "Kitchen plans",
        "summary": "Sugar won.\nNo honey.",
        "description": None,
        "tags": ["fruit", "oven"],
    }
    shown = machine.run("show", "Kitchen plans").stdout
    assert shown.startswith("Kitchen plans\n")
    assert "  Summary: Sugar won.\n  No honey.\n  Tags: fruit, oven\n" in shown
    for word in ("kitchen", "honey", "oven"):
        assert "quince-1" in machine.run("search", word).stdout
    assert "Tags: fruit, oven" in machine.run("note", "quince-1").stdout
    said = note(machine, "quince-1", "--tag", "pie", "--untag", "fruit", "--description", "supper")
    assert said == {
        "name": "Kitchen plans",
        "summary": "Sugar won.\nNo honey.",
        "description": "supper",
        "tags": ["oven", "pie"],
    }
    gone = note(
        machine, "quince-1", "--title", "", "--summary=", "--description", "", "--untag", "oven", "--untag", "pie"
    )
    assert gone == before
    assert "Summary" not in machine.run("show", "quince-1").stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("medlar", "--title", "x" * 1001), 4, "title: 1001 characters, but at most 1000"),
        (("nothing-such", "--title", "x"), 4, "nothing-such"),
        (("medlar", "--title"), 2, "--title needs a value: --title TEXT"),
        (("--title", "x"), 2, "missing SESSION"),
    ],
)
def test_what_cannot_be_noted(machine: Machine, words: tuple[str, ...], code: int, says: str) -> None:
    """One line says why."""
    done = machine.run("note", *words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert says in done.stderr

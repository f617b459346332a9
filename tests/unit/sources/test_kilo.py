"""Kilo Code: its panel's tasks are read as Roo Code's, its database as OpenCode's."""

import json
import sqlite3
from contextlib import closing
from pathlib import PurePath

import pytest

from sesamed.model import NameRank
from sesamed.source import Document, Rows, ShapeFinder
from sesamed.sources.kilo import Kilo
from sesamed.sources.opencode import OpenCode
from tests.support.cline import ClineTask
from tests.support.letters import Desk
from tests.support.opencode import SCHEMA, OpenCodeSession, tool_part
from tests.support.operations import facts, read_items, records

KILO = Kilo()
TASK = "tasks/0b5e/ui_messages.json"


def talk() -> OpenCodeSession:
    """A prompt, an answer."""
    return OpenCodeSession(title="Birds").user("Which wren?").answer("The tiny one.")


def test_a_session_of_the_database_is_one_of_opencodes() -> None:
    """It says the same; and its state can be stored, beside that of a task."""
    rows = talk().rows()
    said = read_items(KILO, rows, "kilo.db", "ses_0001")
    assert said == read_items(OpenCode(), rows, "opencode.db", "ses_0001")
    assert facts(said, "name")[0] == ("Birds", NameRank.TITLED)


def test_a_task_is_one_of_a_panel() -> None:
    """As before version 6."""
    said = read_items(KILO, [ClineTask(id="0b5e").user("Which owl?").document()], TASK)
    assert [getattr(one, "text", None) for one in records(said)] == ["Which owl?"]


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("kilo.db", Rows),
        ("kilo-dev.db", Rows),
        (TASK, Document),
        ("tasks/0b5e/history_item.json", Document),
        ("tasks/0b5e/api_conversation_history.json", None),
        ("storage/session/p/s.json", None),
    ],
)
def test_the_shapes_fit_the_files(path: str, shape: type | None) -> None:
    """Both kinds are in one source."""
    found = ShapeFinder(KILO.shapes).find(path.encode())
    assert (None if found is None else type(found)) is shape


def test_both_are_read_where_they_are() -> None:
    """With what a call came to."""
    desk = Desk(KILO)
    session = talk().answer("", tool_part("bash", {"command": "ls"}, "list.md"))
    with closing(sqlite3.connect(desk.base / "kilo/kilo.db", isolation_level=None)) as connection:
        connection.executescript(SCHEMA)
        for statement, values in session.statements():
            connection.execute(statement, values)
    task = ClineTask(id="0b5e").user("Which owl?")
    desk.write(f"kilo/{task.path}", json.loads(task.document()))
    desk.look()
    assert desk.texts(f"kilo:{session.id}")[:2] == ["Which wren?", "The tiny one."]
    assert "list.md" in desk.texts(f"kilo:{session.id}")[2]
    assert desk.texts("kilo:0b5e") == ["Which owl?"]
    desk.close()


def test_nothing_is_said_of_other_places() -> None:
    """A state is that of the place which it began at."""
    for path, part in ((TASK, ""), ("kilo.db", "ses_1"), ("state/taskHistory.json", "")):
        state, _ = KILO.begin(PurePath(path), part)
        assert KILO.thaw(KILO.freeze(state)) == state

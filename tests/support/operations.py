"""What a source says of a file, picked apart; and values that are not what a source expects."""

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import Any

from sesamed.model import Fact, Message, Operation, ToolCall, ToolResult
from sesamed.source import BadLineError, ForeignFileError, Row, Source


def read_items(source: Source[Any], items: Iterable[Any], path: str | PurePath, part: str = "") -> list[Operation]:
    """What a unit's items say, one after the other; the state between them can be stored."""
    state, said = source.begin(PurePath(path), part)
    for item in items:
        state, more = source.step(state, item)
        assert source.thaw(source.freeze(state)) == state
        said += more
    return said


def read_spoilt_rows(source: Source[Any], case: Path, odd: random.Random, is_json: Callable[[int, str], bool]) -> None:
    """A golden case's rows, with something else in each of them: what is none of the agent's is refused in the two ways that are foreseen,
    and the state can be stored. `is_json` tells, by the number of the row's statement, which texts are spoilt within.
    """
    given = json.loads(case.read_text())
    state, _ = source.begin(PurePath(given["unit"]), given["part"])
    for number, values in given["items"]:
        inner = [json.loads(value) if isinstance(value, str) and is_json(number, value) else value for value in values]
        spoilt = (spoil(value, odd) for value in inner)
        row = tuple(json.dumps(value) if isinstance(value, list | dict) else value for value in spoilt)
        try:
            state, _ = source.step(state, Row(number, row))
        except (BadLineError, ForeignFileError):
            continue
        assert source.thaw(source.freeze(state)) == state


def records(given: list[Operation]) -> list[Message | ToolCall]:
    """The messages and calls, in order."""
    return [operation for operation in given if isinstance(operation, Message | ToolCall)]


def keys(given: list[Operation]) -> list[int]:
    """Their keys."""
    return [record.key for record in records(given)]


def facts(given: list[Operation], field: str) -> list[tuple[str, int]]:
    """What is said of a field, with its rank."""
    return [(fact.value, fact.rank) for fact in given if isinstance(fact, Fact) and fact.field == field]


def results(given: list[Operation]) -> list[tuple[str, bool | None]]:
    """What calls gave back, and whether they failed."""
    return [(one.text, one.is_error) for one in given if isinstance(one, ToolResult)]


def spoil(value: Any, odd: random.Random) -> Any:
    """The value with something else at one of its places."""
    if odd.random() < 0.15:
        return odd.choice([None, True, -1, 1e300, "", "user", [], {}, [[]], {"text": 7}, "\ud83d"])
    if isinstance(value, dict) and value:
        name = odd.choice(list(value))
        return value | {name: spoil(value[name], odd)}
    if isinstance(value, list) and value:
        place = odd.randrange(len(value))
        return [*value[:place], spoil(value[place], odd), *value[place + 1 :]]
    return odd.choice([None, 0, "", [], {}])

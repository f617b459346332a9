"""What a source says of a file, picked apart; and values that are not what a source expects."""

import random
from typing import Any

from sesamed.model import Fact, Message, Operation, ToolCall


def records(given: list[Operation]) -> list[Message | ToolCall]:
    """The messages and calls, in order."""
    return [operation for operation in given if isinstance(operation, Message | ToolCall)]


def keys(given: list[Operation]) -> list[int]:
    """Their keys."""
    return [record.key for record in records(given)]


def facts(given: list[Operation], field: str) -> list[tuple[str, int]]:
    """What is said of a field, with its rank."""
    return [(fact.value, fact.rank) for fact in given if isinstance(fact, Fact) and fact.field == field]


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

"""Limits of the search that count chunks or sessions, made as narrow as they would be in a larger index.

What is cut off at a fixed number costs nothing in a small index, and more the larger one is: so labelled questions about some hundred
sessions say nothing of a million messages. With the limits scaled by the share that an index is of the one that is meant, the same
*shares* of it are cut. What says only which of two ways is taken to the same answer is scaled as well, so that the way of a large index is
the one that is measured.
"""

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import apsw

from sesamed.store.search import ranking, scoring, shown, terms

LIMITS: tuple[tuple[ModuleType, str], ...] = (
    (terms, "FEW_CHUNKS"),
    (scoring, "MANY_NAMED"),
    (shown, "LOOKED_AT"),
    (shown, "ALL_OF"),
    (ranking, "FEW_CHUNKS"),
    (ranking, "FEW_ROWS"),
)


class Scaled(NamedTuple):
    """A limit as it is, and as it was made."""

    name: str
    whole: int
    made: int

    def __str__(self) -> str:
        return f"`{self.name}` {self.whole:,} to {self.made:,}"


@contextlib.contextmanager
def scaled(connection: apsw.Connection, messages: int) -> Iterator[list[Scaled]]:
    """Search this index as if it had so many messages; which limits that changes."""
    own = int(next(connection.execute("SELECT messages FROM totals"))[0])
    made = []
    with contextlib.ExitStack() as stack:
        for module, name in LIMITS:
            whole = getattr(module, name)
            limit = max(1, round(whole * own / messages))
            stack.enter_context(mock.patch.object(module, name, limit))
            made.append(Scaled(f"{module.__name__.rpartition('.')[2]}.{name}", whole, limit))
        yield made

"""A database of another program's: written as its owner does, and read as the daemon reads it."""

import sqlite3
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from sesamed.source import Row, Rows, Shape
from sesamed.store import foreign


class Written(Protocol):
    """A session that can be written into it."""

    def statements(self) -> Iterable[tuple[str, list[Any]]]:
        """What puts it there."""


class ForeignDatabase:
    """One with these tables."""

    def __init__(self, path: Path, shape: Shape, schema: str) -> None:
        assert isinstance(shape, Rows)
        self.path = path
        self.owner = sqlite3.connect(path, isolation_level=None)
        self.owner.executescript(schema)
        self._queries = shape.queries

    def write(self, session: Written) -> None:
        """The session as it is now."""
        for statement, values in session.statements():
            self.owner.execute(statement, values)

    def versions(self) -> dict[str, Any]:
        """Which sessions there are, and which version of each."""
        with self.opened() as database:
            return dict(database.units())

    def rows(self, unit: str) -> list[Row]:
        """A session's rows."""
        with self.opened() as database:
            assert database.query is not None
            numbers = range(len(database.query.rows))
            return [Row(number, row) for number in numbers for row in database.rows(number, unit)]

    def opened(self) -> AbstractContextManager[foreign.ForeignDatabase]:
        """As the daemon opens it."""
        return foreign.open_database(bytes(self.path), self._queries, str(self.path.parent))

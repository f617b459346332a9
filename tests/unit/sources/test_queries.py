"""Statements for other programs' databases."""

import apsw
import pytest

from sesamed.source import Query, Rows
from sesamed.sources import SOURCES
from sesamed.store.foreign import ForeignDatabase
from tests.support import crush, cursor, goose, openclaw, opencode, zed

SCHEMAS = (
    crush.SCHEMA,
    crush.UNMARKED_SCHEMA,
    cursor.SCHEMA,
    goose.SCHEMA,
    goose.FIRST_SCHEMA,
    openclaw.SCHEMA,
    opencode.SCHEMA,
    opencode.SCHEMA + opencode.EVENTS,
    zed.SCHEMA,
)
QUERIES = [
    (source.name, query)
    for source in SOURCES.values()
    for query in dict.fromkeys(query for shape in source.shapes if isinstance(shape, Rows) for query in shape.queries)
]


@pytest.mark.parametrize(("source", "query"), QUERIES)
def test_the_version_of_one_session_is_looked_up(source: str, query: Query) -> None:
    """It is asked for before each that is read: to list all sessions for it would take the square of their number."""
    plans = [plan for schema in SCHEMAS if (plan := explain(schema, ForeignDatabase.version_of(query)))]
    assert plans
    for plan in plans:
        steps = [step for step in plan if not step.startswith("CO-ROUTINE")]
        assert steps[0].startswith("SEARCH"), plan


def explain(schema: str, sql: str) -> list[str]:
    """How SQLite would run a statement; nothing where it does not fit the tables."""
    connection = apsw.Connection(":memory:")
    connection.execute(schema)
    try:
        return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", {"unit": "x"})]
    except apsw.SQLError:
        return []

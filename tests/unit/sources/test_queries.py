"""Statements for other programs' databases."""

import apsw
import pytest

from sesamed.source import Query, Rows
from sesamed.sources import SOURCES
from sesamed.store.foreign import ForeignDatabase
from tests.support import crush, cursor, goose, openclaw, opencode, zed

# The schemas of the tests have what is read; these are the indexes that the agents have besides.
OPENCODE_INDEXES = """
    CREATE INDEX message_session_time_created_id_idx ON message(session_id, time_created, id);
    CREATE INDEX part_session_idx ON part(session_id);
"""
GOOSE_INDEX = "CREATE INDEX idx_messages_session ON messages(session_id);"
SCHEMAS = (
    crush.SCHEMA,
    crush.UNMARKED_SCHEMA,
    cursor.SCHEMA,
    goose.SCHEMA,
    goose.FIRST_SCHEMA + GOOSE_INDEX,
    openclaw.SCHEMA,
    opencode.SCHEMA + OPENCODE_INDEXES,
    opencode.SCHEMA + OPENCODE_INDEXES + opencode.EVENTS,
    zed.SCHEMA,
)
QUERIES = [
    (source.name, query)
    for source in SOURCES.values()
    for query in dict.fromkeys(query for shape in source.shapes if isinstance(shape, Rows) for query in shape.queries)
]
SHORT = ("SCAN listed", "SCAN event_sequence")  # the one session that was found; whether there is anything in it


@pytest.mark.parametrize(("source", "query"), QUERIES)
def test_the_version_of_one_session_is_looked_up(source: str, query: Query) -> None:
    """And so are its messages. It is asked for before each that is read: to go through all sessions for it, or all messages, would take
    the square of their number."""
    plans = [plan for schema in SCHEMAS if (plan := explain(schema, ForeignDatabase.version_of(query)))]
    assert plans
    for plan in plans:
        steps = [step for step in plan if not step.startswith(("CO-ROUTINE", *SHORT))]
        assert steps[0].startswith("SEARCH"), plan
        assert not any(step.startswith("SCAN") or "AUTOMATIC" in step for step in steps), plan


def explain(schema: str, sql: str) -> list[str]:
    """How SQLite would run a statement; nothing where it does not fit the tables."""
    connection = apsw.Connection(":memory:")
    connection.execute(schema)
    try:
        return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", {"unit": "x"})]
    except apsw.SQLError:
        return []

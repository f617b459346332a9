"""What is asked of the index before a session leaves."""

import apsw

from sesamed.store import schema, sqlite
from sesamed.store.reading import leaving


def test_where_a_session_was_is_looked_up_and_not_searched() -> None:
    """It is asked of each session that leaves. Who rests on those that stay is asked once for many, and what continues others is gone
    through once."""
    connection = apsw.Connection(":memory:")
    sqlite.add_functions(connection)
    schema.create(connection)
    for sql, values, once in (
        (leaving.WHEREABOUTS, {"session": 1}, set[str]()),
        (leaving.RESTING, {"sessions": sqlite.numbers([1])}, {"s", "h"}),
    ):
        plan = [row[3] for row in sqlite.rows(connection, f"EXPLAIN QUERY PLAN {sql}", values)]
        scanned = {step.split()[1] for step in plan if step.startswith("SCAN ")}
        assert scanned <= {"o", "origin", "resting", "carray", "CONSTANT", *once}, plan
        assert not [step for step in plan if "AUTOMATIC" in step and "h" not in once], plan
        assert not [step for step in plan if "autoindex" in step and step.endswith("(source=?)")], plan
    connection.close()

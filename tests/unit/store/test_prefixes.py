"""Words that begin so: read once for a question, however it is answered."""

from collections.abc import Iterator

import pytest

from sesamed.store.changes import Changes
from sesamed.store.search import postings, terms
from sesamed.store.search.postings import Postings
from tests.support.tiny import Tiny, session, tiny
from tests.support.ways import by_arrays, by_statements


def read(index: Tiny, question: str) -> list[str]:
    """What FTS5 is asked that begins so, to count it and to find it."""
    statements = list[str]()

    def note(_: object, sql: str, bindings: object) -> bool:
        if "*" in str(bindings) or sql == postings.PREFIX:
            statements.append(sql)
        return True

    index.connection.exec_trace = note
    try:
        assert index.found(question) == ["s0", "s1"]
    finally:
        index.connection.exec_trace = None
    return statements


@pytest.fixture
def index() -> Iterator[Tiny]:
    with tiny(session(0).user("configure the configuration"), session(1, cwd="/b").user("a configuration")) as made:
        yield made


def test_by_statements_a_prefix_is_counted_once(index: Tiny) -> None:
    """To be counted it has to be looked for, and that is all that it costs."""
    with by_statements():
        assert read(index, "conf*").count(terms.STANDS) == 1


def test_by_arrays_a_prefix_is_read_once(index: Tiny) -> None:
    """To be counted, and to be found; for the next page it is there."""
    kept = Postings(Changes())
    kept.see(index.connection, read=True)
    with by_arrays(kept):
        for times in (1, 0):
            asked = read(index, "conf*")
            assert (asked.count(postings.PREFIX), asked.count(terms.STANDS)) == (times, 0)
        assert read(index, "conf* configuration*").count(postings.PREFIX) == 1

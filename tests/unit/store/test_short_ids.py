"""Ids as people type them."""

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sesamed.store import schema
from sesamed.store.reading.resolve import find, resolve
from sesamed.store.reading.summary import SHORT_CHARACTERS, read_sessions

CONNECTION = apsw.Connection(":memory:")
schema.create(CONNECTION)
ADD = "INSERT INTO sessions(source, native_id, origin, public_id) VALUES(?, ?, '', ?)"
IDS = st.text(st.sampled_from("ab-~2:é"), min_size=1, max_size=14) | st.builds(
    "aaaaaaa{}".format, st.text("a-~1", max_size=5)
)


def shorten(ids: list[tuple[str, str]]) -> dict[int, tuple[str, str]]:
    """The id and the short id of each of these sessions, by number."""
    CONNECTION.execute("DELETE FROM sessions")
    CONNECTION.executemany(ADD, [(source, one, one) for source, one in ids])
    numbers = [row[0] for row in CONNECTION.execute("SELECT id FROM sessions")]
    return {number: (one.session_id, one.short_id) for number, one in read_sessions(CONNECTION, numbers, "w").items()}


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["019e62c4-8608-7353"], "019e62c4"),
        (["019e62c4-8608-7353", "019e62c4-8608-7000"], "019e62c4-8608-73"),
        (["019e62c4-8608-7353", "019e62c4-1"], "019e62c4-8"),
        (["019e62c4-8608-7353", "019e62c48"], "019e62c4-8"),
        (["0123456789", "0123456789~2"], "0123456789"),
        (["0123456~2", "0123456~20"], "0123456~2"),
        (["12345678-9"], "12345678"),
        (["1234567-9"], "1234567-9"),
        (["short"], "short"),
        (["with:colon-and-more"], "with:colon-and-more"),
    ],
)  # fmt: skip
def test_short_ids(ids: list[str], short: str) -> None:
    """Eight characters, or as many as no other id begins with; none that ends with a dash, or that could be read as something else."""
    assert dict(shorten([("pi", one) for one in ids]).values())[ids[0]] == short


def test_an_id_of_two_sources_has_its_source_before_it() -> None:
    """The beginning alone is ambiguous, and so is the whole."""
    assert {short for _, short in shorten([("pi", "same-id"), ("codex", "same-id")]).values()} == {
        "pi:same-id",
        "codex:same-id",
    }


def test_an_id_like_a_key_has_its_source_before_it() -> None:
    """It means the session of that key, if there is one."""
    assert [short for _, short in shorten([("pi", "0badcafe:0123abcd:b")]).values()] == ["pi:0badcafe:0123abcd:b"]


@given(st.lists(st.tuples(st.sampled_from(["a", "claude"]), IDS), min_size=1, max_size=8, unique=True))
@example([("a", "aaaaaaa-"), ("a", "aaaaaaa"), ("a", "aaaaaaa~1")])
@example([("a", "b"), ("a", "a:b"), ("claude", "a:a:b")])
def test_each_session_is_found_by_its_short_id(ids: list[tuple[str, str]]) -> None:
    """By both ways to ask, whatever the others are called, also if an id looks like another one's with its source."""
    for number, (session_id, short) in shorten(ids).items():
        assert find(CONNECTION, short) == resolve(CONNECTION, short, None) == number
        assert len(short) <= max(SHORT_CHARACTERS, len(session_id)) or short.endswith(f":{session_id}")

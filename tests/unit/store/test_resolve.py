"""How a session is named by those who ask for it."""

import os
from collections.abc import Iterator

import apsw
import pytest

from sesamed.errors import AmbiguousError, NotFoundError
from sesamed.model import Workstation, iso
from sesamed.store import beside, sqlite
from sesamed.store.reading.resolve import find, resolve
from sesamed.store.writing.sessions import project_id
from tests.support.history import History
from tests.support.sessions import PiSession

PROJECT = project_id(PiSession(id="any").cwd)
KEY = f"0123abcd:{PROJECT}:abd"
POSING = ("pi:abd", KEY, "pi:nobody")  # ids that look like other sessions' references


@pytest.fixture(scope="module")
def connection() -> Iterator[apsw.Connection]:
    history = History()
    for number, name in enumerate(("abc", "abcd", "abd", "x", "x", "left", "x", "left-over", *POSING)):
        start = f"2026-03-{number + 1:02}T00:00:00.000Z"
        history.write(history.roots[0] / f"{number}.jsonl", PiSession(id=name, start=start).user("hi").bytes())
    history.look_at_everything()
    writer = history.ingest.writer
    writer.decide_numbers()
    for path in (b"5.jsonl", b"6.jsonl"):
        writer.drop([os.fsencode(history.roots[0]) + b"/" + path])
    lines = [Workstation(id=known, origin="machine", since="") for known in ("0badcafe", "0123abcd")]
    beside.append(writer.path, beside.WORKSTATIONS, lines)
    yield writer.connection
    history.close()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("abc", "abc"),
        ("abcd", "abcd"),
        ("pi:abc", "abc"),
        ("abd", "abd"),
        ("x", "x"),
        ("x~2", "x~2"),
        ("pi:x~2", "x~2"),
        (f"0123abcd:{PROJECT}:x", "x"),
        (f"0123abcd:{PROJECT}:x~2", "x~2"),
        (f"0badcafe:{PROJECT}:abc", "abc"),
        ("0123abcd:e3b0c442:abc", "abc"),
    ],
)
def test_an_id_is_found(connection: apsw.Connection, reference: str, expected: str) -> None:
    """A whole one, with its source or without, before one that only begins so; a key, by every workstation id that there was, also if it
    was noted before the project was known."""
    found = find(connection, reference)
    assert sqlite.one(connection, "SELECT public_id FROM sessions WHERE id = ?", (found,)) == (expected,)


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("pi:abd", "abd"),
        (KEY, "abd"),
        ("pi:pi:abd", "pi:abd"),
        (f"0123abcd:{PROJECT}:pi:abd", "pi:abd"),
        (f"pi:{KEY}", KEY),
        ("pi:nobody", "pi:nobody"),
        ("pi:pi:nobody", "pi:nobody"),
    ],
)
def test_an_id_like_a_reference_takes_no_sessions_place(
    connection: apsw.Connection, reference: str, expected: str
) -> None:
    """Its own references find it, and its id as long as that means nobody else."""
    for found in (find(connection, reference), resolve(connection, reference, None)):
        assert sqlite.one(connection, "SELECT public_id FROM sessions WHERE id = ?", (found,)) == (expected,)


def test_candidates_that_look_like_references_are_named_with_their_source(connection: apsw.Connection) -> None:
    """Each candidate is found by what it is called there."""
    with pytest.raises(AmbiguousError) as caught:
        find(connection, "pi:")
    assert caught.value.data is not None
    assert sorted(caught.value.data["candidates"]) == ["pi:nobody", "pi:pi:abd"]


@pytest.mark.parametrize("reference", ["left", "pi:left", "x~3", f"0123abcd:{PROJECT}:x~3"])
def test_an_id_that_left_means_nobody_else(connection: apsw.Connection, reference: str) -> None:
    """Not `left-over`, which begins with it, nor an ancestor of `x`; who shares the agent's id is named."""
    for ask in (find, lambda connection, reference: resolve(connection, reference, None)):
        with pytest.raises(NotFoundError, match="is not in the index any more") as caught:
            ask(connection, reference)
        assert ("other sessions with the same native id: 'x', 'x~2'" in caught.value.message) == ("x" in reference)


def test_a_key_of_another_workstation_is_told(connection: apsw.Connection) -> None:
    """Its session may well have the same id."""
    with pytest.raises(NotFoundError, match="ffffffff is another workstation"):
        find(connection, f"ffffffff:{PROJECT}:abc")


def test_a_beginning_that_only_one_has_is_enough(connection: apsw.Connection) -> None:
    """As with git."""
    assert find(connection, "abd") == find(connection, "abd"[:3])


@pytest.mark.parametrize("reference", ["ab", "a"])
def test_a_beginning_of_several_is_ambiguous(connection: apsw.Connection, reference: str) -> None:
    """The error names them."""
    with pytest.raises(AmbiguousError) as caught:
        find(connection, reference)
    assert "abc" in str(caught.value.data)


@pytest.mark.parametrize("reference", ["", "nope", "other:abc", "%", "\U0010ffff", "a'b"])
def test_what_is_none_is_not_found(connection: apsw.Connection, reference: str) -> None:
    """And says what to do."""
    with pytest.raises(NotFoundError):
        find(connection, reference)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_772_355_600_005, "2026-03-01T09:00:00.005Z"), (-1, "1969-12-31T23:59:59.999Z"),
     (10**18, "9999-12-31T23:59:59.999Z"), (-(10**18), "0001-01-01T00:00:00.000Z")],
)  # fmt: skip
def test_any_time_can_be_shown(ms: int, expected: str) -> None:
    """UTC with milliseconds; what no calendar holds is the nearest that one does."""
    assert iso(ms) == expected

"""Words within the words of headings: found by one pass over the sessions, and by none where no heading has them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store import sqlite
from sesamed.store.search import headings as module
from sesamed.store.search import terms
from sesamed.store.search.headings import HeadingTexts
from sesamed.store.search.terms import WITHIN, find_within
from tests.support.sessions import PiSession
from tests.support.tiny import Tiny, session, tiny

TEXTS = st.none() | st.text("aB%_ é設", max_size=5)


@given(
    st.lists(st.tuples(st.sampled_from([*terms.TITLE, *terms.PLACE]), TEXTS), max_size=8),
    st.text("ab%_é設", min_size=1, max_size=3),
)
def test_it_is_found_in_the_part_that_has_it(headings: list[tuple[str, str | None]], text: str) -> None:
    """In what a session is called, or where it worked; whatever marks of LIKE it has, and in capitals or not."""
    with tiny(session(0, cwd="/x").user("hello"), session(1, cwd="/x").user("hello")) as index:
        called: list[dict[str, str]] = [{"cwd": "/x"}, {"cwd": "/x"}]
        for number, (column, heading) in enumerate(headings):
            index.entitle(f"s{number % 2}", heading or "", column)
            called[number % 2][column] = heading or ""
        numbers = [n for (n,) in index.connection.execute("SELECT id FROM sessions ORDER BY public_id")]
        expected = [
            {
                n
                for n, columns in zip(numbers, called, strict=True)
                if any(text in columns.get(c, "").lower() for c in some)
            }
            for some in (terms.TITLE, terms.PLACE)
        ]
        statements = list[str]()

        def note(_: object, sql: str, __: object) -> bool:
            statements.append(sql)
            return True

        index.connection.exec_trace = note
        assert find_within(index.connection, text) == (frozenset(expected[0]), frozenset(expected[1]))
        assert len(statements) == 1


@contextmanager
def read(*sessions: PiSession) -> Iterator[tuple[Tiny, sqlite.Reader, list[str]]]:
    """These sessions, a reader that keeps headings, and what it asks."""
    with tiny(*sessions) as index, closing(sqlite.connect_reader(index.history.ingest.writer.path)) as reader:
        statements = list[str]()

        def note(_: object, sql: str, __: object) -> bool:
            statements.append(sql)
            return True

        reader.exec_trace, reader.headings = note, HeadingTexts()
        yield index, reader, statements


STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["title", "recall_words", "cwd", None]), st.text("aB設", max_size=4)),
    max_size=8,
)


@given(STEPS, st.sampled_from([(200, 4 << 20), (0, 4 << 20), (200, 0)]))
def test_kept_headings_find_the_same(steps: list[tuple[int, str | None, str]], limits: tuple[int, int]) -> None:
    """Whatever becomes of them, and whether they are kept or too long for that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_CHANGED", limits[0])
        patch.setattr(module, "MOST_CHARACTERS", limits[1])
        with read(*(session(number, cwd=f"/{number}").user("hello") for number in range(3))) as (index, reader, _):
            for number, column, text in steps:
                if column is None:
                    path = index.history.roots[0] / session(number).file_name
                    index.history.ingest.drop([bytes(path)])
                else:
                    index.entitle(f"s{number}", text, column)
                for sought in ("a", "ab", "設", "/1"):
                    assert find_within(reader, sought) == find_within(index.connection, sought)


def test_where_memory_is_short_no_heading_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has changed is added whole, or is looked for again with the next question."""
    with read(*(session(number, cwd=f"/{number}").user("hello") for number in range(2))) as (index, reader, _):
        assert not any(find_within(reader, "kohlrabi"))
        index.entitle("s1", "a kohlrabi")
        with monkeypatch.context() as patched:
            real = sqlite.rows
            patched.setattr(sqlite, "rows", lambda *how: [*real(*how), (mock.Mock(name="no text"),)])
            with pytest.raises(TypeError):  # as MemoryError: all of them cannot be joined
                find_within(reader, "kohlrabi")
        assert find_within(reader, "kohlrabi").titled


def test_what_no_heading_has_is_not_looked_for() -> None:
    """Which is so for most words that nobody knows; sessions that go on are looked at, and no others."""
    two = session(0, cwd="/streamSimple").user("hello"), session(1, cwd="/b").user("hello")
    with read(*two) as (index, reader, statements):
        for _ in range(3):
            assert not any(find_within(reader, "kohlrabi"))
        assert statements.count(module.ALL) == 1
        index.entitle("s1", "a kohlrabi")
        assert find_within(reader, "kohlrabi").titled
        assert not any(find_within(reader, "quince"))
        assert (statements.count(module.ALL), statements.count(WITHIN)) == (1, 1)


def test_an_older_snapshot_is_asked_itself() -> None:
    """What is kept may lack what a heading was then."""
    with (
        read(session(0, cwd="/a").user("hello")) as (index, reader, _),
        closing(sqlite.connect_reader(index.history.ingest.writer.path)) as older,
        sqlite.snapshot(older),
    ):
        sqlite.one(older, "SELECT chunks FROM totals")
        older.headings = reader.headings
        path = index.history.roots[0] / session(0).file_name
        index.history.write(path, session(0, cwd="/b").user("hello").bytes())
        index.history.look_at_everything()
        assert find_within(reader, "b").placed
        assert find_within(older, "a").placed
        assert not find_within(reader, "a").placed


# -- which sessions have a word


def find_words(reader: sqlite.Reader, words: str) -> list[terms.Headings]:
    """As a question does."""
    maker = terms.IndexTermMaker(reader)
    return [maker.headings(terms.quote(word)) for word in words.split()]


@given(STEPS, st.sampled_from([100, 13, 0]))
def test_kept_words_of_headings_are_those_of_now(steps: list[tuple[int, str | None, str]], most: int) -> None:
    """Whatever becomes of the headings, and however few may be kept; a snapshot of before has its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_SESSIONS", most)
        with (
            read(*(session(number, cwd=f"/{number}/a").user("hello") for number in range(3))) as (index, reader, _),
            closing(sqlite.connect_reader(index.history.ingest.writer.path)) as older,
            sqlite.snapshot(older),
        ):
            before = [terms.find_headings(older, word) for word in ("a", "aB", "nowhere")]
            older.headings = reader.headings
            for number, column, text in steps:
                if column is None:
                    index.history.ingest.drop([bytes(index.history.roots[0] / session(number).file_name)])
                else:
                    index.entitle(f"s{number}", text, column)
                for _ in range(2):
                    assert find_words(reader, "a aB nowhere") == [
                        terms.find_headings(index.connection, word) for word in ("a", "aB", "nowhere")
                    ]
                assert find_words(older, "a aB nowhere") == before


def test_a_word_of_headings_is_looked_for_once() -> None:
    """Until one of them changes; that a session goes on is no such change."""
    with read(session(0, cwd="/a").user("hello"), session(1, cwd="/b").user("hello")) as (index, reader, statements):
        for said in ("one", "two"):
            assert find_words(reader, "a b") == find_words(reader, "a b")
            assert statements.count(terms.HEADED) == 4
            path = index.history.roots[0] / session(0).file_name
            index.history.write(path, session(0, cwd="/a").user("hello").assistant(said).bytes())
            index.history.look_at_everything()
        index.entitle("s1", "a matter")
        assert len(find_words(reader, "a")[0].titled) == 1
        assert statements.count(terms.HEADED) == 6


def test_what_nobody_asks_for_is_given_back() -> None:
    """And looked for again."""
    with read(session(0, cwd="/a").user("hello")) as (_, reader, statements):
        assert reader.headings is not None
        for unused_s, looked_for in ((600.0, 1), (0.0, 2)):
            found = find_words(reader, "a")
            reader.headings.sets.drop(unused_s)
            assert find_words(reader, "a") == found
            assert statements.count(terms.HEADED) == 2 * looked_for


def test_of_very_common_words_of_headings_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last ones."""
    monkeypatch.setattr(module, "MOST_SESSIONS", 2 * (module.WORD_SESSIONS + 2))  # each is of two sessions
    with read(session(0, cwd="/a b c").user("hello"), session(1, cwd="/a b c").user("hello")) as (
        _,
        reader,
        statements,
    ):
        for words, looked_for in (("a b", 2), ("a b", 2), ("c", 3), ("b c", 3), ("a", 4), ("c a", 4)):
            find_words(reader, words)
            assert statements.count(terms.HEADED) == 2 * looked_for

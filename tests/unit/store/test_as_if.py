"""`bench.as_if`: limits become as narrow as in a larger index, and are what they were afterwards."""

import os
from contextlib import AbstractContextManager, closing
from random import Random
from unittest import mock

import pytest

from bench import as_if, ranking
from sesamed.store import sqlite
from sesamed.store.search import large, scoring, shown
from tests.support.tiny import Tiny, session, tiny


def limits() -> dict[str, int]:
    return {
        f"{module.__name__}.{name}": getattr(module, name) for module, name in as_if.LIMITS if hasattr(module, name)
    }


def two_messages() -> AbstractContextManager[Tiny]:
    return tiny(session(0, cwd="/a").user("xyzzy").assistant("plugh"))


def test_limits_are_scaled_by_messages() -> None:
    """By the share of the messages that there are, however many."""
    before = limits()
    with two_messages() as index, as_if.scaled(index.connection, 20) as made:
        assert before["sesamed.store.search.scoring.MANY_NAMED"] // 10 == scoring.MANY_NAMED
        assert before["sesamed.store.search.shown.LOOKED_AT"] // 10 == shown.LOOKED_AT
        assert len(made) == len(before)
        assert (
            f"`scoring.MANY_NAMED` {before['sesamed.store.search.scoring.MANY_NAMED']} to {scoring.MANY_NAMED}"
            in map(str, made)
        )
    assert limits() == before


def test_no_limit_is_less_than_one() -> None:
    """However large an index is meant."""
    with two_messages() as index, as_if.scaled(index.connection, 1_000_000_000):
        assert set(limits().values()) == {1}


def test_limits_come_back_after_a_failure() -> None:
    """Others go on with them."""
    before = limits()
    with two_messages() as index, pytest.raises(ZeroDivisionError), as_if.scaled(index.connection, 20):
        raise ZeroDivisionError
    assert limits() == before


def test_an_answer_is_the_same_however_large_the_index() -> None:
    """What was found of ten thousand messages is found of a million, in the same order: of common words, too, and by posting arrays."""
    words = [f"{first}{last}" for first in ("ba", "ke", "li", "mo", "nu") for last in ("cab", "dod", "fif", "gag")]
    chosen = [Random(number).sample(words, 8) for number in range(40)]
    sessions = [
        session(number, cwd=f"/{number}")
        .user(" ".join(some[:5]))
        .assistant(" ".join(some[5:]) + " well " * (number % 7))
        for number, some in enumerate(chosen)
    ]
    with tiny(*sessions) as index, closing(sqlite.connect_reader(index.history.ingest.writer.path)) as reader:
        meant = {hit.session_id: os.path.realpath(hit.path) for hit in index.ask("", limit=100).hits}
        questions = [
            ranking.Question(" ".join(some[:count]), str(count), frozenset([meant[f"s{number}"]]))
            for number, some in enumerate(chosen[:6])
            for count in (1, 3, 8)
        ]
        with mock.patch.object(large, "ManyMatches", wraps=large.ManyMatches) as used:
            own, *others = ranking.as_if(reader, questions, [10_000, 1_000_000]).rows
    assert used.call_count >= len(questions)
    assert [row[1:-1] for row in others] == [own[1:-1]] * 2
    assert [row[-1] for row in others] == ["0", "0"]

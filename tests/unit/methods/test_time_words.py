"""Words for a time at the end of a question: which act, and which are words like any other."""

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import memory
from sesamed.methods import time_words
from sesamed.methods.time_words import TimeWords, asks_for_something, find_ending, read_ending
from sesamed.methods.times import Clock, read_clock, read_span
from sesamed.store.search import terms
from tests.unit.methods.test_times import ZONES, clock_at, nows, zones

ROOT = Path(__file__).parents[3]
NOW = clock_at(datetime(2026, 11, 19, 12, 30), "Europe/Berlin")  # noqa: DTZ001  # a Thursday


def read(query: str, clock: Clock = NOW) -> TimeWords | None:
    """What they mean, if any act."""
    ending = find_ending(query)
    return None if ending is None else read_ending(ending, clock)


@pytest.mark.parametrize(
    ("query", "rest", "words", "days"),
    [
        ("nix flake last week", "nix flake", "last week", "9-15 Nov"),
        ("nix flake from last week?", "nix flake", "from last week", "9-15 Nov"),
        ("What did I do Yesterday", "What did I do", "yesterday", "18 Nov"),
        ("explain this codebase, last thursday", "explain this codebase", "last thursday", "12 Nov"),
        ("agno research the day before yesterday", "agno research", "the day before yesterday", "17 Nov"),
        ("lint errors since monday", "lint errors", "since monday", "from 16 Nov"),
        ("lint errors after last month", "lint errors", "after last month", "from 1 Oct"),
        ("lint errors before monday", "lint errors", "before monday", "until 15 Nov"),
        ("lint errors until yesterday.", "lint errors", "until yesterday", "until 18 Nov"),
        ("poker in may", "poker", "in may", "1-31 May"),
        ("poker in april 2025", "poker", "in april 2025", "1-30 Apr 2025"),
        ("poker last december", "poker", "last december", "1-31 Dec 2025"),
        ("readme wording, 9 february", "readme wording", "9 february", "9 Feb"),
        ("readme on the 24th of january 2026", "readme", "on the 24th of january 2026", "24 Jan"),
        ("readme on 6 mar", "readme", "on 6 mar", "6 Mar"),
        ("readme on 2026-03-06", "readme", "on 2026-03-06", "6 Mar"),
        ("readme in 2026-03", "readme", "in 2026-03", "1-31 Mar"),
        ("ash question two days ago", "ash question", "two days ago", "17 Nov"),
        ("ash question 3  WEEKS\tago", "ash question", "3 weeks ago", "26 Oct - 1 Nov"),
        ("deploys in the last 3 days", "deploys", "in the last 3 days", "from 16 Nov"),
        ("deploys over the weekend", "deploys", "over the weekend", "14-15 Nov"),
        ("deploys from the last 24 hours", "deploys", "from the last 24 hours", "from 18 Nov"),
        ('"retry logic" last week', '"retry logic"', "last week", "9-15 Nov"),
        ("игра в браузере yesterday", "игра в браузере", "yesterday", "18 Nov"),
        ("deploy\x1b[31m last\u200b week", "deploy", "last week", "9-15 Nov"),
    ],
)
def test_what_acts(query: str, rest: str, words: str, days: str) -> None:
    """A whole form at the very end; the question is what is before it."""
    found = read(query)
    assert found is not None
    assert (found.rest, found.words, found.days.replace("\N{EN DASH}", "-")) == (rest, words, days)


@pytest.mark.parametrize(
    "query",
    [
        "", "*", "last", "week", "nix", "last week of the sprint",
        "yesterday's todo list", "next week", "plans for next week", "this monday",
        'rename "last week"', 'the "yesterday" button', 'say "since monday', "nix -yesterday", "nix yesterday*", "nix last-week", "on hold",
        "a report for last week", "sum of last month", "the cron job runs every monday", "runs each weekend", "compare with yesterday",
        "slower than last week", "between yesterday and today", "from monday to today", "what is today", "a day like yesterday", "by today",
        "in may case", "what may", "to march", "protest march", "april", "meeting monday", "mid january", "in 2026", "release 2026-03-06",
        "convert 16 dec", "10 oct", "5 mon", "python 3 days", "retry after 3 hours", "an hour ago", "since then", "in the end",
        "on 31 february", "in 2026-13", "9999 years ago", "31 november", "since 0 january",
    ],
)  # fmt: skip
def test_what_is_searched(query: str) -> None:
    """What is quoted, in the middle, part of something else, or no time at all."""
    assert read(query) is None


@pytest.mark.parametrize(
    "query",
    ["yesterday", "Last week?", "since monday", "-nix yesterday", '-"a b" last week', "( * today", "today today"],
)
def test_nothing_but_a_time(query: str) -> None:
    """Nothing is left to search for: whoever types it may mean the word."""
    ending = find_ending(query)
    assert ending is not None
    assert not asks_for_something(ending)


def questions() -> list[tuple[str, str]]:
    """All questions of the sets, each with its kind."""
    asked = [(one.text, one.kind) for one in memory.read_sets(memory.SETS).questions]
    for name in ("kinds.tsv", "halves.tsv"):
        lines = (ROOT / "bench/sets" / name).read_text(encoding="utf-8").splitlines()
        asked += [(text, kind) for text, kind, *_ in (line.split("\t") for line in lines)]
    return asked + [(text, "absent") for text in memory.read_sets(memory.SETS).absent]


@pytest.mark.parametrize(
    ("query", "zone"),
    [("quince before january 0001", "UTC"), ("quince on 0001-01-01", None), ("quince on 9999", "-14:00")],
)
def test_the_ends_of_the_calendar_are_words_like_any_other(query: str, zone: str | None) -> None:
    """Or a time, where it has all of it."""
    read(query, read_clock(0, zone))


def test_no_false_alarms() -> None:
    """Of all questions of the sets none acts that is not of time; of those in English that are, most do."""
    acting = {text for text, _ in questions() if find_ending(text)}
    of_time = {text for text, kind in questions() if kind == "time"}
    assert acting <= of_time
    assert len(of_time) == 45
    assert len(acting) >= 33


@given(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(["last", "week", "since", "in", "may", "monday", "3", "days", "ago", '"', "-", "the"]),
        max_size=7,
    ),
    nows,
    zones,
)
def test_any_text_is_a_question(text: str, more: list[str], now: datetime, zone: str) -> None:
    """It acts or not; what is left of it is how it begins, and means the same as before."""
    query = f"{text} {' '.join(more)}"
    found, ending = read(query, clock_at(now, zone)), find_ending(query)
    assert terms.parse(query) is not None
    if found is None or ending is None:
        return
    assert terms.clean(query).startswith(found.rest)
    assert found.after or found.before
    if asks_for_something(ending):
        assert {one.bare for one in terms.parse(found.rest).words} <= {one.bare for one in terms.parse(query).words}


def test_each_form_is_a_time() -> None:
    """What acts is what `after` takes, by the same words."""
    said = [
        "today",
        "yesterday",
        "last monday",
        "last april",
        "last weekend",
        "this weekend",
        "past week",
        "the last month",
        "2 days ago",
    ]
    for words in (*said, "last 2 minutes", "the past three years", "the 2nd of may", "may 2 2026", "may 2026"):
        assert find_ending(f"x {words}") == find_ending(f"x {words}")._replace(words=words)  # type: ignore[union-attr]
        for zone in ZONES:
            read_span(words, read_clock(NOW.now_ms, zone))
    assert time_words.FORM.fullmatch("since x") is None

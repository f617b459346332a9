"""Words for a time at the end of a question, asked of a real daemon, by all who send them."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sesamectl.cli import main
from sesamed.methods.time_words import find_ending
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

TODAY, YESTERDAY, LONG_AGO = "today", "yesterday", "longago"
NOW = datetime.now(UTC)
AHEAD = 12 - NOW.hour  # hours: where it is noon when the tests begin, and stays the same day
ZONE = f"{'-' if AHEAD < 0 else '+'}{abs(AHEAD):02}:00"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Of three sessions about plums the oldest says most of yesterday."""
    with Daemon() as daemon:
        begun = {TODAY: NOW, YESTERDAY: NOW - timedelta(1), LONG_AGO: datetime(2020, 3, 2, 9, tzinfo=UTC)}
        for name, start in begun.items():
            said = "plum jam yesterday, plum cake yesterday" if name == LONG_AGO else f"the plum of {name[:2]}"
            session = PiSession(id=name, start=f"{start:%Y-%m-%dT%H:%M:%S}.000Z").user(said)
            daemon.write(f"{name}.jsonl", session.bytes())
        daemon.sync()
        yield daemon


def ask(daemon: Daemon, query: str, method: str = "search", **params: Any) -> tuple[list[str], Any]:
    """The sessions, and what became of the words."""
    answer = daemon.call(method, query=query, **{"timeWords": True, "timeZone": ZONE, **params})
    assert answer["query"] == query
    sessions = [hit["sessionId"] for hit in answer.get("results", answer.get("hits"))]
    assert len(sessions) == answer["resultCount"]
    return sessions, answer["timeFilter"]


@pytest.mark.parametrize("method", ["search", "search_sessions"])
def test_they_act(daemon: Daemon, method: str) -> None:
    """Only what is of that time is found, by the other words."""
    sessions, told = ask(daemon, "plum yesterday", method)
    assert sessions == [YESTERDAY]
    today = NOW.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(hours=-AHEAD)
    assert told == {
        "words": "yesterday",
        "after": f"{today - timedelta(1):%Y-%m-%dT%H}:00:00.000Z",
        "before": f"{today:%Y-%m-%dT%H}:00:00.000Z",
        "days": told["days"],
        "effect": "acts",
    }
    assert told["days"].split()[0] == str((NOW - timedelta(1)).day)
    assert set(ask(daemon, "plum since yesterday", method)[0]) == {TODAY, YESTERDAY}
    assert ask(daemon, "plum before yesterday", method)[0] == [LONG_AGO]
    assert set(ask(daemon, "plum until yesterday", method)[0]) == {YESTERDAY, LONG_AGO}
    assert set(ask(daemon, "plum in the last 3 days", method)[0]) == {TODAY, YESTERDAY}


def test_where_it_is_another_day(daemon: Daemon) -> None:
    """At nine in Greenwich it is still the day before, for somebody who is far enough behind."""
    for zone, day in (("UTC", 2), ("Pacific/Niue", 1), ("+14:00", 2), ("-09:01", 1)):
        for other in (1, 2, 3):
            sessions, told = ask(daemon, f"plum on {other} march 2020", timeZone=zone)
            assert (sessions == [LONG_AGO], told["effect"]) == ((True, "acts") if other == day else (False, "nothing"))


def test_where_they_leave_nothing(daemon: Daemon) -> None:
    """The question is asked once more without, and the answer says so; on each page, and also if that finds nothing."""
    sessions, told = ask(daemon, "plum jam in 2020-04", fresh=True, timeoutMs=5000)
    assert set(sessions) == {TODAY, YESTERDAY, LONG_AGO}
    assert told["effect"] == "nothing"
    pages = [ask(daemon, "plum 600 days ago", limit=1, offset=offset) for offset in range(4)]
    assert [len(page) for page, _ in pages] == [1, 1, 1, 0]
    assert {told["effect"] for _, told in pages} == {"nothing"}
    assert ask(daemon, "quincequince yesterday")[0] == []
    assert ask(daemon, "plum yesterday", offset=1) == ([], ask(daemon, "plum yesterday")[1])  # there is one


def test_alone_they_are_words(daemon: Daemon) -> None:
    """Whoever wants a list has one; the answer says which time it would be."""
    sessions, told = ask(daemon, "yesterday")
    assert sessions == [LONG_AGO]
    assert (told["words"], told["effect"]) == ("yesterday", "words")


@pytest.mark.parametrize(
    ("query", "params"),
    [
        ('plum "yesterday"', {}),
        ("plum yesterday", {"timeWords": False}),
        ("plum yesterday", {"after": "2020"}),
        ("plum yesterday", {"before": "today"}),
        ("plum yesterday", {"until": "today"}),
        ("plum yesterday", {"on": "2020", "until": "today"}),
    ],
)
def test_what_wins(daemon: Daemon, query: str, params: dict[str, str]) -> None:
    """Quotes, who did not ask for it, and filters: then the one that says it is the best."""
    sessions, told = ask(daemon, query, **params)
    assert told is None
    assert sessions[0] == LONG_AGO


WORDS = [
    "plum",
    "jam",
    "of",
    "yesterday",
    "today",
    "last",
    "week",
    "since",
    "monday",
    "in",
    "april",
    "2020",
    "3",
    "days",
    "ago",
    '"',
    "-plum",
    "*",
    "?",
]


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=6), max_size=8).map(" ".join))
@example('plum jam" yesterday')
@example("-plum yesterday")
@example("plum on 31 february")
def test_any_text_is_a_question(daemon: Daemon, query: str) -> None:
    """What acts is what the filters do with the rest; what does not act changes nothing."""

    def asked(text: str, **bounds: Any) -> list[tuple[str, float]]:
        answer = daemon.call("search", query=text, **bounds)
        return [(hit["sessionId"], hit["score"]) for hit in answer["results"]]

    answer = daemon.call("search", query=query, timeWords=True, timeZone=ZONE)
    found, told = [(hit["sessionId"], hit["score"]) for hit in answer["results"]], answer["timeFilter"]
    ending = find_ending(query)
    if told is None or told["effect"] == "words":
        assert found == asked(query)
        return
    assert ending is not None
    bounds = {name: told[name] for name in ("after", "before") if told[name] is not None}
    of_then = asked(ending.rest, **bounds)
    assert bool(of_then) == (told["effect"] == "acts")
    assert found == (of_then or asked(ending.rest))


@pytest.fixture
def _at_noon(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has the tests' time zone."""
    for name, value in {**daemon.environ(), "TZ": f"<x>{-AHEAD}"}.items():
        monkeypatch.setenv(name, value)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_at_noon")
def test_sesamectl_sends_them(capsys: pytest.CaptureFixture[str]) -> None:
    """In the zone of whoever asks; `--plain` and quotes make words of them, and so does a filter."""

    def found(*words: str) -> tuple[list[str], Any]:
        assert main(["search", *words, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        return [hit["sessionId"] for hit in answer["results"]], answer["timeFilter"] and answer["timeFilter"]["effect"]

    assert found("plum", "yesterday") == ([YESTERDAY], "acts")
    assert found("plum", "in", "april", "2020")[1] == "nothing"
    for words in (("plum", "yesterday", "--plain"), ("plum", '"yesterday"'), ("plum", "yesterday", "--until", "today")):
        sessions, effect = found(*words)
        assert (sessions[0], effect) == (LONG_AGO, None)
    assert main(["search", "plum", "yesterday"]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("Only yesterday: ")
    assert main(["list", "--on", "yesterday", "--json"]) == 0
    assert [one["sessionId"] for one in json.loads(capsys.readouterr().out)["sessions"]] == [YESTERDAY]
    assert main(["search", "plum", "--after", "yesterdy"]) == 2
    assert "--after: 'yesterdy' is not a time (did you mean yesterday?)" in capsys.readouterr().err

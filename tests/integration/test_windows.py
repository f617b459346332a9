"""`search_sessions`: the best places, each with what was said around it, over the real socket."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.library import APP, CHILD, FIX, PARENT, Library
from tests.support.sessions import PiSession

LONG = "long-1"
SNIPPET_BYTES = 1024
LEAD = "é漢\U0001f389 "


@pytest.fixture(scope="module")
def long() -> Iterator[Daemon]:
    """A session of 60 messages; some are long, and one of those is about a salsify, in its middle."""
    with Daemon() as daemon:
        session = PiSession(id=LONG)
        for number in range(60):
            middle = "the salsify" if number == 40 else f"message {number}"
            session.user(LEAD * 600 + middle + " after it" * 600 if number % 20 == 0 else middle)
        session.tool("bash", {"command": "celeriac"}, "done")
        daemon.write("long.jsonl", session.bytes())
        daemon.sync()
        yield daemon


def windows(daemon: Daemon, query: str, **params: Any) -> list[Any]:
    hits = daemon.call("search_sessions", query=query, **params)["hits"]
    for hit in hits:
        numbers = [item["msgIdx"] for item in hit["window"]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert hit["msgIdx"] in numbers
        assert len(numbers) <= 16
        assert all(len(item["snippet"].encode()) <= SNIPPET_BYTES for item in hit["window"])
        assert hit["meta"]["sessionId"] == hit["sessionId"]
    return list(hits)


def numbers(hit: Any) -> list[int]:
    return [item["msgIdx"] for item in hit["window"]]


def test_a_hit_with_what_is_around_it(library: Library) -> None:
    """The place, its session, and the messages around it, as `list_messages` gives them."""
    (hit,) = windows(library.daemon, "rutabaga")
    assert (hit["sessionId"], hit["msgIdx"], hit["score"]) == (APP, 1, 1.0)
    read = library.daemon.call("list_messages", sessionId=hit["sessionId"])["messages"]
    assert [
        (item["msgIdx"], item["role"], item["toolName"], item["snippet"], item["truncated"]) for item in hit["window"]
    ] == [(message["msgIdx"], message["role"], message["toolName"], message["text"], False) for message in read]
    assert hit["meta"] == next(s for s in library.daemon.call("list_sessions")["sessions"] if s["sessionId"] == APP)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, range(36, 45)),
        ({"contextBefore": 0, "contextAfter": 0}, range(40, 41)),
        ({"contextBefore": 2, "contextAfter": 1}, range(38, 42)),
        ({"contextBefore": 10**9, "contextAfter": 10**9}, range(32, 48)),
        ({"contextBefore": 10**9, "contextAfter": 0}, range(25, 41)),
        ({"contextBefore": 1, "contextAfter": 10**9}, range(39, 55)),
    ],
)
def test_windows_are_bounded(long: Daemon, params: dict[str, int], expected: range) -> None:
    """As asked for, but at most sixteen items."""
    (hit,) = windows(long, "salsify", **params)
    assert (hit["msgIdx"], numbers(hit)) == (40, list(expected))


def test_snippets_are_cut_at_a_character_and_show_what_matched(long: Daemon) -> None:
    """Of a long message the hit shows the part that matched, the others their beginning."""
    (hit,) = windows(long, "salsify", contextBefore=15, contextAfter=15)
    at = {item["msgIdx"]: item for item in hit["window"]}
    assert "salsify" in at[hit["msgIdx"]]["snippet"]
    assert at[hit["msgIdx"]]["truncated"]
    others = windows(long, "celeriac", contextBefore=15)[0]["window"]
    assert [item["truncated"] for item in others] == [False] * len(others)
    (begun,) = windows(long, "45", contextBefore=5, contextAfter=0)
    first = begun["window"][0]
    assert (first["msgIdx"], first["truncated"]) == (40, True)
    assert first["snippet"].startswith(LEAD * 2)
    assert len(first["snippet"].encode()) > SNIPPET_BYTES - 4


def test_a_subagents_hit_is_read_where_it_is(library: Library) -> None:
    """`sessionId` and `msgIdx` are of the session that really holds it; its meta names the parent."""
    (hit,) = windows(library.daemon, "medlar found")
    assert (hit["sessionId"], hit["meta"]["subagent"], hit["meta"]["parentSessionId"]) == (CHILD, True, PARENT)
    message = library.daemon.call("list_messages", sessionId=CHILD, around=hit["msgIdx"], limit=1)["messages"][0]
    assert "medlar" in message["text"]


def test_filters_and_limits(library: Library) -> None:
    """The filters are those of `search`, and act before the limit."""
    assert len(windows(library.daemon, "quince", limit=2)) == 2
    assert FIX in [hit["sessionId"] for hit in windows(library.daemon, "quince", cwd=library.cwd("app"))]
    assert windows(library.daemon, "quince", limit=0) == []
    assert windows(library.daemon, "nobodysaidthis") == []
    assert len(windows(library.daemon, "*", limit=10**9)) == 6


def test_what_nobody_sees_is_not_shown(long: Daemon) -> None:
    """Neither in a window nor in a page nor in a name."""
    text = "a turnip\x1b[31m red\x1b[0m\u202e\u200b hidden\U000e0041\x07 end\r\nnext\tline"
    long.write("odd.jsonl", PiSession(id="odd-1").user(text).name("n\u202ea\x1b[1mme").bytes())
    long.sync()
    shown = "a turnip red hidden end\nnext\tline"
    (hit,) = windows(long, "turnip")
    assert (hit["window"][0]["snippet"], hit["meta"]["name"]) == (shown, "name")
    assert long.texts("odd-1") == [shown]
    found = long.call("search", query="turnip")["results"][0]
    assert found["name"] == "name"
    assert found["matchedSnippet"].isprintable()


def test_it_says_all_that_a_search_says(library: Library) -> None:
    """And takes the same parameters."""
    params: dict[str, Any] = {
        "query": "quinces zzzz the",
        "limit": 1,
        "offset": 1,
        "sort": "recent",
        "fresh": True,
        "timeoutMs": 5000,
    }
    one, other = (library.daemon.call(method, **params) for method in ("search", "search_sessions"))
    assert (one["dropped"], one["words"][1]["chunks"], len(one["results"])) == (["the"], 0, 1)
    assert other["hits"][0]["sessionId"] == one["results"][0]["match"]["sessionId"]
    for field in one.keys() - {"results", "tookMs", "resultCount"}:
        assert other[field] == one[field]


def test_a_hit_says_which_words_it_has_and_where(long: Daemon) -> None:
    """A title is no message: the window is how that session begins, and `field` says so."""
    long.write("called.jsonl", PiSession(id="called-1").user("hello there, a skirret").name("Oyster plant").bytes())
    long.sync()
    (said,) = windows(long, "skirret medlarpie")
    assert (said["field"], said["matchedWords"], said["missingWords"]) == (None, ["skirret"], ["medlarpie"])
    (called,) = windows(long, "oyster")
    assert (called["field"], called["msgIdx"], called["matchedWords"]) == ("title", 0, ["oyster"])
    assert called["window"][0]["snippet"] == "hello there, a skirret"

"""What a person sees."""

import io
import itertools
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl.mcp import present
from sesamectl.render import (
    clean,
    clean_lines,
    clean_ranges,
    heading,
    index,
    number,
    pending,
    search,
    sessions,
    size,
    status,
)
from sesamectl.render.terminal import Terminal, columns, detect, fit, wrap

PLAIN = Terminal()
TERMINAL = Terminal(80, colours=False)
COLOURED = Terminal(80, colours=True)

HOSTILE = [
    "\x1b[31m", "\x9b2J", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$r\x1b\\", "\x9d0;t\x9c", "\x1bc", "\x1b", "\x07",
    "\r", "\x08", "\x7f", "\x85", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\U000e0041", "\U000e0001", "\ud800", "\0",
]  # fmt: skip


def test_a_status() -> None:
    """A status is told in a few lines."""
    times = {"p50Ms": 1.25, "p95Ms": 2, "p99Ms": 3, "samples": 9}
    text = "\n".join(
        status.lines(
            {
                "version": "0.1.0", "pid": 7, "startedAt": "T", "state": "ready", "socket": "/s",
                "database": {"path": "/i", "bytes": 1000, "walBytes": 48},
                "counts": {"sessions": 1, "messages": 2000, "toolCalls": 3, "badLines": 1, "gone": 2},
                "pending": {"files": 0, "bytes": 0},
                "indexing": {"filesDone": 1, "filesTotal": 2, "bytesDone": 0, "bytesTotal": 5 << 30},
                "freshness": times, "queries": {"p50Ms": None},
                "sources": [{"parser": "pi", "path": "/p", "mode": "polling", "sessions": 1, "warnings": ["slow"]}],
                "excluded": [
                    {"path": "/a/.sesameignore", "sessions": 1, "trouble": None},
                    {"path": "/b/.sesameignore", "sessions": 2, "trouble": "no regular\x1b[0m file"},
                ],
                "hub": {
                    "phase": "waiting", "behind": 2, "shippedAt": None, "error": "no\x1b[0m connection", "since": "T",
                    "followed": 3, "followedBytes": 2048, "followError": "no\x1b[0m room",
                },
                "warnings": [{"message": "low\x1b[0m", "since": "T"}],
            },
            PLAIN,
        )
    )  # fmt: skip
    for part in (
        "0.1.0: ready; 1 session, 2,000 messages, 3 tool calls",
        "process   7",
        "1 undecodable line (`sesamectl doctor`), 2 sessions whose file is gone",
        "1.0 KiB",
        "1 of 2 files",
        "5.0 GiB",
        "1.2 ms",
        "no samples",
        "polling",
        "slow",
        "1 session by /a/.sesameignore\n",
        "2 sessions by /b/.sesameignore (cannot be read: no regular file)",
        "low (",
        "hub       waiting; 2 sessions to go\n          no connection (since T)",
        "          follows 3 sessions of other machines (2.0 KiB)\n          no room\n",
    ):
        assert part in text


def test_a_page_that_there_is_not() -> None:
    """A message that was asked for and is not there is told; of changes, that the first ones are none to see."""
    meta = {"sessionId": "abc", "name": "n", "created": "2025-12-15T10:00:00.000Z", "messageCount": 1}
    page: dict[str, Any] = {"total": 8, "nextOffset": None, "messages": []}
    told = list(sessions.page_lines({"session": meta, "messages": page}, PLAIN, full=False, asked=8))
    assert "There is no message 8." in told
    assert "There is no message" not in "".join(
        sessions.page_lines({"session": meta, "messages": page}, PLAIN, full=False, asked=7)
    )
    changed: dict[str, Any] = {"sessions": [], "removed": [], "revision": 7, "epoch": "e"}
    assert next(iter(sessions.changes({**changed, "more": True}, PLAIN))) == "No changes so far"
    assert next(iter(sessions.changes({**changed, "more": False}, PLAIN))) == "No changes"


def test_a_status_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everything else that a person reads."""
    monkeypatch.setenv("TZ", "XXX-5")
    time.tzset()
    zeros = dict.fromkeys(("sessions", "messages", "toolCalls", "bytes", "walBytes", "files"), 0)
    state = {
        "version": "1", "pid": 7, "startedAt": "2025-12-15T20:00:03.807Z", "lastSyncAt": "2025-12-15T21:30:00.000Z",
        "state": "ready", "socket": "/s", "counts": zeros, "database": {**zeros, "path": "/i"}, "pending": zeros,
        "indexing": None, "freshness": {"p50Ms": None}, "queries": {"p50Ms": None}, "sources": [],
        "warnings": [{"message": "low", "since": "2025-12-15T19:00:00.000Z"}],
    }  # fmt: skip
    text = "\n".join(status.lines(state, PLAIN))
    for part in ("low (since 2025-12-16 00:00)", "process   7, since 2025-12-16 01:00", "changed   2025-12-16 02:30"):
        assert part in text


@pytest.mark.parametrize(
    ("files", "count", "text"),
    [(0, 0, "nothing"), (0, 153, "153 bytes of unfinished last lines"), (2, 2048, "2 files, 2.0 KiB")],
)
def test_what_is_pending(files: int, count: int, text: str) -> None:
    """An unfinished line is bytes without a file, and not nothing."""
    assert pending({"files": files, "bytes": count}) == text


def test_an_index_run() -> None:
    """An index run is told in a line, and one more when something was unreadable."""
    run = {"added": 1, "updated": 2, "skipped": 3, "gone": 0, "bytes": 10, "tookMs": 1500, "errors": 0, "badLines": 0}
    assert list(index.lines(run, PLAIN)) == ["1 added, 2 updated, 3 unchanged, 0 gone; 10 bytes read in 1.5 s"]
    assert list(index.lines({**run, "badLines": 1}, PLAIN))[1:] == [
        "1 line could not be decoded; `sesamectl doctor` says which, and why"
    ]
    assert list(index.lines({**run, "errors": 2}, PLAIN))[1:] == [
        "2 files could not be read; `sesamectl status` names them"
    ]


def test_a_page_of_a_branch() -> None:
    """Its numbers have gaps, so how many there are is said; and how it goes on."""
    session: dict[str, Any] = {
        "sessionId": "quince-1",
        "name": "a",
        "created": "2026-03-01",
        "modified": "2026-03-01",
        "source": "pi",
    }
    session |= {"messageCount": 9, "gone": False, "subagent": False, "cwd": None, "gitBranch": None}
    said: dict[str, Any] = {"role": "user", "kind": "message", "text": "b", "timestamp": None}
    page: dict[str, Any] = {"total": 5, "nextOffset": 2, "messages": [{**said, "msgIdx": 0}, {**said, "msgIdx": 7}]}
    lines = sessions.page_lines({"session": session, "messages": page}, PLAIN, full=False, branch="leaf")
    assert list(lines)[-2:] == [
        "Messages 0 to 7: 2 of the 5 of this branch.",
        "Next: sesamectl show quince-1 --branch leaf --offset 2",
    ]
    page = {"total": 5, "nextOffset": None, "messages": []}
    lines = sessions.page_lines({"session": session, "messages": page}, PLAIN, full=False, branch="leaf")
    assert list(lines)[-1] == "No messages in this range; the branch has 5."


@pytest.mark.fault(104)
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_in_any_field(text: str) -> None:
    """Of a list, a session, a status, and a machine without sessions neither."""
    numbers = {"messageCount": 1, "gone": True, "subagent": True}
    names = ("sessionId", "name", "created", "modified", "source", "cwd", "gitBranch")
    session = {**dict.fromkeys(names, f"a{text}b"), **numbers}
    message = {**dict.fromkeys(("role", "toolName", "timestamp", "text"), f"a{text}b"), "msgIdx": 0}
    page = {"total": 2, "nextOffset": 1, "messages": [{**message, "kind": kind} for kind in ("message", "tool_call")]}
    source = {"parser": text, "path": text, "mode": text, "sessions": 0, "warnings": [text]}
    numbered = dict.fromkeys(("sessions", "messages", "toolCalls", "bytes", "walBytes", "files"), 0)
    state: dict[str, Any] = {
        **dict.fromkeys(("version", "pid", "startedAt", "state", "socket"), text),
        "counts": numbered,
    }
    state |= {"database": {**numbered, "path": text}, "pending": numbered, "sources": [source], "indexing": None}
    state |= {"freshness": {"p50Ms": None}, "queries": {"p50Ms": None}, "warnings": [{"message": text, "since": text}]}
    shown = [
        *sessions.lines({"total": 2, "nextOffset": 1, "sessions": [session]}, TERMINAL),
        *sessions.page_lines({"session": session, "messages": page}, TERMINAL, full=True, asked=0),
        *status.lines(state, PLAIN),
        *search.no_sessions(state, PLAIN),
    ]
    assert len(shown) > 20
    for line in shown:
        assert_harmless(line)


@given(st.text() | st.lists(st.sampled_from([*HOSTILE, "[", "]", "\\", "0m", "a"])).map("".join))
def test_whatever_is_cleaned_is_harmless(text: str) -> None:
    """However the pieces are put together, nothing hostile is left, and cleaning again changes nothing."""
    assert_harmless(clean(text))
    assert clean(clean(text)) == clean(text)


def assert_harmless(line: str) -> None:
    assert not [c for c in line if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}]
    assert not [
        c for c in line if c in "\u200b\u200c\u200d\u2060\ufeff\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    ]
    assert not [c for c in line if 0xE0000 <= ord(c) <= 0xE007F]


def test_text_is_kept() -> None:
    """What is only text stays, on one line."""
    assert clean("a\n\tb — é 日本語 😀") == "a b — é 日本語 😀"
    assert clean("a\x1b[1;31mred\x1b[0m") == "ared"


@pytest.mark.fault(105)
@given(st.text(), st.lists(st.tuples(st.integers(-2, 30), st.integers(-2, 30))))
def test_quoted(text: str, ranges: list[tuple[int, int]]) -> None:
    """However wrong the ranges are, the text is harmless, and its ranges are in it and in order."""
    shown, found = clean_ranges(text, ranges)
    assert_harmless(shown)
    ends = [0, *(place for pair in found for place in pair), len(shown)]
    assert ends == sorted(ends)


@given(st.text(alphabet="ab 日", max_size=60), st.integers(2, 12))
def test_wrapped(text: str, width: int) -> None:
    """Lines are in order, lose nothing but blanks between them, and are no wider than they may be."""
    spans = list(wrap(text, width))
    for begin, end in spans:
        assert columns(text[begin:end]) <= width
    joined = text[spans[0][0] : spans[0][1]]
    for (_, before), (begin, end) in itertools.pairwise(spans):
        assert text[before:begin] in {"", " "}
        joined += text[before:end]
    assert text.removeprefix(joined) in {"", " "}


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 8, ["one two", "three"]),
        ("one /a/path/without/blanks", 12, ["one /a/path/", "without/blan", "ks"]),
        ("one 日本語日本語", 9, ["one 日本", "語日本語"]),
        ("日本語の three", 9, ["日本語の", "three"]),
        ("日本 language 語", 9, ["日本", "language", "語"]),
        ("日本語。日本", 7, ["日本", "語。日", "本"]),
        ("aaaa bbbb", 4, ["aaaa", "bbbb"]),
    ],
)
def test_where_lines_are_broken(text: str, width: int, lines: list[str]) -> None:
    """At blanks, within scripts that have none, and within a word if it is too long for any line."""
    assert [text[begin:end] for begin, end in wrap(text, width)] == lines


@given(st.text(alphabet="ab 日e\u0301", max_size=30), st.integers(1, 12))
def test_fitted(text: str, width: int) -> None:
    """A text that does not fit is cut, and says so."""
    shown = fit(text, width)
    assert columns(shown) <= width
    assert shown == text or (shown.endswith("…") and text.startswith(shown[:-1]))


class Screen:
    """A terminal, as far as anybody asks."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.mark.parametrize(
    ("environ", "width", "colours"),
    [
        ({"COLUMNS": "100", "TERM": "xterm"}, 100, True),
        ({"COLUMNS": "0", "TERM": "xterm", "NO_COLOR": ""}, 80, True),
        ({"COLUMNS": "5", "TERM": "xterm", "NO_COLOR": "1"}, 20, False),
        ({"COLUMNS": "x", "TERM": "dumb"}, 80, False),
        ({"TERM": "dumb", "CLICOLOR_FORCE": "1"}, 80, True),
        ({"TERM": "dumb", "FORCE_COLOR": "3"}, 80, True),
        ({"TERM": "dumb", "FORCE_COLOR": "0", "CLICOLOR_FORCE": ""}, 80, False),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, 80, False),
        ({}, 80, False),
    ],
)
def test_terminals(environ: dict[str, str], width: int, colours: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Width and colours follow from the environment."""
    for name in ("COLUMNS", "TERM", "NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    screen: Any = Screen()
    terminal = detect(screen)
    assert (terminal.width, terminal.colours) == (width, colours)
    assert (detect(screen, "always").colours, detect(screen, "never").colours) == (True, False)


def test_colours_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """`| less -R` has marks when that is said; the lines stay as long as they are."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    pipe = io.StringIO()
    assert [(detect(pipe, when).width, detect(pipe, when).colours) for when in ("auto", "always", "never")] == [
        (0, False), (0, True), (0, False),
    ]  # fmt: skip
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert detect(pipe).colours
    assert not detect(pipe, "never").colours


QUARTER = {"filesDone": 310, "filesTotal": 774, "bytesDone": 30 << 20, "bytesTotal": 120 << 20}


@pytest.mark.parametrize(
    ("state", "width", "line"),
    [
        ({}, 80, "Looking for sessions ..."),
        ({"filesDone": 0, "filesTotal": 0}, 10, "Looking f…"),
        (QUARTER, 120, "[#####...............]  25%  310 of 774 files, 30.0 MiB of 120.0 MiB, 10.0 MiB/s, 9 s left"),
        (QUARTER, 79, "[#####...............]  25%  310 of 774 files, 30.0 MiB of 120.0 MiB, 9 s left"),
        (QUARTER, 59, "[#####...............]  25%  310 of 774 files, 9 s left"),
        (QUARTER, 39, "310 of 774 files, 9 s left"),
        (QUARTER, 19, "25%, 9 s left"),
        (QUARTER, 9, "25%, 9 s…"),
        ({"filesDone": 0, "filesTotal": 4}, 60, "[....................]   0%  0 of 4 files"),
    ],
)
def test_the_bar(state: dict[str, int], width: int, line: str) -> None:
    """Files, bytes, rate and time left, as far as there is room; the time left goes last."""
    pace = index.Pace()
    if "bytesDone" in state:
        pace.measure(0, 120 << 20, 100.0)
        pace.measure(30 << 20, 120 << 20, 103.0)
    assert index.draw(state, pace, width) == line


# Seconds and MiB of a first index of 208 MiB, on a machine with other work.
FIRST_INDEX = [
    (1.7, 0),
    (3.8, 16),
    (5.9, 26),
    (8.0, 39),
    (10.1, 43),
    (12.2, 49),
    (14.2, 58),
    (16.4, 72),
    (18.5, 83),
    (20.6, 90),
    (22.7, 98),
    (24.9, 111),
    (27.0, 117),
    (29.0, 124),
    (31.2, 140),
    (33.3, 147),
    (35.5, 160),
    (37.6, 173),
    (39.6, 187),
    (41.7, 196),
    (43.2, 208),
]


def test_what_is_left_shrinks() -> None:
    """Through a whole first index; and it is about right, from its first fifth on."""
    pace, shown = index.Pace(), list[float]()
    for second, done in FIRST_INDEX:
        pace.measure(done << 20, 208 << 20, second)
        if pace.rate:
            shown.append(pace.left_s)
            truth = FIRST_INDEX[-1][0] - second
            assert second < FIRST_INDEX[-1][0] / 5 or truth / 2 - 1 < pace.left_s < truth * 1.5 + 1
    assert len(shown) > len(FIRST_INDEX) * 0.8
    assert shown == sorted(shown, reverse=True)


def test_what_is_left_is_corrected() -> None:
    """When it goes much slower than it did, that is said; and another round begins with a pace of its own."""
    pace = index.Pace()
    for second, done in ((0, 0), (4, 20), (60, 21)):
        pace.measure(done, 100, float(second))
    assert pace.left_s == pytest.approx(79 * 60 / 21)
    pace.measure(1, 50, 61.0)
    assert pace.rate == 0
    pace.measure(21, 50, 65.0)
    assert pace.rate == 5.0
    assert pace.left_s == pytest.approx(29 / 5)


def test_lines_of_a_text() -> None:
    """Lines stay lines; what belongs to an escape sequence over two lines goes."""
    assert clean_lines("a\r\nb\tc\x1b]0;x\ny\x07\n\x1b[1md") == ["a", "b   c", "d"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (5 << 40, "5120.0 GiB")]
)
def test_sizes(count: int, text: str) -> None:
    """Bytes as a person reads them."""
    assert size(count) == text


def test_numbers() -> None:
    """One thing is one thing."""
    assert (number(1, "session"), number(12345, "session")) == ("1 session", "12,345 sessions")


def test_a_session_of_another_machine_says_whose_it_is() -> None:
    """To a person and to a model."""
    session = {
        "sessionId": "there-1", "shortId": "there-1", "source": "pi", "cwd": "/p", "gitBranch": None, "messageCount": 1,
        "created": "2026-03-01T12:00:00.000Z", "modified": "2026-03-01T12:00:00.000Z", "subagent": False, "orphan": False,
        "gone": False, "parentSessionId": None, "workstation": "0a1b2c3d", "person": "an\x1b[0mna",
    }  # fmt: skip
    assert heading.about(session, 0).endswith("  of anna on 0a1b2c3d")
    assert "; of anna, on workstation 0a1b2c3d" in present.about(session)
    for own in ({**session, "person": None}, {name: value for name, value in session.items() if name != "person"}):
        assert "0a1b2c3d" not in heading.about(own, 0) + present.about(own)

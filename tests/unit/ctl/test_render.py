"""What a person sees."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamectl import render
from sesamectl.render import clean

HOSTILE = [
    "\x1b[31m", "\x9b2J", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://x\x1b\\", "\x1bP1$r\x1b\\", "\x9d0;t\x9c", "\x1bc", "\x1b", "\x07",
    "\r", "\x08", "\x7f", "\x85", "\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\U000e0041", "\U000e0001", "\ud800", "\0",
]  # fmt: skip


def hit(**more: Any) -> dict[str, Any]:
    base = {
        "sessionId": "abc12345",
        "name": "Simplify Nix flake setup",
        "score": 0.82,
        "matchedSnippet": "Let's restructure",
    }
    return {**base, "created": "2025-12-15T10:00:00.000Z", "gone": False, **more}


def answer(*hits: dict[str, Any], **more: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "query": "nix flake",
        "resultCount": len(hits),
        "results": hits,
        "words": [],
        "corrected": {},
    }
    rest: dict[str, Any] = {
        "dropped": [],
        "weak": False,
        "filteredOut": 0,
        "pending": {"files": 0, "bytes": 0},
        "warnings": [],
    }
    return {**base, **rest, **more}


def test_a_search() -> None:
    """A session is its score, id, name and date, then what matched."""
    assert list(render.search(answer(hit(), hit(name=None, matchedSnippet="", gone=True, score=1)))) == [
        'Found 2 sessions matching "nix flake"',
        "",
        "  [0.82] abc12345 (Simplify Nix flake setup) - 2025-12-15",
        '         "Let\'s restructure"',
        "",
        "  [1.00] abc12345 - 2025-12-15 (its file is gone)",
    ]


@pytest.mark.parametrize(
    ("query", "hits", "line"),
    [
        ("a", 1, 'Found 1 session matching "a"'),
        ("a", 0, 'No session matches "a"'),
        ("*", 1, "Found 1 session, newest first"),
        ("", 0, "No session"),
    ],
)
def test_the_headline(query: str, hits: int, line: str) -> None:
    """The first line says how many there are, and of what."""
    assert next(iter(render.search(answer(*[hit()] * hits, query=query)))) == line


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"corrected": {"flaek": "flake"}}, "Searched for flake instead of flaek."),
        ({"dropped": ["the", "a"]}, "Left out: the, a."),
        ({"words": [{"word": "nix", "chunks": 3}, {"word": "zzz", "chunks": 0}]}, "Nowhere in the index: zzz."),
        ({"filteredOut": 3}, "The filters left out 3 that match."),
        ({"weak": True}, "Even the best of these is hardly about it."),
        ({"pending": {"files": 2, "bytes": 2048}}, "Not yet searchable: 2 files, 2.0 KiB."),
        ({"warnings": ["no\x1b[1m events"]}, "Warning: no events"),
    ],
)
def test_how_far_it_can_be_trusted(more: dict[str, Any], line: str) -> None:
    """What limits the answer is said below it."""
    assert list(render.search(answer(**more)))[1:] == ["", line]


def test_a_corrected_word_is_not_missing() -> None:
    """A word that was corrected is not told twice."""
    more = {"words": [{"word": "flaek", "chunks": 0}], "corrected": {"flaek": "flake"}}
    assert len(list(render.search(answer(**more)))) == 3


def test_a_status() -> None:
    """A status is told in a few lines."""
    times = {"p50Ms": 1.25, "p95Ms": 2, "p99Ms": 3, "samples": 9}
    text = "\n".join(
        render.status(
            {
                "version": "0.1.0", "pid": 7, "startedAt": "T", "state": "ready", "socket": "/s",
                "database": {"path": "/i", "bytes": 1000, "walBytes": 48},
                "counts": {"sessions": 1, "messages": 2, "toolCalls": 3},
                "pending": {"files": 0, "bytes": 0},
                "indexing": {"filesDone": 1, "filesTotal": 2, "bytesDone": 0, "bytesTotal": 5 << 30},
                "freshness": times, "queries": {"p50Ms": None},
                "sources": [{"parser": "pi", "path": "/p", "mode": "polling", "sessions": 1, "warnings": ["slow"]}],
                "warnings": [{"message": "low\x1b[0m", "since": "T"}],
            }
        )
    )  # fmt: skip
    for part in (
        "0.1.0: ready",
        "pid 7",
        "1.0 KiB",
        "1 of 2 files",
        "5.0 GiB",
        "1.2 ms",
        "no samples",
        "polling",
        "slow",
        "low (",
    ):
        assert part in text


def test_an_index_run() -> None:
    """An index run is told in a line, and one more when something was unreadable."""
    run = {"added": 1, "updated": 2, "skipped": 3, "gone": 0, "bytes": 10, "tookMs": 1500, "errors": 0, "badLines": 0}
    assert list(render.index(run)) == ["1 added, 2 updated, 3 unchanged, 0 gone; 10 bytes read in 1.5 s"]
    assert len(list(render.index({**run, "badLines": 1}))) == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_hostile_is_printed(text: str) -> None:
    """Nothing that a terminal obeys, reorders or hides is printed, in whatever field it stands."""
    fields = {"sessionId": text, "name": text + "n", "matchedSnippet": text + "s", "created": text}
    more: dict[str, Any] = {"query": text, "corrected": {text: text}, "dropped": [text], "warnings": [text]}
    more["words"] = [{"word": text, "chunks": 0}]
    for line in render.search(answer(hit(**fields), **more)):
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

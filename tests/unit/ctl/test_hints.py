"""What a model is told of past sessions that are like a prompt, of answers that a daemon here would not give."""

import fcntl
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sesamectl.hints import HEADING, find_hints

from .conftest import HIT, RESULT, Stub

PROMPT = "why does the plum tree bear no fruit?"
LIKE = {
    **HIT, "source": "pi", "modified": "2025-12-15T10:00:00.000Z", "name": "Plum", "matchedSnippet": "the plum", "match": None,
    "matchedWords": ["plum", "tree", "fruit"],
}  # fmt: skip


@pytest.fixture
def held(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """A stub whose lock somebody holds, as a daemon does."""
    monkeypatch.setenv("SESAME_SOCKET", stub.path)
    with open(f"{stub.path}.lock", "w") as lock:
        lock.write(f"{os.getpid()} 0.1.0\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield stub


def hints() -> str:
    return find_hints(PROMPT, "own", time.monotonic() + 60)


def test_what_is_like_it_is_told(held: Stub) -> None:
    """The session that asks is left out by the daemon."""
    held.on("search", {**RESULT, "results": [LIKE], "weak": False})
    assert hints() == f'{HEADING}\nabc (pi, 2025-12-15 10:00) "Plum" "the plum"'
    (asked,) = held.asked
    assert asked["params"]["exclude"] == ["own"]
    assert 0 < asked["params"]["timeoutMs"] <= 60_000


@pytest.mark.parametrize(
    "answer",
    [
        {**RESULT, "results": [LIKE], "weak": True},
        {**RESULT, "results": [{**LIKE, "matchedWords": ["plum", "tree"]}], "weak": False},
        {**RESULT, "results": [{**LIKE, "matchedWords": 7}], "weak": False},
        {**RESULT, "results": [HIT], "weak": False},
        {**RESULT, "results": [{**LIKE, "modified": None}], "weak": False},
        {**RESULT, "results": None, "weak": False},
        {"weak": False},
        {},
        3,
    ],
)
def test_what_is_not_sure_or_of_another_version_is_nothing(held: Stub, answer: Any) -> None:
    """An agent waits, and has no use for a complaint."""
    held.on("search", answer)
    assert hints() == ""


def test_what_comes_too_late_is_nothing(held: Stub) -> None:
    """However good it is."""
    held.on("search", {**RESULT, "results": [LIKE], "weak": False})
    assert find_hints(PROMPT, "own", time.monotonic()) == ""
    assert held.asked == []

"""What a session is called that nobody gave a name."""

import time
from pathlib import PurePath
from typing import Any

import pytest

from sesamed.model import Fact, NameRank
from sesamed.sources import SOURCES
from sesamed.sources.names import LOOKED_AT, TITLE_CHARS, prompt_fact, session_name
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.sessions import PiSession, Transcript

SKILL = '<skill name="deploy" location="/s/SKILL.md">\nmany\nwords\n</skill>'
FILE = '<file name="/a.txt">\ncontent\n</file>'


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("why does it fail?\nlog", "why does it fail?"),
        ("\n \n  why   does\tit fail?  ", "why does it fail?"),
        (f"{SKILL}\n\nship it", "ship it"),
        (f"{FILE}\n{FILE}\n{SKILL} compare", "compare"),
        ("```\n---\nfirst words", "first words"),
        (SKILL, ""),
        ("", ""),
        ("💾 — 如月家", "💾 — 如月家"),
        ("## User Input\n\nwhy does it fail?", "why does it fail?"),
        ("# Plan", "Plan"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("```\nTypeError: x\n```\nwhy does it fail?", "why does it fail?"),
        ("~~~~\n```\nx\n~~~~\n\n# Ask\nship it\n```\ny\n```", "ship it"),
        ("<context>\nmany words\n</context>\nship it", "ship it"),
        ("<INSTRUCTIONS>\nmany words\n</INSTRUCTIONS>", "many words"),
        (f"see {FILE}", 'see <file name="/a.txt">'),
    ],
)
def test_a_name_is_the_first_line_that_a_person_wrote(text: str, name: str) -> None:
    """Without injected blocks, spaces made one."""
    assert session_name(text) == name


def test_a_long_name_is_cut_at_a_word() -> None:
    """At most 80 characters, with an ellipsis."""
    assert session_name("word " * 30) == "word " * 14 + "word…"
    assert session_name("x" * 81) == "x" * 79 + "…"
    assert session_name("x" * 80) == "x" * 80


def named(session: Transcript) -> str | None:
    """What the session is called: of the highest rank, the first prompt or the last title."""
    source = SOURCES[{PiSession: "pi", ClaudeSession: "claude", CodexSession: "codex"}[type(session)]]
    state, operations = source.begin(PurePath(session.file_name))
    for line in session.lines():
        state, more = source.step(state, line)
        operations += more
    best: dict[int, str] = {}
    for fact in operations:
        if isinstance(fact, Fact) and fact.field == "name" and (fact.keep == "last" or fact.rank not in best):
            best[fact.rank] = fact.value
    return next((best[rank] for rank in sorted(best, reverse=True) if best[rank]), None)


LONG_FILE = "# Guidelines\n" + "- Use the library that is there.\n" * 100


@pytest.mark.parametrize("make", [PiSession, ClaudeSession, CodexSession])
@pytest.mark.parametrize(
    "text",
    [
        "hey",
        "Hello!",
        "heeeey",
        "hi claude",
        "Hey there, Claude!",
        "/mode",
        "/my-skill ",
        "你好",
        "привет!",
        "a",
        "## User Input",
        "<notes>\nmany words\n</notes>",
        LONG_FILE,
    ],
    ids=lambda text: text[:12],
)
def test_what_says_nothing_is_no_name_before_a_second_prompt(make: Any, text: str) -> None:
    """Greetings, headings, injected blocks, files: the next real prompt is, and without one they are better than nothing."""
    assert named(make().user(text).assistant("Yes?").user("why does it fail?")) == "why does it fail?"
    assert named(make().user(text).assistant("Yes?").user("hello")) == session_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "hello world is printed twice",
        "/fix it",
        "/etc/hosts",
        "# Plan\nfix it",
        "ok",
        "<b>x</b> is not bold",
        "x" * 3000,
    ],
)
def test_what_says_something_is_a_name(text: str) -> None:
    """Even if it begins like a greeting, a heading, a block."""
    fact = prompt_fact(text)
    assert fact is not None
    assert fact.rank == NameRank.PROMPT


def test_of_a_very_long_prompt_the_beginning_is_looked_at() -> None:
    """Behind the blocks in front, however long they are: 20 MB of fences took 8 s."""
    fences = "```\n```\n" * (LOOKED_AT // 8)
    block = f"<file name='a'>{'x' * 2 * LOOKED_AT}</file>"
    for text, name in (
        (f"{block}why the quince", "why the quince"),
        (f"{fences[:800]}why the quince", "why the quince"),
        (f"{fences}why the quince", ""),
    ):
        assert session_name(text) == name


def test_cutting_fences_takes_time_in_proportion() -> None:
    """Of which any number may be open."""
    begun = time.process_time()
    session_name("```\n" * 100_001)
    session_name("\n".join("`" * (number % 90 + 3) for number in range(20_000)))
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "session",
    [
        PiSession().user("why?").name("word " * 15_000),
        ClaudeSession().user("why?").title("word " * 15_000),
        ClaudeSession().user("why?").ai_title("word " * 15_000),
        CodexSession().user("why?").event("thread_name_updated", thread_name="word " * 15_000),
    ],
    ids=["pi", "claude", "claude, model", "codex"],
)
def test_a_title_is_one_bounded_line(session: Transcript) -> None:
    """An extension of pi's has written 74,191 characters."""
    name = named(session)
    assert name is not None
    assert name.startswith("word word")
    assert name.endswith(" word…")
    assert len(name) <= TITLE_CHARS


@pytest.mark.parametrize(
    "notice",
    [
        "Invalid API key · Please run /login",
        "API Error: 500 {}",
        "OAuth token revoked · Please run /login",
        "Credit balance is too low",
    ],
)
def test_a_complaint_is_no_title(notice: str) -> None:
    """Claude Code has stored what came instead of a summary. A person may still call a session so."""
    session = ClaudeSession().user("why does it fail?", uuid="leaf").summary(notice, "leaf").ai_title(notice)
    assert named(session) == "why does it fail?"
    assert named(session.title(notice)) == notice

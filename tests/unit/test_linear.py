"""Texts that others wrote are looked at in linear time: while a pattern runs, nobody else is answered.

Each text would take minutes with a pattern that is quadratic on it; all of these once had one that was, or look like it. Nothing is
timed: such a test would simply not end.
"""

from collections.abc import Callable

import pytest

from sesamed.calls import find_touched, strip_quoted
from sesamed.exclusion import Ignored
from sesamed.masking import mask
from sesamed.sanitize import clean_text
from sesamed.sources.claude.records import prompt_name, prompt_of, summary_of
from sesamed.sources.codex.state import RANDOM
from sesamed.sources.names import says_something, session_name
from sesamed.store.ids import Kind
from sesamed.store.subwords import inner_words

CHARACTERS = 1 << 17
LOOKS: dict[str, tuple[Callable[[str], object], str]] = {
    "subwords": (lambda text: inner_words(Kind.USER, f"漢 {text}"), "a a0 <a"),
    "clean": (clean_text, "\x9d \x90 \x1b] \x1b[ \x9b0"),
    "summary": (summary_of, "\n <system-reminder> <system-reminder><tools-used-before-summary>"),
    "prompt": (prompt_of, "\n <system-reminder>"),
    "prompt's name": (lambda text: prompt_name(f"Implement{text}x", f"Implement{text}x"), "\n"),
    "name": (session_name, "\n <a> <a ` ~ ```\n"),
    "one element's name": (lambda text: session_name("<" + text * 4), "a a- -"),
    "an element without end": (lambda text: session_name(f"<{text[: CHARACTERS // 2]}>{text}"), "a a-"),
    "says": (says_something, "\n <a> <a"),
    "secrets": (
        mask,
        "x1 x1/ bcdfg1- password= password=' PASSWORD= ://a:b@ @ secret=bcdfgh1 eyJbcdf1. = 1//0 A1B2C3D4",
    ),
    "web tokens": (lambda text: mask(text * 8), "-eyJbcdf1"),
    "private keys": (lambda text: mask(text.replace("_", " ")), "-----BEGIN_PRIVATE_KEY-----"),
    "command": (strip_quoted, "<<a\n <<a <<'a' <<a\nb\n ' \" \\ `"),
    "substitutions": (lambda text: strip_quoted(f'"{text * 4}"'), "$( ` $(`"),
    "diff": (lambda text: list(find_touched({"patch": f"--- {text}\n"}, None, "")), "a a/ \t --- +++"),
    "rules": (
        lambda text: Ignored(text.replace("_", " ") + "]").holds("a", is_directory=False),
        "_ \\_ [ [: [[: [[:a [[:a:",
    ),
    "id": (lambda text: RANDOM.search(text), "a A"),
}
CASES = [(name, token) for name, (_, tokens) in LOOKS.items() for token in tokens.split(" ")]


@pytest.mark.timeout(20)  # of which a few hundredths are needed
@pytest.mark.parametrize(("name", "token"), CASES)
def test_any_text_is_looked_at_in_linear_time(name: str, token: str) -> None:
    look, _ = LOOKS[name]
    look(token * (CHARACTERS // len(token)))

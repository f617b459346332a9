"""Texts without what nobody sees."""

import json
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from sesamectl import render
from sesamed.methods.method import Method
from sesamed.methods.table import METHODS
from sesamed.sanitize import (
    HIDDEN,
    SEQUENCE,
    Exact,
    Line,
    clean_answer,
    clean_line,
    clean_text,
    plan_of,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n漢字 é", "plain\ttext\n漢字 é"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("\x9b1mC1\x85", "C1\n"),
        ("one\x0cpage\x0bdown", "one\npage\ndown"),
        ("zebra\x1b[01;31m\x1b[Kfish\x1b[m\x1b[K", "zebrafish"),
        ("left\x1b[10;5Hright\x9b3Cfar", "left right far"),
        ("\x00\x07\x08\x7f", ""),
        ("abc\u202edef\u2066\u200f", "abcdef"),
        ("zero\u200bwidth\ufeff\u2060\u00ad", "zerowidth"),
        ("tag" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all"), "tag"),
        ("vs\U000e0101\U000e01ef", "vs"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),  # how a heart is red
        ("\x1b]unclosed\nnext line", "unclosed\nnext line"),
        ("\x1b[3\x1b[31mword\x1b[0", "word"),  # cut in pieces
        ("\x9d0;title\x9cword \x9b31mred", "word red"),
        (
            "📝 write ✓".encode().decode("latin-1"),
            "ð write â",
        ),  # read in the wrong encoding, which is full of introducers
        ("“a” b “c”".encode().decode("latin-1"), "âaâ b âcâ"),
        ("“a” b".encode().decode("cp1252", "replace") + "\x07", "â€œaâ€\ufffd b"),
        ("â€\x9d said\x07 he", "â€ said he"),
    ],
)
def test_what_is_left(text: str, shown: str) -> None:
    """What can be read stays as it is."""
    assert clean_text(text) == shown


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    """No control character but newline and tab, no mark of direction, nothing without a width; and once is enough."""
    shown = clean_text(text)
    assert clean_text(shown) == shown
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) != "Cc"
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
        assert character not in "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
    assert "\n" not in clean_line(text)


@pytest.mark.parametrize("opener", ["\x9d", "\x1b]", "\x9b", "\x1b[0", "\r", "\u200b"])
def test_the_work_is_linear(opener: str) -> None:
    """Openers of sequences that never end are looked at once each; with the square of them this would take many minutes."""
    assert clean_text(f"{opener * 200_000}漢").endswith("漢")


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_letters_stay(text: str) -> None:
    """What is written to be read is not touched."""
    assert clean_text(text) == text


# -- answers


class Part(Struct, frozen=True):
    text: str
    path: Exact
    name: Line | None = None


class Whole(Struct, frozen=True):
    parts: list[Part]
    tags: list[Line]
    counts: Mapping[str, int]
    best: Part | None = None
    number: int = 0
    kind: Literal["a", "b"] = "a"


def test_an_answer_is_cleaned_but_for_what_is_exact() -> None:
    """Texts in it, however deep; counts under names that become equal are added up."""
    odd = Part("a\u202eb\r\nc", "a\u202eb", "d\u200be\nf")
    answer = Whole([odd], ["g\x00h"], {"ba\x1b[31msh": 1, "bash": 2}, odd)
    clean = Part("ab\nc", "a\u202eb", "de f")
    assert clean_answer(answer) == Whole([clean], ["gh"], {"bash": 3}, clean)


def test_a_clean_answer_is_the_same_one() -> None:
    """Nothing is copied for nothing."""
    answer = Whole([Part("a", "\u202e")], ["b"], {}, None)
    assert clean_answer(answer).parts is answer.parts


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_every_result_can_be_cleaned(method: Method[Any, Any]) -> None:
    """Each field's type says how."""
    result: type[Struct] = method.result
    assert plan_of(result) is not None


# -- the clients' copies of the table

EVERY_CHARACTER = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
BLOCK = 256


def hidden_by(clean: Callable[[str], str]) -> set[str]:
    """The characters of which nothing is left. A block that stays as it is has none: cleaning a million texts takes seconds."""
    blocks = (EVERY_CHARACTER[begin : begin + BLOCK] for begin in range(0, len(EVERY_CHARACTER), BLOCK))
    return {character for block in blocks if clean(block) != block for character in block if not clean(character)}


HIDDEN_CHARACTERS = hidden_by(clean_text)
BREAKS = set("\r\v\f\x85\u2028\u2029")  # the clients show those as line ends
PI = Path(__file__).parents[2] / "pi/sesame/text.ts"
PRINT_HIDDEN = """
const hidden = [];
for (let code = 0; code < 0x110000; code += 1) if (clean(String.fromCodePoint(code)) === "") hidden.push(code);
console.log(JSON.stringify(hidden));
"""


def test_the_terminal_hides_the_same() -> None:
    """The client's table is the daemon's; so are the sequences. What it makes of the table is tried at the edges of all ranges, and on
    every 61st character: all of them take seconds."""
    assert render._HIDDEN == HIDDEN
    assert render._SEQUENCE == SEQUENCE
    edges = {chr(code) for begin, end in HIDDEN for code in (begin - 1, begin, end, end + 1) if code >= 0}
    tried = {*EVERY_CHARACTER[:BLOCK], *EVERY_CHARACTER[::61], *edges, *BREAKS}
    assert {character for character in tried if not render.clean(character)} == (HIDDEN_CHARACTERS & tried) - BREAKS


def test_pi_hides_the_same() -> None:
    """As text, so that it is known where there is no node."""
    source = PI.read_text(encoding="utf-8")
    hidden = re.search(r"const HIDDEN =\s+/\[(.*)\]/gu;", source)
    sequences = re.search(r"const SEQUENCES = /(.*)/g;", source)
    assert hidden is not None
    assert sequences is not None
    code = r"(?:\\x(..)|\\u(\w{4})|\\u\{(\w+)\})"
    assert re.fullmatch(f"(?:{code}(?:-{code})?)*", hidden[1])
    ranges = re.findall(f"{code}(?:-{code})?", hidden[1])
    numbers = [(int("".join(one[:3]), 16), int("".join(one[3:]) or "".join(one[:3]), 16)) for one in ranges]
    assert tuple(numbers) == HIDDEN
    assert sequences[1] == SEQUENCE


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_pi_hides_the_same_when_it_runs() -> None:
    """Code point by code point. Of TypeScript both functions have only their types, which not every node can leave out."""
    source = PI.read_text(encoding="utf-8")
    functions = source[: source.index("\n}\n", source.index("function whole(")) + 3]
    functions = functions.replace("export ", "").replace(": string", "")
    done = subprocess.run(["node", "-e", functions + PRINT_HIDDEN], capture_output=True, check=True)
    assert set(map(chr, json.loads(done.stdout))) == HIDDEN_CHARACTERS - BREAKS

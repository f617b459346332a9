"""Texts without what nobody sees."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.sanitize import visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n漢字 é", "plain\ttext\n漢字 é"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("\x9b1mC1\x85", "C1"),
        ("\x00\x07\x08\x7f", ""),
        ("abc\u202edef\u2066\u200f", "abcdef"),
        ("zero\u200bwidth\ufeff\u2060\u00ad", "zerowidth"),
        ("tag" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all"), "tag"),
        ("vs\U000e0101\U000e01ef", "vs"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),  # how a heart is red
        ("\x1b]unclosed\nnext line", "unclosed\nnext line"),
    ],
)
def test_what_is_left(text: str, shown: str) -> None:
    """What can be read stays as it is."""
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    """No control character but newline and tab, no mark of direction, nothing without a width; and once is enough."""
    shown = visible(text)
    assert visible(shown) == shown
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
    assert "\n" not in visible_line(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0")))
def test_letters_stay(text: str) -> None:
    """What is written to be read is not touched."""
    assert visible(text) == text

"""What a person typed, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.search.query import MAX_WORD_CHARACTERS, MAX_WORDS, Query, Unit, compiled, quoted

NASTY = [
    '"', "NEAR", "NEAR(a b)", "*", "a*", "^", "(", ")", "-x", '-"x y"', '"x y"', "a:b", "AND", "OR NOT", "\0", "😀", "package.json", "'",
    "+", "{", "é", "\ud800x", "parseHTTPDate", "設定", "React組件", "-", "--", "-*", '""', '"-"', "個*",
]  # fmt: skip
TEXTS = st.text() | st.lists(st.sampled_from(NASTY) | st.text(max_size=3)).map(" ".join)


@given(TEXTS)
def test_nothing_is_lost_unsaid(text: str) -> None:
    """What is typed is asked for, left out on purpose, or named as dropped."""
    query = compiled(text)
    assert len(query.units) + len(query.excluded) <= MAX_WORDS
    said = "".join(unit.text for unit in (*query.units, *query.excluded)) + "".join(query.dropped)
    if not query.everything and len(text) < MAX_WORD_CHARACTERS:
        typed = text.encode("utf-8", "replace").decode()
        assert all(c.casefold() in said.casefold() for c in typed if c.isalnum())
    assert all(any(c.isalnum() for c in unit.text) for unit in (*query.units, *query.excluded))
    assert query.units or not query.excluded


def test_the_words_of_many_are_the_first() -> None:
    """What is too much is dropped, and said."""
    query = compiled(" ".join(f"w{number}" for number in range(100)))
    assert [unit.text for unit in query.units] == [f"w{number}" for number in range(MAX_WORDS)]
    assert len(query.dropped) == 100 - MAX_WORDS


def test_a_word_counts_once_whatever_its_case() -> None:
    """The first way of writing it stands."""
    assert compiled("Alpha alpha ALPHA beta").units == (Unit("Alpha"), Unit("beta"))


@pytest.mark.parametrize(
    ("text", "units", "excluded"),
    [
        ('"two words" three', (Unit("two words", is_phrase=True), Unit("three")), ()),
        ("alpha -beta", (Unit("alpha"),), (Unit("beta"),)),
        ('alpha -"beta gamma"', (Unit("alpha"),), (Unit("beta gamma", is_phrase=True),)),
        ("conf* x", (Unit("conf", is_prefix=True), Unit("x")), ()),
        ("alpha -be*", (Unit("alpha"),), (Unit("be", is_prefix=True),)),
        ("-alpha", (Unit("-alpha"),), ()),
        ("git --force", (Unit("git"), Unit("--force")), ()),
        ("a-b c", (Unit("a-b"), Unit("c")), ()),
        ('"open', (Unit('"open'),), ()),
        ('say"x y"', (Unit('say"x'), Unit('y"')), ()),
        ('"x y"z', (Unit('"x'), Unit('y"z')), ()),
        ("a* b", (Unit("a*"), Unit("b")), ()),
        ("alpha NOT beta", (Unit("alpha"), Unit("NOT"), Unit("beta")), ()),
    ],
)
def test_four_things_mean_something(text: str, units: tuple[Unit, ...], excluded: tuple[Unit, ...]) -> None:
    """Phrases, exclusions of either and prefixes; all the rest is text."""
    assert compiled(text) == Query(units, excluded)


def test_what_has_no_letter_or_digit_is_dropped() -> None:
    """The tokenizer would make nothing of it."""
    assert compiled("-- alpha && 😀") == Query((Unit("alpha"),), (), ("--", "&&", "😀"))


@pytest.mark.parametrize("text", ["", "*", "  ", " * "])
def test_nothing_asked_is_everything(text: str) -> None:
    """A list of all sessions."""
    assert compiled(text).everything


def test_only_signs_ask_for_nothing() -> None:
    """That finds nothing; it does not find everything."""
    assert compiled("?! --") == Query((), (), ("?!", "--"))


def test_a_quote_is_doubled() -> None:
    """SQL's own way, which is FTS5's."""
    assert quoted('a"b') == '"a""b"'

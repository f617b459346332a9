"""What a person typed, taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.sanitize import clean_text
from sesamed.store.search.terms import MAX_WORD_CHARACTERS, MAX_WORDS, MOST_TYPED, Query, Word, parse, quote

NASTY = [
    '"', "NEAR", "NEAR(a b)", "*", "a*", "^", "(", ")", "-x", '-"x y"', '"x y"', "a:b", "AND", "OR NOT", "\0", "😀", "package.json", "'",
    "+", "{", "é", "\ud800x", "parseHTTPDate", "設定", "React組件", "-", "--", "-*", '""', '"-"', "個*",
]  # fmt: skip
TEXTS = st.text() | st.lists(st.sampled_from(NASTY) | st.text(max_size=3)).map(" ".join)


@given(TEXTS)
def test_nothing_is_lost_unsaid(text: str) -> None:
    """What is typed is asked for, left out on purpose, or named as dropped."""
    query = parse(text)
    assert len(query.words) + len(query.excluded) <= MAX_WORDS
    said = "".join(word.text for word in (*query.words, *query.excluded)) + "".join(query.dropped)
    if not query.everything and len(text) < MAX_WORD_CHARACTERS:
        typed = clean_text(text.replace("\0", " ").encode("utf-8", "replace").decode())  # nobody sees the rest
        assert all(c.casefold() in said.casefold() for c in typed if c.isalnum())
    assert all(any(c.isalnum() for c in word.text) for word in (*query.words, *query.excluded))
    assert query.words or not query.excluded


def test_the_words_of_many_are_the_first() -> None:
    """What is too much is dropped, and said."""
    query = parse(" ".join(f"w{number}" for number in range(100)))
    assert [word.text for word in query.words] == [f"w{number}" for number in range(MAX_WORDS)]
    assert len(query.dropped) == 100 - MAX_WORDS


def test_of_very_many_words_those_behind_are_not_looked_at() -> None:
    """Nobody else is served while a query is parsed, and a line may have half a million words."""
    assert parse("a " * (MOST_TYPED - 1) + "beta gamma").words == (Word("a"), Word("beta"))
    assert parse("- " * (MOST_TYPED + 2)).dropped == ("-",) * MOST_TYPED + ("- -",)


def test_a_word_counts_once_whatever_its_case() -> None:
    """The first way of writing it stands."""
    assert parse("Alpha alpha ALPHA beta").words == (Word("Alpha"), Word("beta"))


@pytest.mark.parametrize(
    ("text", "words", "excluded"),
    [
        ('"two words" three', (Word("two words", is_phrase=True), Word("three")), ()),
        ("alpha -beta", (Word("alpha"),), (Word("beta"),)),
        ('alpha -"beta gamma"', (Word("alpha"),), (Word("beta gamma", is_phrase=True),)),
        ("conf* x", (Word("conf", is_prefix=True), Word("x")), ()),
        ("alpha -be*", (Word("alpha"),), (Word("be", is_prefix=True),)),
        ("-alpha", (Word("-alpha"),), ()),
        ("git --force", (Word("git"), Word("--force")), ()),
        ("a-b c", (Word("a-b"), Word("c")), ()),
        ('"open', (Word('"open'),), ()),
        ('say"x y"', (Word('say"x'), Word('y"')), ()),
        ('"x y"z', (Word('"x'), Word('y"z')), ()),
        ("a* b", (Word("a*"), Word("b")), ()),
        ("alpha NOT beta", (Word("alpha"), Word("NOT"), Word("beta")), ()),
    ],
)
def test_four_things_mean_something(text: str, words: tuple[Word, ...], excluded: tuple[Word, ...]) -> None:
    """Phrases, exclusions of either and prefixes; all the rest is text."""
    query = parse(text)
    assert (query.words, query.excluded) == (words, excluded)


def test_neighbours_are_plain_words() -> None:
    """What is marked, dropped or left out stands between the others; a word that was typed twice has a neighbour each time."""
    assert parse("a bc* c d").neighbours == ((Word("c"), Word("d")),)
    assert parse('a "b c" d -e f').neighbours == ()
    assert parse("object Object -- x").neighbours == ((Word("object"), Word("Object")),)
    assert parse("[object Object]").words == (Word("[object"),)
    assert parse("ab, AB, ab* c c++").words == (Word("ab,"), Word("ab", is_prefix=True), Word("c"))
    assert parse("a b a b").neighbours == ((Word("a"), Word("b")), (Word("b"), Word("a")))


def test_what_has_no_letter_or_digit_is_dropped() -> None:
    """The tokenizer would make nothing of it."""
    assert parse("-- alpha && 😀") == Query((Word("alpha"),), (), ("--", "&&", "😀"))


@pytest.mark.parametrize("text", ["", "*", "  ", " * "])
def test_nothing_asked_is_everything(text: str) -> None:
    """A list of all sessions."""
    assert parse(text).everything


def test_only_signs_ask_for_nothing() -> None:
    """That finds nothing; it does not find everything."""
    assert parse("?! --") == Query((), (), ("?!", "--"))


def test_a_quote_is_doubled() -> None:
    """SQL's own way, which is FTS5's."""
    assert quote('a"b') == '"a""b"'

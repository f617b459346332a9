"""What a person typed to what FTS5 is asked."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.query import MAX_WORD_CHARACTERS, MAX_WORDS, compiled, quoted

NASTY = [
    '"',
    "NEAR",
    "NEAR(a b)",
    "*",
    "^",
    "(",
    ")",
    "-x",
    "a:b",
    "AND",
    "OR NOT",
    "\0",
    "😀",
    "package.json",
    "'",
    "+",
    "{",
    "é",
    "\ud800x",
]
TEXTS = st.text() | st.lists(st.sampled_from(NASTY) | st.text(max_size=3)).map(" ".join)

CONNECTION = apsw.Connection(":memory:")
CONNECTION.execute(
    "CREATE VIRTUAL TABLE fts USING fts5(text, tokenize='porter unicode61'); INSERT INTO fts VALUES('alpha')"
)


@given(TEXTS)
def test_any_text_is_a_question_that_sqlite_accepts(text: str) -> None:
    """No character is syntax, and nothing is lost unsaid."""
    query = compiled(text)
    if query.match is not None:
        CONNECTION.execute("SELECT * FROM fts WHERE fts MATCH ?", (query.match,)).fetchall()
    assert len(query.words) <= MAX_WORDS
    assert (query.match is None) == (not query.words)
    kept = {word.casefold() for word in (*query.words, *query.dropped)}
    if not query.everything:
        assert kept == {
            word[:MAX_WORD_CHARACTERS].casefold()
            for word in text.replace("\0", " ").encode("utf-8", "replace").decode().split()
        }


def test_the_words_of_many_are_the_first() -> None:
    """What is too much is dropped, and said."""
    query = compiled(" ".join(f"w{number}" for number in range(100)))
    assert query.words == tuple(f"w{number}" for number in range(MAX_WORDS))
    assert len(query.dropped) == 100 - MAX_WORDS
    CONNECTION.execute("SELECT * FROM fts WHERE fts MATCH ?", (query.match,)).fetchall()


def test_a_word_counts_once_whatever_its_case() -> None:
    """The first way of writing it stands."""
    assert compiled("Alpha alpha ALPHA beta").words == ("Alpha", "beta")


def test_what_has_no_letter_or_digit_is_dropped() -> None:
    """The tokenizer would make nothing of it."""
    query = compiled("-- alpha && 😀")
    assert (query.words, query.dropped, query.match) == (("alpha",), ("--", "&&", "😀"), '"alpha"')


@pytest.mark.parametrize("text", ["", "*", "  ", " * "])
def test_nothing_asked_is_everything(text: str) -> None:
    """A list of all sessions."""
    assert compiled(text).everything


def test_only_signs_ask_for_nothing() -> None:
    """That finds nothing; it does not find everything."""
    query = compiled("?! --")
    assert (query.match, query.everything) == (None, False)


def test_a_quote_is_doubled() -> None:
    """SQL's own way, which is FTS5's."""
    assert quoted('a"b') == '"a""b"'

"""Words within words: what is indexed is what is shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.ids import Kind
from sesamed.store.subwords import HAS_INNER, NOTHING, identifier_parts, inner_parts, inner_words, take_apart

PIECES = [
    "parseHTTPDate",
    "streamSimple2",
    "設定",
    "React組件",
    "组件React",
    "가나다",
    "é",
    "😀",
    " ",
    "\n",
    "x",
    "aB",
    "ﾊ",
    "snake_caseWord",
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(st.characters(exclude_categories=["Cs"]), max_size=3)).map("".join)


@given(TEXTS)
def test_what_is_indexed_stands_where_it_is_shown(text: str) -> None:
    """The same words, and each at its place."""
    parts = inner_parts(text, with_pairs=True)
    assert {part.word for part in parts} == set(inner_words(Kind.USER, text).split())
    for part in parts:
        assert text.encode()[part.begin : part.end].decode() == part.word
    assert set(inner_parts(text, with_pairs=False)) <= set(parts)


@given(TEXTS)
def test_of_results_only_pairs_are_indexed(text: str) -> None:
    """Identifiers in outputs are noise."""
    assert set(inner_words(Kind.RESULT, text).split()) <= set(inner_words(Kind.USER, text).split())
    if text.isascii():
        assert inner_words(Kind.RESULT, text) == ""


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("parseHTTPDate", ["parse HTTP Date"]),
        ("x2Y", ["x 2 Y"]),
        ("snake_case", []),
        ("lower", []),
        ("a.bC.dE", ["b C", "d E"]),
        ("x" * 130 + "Y", []),
    ],
)
def test_identifiers_are_split_where_a_capital_begins(word: str, parts: list[str]) -> None:
    """What is longer than any identifier is data."""
    assert identifier_parts(word) == parts


def test_pairs_overlap() -> None:
    """So that any two neighbours are found; a single character is itself."""
    assert inner_words(Kind.USER, "檔設定 猫") == "檔設 設定 猫"


@given(TEXTS | st.from_regex(r"[a-zA-Z0-9]{1,6}", fullmatch=True))
def test_only_a_word_with_something_in_it_is_taken_apart(word: str) -> None:
    """What is asked first overlooks nothing: `sha256Sum` has parts, `SHA256` has none."""
    assert HAS_INNER.search(word) or take_apart(word) == NOTHING

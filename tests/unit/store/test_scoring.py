"""A hub's candidates are scored as the index scores its own."""

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.search.matching import weigh_by_fts5
from sesamed.store.search.scoring import measure_share, score_chunk
from sesamed.store.search.terms import Term, Terms, Word, weigh_rarity

TEXTS = st.lists(st.lists(st.sampled_from("plum pear fig kiwi lime".split()), max_size=8), min_size=1, max_size=8)


@given(TEXTS, st.sets(st.sampled_from(["plum", "pear", "fig"]), min_size=1))
def test_bm25_is_that_of_fts5(texts: list[list[str]], asked: set[str]) -> None:
    """To the last digits, but for the idf, which is known: also of words that are in most of the texts."""
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE fts USING fts5(text)")
    connection.executemany("INSERT INTO fts VALUES(?)", [(" ".join(words),) for words in texts])
    rows = connection.execute("SELECT rowid, -bm25(fts) FROM fts WHERE fts MATCH ?", (" OR ".join(asked),))
    idfs = {word: weigh_by_fts5(len(texts), sum(word in words for words in texts)) for word in asked}
    average = sum(map(len, texts)) / len(texts)
    for row, score in rows:
        words = texts[row - 1]
        held = [(idfs[word], words.count(word)) for word in asked if word in words]
        assert score_chunk(held, len(words), average) == pytest.approx(score, rel=1e-9)
    connection.close()


def test_a_word_that_is_everywhere_weighs_little_and_never_nothing() -> None:
    assert 0 < weigh_rarity(10, 12) < weigh_rarity(10, 10) < weigh_rarity(10, 9) < 0.2
    assert weigh_rarity(1000, 1) > weigh_rarity(1000, 100) > weigh_rarity(1000, 600)


def test_shares_of_a_question_are_weighed_by_its_words() -> None:
    rare, common = (Term(Word(text), chunks, (), ()) for text, chunks in (("rare", 1), ("common", 400)))
    asked = Terms((rare, common), (), (), 1000, {}, [], {})
    assert measure_share(asked, {"rare", "common"}) == 1
    assert measure_share(asked, {"rare"}) > 0.8
    assert measure_share(asked, {"common"}) < 0.2
    assert measure_share(asked, set()) == 0
    assert measure_share(asked._replace(terms=()), set()) == 1

"""How far apart two words are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.store.reading.names import distance

WORDS = st.text("abc", max_size=7)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("marsielle", "marseille", 1),
        ("abc", "abc", 0),
        ("abc", "", 3),
        ("ab", "ba", 1),
        ("ca", "abc", 3),
        ("kitten", "sitting", 3),
    ],
)
def test_distances(one: str, other: str, expected: int) -> None:
    """Swapped neighbours are one slip; nothing is changed twice."""
    assert distance(one, other, 9) == expected


@given(WORDS, WORDS, st.integers(0, 3))
def test_a_bound_only_saves_work(one: str, other: str, most: int) -> None:
    """What is within it is exact, and it makes no difference which word is first."""
    exact = distance(one, other, 99)
    bounded = distance(one, other, most)
    assert bounded == exact if exact <= most else bounded > most
    assert distance(other, one, 99) == exact
    assert abs(len(one) - len(other)) <= exact <= max(len(one), len(other))

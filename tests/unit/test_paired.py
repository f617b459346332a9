"""Whether a change of the ranking is more than chance."""

from itertools import product
from math import comb

import pytest

from bench.paired import Outcome, compare, half_of, permutation_test, read_kinds, sign_test, tabulate


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (5, 0), (6, 0), (9, 2), (2, 9), (7, 7)])
def test_gains_against_losses(gained: int, lost: int) -> None:
    """As likely as all ways in which so many coins fall as unevenly, or more."""
    number = gained + lost
    uneven = sum(comb(number, heads) for heads in range(number + 1) if abs(2 * heads - number) >= abs(gained - lost))
    assert sign_test(gained, lost) == pytest.approx(min(1.0, uneven / 2**number))


@pytest.mark.parametrize("differences", [[0.5] * 8, [1.0, -1.0, 0.5], [0.1, 0.2, -0.9, 0.3, 0.4, 0.5, 0.1]])
def test_turned_signs(differences: list[float]) -> None:
    """Near to what all ways to turn them give."""
    sums = [sum(map(float.__mul__, differences, signs)) for signs in product((1.0, -1.0), repeat=len(differences))]
    exact = sum(abs(one) >= abs(sum(differences)) - 1e-9 for one in sums) / len(sums)
    assert permutation_test(differences) == pytest.approx(exact, abs=0.03)
    assert permutation_test([0.0, 0.0]) == 1.0


def test_each_question_is_compared_with_itself() -> None:
    """Questions that one run only has been asked count for nothing; neither do sets without an answer as a whole."""
    before = [Outcome("a", "none", str(n), 2, is_weak=False) for n in range(8)] + [
        Outcome("b", "none", "x", None, is_weak=False)
    ]
    after = [Outcome("a", "none", str(n), 1, is_weak=False) for n in range(7)] + [
        Outcome("b", "none", "x", None, is_weak=True)
    ]
    rows = {row[0]: row[1:] for row in compare([*before, Outcome("a", "all", "0", 1, is_weak=False)], after).rows}
    assert rows["a"] == (
        "7",
        "none",
        "0.0 → 100.0",
        "7",
        "0",
        "**0.016**",
        "100.0 → 100.0",
        "0",
        "0",
        "1.00",
        "0.500 → 1.000",
        "**0.016**",
        "0 → 0",
    )
    assert rows["b"][-1] == "0 → 1"
    assert rows["**all of these**"][0] == "7"
    assert tabulate(after).rows[1] == ("b", "1", "none", "", "", "", "1")


def test_kinds_of_questions() -> None:
    """Some mean nothing that is there."""
    questions = read_kinds("bench/sets/kinds.tsv")
    assert len(questions) >= 120
    assert {one.group for one in questions if not one.meant} == {"everyday-absent"}
    of_time = [one for one in questions if one.group.startswith("time")]
    assert [bool(one.day) for one in of_time] == [False, True] * 45
    assert {half_of("a"), half_of("b"), half_of("c")} == {"even", "odd"}

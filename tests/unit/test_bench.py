"""What a run of the benches consists of, what is said of the machine, and which flags go together. What they measure:
tests/integration/test_bench.py."""

import os
import sys
from argparse import ArgumentTypeError
from random import Random

import pytest

from bench import __main__ as command
from bench import conditions, figures, parts, query, rivals


def choose(monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[parts.Amount, list[str]]:
    monkeypatch.setattr(sys, "argv", ["bench", *flags])
    return command._choose(command._parser().parse_args())


def test_each_part_can_be_measured() -> None:
    """All that any run consists of."""
    measures = parts.measures(parts.QUICK, {}, quick=True)
    assert {*parts.QUICK_PARTS, *parts.USUAL_PARTS, *parts.FULL_PARTS} <= measures.keys()


def test_a_full_run_has_two_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual one, and one ten times as large."""
    amount, names = choose(monkeypatch, "--full")
    assert names == list(parts.FULL_PARTS)
    sizes = {name: parts.size_of(name, amount) for name in names}
    assert (sizes["query"], sizes["query" + figures.LARGE]) == (100_000, 1_000_000)
    amount, _ = choose(monkeypatch, "--full", "--messages", "500", "--pause", "2")
    assert (parts.size_of("query", amount), parts.size_of("idle_large", amount)) == (500, 5000)
    assert (amount.pause_s, amount.rounds) == (2.0, parts.FULL.rounds)


def test_some_parts_in_the_order_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, "--only", "idle,cold")[1] == ["cold", "idle"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--only", "cold,colder"], "no part is called colder; there are cold, loading, append"),
        (["--quick", "--only", "query_large"], "no part is called query_large"),
        (["--quick", "--store"], "leave out --store"),
        (["--corpus", "somewhere", "--store"], "leave out --store"),
    ],
)
def test_what_cannot_be_measured_or_kept(monkeypatch: pytest.MonkeyPatch, flags: list[str], said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        choose(monkeypatch, *flags)


def test_conditions_are_read_by_the_readme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Date and machine come first, the corpus last but one; all of the machine's state is in the last part."""
    monkeypatch.setattr(conditions, "SPIN_TURNS", 10)
    said = conditions.Conditions("not raised").describe("7 messages in 1 sessions").split("; ")
    assert said[-2] == "7 messages in 1 sessions"
    for what in ("load ", "others on ", "spin ", "not raised"):
        assert what in said[-1]


@pytest.mark.parametrize("text", ["grep=sh", "rg=", "rg", "rg=/nowhere/rg"])
def test_a_rival_that_cannot_be_run(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="PROGRAM can be run"):
        rivals.parse_program(text)


def test_a_rival_by_its_path() -> None:
    assert rivals.parse_program(f"rg={sys.executable}") == ("rg", os.path.abspath(sys.executable))


def test_kinds_of_questions() -> None:
    """Each is what it is called."""
    words = query.Pool(
        ["zebu"],
        ["parsnips", "cupboard"],
        ["the", "file"],
        [["the", "file", "zebu"] * 5],
        ["parsnips", "the", "of", "a"],
    )
    made = {name: " ".join(make()) for name, make in query.other_kinds(words, Random(1)).items()}
    slip = made["1 word with a slip"]
    assert slip not in words.mid
    assert any(sorted(slip) == sorted(word) and slip[0] == word[0] for word in words.mid)
    assert len(made["absent word, 10 letters"]) == 10
    assert (made["prefix, 4 letters"], made["prefix, 3 letters"]) == ("pars*", "par*")
    assert made["phrase of 2 common words"] == '"the file"'
    assert len(query.draw_questions(words._replace(texts=[["word"] * 20]), Random(1), 2)) == 12

"""Figures in documents are those of the stored runs of the benches."""

import re
from pathlib import Path

import pytest

from bench import figures, parts

SHOWN = {path: figures.BLOCK.findall(path.read_text(encoding="utf-8")) for path in figures.DOCUMENTS}


@pytest.mark.parametrize("path", [path for path, blocks in SHOWN.items() if blocks], ids=lambda path: path.name)
def test_documents_show_what_is_stored(path: Path) -> None:
    """To the letter: nothing is written into a block by hand."""
    document = path.read_text(encoding="utf-8")
    assert figures.render(document, figures.load()) == document, "`python -m bench.figures` writes it anew"


def test_all_that_is_stored_is_shown() -> None:
    """Each bench in one place, and what the README chooses in the README."""
    names = [name for blocks in SHOWN.values() for _, name, _ in blocks]
    own = [name for name in figures.load() if not figures.is_of_full(name)]
    assert sorted(names) == sorted([*own, "summary", "goals", "full"])
    assert [name for _, name, _ in SHOWN[figures.PROJECT / "README.md"]] == ["summary"]


def test_a_full_run_is_shown_whole() -> None:
    """Each of its parts has a place: its own one, or behind the usual ones, the large ones last and in the order of the run."""
    stored = figures.load()
    places = {name for blocks in SHOWN.values() for _, name, _ in blocks}
    measured = {
        name: figures.Measured(f"by {name}", [])
        for name in parts.FULL_PARTS
        if not (name in places and not figures.is_of_full(name))
    }
    _, _, document = (figures.PROJECT / "docs/benchmarks.md").read_text("utf-8").partition("<!-- end of figures -->\n")
    document = figures.render(document, stored | measured)
    shown = re.findall(r"^Measured by (\w+)\.$", document, re.MULTILINE)
    assert sorted(shown) == sorted(measured)
    large = [name for name in shown if name.endswith(figures.LARGE)]
    assert shown[-len(large) :] == large == [name + figures.LARGE for name in figures.FULL]


def test_a_goal_of_what_was_not_measured_says_so() -> None:
    """And one of what was, shows it."""
    stored = figures.load()
    without = {name: bench for name, bench in stored.items() if name != "client"}
    document = (figures.PROJECT / "docs/benchmarks.md").read_text("utf-8")
    (whole,) = [line for line in figures.render(document, stored).split("\n") if "| p50 ≤ 8 ms |" in line]
    assert re.search(r"\| [\d.]+ ms \|$", whole)
    blocks = document.partition("<!-- figures: client -->")[0]
    (lacking,) = [line for line in figures.render(blocks, without).split("\n") if "| p50 ≤ 8 ms |" in line]
    assert lacking.endswith(f"| {figures.NOT_STORED} |")


def test_another_run_is_another_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bench measures is stored in the place of what it measured before, and shown."""
    stored = figures.load()
    (tmp_path / "figures.json").write_bytes(figures.STORED.read_bytes())
    monkeypatch.setattr(figures, "STORED", tmp_path / "figures.json")
    table = stored["query"].tables[0]
    again = table._replace(rows=[(*row[:2], "47.11", *row[3:]) for row in table.rows])
    figures.store({"query": figures.Measured("today; a slow one; 7 messages in 1 sessions; load 9", [again])})
    document = figures.render((figures.PROJECT / "README.md").read_text(encoding="utf-8"), figures.load())
    assert "| 47.11 ms |" in document
    assert "Measured today on a slow one:" in document
    assert "| 7 messages in 1 sessions | median |" in document
    assert figures.load()["cold"] == stored["cold"]

"""Figures in documents are those of the stored runs of the benches."""

from pathlib import Path

import pytest

from bench import figures

SHOWN = {path: figures.BLOCK.findall(path.read_text(encoding="utf-8")) for path in figures.DOCUMENTS}


@pytest.mark.parametrize("path", [path for path, blocks in SHOWN.items() if blocks], ids=lambda path: path.name)
def test_documents_show_what_is_stored(path: Path) -> None:
    """To the letter: nothing is written into a block by hand."""
    document = path.read_text(encoding="utf-8")
    assert figures.render(document, figures.load()) == document, "`python -m bench.figures` writes it anew"


def test_all_that_is_stored_is_shown() -> None:
    """Each bench in one place, and what the README chooses in the README."""
    names = [name for blocks in SHOWN.values() for _, name, _ in blocks]
    assert sorted(names) == sorted([*figures.load(), "summary", "goals"])
    assert [name for _, name, _ in SHOWN[figures.PROJECT / "README.md"]] == ["summary"]


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

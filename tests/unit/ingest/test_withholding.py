"""What is decided of a unit while the rules of its project change, or cannot be looked for."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamed.ingest import project
from sesamed.ingest.project import Projects, Verdict
from sesamed.ingest.withholding import Withholding
from sesamed.model import Fact, Identity
from sesamed.store.reading.summary import list_projects
from sesamed.store.rows import Cursor, FileRows, Signature, Withheld
from tests.support.history import History
from tests.support.sessions import PiSession


class _ChangedMeanwhile(Projects):
    """Another thread looks again, after somebody has changed the rules, while this one decides."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def judge(self, cwd: str) -> Verdict | None:
        verdict = super().judge(cwd)
        if self._file.read_bytes() == b"":
            self._file.write_text("*.md\n")
            self.refresh()
        return verdict


def test_what_is_allowed_meanwhile_is_kept(tmp_path: Path) -> None:
    """Who looked for what the new rules let in could not see yet that this one was to be left out."""
    (tmp_path / ".git").mkdir()
    file = tmp_path / ".sesameignore"
    file.touch()
    withholding = Withholding(_ChangedMeanwhile(file))
    change = FileRows(
        path=b"/s.jsonl",
        root="/",
        source="pi",
        source_version=1,
        signature=Signature(1, 1, 1, 1, 1),
        cursor=Cursor(),
        complete=True,
        identity=Identity(native_id="one", origin=""),
        facts=[Fact(field="cwd", value=str(tmp_path))],
    )
    assert withholding.decide(change) is None
    assert withholding.find(b"/s.jsonl") is None
    file.write_text("*\n")
    withholding.projects.refresh()
    assert withholding.decide(change) is not None


@pytest.fixture
def history(monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    monkeypatch.setattr(project, "FRESH_S", 0.0)
    made = History()
    yield made
    made.close()


def _fail(monkeypatch: pytest.MonkeyPatch, number: int, names: str, *paths: Path) -> None:
    """These functions of `os` fail for exactly these paths."""

    def make(call: Any) -> Any:
        def failing(path: Any, *more: Any, **named: Any) -> Any:
            if path in map(str, paths):
                raise OSError(number, os.strerror(number), path)
            return call(path, *more, **named)

        return failing

    for name in names.split():
        monkeypatch.setattr(os, name, make(getattr(os, name)))


def test_a_project_that_is_closed_lets_nothing_in(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with `chmod 000`: neither what was withheld, nor what grows, nor what is new."""
    place = history.base / "project"
    (place / ".git").mkdir(parents=True)
    (place / ".sesameignore").touch()
    session = PiSession(id="one", cwd=str(place)).user("a quince")
    path = history.write(history.roots[0] / "one.jsonl", session.bytes())
    history.look_at_everything()
    projects = history.ingest.decoder.withholding.projects
    projects.refresh()
    _fail(monkeypatch, errno.EACCES, "open lstat", place / ".sesameignore", place / ".git")
    projects.refresh()
    assert not history.ingest.read_included()
    history.append(path, session.user("a medlar").last_line())
    new = PiSession(id="two", cwd=str(place / "src")).user("a pear")
    history.write(history.roots[0] / "two.jsonl", new.bytes())
    history.look_at_everything()
    assert history.dump()["sessions"] == {}
    assert len(history.ingest.states.withheld) == 2
    monkeypatch.undo()
    (place / ".sesameignore").unlink()
    projects.refresh()
    assert history.ingest.read_included()
    history.look_at_everything()
    assert sorted(history.dump()["sessions"]) == ["pi:one", "pi:two"]


@pytest.mark.parametrize("is_excluded", [True, False])
def test_a_session_waits_while_its_project_cannot_be_told(
    history: History, monkeypatch: pytest.MonkeyPatch, is_excluded: bool
) -> None:
    """Too few descriptors for the `.git` of its worktree: it is neither let in nor stored under another project, and nothing is lost."""
    main, linked = history.base / "main", history.base / "linked"
    git_dir = main / ".git/worktrees/linked"
    git_dir.mkdir(parents=True)
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {git_dir}\n")
    (main / ".sesameignore").touch() if is_excluded else None
    session = PiSession(id="one", cwd=str(linked)).user("a quince")
    path = history.write(history.roots[0] / "one.jsonl", session.bytes().removesuffix(b"\n"))
    history.now += 60
    target = history.sweep.target(os.fsencode(path))
    assert target is not None
    with monkeypatch.context() as patched:
        _fail(patched, errno.EMFILE, "open", linked / ".git")
        history.ingest.run([target])
        (state,) = history.ingest.states.list_unreadable()
    assert state.trouble == "Too many open files"
    assert history.dump()["sessions"] == {}
    history.look_at_everything()
    texts = [item[4] for one in history.dump()["sessions"].values() for item in one["items"]]
    assert len(history.ingest.states.withheld) == is_excluded
    assert texts == ([] if is_excluded else ["a quince"])
    assert list_projects(history.ingest.writer.connection) == ([] if is_excluded else [str(main)])


def test_what_was_withheld_stays_so_while_nobody_can_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks through what is withheld asks for no session in particular, so there is nobody who could wait."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    git_dir = main / ".git/worktrees/linked"
    git_dir.mkdir(parents=True)
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {git_dir}\n")
    withholding = Withholding(Projects())
    why = Withheld(os.fsencode(main / ".sesameignore"), str(linked), "one", "", None, True)
    withholding.load(b"one.jsonl", "pi", why)
    with monkeypatch.context() as patched:
        _fail(patched, errno.EMFILE, "open", linked / ".git")
        assert withholding.find(b"one.jsonl") == why
    assert withholding.find(b"one.jsonl") is None

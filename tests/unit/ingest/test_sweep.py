"""Roots and what lies below them."""

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sesamed.exclusion import Exclusion
from sesamed.ingest import sweep as module
from sesamed.ingest.decode import Decoder, ReadLimits
from sesamed.ingest.look import Ingest
from sesamed.ingest.sweep import Root, Sweep
from sesamed.ingest.tail import signature
from sesamed.sources import SOURCES
from sesamed.sources.opencode import OpenCode
from sesamed.sources.pi import Pi
from sesamed.store.rows import Signature
from tests.support.history import History
from tests.support.sessions import PiSession

SHAPES = {"pi": Pi.shapes}


@pytest.fixture
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


@pytest.fixture
def entered(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The directories that are listed."""
    found: list[bytes] = []
    scandir = os.scandir

    def watched(path: bytes) -> "os._ScandirIterator[bytes]":
        if isinstance(path, bytes):  # others are globs
            found.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", watched)
    return found


def swept(history: History, *roots: Path, exclude: Sequence[str] = ()) -> list[Path]:
    """What is due below these roots."""
    sweep = Sweep([Root("pi", str(root)) for root in roots or history.roots], Exclusion(exclude), SHAPES)
    return [Path(os.fsdecode(due.target.path)) for due in sweep.due(history.ingest)]


def session(path: Path) -> Path:
    """A small session there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(PiSession().user("hi").bytes())
    return path


@pytest.mark.fault(20)
def test_the_newest_comes_first(history: History) -> None:
    """Today's work is findable while an archive is still being read."""
    files = [session(history.roots[at % 2] / f"{at}.jsonl") for at in range(4)]
    for at, file in enumerate(files):
        os.utime(file, (at * 7 % 4, at * 7 % 4))
    assert swept(history) == sorted(files, key=lambda file: -file.stat().st_mtime)


def test_nothing_is_made_for_a_file_that_is_unchanged(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """One `lstat` for each, and no object that is kept. What differs in any way is due."""
    files = [session(history.roots[0] / f"{at}.jsonl") for at in range(5)]
    sweep = Sweep([Root("pi", str(history.roots[0]))], Exclusion(), SHAPES)
    history.ingest.run([due.target for due in sweep.due(history.ingest)])
    asked, made, lstat = list[bytes](), list[object](), os.lstat

    def count(path: bytes | str) -> os.stat_result:
        asked.append(os.fsencode(path))
        return lstat(path)

    def make(status: os.stat_result) -> Signature:
        made.append(status)
        return signature(status)

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", count)
        patch.setattr(module, "signature", make)
        assert sweep.due(history.ingest) == []
    ours = [path for path in asked if path.endswith(b".jsonl")]
    assert (sorted(ours), made) == (sorted(map(os.fsencode, files)), [])
    assert sweep.roots[0].files == 5
    os.utime(files[0], (1, 1))
    files[1].chmod(0o400)
    files[2].write_bytes(files[2].read_bytes() + PiSession().user("more").bytes())
    files[3].unlink()
    assert {os.fsdecode(due.target.path) for due in sweep.due(history.ingest)} == set(map(str, files[:4]))


def test_only_session_files_at_any_depth(history: History) -> None:
    """Whatever else lies there."""
    root = history.roots[0]
    files = {
        session(root / "a.jsonl"),
        session(root / "x" / "y" / "b.jsonl.zst"),
        session(root / ".hidden" / "c.jsonl"),
    }
    for name in ("a.json", "b.jsonl.bak", "jsonl", "c.JSONL"):
        session(root / name)
    os.mkfifo(root / "fifo.jsonl")
    (root / "directory.jsonl").mkdir()
    assert set(swept(history)) == files


@pytest.mark.fault(47)
def test_links_are_not_followed(history: History) -> None:
    """Neither to files nor to directories; a root itself may be one."""
    outside = history.base / "outside"
    session(outside / "a.jsonl")
    root = history.roots[0]
    (root / "file.jsonl").symlink_to(outside / "a.jsonl")
    (root / "directory").symlink_to(outside)
    (root / "loop").symlink_to(root)
    assert swept(history) == []
    link = history.base / "link"
    link.symlink_to(outside)
    assert swept(history, link) == [outside / "a.jsonl"]


def test_a_root_in_a_root_is_walked_once(history: History) -> None:
    """And its files are its own."""
    inner = history.roots[0] / "inner"
    files = [session(history.roots[0] / "a.jsonl"), session(inner / "b.jsonl")]
    sweep = Sweep([Root("pi", str(history.roots[0])), Root("pi", str(inner))], Exclusion(), SHAPES)
    found = {due.target.path: due.target.root for due in sweep.due(history.ingest)}
    assert found == {os.fsencode(files[0]): str(history.roots[0]), os.fsencode(files[1]): str(inner)}
    assert [root.files for root in sweep.roots] == [1, 1]
    target = sweep.target(os.fsencode(files[1]))
    assert target is not None
    assert target.root == str(inner)


def test_a_root_that_is_a_link_does_not_uncover_what_is_excluded(history: History, tmp_path: Path) -> None:
    """Neither by the link's name nor by that of what it leads to."""
    session(history.roots[0] / "a.jsonl")
    link = tmp_path / "clients"
    link.symlink_to(history.roots[0])
    assert swept(history, link, exclude=["clients"]) == []
    assert swept(history, link, exclude=["**/c*/a.jsonl"]) == []
    assert swept(history, link, exclude=[history.roots[0].name]) == []
    assert swept(history, link, exclude=["others"]) == [history.roots[0] / "a.jsonl"]


def test_what_is_excluded_is_never_entered(history: History, entered: list[bytes]) -> None:
    """Not even a directory's names are read."""
    session(history.roots[0] / "secret" / "a.jsonl")
    kept = session(history.roots[0] / "open" / "a.jsonl")
    session(history.roots[0] / "open" / "b.jsonl")
    assert swept(history, exclude=["secret", "b.jsonl"]) == [kept]
    assert not any(b"secret" in path for path in entered)
    sweep = Sweep([Root("pi", str(history.roots[0]))], Exclusion(["secret"]), SHAPES)
    assert sweep.target(os.fsencode(history.roots[0] / "secret" / "a.jsonl")) is None


def test_where_no_pattern_leads_is_never_entered(history: History, entered: list[bytes]) -> None:
    """However much there is: OpenCode keeps git repositories beside its sessions."""
    top = history.base / "opencode"
    kept = top / "storage/session/p/ses_1.json"
    for path in (kept, *(top / f"snapshot/{at}/storage/session/p/ses_2.json" for at in range(300))):
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    entered.clear()
    sweep = Sweep([Root("opencode", str(top))], Exclusion(), {"opencode": OpenCode.shapes})
    ingest = Ingest(history.ingest.writer, Decoder(SOURCES, ReadLimits()), history.ingest.states)
    assert [due.target.path for due in sweep.due(ingest)] == [os.fsencode(kept)]
    assert len(entered) == sweep.roots[0].directories == 4
    assert sweep.due_below(str(top / "snapshot"), ingest) == []
    assert len(entered) == 4


def test_what_is_swept_is_what_is_watched(history: History, entered: list[bytes]) -> None:
    """Of every directory: excluded, below another root, outside; roots of two sources that share it."""
    top = history.base / "opencode"
    for name in ("storage/session/p", "storage/other", "snapshot/a", "snapshot/pi/deep", "project/secret/storage"):
        (top / name).mkdir(parents=True)
    shapes = {"opencode": OpenCode.shapes, **SHAPES}
    roots = [Root("opencode", str(top)), Root("pi", str(top / "snapshot/pi"))]
    sweep = Sweep(roots, Exclusion(["secret"]), shapes)
    sweep.due(history.ingest)
    there = [top, *(path for path in top.rglob("*"))]
    assert {os.fsdecode(path) for path in entered} == {str(path) for path in there if sweep.enters(str(path))}
    assert not sweep.enters(str(top.parent))
    assert not sweep.enters(f"{top}-other")
    assert sum(root.directories for root in roots) == len(entered) == 7
    shared = Sweep([Root("opencode", str(top)), Root("pi", str(top))], Exclusion(), shapes)
    assert shared.enters(str(top / "snapshot/a"))


def test_what_is_known_and_unchanged_is_not_due(history: History) -> None:
    """One stat a file; what is gone is due once."""
    file = session(history.roots[0] / "a.jsonl")
    history.look_at_everything()
    assert swept(history) == []
    file.unlink()
    assert swept(history) == [file]
    history.look([file])
    assert swept(history) == []


@pytest.mark.fault(21)
def test_a_root_that_is_not_there_makes_nothing_gone(history: History) -> None:
    """Unmounted is not deleted; and it is noticed when it returns."""
    session(history.roots[0] / "a.jsonl")
    history.look_at_everything()
    away = history.roots[0].with_suffix(".away")
    history.roots[0].rename(away)
    assert swept(history) == []
    history.look([history.roots[0] / "a.jsonl"])
    assert not history.dump()["sessions"].popitem()[1]["gone"]
    away.rename(history.roots[0])
    assert swept(history) == []


def test_a_root_that_cannot_be_looked_at_is_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its `.sesameignore` would count no more, and events below it be nobody's."""
    (tmp_path / "sessions").mkdir()
    root = Root("pi", str(tmp_path / "sessions"))
    assert root.resolve()
    look = os.stat

    def refuse(path: Any, **how: Any) -> os.stat_result:
        if path == root.path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look(path, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refuse)
        assert not root.resolve()
        assert root.real == str(tmp_path / "sessions")
    (tmp_path / "sessions").rmdir()
    assert root.resolve()
    assert root.real is None


def test_a_tree_is_looked_at_like_a_root(history: History) -> None:
    """What has come and what has gone in one directory."""
    gone, kept = session(history.roots[0] / "x" / "gone.jsonl"), session(history.roots[0] / "x" / "kept.jsonl")
    session(history.roots[0] / "other.jsonl")
    history.look_at_everything()
    gone.unlink()
    new = session(kept.parent / "y" / "new.jsonl")
    session(history.roots[0] / "also-new.jsonl")
    due = history.sweep.due_below(str(kept.parent), history.ingest)
    assert {item.target.path for item in due} == {os.fsencode(gone), os.fsencode(new)}


def test_a_name_that_is_no_text_is_a_file_as_well(history: History) -> None:
    """Names are bytes."""
    path = os.fsencode(history.roots[0]) + b"/\xff\n\x1b.jsonl"
    Path(os.fsdecode(path)).write_bytes(PiSession(id="odd").user("hi").bytes())
    history.look_at_everything()
    assert "\ufffd" in history.dump()["sessions"]["pi:odd"]["path"]


# -- faults


class Broken:
    """A root whose listing fails in a way that nobody expects, while `path` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path: Path | None = None
        self._scandir = os.scandir
        monkeypatch.setattr(os, "scandir", self)

    def __call__(self, path: bytes) -> "os._ScandirIterator[bytes]":
        if self.path is not None and os.fsencode(self.path) == path:
            raise RuntimeError("the file system is beside itself")
        return self._scandir(path)


def test_a_fault_in_one_root_does_not_stop_the_others(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, nothing of that root is gone, and the next sweep tries again."""
    one, other = (session(root / "x/a.jsonl") for root in history.roots[:2])
    sweep = Sweep([Root("pi", str(root)) for root in history.roots[:2]], Exclusion(), SHAPES)
    history.ingest.run([due.target for due in sweep.due(history.ingest)])
    for file in (one, other):
        file.write_bytes(file.read_bytes() + PiSession().user("more").last_line())
    broken = Broken(monkeypatch)
    broken.path = one.parent
    first, second = sweep.roots
    for _ in range(2):
        assert [due.target.path for due in sweep.due(history.ingest)] == [os.fsencode(other)]
        assert first.trouble is not None
        assert (second.trouble, second.files, first.files) == (None, 1, 1)
    broken.path = None
    assert len(sweep.due(history.ingest)) == 2
    assert first.trouble is None


def test_sweeps_at_one_time_count_each_file_once(history: History) -> None:
    """A question and the clock may both begin one."""
    root = history.roots[0]
    for at in range(3):
        session(root / f"{at}.jsonl")
    sweep = Sweep([Root("pi", str(root))], Exclusion(), SHAPES)
    walk, begun = sweep._walk, list[int]()

    def meanwhile(*arguments: Any) -> Iterator[Any]:
        for number, item in enumerate(walk(*arguments)):
            if number == 2 and not begun:
                begun.append(number)
                sweep.due(history.ingest)
            yield item

    sweep._walk = meanwhile  # type: ignore[method-assign, assignment]  # another sweep in the middle of this one
    sweep.due(history.ingest)
    assert begun
    assert (sweep.roots[0].files, sweep.roots[0].directories) == (3, 1)

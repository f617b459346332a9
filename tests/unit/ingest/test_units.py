"""Which unit a file belongs to, and how units look."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.ingest.units import BetterFiles, UnitFinder, list_better, list_members, look_at
from sesamed.source import Bundle, Document, Rows
from tests.support.history import same
from tests.support.letters import Desk, with_sessions
from tests.support.whole_sources import Folders, Tables

FOLDERS = UnitFinder(Folders.shapes)
BUNDLE = Folders.shapes[0]
FILES = (
    "session/p/s1.json", "session/p/s2.json", "message/s1/m1.json", "message/s1/m2.json", "part/m1/p2.json", "part/m1/p1.json",
    "part/m2/p3.json", "message/s2/m4.json", "part/m9/p9.json",
)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    return str(tmp_path)


def test_members_are_read_an_answer_at_a_time(root: str) -> None:
    """Each with its parts."""
    assert isinstance(BUNDLE, Bundle)
    found = [
        os.path.relpath(os.fsdecode(path), root)
        for path, _ in list_members(BUNDLE, os.fsencode(f"{root}/session/p/s1.json"), root)
    ]
    assert found == [FILES[0], FILES[2], FILES[5], FILES[4], FILES[3], FILES[6]]


@pytest.mark.parametrize(
    ("member", "unit"),
    [*((name, "session/p/s1.json") for name in (FILES[0], *FILES[2:7])), ("message/s2/m4.json", "session/p/s2.json"),
     ("part/m9/p9.json", None),
     ("session/p/s3.json", "session/p/s3.json"), ("message/s3/m1.json", None), ("other.json", None), ("session/s1.json", None)],
)  # fmt: skip
def test_a_member_leads_to_its_unit(root: str, member: str, unit: str | None) -> None:
    """Also by way of others; an orphan belongs to none, and comes with what leads to it."""
    expected = None if unit is None else os.fsencode(f"{root}/{unit}")
    assert FOLDERS.find_unit(os.fsencode(f"{root}/{member}"), root) == expected
    assert FOLDERS.find_unit(os.fsencode(f"{root}/{member}"), root) == expected  # from what was found


def test_a_bundle_looks_otherwise_when_a_member_does(root: str) -> None:
    """Comes, grows, goes; and is not there without the file that it is known by."""
    unit, seen = os.fsencode(f"{root}/session/p/s1.json"), set()
    for change in (
        lambda: None,
        lambda: Path(root, "part/m1/p7.json").write_text("{}"),
        lambda: Path(root, "part/m2/p3.json").write_text("{ }"),
        lambda: Path(root, "part/m1/p7.json").unlink(),
    ):
        change()
        now = look_at(BUNDLE, unit, root)
        assert now is not None
        seen.add(now)
    assert len(seen) == 4
    Path(root, "session/p/s1.json").unlink()
    assert look_at(BUNDLE, unit, root) is None


def test_what_cannot_be_listed_concerns_the_bundles_that_it_may_have_something_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others it is known what is better than they; a link to itself is no directory."""
    bundle = Bundle(unit="logs/{id}.log", members=("logs/{id}.log",), better=("chats/{group}/{id}/store.db",))
    for name in ("logs/s1.log", "chats/g1/s1/store.db", "chats/g2/s2/store.db"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "chats/loop").symlink_to(tmp_path / "chats/loop")
    unit = os.fsencode(tmp_path / "logs/s1.log")
    better = BetterFiles(str(tmp_path))
    found = [os.fsencode(tmp_path / "chats/g1/s1/store.db")]
    assert list(better.find(bundle, unit)) == list(list_better(bundle, unit, str(tmp_path))) == found

    list_names = os.listdir

    def list_directory(path: bytes) -> list[bytes]:
        if path == os.fsencode(tmp_path / "chats/g2"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return list_names(path)

    monkeypatch.setattr("os.listdir", list_directory)
    assert list(BetterFiles(str(tmp_path)).find(bundle, unit)) == found


def test_the_wal_is_its_database(tmp_path: Path) -> None:
    """And so are no other files beside it."""
    finder = UnitFinder((*Tables.shapes, Document(files=("*.txt",))))
    for name, unit in {
        "x.db": "x.db",
        "x.db-wal": "x.db",
        "x.db-shm": None,
        "x.txt": "x.txt",
        "x.txt-wal": None,
    }.items():
        expected = None if unit is None else os.fsencode(tmp_path / unit)
        assert finder.find_unit(os.fsencode(tmp_path / name), str(tmp_path)) == expected
    assert isinstance(finder.find(b"x.db"), Rows)


def test_a_bundle_may_be_a_directory(tmp_path: Path) -> None:
    """With all that it is in it."""
    finder = UnitFinder((Bundle(unit="tasks/{id}", members=("tasks/{id}/history.json", "tasks/{id}/meta.json")),))
    task = tmp_path / "tasks/[1]"
    task.mkdir(parents=True)
    (task / "meta.json").touch()
    assert finder.find_unit(os.fsencode(task / "meta.json"), str(tmp_path)) == os.fsencode(task)
    assert finder.find(b"tasks/[1]") is not None
    assert finder.find(b"tasks/[1]/meta.json") is None


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.close()


def line(key: int, text: str) -> bytes:
    """A message."""
    return json.dumps({"key": key, "text": text}).encode() + b"\n"


def test_each_session_of_a_file_is_a_unit(desk: Desk) -> None:
    """The first one begins with the file; an appended line is the last one's."""
    desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n" + line(2, "beta"))
    desk.look()
    sessions = desk.dump()["sessions"]
    assert {name: session["name"] for name, session in sessions.items()} == {
        "chronicles:a-0": None,
        "chronicles:a-1": "second",
    }
    assert {session["path"] for session in sessions.values()} == {str(desk.base / "chronicles/a.chronicle")}
    data = (desk.base / "chronicles/a.chronicle").read_bytes()
    desk.write("chronicles/a.chronicle", data + line(3, "gamma") + b"# third\n" + line(4, "delta"))
    assert desk.look().bytes == len(line(3, "gamma") + b"# third\n" + line(4, "delta"))
    assert [desk.texts(f"chronicles:a-{n}") for n in range(3)] == [["alpha"], ["beta", "gamma"], ["delta"]]


def test_sessions_that_a_file_holds_no_more_are_kept(desk: Desk) -> None:
    """As everything that goes; and so are those of a file that is gone, until it comes back."""
    path = desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n" + line(2, "beta"))
    desk.look()
    desk.write("chronicles/a.chronicle", line(3, "gamma"))
    desk.look()
    assert {name: session["gone"] for name, session in desk.dump()["sessions"].items()} == {
        "chronicles:a-0": False,
        "chronicles:a-1": True,
    }
    assert desk.texts("chronicles:a-0") == ["gamma"]
    data = path.read_bytes()
    path.unlink()
    desk.look()
    assert all(session["gone"] for session in desk.dump()["sessions"].values())
    same(with_sessions(desk.dump()), with_sessions(desk.carried_over()))
    desk.write("chronicles/a.chronicle", data + b"# second\n" + line(2, "beta"))
    desk.look()
    assert not any(session["gone"] for session in desk.dump()["sessions"].values())


def test_a_last_line_without_newline_is_the_last_sessions(desk: Desk) -> None:
    """Once; and a session begins with a whole line only."""
    whole = line(1, "alpha") + b"# second\n" + line(2, "beta")
    desk.write("chronicles/a.chronicle", whole[:-1])
    desk.look()
    assert desk.texts("chronicles:a-1") == ["beta"]
    desk.write("chronicles/a.chronicle", whole + b"# thi")
    desk.look()
    assert sorted(desk.dump()["sessions"]) == ["chronicles:a-0", "chronicles:a-1"]
    assert desk.texts("chronicles:a-1") == ["beta"]
    desk.write("chronicles/a.chronicle", whole + b"# third\n")
    desk.look()
    assert desk.dump()["sessions"]["chronicles:a-2"]["name"] == "third"


def test_paths_with_parts_are_no_paths(desk: Desk) -> None:
    """Nobody asks for them on the disk."""
    desk.write("chronicles/a.chronicle", line(1, "alpha") + b"# second\n")
    desk.look()
    assert {os.fsdecode(state.target.path).count("\0") for state in desk.ingest.states} == {0, 1}
    assert desk.sweep.due(desk.ingest) == []
    assert desk.sweep.due_below(str(desk.base / "chronicles"), desk.ingest) == []

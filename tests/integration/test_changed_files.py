"""Files that are rewritten, moved or removed: the index is as if it were built anew, and what is gone stays."""

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from sesamectl.errors import RpcError
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.watched import meta, one, same_as_rebuilt


def truncated(daemon: Daemon) -> None:
    daemon.write("project/one.jsonl", b"".join(part + b"\n" for part in one().lines()[:2]))


def emptied_and_regrown(daemon: Daemon) -> None:
    daemon.write(
        "project/one.jsonl",
        PiSession(id="one-1").user("other words, and more of them").user("a medlar").user("third").bytes(),
    )


def rewritten_in_the_same_size(daemon: Daemon) -> None:
    path = daemon.path("project/one.jsonl")
    status = os.stat(path)
    with open(path, "r+b") as opened:
        data = opened.read().replace(b"quince", b"medlar")
        opened.seek(0)
        opened.write(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(daemon: Daemon) -> None:
    daemon.write("project/two.tmp", PiSession(id="two-2").user("a medlar").bytes())
    os.rename(daemon.path("project/two.tmp"), daemon.path("project/one.jsonl"))


def replaced_by_its_longer_self(daemon: Daemon) -> None:
    daemon.write("project/two.tmp", one("a medlar").bytes())
    os.rename(daemon.path("project/two.tmp"), daemon.path("project/one.jsonl"))


def renamed(daemon: Daemon) -> None:
    os.rename(daemon.path("project/one.jsonl"), daemon.path("project/renamed.jsonl"))


def directory_renamed(daemon: Daemon) -> None:
    os.rename(daemon.path("project"), daemon.path("elsewhere"))


def copied(daemon: Daemon) -> None:
    shutil.copytree(daemon.root / "project", daemon.root / "another")


def write_two(daemon: Daemon) -> None:
    daemon.write("project/two.jsonl", PiSession(id="two-2").user("a medlar").bytes())


def write_fork(daemon: Daemon) -> None:
    fork = one().fork(id="fork-1", directory=f"{daemon.root}/project")
    daemon.write("project/fork.jsonl", fork.user("a medlar").bytes())


def swapped(daemon: Daemon) -> None:
    names = [
        daemon.path(f"project/{name}") for name in ("one.jsonl", "two.jsonl", "three.tmp")
    ]  # no session in between
    os.rename(names[0], names[2])
    os.rename(names[1], names[0])
    os.rename(names[2], names[1])


def renamed_over_another(daemon: Daemon) -> None:
    os.rename(daemon.path("project/two.jsonl"), daemon.path("project/one.jsonl"))


def inode_used_again(daemon: Daemon) -> None:
    os.unlink(daemon.path("project/one.jsonl"))
    daemon.write("project/next.jsonl", PiSession(id="two-2").user("a medlar").user("x").user("y").bytes())


def made_foreign(daemon: Daemon) -> None:
    daemon.write("project/one.jsonl", b'{"type":"something else"}\n' * 50)


Step = Callable[[Daemon], None]
CHANGES: list[list[Step]] = [  # the last step is the change, the others prepare it
    [truncated], [emptied_and_regrown], [rewritten_in_the_same_size], [replaced], [replaced_by_its_longer_self], [renamed],
    [directory_renamed], [copied], [inode_used_again], [made_foreign], [write_two, swapped], [write_two, renamed_over_another],
    [write_fork, truncated],
]  # fmt: skip


def _names(steps: list[Step]) -> str:
    return "-".join(step.__name__ for step in steps)


@pytest.mark.parametrize("steps", CHANGES, ids=_names)
def test_any_change_is_as_a_rebuild(watching: Daemon, steps: list[Step]) -> None:
    """Whatever happens to a file, the index is as if it were built anew."""
    for step in steps:
        step(watching)
        watching.sync()
    same_as_rebuilt(watching)


def says(daemon: Daemon, expected: list[Any]) -> bool:
    """Whether it says all this; a session may go between two of its answers."""
    try:
        return daemon.everything() == expected
    except RpcError:
        return False


@pytest.mark.fault(5)
@pytest.mark.parametrize("steps", CHANGES, ids=_names)
def test_any_change_is_noticed_unasked(watching: Daemon, steps: list[Step]) -> None:
    """Whatever happens to a file, events bring the index to what a sweep would."""
    sources = [{"parser": "pi", "path": str(watching.root)}]
    with Daemon({"sources": sources, "watch": "off", "sweepSeconds": 86_400}) as sweeping:
        sweeping.swept()
        for step in steps:
            sweeping.sync()
            step(watching)
            sweeping.sync()
            expected = sweeping.everything()
            eventually(lambda expected=expected: says(watching, expected))  # type: ignore[misc]  # a default in a lambda
    watching.sync()
    assert watching.everything() == expected


@pytest.mark.fault(40)
def test_a_renamed_file_goes_on(watching: Daemon) -> None:
    """A file that is renamed keeps its session, and is not read again."""
    renamed(watching)
    watching.sync()
    assert meta(watching)["path"] == os.fsdecode(watching.path("project/renamed.jsonl"))
    assert not meta(watching)["gone"]
    watching.append("project/renamed.jsonl", one("a medlar").last_line())
    watching.sync()
    assert watching.texts("one-1") == ["the first quince", "an answer", "a medlar"]
    assert watching.call("status")["counts"]["files"] == 1


@pytest.mark.fault(37)
def test_a_truncated_file_loses_what_was_cut(watching: Daemon) -> None:
    """What is no longer in a file is no longer found."""
    truncated(watching)
    watching.sync()
    assert watching.texts("one-1") == ["the first quince"]
    assert watching.call("search", query="answer")["words"] == [
        {"word": "answer", "chunks": 0, "forms": 0, "headings": 0}
    ]


# -- gone files


@pytest.mark.fault(44)
def test_gone_sessions_stay(watching: Daemon) -> None:
    """A session whose file is gone stays searchable and readable, marked, also over a restart and a rebuild."""
    os.unlink(watching.path("project/one.jsonl"))
    eventually(lambda: meta(watching)["gone"])
    for _ in range(3):
        hit = watching.call("search", query="quince")["results"][0]
        assert (hit["sessionId"], hit["gone"]) == ("one-1", True)
        assert watching.texts("one-1") == ["the first quince", "an answer"]
        assert watching.call("status")["counts"]["gone"] == 1
        watching.restart()
        watching.sync()
        watching.call("index", full=True)
    watching.check_index()


def test_a_file_that_comes_back(watching: Daemon) -> None:
    """A gone file that comes back is not gone any more, and there once."""
    os.rename(watching.path("project/one.jsonl"), watching.directory / "kept")
    watching.sync()
    assert meta(watching)["gone"]
    os.rename(watching.directory / "kept", watching.path("project/one.jsonl"))
    watching.append("project/one.jsonl", one("a medlar").last_line())
    watching.sync()
    assert not meta(watching)["gone"]
    assert watching.texts("one-1") == ["the first quince", "an answer", "a medlar"]
    same_as_rebuilt(watching)


@pytest.mark.fault(21)
def test_a_root_that_vanishes(watching: Daemon) -> None:
    """A root that is moved away or unmounted does not make its sessions gone; when it is back, all goes on."""
    watching.root.rename(watching.directory / "away")
    watching.sync()
    watching.call("index")
    watching.call("index", full=True)
    eventually(lambda: watching.call("status")["sources"][0]["mode"] == "missing")
    assert not meta(watching)["gone"]
    assert watching.found("quince")
    (watching.directory / "away").rename(watching.root)
    watching.append("project/one.jsonl", one("a medlar").last_line())
    eventually(lambda: watching.found("medlar"))
    watching.append("project/one.jsonl", one("a medlar", "a salsify").last_line())
    eventually(lambda: watching.found("salsify"))


@pytest.mark.fault(6)
def test_a_root_that_is_made_anew(watching: Daemon) -> None:
    """When a root is removed and made again, its old sessions are gone and new ones are noticed."""
    shutil.rmtree(watching.root)
    watching.root.mkdir()
    watching.write("new.jsonl", PiSession(id="new-1").user("a medlar").bytes())
    eventually(lambda: watching.found("medlar"))
    watching.sync()
    assert meta(watching)["gone"]
    watching.append("new.jsonl", PiSession(id="new-1").user("a medlar").user("a salsify").last_line())
    eventually(lambda: watching.found("salsify"))


@pytest.mark.fault(44)
def test_gone_drop() -> None:
    """With `gone: drop` a session goes with its file."""
    with Daemon({"gone": "drop", "sweepSeconds": 1}) as daemon:
        path = daemon.write("a.jsonl", one().bytes())
        daemon.write("b.jsonl", PiSession(id="two-2").user("a quince").bytes())
        daemon.sync()
        os.unlink(path)
        eventually(lambda: daemon.found("quince") == ["two-2"])
        assert daemon.call("status")["counts"]["sessions"] == 1


def test_drop_gone(watching: Daemon) -> None:
    """`index` with `dropGone` drops what is gone now, with and without `full`."""
    for full in (False, True):
        path = watching.write("two.jsonl", PiSession(id="two-2").user("a medlar").bytes())
        watching.sync()
        os.unlink(path)
        watching.sync()
        assert watching.found("medlar") == ["two-2"]
        watching.call("index", full=full, dropGone=True)
        assert watching.found("medlar") == []
        assert watching.call("status")["counts"]["sessions"] == 1
        watching.check_index()

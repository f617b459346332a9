"""What is on disk is in the answers, whatever happened to the files, with events and without."""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sesamectl.errors import RpcError
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.traced import PROGRAM, events

UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon with a session `one`, watching; what it notices by itself it has from events, for it never sweeps again."""
    with Daemon({"sweepSeconds": 86_400}) as started:
        started.write("project/one.jsonl", one().bytes())
        started.sync()
        eventually(lambda: started.call("status")["sources"][0]["mode"] == "events")
        yield started


def one(*words: str) -> PiSession:
    session = PiSession(id="one-1").user("the first quince").assistant("an answer")
    for word in words:
        session.user(word)
    return session


def line(session: PiSession) -> bytes:
    """The last line of a session."""
    return session.lines()[-1] + b"\n"


def meta(daemon: Daemon, session: str = "one-1") -> Any:
    return daemon.call("get_session_meta", sessionId=session)


def same_as_rebuilt(daemon: Daemon) -> None:
    """The index says what one that is built anew from the files says."""
    before = daemon.everything()
    daemon.call("index", full=True)
    assert daemon.everything() == before
    daemon.check_index()


# -- appends


def test_an_append_is_found_unasked(daemon: Daemon) -> None:
    """An appended line is searchable within moments, without anybody asking."""
    daemon.append("project/one.jsonl", line(one("a medlar")))
    eventually(lambda: daemon.found("medlar"))


def test_a_new_file_is_found_unasked(daemon: Daemon) -> None:
    """A new file in new directories is found, however quickly it was written after they were made."""
    for number in range(20):
        daemon.write(
            f"new{number}/a/b/{number}.jsonl", PiSession(id=f"new-{number}").user(f"scorzonera{number}").bytes()
        )
    for number in range(20):
        eventually(lambda number=number: daemon.found(f"scorzonera{number}"))  # type: ignore[misc]  # a default in a lambda


def test_appends_in_a_directory_that_was_moved_in(daemon: Daemon) -> None:
    """A directory that is moved in is read, and so is what is appended there later."""
    outside = daemon.directory / "outside"
    outside.mkdir()
    session = PiSession(id="moved-1").user("a salsify")
    (outside / "moved.jsonl").write_bytes(session.bytes())
    outside.rename(daemon.root / "inside")
    eventually(lambda: daemon.found("salsify"))
    daemon.append("inside/moved.jsonl", line(session.user("a skirret")))
    eventually(lambda: daemon.found("skirret"))


def test_without_events() -> None:
    """With `--watch=off` nothing is noticed, until a fresh query asks."""
    with Daemon({"sweepSeconds": 86_400}, ["--watch=off"]) as daemon:
        assert daemon.call("status")["sources"][0]["mode"] == "polling"
        daemon.write("a.jsonl", PiSession().user("quince").bytes())
        assert daemon.found("quince", fresh=True)
        daemon.append("a.jsonl", line(PiSession().user("quince").user("medlar")))
        assert not daemon.found("medlar")
        assert daemon.found("medlar", fresh=True)


def test_polling() -> None:
    """With `watch: polling` changes are found by sweeps."""
    with Daemon({"watch": "polling", "sweepSeconds": 1}) as daemon:
        daemon.sync()
        daemon.write("a.jsonl", PiSession().user("quince").bytes())
        eventually(lambda: daemon.found("quince"))
        assert daemon.call("status")["lastEventAt"] is None


def test_a_root_that_is_made_later() -> None:
    """A root that is made after the start is noticed without a sweep, and is no reason to be degraded before."""
    with Daemon(None) as daemon:
        daemon.stop()
        daemon.configure({"sweepSeconds": 86_400})
        daemon.start().sync()
        status = daemon.call("status")
        modes = [source["mode"] for source in status["sources"] if source["parser"] != "sesame"]
        assert (status["state"], modes) == ("ready", ["missing"] * 6)
        root = daemon.home / ".pi/agent/sessions"
        root.mkdir(parents=True)
        PiSession().user("quince").write(root)
        eventually(lambda: daemon.found("quince"))
        eventually(lambda: daemon.call("status")["sources"][0]["mode"] == "events")


def test_a_root_that_is_a_link(daemon: Daemon) -> None:
    """A root may be a link to a directory; appends there are noticed."""
    real = daemon.directory / "real"
    real.mkdir()
    (daemon.directory / "link").symlink_to(real)
    daemon.configure({"sources": [{"parser": "pi", "path": str(daemon.directory / "link")}]})
    daemon.restart()
    daemon.sync()
    (real / "a.jsonl").write_bytes(PiSession().user("a medlar").bytes())
    eventually(lambda: daemon.found("medlar"))
    (real / "a.jsonl").write_bytes(PiSession().user("a medlar").user("a salsify").bytes())
    eventually(lambda: daemon.found("salsify"))


# -- lines


def test_a_line_byte_by_byte(daemon: Daemon) -> None:
    """A line that comes in pieces is found once, when it is whole."""
    whole = line(one("ünïcödé 🎉 medlar"))
    for byte in range(len(whole)):
        assert not daemon.found("medlar")
        daemon.append("project/one.jsonl", whole[byte : byte + 1])
        daemon.sync()
    assert daemon.texts("one-1")[2:] == ["ünïcödé 🎉 medlar"]


def test_a_last_line_without_newline(daemon: Daemon) -> None:
    """A last line without newline is taken when its file has been quiet for two seconds."""
    daemon.append("project/one.jsonl", line(one("a medlar"))[:-1])
    daemon.sync()
    assert not daemon.found("medlar")
    eventually(lambda: daemon.found("medlar"))


def test_an_old_file_without_newline(daemon: Daemon) -> None:
    """A last line without newline in a file that was left alone for longer is taken when it is first seen."""
    path = daemon.write("old.jsonl.part", PiSession(id="old-1").user("before").user("a medlar").bytes()[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    os.rename(path, daemon.path("old.jsonl"))
    daemon.sync()
    assert daemon.found("medlar") == ["old-1"]


@pytest.mark.parametrize("more", [b"\n", b"\n" + line(one("a medlar", "and more"))])
def test_a_provisional_line_that_is_completed(daemon: Daemon, more: bytes) -> None:
    """A line that was taken without its newline is there once when the newline comes."""
    path = daemon.append("project/one.jsonl", line(one("a medlar"))[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    daemon.sync()
    assert daemon.found("medlar")
    daemon.append("project/one.jsonl", more)
    daemon.sync()
    assert daemon.texts("one-1") == ["the first quince", "an answer", "a medlar", "and more"][: 3 + (len(more) > 1)]
    same_as_rebuilt(daemon)


def test_a_provisional_line_that_goes_on(daemon: Daemon) -> None:
    """A line that was taken without its newline is replaced when it goes on otherwise."""
    path = daemon.append("project/one.jsonl", line(one("a medlar"))[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    daemon.sync()
    daemon.append("project/one.jsonl", b'{"torn": "\n' + line(one("x", "a salsify")))
    daemon.sync()
    same_as_rebuilt(daemon)
    assert daemon.found("salsify")


def test_bad_lines(daemon: Daemon) -> None:
    """A bad line is counted and skipped, never the file."""
    bad = [b"{", b"\0" * 5000, b"\xff\xfe", b"[1]", b"nothing", b'{"type":"message","id":', b"{" * 100_000]
    daemon.append("project/one.jsonl", b"\n".join(bad) + b"\n\n  \r\n" + line(one("a medlar")))
    daemon.sync()
    assert daemon.found("medlar")
    assert daemon.call("status")["counts"]["badLines"] == len(bad)


def test_long_lines() -> None:
    """A line over the limit is passed over and counted; what comes after it is found."""
    with Daemon({"limits": {"maxLineBytes": 65536}}) as daemon:
        session = PiSession().user("before").user("long " * 30_000).user("a medlar")
        daemon.write("a.jsonl", session.bytes())
        daemon.sync()
        assert daemon.texts(session.id) == ["before", "a medlar"]
        assert daemon.call("status")["counts"]["badLines"] == 1
        same_as_rebuilt(daemon)


# -- files that change otherwise


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
def test_any_change_is_as_a_rebuild(daemon: Daemon, steps: list[Step]) -> None:
    """Whatever happens to a file, the index is as if it were built anew."""
    for step in steps:
        step(daemon)
        daemon.sync()
    same_as_rebuilt(daemon)


def says(daemon: Daemon, expected: list[Any]) -> bool:
    """Whether it says all this; a session may go between two of its answers."""
    try:
        return daemon.everything() == expected
    except RpcError:
        return False


@pytest.mark.parametrize("steps", CHANGES, ids=_names)
def test_any_change_is_noticed_unasked(daemon: Daemon, steps: list[Step]) -> None:
    """Whatever happens to a file, events bring the index to what a sweep would."""
    sources = [{"parser": "pi", "path": str(daemon.root)}]
    with Daemon({"sources": sources, "watch": "off", "sweepSeconds": 86_400}) as sweeping:
        for step in steps:
            sweeping.sync()
            step(daemon)
            sweeping.sync()
            expected = sweeping.everything()
            eventually(lambda expected=expected: says(daemon, expected))  # type: ignore[misc]  # a default in a lambda
    daemon.sync()
    assert daemon.everything() == expected


def test_a_renamed_file_goes_on(daemon: Daemon) -> None:
    """A file that is renamed keeps its session, and is not read again."""
    renamed(daemon)
    daemon.sync()
    assert meta(daemon)["path"] == os.fsdecode(daemon.path("project/renamed.jsonl"))
    assert not meta(daemon)["gone"]
    daemon.append("project/renamed.jsonl", line(one("a medlar")))
    daemon.sync()
    assert daemon.texts("one-1") == ["the first quince", "an answer", "a medlar"]
    assert daemon.call("status")["counts"]["files"] == 1


def test_a_truncated_file_loses_what_was_cut(daemon: Daemon) -> None:
    """What is no longer in a file is no longer found."""
    truncated(daemon)
    daemon.sync()
    assert daemon.texts("one-1") == ["the first quince"]
    assert daemon.call("search", query="answer")["words"] == [
        {"word": "answer", "chunks": 0, "forms": 0, "headings": 0}
    ]


# -- gone files


def test_gone_sessions_stay(daemon: Daemon) -> None:
    """A session whose file is gone stays searchable and readable, marked, also over a restart and a rebuild."""
    os.unlink(daemon.path("project/one.jsonl"))
    eventually(lambda: meta(daemon)["gone"])
    for _ in range(3):
        hit = daemon.call("search", query="quince")["results"][0]
        assert (hit["sessionId"], hit["gone"]) == ("one-1", True)
        assert daemon.texts("one-1") == ["the first quince", "an answer"]
        assert daemon.call("status")["counts"]["gone"] == 1
        daemon.restart()
        daemon.sync()
        daemon.call("index", full=True)
    daemon.check_index()


def test_a_file_that_comes_back(daemon: Daemon) -> None:
    """A gone file that comes back is not gone any more, and there once."""
    os.rename(daemon.path("project/one.jsonl"), daemon.directory / "kept")
    daemon.sync()
    assert meta(daemon)["gone"]
    os.rename(daemon.directory / "kept", daemon.path("project/one.jsonl"))
    daemon.append("project/one.jsonl", line(one("a medlar")))
    daemon.sync()
    assert not meta(daemon)["gone"]
    assert daemon.texts("one-1") == ["the first quince", "an answer", "a medlar"]
    same_as_rebuilt(daemon)


def test_a_root_that_vanishes(daemon: Daemon) -> None:
    """A root that is moved away or unmounted does not make its sessions gone; when it is back, all goes on."""
    daemon.root.rename(daemon.directory / "away")
    daemon.sync()
    daemon.call("index")
    daemon.call("index", full=True)
    eventually(lambda: daemon.call("status")["sources"][0]["mode"] == "missing")
    assert not meta(daemon)["gone"]
    assert daemon.found("quince")
    (daemon.directory / "away").rename(daemon.root)
    daemon.append("project/one.jsonl", line(one("a medlar")))
    eventually(lambda: daemon.found("medlar"))
    daemon.append("project/one.jsonl", line(one("a medlar", "a salsify")))
    eventually(lambda: daemon.found("salsify"))


def test_a_root_that_is_made_anew(daemon: Daemon) -> None:
    """When a root is removed and made again, its old sessions are gone and new ones are noticed."""
    shutil.rmtree(daemon.root)
    daemon.root.mkdir()
    daemon.write("new.jsonl", PiSession(id="new-1").user("a medlar").bytes())
    eventually(lambda: daemon.found("medlar"))
    daemon.sync()
    assert meta(daemon)["gone"]
    daemon.append("new.jsonl", line(PiSession(id="new-1").user("a medlar").user("a salsify")))
    eventually(lambda: daemon.found("salsify"))


def test_gone_drop() -> None:
    """With `gone: drop` a session goes with its file."""
    with Daemon({"gone": "drop", "sweepSeconds": 1}) as daemon:
        path = daemon.write("a.jsonl", one().bytes())
        daemon.write("b.jsonl", PiSession(id="two-2").user("a quince").bytes())
        daemon.sync()
        os.unlink(path)
        eventually(lambda: daemon.found("quince") == ["two-2"])
        assert daemon.call("status")["counts"]["sessions"] == 1


def test_drop_gone(daemon: Daemon) -> None:
    """`index` with `dropGone` drops what is gone now, with and without `full`."""
    for full in (False, True):
        path = daemon.write("two.jsonl", PiSession(id="two-2").user("a medlar").bytes())
        daemon.sync()
        os.unlink(path)
        daemon.sync()
        assert daemon.found("medlar") == ["two-2"]
        daemon.call("index", full=full, dropGone=True)
        assert daemon.found("medlar") == []
        assert daemon.call("status")["counts"]["sessions"] == 1
        daemon.check_index()


# -- odd files


@pytest.mark.parametrize(
    "name",
    [
        b"\xff\xfe.jsonl",
        b"new\nline.jsonl",
        b"\x1b[31m.jsonl",
        "ü 漢.jsonl".encode(),
        b"a" * 249 + b".jsonl",
        b"-rf.jsonl",
        b".jsonl",
    ],
)
def test_odd_names(daemon: Daemon, name: bytes) -> None:
    """A file may have any name."""
    session = PiSession(id="odd-1").user("a medlar")
    daemon.write(name, session.bytes())
    eventually(lambda: daemon.found("medlar") == ["odd-1"])
    daemon.append(name, line(session.user("a salsify")))
    eventually(lambda: daemon.found("salsify") == ["odd-1"])
    os.unlink(daemon.path(name))
    daemon.sync()
    assert meta(daemon, "odd-1")["gone"]
    daemon.restart()
    assert daemon.found("salsify") == ["odd-1"]


def test_what_is_no_file_is_ignored(daemon: Daemon) -> None:
    """A pipe, a socket, a link or a directory that is named like a session is ignored, and blocks nothing."""
    outside = daemon.directory / "outside.jsonl"
    outside.write_bytes(PiSession(id="outside-1").user("a medlar").bytes())
    os.mkfifo(daemon.path("pipe.jsonl"))
    os.symlink(outside, daemon.path("link.jsonl"))
    os.symlink("/dev/zero", daemon.path("zero.jsonl"))
    os.symlink(daemon.root, daemon.path("loop"))
    os.symlink(daemon.directory, daemon.path("up.jsonl"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(daemon.path("socket.jsonl"))
        daemon.write("directory.jsonl/within.jsonl", PiSession(id="within-1").user("a salsify").bytes())
        eventually(lambda: daemon.found("salsify"))
        daemon.sync(
            paths=[
                os.fsdecode(daemon.path(name)) for name in ("pipe.jsonl", "link.jsonl", "zero.jsonl", "socket.jsonl")
            ]
        )
        daemon.sync()
        daemon.call("index", full=True)
    assert daemon.found("medlar") == []
    assert daemon.call("status")["counts"]["files"] == 2


def test_a_session_that_becomes_a_link(daemon: Daemon) -> None:
    """A file in whose place a link is put is gone; the link is not followed."""
    outside = daemon.directory / "outside.jsonl"
    outside.write_bytes(one("a medlar").bytes())
    os.unlink(daemon.path("project/one.jsonl"))
    os.symlink(outside, daemon.path("project/one.jsonl"))
    daemon.sync()
    assert daemon.found("medlar") == []
    assert meta(daemon)["gone"]


def test_other_files_are_no_sessions(daemon: Daemon) -> None:
    """A file of another format is looked at once, and is no session."""
    daemon.write("other.jsonl", b'{"type":"user","uuid":"1","message":"a medlar"}\n' * 10)
    daemon.write("notes.txt", one("a medlar").bytes())
    daemon.sync()
    assert daemon.found("medlar") == []
    assert daemon.call("status")["counts"]["files"] == 1


@pytest.mark.skipif(
    bool(UNPRIVILEGED) and shutil.which("setpriv") is None,
    reason="root can read everything, unless setpriv takes that away",
)
def test_an_unreadable_file() -> None:
    """A file that cannot be read is named in the status while that lasts, and holds up no other."""
    with Daemon({"sweepSeconds": 86_400}, through=UNPRIVILEGED) as daemon:
        path = daemon.write("closed.jsonl", one().bytes())
        os.chmod(path, 0)
        daemon.write("open.jsonl", PiSession(id="two-2").user("a medlar").bytes())
        daemon.call("sync", timeoutMs=2000)
        assert daemon.found("medlar") == ["two-2"]
        status = daemon.call("status")
        assert status["state"] == "degraded"
        assert path in status["warnings"][0]["message"]
        assert daemon.call("search", query="medlar")["warnings"]
        assert daemon.call("index")["errors"] == 1
        os.chmod(path, 0o600)
        daemon.sync()
        assert daemon.found("quince") == ["one-1"]
        assert daemon.call("status")["state"] == "ready"


@pytest.mark.parametrize("settings", [{"sweepSeconds": 1}, {"sweepSeconds": 86_400}])
def test_an_unreadable_file_that_is_deleted(settings: dict[str, int]) -> None:
    """No event says that it went; the next sweep finds that there is nothing left to complain of."""
    with Daemon(settings, ["--watch=off"]) as daemon:
        path = daemon.write("broken.jsonl.zst", b"no zstd")
        daemon.call("sync")
        assert daemon.call("status")["warnings"][0]["code"] == "unreadable"
        os.unlink(path)
        if settings["sweepSeconds"] > 1:
            daemon.call("index")
        eventually(lambda: daemon.call("status")["state"] == "ready")
        assert daemon.call("status")["warnings"] == []


def test_an_unreadable_file_whose_root_is_deleted() -> None:
    """A root that is not there has no files that cannot be read."""
    with Daemon({"sweepSeconds": 1}, ["--watch=off"]) as daemon:
        daemon.write("below/broken.jsonl.zst", b"no zstd")
        daemon.call("sync")
        assert daemon.call("status")["state"] == "degraded"
        shutil.rmtree(daemon.root)
        eventually(lambda: daemon.call("status")["state"] == "ready")


def test_excluded_files_are_never_opened() -> None:
    """What the configuration excludes is never opened; what was indexed before goes."""
    with Daemon({"exclude": ["**/secret/**", "**/*.tmp.jsonl"]}, program=PROGRAM, arguments=["trace"]) as daemon:
        paths = [
            daemon.write(name, PiSession(id=name).user("a medlar").bytes())
            for name in ("secret/a.jsonl", "x/b.tmp.jsonl")
        ]
        daemon.write("c.jsonl", one().bytes())
        assert daemon.sync(paths=paths)["ignored"] == paths
        daemon.sync()
        daemon.call("index", full=True)
        assert daemon.found("quince")
        assert daemon.found("medlar") == []
        opened = {event.path for event in events(daemon.directory / "trace")}
        assert not opened & set(paths)


def test_files_that_are_excluded_later_are_never_opened_again() -> None:
    """Also when they were written to while no daemon ran: what was indexed of them goes unread."""
    with Daemon(program=PROGRAM, arguments=["trace"]) as daemon:
        path = daemon.write("secret/a.jsonl", PiSession(id="secret-1").user("a medlar").bytes())
        daemon.sync()
        assert daemon.found("medlar") == ["secret-1"]
        daemon.stop()
        (daemon.directory / "trace").unlink()
        daemon.append("secret/a.jsonl", line(PiSession(id="secret-1").user("a quince")))
        daemon.configure({"sources": [{"parser": "pi", "path": str(daemon.root)}], "exclude": ["**/secret/**"]})
        daemon.start()
        daemon.append("secret/a.jsonl", line(PiSession(id="secret-1").user("a skirret")))
        daemon.sync()
        eventually(lambda: daemon.found("medlar") == [])
        assert path not in {event.path for event in events(daemon.directory / "trace")}


# -- order


def test_live_appends_do_not_wait_for_the_backlog() -> None:
    """While an archive is being read, today's work is found first, and an append at once."""
    with Daemon() as daemon:
        daemon.stop()
        for number in range(300):
            session = PiSession(
                id=f"archive-{number:03}", start=f"2025-01-01T{number // 60:02}:{number % 60:02}:00.000Z"
            )
            for turn in range(40):
                session.user(f"archived {number} " + f"{turn} some words more of it " * 80)
            path = daemon.write(f"archive/{number}.jsonl", session.bytes())
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        live = PiSession(id="live-1").user("a medlar")
        daemon.write("live.jsonl", live.bytes())
        daemon.start()
        eventually(lambda: daemon.found("medlar"))
        early = daemon.call("status")["counts"]["files"]
        for number in range(5):
            daemon.append("live.jsonl", line(live.user(f"salsify{number}")))
            eventually(lambda number=number: daemon.found(f"salsify{number}"))  # type: ignore[misc]  # a default in a lambda
        status = daemon.call("status")
        listed = [hit["sessionId"] for hit in daemon.call("search", query="archived", limit=100)["results"]]
        assert early < 100
        assert status["counts"]["files"] < 250
        assert (status["state"], status["pending"]["files"] > 0) == ("indexing", True)
        assert status["indexing"]["filesDone"] < status["indexing"]["filesTotal"]
        assert "archive-000" not in listed
        daemon.sync()
        assert daemon.call("status")["counts"]["files"] == 301

"""Files with odd names, that are none, that cannot be read, or that must not be opened."""

import json
import os
import shutil
import socket
from datetime import UTC, datetime

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.traced import PROGRAM, events
from tests.support.watched import meta, one

UNPRIVILEGED = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


@pytest.mark.fault(50)
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
def test_odd_names(watching: Daemon, name: bytes) -> None:
    """A file may have any name."""
    session = PiSession(id="odd-1").user("a medlar")
    watching.write(name, session.bytes())
    eventually(lambda: watching.found("medlar") == ["odd-1"])
    watching.append(name, session.user("a salsify").last_line())
    eventually(lambda: watching.found("salsify") == ["odd-1"])
    os.unlink(watching.path(name))
    watching.sync()
    assert meta(watching, "odd-1")["gone"]
    watching.restart()
    assert watching.found("salsify") == ["odd-1"]


@pytest.mark.fault(46)
def test_what_is_no_file_is_ignored(watching: Daemon) -> None:
    """A pipe, a socket, a link or a directory that is named like a session is ignored, and blocks nothing."""
    outside = watching.directory / "outside.jsonl"
    outside.write_bytes(PiSession(id="outside-1").user("a medlar").bytes())
    os.mkfifo(watching.path("pipe.jsonl"))
    os.symlink(outside, watching.path("link.jsonl"))
    os.symlink("/dev/zero", watching.path("zero.jsonl"))
    os.symlink(watching.root, watching.path("loop"))
    os.symlink(watching.directory, watching.path("up.jsonl"))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(watching.path("socket.jsonl"))
        watching.write("directory.jsonl/within.jsonl", PiSession(id="within-1").user("a salsify").bytes())
        eventually(lambda: watching.found("salsify"))
        watching.sync(
            paths=[
                os.fsdecode(watching.path(name)) for name in ("pipe.jsonl", "link.jsonl", "zero.jsonl", "socket.jsonl")
            ]
        )
        watching.sync()
        watching.call("index", full=True)
    assert watching.found("medlar") == []
    assert watching.call("status")["counts"]["files"] == 2


@pytest.mark.fault(47)
def test_a_session_that_becomes_a_link(watching: Daemon) -> None:
    """A file in whose place a link is put is gone; the link is not followed."""
    outside = watching.directory / "outside.jsonl"
    outside.write_bytes(one("a medlar").bytes())
    os.unlink(watching.path("project/one.jsonl"))
    os.symlink(outside, watching.path("project/one.jsonl"))
    watching.sync()
    assert watching.found("medlar") == []
    assert meta(watching)["gone"]


def test_other_files_are_no_sessions(watching: Daemon) -> None:
    """A file of another format is looked at once, and is no session."""
    watching.write("other.jsonl", b'{"type":"user","uuid":"1","message":"a medlar"}\n' * 10)
    watching.write("notes.txt", one("a medlar").bytes())
    watching.sync()
    assert watching.found("medlar") == []
    assert watching.call("status")["counts"]["files"] == 1


@pytest.mark.fault(10, 43)
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
        daemon.sync()
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


@pytest.mark.fault(43)
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


@pytest.mark.fault(107)
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


@pytest.mark.fault(107)
def test_files_that_are_excluded_later_are_never_opened_again() -> None:
    """Also when they were written to while no daemon ran: what was indexed of them goes unread."""
    with Daemon(program=PROGRAM, arguments=["trace"]) as daemon:
        path = daemon.write("secret/a.jsonl", PiSession(id="secret-1").user("a medlar").bytes())
        daemon.sync()
        assert daemon.found("medlar") == ["secret-1"]
        daemon.stop()
        (daemon.directory / "trace").unlink()
        daemon.append("secret/a.jsonl", PiSession(id="secret-1").user("a quince").last_line())
        daemon.configure({"sources": [{"parser": "pi", "path": str(daemon.root)}], "exclude": ["**/secret/**"]})
        daemon.start()
        assert daemon.found("medlar") == []  # by the first answer
        daemon.append("secret/a.jsonl", PiSession(id="secret-1").user("a skirret").last_line())
        daemon.sync()
        assert daemon.found("skirret") == daemon.found("quince") == []
        assert path not in {event.path for event in events(daemon.directory / "trace")}


@pytest.mark.fault(107)
@pytest.mark.parametrize("watch", ["events", "off"])
@pytest.mark.parametrize("moved", ["a.jsonl", "project"])
def test_what_moves_to_where_it_is_excluded_goes(watch: str, moved: str) -> None:
    """A session and a whole directory; what is deleted at the same time stays, as gone."""
    with Daemon({"exclude": ["**/secret"], "watch": watch, "sweepSeconds": 1}) as daemon:
        daemon.write("a.jsonl", PiSession(id="medlar-1").user("a medlar").bytes())
        daemon.write("project/b.jsonl", PiSession(id="medlar-2").user("a medlar").bytes())
        kept = daemon.write("c.jsonl", PiSession(id="quince-1").user("a quince").bytes())
        daemon.sync()
        revision = daemon.call("list_sessions")["revision"]
        (daemon.root / "secret").mkdir()
        (daemon.root / moved).rename(daemon.root / "secret" / moved)
        os.unlink(kept)
        left = ["medlar-2"] if moved == "a.jsonl" else ["medlar-1"]
        eventually(lambda: daemon.found("medlar") == left)
        eventually(lambda: [session["sessionId"] for session in daemon.sessions() if session["gone"]] == ["quince-1"])
        assert daemon.found("quince") == ["quince-1"]
        (removed,) = daemon.call("list_sessions", since=revision)["removed"]
        assert removed["why"] == "excluded"


def test_an_excluded_file_with_the_inode_of_one_that_is_gone() -> None:
    """Inodes are used again: the session is gone, and stays."""
    with Daemon({"exclude": ["**/secret"], "watch": "off", "sweepSeconds": 3600}) as daemon:
        daemon.swept()
        path = daemon.write("a.jsonl", PiSession(id="quince-1").user("a quince").bytes())
        daemon.sync()
        (daemon.root / "secret").mkdir()
        os.link(path, daemon.root / "secret/b.jsonl")
        os.unlink(path)
        (daemon.root / "secret/b.jsonl").write_bytes(
            PiSession(id="medlar-1").user("a medlar of another length").bytes()
        )
        daemon.call("index")
        assert [session["gone"] for session in daemon.sessions()] == [True]
        assert daemon.found("quince") == ["quince-1"]


@pytest.mark.fault(42)
@pytest.mark.parametrize("year", [1600, 1900, 2400])
def test_a_time_outside_of_what_the_index_holds(year: int) -> None:
    """A file is read whenever it says that it was changed: before 1970, and after 2262, when 63 bits of nanoseconds end."""
    with Daemon() as daemon:
        path = daemon.write("a.jsonl", PiSession(id="odd-time").user("medlar").bytes())
        moment = int((datetime(year, 1, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        os.utime(path, ns=(0, moment * 10**9))
        daemon.sync()
        assert daemon.found("medlar") == ["odd-time"]
        daemon.append("a.jsonl", PiSession(id="odd-time").user("quince").last_line())
        os.utime(path, ns=(0, moment * 10**9 + 10**9))
        daemon.sync()
        assert daemon.found("quince") == ["odd-time"]
        assert daemon.call("status")["state"] == "ready"


def test_what_a_sesameignore_names_is_never_opened() -> None:
    """Neither at first nor when it grows; and once it is named, what was indexed goes, and is not opened any more."""
    with Daemon(program=PROGRAM, arguments=["trace"]) as daemon:
        daemon.write(".sesameignore", b"/secret/\n*.tmp.jsonl\n")
        names = ("secret/a.jsonl", "x/b.tmp.jsonl")
        paths = [daemon.write(name, PiSession(id=name[-7]).user("a medlar").bytes()) for name in names]
        later = daemon.write("later/c.jsonl", PiSession(id="later").user("a quince").bytes())
        daemon.sync()
        daemon.append(names[0], PiSession(id="a").user("a medlar").last_line())
        daemon.call("index", full=True)
        assert (daemon.found("medlar"), daemon.found("quince")) == ([], ["later"])
        assert not {event.path for event in events(daemon.directory / "trace")} & set(paths)
        revision = daemon.call("list_sessions")["revision"]

        daemon.append(".sesameignore", b"later/\n")
        eventually(lambda: daemon.found("quince") == [])  # the event of the file itself is enough
        (removed,) = daemon.call("list_sessions", since=revision)["removed"]
        assert (removed["sessionId"], removed["why"]) == ("later", "excluded")
        opened = sum(event.path == later for event in events(daemon.directory / "trace"))
        daemon.append("later/c.jsonl", PiSession(id="later").user("a skirret").last_line())
        assert daemon.sync(paths=[later])["ignored"] == [later]
        daemon.sync()
        assert daemon.found("skirret") == []
        assert sum(event.path == later for event in events(daemon.directory / "trace")) == opened

        daemon.write(".sesameignore", b"")
        daemon.call("index")
        assert daemon.found("medlar") != [] != daemon.found("skirret")


def test_a_sesameignore_is_read_by_each_sweep_and_index() -> None:
    """Without any event; also what was indexed while the daemon did not run goes, before the first answer."""
    with Daemon({"sweepSeconds": 86_400}, ["--watch=off"]) as daemon:
        for name in ("a", "b", "c"):
            daemon.write(f"{name}/{name}.jsonl", PiSession(id=f"{name}-1").user("a medlar").bytes())
        daemon.sync()
        daemon.write(".sesameignore", b"a\n")
        daemon.call("index")
        assert sorted(daemon.found("medlar")) == ["b-1", "c-1"]
        daemon.stop()
        daemon.write(".sesameignore", b"a\nb\n")
        daemon.start()
        assert daemon.found("medlar") == ["c-1"]
        (source,) = (source for source in daemon.call("status")["sources"] if source["path"] == str(daemon.root))
        assert source["ignoreFile"] == f"{daemon.root}/.sesameignore"
        daemon.stop()  # first: its sweep of the start may be on its way, and without the file nothing is excluded
        os.unlink(f"{daemon.root}/.sesameignore")
        os.mkfifo(f"{daemon.root}/.sesameignore")
        daemon.start()
        assert daemon.found("medlar") == ["c-1"]  # nobody knows what it says: nothing is opened, nothing goes
        (source,) = (source for source in daemon.call("status")["sources"] if source["path"] == str(daemon.root))
        assert source["warningCodes"] == ["ignoreFile"]


BREAKS = """
import os, sys
really = os.scandir
def scandir(path="."):
    if os.fsencode(path).endswith(b"/broken") and os.path.exists(os.fsencode(path) + b"/fault"):
        raise RuntimeError("the file system is beside itself")
    return really(path)
os.scandir = scandir
from sesamed.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.fault(106)
def test_a_fault_below_one_root_stops_no_other() -> None:
    """Whatever it is: it is said, but not in its own words, nothing is gone, and it is tried again."""
    with Daemon(program=("-c", BREAKS), arguments=["--watch=off"]) as daemon:
        daemon.allowed.append("internal error")
        daemon.stop()
        broken = daemon.directory / "broken"
        broken.mkdir()
        roots = [{"parser": "pi", "path": str(path)} for path in (broken, daemon.root)]
        daemon.configure({"sources": roots, "sweepSeconds": 1})
        daemon.start()
        (broken / "a.jsonl").write_bytes(PiSession(id="a-1").user("a quince").bytes())
        daemon.sync()
        (broken / "fault").touch()
        (broken / "b.jsonl").write_bytes(PiSession(id="b-1").user("a quince").bytes())
        daemon.write("c.jsonl", PiSession(id="c-1").user("a quince").bytes())
        eventually(lambda: sorted(daemon.found("quince")) == ["a-1", "c-1"])
        daemon.call("index")
        first, other, *_ = daemon.call("status")["sources"]
        assert (first["warningCodes"], other["warningCodes"]) == (["sweep"], [])
        assert "error=RuntimeError" in daemon.log
        assert "beside itself" not in daemon.log + json.dumps(daemon.call("status"))
        assert not meta(daemon, "a-1")["gone"]
        (broken / "fault").unlink()
        eventually(lambda: sorted(daemon.found("quince")) == ["a-1", "b-1", "c-1"])
        assert daemon.call("status")["sources"][0]["warningCodes"] == []

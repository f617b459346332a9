"""What is on disk is in the answers, with events and without, line by line, and the newest first."""

import os
import time
from pathlib import Path

import pytest

from tests.support import held
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession
from tests.support.watched import one, same_as_rebuilt

# -- appends


def test_an_append_is_found_unasked(watching: Daemon) -> None:
    """An appended line is searchable within moments, without anybody asking."""
    watching.append("project/one.jsonl", one("a medlar").last_line())
    eventually(lambda: watching.found("medlar"))


def test_a_new_file_is_found_unasked(watching: Daemon) -> None:
    """A new file in new directories is found, however quickly it was written after they were made."""
    for number in range(20):
        watching.write(
            f"new{number}/a/b/{number}.jsonl", PiSession(id=f"new-{number}").user(f"scorzonera{number}").bytes()
        )
    for number in range(20):
        eventually(lambda number=number: watching.found(f"scorzonera{number}"))  # type: ignore[misc]  # a default in a lambda


@pytest.mark.fault(3)
def test_appends_in_a_directory_that_was_moved_in(watching: Daemon) -> None:
    """A directory that is moved in is read, and so is what is appended there later."""
    outside = watching.directory / "outside"
    outside.mkdir()
    session = PiSession(id="moved-1").user("a salsify")
    (outside / "moved.jsonl").write_bytes(session.bytes())
    outside.rename(watching.root / "inside")
    eventually(lambda: watching.found("salsify"))
    watching.append("inside/moved.jsonl", session.user("a skirret").last_line())
    eventually(lambda: watching.found("skirret"))


@pytest.mark.fault(9, 18)
def test_without_events() -> None:
    """With `--watch=off` nothing is noticed, until a fresh query asks."""
    with Daemon({"sweepSeconds": 86_400}, ["--watch=off"]) as daemon:
        assert daemon.swept().call("status")["sources"][0]["mode"] == "polling"
        daemon.write("a.jsonl", PiSession().user("quince").bytes())
        assert daemon.found("quince", fresh=True)
        daemon.append("a.jsonl", PiSession().user("quince").user("medlar").last_line())
        assert not daemon.found("medlar")
        assert daemon.found("medlar", fresh=True)


@pytest.mark.fault(17)
def test_polling() -> None:
    """With `watch: polling` changes are found by sweeps."""
    with Daemon({"watch": "polling", "sweepSeconds": 1}) as daemon:
        daemon.sync()
        daemon.write("a.jsonl", PiSession().user("quince").bytes())
        eventually(lambda: daemon.found("quince"))
        assert daemon.call("status")["lastEventAt"] is None


@pytest.mark.fault(7)
def test_a_root_that_is_made_later() -> None:
    """A root that is made after the start is noticed without a sweep, and is no reason to be degraded before."""
    with Daemon(None) as daemon:
        daemon.stop()
        daemon.configure({"sweepSeconds": 86_400})
        daemon.start().swept().sync()
        status = daemon.call("status")
        modes = [source["mode"] for source in status["sources"] if source["parser"] != "sesame"]
        assert (status["state"], set(modes)) == ("ready", {"missing"})
        root = daemon.home / ".pi/agent/sessions"
        root.mkdir(parents=True)
        PiSession().user("quince").write(root)
        eventually(lambda: daemon.found("quince"))
        eventually(lambda: daemon.call("status")["sources"][0]["mode"] == "events")


@pytest.mark.fault(8)
def test_a_root_that_is_a_link(watching: Daemon) -> None:
    """A root may be a link to a directory; appends there are noticed."""
    real = watching.directory / "real"
    real.mkdir()
    (watching.directory / "link").symlink_to(real)
    watching.configure({"sources": [{"parser": "pi", "path": str(watching.directory / "link")}]})
    watching.restart().swept()
    (real / "a.jsonl").write_bytes(PiSession().user("a medlar").bytes())
    eventually(lambda: watching.found("medlar"))
    (real / "a.jsonl").write_bytes(PiSession().user("a medlar").user("a salsify").bytes())
    eventually(lambda: watching.found("salsify"))


# -- lines


@pytest.mark.fault(23, 24)
def test_a_line_byte_by_byte(watching: Daemon) -> None:
    """A line that comes in pieces is found once, when it is whole."""
    whole = one("ünïcödé 🎉 medlar").last_line()
    for byte in range(len(whole)):
        assert not watching.found("medlar")
        watching.append("project/one.jsonl", whole[byte : byte + 1])
        watching.sync()
    assert watching.texts("one-1")[2:] == ["ünïcödé 🎉 medlar"]


def test_a_last_line_without_newline(watching: Daemon) -> None:
    """A last line without newline is taken when its file has been quiet for two seconds."""
    at = time.time()
    watching.append("project/one.jsonl", one("a medlar").last_line()[:-1])
    watching.sync()
    assert not watching.found("medlar") or time.time() - at >= 2
    eventually(lambda: watching.found("medlar"))


@pytest.mark.fault(52)
def test_an_old_file_without_newline(watching: Daemon) -> None:
    """A last line without newline in a file that was left alone for longer is taken when it is first seen."""
    path = watching.write("old.jsonl.part", PiSession(id="old-1").user("before").user("a medlar").bytes()[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    os.rename(path, watching.path("old.jsonl"))
    watching.sync()
    assert watching.found("medlar") == ["old-1"]


@pytest.mark.fault(52)
@pytest.mark.parametrize("more", [b"\n", b"\n" + one("a medlar", "and more").last_line()])
def test_a_provisional_line_that_is_completed(watching: Daemon, more: bytes) -> None:
    """A line that was taken without its newline is there once when the newline comes."""
    path = watching.append("project/one.jsonl", one("a medlar").last_line()[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    watching.sync()
    assert watching.found("medlar")
    watching.append("project/one.jsonl", more)
    watching.sync()
    assert watching.texts("one-1") == ["the first quince", "an answer", "a medlar", "and more"][: 3 + (len(more) > 1)]
    same_as_rebuilt(watching)


def test_a_provisional_line_that_goes_on(watching: Daemon) -> None:
    """A line that was taken without its newline is replaced when it goes on otherwise."""
    path = watching.append("project/one.jsonl", one("a medlar").last_line()[:-1])
    os.utime(path, (1_700_000_000, 1_700_000_000))
    watching.sync()
    watching.append("project/one.jsonl", b'{"torn": "\n' + one("x", "a salsify").last_line())
    watching.sync()
    same_as_rebuilt(watching)
    assert watching.found("salsify")


@pytest.mark.fault(25, 28, 30)
def test_bad_lines(watching: Daemon) -> None:
    """A bad line is counted and skipped, never the file."""
    bad = [b"{", b"\0" * 5000, b"\xff\xfe", b"[1]", b"nothing", b'{"type":"message","id":', b"{" * 100_000]
    watching.append("project/one.jsonl", b"\n".join(bad) + b"\n\n  \r\n" + one("a medlar").last_line())
    watching.sync()
    assert watching.found("medlar")
    assert watching.call("status")["counts"]["badLines"] == len(bad)
    (file,) = watching.call("list_bad_lines")["files"]
    data = Path(file["path"]).read_bytes()
    assert (os.fsencode(file["path"]), file["part"]) == (watching.path("project/one.jsonl"), None)
    assert [data.split(b"\n")[line["line"] - 1] for line in file["lines"]] == bad


def test_an_unfinished_line_is_said(watching: Daemon) -> None:
    """It waits, and that is not nothing; when it is whole it does not any more."""
    path = watching.append("project/one.jsonl", b'{"type":')
    watching.sync()
    assert watching.call("list_bad_lines")["unfinished"] == [{"path": path, "bytes": 8}]
    assert watching.call("status")["pending"] == {"files": 0, "bytes": 8}
    watching.append("project/one.jsonl", b'"custom"}\n')
    watching.sync()
    assert watching.call("list_bad_lines") == {"total": 0, "files": [], "nextOffset": None, "unfinished": []}


@pytest.mark.fault(29)
def test_long_lines() -> None:
    """A line over the limit is passed over and counted; what comes after it is found."""
    with Daemon({"limits": {"maxLineBytes": 65536}}) as daemon:
        session = PiSession().user("before").user("long " * 30_000).user("a medlar")
        daemon.write("a.jsonl", session.bytes())
        daemon.sync()
        assert daemon.texts(session.id) == ["before", "a medlar"]
        assert daemon.call("status")["counts"]["badLines"] == 1
        same_as_rebuilt(daemon)


# -- order


@pytest.mark.fault(20)
def test_live_appends_do_not_wait_for_the_backlog() -> None:
    """While an archive is being read, today's work is found first, and an append at once."""
    with Daemon(program=held.PROGRAM) as daemon:
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
            daemon.append("live.jsonl", live.user(f"salsify{number}").last_line())
            eventually(lambda number=number: daemon.found(f"salsify{number}"))  # type: ignore[misc]  # a default in a lambda
        status = daemon.call("status")
        listed = [hit["sessionId"] for hit in daemon.call("search", query="archived", limit=100)["results"]]
        assert early < 100
        assert status["counts"]["files"] < 250
        assert (status["state"], status["pending"]["files"] > 0) == ("indexing", True)
        assert status["indexing"]["filesDone"] < status["indexing"]["filesTotal"]
        assert "archive-000" not in listed
        held.let_go(daemon)
        daemon.sync()
        assert daemon.call("status")["counts"]["files"] == 301

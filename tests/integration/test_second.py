"""The second process that answers, beside a real daemon: there while many ask, and gone with it."""

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

# A single question is a crowd, and asked there; what was answered there is noted.
PROGRAM = """
import sys, time
from pathlib import Path
from sesamed.methods import method
from sesamed.methods.second import child
method.CROWDED_S = method.CROWD = 0
child.count_cores = lambda: 2
class There(method.QueryRunner):
    def _share(self):
        while self.second.has_room and (question := self._turns.take_there(time.monotonic())) is not None:
            self._ask_there(self.second, question)
        super()._share()
    def _hear(self, question, beside, reply):
        if reply is not None and reply.answer is not None:
            Path("answered").touch()
        super()._hear(question, beside, reply)
method.QueryRunner = There
from sesamed.cli import main
sys.exit(main())
"""
SPENT = {"tookMs": 0}


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon(program=("-c", PROGRAM)) as made:
        yield made


def find_second(daemon: Daemon) -> list[int]:
    """Those that answer for it."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,args="], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return [
        int(pid)
        for pid, parent, *program in rows
        if int(parent) == daemon.pid and "sesamed.methods.second" in str(program)
    ]


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def was_asked(daemon: Daemon) -> bool:
    """Whether one of them has answered."""
    return (daemon.directory / "answered").exists()


@pytest.mark.fault(137)
def test_it_answers_is_killed_and_ends_with_the_daemon(daemon: Daemon) -> None:
    """The answers are the same all the time: what was appended is in them, and what was killed is asked again."""
    daemon.allowed.append("are answered by one process")
    session = PiSession(id="s1").user("quince and medlar").user("a quince")
    daemon.write("one.jsonl", session.bytes())
    daemon.sync()
    alone = daemon.call("search", query="quince") | SPENT
    eventually(lambda: daemon.call("search", query="quince") | SPENT == alone and was_asked(daemon))
    daemon.write("one.jsonl", session.assistant("the salsify").bytes())
    daemon.sync()
    assert daemon.call("search", query="salsify")["total"] == 1
    assert daemon.call("search", query="quincce")["corrected"] == {"quincce": "quince"}
    assert daemon.call("search_sessions", query="salsify")["hits"][0]["window"][-1]["snippet"] == "the salsify"
    (pid,) = find_second(daemon)
    os.kill(pid, signal.SIGKILL)
    assert daemon.call("search", query="salsify")["total"] == 1
    daemon.stop()
    for end in (daemon.stop, daemon.kill):
        (daemon.directory / "answered").unlink()
        daemon.start()
        eventually(lambda: bool(daemon.call("search", query="quince")["total"] and was_asked(daemon)))
        (pid,) = find_second(daemon)
        end()
        eventually(lambda pid=pid: not is_there(pid))  # type: ignore[misc]  # a default in a lambda
    daemon.start()

"""What the daemon says of itself: where it goes, that it stays small, and what is never in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sesamectl.errors import RpcError
from sesamed.logs import MAX_BYTES, OLD_LOGS
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import CODE, Daemon, surroundings
from tests.support.sessions import PiSession

CANARY = "sesquipedalian-canary"
TALK = """
import logging, os, sys
from sesamed import logs
logs.configure("debug", os.environ)
logs.keep_own_log(os.path.dirname(sys.argv[1]), os.environ)
for number in range(int(sys.argv[2])):
    logging.getLogger("talk").info("number=%d %s", number, "x" * 1000)
logging.getLogger("talk").error("evil=%s\\nsecond line", "a\\x1b[31m\\x9b2J\\rb")
logging.getLogger("talk").debug("said at debug")
os.write(2, b"last words\\n")
"""


def talk(file: Path, lines: int, journal: bool = False) -> str:
    """A process that logs so many lines to this file."""
    environ = {**surroundings(), "PYTHONPATH": os.pathsep.join(CODE)}
    with open(file, "ab") as log:
        if journal:
            status = os.fstat(log.fileno())
            environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
        command = [sys.executable, "-W", "error", "-c", TALK, str(file), str(lines)]
        subprocess.run(command, env=environ, stdout=log, stderr=log, check=True)
    return file.read_text()


def test_the_own_log_is_turned_over(tmp_path: Path) -> None:
    """A log in the data directory is turned over when it is full; a few old ones stay; all are private."""
    log = tmp_path / "sesamed.log"
    text = talk(log, 4500)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sesamed.log", "sesamed.log.1", "sesamed.log.2"]
    assert len(list(tmp_path.iterdir())) == OLD_LOGS + 1
    for path in tmp_path.iterdir():
        assert path.stat().st_size < MAX_BYTES + 2000
        assert path.stat().st_mode & 0o777 == 0o600
    assert "number=4499 " in text
    assert text.endswith("last words\n")


def test_a_log_that_was_full_at_the_start(tmp_path: Path) -> None:
    """What others have filled is turned over at the start."""
    log = tmp_path / "sesamed.log"
    log.write_bytes(b"x" * MAX_BYTES)
    assert "xxx" not in talk(log, 0)
    assert (tmp_path / "sesamed.log.1").stat().st_size == MAX_BYTES


def test_another_file_is_left_alone(tmp_path: Path) -> None:
    """Where somebody has put standard error elsewhere, that is theirs to keep small."""
    log = tmp_path / "theirs"
    talk(log, 1500)
    assert log.stat().st_size > MAX_BYTES
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    """Control characters, in names of files for instance, are written as what they are."""
    text = talk(tmp_path / "log", 0)
    assert "evil=a\\x1b[31m\\x9b2J\\x0db\nsecond line\n" in text


def test_a_journal_gets_priorities(tmp_path: Path) -> None:
    """In a journal each line has its priority, and no time of its own."""
    text = talk(tmp_path / "log", 1, journal=True)
    assert text.startswith("<6>INFO talk number=0 ")
    assert "\n<3>ERROR talk evil=" in text
    assert "\n<3>second line\n<7>DEBUG talk said at debug\n" in text


@pytest.mark.fault(106)
def test_no_transcript_text_at_any_level() -> None:
    """At the highest level of detail nothing of what was said in a session, or asked of the index, is in the log."""
    with Daemon({"sources": None}, arguments=["--log-level", "debug"]) as daemon:
        daemon.stop()
        daemon.configure(
            {"sources": [{"parser": name, "path": str(daemon.root / name)} for name in ("pi", "claude", "codex")]}
        )
        daemon.write("pi/a.jsonl", PiSession(id="session-p").user(CANARY).assistant(CANARY).bytes() + bad_lines())
        claude = ClaudeSession().user(CANARY).assistant(CANARY).lines()
        daemon.write("claude/a.jsonl", b"\n".join([*claude, b""]) + bad_lines())
        daemon.write("codex/a.jsonl", CodexSession().user(CANARY).assistant(CANARY).bytes() + bad_lines())
        daemon.start().sync()
        assert len(daemon.found(CANARY)) == 3
        for query in (CANARY, f'"{CANARY}', f"{CANARY}*", f"-{CANARY}"):
            daemon.call("search", query=query)
        with daemon.connect() as client:
            client.raw(f'{{"{CANARY}\n'.encode())
            assert client.line()["error"]["code"] == -32700
        for method, params in ((CANARY, {}), ("search", {CANARY: 1}), ("search", {"query": CANARY, "after": CANARY})):
            with pytest.raises(RpcError):
                daemon.call(method, **params)
        daemon.call("index", full=True)
        daemon.stop()
        assert "DEBUG" in daemon.log
        assert "lines not decoded count=4 path=b'" in daemon.log
        assert CANARY not in daemon.log


def bad_lines() -> bytes:
    """Lines that nobody can decode, and lines of types that nobody knows."""
    unknown = json.dumps({"type": CANARY, "message": {"role": CANARY, "content": [{"type": CANARY, "text": CANARY}]}})
    lines = [f'{{"type":"message","x":"{CANARY}', CANARY, unknown, f'{{"type":"{CANARY}"}} trailing {CANARY}']
    return "\n".join([*lines, ""]).encode() + b"\xff" + CANARY.encode() + b"\n"

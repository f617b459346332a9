"""Nobody else can read what is indexed, and nothing of it stands in the log."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, check_private
from tests.support.sessions import PiSession

CANARY = "sesquipedalian-canary"
NOBODY = 65534


def test_modes() -> None:
    """Directories are 0700; socket, locks, index and what belongs to it 0600, whatever the umask."""
    before = os.umask(0)
    try:
        with Daemon() as daemon:
            daemon.fill()
            for path in (daemon.data_dir, daemon.runtime_dir):
                check_private(path)
            assert Path(f"{daemon.database}-wal").exists()
            daemon.call("index", full=True)
            check_private(daemon.data_dir)
    finally:
        os.umask(before)


def test_open_directories_are_closed() -> None:
    """Directories that were open to others are closed at the start."""
    with Daemon() as daemon:
        daemon.stop()
        for path in (daemon.data_dir, daemon.runtime_dir):
            path.chmod(0o777)
        daemon.database.chmod(0o666)
        daemon.start()
        for path in (daemon.data_dir, daemon.runtime_dir):
            check_private(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_foreign_user() -> None:
    """Another user's client gets nothing, even where the modes would let it in."""
    script = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(sys.argv[2].encode())
sys.stdout.buffer.write(client.recv(99))
"""
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "hello"}) + "\n"
    with Daemon() as daemon:
        daemon.allowed.append("refused client")
        for path in (daemon.directory, daemon.runtime_dir, Path(daemon.socket)):
            path.chmod(0o777)
        python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
        if python is None:
            pytest.skip("no Python that another user may run")
        run = subprocess.run(
            [python, "-I", "-S", "-c", script, daemon.socket, request], user=NOBODY, capture_output=True, check=False
        )
        assert run.stdout == b""
        assert run.stderr == b"" or b"reset" in run.stderr or b"Broken pipe" in run.stderr
        daemon.runtime_dir.chmod(0o700)  # or we would not ask either
        assert daemon.call("hello")["pid"] == daemon.pid


def test_no_text_in_the_log() -> None:
    """Nothing that was said, asked or named stands in the log, at any level."""
    with Daemon(arguments=["--log-level", "debug"]) as daemon:
        session = (
            PiSession(id="session-1")
            .user(f"{CANARY} one")
            .name(f"{CANARY} two")
            .tool("bash", {"command": CANARY}, CANARY)
        )
        daemon.write("a.jsonl", session.bytes() + CANARY.encode() + b"\n{" + CANARY.encode() + b'": }\n')
        daemon.sync()
        assert daemon.found(CANARY)
        daemon.call("index", full=True)
        with daemon.connect() as client:
            for bad in (
                CANARY.encode(),
                json.dumps({"jsonrpc": "2.0", "id": 1, "method": CANARY}).encode(),
                json.dumps(
                    {"jsonrpc": "2.0", "id": 2, "method": "search", "params": {"query": CANARY, CANARY: 1}}
                ).encode(),
                json.dumps(
                    {"jsonrpc": "2.0", "id": 3, "method": "search", "params": {"query": CANARY, "after": CANARY}}
                ).encode(),
                json.dumps(
                    {"jsonrpc": "2.0", "id": 4, "method": "list_messages", "params": {"sessionId": CANARY}}
                ).encode(),
            ):
                client.raw(bad + b"\n")
                assert "error" in client.line()
        daemon.restart()
        assert daemon.found(CANARY)
        daemon.write("a.jsonl", session.user(f"{CANARY} three").bytes())
        daemon.sync()
        daemon.stop()
        assert "ready" in daemon.log
        assert CANARY not in daemon.log

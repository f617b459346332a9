"""Nobody else can read what is indexed, and nothing of it stands in the log."""

import ctypes
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from sesamed.paths import find
from sesamed.store import schema
from tests.support.daemon import CONFIGURATION, Daemon, check_private
from tests.support.sessions import PiSession

CANARY = "sesquipedalian-canary"
NOBODY = 65534


@pytest.mark.fault(71)
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


class Births(threading.Thread):
    """The modes that files and directories have in the moment in which they come to be, as far as one can be so quick."""

    CREATE, MOVED_TO, IS_DIRECTORY = 0x100, 0x80, 0x40000000

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self.modes: dict[str, set[int]] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_CLOEXEC)
        self._watched: dict[int, str] = {}
        self._end = directory / "the end"
        self._watch(str(directory))

    def __enter__(self) -> "Births":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.touch(mode=0o600)
        self.join(30)
        os.close(self._descriptor)

    def _watch(self, directory: str) -> None:
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), self.CREATE | self.MOVED_TO)
        self._watched[number] = directory
        for name in os.listdir(directory):
            self._see(os.path.join(directory, name))

    def _see(self, path: str) -> None:
        self.modes.setdefault(path, {0})  # it was there, if we come too late for its mode
        with suppress(FileNotFoundError):
            mode = os.lstat(path).st_mode
            self.modes.setdefault(path, set()).add(stat.S_IMODE(mode))
            if stat.S_ISDIR(mode) and path not in self._watched.values():
                self._watch(path)

    def run(self) -> None:
        while not self._end.exists():
            data, at = os.read(self._descriptor, 1 << 16), 0
            while at < len(data):
                number, _, _, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + size].rstrip(b"\0")
                self._see(os.path.join(self._watched[number], os.fsdecode(name)))
                at += 16 + size


@pytest.mark.fault(71)
@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux'")
def test_private_from_the_first_byte() -> None:
    """Whoever creates it, client or daemon, and whatever the umask: nothing is closed only afterwards."""
    with Daemon() as daemon:
        daemon.stop()
        daemon.data_dir = daemon.directory / "new" / "parent" / "data"
        daemon.runtime_dir = daemon.directory / "another" / "run"
        environ = {
            **daemon.environ(),
            "SESAME_DATA_DIR": str(daemon.data_dir),
            "SESAME_RUNTIME_DIR": str(daemon.runtime_dir),
        }
        environ.pop("NOTIFY_SOCKET", None)
        session = PiSession(id="session-1").user("quince")
        daemon.write("a.jsonl", session.bytes())
        with Births(daemon.directory) as births:
            for arguments in ("search quince", "forget session-1 --yes", "stop", "search *", "stop"):
                command = [sys.executable, "-m", "sesamectl", *arguments.split()]
                done = subprocess.run(command, env=environ, capture_output=True, umask=0, cwd="/", check=False)
                assert done.returncode == 0, done.stderr
                daemon.configure({"secrets": "drop"})  # then the index is set aside
        ours = {
            path: modes
            for path, modes in births.modes.items()
            if path.startswith((str(daemon.directory / "new"), str(daemon.directory / "another")))
        }
        assert {os.path.basename(path) for path in ours} >= {
            "parent", "data", "run", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite.new", "sesamed.lock",
            "sesamed.log", "start.lock", "forgotten.jsonl", "workstations.jsonl", "sessions", f"index.sqlite.old-{schema.VERSION}",
        }  # fmt: skip
        assert {path: modes for path, modes in ours.items() if max(modes) & 0o077} == {}
        daemon.data_dir = daemon.directory / "data"
        daemon.runtime_dir = daemon.directory / "run"
        daemon.start()


def test_open_directories_are_closed() -> None:
    """Directories that were open to others are closed at the start, and so is the index with what a killed daemon left beside it."""
    with Daemon() as daemon:
        daemon.fill().kill()
        for path in (daemon.data_dir, daemon.runtime_dir):
            path.chmod(0o777)
        for suffix in ("", "-wal", "-shm"):
            Path(f"{daemon.database}{suffix}").chmod(0o666)
        daemon.start()
        for path in (daemon.data_dir, daemon.runtime_dir):
            check_private(path)


@pytest.mark.parametrize("variable", ["SESAME_SOCKET", "SESAME_RUNTIME_DIR", "SESAME_DATA_DIR"])
@pytest.mark.parametrize("place", ["shared", "home"])
def test_directories_of_others_stay_open(variable: str, place: str) -> None:
    """A directory that others use is refused in one line; nothing is changed, and nothing left there."""
    with Daemon() as daemon:
        daemon.stop()
        directory = daemon.directory / place
        directory.mkdir(exist_ok=True)
        directory.chmod(0o1777 if place == "shared" else 0o755)
        before = directory.stat().st_mode
        daemon.extra_environ[variable] = str(directory / "x.sock" if variable == "SESAME_SOCKET" else directory)
        code, said = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert said.count("\n") == 1
        assert f"{directory} is " in said
        assert "use a directory that is only sesame's" in said
        assert directory.stat().st_mode == before
        assert list(directory.iterdir()) == []


def test_what_is_ours() -> None:
    """Whatever a daemon leaves in its directories is known to be ours."""
    with Daemon() as daemon:
        daemon.fill().call("index", full=True)
        daemon.call("set_session_meta", sessionId="session-0", tags=["a"])
        daemon.call("forget", sessionId="session-1")
        daemon.kill()
        data = bytearray(daemon.database.read_bytes())
        data[:100] = b"x" * 100
        daemon.database.write_bytes(data)
        daemon.allowed.append("damaged")
        daemon.start().stop()
        owns = find(daemon.environ()).owns
        names = [path.name for directory in (daemon.data_dir, daemon.runtime_dir) for path in directory.iterdir()]
        assert len(names) > 5
        assert [name for name in names if not owns(name)] == []


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


def test_what_is_excluded_leaves_the_file_with_a_rebuild() -> None:
    """docs/privacy.md: it is out of all answers at once, and out of the index's file when that is written anew."""
    with Daemon() as daemon:
        project = daemon.directory / "project"
        project.mkdir()
        session = PiSession(cwd=str(project)).user("a quinceword")
        daemon.write("one.jsonl", session.bytes())
        daemon.sync()
        (project / ".sesameignore").touch()
        daemon.call("index")
        assert daemon.found("quinceword") == []
        daemon.call("index", full=True)
        daemon.stop()
        kept = [path for path in daemon.data_dir.rglob("*") if path.is_file() and b"quinceword" in path.read_bytes()]
        assert kept == []

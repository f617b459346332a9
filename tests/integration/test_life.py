"""How a daemon starts, ends, and stays alone and private."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from sesamed.store.index import remove_index
from sesamed.store.older import older_indexes
from sesamed.store.schema import VERSION
from tests.support.client import Client
from tests.support.daemon import Daemon, eventually, surroundings
from tests.support.older import made
from tests.support.sessions import PiSession
from tests.support.traced import PROGRAM, events

ANOTHER, CONFIGURATION = 75, 78
CANARY = "sesquipedalian-canary"
NOBODY = 65534


def filled(daemon: Daemon, files: int = 3) -> Daemon:
    for number in range(files):
        daemon.write(
            f"{number}.jsonl", PiSession(id=f"session-{number}").user(f"quince {number}").assistant("an answer").bytes()
        )
    daemon.sync()
    return daemon


def everything_private(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        mode = path.lstat().st_mode
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


# -- one instance


def test_a_second_daemon() -> None:
    """A second daemon says who is there and ends with 75; the first one stays as it is."""
    with Daemon() as daemon:
        filled(daemon)
        inode = os.stat(daemon.socket).st_ino
        code, said = daemon.refuses_to_start()
        assert code == ANOTHER
        assert str(daemon.pid) in said
        assert os.stat(daemon.socket).st_ino == inode
        assert daemon.found("quince")


def test_a_second_daemon_with_other_data() -> None:
    """Another index does not help: the socket has one owner, and its lock is looked at before anything is touched."""
    with Daemon() as daemon, Daemon() as other:
        other.stop()
        other.runtime_dir = daemon.runtime_dir
        code, _ = other.refuses_to_start()
        assert code == ANOTHER
        assert daemon.call("hello")["pid"] == daemon.pid


def test_a_second_daemon_on_the_same_data() -> None:
    """Another socket does not help: the index has one owner."""
    with Daemon() as daemon, Daemon() as other:
        other.stop()
        other.data_dir = daemon.data_dir
        code, _ = other.refuses_to_start()
        assert code == ANOTHER


def test_after_a_kill() -> None:
    """The socket that a killed daemon left behind is taken over."""
    with Daemon() as daemon:
        filled(daemon).kill()
        assert os.path.lexists(daemon.socket)
        daemon.start()
        assert len(daemon.found("quince")) == 3


def test_a_file_in_the_way() -> None:
    """What is no socket is not replaced: 78, and what to do."""
    with Daemon() as daemon:
        daemon.stop()
        Path(daemon.socket).write_text("somebody's")
        code, said = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert daemon.socket in said
        assert Path(daemon.socket).read_text() == "somebody's"
        os.unlink(daemon.socket)


def test_a_socket_that_is_removed() -> None:
    """When the socket's file is removed, it is back soon; connections that are open stay so."""
    with Daemon() as daemon:
        daemon.allowed.append("the socket was removed")
        before = daemon.call("hello")
        shutil.rmtree(daemon.runtime_dir)
        eventually(lambda: os.path.lexists(daemon.socket))
        with daemon.connect() as client:
            assert client.call("hello") == before
        assert daemon.call("hello") == before
        everything_private(daemon.runtime_dir)
        code, _ = daemon.refuses_to_start()
        assert code == ANOTHER


# -- configuration


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ('{"sweepSecond": 5}', "sweepSecond"),
        ('{"sweepSeconds": "5"}', "sweepSeconds"),
        ('{"sources": [{"parser": "pie", "path": "/a"}]}', "sources[0].parser"),
        ('{"sources": [{"parser": "pi", "path": "a"}]}', "sources[0].path"),
        ('{"gone": "never"}', "gone"),
        ('{"limits": {"maxLineBytes": 1}}', "limits.maxLineBytes"),
        ("{\n\n  nonsense\n}", "line"),
        ("[]", "object"),
    ],
)
def test_a_wrong_configuration(config: str, named: str) -> None:
    """A wrong configuration is refused with 78, naming file and key and what was expected; nothing is made."""
    with Daemon() as daemon:
        daemon.stop()
        shutil.rmtree(daemon.data_dir)
        daemon.config_file.write_text(config)
        code, said = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert str(daemon.config_file) in said
        assert named in said
        assert "Traceback" not in said
        assert not daemon.data_dir.exists()


def test_no_configuration() -> None:
    """No configuration is needed: the agents' own directories are found."""
    with Daemon(None) as daemon:
        assert [(s["parser"], s["path"]) for s in daemon.call("status")["sources"]] == [
            ("pi", str(daemon.home / ".pi/agent/sessions")),
            ("claude", str(daemon.home / ".claude/projects")),
            ("codex", str(daemon.home / ".codex/sessions")),
            ("codex", str(daemon.home / ".codex/archived_sessions")),
            ("gemini", str(daemon.home / ".gemini/tmp")),
            ("opencode", str(daemon.home / ".local/share/opencode")),
            ("sesame", str(daemon.data_dir / "sessions")),
        ]


def test_discovered_roots_are_kept() -> None:
    """Roots are discovered at the first start; later the environment of whoever starts the daemon changes nothing."""
    with Daemon(None, environ={"PI_CODING_AGENT_DIR": "/nowhere/agent"}) as daemon:
        roots = [source["path"] for source in daemon.call("status")["sources"]]
        assert roots[0] == "/nowhere/agent/sessions"
        daemon.stop()
        daemon.extra_environ.clear()
        daemon.start()
        assert [source["path"] for source in daemon.call("status")["sources"]] == roots


def test_pi_session_paths() -> None:
    """The key that people have today is understood, with comments around it."""
    with Daemon(None) as daemon:
        daemon.stop()
        daemon.config_file.write_text(f'// mine\n{{"piSessionPaths": ["{daemon.root}",], /* all */}}')
        filled(daemon.start())
        assert daemon.found("quince")


# -- the index


def test_a_newer_schema() -> None:
    """An index of a newer sesame is refused with 78 and left untouched."""
    with Daemon() as daemon:
        filled(daemon).stop()
        with daemon.opened(writable=True) as connection:
            connection.pragma("user_version", 99)
        before = daemon.database.read_bytes()
        code, said = daemon.refuses_to_start()
        assert code == CONFIGURATION
        assert "99" in said
        assert daemon.database.read_bytes() == before
        with daemon.opened(writable=True) as connection:
            connection.pragma("user_version", VERSION)
        assert len(daemon.start().found("quince")) == 3


def test_an_older_schema() -> None:
    """A new index is made from the files, and from what only the old one holds, which then goes; answers wait for none of it."""
    with Daemon() as daemon:
        filled(daemon).stop()
        remove_index(str(daemon.database))
        made(daemon.database)
        daemon.start()
        assert daemon.call("hello")["schema"] == VERSION
        daemon.sync()
        assert len(daemon.found("quince")) == 3
        eventually(lambda: older_indexes(str(daemon.database)) == [])
        assert daemon.found("marrow") == ["long"]
        assert "tool: shell\ncommand: ls\noutput:\na" in str(daemon.everything()).replace(
            "\\n", "\n"
        )  # it was JSON, and its file is gone
        assert daemon.call("get_session_meta", sessionId="late")["summary"] == "What became of the delta"
        assert daemon.call("list_sessions")["sessions"][0]["key"].startswith("golden00:")
        assert "secret" not in str(daemon.everything())
        daemon.check_index()
        assert len(daemon.restart().found("marrow")) == 1


def test_an_older_schema_that_cannot_be_carried_over() -> None:
    """The old index stays, and the status says so; a later start tries again."""
    with Daemon() as daemon:
        daemon.allowed.append("cannot carry over an older index")
        filled(daemon).stop()
        remove_index(str(daemon.database))
        connection = apsw.Connection(made(daemon.database))
        connection.execute("ALTER TABLE rivals RENAME TO lost")
        connection.close()
        daemon.start()
        (warning,) = eventually(lambda: daemon.call("status")["warnings"])
        assert warning["code"] == "older-index"
        (old,) = older_indexes(str(daemon.database))
        assert old in warning["message"]
        assert len(daemon.found("quince")) == 3
        daemon.stop()
        connection = apsw.Connection(old)
        connection.execute("ALTER TABLE lost RENAME TO rivals")
        connection.close()
        daemon.start()
        eventually(lambda: older_indexes(str(daemon.database)) == [])
        assert daemon.found("marrow") == ["long"]
        assert daemon.call("status")["warnings"] == []


def test_an_older_index_that_is_damaged() -> None:
    """It stays beside the new one, which is none the worse for it at any start."""
    with Daemon() as daemon:
        daemon.allowed.append("an older index")
        filled(daemon).stop()
        old = Path(f"{daemon.database}.old-4")
        old.write_bytes(b"nothing of a database" * 1000)
        for _ in range(2):
            daemon.start()
            assert len(daemon.found("quince")) == 3
            (warning,) = eventually(lambda: daemon.call("status")["warnings"])
            assert str(old) in warning["message"]
            daemon.stop()
        assert list(daemon.database.parent.glob("*.damaged-*")) == []


def test_a_schema_that_was_never_released() -> None:
    """Files are read anew; what is gone stays in the old index, and the status says where."""
    with Daemon() as daemon:
        filled(daemon).stop()
        remove_index(str(daemon.database))
        connection = apsw.Connection(made(daemon.database))
        connection.pragma("user_version", 3)
        connection.close()
        daemon.start()
        (warning,) = eventually(lambda: daemon.call("status")["warnings"])
        assert "index.sqlite.old-3 has schema 3, which was never released" in warning["message"]
        assert len(daemon.found("quince")) == 3
        assert daemon.found("marrow") == []
        assert daemon.call("list_sessions")["sessions"][0]["key"].startswith("golden00:")


def test_a_foreign_database() -> None:
    """A database of another program is refused, and left untouched."""
    with Daemon() as daemon:
        daemon.stop()
        daemon.database.unlink()
        connection = apsw.Connection(str(daemon.database))
        connection.execute("CREATE TABLE theirs(a); INSERT INTO theirs VALUES('important')")
        connection.close()
        before = daemon.database.read_bytes()
        code, said = daemon.refuses_to_start()
        assert code not in {0, ANOTHER}
        assert "another program" in said
        assert "Traceback" not in said
        assert daemon.database.read_bytes() == before


def _header(data: bytearray) -> None:
    data[:100] = b"nothing of a database " * 4 + b"at all, no."[:12]


def _first_page(data: bytearray) -> None:
    data[100:8000] = b"\x5a" * 7900


def _emptied_of_sense(data: bytearray) -> None:
    data[:] = b"\xff" * len(data)


def _cut(data: bytearray) -> None:
    del data[len(data) // 2 :]


@pytest.mark.parametrize("damage", [_header, _first_page, _emptied_of_sense, _cut])
def test_a_damaged_index(damage: object) -> None:
    """A damaged index is set aside and built anew, and the status says so."""
    assert callable(damage)
    with Daemon() as daemon:
        filled(daemon, 30).stop()
        data = bytearray(daemon.database.read_bytes())
        damage(data)
        daemon.database.write_bytes(data)
        daemon.allowed.append("damaged")
        daemon.start().sync()
        assert len(daemon.found("quince", limit=100)) == 30
        status = daemon.call("status")
        assert status["state"] == "degraded"
        assert status["warnings"][0]["code"] == "damaged"
        assert daemon.call("search", query="quince")["warnings"]
        assert bytes(data) in [path.read_bytes() for path in daemon.data_dir.iterdir() if "damaged" in path.name]
        daemon.check_index()
        daemon.restart().sync()
        assert daemon.call("status")["state"] == "ready"
        everything_private(daemon.data_dir)


def test_an_empty_database_file() -> None:
    """An index file of no bytes is an index that is yet to be made."""
    with Daemon() as daemon:
        filled(daemon).stop()
        daemon.database.write_bytes(b"")
        daemon.start().sync()
        assert len(daemon.found("quince")) == 3


def test_a_rebuild_that_was_killed() -> None:
    """What a killed rebuild left behind is removed."""
    with Daemon() as daemon:
        filled(daemon).kill()
        Path(f"{daemon.database}.new").write_bytes(b"half of it")
        Path(f"{daemon.database}.new-wal").write_bytes(b"more")
        daemon.start()
        assert not list(daemon.data_dir.glob("*.new*"))
        assert len(daemon.found("quince")) == 3


# -- signals


def test_hangup_is_ignored() -> None:
    """SIGHUP ends nothing: a terminal that closes is no reason to stop."""
    with Daemon() as daemon:
        for _ in range(3):
            os.kill(daemon.pid, signal.SIGHUP)
            assert daemon.call("hello")["pid"] == daemon.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_the_middle_of_indexing(number: signal.Signals) -> None:
    """A stop is graceful also while much is being indexed: exit 0, and the next start goes on where it ended."""
    with Daemon() as daemon:
        daemon.stop()
        for file in range(150):
            session = PiSession(id=f"session-{file}")
            for turn in range(60):
                session.user(f"quince {file} {turn} " + "words and more words " * 40)
            daemon.write(f"{file}.jsonl", session.bytes())
        daemon.start()
        eventually(lambda: daemon.call("status")["counts"]["files"] > 10)
        os.kill(daemon.pid, number)
        assert daemon.wait() == 0
        assert not os.path.lexists(daemon.socket)
        daemon.start()
        assert daemon.call("status")["counts"]["files"] < 150
        daemon.sync()
        assert daemon.call("status")["counts"]["messages"] == 150 * 60
        daemon.check_index()


def test_stop_while_the_index_is_built_anew() -> None:
    """A stop during a rebuild leaves the old index whole, and no other."""
    with Daemon() as daemon:
        filled(daemon, 400)
        daemon.client.send("index", full=True)
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.wait() == 0
        assert not list(daemon.data_dir.glob("*.new*"))
        assert len(daemon.start().found("quince", limit=100)) == 100
        daemon.check_index()


def test_it_says_when_it_stops() -> None:
    """The service manager is told that it stops before it does."""
    with Daemon() as daemon:
        os.kill(daemon.pid, signal.SIGTERM)
        daemon.wait_notified("STOPPING=1")
        assert daemon.wait() == 0


# -- privacy


def test_modes() -> None:
    """Directories are 0700; socket, locks, index and what belongs to it 0600, whatever the umask."""
    before = os.umask(0)
    try:
        with Daemon() as daemon:
            filled(daemon)
            for path in (daemon.data_dir, daemon.runtime_dir):
                everything_private(path)
            assert Path(f"{daemon.database}-wal").exists()
            daemon.call("index", full=True)
            everything_private(daemon.data_dir)
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
            everything_private(path)


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


# -- a second start


def test_a_start_over_unchanged_files_opens_none() -> None:
    """A start over files that are as they were opens no session file, and finds everything."""
    with Daemon(program=PROGRAM, arguments=["trace"]) as daemon:
        filled(daemon, 200)
        trace = daemon.directory / "trace"

        def opened() -> set[str]:
            paths = {event.path for event in events(trace) if event.path.endswith(".jsonl")}
            return {path for path in paths if path.startswith(str(daemon.root))}

        assert len(opened()) == 200
        daemon.stop()
        trace.unlink()
        daemon.start().sync()
        assert len(daemon.found("quince", limit=100)) == 100
        assert opened() == set()
        daemon.append("7.jsonl", PiSession(id="x").user("medlar").last_line())
        daemon.sync()
        assert opened() == {os.fsdecode(daemon.path("7.jsonl"))}


def test_hello_answers_when_it_is_ready() -> None:
    """Ready means: a `hello` answers, however much there is to read."""
    with Daemon() as daemon:
        filled(daemon, 300).kill()
        shutil.rmtree(daemon.data_dir)
        daemon.start()
        with Client(daemon.socket, patience_s=1) as client:
            assert client.call("hello")["pid"] == daemon.pid


def test_version() -> None:
    """`--version` and `--help` need nothing and start nothing."""
    for flag in ("--version", "--help"):
        run = subprocess.run(
            [sys.executable, "-m", "sesamed", flag], capture_output=True, check=True, env=surroundings()
        )
        assert run.stdout.startswith((b"sesamed ", b"usage: sesamed"))


def test_an_index_that_is_deleted_under_the_daemon() -> None:
    """The index can be deleted at any time: it is made anew from the files, without a restart, and status never fails."""
    with Daemon() as daemon:
        filled(daemon, 5)
        daemon.allowed.append("removed or replaced")
        for path in daemon.data_dir.glob("index.sqlite*"):
            path.unlink()
        daemon.call("status")
        eventually(daemon.database.exists)
        eventually(lambda: len(daemon.found("quince")) == 5)
        daemon.check_index()

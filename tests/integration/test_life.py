"""How a daemon starts and ends, what it is configured with, and that it stays alone."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sesamed.store.checksums import connect
from sesamed.store.sqlite import rows
from tests.support.client import PATIENCE_S, Client
from tests.support.daemon import ANOTHER, CONFIGURATION, Daemon, check_private, eventually, surroundings
from tests.support.sessions import PiSession
from tests.support.traced import PROGRAM, events

# -- one instance


@pytest.mark.fault(74)
def test_a_second_daemon() -> None:
    """A second daemon says who is there and ends with 75; the first one stays as it is."""
    with Daemon() as daemon:
        daemon.fill()
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
        daemon.fill().kill()
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


STANDS_STILL = """
import signal, sys, threading
from sesamed import standstill
standstill.TICK_S = 0.5
lock = threading.Lock()
lock.acquire()
signal.signal(signal.SIGUSR1, lambda *_: lock.acquire())
from sesamed.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.fault(76)
def test_a_loop_that_stands_still() -> None:
    """Whatever it waits for (CPython, for a thread that lacks memory): the daemon ends, says why, and another one starts."""
    with Daemon(program=("-c", STANDS_STILL)) as daemon:
        daemon.fill()
        assert daemon.process is not None
        daemon.process.send_signal(signal.SIGUSR1)
        assert daemon.wait() == 1
        assert daemon.log.endswith("sesamed: nothing has moved for 6 s; ending, so that another one can start\n")
        daemon.start()
        assert len(daemon.found("quince")) == 3


@pytest.mark.fault(75)
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
        check_private(daemon.runtime_dir)
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
        assert daemon.refuses_to_start("--check") == (code, said)
        assert not daemon.data_dir.exists()


@pytest.mark.parametrize("fault", ["", "an index of a newer version", "a shared directory", "no workstation"])
def test_a_check(fault: str) -> None:
    """What a start would be refused for is found beside the daemon that runs, in the same words; nothing is changed."""
    with Daemon() as daemon:
        database = daemon.data_dir / "index.sqlite"
        if fault == "an index of a newer version":
            with contextlib.closing(connect(str(database))) as connection:
                connection.set_busy_timeout(int(PATIENCE_S) * 1000)  # the daemon may just be writing
                connection.pragma("user_version", 99)
        elif fault == "a shared directory":
            (daemon.data_dir / "else").touch()
            daemon.data_dir.chmod(0o755)
        elif fault == "no workstation":
            daemon.configure({"workstationId": "x"})
        mode = daemon.data_dir.stat().st_mode
        checked = daemon.refuses_to_start("--check")
        assert checked[0] == (CONFIGURATION if fault else 0)
        assert daemon.data_dir.stat().st_mode == mode
        assert daemon.call("status")["pid"] == daemon.pid
        if fault:
            daemon.stop()
            assert daemon.refuses_to_start() == checked


def test_no_configuration() -> None:
    """No configuration is needed: the agents' own directories are found. One that hardly anybody has is named once it is there."""
    with Daemon(None) as daemon:
        assert [(s["parser"], s["path"]) for s in daemon.call("status")["sources"]] == [
            ("pi", str(daemon.home / ".pi/agent/sessions")),
            ("claude", str(daemon.home / ".claude/projects")),
            ("codex", str(daemon.home / ".codex/sessions")),
            ("codex", str(daemon.home / ".codex/archived_sessions")),
            ("gemini", str(daemon.home / ".gemini/tmp")),
            ("opencode", str(daemon.home / ".local/share/opencode")),
            ("copilot", str(daemon.home / ".copilot/session-state")),
            ("droid", str(daemon.home / ".factory/sessions")),
            ("sesame", str(daemon.data_dir / "sessions")),
        ]
        (meta := daemon.home / ".pi/agent/sessions-meta").mkdir(parents=True)
        (claw := daemon.home / ".openclaw/agents").mkdir(parents=True)
        (editor := daemon.home / ".config/Cursor/User/globalStorage/rooveterinaryinc.roo-cline").mkdir(parents=True)
        eventually(lambda: ("roo", str(editor)) in [(s["parser"], s["path"]) for s in daemon.call("status")["sources"]])
        eventually(
            lambda: ("openclaw", str(claw)) in [(s["parser"], s["path"]) for s in daemon.call("status")["sources"]]
        )
        eventually(lambda: ("pi", str(meta)) in [(s["parser"], s["path"]) for s in daemon.call("status")["sources"]])


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
        daemon.start().fill()
        assert daemon.found("quince")


# -- signals


@pytest.mark.fault(95)
def test_hangup_is_ignored() -> None:
    """SIGHUP ends nothing: a terminal that closes is no reason to stop."""
    with Daemon() as daemon:
        for _ in range(3):
            os.kill(daemon.pid, signal.SIGHUP)
            assert daemon.call("hello")["pid"] == daemon.pid


@pytest.mark.fault(95)
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
        with daemon.opened() as index:
            ((files,),) = rows(index, "SELECT count(*) FROM files")
        assert 10 < files < 150
        daemon.start().sync()
        assert daemon.call("status")["counts"]["messages"] == 150 * 60
        daemon.check_index()


def test_stop_while_the_index_is_built_anew() -> None:
    """A stop during a rebuild leaves the old index whole, and no other."""
    with Daemon() as daemon:
        daemon.fill(400)
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


# -- what it needs is taken away


def test_the_data_directory_is_removed() -> None:
    """It ends and says why, also in the log that was removed; the next start makes it again."""
    with Daemon() as daemon:
        daemon.fill().stop()
        daemon.log_file = daemon.data_dir / "sesamed.log"
        daemon.start()
        removed = daemon.data_dir.rename(daemon.directory / "removed")  # at once: the daemon may make files meanwhile
        shutil.rmtree(removed, ignore_errors=True)
        assert daemon.wait() == 1
        assert f"stopped: the index {daemon.database} cannot be used" in daemon.log
        assert "Traceback" not in daemon.log
        assert not Path(daemon.socket).exists()
        check_private(daemon.data_dir)
        daemon.log_file.unlink()
        assert len(daemon.start().fill().found("quince")) == 3


def test_the_data_directory_is_replaced_by_a_file() -> None:
    """It ends and says why, as does the next start."""
    with Daemon() as daemon:
        daemon.allowed.append("removed or replaced|stopped: ")
        daemon.fill()
        daemon.data_dir.rename(daemon.directory / "moved")
        daemon.data_dir.touch()
        assert daemon.wait() == 1
        assert f"stopped: the index {daemon.database} cannot be used: Not a directory" in daemon.log
        code, said = daemon.refuses_to_start()
        assert (code, said.count("\n")) == (CONFIGURATION, 1)
        daemon.data_dir.unlink()
        assert len(daemon.start().fill().found("quince")) == 3


@pytest.mark.fault(64)
def test_the_index_is_replaced_by_something_else() -> None:
    """It is set aside, and built anew; the status says what may be missing."""
    with Daemon() as daemon:
        daemon.allowed.append("removed or replaced|set aside")
        daemon.fill()
        junk = daemon.directory / "junk"
        junk.write_bytes(b"nothing of a database " * 1000)
        junk.rename(daemon.database)
        eventually(lambda: any("removed or replaced" in said["message"] for said in daemon.call("status")["warnings"]))
        eventually(lambda: len(daemon.found("quince")) == 3)
        assert {warning["code"] for warning in daemon.call("status")["warnings"]} == {"damaged"}
        assert junk.name not in os.listdir(daemon.directory)
        assert [path.read_bytes()[:7] for path in daemon.data_dir.glob("*.damaged-*Z")] == [b"nothing"]


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_the_index_is_replaced_by_what_is_no_file(make: Callable[[Path], None]) -> None:
    """It ends and says why, as does the next start, until somebody moves that away."""
    with Daemon() as daemon:
        daemon.allowed.append("removed or replaced|stopped: ")
        daemon.fill()
        beside = daemon.directory / "beside"
        make(beside)
        daemon.database.unlink()
        beside.rename(daemon.database)
        assert daemon.wait() == 1
        assert f"{daemon.database} is not a regular file; move it" in daemon.log
        code, said = daemon.refuses_to_start()
        assert (code, said.count("\n")) == (CONFIGURATION, 1)
        assert f"{daemon.database} is not a regular file; move it" in said
        daemon.database.rename(beside)
        assert len(daemon.start().fill().found("quince")) == 3


@pytest.mark.fault(75)
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_something_stands_where_the_socket_was(kind: str) -> None:
    """It is noticed and said; when it has gone, clients get in again. Until then `stop` ends the process that holds the lock."""
    with Daemon() as daemon:
        daemon.allowed.append("no client can connect|has been created again")
        place = Path(daemon.socket)

        def obstruct() -> None:
            place.unlink()
            if kind == "directory":
                place.mkdir()
            elif kind == "file":
                place.touch()
            else:
                place.symlink_to("nowhere")

        obstruct()
        eventually(lambda: f"{place} exists and is not a socket; move it" in daemon.log)
        run = _sesamectl(daemon, "search", "quince")
        assert run.returncode != 0
        assert f"{place} is not a socket; move it away" in run.stderr
        place.rmdir() if kind == "directory" else place.unlink()
        eventually(place.is_socket)
        pid = daemon.call("hello")["pid"]
        assert pid == daemon.pid
        obstruct()
        run = _sesamectl(daemon, "stop")
        assert (run.returncode, run.stdout, run.stderr) == (0, "sesamed stopped\n", "")
        assert daemon.wait() == 0
        assert os.path.lexists(place)


def test_a_stop_ends_what_hangs() -> None:
    """Whoever holds the lock and does not answer is ended, however."""
    with Daemon() as daemon:
        Path(daemon.socket).unlink()
        os.kill(daemon.pid, signal.SIGSTOP)
        run = _sesamectl(daemon, "stop")
        assert (run.returncode, run.stdout) == (0, "sesamed stopped\n")
        assert daemon.wait() == -signal.SIGKILL
        assert _sesamectl(daemon, "stop").stdout == "sesamed was not running\n"


@pytest.mark.fault(82)
def test_asking_and_stopping_when_all_connections_are_taken() -> None:
    """Whoever holds all 64, the owner can ask, see the status, and stop."""
    with Daemon() as daemon, contextlib.ExitStack() as held:
        daemon.fill()
        daemon.hang_up()  # otherwise the last of them is a guest, which has to leave when it asks nothing for a second
        clients = [held.enter_context(Client(daemon.socket)) for _ in range(64)]
        for arguments in (("search", "quince"), ("status",)):
            assert all(
                client.call("hello") for client in clients
            )  # nobody had to leave, and nobody is idle for a minute
            assert _sesamectl(daemon, *arguments, "--json").returncode == 0
        assert all(client.call("hello") for client in clients)
        with subprocess.Popen(
            [sys.executable, "-m", "sesamectl", "stop"], env=daemon.environ(), stdout=subprocess.PIPE
        ) as stop:
            assert daemon.wait() == 0
            assert stop.communicate()[0] == b"sesamed stopped\n"


def _sesamectl(daemon: Daemon, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sesamectl", *arguments],
        env=daemon.environ(),
        capture_output=True,
        text=True,
        check=False,
    )


# -- a second start


def test_a_start_over_unchanged_files_opens_none() -> None:
    """A start over files that are as they were opens no session file, and finds everything."""
    with Daemon(program=PROGRAM, arguments=["trace"]) as daemon:
        daemon.fill(200)
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
        daemon.fill(300).kill()
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


# -- what must not stand in the way


def _obstruct(place: Path, kind: str) -> None:
    """Something that is neither a file nor ours."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    if kind == "directory":
        place.mkdir()
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "link":
        target = place.parent.parent / "target"
        target.write_text("as it was\n")
        place.symlink_to(target)
    else:
        place.touch()


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("run/sesamed.soc~", "file"),
        ("run/sesamed.soc~", "directory"),
        ("run/sesamed.soc~", "fifo"),
        ("run/sesamed.soc~", "link"),
        ("data/forgotten.jsonl", "link"),
        ("data/forgotten.jsonl", "fifo"),
        ("data/ids.jsonl", "link"),
        ("data/ids.jsonl", "directory"),
        ("data/workstations.jsonl", "link"),
    ],
)
def test_what_stands_in_the_way_is_named(place: str, kind: str) -> None:
    """In one line; and it stays as it is."""
    with Daemon() as daemon:
        daemon.stop()
        path = daemon.directory / place
        path.unlink(missing_ok=True)
        _obstruct(path, kind)
        code, said = daemon.refuses_to_start()
        assert (code, said.count("\n")) == (CONFIGURATION, 1)
        assert str(path) in said
        if kind == "link":
            assert path.read_text() == "as it was\n"
        if kind == "directory":
            path.rmdir()
        else:
            path.unlink()
        daemon.start()


def test_annotations_are_not_written_through_a_link() -> None:
    """Their directory is ours, and nobody else's."""
    with Daemon() as daemon:
        daemon.fill()
        elsewhere = daemon.directory / "elsewhere"
        elsewhere.mkdir()
        (daemon.data_dir / "sessions/words").symlink_to(elsewhere)
        assert "cannot be written" in daemon.refuses("set_session_meta", sessionId="session-0", title="A title").message
        assert list(elsewhere.iterdir()) == []


def test_a_data_directory_whose_name_is_no_text() -> None:
    """SQLite cannot open anything in it."""
    with Daemon() as daemon:
        daemon.stop()
        before = daemon.extra_environ
        daemon.extra_environ = {**before, "SESAME_DATA_DIR": os.fsdecode(os.fsencode(daemon.directory) + b"/da\xffta")}
        code, said = daemon.refuses_to_start()
        assert (code, said.count("\n")) == (CONFIGURATION, 1)
        assert "is not UTF-8; set SESAME_DATA_DIR" in said
        daemon.extra_environ = before
        daemon.start()


SHORT = """
import resource, sys
from sesamed.cli import main
with open("/proc/self/status") as file:
    size = next(int(line.split()[1]) for line in file if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (size + 6000 << 10, resource.RLIM_INFINITY))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc")
def test_too_little_memory_to_start() -> None:
    """One line, and an end; what is there stays where it is."""
    with Daemon() as daemon:
        daemon.fill()
        daemon.stop()
        program, daemon._program = daemon._program, ("-c", SHORT)
        code, said = daemon.refuses_to_start()
        assert (code, said) == (1, "sesamed: not enough memory; raise its limit (ulimit -v) or free some\n")
        daemon._program = program
        assert len(daemon.start().found("quince")) == 3
        assert not list(daemon.data_dir.glob("*.damaged*"))


def test_a_long_line_under_low_memory() -> None:
    """It is said that it was too much; the others are read."""
    with Daemon({"sweepSeconds": 1}, through=["sh", "-c", 'ulimit -v 250000; exec "$@"', "sh"]) as daemon:
        daemon.allowed.append("not enough memory")
        daemon.fill()
        daemon.write("long.jsonl", PiSession(id="long").user("x" * (60 << 20)).bytes())
        eventually(lambda: "not enough memory" in str(daemon.call("status")["warnings"]))
        daemon.write("later.jsonl", PiSession(id="later").user("a medlar").bytes())
        eventually(lambda: daemon.found("medlar") == ["later"])
        os.unlink(daemon.path("long.jsonl"))
        eventually(lambda: daemon.call("status")["warnings"] == [])

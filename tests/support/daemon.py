"""A real daemon in a private place: own home, configuration, index, socket and sessions. Tests talk to it as any client does.

Nothing here sleeps to let something happen: the start is told by READY=1 on a real NOTIFY_SOCKET, what was written is waited for by
`sync`, the end by the process. Only what comes without being asked for (events) is polled for, with `eventually`.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import apsw

import sesamed
from sesamectl.errors import RpcError
from sesamed.store.checksums import connect
from sesamed.store.sqlite import add_functions
from tests.support import measured
from tests.support.client import PATIENCE_S, Client
from tests.support.sessions import PiSession

POLL_S = 0.005  # a look at the socket takes about 1 ms; nobody tells a client that an event has been served

PROGRAM = ("-m", "sesamed")
ANOTHER, CONFIGURATION = 75, 78  # what it exits with: another one runs; what it was told cannot be
CODE = (str(Path(sesamed.__file__).parent.parent), str(Path(__file__).parents[2]))
SEVERE = re.compile(r"Traceback|^\S+ \S+ (?:WARNING|ERROR|CRITICAL) ")
Place = str | bytes
T = TypeVar("T")


def surroundings() -> dict[str, str]:
    """What a process under test gets of our environment: nothing that changes what it does."""
    return {name: value for name, value in os.environ.items() if name in {"PATH", "TZ"}}


class Daemon:
    """A daemon and everything that is its own. As a context manager it is started, and must stop cleanly at the end.

    `config` is laid over one that names `root` as the only source, and has patience with questions; None for no configuration file.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = {},  # never changed
        arguments: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
        through: Sequence[str] = (),
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp")).resolve()  # short: an address holds 103 bytes
        self.home = self.directory / "home"
        self.root = self.directory / "sessions"
        self.data_dir = self.directory / "data"
        self.runtime_dir = self.directory / "run"
        self.config_file = self.directory / "config/config.jsonc"
        self.log_file = self.directory / "log"
        for directory in (self.home, self.root, self.config_file.parent):
            directory.mkdir()
        self.arguments = list(arguments)
        self.allowed: list[str] = []  # what may stand in the log, though it is severe: regular expressions
        self.process: subprocess.Popen[bytes] | None = None
        self._through = list(through)  # a program that runs it, such as setpriv
        self._program = program
        self.extra_environ = dict(environ or {})
        self._client: Client | None = None
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self.directory / "notify"))
        if config is not None:
            limits = {"queryTimeoutMs": int(PATIENCE_S) * 1000}
            self.configure({"sources": [{"parser": "pi", "path": str(self.root)}], "limits": limits, **config})

    def __enter__(self) -> "Daemon":
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.stop()
            elif self.process is not None:
                print(self.log[-4000:])  # noqa: T201  # pytest shows it with the failure
        finally:
            self.remove()

    # -- life ------------------------------------------------------------------------------------------------------------------

    @property
    def socket(self) -> str:
        """Where it listens."""
        return str(self.runtime_dir / "sesamed.sock")

    @property
    def database(self) -> Path:
        """Its index."""
        return self.data_dir / "index.sqlite"

    @property
    def log(self) -> str:
        """All that its processes have logged."""
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def pid(self) -> int:
        """Of the running process."""
        assert self.process is not None
        return self.process.pid

    def configure(self, config: Mapping[str, Any]) -> None:
        """Write the configuration; it counts from the next start on."""
        self.config_file.write_text(json.dumps(config))

    def environ(self) -> dict[str, str]:
        """What the process is started with: nothing of ours but what Python needs."""
        return {
            **surroundings(),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(CODE),
            "NOTIFY_SOCKET": str(self.directory / "notify"),
            "SESAME_CONFIG_DIR": str(self.config_file.parent),
            "SESAME_DATA_DIR": str(self.data_dir),
            "SESAME_RUNTIME_DIR": str(self.runtime_dir),
            **self.extra_environ,
        }

    def launch(self, *flags: str) -> "subprocess.Popen[bytes]":
        """A process of it, which may end at once."""
        command = [*self._through, sys.executable, "-W", "error", *self._program, *self.arguments, *flags]
        environ = self.environ() | measured.switch_of_daemon()
        with open(self.log_file, "ab") as log:
            return subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory
            )

    def start(self) -> "Daemon":
        """Start it, and wait until it says that it is ready."""
        assert self.process is None
        self.drain_notifications()
        self.process = self.launch()
        self.wait_notified("READY=1")
        return self

    def swept(self) -> "Daemon":
        """Wait until the sweep of its start has ended, which a `sync` neither is nor waits for: without events nothing is noticed from
        then on until somebody asks. Only before the first who asks, whose sweep could not be told from it."""
        eventually(lambda: self.call("status")["lastSweepAt"])
        return self

    def wait_notified(self, wanted: str) -> None:
        """Wait until it tells the service manager this."""
        assert self.process is not None
        deadline = time.monotonic() + PATIENCE_S
        while True:
            has_ended = (
                self.process.poll() is not None
            )  # before it is asked for what it has said, which may be the last
            if wanted in (said := self._notification()):
                return
            assert said or not has_ended, f"ended with {self.process.returncode}: {self.log[-4000:]}"
            assert time.monotonic() < deadline, f"not said within {PATIENCE_S} s: {wanted}: {self.log[-4000:]}"

    def drain_notifications(self) -> None:
        """Forget what an earlier process said."""
        self._notify.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._notify.recv(4096)
        self._notify.setblocking(True)

    def _notification(self) -> list[str]:
        self._notify.settimeout(0.2)  # to see at once when the process has ended instead
        with contextlib.suppress(TimeoutError):
            return self._notify.recv(4096).decode().split("\n")
        return []

    def stop(self) -> None:
        """Stop it as a service manager does; it must end well and have nothing to complain about."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        assert self.wait() == 0
        severe = [
            line
            for line in self.log.split("\n")
            if SEVERE.search(line) and not any(re.search(a, line) for a in self.allowed)
        ]
        assert not severe, "\n".join(severe) + "\n" + self.log[-4000:]

    def wait(self) -> int:
        """Wait until the process has ended; gives its exit code."""
        assert self.process is not None
        code = self.process.wait(PATIENCE_S)
        self.hang_up()
        self.process = None
        return code

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.kill()
        self.wait()

    def restart(self) -> "Daemon":
        """Stop it when it runs, and start it again."""
        self.stop()
        return self.start()

    def refuses_to_start(self, *flags: str) -> tuple[int, str]:
        """Start it where it must not run; gives its exit code and what it said."""
        before = len(self.log)
        code = self.launch(*flags).wait(PATIENCE_S)
        return code, self.log[before:]

    def remove(self) -> None:
        """End what still runs, and take everything away."""
        if self.process is not None:
            self.kill()
        self._notify.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    # -- asking ----------------------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The connection that `call` uses; a new one after a restart."""
        if self._client is None:
            self._client = self.connect()
        return self._client

    def connect(self) -> Client:
        """Another connection."""
        return Client(self.socket)

    def call(self, method: str, /, **params: Any) -> Any:
        """The method's result; RpcError when the daemon says no."""
        return self.client.call(method, **params)

    def refuses(self, method: str, /, **params: Any) -> RpcError:
        """The refusal of a call that must be refused."""
        return self.client.refuses(method, **params)

    def sync(self, **params: Any) -> Any:
        """Wait until everything on disk is searchable."""
        answer = self.call("sync", **params)
        assert answer["pending"]["files"] == 0, answer
        return answer

    def found(self, query: str, **filters: Any) -> list[str]:
        """The ids of the sessions that a search finds."""
        return [hit["sessionId"] for hit in self.call("search", query=query, **filters)["results"]]

    def sessions(self) -> list[Any]:
        """All sessions, the newest first; also those in which nobody has said anything yet."""
        found: list[Any] = []
        offset: int | None = 0
        while offset is not None:
            page = self.call("list_sessions", empty=True, offset=offset, limit=500)
            found += page["sessions"]
            offset = page["nextOffset"]
        return found

    def texts(self, session: str) -> list[str]:
        """All texts of a session."""
        found: list[str] = []
        offset: int | None = 0
        while offset is not None:
            page = self.call("list_messages", sessionId=session, offset=offset, limit=200)
            found += [message["text"] for message in page["messages"]]
            offset = page["nextOffset"]
        return found

    def everything(self) -> list[Any]:
        """All that the index says; two daemons with the same files, at the same places, say the same."""
        sessions = self.sessions()
        metas = [self.call("get_session_meta", sessionId=session["sessionId"]) for session in sessions]
        texts = [self.texts(session["sessionId"]) for session in sessions]
        counts = self.call("status")["counts"]
        for entry in (*sessions, *metas):
            del entry["revision"]  # says what one index went through
        return [sessions, metas, texts, counts]

    def check_index(self) -> None:
        """The index agrees with itself: SQLite's check, and full-text rows against the texts that they stand for."""
        with self.opened(writable=True) as connection:
            assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
            connection.execute("INSERT INTO fts(fts, rank) VALUES('integrity-check', 1)")
            assert not connection.execute("SELECT key FROM records GROUP BY key HAVING count(*) > 1").fetchall()

    def hang_up(self) -> None:
        """Close the connection that `call` uses; the next call makes another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- writing ---------------------------------------------------------------------------------------------------------------

    def path(self, relative: Place) -> bytes:
        """A file below the root."""
        return os.path.join(os.fsencode(self.root), os.fsencode(relative))

    def write(self, relative: Place, data: bytes) -> str:
        """Make a session file, or write an existing one anew in its place; gives its path."""
        return self._put(relative, data, os.O_TRUNC)

    def append(self, relative: Place, data: bytes) -> str:
        """Add to a session file with one write, as agents do."""
        return self._put(relative, data, os.O_APPEND)

    def _put(self, relative: Place, data: bytes, how: int) -> str:
        path = self.path(relative)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        finally:
            os.close(descriptor)
        return os.fsdecode(path)

    def fill(self, files: int = 3) -> "Daemon":
        """Sessions of a prompt with a quince and an answer, indexed."""
        for number in range(files):
            session = PiSession(id=f"session-{number}").user(f"quince {number}").assistant("an answer")
            self.write(f"{number}.jsonl", session.bytes())
        self.sync()
        return self

    # -- looking inside --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def opened(self, *, writable: bool = False) -> Iterator[apsw.Connection]:
        """The index file itself, with the function that its full-text table needs."""
        flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
        connection = connect(str(self.database), flags)
        try:
            connection.set_busy_timeout(5000)
            add_functions(connection)
            yield connection
        finally:
            connection.close()


def check_private(directory: Path) -> None:
    """Nobody but its owner can read what is in it."""
    for path in (directory, *directory.rglob("*")):
        mode = path.lstat().st_mode
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def eventually(condition: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """Wait for what the daemon does unasked; gives the first true value of the condition."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s} s"
        time.sleep(POLL_S)
    return value

"""Starting the daemon when nothing listens: once, however many ask, and so that it outlives who started it.

Clients agree by a lock in the data directory: one of them starts the daemon, the others wait for the socket. Running means
that a `hello` is answered. Where a service was installed for this socket its manager starts the daemon; else it is a process
of its own, outside of the terminal's, and logs to `sesamed.log` in the data directory, which it turns over itself.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from contextlib import ExitStack

from sesamectl.client import Client
from sesamectl.errors import ClosedError, DeadlineError, NotRunningError, StartError
from sesamectl.service import manager, start_command
from sesamectl.where import data_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import IO

PATIENCE_S = 20.0
LOOK_S = 0.01  # between two looks at the socket; a look takes about 0.1 ms
SAY_AFTER_S = 1.0
EX_TEMPFAIL = 75  # another sesamed holds a lock; most likely one that is just going down
OURS = (EX_TEMPFAIL, 78)  # sesamed itself has ended so, not what was to run it
AGAIN_S = 0.2
MAX_SAID_BYTES = 1 << 20
MANAGERS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

_children: list[subprocess.Popen[bytes]] = []  # they outlive us: nobody is to complain that they still run


def launch(path: str, patience_s: float = PATIENCE_S) -> None:
    """Start sesamed, unless somebody else is doing so, and return when it answers. Raises StartError."""
    with ExitStack() as held:
        starting = _Starting(path, held)
        wait(path, patience_s, starting.go_on, starting.said)


def wait(
    path: str,
    patience_s: float = PATIENCE_S,
    go_on: Callable[[], None] = lambda: None,
    said: Callable[[], str] = lambda: "",
) -> None:
    """Wait until it answers, doing a little more each time it does not. Raises StartError."""
    deadline, say_at = time.monotonic() + patience_s, time.monotonic() + SAY_AFTER_S
    while not answers(path):
        go_on()
        now = time.monotonic()
        if now >= deadline:
            raise StartError(f"sesamed did not answer within {patience_s:g} s of its start; {said()}")
        if now >= say_at:
            say_at = deadline
            print("sesamectl: waiting for sesamed to start ...", file=sys.stderr, flush=True)
        time.sleep(LOOK_S)


def answers(path: str) -> bool:
    """Whether a sesamed that listens there says hello."""
    try:
        with Client(path) as client:
            client.call("hello", client="sesamectl")
    except (NotRunningError, ClosedError, DeadlineError):
        return False
    return True


def surroundings() -> dict[str, str]:
    """The environment of a daemon of ours: what a service manager said to us is not for it."""
    return {name: value for name, value in os.environ.items() if name not in MANAGERS}


class Starters:
    """The one of all clients that may start or end the daemon; waits for its turn."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._file = _opened(_made(data_directory(environ)), "start.lock")

    def __enter__(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not _locked(self._file):
            if time.monotonic() >= deadline:
                raise StartError(f"another sesamectl has been starting sesamed for {PATIENCE_S:g} s; try again")
            time.sleep(LOOK_S)

    def __exit__(self, *_: object) -> None:
        self._file.close()


class _Starting:
    """One client's part in it."""

    def __init__(self, path: str, held: ExitStack) -> None:
        self._path = path
        self._directory = _made(data_directory(os.environ))
        self._lock = held.enter_context(_opened(self._directory, "start.lock"))
        self._log = held.enter_context(_opened(self._directory, "sesamed.log"))
        self._log_begin = os.fstat(self._log.fileno()).st_size
        self._ours = False
        self._process: subprocess.Popen[bytes] | None = None
        self._managed = False  # what we started is a manager's command: it ends well before the daemon answers
        self._apart = manager().apart()
        self._not_before = 0.0

    def go_on(self) -> None:
        """Start it if nobody does; raises StartError when it ended instead of answering."""
        if not self._ours:
            self._ours = _locked(self._lock)
            return  # look again: who had the lock before us may have started it
        if self._process is None:
            if time.monotonic() >= self._not_before:
                self._process = self._spawned()
        elif (code := self._process.poll()) == EX_TEMPFAIL:
            self._process, self._not_before = None, time.monotonic() + AGAIN_S
        elif code and self._managed:
            raise StartError(
                "the service manager cannot start sesamed; `sesamectl doctor` says why, `sesamectl service logs` what it said"
            )
        elif code is not None and not self._managed and self._apart and code not in OURS:
            self._process, self._apart = None, []
        elif code is not None and not self._managed:
            raise StartError(f"sesamed could not be started (exit {code}): {self.said()}")

    def said(self) -> str:
        """The last that it said of itself since we look, or where that stands."""
        with open(self._log.fileno(), "rb", closefd=False) as log:
            log.seek(self._log_begin)
            lines = log.read(MAX_SAID_BYTES).decode("utf-8", "replace").strip().split("\n")
        said = [line.removeprefix("sesamed: ") for line in lines if line.startswith("sesamed: ")]
        return said[-1] if said else lines[-1] or f"look at {self._directory or 'its log'}/sesamed.log"

    def _spawned(self) -> subprocess.Popen[bytes]:
        """A process that no terminal, directory or manager of ours holds on to."""
        command = start_command(self._path)
        self._managed = command is not None
        apart = [] if self._managed else self._apart
        process = subprocess.Popen(  # noqa: S603  # our own words
            command or [*apart, sys.executable, "-P", "-m", "sesamed"], env=surroundings(), cwd="/", start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
        )  # fmt: skip
        _children.append(process)
        return process


def _made(directory: str) -> str | None:
    """The directory, private; None when it cannot be made: the daemon itself will say why."""
    try:
        if not os.path.isabs(directory):
            return None
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError:
        return None
    return directory


def _opened(directory: str | None, name: str) -> IO[bytes]:
    """A private file in the directory to append to; one that nobody sees where there is no directory."""
    try:
        if directory is not None:
            path = os.path.join(directory, name)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            return open(os.open(path, flags, 0o600), "r+b", buffering=0)
    except OSError:
        pass  # the daemon cannot write there either, and will say so
    import tempfile

    return tempfile.TemporaryFile(buffering=0)


def _locked(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

"""Starting the daemon: once, however many clients ask, and so that it outlives the one that started it.

Clients agree by a lock in the data directory: one of them starts the daemon, the others wait for the socket. Running means
that a `hello` is answered. Where a service is installed for this socket, its manager starts the daemon; otherwise it is a
process of its own, detached from the terminal, that logs to `sesamed.log` in the data directory and rotates that file itself.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import IO

from sesamectl.connection import Connection
from sesamectl.errors import ClosedError, DeadlineError, NotRunningError, StartError
from sesamectl.locations import data_directory
from sesamectl.service.manager import find_manager, managed_spec, start_command
from sesamectl.service.unit import Spec, build_spec, run_command

START_S = 20.0
POLL_S = 0.01  # between two tries; each takes about 0.1 ms
NOTICE_AFTER_S = 1.0
EX_TEMPFAIL = 75  # another sesamed holds a lock, most likely one that is shutting down
EX_CONFIG = 78  # configuration, or an index of a newer version
DAEMON_EXITS = (EX_TEMPFAIL, EX_CONFIG)  # exit codes of sesamed itself, not of a program that was to run it
ENDED = ("inactive", "failed", "not loaded")  # states of a service that does not start any more
RETRY_S = 0.2
MAX_LOG_BYTES = 1 << 20
MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")

_children: list[
    subprocess.Popen[bytes]
] = []  # kept, because a Popen that is lost while its process runs warns about it


def launch(path: str, timeout_s: float = START_S) -> None:
    """Start sesamed unless another client is starting it; returns when it answers. Raises StartError."""
    with ExitStack() as held:
        start = _Start(path, held)
        wait_until_ready(path, timeout_s, start.step, start.last_words)


def wait_until_ready(
    path: str,
    timeout_s: float = START_S,
    step: Callable[[], bool] = lambda: True,
    last_words: Callable[[], str] = lambda: "",
) -> None:
    """Wait until it answers, calling `step` each time it does not, which says whether to ask again. Raises StartError with the daemon's
    last words.
    """
    deadline, notice_at = time.monotonic() + timeout_s, time.monotonic() + NOTICE_AFTER_S
    may_answer = True
    while not (may_answer and is_ready(path)):
        may_answer = step()
        now = time.monotonic()
        if now >= deadline:
            raise StartError(f"sesamed did not answer within {timeout_s:g} s after it was started; {last_words()}")
        if now >= notice_at:
            notice_at = deadline
            print("sesamectl: waiting for sesamed to start ...", file=sys.stderr, flush=True)
        time.sleep(POLL_S)


def require_startable(spec: Spec) -> None:
    """Raise StartError, in the daemon's words, if what this would start gives up at once: nobody stops a good daemon for it."""
    try:
        code, output = run_command([spec.python, "-P", "-m", "sesamed", "--check"], spec.extend(os.environ))
    except OSError as error:
        raise StartError(f"cannot run {spec.python}: {error.strerror}") from None
    if code == EX_CONFIG:
        raise StartError(_last_error(output))


def require_next_startable(environ: Mapping[str, str]) -> None:
    """The same of what the next client would start: what the manager of a service starts, or else our own."""
    spec = build_spec(environ)
    require_startable(managed_spec(spec.socket) or spec)


def is_ready(path: str) -> bool:
    """Whether a `hello` is answered there."""
    try:
        with Connection(path) as connection:
            connection.call("hello", client="sesamectl")
    except (NotRunningError, ClosedError, DeadlineError):
        return False
    return True


def daemon_environment() -> dict[str, str]:
    """The environment for a daemon: ours, without what a service manager told us."""
    return {name: value for name, value in os.environ.items() if name not in MANAGER_VARIABLES}


@contextmanager
def hold_start_lock(environ: Mapping[str, str]) -> Iterator[None]:
    """Lets one client at a time start or stop the daemon; waits for it."""
    with _open_private(_make_directory(data_directory(environ)), "start.lock") as file:
        deadline = time.monotonic() + START_S
        while not _try_lock(file):
            if time.monotonic() >= deadline:
                raise StartError(f"another sesamectl has been starting sesamed for {START_S:g} s; try again")
            time.sleep(POLL_S)
        yield


class _Start:
    """One client's attempt to start the daemon."""

    def __init__(self, path: str, held: ExitStack) -> None:
        self._path = path
        self._directory = _make_directory(data_directory(os.environ))
        self._lock = held.enter_context(_open_private(self._directory, "start.lock"))
        self._log = held.enter_context(_open_private(self._directory, "sesamed.log"))
        self._log_start = os.fstat(self._log.fileno()).st_size
        self._has_lock = False
        self._process: subprocess.Popen[bytes] | None = None
        self._managed = False  # the process is a manager's command, which exits before the daemon answers
        self._is_again = False  # that command was given once more
        self._detach = find_manager().detach_prefix()
        self._not_before = 0.0

    def step(self) -> bool:
        """Start it if no other client does; raises StartError when it has exited instead of answering. Returns whether it may answer: a
        manager that holds the socket takes each question for a reason to start it, also one that cannot start.
        """
        if self._has_lock:
            self._advance()
        else:  # ask again first: the client that held the lock may have started it
            self._has_lock = _try_lock(self._lock)
        return not (self._managed and self._process is not None and self._process.poll() is None)

    def _advance(self) -> None:
        if self._process is None:
            if time.monotonic() >= self._not_before:
                self._process = self._spawn()
        elif (code := self._process.poll()) == EX_TEMPFAIL:
            self._process, self._not_before = None, time.monotonic() + RETRY_S
        elif self._managed and code is not None:
            self._check_service(code)
        elif code is not None and self._detach and code not in DAEMON_EXITS:
            self._process, self._detach = None, []
        elif code is not None:
            raise StartError(f"sesamed did not start (exit {code}): {self.last_words()}")

    def last_words(self) -> str:
        """The last error that it logged since we started it, or where to look for one. A full disk takes no log."""
        if said := _last_error(self._read_log()):
            return said
        if self._directory and _is_full(self._directory):
            return f"there is no space left at {self._directory}"
        return f"see {self._directory or 'its log'}/sesamed.log"

    def _read_log(self) -> str:
        with open(self._log.fileno(), "rb", closefd=False) as log:
            log.seek(self._log_start)
            return log.read(MAX_LOG_BYTES).decode("utf-8", "replace")

    def _check_service(self, code: int) -> None:
        """The manager's command has ended, and the daemon does not answer yet. Raises StartError if the daemon has ended, too."""
        if time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + RETRY_S
        manager = find_manager()
        words, has_ended = manager.last_words(), manager.read_state()["active"] in ENDED
        if has_ended and not (code or words or self._is_again or self._read_log()):
            # It has done nothing: the daemon that was stopped just before had not ended, which it has by now.
            self._process, self._is_again = None, True
        elif has_ended or (code and words):  # if the manager holds the socket, whoever connects has it start once more
            words = words or self.last_words()
            raise StartError(f"sesamed did not start: {words}; see `sesamectl doctor` and `sesamectl service logs`")

    def _spawn(self) -> subprocess.Popen[bytes]:
        """A process tied to no terminal, directory or manager of ours."""
        command = start_command(self._path)
        self._managed = command is not None
        detach = [] if self._managed else self._detach
        process = subprocess.Popen(  # noqa: S603  # our own words
            command or [*detach, sys.executable, "-P", "-m", "sesamed"],
            env=daemon_environment(),
            cwd="/",
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        _children.append(process)
        return process


def _is_full(directory: str) -> bool:
    """Whether nothing can be written on the disk of this directory."""
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


def _last_error(text: str) -> str:
    """The last error that a daemon printed, or else its last line."""
    lines = text.strip().split("\n")
    errors = [line.removeprefix("sesamed: ") for line in lines if line.startswith("sesamed: ")]
    return errors[-1] if errors else lines[-1]


def _make_directory(directory: str) -> str | None:
    """The directory, private; None when it cannot be made, or is another user's: the daemon will say why."""
    try:
        if not os.path.isabs(directory):
            return None
        _make_directories(directory)
        return directory if os.stat(directory).st_uid == os.geteuid() else None
    except OSError:
        return None


def _make_directories(directory: str) -> None:
    """Make it and those above it that are missing, all of them private: `os.makedirs` leaves those to the umask."""
    if not os.path.isdir(directory):
        _make_directories(os.path.dirname(directory))
        with suppress(FileExistsError):  # another client was quicker
            os.mkdir(directory, 0o700)


def _open_private(directory: str | None, name: str) -> IO[bytes]:
    """A private file in the directory, for appending; a temporary one where that cannot be."""
    try:
        if directory is not None:
            path = os.path.join(directory, name)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            return open(os.open(path, flags, 0o600), "r+b", buffering=0)
    except OSError:
        pass  # the daemon cannot write there either, and will say so
    return tempfile.TemporaryFile(buffering=0)


def _try_lock(lock: IO[bytes]) -> bool:
    try:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

"""What runs of `remember` leave for the next one: which sessions came to nothing, and how much was sent today. It lies beside the index."""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from sesamectl.errors import RefusedError

FILE, LOCK = "remember.json", "remember.lock"
HOUR_S, DAY_S = 3600.0, 86_400.0
LONGEST_S = 30 * DAY_S
MOST = 500  # sessions that are passed over


class BusyError(RefusedError):
    """Another run goes on."""


@dataclass
class Failure:
    """How often a session came to nothing in a row, and until when it is passed over, in seconds."""

    times: int
    until: float


@dataclass
class _State:
    failed: dict[str, Failure] = field(default_factory=dict)
    day: str = ""
    tokens: int = 0  # that were sent on that day


def _parse(found: Any) -> _State:
    """Raises what a file of another form leads to."""
    failed = {name: Failure(int(one["times"]), float(one["until"])) for name, one in found["failed"].items()}
    return _State(failed, str(found["day"]), int(found["tokens"]))


class Ledger:
    """What is in a directory."""

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self._clock = clock

    @contextmanager
    def hold(self) -> Iterator[None]:
        """One run at a time: two would ask about the same sessions. Raises BusyError while there is another one."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        path = os.path.join(self._directory, LOCK)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pid = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
                raise BusyError(f"another `sesamectl remember --due` is running (pid {pid})") from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def list_waiting(self) -> list[str]:
        """The sessions that came to nothing not long ago. A time beyond all waiting was written while the clock was wrong."""
        now = self._clock()
        return [session for session, failure in self._read().failed.items() if now < failure.until <= now + LONGEST_S]

    def fail(self, session: str, wait_s: float) -> None:
        """It came to nothing: pass it over for so long, and twice as long each time that it happens again."""
        now = self._clock()
        with self._change() as state:
            before = state.failed.get(session)
            times = 1 if before is None else before.times + 1
            state.failed[session] = Failure(times, now + min(wait_s * 2 ** min(times - 1, 20), LONGEST_S))
            kept = sorted(state.failed.items(), key=lambda item: item[1].until)[-MOST:]
            state.failed = {name: failure for name, failure in kept if failure.until > now - LONGEST_S}

    def succeed(self, session: str) -> None:
        """It was remembered."""
        if session in self._read().failed:
            with self._change() as state:
                state.failed.pop(session, None)

    def count_today(self) -> int:
        """How many tokens were sent today, about."""
        state = self._read()
        return state.tokens if state.day == self._today() else 0

    def spend(self, tokens: int) -> None:
        """So many more are sent."""
        with self._change() as state:
            if state.day != self._today():
                state.day, state.tokens = self._today(), 0
            state.tokens += tokens

    def _today(self) -> str:
        return datetime.fromtimestamp(self._clock()).astimezone().date().isoformat()

    @property
    def _path(self) -> str:
        return os.path.join(self._directory, FILE)

    def _read(self) -> _State:
        """What there is. What cannot be read costs a session more, or a day's budget, and nothing else."""
        misread = (
            FileNotFoundError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        )
        with suppress(*misread), open(self._path, "rb") as file:
            return _parse(json.load(file))
        return _State()

    @contextmanager
    def _change(self) -> Iterator[_State]:
        """Change it as a whole, however many do at once."""
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        directory = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield (state := self._read())
            fresh = f"{self._path}.new"
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o600), "wb") as file:
                file.write(json.dumps(asdict(state)).encode())
            os.replace(fresh, self._path)
        finally:
            os.close(directory)

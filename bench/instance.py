"""A private daemon to measure: its own directories, configuration and socket, talked to as any client would.

    with scratch() as place, Instance(place, corpus) as daemon:
        daemon.until_settled()
        daemon.call("search", query="…")

CPU time and memory come from /proc, so benches run on Linux only.
"""

import atexit
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from sesamectl.client import Client
from sesamectl.errors import NotRunningError

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE_S = 600.0  # with one answer
TICK_S = 0.002  # between two tries to connect
STATUS_S = 0.05  # between two looks at the status: each costs the daemon about a millisecond,
STATUS_SHARE = 10  # and more when many files wait; so many times as long as it took it is left alone
SHORT_WAL_BYTES = 17 << 20  # what is no longer is folded in after some more seconds (`upkeep.FEW_WAL_PAGES`)
QUIET_S = 0.4  # a daemon that works less than a tenth of this time has nothing more to do
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Instance:
    """A daemon over a corpus, with all it writes below `place`. Starting again in the same place finds the index there."""

    def __init__(
        self,
        place: str,
        corpus: str,
        wrapper: tuple[str, ...] = (),
        module: tuple[str, ...] = (),
        parser: str = "pi",  # whose sessions they are
    ) -> None:
        self.place = place
        self._parser = parser
        self._beside_mb = 0.0
        self.hello_s = 0.0  # from the start of the process to the first answer
        self.pid = 0
        self.corpus = os.path.realpath(corpus)
        self._command = (*wrapper, sys.executable, *(module or ("-m", "sesamed")))
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._begun = 0.0

    def __enter__(self) -> "Instance":
        try:
            self.start()
        except BaseException:  # a run that is told to end leaves no daemon behind
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def socket_path(self) -> str:
        """Where it listens."""
        return os.path.join(self.place, "run", "s")

    @property
    def database(self) -> str:
        """Its index."""
        return os.path.join(self.place, "data", "index.sqlite")

    @property
    def age_s(self) -> float:
        """How long ago the process was started."""
        return time.perf_counter() - self._begun

    def configuration(self) -> dict[str, Any]:
        """What stands in its configuration file."""
        return {"sources": [{"parser": self._parser, "path": self.corpus}]}

    def start(self) -> None:
        """Start it, and wait until it answers `hello`."""
        self._prepare()
        with open(os.path.join(self.place, "log"), "ab") as log:
            self._begun = time.perf_counter()
            self._process = subprocess.Popen(self._command, cwd=PROJECT, env=self._environment(), stderr=log)
        while not self._answers():
            self._check_alive()
            time.sleep(TICK_S)
        self.hello_s = self.age_s

    def _answers(self) -> bool:
        try:
            self._client = Client(self.socket_path, PATIENCE_S).__enter__()
        except NotRunningError:
            return False
        self.pid = self._client.call("hello", client="bench")["pid"]
        return True

    def stop(self) -> None:
        """Stop it gracefully, and wait for its end."""
        if self._client is not None:
            self._client.__exit__()
            self._client = None
        if self._process is not None:
            if self._process.poll() is None:
                os.kill(self.pid or self._process.pid, signal.SIGTERM)  # not the wrapper, which would die first
            self._process.wait(60)
            self._process = None

    def call(self, method: str, **params: Any) -> Any:
        """Ask it."""
        assert self._client is not None
        return self._client.call(method, **params)

    def until_settled(self, also: Callable[[], None] = lambda: None) -> float:
        """Wait until everything on disk is searchable; the time since the start of the process.

        `ready` alone would not do: a daemon that has not looked yet knows of no backlog.
        """
        while True:
            begun = time.perf_counter()
            if is_settled(self.call("status")):
                return self.age_s
            took_s = time.perf_counter() - begun
            also()
            self._look_beside()
            time.sleep(max(STATUS_S, STATUS_SHARE * took_s))

    def until_folded(self) -> float:
        """Wait until merging and checkpointing after a load are done, too, but for a short WAL; the time since the start of the process."""
        folded_s = self.age_s
        while self._is_busy():
            folded_s = self.age_s
        return folded_s

    def _is_busy(self) -> bool:
        before = self.cpu_s()
        time.sleep(QUIET_S)
        worked_s = self.cpu_s() - before
        return worked_s > QUIET_S / 10 or self.call("status")["database"]["walBytes"] > SHORT_WAL_BYTES

    def cpu_s(self) -> float:
        """CPU seconds of all its threads, and of processes that it has started, in user and in system mode."""
        ticks = 0
        for pid in (self.pid, *self._list_beside()):
            with (
                contextlib.suppress(FileNotFoundError),
                open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file,
            ):
                ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:15]))
        return ticks / TICKS_A_SECOND

    def resident_mb(self) -> float:
        """Memory now."""
        return self._memory_mb("VmRSS")

    def peak_mb(self) -> float:
        """The most memory it had, and the process beside it that was largest."""
        return self._memory_mb("VmHWM") + self._beside_mb

    def threads(self) -> int:
        """How many threads it has."""
        return self._stated("Threads")

    def _look_beside(self) -> None:
        """Note what the processes need that it has started, while they are there."""
        with contextlib.suppress(OSError, StopIteration):  # it has just ended
            for pid in self._list_beside():
                self._beside_mb = max(self._beside_mb, self._stated("VmHWM", pid) / 1024)

    def _list_beside(self) -> list[int]:
        """The processes that it has started and that are there."""
        found = list[int]()
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with (
                contextlib.suppress(OSError),  # it has just ended
                open(f"/proc/{self.pid}/task/{thread}/children", encoding="ascii") as file,
            ):
                found += map(int, file.read().split())
        return found

    def _memory_mb(self, field: str) -> float:
        return self._stated(field) / 1024

    def _stated(self, field: str, pid: int = 0) -> int:
        with open(f"/proc/{pid or self.pid}/status", encoding="ascii", errors="replace") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(f"{field}:"))

    def _prepare(self) -> None:
        for name in ("config", "data", "run", "home"):
            os.makedirs(os.path.join(self.place, name), mode=0o700, exist_ok=True)
        with open(os.path.join(self.place, "config", "config.jsonc"), "w", encoding="utf-8") as file:
            json.dump(self.configuration(), file)

    def _environment(self) -> dict[str, str]:
        own = {
            "SESAME_CONFIG_DIR": "config", "SESAME_DATA_DIR": "data", "SESAME_RUNTIME_DIR": "run", "HOME": "home",
        }  # fmt: skip
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH")}
        places = {name: os.path.join(self.place, value) for name, value in own.items()}
        return {**kept, **places, "SESAME_SOCKET": self.socket_path}

    def _check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            with open(os.path.join(self.place, "log"), encoding="utf-8", errors="replace") as log:
                raise RuntimeError(f"the daemon did not start:\n{log.read()[-2000:]}")


def is_settled(status: Any) -> bool:
    """Whether a sweep was made, and all that it found is searchable."""
    return status["state"] == "ready" and status["lastSweepAt"] is not None and not status["pending"]["files"]


@contextlib.contextmanager
def scratch() -> Iterator[str]:
    """A directory for one daemon; its path is short, for a socket's name may not be long."""
    place = tempfile.mkdtemp(prefix="sb-")
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


_indexed: dict[str, str] = {}  # places with an index, by corpus


@contextlib.contextmanager
def indexed(corpus: str) -> Iterator[Instance]:
    """A daemon over an index of a corpus that is made once for all benches that only ask: nothing is to be written there."""
    place = find_index(corpus)
    with Instance(place, corpus) as daemon:
        daemon.until_settled()
        daemon.until_folded()
        yield daemon


def find_index(corpus: str) -> str:
    """The place of a finished index of a corpus, which ends with this process."""
    corpus = os.path.realpath(corpus)
    if corpus not in _indexed:
        context = scratch()
        place = context.__enter__()
        atexit.register(context.__exit__, None, None, None)
        with Instance(place, corpus) as daemon:
            daemon.until_settled()
            daemon.until_folded()
        _indexed[corpus] = place
    return _indexed[corpus]


def session_files(corpus: str) -> list[str]:
    """The corpus's files, the last written first."""
    found = [os.path.join(here, name) for here, _, names in os.walk(corpus) for name in names]
    return sorted((path for path in found if path.endswith(".jsonl")), key=os.path.getmtime, reverse=True)

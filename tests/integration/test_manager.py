"""What a service manager offers the daemon, and what it hears from it: over real sockets, without a manager."""

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.errors import ConfigError
from sesamed.manager_report import Notifier, Reporter, describe, ping, watchdog_s
from sesamed.model import Overview, Progress, RootState, Trouble
from sesamed.server.listen import adopt
from tests.support.daemon import Daemon
from tests.support.sessions import PiSession

# Becomes the program behind it with a listening socket as descriptor 3, as systemd starts a service.
ACTIVATED = """
import os, socket, sys
path, offered = sys.argv[1], sys.argv[2]
os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
kind = socket.SOCK_DGRAM if offered == "datagram" else socket.SOCK_STREAM
held = socket.socket(socket.AF_UNIX, kind)
held.bind(path if offered != "elsewhere" else path + "2")
if offered not in {"datagram", "deaf"}:
    held.listen()
if offered == "removed":
    os.unlink(path)
if held.fileno() != 3:
    os.dup2(held.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + (offered == "another's"))}
os.execv(sys.argv[3], sys.argv[3:])
"""


def activated(offered: str) -> Daemon:
    """A daemon to which a socket is offered."""
    daemon = Daemon()
    daemon._through = [sys.executable, "-c", ACTIVATED, daemon.socket, offered]
    daemon.write("a.jsonl", PiSession(id="session-1").user("a quince").bytes())
    return daemon


def test_an_offered_socket_is_adopted() -> None:
    """The daemon serves on the socket that it was given, and leaves it where it is when it ends."""
    with activated("listening") as daemon:
        daemon.sync()
        assert daemon.found("quince") == ["session-1"]
        inode = os.lstat(daemon.socket).st_ino
        daemon.stop()
        assert os.lstat(daemon.socket).st_ino == inode


def test_an_offer_to_another_process() -> None:
    """Variables that were inherited offer nothing: the descriptor is somebody else's."""
    daemon = activated("another's")
    try:
        code, said = daemon.refuses_to_start()
        assert code == 75
        assert "listens there" in said
    finally:
        daemon.remove()


def test_an_offered_socket_whose_file_is_gone() -> None:
    """A socket that no client can reach any more is not served; a new one is made in its place."""
    daemon = activated("removed")
    daemon.allowed.append("the service manager's socket was removed")
    with daemon:
        daemon.sync()
        assert daemon.found("quince") == ["session-1"]


@pytest.mark.parametrize("offered", ["elsewhere", "datagram", "deaf"])
def test_an_offer_that_cannot_be_used(offered: str) -> None:
    """A socket that clients don't look for, or none that listens, is a wrong configuration: 78."""
    daemon = activated(offered)
    try:
        code, said = daemon.refuses_to_start()
        assert code == 78
        assert "the service manager offers" in said
        assert daemon.socket in said
    finally:
        daemon.remove()


LAUNCHD = """
#include <stdlib.h>
int launch_activate_socket(const char *name, int **fds, size_t *count) {
    if (name[0] != 'L' || getenv("NO_SUCH_SOCKET")) return 2;
    *count = 1; *fds = malloc(sizeof(int)); (*fds)[0] = atoi(getenv("OFFERED")); return 0;
}
"""


@pytest.fixture
def launchd(tmp_path: Path) -> ctypes.CDLL:
    """A library with launchd's function."""
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "l.c").write_text(LAUNCHD)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(tmp_path / "l.so"), str(tmp_path / "l.c")], check=True)
    return ctypes.CDLL(str(tmp_path / "l.so"))


@pytest.fixture
def place() -> Iterator[str]:
    """A path short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="s-", dir="/tmp") as directory:
        yield f"{directory}/s"


def test_launchd_is_asked(launchd: ctypes.CDLL, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """launchd's socket is taken over like systemd's; without one there is nothing to adopt."""
    with socket.socket(socket.AF_UNIX) as held:
        held.bind(place)
        held.listen()
        monkeypatch.setenv("OFFERED", str(os.dup(held.fileno())))
        adopted = adopt({}, place, launchd)
        assert adopted is not None
        with adopted, socket.socket(socket.AF_UNIX) as client:
            assert not os.get_inheritable(adopted.fileno())
            client.connect(place)
        monkeypatch.setenv("NO_SUCH_SOCKET", "1")
        assert adopt({}, place, launchd) is None


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_socket_that_refuses(launchd: ctypes.CDLL, place: str, monkeypatch: pytest.MonkeyPatch, waiting: int) -> None:
    """One whose file leads elsewhere is given up, but not one whose queue is full, for which macOS refuses as well: clients wait in it."""
    with ExitStack() as opened:
        held, refusing = (opened.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2))
        held.bind(place)
        held.listen()
        for _ in range(waiting):
            opened.enter_context(socket.socket(socket.AF_UNIX)).connect(place)
        os.unlink(place)
        refusing.bind(place)
        monkeypatch.setenv("OFFERED", str(os.dup(held.fileno())))
        adopted = adopt({}, place, launchd)
        assert (adopted is not None) is bool(waiting)
        if adopted is not None:
            adopted.close()


def test_a_descriptor_that_is_no_socket(launchd: ctypes.CDLL, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no socket at all is said to be none."""
    monkeypatch.setenv("OFFERED", "987654")
    with pytest.raises(ConfigError, match="not a socket"):
        adopt({}, place, launchd)


@pytest.mark.parametrize(
    "environ", [{}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "me", "LISTEN_FDS": "x"}, {"LISTEN_PID": "me"}]
)
def test_nothing_is_offered(environ: dict[str, str]) -> None:
    """Without the variables, or with ones that make no sense, nothing is."""
    assert adopt({name: value.replace("me", str(os.getpid())) for name, value in environ.items()}, "/s") is None


# -- what the manager hears


@pytest.mark.parametrize(
    ("environ", "seconds"),
    [
        ({}, None), ({"WATCHDOG_USEC": "60000000"}, 60), ({"WATCHDOG_USEC": "500000", "WATCHDOG_PID": "7"}, 0.5),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None), ({"WATCHDOG_USEC": "0"}, None), ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None), ({"WATCHDOG_USEC": ""}, None),
    ],
)  # fmt: skip
def test_whether_a_watchdog_watches(environ: dict[str, str], seconds: float | None) -> None:
    """A watchdog is one when its time makes sense and it watches this process."""
    assert watchdog_s(environ, 7) == seconds


@given(st.dictionaries(st.sampled_from(["WATCHDOG_USEC", "WATCHDOG_PID"]), st.text("0123456789-.٣ ")))
def test_any_watchdog(environ: dict[str, str]) -> None:
    """Whatever stands in the variables, a watchdog has some time, or there is none."""
    seconds = watchdog_s(environ, 7)
    assert seconds is None or seconds > 0


def test_a_daemon_tells_its_manager() -> None:
    """It says that it is ready, what it does, that it gets on, and that it stops."""
    with Daemon(environ={"WATCHDOG_USEC": "400000"}) as daemon:
        daemon.allowed.append(
            "no progress error=TimeoutError"
        )  # a busy machine may take longer; the next time counts as well
        daemon.wait_notified("STATUS=ready: 0 session files in 2 of 2 directories")
        daemon.wait_notified("WATCHDOG=1")
        assert daemon.process is not None
        daemon.process.terminate()
        daemon.wait_notified("STOPPING=1")
        assert daemon.wait() == 0  # asked a second time, it would end at once


ROOT = RootState(parser="pi", path="/p", real="/p", mode="events", files=3, directories=1, warnings=[])


def overview(indexing: Progress | None = None, troubles: list[Trouble] | None = None) -> Overview:
    return Overview(
        roots=[ROOT, RootState(parser="pi", path="/q", real=None, mode="missing", files=0, directories=0, warnings=[])],
        indexing=indexing, freshness_ms=[], last_event_ms=None, last_sweep_ms=None, excluded=[], troubles=troubles or [],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "line"),
    [
        (overview(), "ready: 3 session files in 1 of 2 directories"),
        (overview(Progress()), "looking for sessions; searches are answered"),
        (overview(Progress(files_done=1, files_total=9)), "indexing, 1 of 9 files done; searches are answered"),
        (overview(troubles=[Trouble(code="storage", message="no space", since_ms=0)]), "degraded: no space"),
    ],
)
def test_what_it_says(state: Overview, line: str) -> None:
    """The state in one line."""
    assert describe(state) == line


class Heard(Notifier):
    """What a manager heard."""

    def __init__(self) -> None:
        super().__init__(None)
        self.alive_once = anyio.Event()
        self.texts: list[str] = []

    def alive(self) -> None:
        self.alive_once.set()

    def status(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.fault(96)
async def test_the_watchdog_hears_of_progress_only() -> None:
    """While something hangs, or the socket leads nowhere, it hears nothing; as soon as it goes on it hears of it."""
    heard, tries, moves = Heard(), anyio.Event(), anyio.Event()
    failures = [OSError("nobody answers"), TimeoutError()]

    async def gets_on() -> None:
        if failures:
            raise failures.pop()
        if not moves.is_set():
            tries.set()
            await moves.wait()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Reporter(heard, 0.04, lambda: "x", gets_on).run)
        await tries.wait()
        assert not heard.alive_once.is_set()
        moves.set()
        await heard.alive_once.wait()
        tasks.cancel_scope.cancel()
    assert heard.texts == ["x"]


async def test_a_greeting_that_nobody_answers(place: str) -> None:
    """Who answers nothing, or something else, is not ready."""
    for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n"):
        async with await anyio.create_unix_listener(place) as listener, anyio.create_task_group() as tasks:

            async def serve(stream: anyio.abc.SocketStream, answer: bytes = answer) -> None:
                async with stream:
                    await stream.receive()
                    await stream.send(answer or b"\n")

            tasks.start_soon(listener.serve, serve)
            with pytest.raises(OSError, match="no answer"):
                await ping(place)
            tasks.cancel_scope.cancel()
        os.unlink(place)

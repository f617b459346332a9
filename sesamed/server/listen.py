"""The socket: binds it so that a live one is never replaced and only its owner can connect, or adopts it from a service manager; accepts
clients; removes it.

Knows nothing of lines or methods. Who may bind at all is decided by a lock that the caller holds.
"""

import asyncio
import ctypes
import errno
import logging
import os
import select
import socket
import stat
import sys
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

from anyio import BrokenResourceError, CancelScope, Event, create_task_group, current_time, sleep
from anyio.abc import SocketListener, SocketStream, TaskGroup

from sesamed.errors import ConfigError, LockedError
from sesamed.methods.method import Account, Client
from sesamed.paths import MAX_SOCKET_BYTES
from sesamed.server.connection import ClientLimits, Connection, peer_pid, peer_uid, raw_socket, say_busy
from sesamed.server.dispatch import Dispatcher

BACKLOG = 512  # that connect at once; beyond it they are refused without a word
FIRST_DESCRIPTOR = 3  # behind the three standard ones
LAUNCHD_NAME = b"Listener"  # as it is called in the plist
DEAD_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP})

log = logging.getLogger(__name__)


def bind(path: str) -> socket.socket:
    """Listen on the path, for its owner only. The caller holds the socket's lock and has made the private directory.

    What nobody answers on is replaced by a rename: a client finds either the old socket or the new one, never none.
    """
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES:
        raise ConfigError(
            f"socket path too long: {path} has more than {MAX_SOCKET_BYTES} bytes; set SESAME_SOCKET to a shorter one"
        )
    _make_sure_dead(path)
    fresh = _name_beside(path)
    if not unlink_own(fresh) and os.path.lexists(fresh):
        raise ConfigError(f"{fresh} is in the way of the socket and is none itself; move it")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind_private(listener, fresh)
        listener.listen(BACKLOG)
        os.rename(fresh, path)
    except BaseException:
        listener.close()
        raise
    return listener


def _make_sure_dead(path: str) -> None:
    """Return if nothing is at the path except, perhaps, a socket that its owner left behind."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigError(f"{path} exists and is not a socket; move it, or set SESAME_SOCKET to another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full backlog blocks: somebody is there, however slow
        result = probe.connect_ex(path)
    if result not in {errno.ECONNREFUSED, errno.ENOENT}:
        answer = "answers" if result == 0 else f"does not let itself be replaced ({os.strerror(result)})"
        raise LockedError(f"{path} {answer}: another instance listens there", path=path)


def _name_beside(path: str) -> str:
    """A name in the same directory, no longer than this one: a longer one might not fit into a socket address."""
    return path[:-1] + ("~" if path[-1] != "~" else "#")


def _bind_private(listener: socket.socket, path: str) -> None:
    before = os.umask(0o077)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    os.chmod(path, 0o600)  # nobody could connect so far: it does not listen yet


def unlink_own(path: str, inode: int | None = None) -> bool:
    """Remove the socket if it is still the one with this inode."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    own = stat.S_ISSOCK(found.st_mode) and inode in {None, found.st_ino}
    if own:
        os.unlink(path)
    return own


# -- a socket that a service manager holds for us: taken over as it is, and never unlinked, since it is not ours. systemd hands it over as
# descriptors from 3 on (sd_listen_fds), launchd on request. A client that connects while we restart waits.


def adopt(environ: Mapping[str, str], path: str, library: ctypes.CDLL | None = None) -> socket.socket | None:
    """The listening socket at this path that a manager offers; None if there is none, or if clients cannot reach it any more."""
    descriptors = _from_systemd(environ) or _from_launchd(library)
    found = [_take_over(descriptor, path) for descriptor in descriptors]
    if not found:
        return None
    listener, *others = found
    for other in others:  # two at one path cannot be; systemd hands over what its unit says
        other.close()
    if _leads_to_it(path, listener):
        return listener
    log.warning("the service manager's socket was removed or replaced; created our own path=%s", path)
    listener.close()
    return None


def _from_systemd(environ: Mapping[str, str]) -> list[int]:
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return []
    return list(range(FIRST_DESCRIPTOR, FIRST_DESCRIPTOR + min(int(count[:9]), 64)))


def _from_launchd(library: ctypes.CDLL | None) -> list[int]:
    """launchd gives each of its sockets once. Anything but success means that it has none for us."""
    if library is None:
        if sys.platform != "darwin":
            return []
        library = ctypes.CDLL(None)
    descriptors, count = ctypes.POINTER(ctypes.c_int)(), ctypes.c_size_t()
    if library.launch_activate_socket(LAUNCHD_NAME, ctypes.byref(descriptors), ctypes.byref(count)) != 0:
        return []
    try:
        return [descriptors[number] for number in range(count.value)]
    finally:
        library.free.argtypes = [ctypes.c_void_p]
        library.free(descriptors)


def _take_over(descriptor: int, path: str) -> socket.socket:
    """The socket behind a descriptor; refused unless it is the one that clients use."""
    try:
        os.set_inheritable(descriptor, False)
        offered = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(
            f"the service manager offers descriptor {descriptor}, which is not a socket: {error}"
        ) from error
    if (offered.family, offered.type) == (socket.AF_UNIX, socket.SOCK_STREAM) and offered.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    ):
        name = offered.getsockname()
        if isinstance(name, str) and os.path.realpath(name) == os.path.realpath(path):
            return offered
        what = f"the socket {name!r}"
    else:
        what = "a socket that is not a listening Unix stream socket"
    offered.close()
    raise ConfigError(
        f"the service manager offers {what}, and clients look at {path}; run `sesamectl service install` to make them agree"
    )


def _leads_to_it(path: str, listener: socket.socket) -> bool:
    """Whether clients can reach the socket: its file may be gone. A full queue is no reason to take it for that: it blocks, or on macOS
    refuses, but then somebody waits in it.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full queue blocks: it is there
        try:
            probe.connect(path)
        except FileNotFoundError:
            return False
        except ConnectionRefusedError:
            return bool(select.select([listener], [], [], 0)[0])
        except OSError:
            return True
    return True


# -- clients


def pass_over_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Whatever else goes wrong in a callback is logged. anyio has the loop set a future when there is something to read, and the future may
    have been cancelled in the same turn (a like case: https://github.com/agronholm/anyio/issues/1267).
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


class Server:
    """Accepts clients and serves each in a task of its own."""

    def __init__(
        self,
        listener: socket.socket,
        dispatcher: Dispatcher,
        limits: ClientLimits | None = None,
        uid: int | None = None,
    ) -> None:
        self._listener = listener
        self._dispatcher = dispatcher
        self._limits = limits or ClientLimits()
        self._uid = os.geteuid() if uid is None else uid
        self._connections: set[Connection] = set()
        self._processes: WeakValueDictionary[int, Account] = WeakValueDictionary()  # as long as they are connected

    async def serve(self) -> None:
        """Accept until cancelled; then what runs may finish for a moment, and every connection closes.

        The listener is closed first, so that nobody waits at a door that is no longer opened.
        """
        asyncio.get_running_loop().set_exception_handler(pass_over_cancelled)
        closed = Event()
        async with create_task_group() as tasks:
            with CancelScope(shield=True) as grace:
                async with create_task_group() as clients:
                    tasks.start_soon(self._accept, clients, closed)
                    await closed.wait()
                    grace.deadline = current_time() + self._limits.grace_s
                    for connection in self._connections:
                        connection.stop()

    async def _accept(self, clients: TaskGroup, closed: Event) -> None:
        try:
            async with await SocketListener.from_socket(self._listener) as listener:
                while True:
                    await self._accept_one(listener, clients)
        finally:
            closed.set()

    async def _accept_one(self, listener: SocketListener, clients: TaskGroup) -> None:
        try:
            stream = await listener.accept()
        except BrokenResourceError as error:
            await self._pause(error.__cause__)
        else:
            await self._admit(stream, clients)

    async def _pause(self, error: BaseException | None) -> None:
        """Wait: we are mostly out of descriptors, and as the waiting client stays readable, accepting again immediately would spin."""
        number = getattr(error, "errno", None)
        if number in DEAD_LISTENER:
            raise RuntimeError(f"the listening socket is gone: {error}") from error
        log.warning("cannot accept errno=%s pause_s=%s", number, self._limits.accept_pause_s)
        await sleep(self._limits.accept_pause_s)

    async def _admit(self, stream: SocketStream, clients: TaskGroup) -> None:
        sock = raw_socket(stream)
        if (uid := peer_uid(sock)) != self._uid:
            log.warning("refused client uid=%s", uid)
            await stream.aclose()
            return
        process = self._find_process(sock)
        limits = self._find_place(process)
        if limits is None:
            say_busy(sock, f"busy: {self._limits.connections} clients are already connected; try again later")
            await stream.aclose()
            return
        connection = Connection(stream, self._dispatcher, limits, Client(process))
        self._connections.add(connection)
        clients.start_soon(connection.serve, self._connections.discard)

    def _find_process(self, sock: socket.socket) -> Account:
        """Whose connection it is, as far as the kernel says."""
        pid = peer_pid(sock)
        return Account() if pid is None else self._processes.setdefault(pid, Account())

    def _find_place(self, process: Account) -> ClientLimits | None:
        """What a newcomer may use; None if there is no place for it. If all are taken, whoever has been idle for long leaves for it. If
        nobody has, it may be a guest, so that the owner can ask and stop, whoever holds the others.
        """
        limits = self._limits
        if self._has_room([one for one in self._connections if not one.is_guest], limits.connections, limits.spare_s):
            return limits
        own = [one for one in self._connections if one.is_guest and one.process is process]
        if not self._has_room(own, limits.guests // 2, 0):
            return None
        guests = [one for one in self._connections if one.is_guest]
        return limits.of_a_guest() if self._has_room(guests, limits.guests, limits.guest_s) else None

    def _has_room(self, connections: list[Connection], most: int, idle_s: float) -> bool:
        """Whether there are fewer than `most`; if not, the one that has been idle the longest, and for so long, is closed."""
        if len(connections) < most:
            return True
        longest = max(connections, key=lambda one: one.idle_s, default=None)
        if longest is None or longest.idle_s < idle_s or not longest.idle_s:
            return False
        longest.dismiss()
        self._connections.discard(longest)
        return True

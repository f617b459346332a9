"""A socket that a service manager holds for us: taken over as it is, and never unlinked, since it is not ours.

systemd hands it over as descriptors from 3 on (sd_listen_fds), launchd on request. Who connects while we restart waits.
"""

import ctypes
import logging
import os
import socket
import sys
from collections.abc import Mapping

from sesamed.errors import ConfigError

FIRST = 3  # behind the three standard ones
LAUNCHD_NAME = b"Listener"  # as it is called in the plist

log = logging.getLogger(__name__)


def adopt(environ: Mapping[str, str], path: str, library: ctypes.CDLL | None = None) -> socket.socket | None:
    """The listening socket at this path that a manager offers; None when there is none, or it leads nowhere any more."""
    descriptors = _from_systemd(environ) or _from_launchd(library)
    found = [_checked(descriptor, path) for descriptor in descriptors]
    if not found:
        return None
    listener, *others = found
    for other in others:  # two at one path cannot be; systemd hands over what its unit says
        other.close()
    if _leads_to_it(path):
        return listener
    log.warning("the service manager's socket was removed or replaced; made again path=%s", path)
    listener.close()
    return None


def _from_systemd(environ: Mapping[str, str]) -> list[int]:
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not (count.isascii() and count.isdigit()):
        return []
    return list(range(FIRST, FIRST + min(int(count[:9]), 64)))


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


def _checked(descriptor: int, path: str) -> socket.socket:
    """What is offered must be what clients look for."""
    try:
        os.set_inheritable(descriptor, False)
        offered = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(f"the service manager offers descriptor {descriptor}, which is no socket: {error}") from error
    if (offered.family, offered.type) == (socket.AF_UNIX, socket.SOCK_STREAM) and offered.getsockopt(
        socket.SOL_SOCKET, socket.SO_ACCEPTCONN
    ):
        name = offered.getsockname()
        if isinstance(name, str) and os.path.realpath(name) == os.path.realpath(path):
            return offered
        what = f"the socket {name!r}"
    else:
        what = "a socket that is no listening Unix stream socket"
    offered.close()
    raise ConfigError(
        f"the service manager offers {what}, and clients look at {path}; `sesamectl service install` aligns them"
    )


def _leads_to_it(path: str) -> bool:
    """Whether a client would reach the socket: its file may be gone, and then it listens for nobody."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)  # a full queue blocks: it is there
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError:
            return True
    return True

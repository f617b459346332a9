"""What the kernel says of the other end of a connection. Knows nothing of what is said over it."""

import select
import socket
import sys

from anyio.abc import SocketAttribute, SocketStream


def raw_socket(stream: SocketStream) -> socket.socket:
    """The socket under the stream."""
    sock: socket.socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    return sock


def peer_uid(sock: socket.socket) -> int | None:
    """The user at the other end; None when the kernel does not say."""
    try:
        if sys.platform == "linux":
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)  # pid, uid, gid
            return int.from_bytes(credentials[4:8], sys.byteorder)
        if sys.platform == "darwin":
            credentials = sock.getsockopt(0, socket.LOCAL_PEERCRED, 76)  # struct xucred: version 0, uid, groups
            return int.from_bytes(credentials[4:8], sys.byteorder) if credentials[:4] == bytes(4) else None
    except OSError:
        return None
    return None


def hung_up(sock: socket.socket) -> bool:
    """Whether the other end closed both directions, not only its sending one.

    Only POLLOUT is asked for: asked for POLLIN, macOS reports a half-close as POLLHUP too.
    """
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return any(events & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))

"""HTTP on loopback: checks who asks, and hands the question to the daemon, each in a thread and on a connection of its own.

Whatever a browser may be made to send is refused: a page elsewhere has another origin, one that had its name point here another host, and
neither knows the token.
"""

import hmac
import json
import socket
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from sesamectl.call import call, choose_tools, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import ClientError, DeadlineError, RpcError, UsageError
from sesamectl.flags import Arguments
from sesamectl.web.questions import ForbiddenError, UnknownAddressError, is_long, read_get, read_post

Asked = tuple[str, dict[str, Any]]

LOOPBACK = "127.0.0.1"
MOST_AT_ONCE = 16  # of the daemon's 64 connections
MOST_BYTES = 1 << 20  # of a body, as of a request on the socket
IDLE_S = 30.0
UNKNOWN_S = 5.0  # as long somebody may take who has not shown the token
LONG_S = 600.0
STATUS = {
    1: 404,
    2: 409,
    3: 503,
    4: 504,
    5: 413,
    6: 503,
    7: 403,
    8: 409,
    9: 503,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32700: 400,
}


class Server(ThreadingHTTPServer):
    """Listens on a port of loopback. Raises OSError if it is taken."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int, token: str, arguments: Arguments) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.token, self.arguments = token.encode(), arguments
        self._lock = Lock()
        self._places: dict[Any, bool] = {}  # the connections, the oldest first, and whether each has shown the token

    @property
    def hosts(self) -> frozenset[str]:
        """What those who mean us write into `Host`."""
        return frozenset(f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost"))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take one more client, or say that there are too many."""
        if self._take_place(request):
            super().process_request(request, client_address)
            return
        with suppress(OSError):
            request.sendall(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a client until it leaves."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._places.pop(request, None)

    def recognise(self, request: Any) -> None:
        """This one has shown the token."""
        with self._lock:
            if request in self._places:
                self._places[request] = True
        request.settimeout(IDLE_S)

    def _take_place(self, request: Any) -> bool:
        """Whether there is one. Of those who have not shown the token the oldest makes room: anybody can connect and say nothing."""
        with self._lock:
            if len(self._places) >= MOST_AT_ONCE:
                unknown = next((one for one, is_known in self._places.items() if not is_known), None)
                if unknown is None:
                    return False
                del self._places[unknown]
                with suppress(OSError):
                    unknown.shutdown(socket.SHUT_RDWR)
            self._places[request] = False
            return True

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Say nothing of a client that went away in the middle."""


class _RefusedError(Exception):
    """A request that is not looked at."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = UNKNOWN_S

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def version_string(self) -> str:
        """Says who answers, and of which version to nobody."""
        return "sesame"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # that is what it is called
        """Addresses have what was searched for in them, and that is in no log."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses, without what it quotes."""
        self.close_connection = True
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self._send(status, _error(0, status.description or status.phrase))

    def _answer(self) -> None:
        try:
            status, answer = 200, self._ask()
        except _RefusedError as error:
            self.close_connection = True  # a body may be left unread
            status, answer = error.status, _error(0, str(error))
        except UsageError as error:
            status, answer = 400, _error(-32602, str(error))
        except UnknownAddressError as error:
            status, answer = 404, _error(-32601, str(error))
        except ForbiddenError as error:
            status, answer = 403, _error(7, str(error))
        except RpcError as error:
            status, answer = STATUS.get(error.code, 500), _error(error.code, error.message, error.data)
        except ClientError as error:
            status, answer = 504 if isinstance(error, DeadlineError) else 503, _error(0, str(error))
        self._send(status, answer)

    def _ask(self) -> dict[str, Any]:
        self._check_sender()
        method, params = self._read()

        def question(client: Client) -> dict[str, Any]:
            wait_if_started(client)
            return client.call(method, **(choose_tools(client, params) if self.command == "GET" else params))

        return call(self.server.arguments, question, LONG_S if is_long(method) else None)

    def _check_sender(self) -> None:
        if self.headers.get("Host") not in self.server.hosts:
            raise _RefusedError(421, f"this is {LOOPBACK}:{self.server.server_port}, and not another host")
        origin = self.headers.get("Origin")
        if origin is not None and origin.removeprefix("http://") not in self.server.hosts:
            raise _RefusedError(403, "pages of other origins are not answered")
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self.server.token):
            raise _RefusedError(401, "the header `Authorization: Bearer TOKEN` is missing, or has another token")
        self.server.recognise(self.connection)

    def _read(self) -> Asked:
        try:
            address = urlsplit(self.path)
        except ValueError:
            raise UnknownAddressError("that is no address") from None
        if self.command == "GET":
            return read_get(address.path, address.query)
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _RefusedError(411, "a body needs its Content-Length")
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise _RefusedError(413, f"the body is longer than {MOST_BYTES:,} bytes")
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(415, "the body must be JSON, and its Content-Type application/json")
        return read_post(address.path, self.rfile.read(int(length)))

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        if status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, POST")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _error(code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message} | ({} if data is None else {"data": data})}

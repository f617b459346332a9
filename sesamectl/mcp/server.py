"""The Model Context Protocol: JSON-RPC messages in, answers out. Each request has a thread, so that it can be cancelled, and holds up no
other; a few are answered at a time.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sesamectl import __version__, json_lines
from sesamectl.errors import ClientError, RefusedError, RpcError
from sesamectl.mcp.arguments import GivenError, check
from sesamectl.mcp.quoting import cut, line
from sesamectl.mcp.request import CancelledError, Request, Surroundings
from sesamectl.mcp.resources import TEMPLATES, list_resources, read_resource
from sesamectl.mcp.tools import INSTRUCTIONS, Tool
from sesamectl.resolve import NO_HUB

NOT_JSON, NO_REQUEST, NO_METHOD, BAD_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
BUSY, NO_RESOURCE = -32000, -32002
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # the newest first
WITH_BATCHES = "2025-03-26"  # the one version that has them
AT_ONCE, WAITING = 8, 64
ERROR_CHARACTERS = 1000
# What a person would type is for a model a tool.
IN_TOOLS = (("`sesamectl list`", "list_sessions"), ("`sesamectl search --hub`", "search_sessions with scope hub"))
WITHOUT_HUB = "without scope, what is on this machine is found"
LAST_ANSWERS_S = 1.0
STOP_S = 5.0  # what was cancelled ends commands that it started

Message = Mapping[str, Any]
Send = Callable[[bytes], None]
Answer = Callable[[dict[str, Any] | None], None]  # None: nobody waits for it any more


class MethodError(Exception):
    """A request that is refused."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Server:
    """What one client asks. `send` writes a line; `list_tools` says which tools there are."""

    def __init__(self, surroundings: Surroundings, list_tools: Callable[[], Sequence[Tool]], send: Send) -> None:
        self._surroundings = surroundings
        self._list_tools = list_tools
        self._send_line = send
        self._version = VERSIONS[0]
        self._lock = threading.Lock()
        self._under_way: dict[str | int, Request] = {}
        self._threads: set[threading.Thread] = set()
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._quick: Mapping[str, Callable[[Message], dict[str, Any]]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "logging/setLevel": lambda _: {},  # nothing is logged to clients
            "resources/templates/list": lambda _: {"resourceTemplates": list(TEMPLATES)},
        }
        self._slow: Mapping[str, Callable[[Request], dict[str, Any]]] = {
            "tools/list": lambda _: {"tools": [tool.describe() for tool in self._list_tools()]},
            "tools/call": self._call_tool,
            "resources/list": list_resources,
            "resources/read": read_resource,
        }

    def take(self, received: bytes | None) -> None:
        """A line of the client's; None for one that was too long."""
        try:
            message = None if received is None else json_lines.loads(received)
        except (ValueError, RecursionError):
            self._send(_failed(None, NOT_JSON, "this line is not JSON"))
            return
        if received is None:
            self._send(_failed(None, NO_REQUEST, "this line is too long"))
        elif isinstance(message, list):
            self._take_batch(message)
        else:
            self._take_message(message, self._send)

    def end(self) -> None:
        """Nobody asks any more. What is nearly done is still answered; the rest stops."""
        self._wait(LAST_ANSWERS_S)
        with self._lock:
            requests = list(self._under_way.values())
        for request in requests:
            request.cancel()
        self._wait(STOP_S)

    def _wait(self, seconds: float) -> None:
        """For all that is under way together, however much it is."""
        until = time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    # -- messages

    def _take_batch(self, messages: list[Any]) -> None:
        if self._version != WITH_BATCHES or not messages:
            self._send(_failed(None, NO_REQUEST, f"only version {WITH_BATCHES} of the protocol has batches"))
            return
        batch = _Batch(sum(map(_is_request, messages)), self._send)
        for message in messages:
            self._take_message(message, batch.add if _is_request(message) else self._send)

    def _take_message(self, message: Any, answer: Answer) -> None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            answer(_failed(None, NO_REQUEST, "this is no JSON-RPC 2.0 message"))
        elif _is_request(message):
            self._take_request(message, answer)
        elif message.get("method") == "notifications/cancelled":
            self._cancel(_params_of(message).get("requestId"))
        elif "method" in message and "id" in message:
            answer(_failed(None, NO_REQUEST, "the id must be a text or a whole number"))

    def _take_request(self, message: Message, answer: Answer) -> None:
        identity, method = message["id"], message["method"]
        try:
            if (quick := self._quick.get(method)) is not None:
                answer(_done(identity, quick(_params_of(message))))
            elif (slow := self._slow.get(method)) is not None:
                self._begin(identity, slow, Request(_params_of(message), self._surroundings, self._notify), answer)
            else:
                answer(_failed(identity, NO_METHOD, f"there is no method {cut(line(method), 80)}"))
        except MethodError as error:
            answer(_failed(identity, error.code, str(error)))

    def _begin(
        self, identity: str | int, run: Callable[[Request], dict[str, Any]], request: Request, answer: Answer
    ) -> None:
        thread = threading.Thread(target=self._run, args=(identity, run, request, answer), daemon=True)
        with self._lock:
            if identity in self._under_way:
                raise MethodError(NO_REQUEST, "a request with this id is being answered")
            if len(self._under_way) >= WAITING:
                raise MethodError(BUSY, f"{WAITING} requests are being answered; ask again later")
            self._under_way[identity] = request
            self._threads.add(thread)
        thread.start()

    def _run(
        self, identity: str | int, run: Callable[[Request], dict[str, Any]], request: Request, answer: Answer
    ) -> None:
        with self._places:
            result = _attempt(identity, run, request)
        with self._lock:
            del self._under_way[identity]
            self._threads.discard(threading.current_thread())
        answer(None if request.is_cancelled else result)

    def _cancel(self, identity: Any) -> None:
        with self._lock:
            request = self._under_way.get(identity) if isinstance(identity, str | int) else None
        if request is not None:
            request.cancel()

    def _notify(self, method: str, params: Message) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def _send(self, message: dict[str, Any] | Sequence[dict[str, Any]] | None) -> None:
        if message:
            self._send_line(json_lines.dumps(message).encode())

    # -- methods

    def _initialize(self, params: Message) -> dict[str, Any]:
        wanted, client = params.get("protocolVersion"), params.get("clientInfo")
        self._version = wanted if wanted in VERSIONS else VERSIONS[0]
        self._surroundings.client_name = str(client.get("name")) if isinstance(client, dict) else ""
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "sesame", "title": "sesame: past sessions", "version": __version__},
            "instructions": INSTRUCTIONS,
        }

    def _call_tool(self, request: Request) -> dict[str, Any]:
        name, given = request.params.get("name"), request.params.get("arguments")
        tool = next((tool for tool in self._list_tools() if tool.name == name), None)
        if tool is None:
            raise MethodError(BAD_PARAMS, f"there is no tool {cut(line(name), 80)}")
        try:
            told = tool.run(request, check({} if given is None else given, tool.takes))
        except (GivenError, RpcError, ClientError, RefusedError) as error:
            return {"content": [_text(explain(error))], "isError": True}
        return {"content": [_text(told["text"])], "structuredContent": told}


class _Batch:
    """Answers that go out together, once there are all of them."""

    def __init__(self, size: int, send: Callable[[Sequence[dict[str, Any]]], None]) -> None:
        self._left = size
        self._send = send
        self._answers: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, answer: dict[str, Any] | None) -> None:
        """The next one."""
        with self._lock:
            self._answers += [] if answer is None else [answer]
            self._left -= 1
        if not self._left:
            self._send(self._answers)


def explain(error: Exception) -> str:
    """What went wrong, in a model's words, and what it can do."""
    told = cut(line(error), ERROR_CHARACTERS)
    for typed, tool in IN_TOOLS:
        told = told.replace(typed, tool)
    return f"{told}; {WITHOUT_HUB}" if isinstance(error, RpcError) and error.code == NO_HUB else told


def _attempt(identity: str | int, run: Callable[[Request], dict[str, Any]], request: Request) -> dict[str, Any]:
    """The answer, whatever happens. What is ours to mend is told by its kind and place: its words may be a transcript's."""
    try:
        request.check()
        return _done(identity, run(request))
    except MethodError as error:
        return _failed(identity, error.code, str(error))
    except GivenError as error:
        return _failed(identity, BAD_PARAMS, explain(error))
    except (RpcError, ClientError) as error:
        is_missing = isinstance(error, RpcError) and error.code in {1, 2}
        return _failed(identity, NO_RESOURCE if is_missing else INTERNAL, explain(error))
    except CancelledError:
        return _failed(identity, INTERNAL, "cancelled")
    except Exception as error:
        return _failed(identity, INTERNAL, _locate(error))


def _locate(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}" if trace is not None else ""
    text = f"internal error ({type(error).__name__}{where}); sesamed and sesamectl may be of different versions: `sesamectl restart`"
    print(f"sesamectl mcp: {text}", file=sys.stderr, flush=True)
    return text


def _is_request(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    identity = message.get("id")
    is_id = isinstance(identity, str | int) and not isinstance(identity, bool)
    return is_id and isinstance(message.get("method"), str) and message.get("jsonrpc") == "2.0"


def _params_of(message: Message) -> Message:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _done(identity: str | int, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "result": result}


def _failed(identity: str | int | None, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}

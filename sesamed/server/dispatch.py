"""One request line in, one answer line out, through the table of routes. No sockets: a connection hands in its lines.

A handler gets a `Call` and typed params, and gives the method's result or raises a SesameError. Whatever else it raises
is a fault of ours: it is logged without any text of the request, and the client learns only that it happened.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import Logger
from typing import Any, TypeVar

import msgspec
from anyio import CancelScope
from msgspec import Struct

from sesamed.errors import (
    CancelledError,
    DeadlineError,
    InternalError,
    MethodError,
    ParamsError,
    RequestError,
    SesameError,
)
from sesamed.protocol import METHODS, Answer, Method, Params
from sesamed.server import envelope
from sesamed.server.envelope import Id, Refusal, Request

P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Answer)


@dataclass
class Conversation:
    """What one connection has in flight, and the way to send it a line."""

    send: Callable[[bytes], Awaitable[None]]
    running: dict[Id, CancelScope] = field(default_factory=dict)

    @contextmanager
    def track(self, request_id: Id | None) -> Iterator[CancelScope]:
        """Let the request be cancelled by its id for as long as this lasts."""
        scope = CancelScope()
        if request_id is not None:
            self.running[request_id] = scope
        try:
            yield scope
        finally:
            if request_id is not None:
                del self.running[request_id]


@dataclass(frozen=True)
class Call:
    """The request that a handler serves."""

    id: Id | None
    conversation: Conversation

    async def notify(self, method: str, params: Struct) -> None:
        """Send the client a line that it does not answer."""
        await self.conversation.send(envelope.notification(method, params))

    def cancel(self, request_id: Id) -> bool:
        """End another request of this connection; false when there is none of that id."""
        scope = self.conversation.running.get(request_id)
        if scope is None or request_id == self.id:
            return False
        scope.cancel()
        return True


@dataclass(frozen=True)
class Route:
    """A method and what serves it; made by `route`, which checks their types against each other."""

    method: Method[Any, Any]
    handler: Callable[[Call, Any], Awaitable[Any]]


def route(method: Method[P, R], handler: Callable[[Call, P], Awaitable[R]]) -> Route:
    """Serve the method by the handler."""
    return Route(method, handler)


class Dispatcher:
    """Answers lines. `methods` is what the routes must cover, each once."""

    def __init__(self, routes: Iterable[Route], log: Logger, methods: Sequence[Method[Any, Any]] = METHODS) -> None:
        routes = list(routes)
        served, promised = sorted(r.method.name for r in routes), sorted(m.name for m in methods)
        assert served == promised, f"routes {served} are not the methods {promised}"
        self._routes = {r.method.name: (r.handler, msgspec.json.Decoder(r.method.params)) for r in routes}
        self._log = log

    async def answer(self, line: bytes, conversation: Conversation) -> bytes | None:
        """The answer with its newline, or None when the line was a notification."""
        request = envelope.read(line)
        if isinstance(request, Refusal):
            return envelope.refusal(request.id, request.error)
        if request.id in conversation.running:
            # Its id belongs to the first one, whose answer would be mistaken for this refusal.
            return envelope.refusal(None, RequestError("this id is in flight: use another one", id=request.id))
        answered = await self._answer(request, conversation)
        return None if request.notification else answered

    async def _answer(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return await self._attempt(request, conversation)
        except Exception as error:
            self._log.error("request failed method=%s id=%.64r\n%s", request.method, request.id, _trace(error))
            return envelope.refusal(request.id, InternalError("internal error"))

    async def _attempt(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return envelope.answer(request.id, await self._result(request, conversation))
        except SesameError as error:
            return envelope.refusal(request.id, error)
        except TimeoutError:
            return envelope.refusal(request.id, DeadlineError("the deadline passed: ask for less, or allow more time"))

    async def _result(self, request: Request, conversation: Conversation) -> Struct:
        handler, decoder = self._route(request.method)
        params = _params(request, decoder)
        with conversation.track(request.id) as scope:
            try:
                with scope:
                    result: Struct = await handler(Call(request.id, conversation), params)
            except Exception:
                if not scope.cancel_called:  # an interrupted query may end in an error of its own
                    raise
        if scope.cancel_called:
            raise CancelledError("cancelled by the client")
        return result

    def _route(self, method: str) -> tuple[Callable[[Call, Any], Awaitable[Any]], msgspec.json.Decoder[Any]]:
        try:
            return self._routes[method]
        except KeyError:
            raise MethodError(f"there is no method {method[:64]!r}", methods=list(self._routes)) from None


def _params(request: Request, decoder: msgspec.json.Decoder[Any]) -> Any:
    if bytes(memoryview(request.params)[:1]) == b"[":
        raise ParamsError(f"{request.method}: parameters go by name: send an object, not an array")
    try:
        return decoder.decode(request.params)
    except msgspec.DecodeError as error:
        raise ParamsError(f"{request.method}: {error}") from None


def _trace(error: BaseException) -> str:
    """Where it happened and which classes of errors; not their messages, since those may quote a transcript."""
    inner = [error.__cause__ or error.__context__, *getattr(error, "exceptions", ())]
    earlier = "".join(_trace(e) for e in inner if e is not None)
    return f"{earlier}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}\n"

"""One request line in, one answer line out, by the table of methods. No sockets: a connection passes in its lines.

A method's handler gets a `Call` and typed params, and gives the result or raises a SesameError. Whatever else it raises
is a fault of ours: it is logged without any text of the request, and the client learns only that it happened.
"""

import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from typing import Any

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
from sesamed.methods.method import Call, Context, Method
from sesamed.server import envelope
from sesamed.server.envelope import Id, Refusal, Request


@dataclass
class Conversation:
    """The requests of one connection that are in flight, and how to send it a line."""

    send: Callable[[bytes], Awaitable[None]]
    running: dict[Id, CancelScope] = field(default_factory=dict)

    async def notify(self, method: str, params: Struct) -> None:
        """Send the client a line that needs no answer."""
        await self.send(envelope.encode_notification(method, params))

    def cancel(self, own: Id | None, request_id: Id) -> bool:
        """Cancel another request of this connection; false when there is none with this id."""
        scope = self.running.get(request_id)
        if scope is None or request_id == own:
            return False
        scope.cancel()
        return True

    @contextmanager
    def track(self, request_id: Id | None) -> Iterator[CancelScope]:
        """Allow the request to be cancelled by its id for as long as this lasts."""
        scope = CancelScope()
        if request_id is not None:
            self.running[request_id] = scope
        try:
            yield scope
        finally:
            if request_id is not None:
                del self.running[request_id]


class Dispatcher:
    """Answers lines, each with the method that it names."""

    def __init__(self, methods: Sequence[Method[Any, Any]], context: Context, log: Logger) -> None:
        self._methods = {method.name: (method.handler, msgspec.json.Decoder(method.params)) for method in methods}
        assert len(self._methods) == len(methods), "two methods of one name"
        self._context = context
        self._log = log

    async def answer(self, line: bytes, conversation: Conversation) -> bytes | None:
        """The answer with its newline, or None when the line was a notification."""
        request = envelope.parse_request(line)
        if isinstance(request, Refusal):
            return envelope.encode_refusal(request.id, request.error)
        if request.id in conversation.running:
            # Its id belongs to the first one, whose answer would be mistaken for this refusal.
            return envelope.encode_refusal(
                None, RequestError("this id is in use by another request; use a different one", id=request.id)
            )
        answered = await self._answer(request, conversation)
        return None if request.notification else answered

    async def _answer(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return await self._attempt(request, conversation)
        except Exception as error:
            self._log.error("request failed method=%s id=%.64r\n%s", request.method, request.id, _describe_fault(error))
            return envelope.encode_refusal(request.id, InternalError("internal error"))

    async def _attempt(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return envelope.encode_answer(request.id, await self._result(request, conversation))
        except SesameError as error:
            return envelope.encode_refusal(request.id, error)
        except TimeoutError:
            return envelope.encode_refusal(
                request.id, DeadlineError("deadline exceeded; ask for less, or allow more time")
            )

    async def _result(self, request: Request, conversation: Conversation) -> Struct:
        if request.method not in self._methods:
            raise MethodError(f"there is no method {request.method[:64]!r}", methods=list(self._methods))
        handler, decoder = self._methods[request.method]
        params = _decode_params(request, decoder)
        call = Call(request.id, conversation.notify, partial(conversation.cancel, request.id))
        with conversation.track(request.id) as scope:
            try:
                with scope:
                    result: Struct = await handler(self._context, call, params)
            except Exception:
                if not scope.cancel_called:  # an interrupted query may end in an error of its own
                    raise
        if scope.cancel_called:
            raise CancelledError("cancelled by the client")
        return result


def _decode_params(request: Request, decoder: msgspec.json.Decoder[Any]) -> Any:
    if bytes(memoryview(request.params)[:1]) == b"[":
        raise ParamsError(f"{request.method}: params must be an object, not an array")
    try:
        return decoder.decode(request.params)
    except msgspec.DecodeError as error:
        raise ParamsError(f"{request.method}: {error}") from None


def _describe_fault(error: BaseException) -> str:
    """Where it happened, and the classes of the exceptions; not their messages, because those may quote a transcript."""
    inner = [error.__cause__ or error.__context__, *getattr(error, "exceptions", ())]
    earlier = "".join(_describe_fault(e) for e in inner if e is not None)
    return f"{earlier}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}\n"

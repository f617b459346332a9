"""One request line in, one answer line out: JSON-RPC 2.0, by the table of methods. No sockets: a connection passes in its lines.

The envelope is decoded with every field raw, so that a wrong one can be told from a wrong line, and the id is known when the rest is
wrong. Lines that leave are ASCII: no terminal, log or line reader sees U+2028, bidi marks or half a character.

A method's handler gets a `Call` and typed params, and gives the result or raises a SesameError. Whatever else it raises is a fault of
ours: it is logged without any text of the request, and the client learns only that it happened.
"""

import json
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from typing import Any, TypeVar

import msgspec
from anyio import CancelScope
from msgspec import Raw, Struct

from sesamed.errors import (
    BusyError,
    CancelledError,
    DeadlineError,
    InternalError,
    MethodError,
    ParamsError,
    ParseError,
    QueryError,
    RequestError,
    SesameError,
    is_of_memory,
)
from sesamed.methods.method import Call, Client, Context, Method
from sesamed.sanitize import clean_answer, clean_line

Id = str | int

MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20

MAX_MESSAGE_CHARS = 1000  # some messages quote what was sent, and that may be a megabyte

T = TypeVar("T")


class Request(Struct, frozen=True, kw_only=True):
    """A request. `params` is the text of a JSON value, `{}` when there was none."""

    id: Id | None
    notification: bool
    method: str
    params: Raw


class Refusal(Struct, frozen=True, kw_only=True):
    """Why a line is not a request."""

    id: Id | None
    error: SesameError


class _Fields(Struct, frozen=True):
    jsonrpc: Raw = Raw(b"")
    id: Raw = Raw(b"")
    method: Raw = Raw(b"")
    params: Raw = Raw(b"")


_fields = msgspec.json.Decoder(_Fields)
_any = msgspec.json.Decoder(Raw)
_id = msgspec.json.Decoder(Id | None)
_text = msgspec.json.Decoder(str)
_encoder = msgspec.json.Encoder()


def parse_request(line: bytes) -> Request | Refusal:
    """The request on a line. Never raises."""
    try:
        fields = _split(line)
    except SesameError as error:
        return Refusal(id=None, error=error)
    request_id: Id | None = None
    try:
        request_id = _decode(_id, fields.id or Raw(b"null"), "`id` must be a string or an integer")
        return _make_request(fields, request_id)
    except SesameError as error:
        return Refusal(id=request_id, error=error)


def _split(line: bytes) -> _Fields:
    try:
        text = line.decode()  # msgspec does not look at the UTF-8 of what it skips
        try:
            return _fields.decode(text)
        except msgspec.ValidationError:
            _any.decode(text)  # it stopped at the first byte; is the rest JSON at all?
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"the line is not JSON: {error}") from None
    raise RequestError("a request must be one JSON object per line; batches are not supported")


def _make_request(fields: _Fields, request_id: Id | None) -> Request:
    if _decode(_text, fields.jsonrpc, '`jsonrpc` must be "2.0"') != "2.0":
        raise RequestError('`jsonrpc` must be "2.0"')
    return Request(
        id=request_id,
        notification=not fields.id,
        method=_decode(_text, fields.method, "`method` must be a string"),
        params=fields.params or Raw(b"{}"),
    )


def _decode(decoder: msgspec.json.Decoder[T], raw: Raw, otherwise: str) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        raise RequestError(otherwise) from None


def encode_answer(request_id: Id | None, result: Struct) -> bytes:
    """The line with a result, its texts cleaned. Raises QueryError if it would be too long."""
    line = _encode_line({"jsonrpc": "2.0", "id": request_id, "result": clean_answer(result)})
    if len(line) > MAX_ANSWER_BYTES:
        raise QueryError("the answer is too large; ask for less", bytes=len(line), limit=MAX_ANSWER_BYTES)
    return line


def encode_refusal(request_id: Id | None, error: SesameError) -> bytes:
    """The line with an error."""
    body: dict[str, Any] = {"code": error.code, "message": clean_line(error.message[:MAX_MESSAGE_CHARS])}
    if error.data:
        body["data"] = error.data
    return _encode_line({"jsonrpc": "2.0", "id": request_id, "error": body})


def encode_notification(method: str, params: Struct) -> bytes:
    """The line with a notification."""
    return _encode_line({"jsonrpc": "2.0", "method": method, "params": params})


def _encode_line(value: dict[str, Any]) -> bytes:
    line = _encoder.encode(value)
    return (line if line.isascii() else _escape(line)) + b"\n"


def _escape(line: bytes) -> bytes:
    """The same JSON without a byte above 127.

    `json.dumps` of the whole text escapes in C, also its quotes and backslashes; taking those two back is three
    replacements, since JSON text holds no NUL. 4 MB take 14 to 36 ms; a regular expression over the non-ASCII runs took
    up to 270 ms.
    """
    escaped = json.dumps(line.decode())[1:-1]
    return escaped.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\").encode()


@dataclass
class Conversation:
    """The requests of one connection that are in flight, and how to send it a line."""

    send: Callable[[bytes], Awaitable[None]]
    client: Client = field(default_factory=Client)
    running: dict[Id, CancelScope] = field(default_factory=dict)

    async def notify(self, method: str, params: Struct) -> None:
        """Send the client a line that needs no answer."""
        await self.send(encode_notification(method, params))

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
        request = parse_request(line)
        if isinstance(request, Refusal):
            return encode_refusal(request.id, request.error)
        if request.id in conversation.running:
            # Its id belongs to the first one, whose answer would be mistaken for this refusal.
            return encode_refusal(
                None, RequestError("this id is in use by another request; use a different one", id=request.id)
            )
        answered = await self._answer(request, conversation)
        return None if request.notification else answered

    async def _answer(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return await self._attempt(request, conversation)
        except Exception as error:
            if is_of_memory(error):
                return encode_refusal(
                    request.id, BusyError("the daemon is short of memory; try again later, or ask for less")
                )
            self._log.error("request failed method=%s id=%.64r\n%s", request.method, request.id, describe_fault(error))
            return encode_refusal(request.id, InternalError("internal error"))

    async def _attempt(self, request: Request, conversation: Conversation) -> bytes:
        try:
            return encode_answer(request.id, await self._result(request, conversation))
        except SesameError as error:
            return encode_refusal(request.id, error)
        except TimeoutError:
            return encode_refusal(request.id, DeadlineError("deadline exceeded; ask for less, or allow more time"))

    async def _result(self, request: Request, conversation: Conversation) -> Struct:
        if request.method not in self._methods:
            raise MethodError(f"there is no method {request.method[:64]!r}", methods=list(self._methods))
        handler, decoder = self._methods[request.method]
        params = _decode_params(request, decoder)
        call = Call(request.id, conversation.notify, partial(conversation.cancel, request.id), conversation.client)
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


def describe_fault(error: BaseException) -> str:
    """Where it happened, and the classes of the exceptions; not their messages, because those may quote a transcript."""
    inner = [error.__cause__ or error.__context__, *getattr(error, "exceptions", ())]
    earlier = "".join(describe_fault(e) for e in inner if e is not None)
    return f"{earlier}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__qualname__}\n"

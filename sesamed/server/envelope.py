"""JSON-RPC 2.0 on one line: from bytes to Request or Refusal, from values to an answer line. Pure; knows no method and no socket.

The envelope is decoded with every field raw, so that a wrong one can be told from a wrong line, and the id is known
when the rest is wrong. Lines that leave are ASCII: no terminal, log or line reader sees U+2028, bidi marks or half a
character.
"""

import json
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from sesamed.errors import ParseError, QueryError, RequestError, SesameError
from sesamed.sanitize import clean_answer, clean_text

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
    body: dict[str, Any] = {"code": error.code, "message": clean_text(error.message[:MAX_MESSAGE_CHARS])}
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

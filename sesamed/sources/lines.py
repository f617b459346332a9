"""JSON Lines: what the sources that read them have in common.

A line becomes a flat view struct, losing as little as can be of one that is not quite what it should be: there is a fast path (one
typed decoder), repairs, a conversion field by field, and the salvage of what still is whole in a torn or glued line. Knows no
agent. Every field of a shape has a default, for any may be missing or odd.

A good line costs one call of msgspec; all the rest happens only after it failed.
"""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from sesamed.model import Bad, Operation
from sesamed.source import BadLineError

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")

BOM = b"\xef\xbb\xbf"
SALVAGE_BYTES = 1 << 20
SALVAGE_TRIES = 64
FAILURES = (
    ValueError,
    RecursionError,
    OverflowError,
    MemoryError,
)  # msgspec's errors and UnicodeDecodeError are ValueErrors

# An escaped backslash is matched first, so that the `\u` after it is not taken for an escape.
SURROGATES = re.compile(
    rb"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)

EMPTY = b"{}"
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
STANDARD = json.JSONDecoder()
STRING = msgspec.json.Decoder(str).decode

MALFORMED = re.compile(r"JSON is malformed: (.+ \(byte \d+\))")
TRUNCATED = "Input data was truncated"


class LineDecoder(Generic[T]):
    """Decodes the lines of one format. `starts` matches where a top-level object may begin, for salvage."""

    def __init__(self, shape: type[T], starts: re.Pattern[str]) -> None:
        self._shape = shape
        self._starts = starts
        self._fast = msgspec.json.Decoder(shape).decode

    def decode(self, line: bytes) -> T:
        """The object on the line. Raises BadLineError."""
        try:
            return self._fast(line)
        except FAILURES:
            return self._slow(line)

    def salvage(self, line: bytes) -> list[T]:
        """The complete objects in a broken line: glued to a fragment, to each other, or between NULs."""
        if len(line) > SALVAGE_BYTES:
            return []
        text = repair(line).decode()
        found: list[T] = []
        position = 0
        for _ in range(SALVAGE_TRIES):
            start = self._starts.search(text, position)
            if start is None:
                break
            position = start.end()
            try:
                _, end = STANDARD.raw_decode(text, start.start())
                found.append(self.decode(text[start.start() : end].encode()))
            except (*FAILURES, BadLineError):
                continue
            position = end
        return found

    def _slow(self, line: bytes) -> T:
        if not line.strip(b"\0"):
            raise BadLineError("only NUL bytes, as a power failure leaves them" if line else "nothing in it")
        line = repair(line)
        try:
            return self._fast(line)
        except msgspec.ValidationError:
            return self._lenient(line)
        except FAILURES as error:
            raise BadLineError(explain(error)) from error

    def _lenient(self, line: bytes) -> T:
        try:
            return _decode_leniently(self._shape, line)
        except FAILURES as error:
            raise BadLineError(explain(error)) from error


class ListDecoder(Generic[T]):
    """Decodes a list of objects of one format, such as a row's. What is no object is left out, and of each one what fits is kept."""

    def __init__(self, shape: type[T], name: str) -> None:
        self._shape, self._name = shape, name
        self._fast = msgspec.json.Decoder(list[shape]).decode  # type: ignore[valid-type]  # a type all the same

    def decode(self, data: bytes) -> list[T]:
        """The objects. Raises BadLineError."""
        data = repair(data)
        try:
            return self._fast(data)
        except msgspec.ValidationError:
            return self._decode_each(data)
        except FAILURES as error:
            raise BadLineError(explain(error)) from None

    def _decode_each(self, data: bytes) -> list[T]:
        try:
            items = [bytes(item) for item in ITEMS.decode(data)]
        except FAILURES:
            raise BadLineError(f"not a list of {self._name}") from None
        try:
            return [_decode_leniently(self._shape, item) for item in items if item[:1] == b"{"]
        except FAILURES as error:
            raise BadLineError(explain(error)) from None


class LenientDecoder(Generic[T]):
    """Decodes objects of which only what fits is kept; the other fields keep their defaults."""

    def __init__(self, shape: type[T]) -> None:
        self._shape = shape
        msgspec.json.Decoder(shape)  # prepares its types, which two threads must not be the first to decode

    def decode(self, data: bytes) -> T:
        """The object. Raises one of FAILURES if it is none."""
        return _decode_leniently(self._shape, data)


class JsonState(Generic[S]):
    """`freeze` and `thaw` of a source, as JSON."""

    def __init__(self, state: type[S]) -> None:
        self._decode_state = msgspec.json.Decoder(state).decode

    def freeze(self, state: S) -> bytes:
        """The state as bytes to store."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> S:
        """The state from its bytes."""
        return self._decode_state(data)


class JsonLines(JsonState[S], Generic[S, T]):
    """`step` for JSON Lines: lines are decoded, torn ones salvaged, and `take` gets the objects."""

    def __init__(self, state: type[S], line: type[T], starts: re.Pattern[str]) -> None:
        super().__init__(state)
        self._lines = LineDecoder(line, starts)

    def step(self, state: S, item: bytes) -> tuple[S, list[Operation]]:
        """The state after a line, and its operations."""
        try:
            entry = self._lines.decode(item)
        except BadLineError as error:
            return self._salvage(state, item, error) if item.strip() else (state, [])
        return self.take(state, entry, item)

    def take(self, state: S, entry: T, line: bytes) -> tuple[S, list[Operation]]:
        """The operations of a complete line."""
        raise NotImplementedError

    def choose_whole(self, state: S, found: list[T]) -> list[T]:
        """The objects in a torn line that are complete lines; others are parts of one."""
        raise NotImplementedError

    def _salvage(self, state: S, line: bytes, error: BadLineError) -> tuple[S, list[Operation]]:
        whole = self.choose_whole(state, self._lines.salvage(line))
        if not whole:
            raise error
        operations: list[Operation] = [Bad(reason=f"{error}; what is whole in it was read")]
        for entry in whole:
            state, more = self.take(state, entry, line)
            operations += more
        return state, operations


def explain(error: Exception) -> str:
    """Why a line is not an object, without a word of it: of its own messages, msgspec's about values may quote them."""
    if isinstance(error, msgspec.ValidationError):
        return "not a JSON object"
    if isinstance(error, RecursionError):
        return "nested too deep"
    if malformed := MALFORMED.fullmatch(str(error)):
        return f"not JSON: {malformed[1]}"
    return "not JSON: it ends too early" if str(error) == TRUNCATED else "not JSON"


def decode_part(decode: Callable[[bytes], V], raw: bytes) -> V:
    """Decode a part of a line that was skipped when the line was decoded, and may still need repair."""
    try:
        return decode(raw)
    except FAILURES:
        return decode(repair(raw))


def text_in(raw: bytes) -> str:
    """A string."""
    return decode_part(STRING, raw)


def object_of(raw: bytes) -> bytes:
    """The object that stands in a string, or as it is."""
    if raw[:1] == b'"':
        raw = text_in(raw).encode()
    return EMPTY if raw.strip() in (b"", b"null") else raw


def repair(line: bytes) -> bytes:
    """The line as valid UTF-8, without a BOM, and with U+FFFD for each unpaired half of a surrogate pair.

    JavaScript writes such halves when it cuts a text in the middle of an emoji.
    """
    line = line.removeprefix(BOM).decode("utf-8", "replace").encode()
    return SURROGATES.sub(lambda match: rb"\ufffd" if match[1] else match[0], line)


def _decode_leniently(shape: type[T], line: bytes) -> T:
    """The object with the fields that fit `shape`; the others keep their defaults."""
    given = OBJECT.decode(line)
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(shape):
        raw = given.get(field.encode_name)
        if raw is not None:
            _fit(fields, field.name, field.type, bytes(raw))
    return shape(**fields)


def _fit(fields: dict[str, Any], name: str, kind: Any, raw: bytes) -> None:
    with suppress(*FAILURES):  # this one field is odd
        fields[name] = _convert(kind, raw)


def _convert(kind: Any, raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        for part in _parts(kind):
            if isinstance(part, type) and issubclass(part, msgspec.Struct) and raw[:1] == b"{":
                return _decode_leniently(part, raw)
            if get_origin(part) is list and raw[:1] == b"[":
                return _convert_items(get_args(part)[0], raw)
        raise


def _convert_items(kind: Any, raw: bytes) -> list[Any]:
    items: dict[str, Any] = {}
    for number, item in enumerate(ITEMS.decode(raw)):
        _fit(items, str(number), kind, bytes(item))
    return list(items.values())


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)

"""JSON lines, by the C half of the standard library's `json`: importing the other half, with `re`, takes 5 ms.

Equal to `json.dumps` and `json.loads`, which a test holds. That half is private to CPython: where it is missing, or does not
work as it did, `json` itself takes its place.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from json import dumps as dumps
    from json import loads as loads
else:

    class _Settings:
        """What `json.JSONDecoder` tells the scanner."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = parse_constant = float
        parse_int = int

    def _refuse(value):
        raise TypeError(f"JSON has no {type(value).__name__}")

    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner

        _scan = make_scanner(_Settings)
        _encode = make_encoder(None, _refuse, encode_basestring_ascii, None, ": ", ", ", False, False, True)
        if "".join(_encode({"a": [1]}, 0)) != '{"a": [1]}' or _scan('{"a": [1]}', 0) != ({"a": [1]}, 10):
            raise ImportError  # noqa: TRY301
    except (ImportError, AttributeError, TypeError, ValueError):  # another Python, or another signature
        from json import dumps, loads
    else:

        def dumps(value):
            """The value as JSON, in ASCII, on one line."""
            return "".join(_encode(value, 0))

        def loads(data):
            """The value of a JSON text in UTF-8. Raises ValueError."""
            text = data.decode("utf-8").strip(" \t\r\n")
            try:
                value, end = _scan(text, 0)
            except (
                StopIteration,
                SystemError,
            ):  # it says what is wrong only where `json` is imported, and else fails itself
                raise ValueError("no JSON") from None
            if end != len(text):
                raise ValueError("more than one JSON value")
            return value

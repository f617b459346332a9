"""JSON lines, by the C half of the standard library's `json`: importing the other half, with `re`, takes 5 ms.

The same as `json.dumps` and `json.loads`, which a test holds; where that half is not to be had they take its place.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from json import dumps as dumps
    from json import loads as loads
else:
    try:
        from _json import encode_basestring_ascii, make_encoder, make_scanner
    except ImportError:  # another Python than CPython, or another CPython than today's
        from json import dumps, loads
    else:

        class _Reading:
            """What `json.JSONDecoder` says to the scanner."""

            strict = True
            object_hook = object_pairs_hook = None
            parse_float = parse_constant = float
            parse_int = int

        def _unknown(value):
            raise TypeError(f"JSON has no {type(value).__name__}")

        _scan = make_scanner(_Reading)
        _encode = make_encoder(None, _unknown, encode_basestring_ascii, None, ": ", ", ", False, False, True)

        def dumps(value):
            """The value as JSON, in ASCII, on one line."""
            return "".join(_encode(value, 0))

        def loads(data):
            """The value of a JSON text in UTF-8. Raises ValueError."""
            text = data.decode("utf-8").strip(" \t\r\n")
            try:
                value, end = _scan(text, 0)
            except StopIteration:
                raise ValueError("no JSON") from None
            if end != len(text):
                raise ValueError("more than one JSON value")
            return value

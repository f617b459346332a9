"""The key of a record: the same in every file that holds a copy of it, and different from that of any other record."""

from sesamed.digest import digest


def record_key(head: str, body: str | bytes) -> int:
    """`head` is what kind of record it is and where it comes from, `body` is its text."""
    return digest(encode(head), b"\0", body if isinstance(body, bytes) else encode(body))


def encode(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")

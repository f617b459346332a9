"""The key of a record: the same for every copy of it, in any file; another one for any other record."""

from sesamed.digest import digest


def record_key(head: str, body: str | bytes) -> int:
    """`head` says what it is and where it comes from, `body` what it says."""
    return digest(encode(head), b"\0", body if isinstance(body, bytes) else encode(body))


def encode(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")

"""The key of a record: the same for every copy of it, in any file; another one for any other record."""

from hashlib import blake2b


def record_key(head: str, body: str | bytes) -> int:
    """63 bits: SQLite's integers have a sign. `head` says what it is and where it comes from, `body` what it says."""
    digest = blake2b(encoded(head), digest_size=8)
    digest.update(b"\0")
    digest.update(body if isinstance(body, bytes) else encoded(body))
    return int.from_bytes(digest.digest(), "big") >> 1


def encoded(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")

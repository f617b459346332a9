"""Keys made of digests: what is too long to compare, or must not be kept, is known by 63 bits of its hash.

The key of a record is the same in every file that holds a copy of it, and different from that of any other record.
"""

from hashlib import blake2b


def digest(*parts: bytes, person: bytes = b"") -> int:
    """63 bits, since SQLite's integers have a sign. Parts are joined as they are; `person` keeps two kinds of things apart."""
    hashed = blake2b(digest_size=8, person=person)
    for part in parts:
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "big") >> 1


def record_key(head: str, body: str | bytes) -> int:
    """`head` is what kind of record it is and where it comes from, `body` is its text."""
    return digest(encode(head), b"\0", body if isinstance(body, bytes) else encode(body))


def encode(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")

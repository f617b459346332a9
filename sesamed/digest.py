"""Digests that fit into a column: what is too long to compare, or must not be kept, is known by 63 bits of its hash."""

from hashlib import blake2b


def digest(*parts: bytes, person: bytes = b"") -> int:
    """63 bits, since SQLite's integers have a sign. Parts are joined as they are; `person` keeps two kinds of things apart."""
    hashed = blake2b(digest_size=8, person=person)
    for part in parts:
        hashed.update(part)
    return int.from_bytes(hashed.digest(), "big") >> 1

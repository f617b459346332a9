"""Compressed session files (`.jsonl.zst`) as a stream of blocks, in bounded memory."""

import os
import sys
from collections.abc import Iterator

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES = 1 << 20


def decompressed(descriptor: int, offset: int) -> Iterator[bytes]:
    """The content from `offset` on. A file that ends in mid-frame ends there; a damaged one raises OSError."""
    with os.fdopen(os.dup(descriptor), "rb") as raw:
        raw.seek(0)
        with zstd.ZstdFile(raw) as file:
            try:
                while block := file.read(BLOCK_BYTES):
                    skipped = min(offset, len(block))
                    offset -= skipped
                    if skipped < len(block):
                        yield block[skipped:]
            except EOFError:
                return
            except zstd.ZstdError as error:
                raise OSError(f"not readable as zstd: {error}") from error

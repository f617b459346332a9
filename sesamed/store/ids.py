"""How things are numbered, named and ordered in the tables. Nothing else in sesamed knows these numbers; SQL gets them from here, too.

A chunk's row number is `file << 24 | position << 3 | kind`: the place of a text in the files is readable from the number alone, so
that a query groups by file, filters by kind and finds the record without a join (docs/decisions.md, 3). A record's number is its
chunks' without the kind: `file << 21 | position`. It names the record's home; the same numbers name the places of copies.
"""

from enum import IntEnum
from typing import Any

from sesamed.calls import WINDOWS
from sesamed.folding import fold_here
from sesamed.model import digest

FILE_BITS = 24
KIND_BITS = 3
POSITION_BITS = FILE_BITS - KIND_BITS
KIND_MASK = (1 << KIND_BITS) - 1
LAST_POSITION = (1 << POSITION_BITS) - 1


class Kind(IntEnum):
    """The low bits of a chunk's row number: what the text is. Messages have lower numbers than calls and results."""

    USER = 0
    ASSISTANT = 1
    CUSTOM = 2
    SUMMARY = 3
    CALL = 4
    RESULT = 5
    UNINDEXED = 6  # kept for reading, never searched: our own searches, placeholders


READ_REVISION = "SELECT next_revision FROM totals"
NEXT_REVISION = f"({READ_REVISION})"  # what a transaction changes gets this number, in SQL


# -- records and chunks by their numbers


def record_at(file: int, position: int) -> int:
    """The number of a record, or of a copy's place."""
    return file << POSITION_BITS | position


def file_of(record: int) -> int:
    """The file that a record's number names."""
    return record >> POSITION_BITS


def position_of(record: int) -> int:
    """The position in that file."""
    return record & LAST_POSITION


def home_of(record: int) -> tuple[int, int]:
    """File and position."""
    return file_of(record), position_of(record)


def records_of(file: int) -> tuple[int, int]:
    """The first and the last number that records of a file can have."""
    return record_at(file, 0), record_at(file, LAST_POSITION)


def chunk_of(record: int, kind: int) -> int:
    """The number of a record's chunk."""
    return record << KIND_BITS | kind


def record_of(chunk: int) -> int:
    """The record that a chunk belongs to."""
    return chunk >> KIND_BITS


def kind_of(chunk: int) -> int:
    """What a chunk is."""
    return chunk & KIND_MASK


def chunks_of(record: int) -> tuple[int, int]:
    """The first and the last number that chunks of a record can have."""
    return chunk_of(record, 0), chunk_of(record, KIND_MASK)


def chunks_of_file(file: int) -> tuple[int, int]:
    """The same of a whole file."""
    return chunk_of(record_at(file, 0), 0), chunk_of(record_at(file, LAST_POSITION), KIND_MASK)


# -- the same of arrays of chunks


def files_of(chunks: Any) -> Any:
    """The files that their numbers name."""
    return chunks >> FILE_BITS


def records_of_chunks(chunks: Any) -> Any:
    """The records that they belong to."""
    return chunks >> KIND_BITS


def kinds_of(chunks: Any) -> Any:
    """What they are."""
    return chunks & KIND_MASK


# -- the same in SQL


def sql_record(file: str, position: str) -> str:
    """The number of a record, or of a copy's place."""
    return f"({file} << {POSITION_BITS} | {position})"


def sql_file(record: str) -> str:
    """The file that a record's number names."""
    return f"({record} >> {POSITION_BITS})"


def sql_position(record: str) -> str:
    """The position in that file."""
    return f"({record} & {LAST_POSITION})"


def sql_in_file(record: str, file: str, first: str = "0", last: str = str(LAST_POSITION)) -> str:
    """Whether a record's number is one of a file's, from one position to another: a range of the primary key."""
    begin = f"({file} << {POSITION_BITS})"
    return f"{record} BETWEEN {begin} + {first} AND {begin} + {last}"


def sql_chunk(record: str, kind: str) -> str:
    """The number of a record's chunk."""
    return f"({record} << {KIND_BITS} | {kind})"


def sql_record_of(chunk: str) -> str:
    """The record that a chunk belongs to."""
    return f"({chunk} >> {KIND_BITS})"


def sql_file_of(chunk: str) -> str:
    """The file that a chunk's number names."""
    return f"({chunk} >> {FILE_BITS})"


def sql_kind(chunk: str) -> str:
    """What a chunk is."""
    return f"({chunk} & {KIND_MASK})"


def sql_is_message(chunk: str) -> str:
    """Whether a chunk is a message, not a call or a result."""
    return f"{sql_kind(chunk)} < {Kind.CALL}"


def sql_is_indexed(chunk: str) -> str:
    """Whether a chunk has a row in the full-text index."""
    return f"{sql_kind(chunk)} <> {Kind.UNINDEXED}"


def sql_in_record(chunk: str, record: str) -> str:
    """Whether a chunk is one of a record's: a range of the primary key."""
    return f"{chunk} BETWEEN {record} << {KIND_BITS} AND ({record} << {KIND_BITS}) + {KIND_MASK}"


def sql_chunk_in_file(chunk: str, file: str) -> str:
    """Whether a chunk is one of a file's: a range of the primary key."""
    return f"{chunk} BETWEEN {file} << {FILE_BITS} AND ({file} << {FILE_BITS}) + {(1 << FILE_BITS) - 1}"


def sql_is_call(record: str) -> str:
    """Whether a row of `records` is a tool call, not a message."""
    return f"{record}.kind = {Kind.CALL}"


# Sessions (`s`), those of this machine before others, the earliest created first. A fork that copied its parent's first line, too, counts
# as created when that was: it comes after its parent.
EARLIEST_FIRST = (
    "s.workstation IS NOT NULL, s.created_ms, s.parent_id IS NOT NULL, coalesce(s.began_ms, s.created_ms), "
    "s.source, s.native_id, s.origin"
)
OWNER_FIRST = f"{EARLIEST_FIRST}, f.path"  # the holders of a shared record (`f` the file)


# -- keys


def public_id(native_id: str, ordinal: int) -> str:
    """What a session is called in answers: the agent's own id, for all but the first of several that share it with their number."""
    return native_id if ordinal == 1 else f"{native_id}~{ordinal}"


PUBLIC_ID = "native_id || iif(ordinal = 1, '', '~' || ordinal)"  # the same in SQL


def sql_key_end(session: str) -> str:
    """What a session's key ends with: the id that it has where it is at home."""
    return f"iif({session}.workstation IS NULL, {session}.public_id, {session}.native_id)"


def line_digest(source: str, line: str) -> int:
    """An entry's id as facts in other files refer to it."""
    return digest(f"{source}\0{line}".encode("utf-8", "surrogatepass"))


def is_absolute(path: str) -> bool:
    """Whether a path begins at a root, of this system or of Windows."""
    return path.startswith("/") or WINDOWS.match(path) is not None


def path_key(path: str) -> str:
    """A path from its last part to its first, so that trailing parts are a prefix: `/a/b.ts` is `b.ts/a/`. Paths of Windows likewise.
    All spellings that the file system takes for one have one key.
    """
    path = fold_here(path)
    if WINDOWS.match(path) or "/" not in path:
        path = path.replace("\\", "/")
    return "/".join(reversed([part for part in path.split("/") if part not in ("", ".")])) + "/"


def mend_path_key(key: str) -> str:
    """A key from when paths of Windows were taken for one part, or for files below the session's directory."""
    parts = key.rstrip("/").split("/")
    for at, part in enumerate(parts):
        if WINDOWS.match(part):
            return path_key("\\".join([part, *reversed(parts[:at])]))
    return key


def after_path_key(key: str) -> str:
    """The first key that does not have this prefix, so that paths with these trailing parts are a range."""
    return key[:-1] + "0"  # the character after '/'

"""Files and their cursors."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import apsw
import msgspec

from sesamed.model import DESCRIBED
from sesamed.store import sqlite
from sesamed.store.ids import NEXT_REVISION
from sesamed.store.rows import KEPT_BAD, UNREAD, Cursor, FileRows, IndexedFile, Signature

SIGNATURE, CURSOR = Signature.__struct_fields__, Cursor.__struct_fields__
NAMES = ("path", "root", "source", "source_version", *SIGNATURE, *CURSOR, "complete")
COLUMNS = ", ".join(NAMES)
ADD = f"INSERT INTO files({COLUMNS}, revision) VALUES({', '.join(f':{name}' for name in NAMES)}, {NEXT_REVISION}) RETURNING id"
# Not the path: its index would be written anew with each commit.
STORE = f"UPDATE files SET {', '.join(f'{name} = :{name}' for name in NAMES[1:])}, gone_ms = NULL"
FIND = f"SELECT {COLUMNS}, gone_ms FROM files"
ADD_BAD = f"""
    INSERT OR IGNORE INTO bad_lines(file, line, reason) SELECT :file, :line, :reason
    WHERE (SELECT count(*) FROM bad_lines WHERE file = :file) < {KEPT_BAD}
"""
# Where sessions were: as their own files say, or others by an entry of theirs.
DIRECTORIES = (
    "SELECT value FROM facts WHERE field = 'cwd' AND native_id = '' UNION SELECT value FROM remarks WHERE field = 'cwd'"
)
PLACES = "SELECT entry, value FROM remarks WHERE field = 'cwd'"
# The files of sessions that were in one of these directories, that nothing is kept of elsewhere, or that are subagents of such.
EXCLUDED = """
    WITH RECURSIVE place(value) AS (SELECT value FROM json_each(:directories)),
    known(source, native_id, origin, cwd) AS (
      SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')
      FROM json_each(:sessions)
    ), excluded(session, cwd, parent, is_own) AS (
      SELECT f.session, a.value, NULL, 1 FROM facts a JOIN files f ON f.id = a.file
      WHERE a.field = 'cwd' AND a.native_id = '' AND a.value IN place
      UNION SELECT h.session, a.value, NULL, 1 FROM remarks a JOIN line_ids e ON e.digest = a.entry JOIN files h ON h.id = e.file
      WHERE a.field = 'cwd' AND a.value IN place
      UNION SELECT s.id, k.cwd, NULL, 0 FROM known k JOIN sessions s USING (source, native_id, origin)
      UNION SELECT c.id, k.cwd, k.native_id, 0
      FROM known k JOIN sessions c ON c.source = k.source AND c.parent_id = k.native_id AND c.subagent
      UNION SELECT c.id, x.cwd, s.native_id, 0 FROM excluded x JOIN sessions s ON s.id = x.session
      JOIN sessions c ON c.source = s.source AND c.parent_id = s.native_id AND c.subagent
    )
    SELECT f.path, x.cwd, s.native_id, s.origin, x.parent, x.is_own FROM excluded x
    JOIN files f ON f.session = x.session JOIN sessions s ON s.id = x.session ORDER BY x.is_own
"""


Place: TypeAlias = tuple[str, str, str, str | None, bool]  # see `find_excluded`


class Files:
    """The files of one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def find_or_add(self, change: FileRows) -> tuple[int, int | None, bool, bool]:
        """The file's number, the session it was in, whether it is new, and whether it was elsewhere: at another path, or gone."""
        if change.moved_from is not None:
            self._connection.execute("UPDATE files SET path = ? WHERE path = ?", (change.path, change.moved_from))
        if found := self.find(change.path):
            file, session, gone = found
            return file, session, False, gone or change.moved_from is not None
        row = sqlite.one(self._connection, ADD, _values(change, Signature(0, 0, 0, 0, 0), Cursor()))
        return int(row[0]), None, True, False

    def find(self, path: bytes) -> tuple[int, int | None, bool] | None:
        """A file's number and session, and whether it is gone."""
        sql = "SELECT id, session, gone_ms IS NOT NULL FROM files WHERE path = ?"
        row = self._connection.execute(sql, (path,)).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def store_cursor(self, file: int, change: FileRows, position: int) -> IndexedFile:
        """Store the cursor: it and the rows that it stands for are one commit. Gives the file as it is known now."""
        counted = "bad_lines = :bad, unknown_lines = :unknown"
        if not change.counted_from_start:
            counted = "bad_lines = bad_lines + :bad, unknown_lines = unknown_lines + :unknown"
        values = _values(change, change.signature, msgspec.structs.replace(change.cursor, position=position))
        values |= {"file": file, "bad": change.bad_lines, "unknown": change.unknown_lines}
        if change.counted_from_start:
            self._forget_bad(file)
        for bad in change.bad:
            self._connection.execute(ADD_BAD, {"file": file, "line": bad.line or 0, "reason": bad.reason})
        sql = f"{STORE}, {counted} WHERE id = :file RETURNING {COLUMNS}, gone_ms"
        return _make_file(next(self._connection.execute(sql, values)))

    def _forget_bad(self, file: int) -> None:
        self._connection.execute("DELETE FROM bad_lines WHERE file = ?", (file,))

    def set_session(self, file: int, session: int | None) -> None:
        """Assign a file to a session."""
        self._connection.execute("UPDATE files SET session = ? WHERE id = ?", (session, file))

    def count(self, session: int) -> int:
        """How many files a session has."""
        return int(sqlite.one(self._connection, "SELECT count(*) FROM files WHERE session = ?", (session,))[0])

    def mark_gone(self, path: bytes, now_ms: int) -> tuple[int, int | None] | None:
        """Mark a file as gone; None if it is unknown, or already gone."""
        sql = "UPDATE files SET gone_ms = ? WHERE path = ? AND gone_ms IS NULL RETURNING id, session"
        row = self._connection.execute(sql, (now_ms, path)).fetchone()
        return None if row is None else (row[0], row[1])

    def never_decoded(self, path: bytes) -> bool:
        """Whether a file is known by its bad lines only."""
        sql = "bad_lines > 0 AND session IS NULL AND NOT EXISTS(SELECT 1 FROM facts WHERE file = f.id)"
        return bool(sqlite.one(self._connection, f"SELECT {sql} FROM files f WHERE path = ?", (path,))[0])

    def remove(self, file: int) -> None:
        """Remove a file that holds nothing any more."""
        self._forget_bad(file)
        self._connection.execute("DELETE FROM files WHERE id = ?", (file,))

    def read(self, path: bytes) -> IndexedFile:
        """A file as the index has it."""
        return _make_file(sqlite.one(self._connection, f"{FIND} WHERE path = ?", (path,)))

    def read_number(self, file: int) -> IndexedFile:
        """The same by its number."""
        return _make_file(sqlite.one(self._connection, f"{FIND} WHERE id = ?", (file,)))

    def find_known(self, path: bytes) -> IndexedFile | None:
        """A file, if the index has it."""
        row = self._connection.execute(f"{FIND} WHERE path = ?", (path,)).fetchone()
        return None if row is None else _make_file(row)

    def with_inode(self, dev: int, ino: int) -> list[IndexedFile]:
        """The files that were last seen with this inode; inodes are reused, so only their content decides."""
        sql = f"{FIND} WHERE ino = ? AND dev = ?"
        return [_make_file(row) for row in self._connection.execute(sql, (ino, dev))]

    def list_parts(self, path: bytes) -> dict[bytes, tuple[int, int, bool, bool]]:
        """The units of a file that has several: what of their signature tells versions apart, the source's version, and whether they are
        complete, and gone."""
        sql = "SELECT path, ctime_ns, source_version, complete, gone_ms IS NOT NULL FROM files WHERE path > ? AND path < ?"
        rows = self._connection.execute(sql, (path + b"\0", path + b"\1"))
        return {
            bytes(unit): (version, source, bool(complete), bool(gone)) for unit, version, source, complete, gone in rows
        }

    def list_read(self, beginning: bytes) -> list[bytes]:
        """The units whose paths begin so, and that hold a session."""
        sql = "SELECT path FROM files WHERE path >= ? AND path < ? AND session IS NOT NULL"
        return [bytes(path) for (path,) in self._connection.execute(sql, (beginning, beginning + b"\xff"))]

    def list_directories(self) -> list[str]:
        """Where sessions were."""
        return [directory for (directory,) in self._connection.execute(DIRECTORIES)]

    def list_places(self) -> list[tuple[int, str]]:
        """Where sessions were, by an entry of theirs."""
        return [(entry, directory) for entry, directory in self._connection.execute(PLACES)]

    def find_excluded(
        self, directories: Sequence[str], sessions: Sequence[tuple[str, str, str, str]]
    ) -> dict[bytes, Place]:
        """The files of sessions in these directories and of these sessions (source, native id, origin, directory), and of their subagents:
        each with directory, native id, origin, the session that it works for, and whether it was in the directory itself."""
        values = {"directories": json.dumps(directories), "sessions": json.dumps(sessions)}
        found = self._connection.execute(EXCLUDED, values)
        return {
            bytes(path): (cwd, native, origin, parent, bool(own)) for path, cwd, native, origin, parent, own in found
        }

    def list_without_session(self) -> list[bytes]:
        """The files that are there, and hold no session."""
        sql = "SELECT path FROM files WHERE session IS NULL AND gone_ms IS NULL"
        return [bytes(path) for (path,) in self._connection.execute(sql)]

    def list_described(self) -> list[tuple[bytes, str]]:
        """The documents that are about a transcript, with its path."""
        sql = "SELECT f.path, a.value FROM facts a JOIN files f ON f.id = a.file WHERE a.field = ?"
        return [(bytes(path), transcript) for path, transcript in self._connection.execute(sql, (DESCRIBED,))]

    def list_silent(self) -> list[bytes]:
        """The files that are there, hold no session, and say nothing of one."""
        sql = "SELECT path FROM files f WHERE session IS NULL AND gone_ms IS NULL AND NOT EXISTS (SELECT 1 FROM facts WHERE file = f.id)"
        return [bytes(path) for (path,) in self._connection.execute(sql)]

    def read_again(self, paths: Iterable[bytes]) -> None:
        """Have files read from their beginning, as if by a source of another version."""
        sql = "UPDATE files SET source_version = ? WHERE path = ?"
        self._connection.executemany(sql, [(UNREAD, path) for path in paths])

    def list_gone(self, before_ms: int | None = None) -> list[bytes]:
        """The files that are gone; only those since before a time, if there is one. (They may have gone in the future: clocks jump.)"""
        sql = "SELECT path FROM files WHERE gone_ms IS NOT NULL AND (gone_ms <= ?1 OR ?1 IS NULL)"
        return [bytes(path) for (path,) in self._connection.execute(sql, (before_ms,))]

    def all(self) -> Iterator[IndexedFile]:
        """Every file."""
        for row in self._connection.execute(FIND):
            yield _make_file(row)


def _values(change: FileRows, signature: Signature, cursor: Cursor) -> dict[str, Any]:
    return {
        "path": change.path,
        "root": change.root,
        "source": change.source,
        "source_version": change.source_version,
        "complete": change.complete,
        **msgspec.structs.asdict(signature),
        **msgspec.structs.asdict(cursor),
    }


def _make_file(row: tuple[Any, ...]) -> IndexedFile:
    path, root, source, version, *rest, complete, gone_ms = row
    signature = Signature(*rest[: len(SIGNATURE)])
    fields = dict(zip(CURSOR, rest[len(SIGNATURE) :], strict=True))
    cursor = Cursor(**{**fields, "skipping": bool(fields["skipping"])})
    return IndexedFile(path, root, source, version, signature, cursor, bool(complete), gone_ms is not None)

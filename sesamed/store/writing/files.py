"""Files and their cursors."""

from collections.abc import Iterator
from typing import Any

import apsw

from sesamed.store import sqlite
from sesamed.store.rows import Cursor, FileRows, Known, Signature

COLUMNS = """path, root, source, source_version, dev, ino, size, mtime_ns, ctime_ns, offset, skipping, head, tail, digest, loose,
  loose_digest, position, state, complete, gone_ms"""


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
        sql = """
            INSERT INTO files(path, root, source, source_version, dev, ino, size, mtime_ns, ctime_ns, offset, skipping, head, tail,
              digest, loose, loose_digest, position, state, complete)
            VALUES(?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, x'', 0) RETURNING id
        """
        row = sqlite.one(self._connection, sql, (change.path, change.root, change.source, change.source_version))
        return int(row[0]), None, True, False

    def find(self, path: bytes) -> tuple[int, int | None, bool] | None:
        """A file's number and session, and whether it is gone."""
        sql = "SELECT id, session, gone_ms IS NOT NULL FROM files WHERE path = ?"
        row = self._connection.execute(sql, (path,)).fetchone()
        return None if row is None else (row[0], row[1], bool(row[2]))

    def store_cursor(self, file: int, change: FileRows, position: int) -> None:
        """Store the cursor: it and the rows that it stands for are one commit."""
        signature, cursor = change.signature, change.cursor
        counted = "bad_lines = :bad, unknown_lines = :unknown"
        if not change.counted_from_start:
            counted = "bad_lines = bad_lines + :bad, unknown_lines = unknown_lines + :unknown"
        sql = f"""
            UPDATE files SET root = :root, source = :source, source_version = :version, dev = :dev, ino = :ino, size = :size,
              mtime_ns = :mtime, ctime_ns = :ctime, offset = :offset, skipping = :skipping, head = :head, tail = :tail,
              digest = :digest, loose = :loose, loose_digest = :loose_digest, position = :position, state = :state,
              complete = :complete, gone_ms = NULL, {counted}
            WHERE id = :file
        """
        values = {
            "file": file, "root": change.root, "source": change.source, "version": change.source_version,
            "dev": signature.dev, "ino": signature.ino, "size": signature.size, "mtime": signature.mtime_ns,
            "ctime": signature.ctime_ns, "offset": cursor.offset, "skipping": cursor.skipping, "head": cursor.head,
            "tail": cursor.tail, "digest": cursor.digest, "loose": cursor.loose, "loose_digest": cursor.loose_digest,
            "position": position, "state": cursor.state, "complete": change.complete,
            "bad": change.bad_lines, "unknown": change.unknown_lines,
        }  # fmt: skip
        self._connection.execute(sql, values)

    def set_session(self, file: int, session: int | None) -> None:
        """Put a file into a session."""
        self._connection.execute("UPDATE files SET session = ? WHERE id = ?", (session, file))

    def count(self, session: int) -> int:
        """How many files a session has."""
        return int(sqlite.one(self._connection, "SELECT count(*) FROM files WHERE session = ?", (session,))[0])

    def mark_gone(self, path: bytes, now_ms: int) -> tuple[int, int | None] | None:
        """Mark a file as gone; None when it is unknown, or gone already."""
        sql = "UPDATE files SET gone_ms = ? WHERE path = ? AND gone_ms IS NULL RETURNING id, session"
        row = self._connection.execute(sql, (now_ms, path)).fetchone()
        return None if row is None else (row[0], row[1])

    def remove(self, file: int) -> None:
        """Forget a file; it holds nothing any more."""
        self._connection.execute("DELETE FROM files WHERE id = ?", (file,))

    def known(self, path: bytes) -> Known:
        """A file as it is known now."""
        return _known(sqlite.one(self._connection, f"SELECT {COLUMNS} FROM files WHERE path = ?", (path,)))

    def known_or_none(self, path: bytes) -> Known | None:
        """A file, if it is known."""
        row = self._connection.execute(f"SELECT {COLUMNS} FROM files WHERE path = ?", (path,)).fetchone()
        return None if row is None else _known(row)

    def with_inode(self, dev: int, ino: int) -> list[Known]:
        """The files that were last seen with this inode; inodes are used again, so only their content tells."""
        sql = f"SELECT {COLUMNS} FROM files WHERE ino = ? AND dev = ?"
        return [_known(row) for row in self._connection.execute(sql, (ino, dev))]

    def gone_before(self, ms: int) -> list[bytes]:
        """The files that are gone since then."""
        sql = "SELECT path FROM files WHERE gone_ms IS NOT NULL AND gone_ms <= ?"
        return [bytes(path) for (path,) in self._connection.execute(sql, (ms,))]

    def all(self) -> Iterator[Known]:
        """Every file."""
        for row in self._connection.execute(f"SELECT {COLUMNS} FROM files"):
            yield _known(row)


def _known(row: tuple[Any, ...]) -> Known:
    path, root, source, version, *rest = row
    (
        dev,
        ino,
        size,
        mtime,
        ctime,
        offset,
        skipping,
        head,
        tail,
        digest,
        loose,
        loose_digest,
        position,
        state,
        complete,
        gone,
    ) = rest
    cursor = Cursor(
        offset=offset, skipping=bool(skipping), head=head, tail=tail, digest=digest, loose=loose, loose_digest=loose_digest,
        position=position, state=state,
    )  # fmt: skip
    signature = Signature(dev, ino, size, mtime, ctime)
    return Known(path, root, source, version, signature, cursor, bool(complete), gone is not None)

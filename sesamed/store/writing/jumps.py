"""Where a record does not follow the one before it: in a tree of messages somebody went back to an earlier one.

Most records follow the one at the position before theirs. Of the others the *jumps* say which. The next position may have a jump before
there is a record, from lines that became none: so nothing is remembered between two looks but rows. Lines that became no record are
kept by their digest, with the record that they stand behind: somebody may go back to one of them, too.
"""

import apsw

from sesamed.store.ids import line_digest
from sesamed.store.reading.branch import find_entry
from sesamed.store.rows import FileRows, PassedRow, RecordRow

FIRST = -1  # what the first record follows, and the first one of another tree
ADD_JUMP = "REPLACE INTO jumps(file, position, follows) VALUES(?, ?, ?)"
ADD_PASSED = "REPLACE INTO passed_lines(file, digest, follows) VALUES(?, ?, ?)"


class Jumps:
    """Follows the lines of one file after the other, within one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._file = 0
        self._source = ""
        self._tip = FIRST  # the record that the next line follows, if it does not say otherwise
        self._entry: str | None = None  # of the record before: a line may become several
        self._passed: list[tuple[int, int, int]] = []

    def begin(self, file: int, change: FileRows) -> None:
        """What comes now is of this file, from this position on."""
        self._file, self._source, self._entry = file, change.source, None
        position = change.cursor.position
        sql = "SELECT follows FROM jumps WHERE file = ? AND position = ?"
        found = self._connection.execute(sql, (file, position)).fetchone()
        self._tip = position - 1 if found is None else found[0]

    def expect(self, position: int, row: RecordRow) -> None:
        """A record comes to this position."""
        if row.parent is not None and (row.entry is None or row.entry != self._entry):
            self._go_back(position, row.parent)
        self._entry = row.entry

    def settle(self, position: int, row: RecordRow, *, is_here: bool) -> None:
        """It is there, or the file holds it at another place already."""
        if is_here:
            self._tip = position
        elif row.entry is not None:
            self._passed.append((self._file, line_digest(self._source, row.entry), self._tip))

    def pass_over(self, position: int, row: PassedRow) -> None:
        """A line that is no record stands before this position."""
        if row.parent is not None:
            self._go_back(position, row.parent)
        self._entry = None
        self._passed.append((self._file, row.digest, self._tip))

    def flush(self) -> None:
        """Write what was gathered."""
        if self._passed:
            self._connection.executemany(ADD_PASSED, self._passed)
            self._passed.clear()

    def _go_back(self, position: int, parent: str) -> None:
        """What comes next follows this entry. If nobody knows it, the line before is followed: its line may have been torn."""
        target = self._find(position, parent) if parent else FIRST
        if target is None or target == self._tip:
            return
        self._tip = target
        if target == position - 1:
            self._connection.execute("DELETE FROM jumps WHERE file = ? AND position = ?", (self._file, position))
        else:
            self._connection.execute(ADD_JUMP, (self._file, position, target))

    def _find(self, position: int, entry: str) -> int | None:
        """The record that is, or stands before, the line with this id: its last one. All of the file's records are looked through."""
        self.flush()
        return find_entry(self._connection, self._file, self._source, entry, position)

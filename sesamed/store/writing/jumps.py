"""Where a record does not follow the one before it: in a tree of messages somebody went back to an earlier one.

Most records follow the one at the position before theirs. Of the others the *jumps* say which. The next position may have a jump before
there is a record, from lines that became none: so nothing is remembered between two looks but rows. Lines that became no record are
kept by their digest, with the record that they stand behind: somebody may go back to one of them, too.
"""

from collections.abc import Callable

import apsw

from sesamed.store import ids
from sesamed.store.reading.branch import PASSED, find_entry
from sesamed.store.rows import FileRows

FIRST = -1  # what the first record follows, and the first one of another tree
FEW = 8  # more in one look: their file's entries are read once. 8,000 lines that all went back took a second, and twice as many four
ENTRIES = f"""
    SELECT entry, {ids.sql_position("id")} AS position FROM records
      WHERE {ids.sql_in_file("id", ":file", ":first", ":last")} AND entry IS NOT NULL
    UNION ALL SELECT entry, position FROM copies WHERE file = :file AND position BETWEEN :first AND :last AND entry IS NOT NULL
    ORDER BY position
"""
ADD_JUMP = "REPLACE INTO jumps(file, position, follows) VALUES(?, ?, ?)"
ADD_PASSED = "REPLACE INTO passed_lines(file, digest, follows) VALUES(?, ?, ?)"


class Jumps:
    """Where the lines of one look at a file do not follow the one before: made only for such a line, and for one that is no record."""

    def __init__(
        self, connection: apsw.Connection, file: int, change: FileRows, write_gathered: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._write_gathered = write_gathered  # whatever is looked for has to be written before
        self._file, self._source = file, change.source
        self._asked = self._read_to = 0
        self._entries: dict[str, int] = {}  # of the positions before that one
        self._tips: dict[int, int] = {}  # what comes to a position follows, if that is not the one before
        first = change.cursor.position
        sql = "SELECT follows FROM jumps WHERE file = ? AND position = ?"
        found = connection.execute(sql, (file, first)).fetchone()
        if found is not None:
            self._tips[first] = found[0]

    def go_back(self, position: int, parent: str) -> None:
        """What comes to this position follows this entry. If nobody knows it, the line before is followed: its line may have been torn."""
        target = self._find(parent, position) if parent else FIRST
        if target is None or target == self._tip(position):
            return
        self._tips[position] = target
        if target == position - 1:
            self._connection.execute("DELETE FROM jumps WHERE file = ? AND position = ?", (self._file, position))
        else:
            self._connection.execute(ADD_JUMP, (self._file, position, target))

    def stand_behind(self, position: int, digest: int) -> tuple[int, int, int]:
        """A row for a line that is no record, and stands before this position."""
        return self._file, digest, self._tip(position)

    def _find(self, entry: str, before: int) -> int | None:
        """The position of a line before this one."""
        self._write_gathered()
        self._asked += 1
        if self._asked <= FEW:
            return find_entry(self._connection, self._file, self._source, entry, before)
        digest = ids.line_digest(self._source, entry)
        passed = self._connection.execute(PASSED, (self._file, digest)).fetchone()
        if passed is not None:
            return int(passed[0])
        if self._read_to < before:
            values = {"file": self._file, "first": self._read_to, "last": before - 1}
            self._entries.update(self._connection.execute(ENTRIES, values))
            self._read_to = before
        return self._entries.get(entry)

    def _tip(self, position: int) -> int:
        return self._tips.get(position, position - 1)

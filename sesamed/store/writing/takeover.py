"""What a new index takes over from the one before it: what files hold that cannot be read now (gone, unmounted, unreadable), and the
revisions. All of it goes through the same writer as everything else: so a rebuild, and carrying over an older index, have one way in, too.

A file comes in pieces, each a commit. Until the last one it has a version that no source has, so that who begins again after a crash
sees that it is not whole.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import apsw
import msgspec

from sesamed.calls import COMMAND_ARGUMENTS, find_touched, mend_call_text
from sesamed.masking import Secrets, choose_mask
from sesamed.model import SAID_FIELDS, TEXT_FIELDS, Fact, Field, Identity, digest, encode
from sesamed.sanitize import clean_line, clean_text
from sesamed.store import ids, schema, sqlite
from sesamed.store.ids import Kind, file_of, home_of, mend_path_key, path_key, record_at
from sesamed.store.index import OlderIndex
from sesamed.store.reading import session as read
from sesamed.store.reading.summary import COLUMN
from sesamed.store.rows import BadLine, FileRows, IndexedFile, RecordRow, Remark
from sesamed.store.sqlite import Packer
from sesamed.store.writing.files import Files
from sesamed.store.writing.texts import Chunks, Results
from sesamed.store.writing.transaction import Writer

RECORDS_AT_ONCE = 1000
DAMAGE = (sqlite.Error, ValueError, TypeError)  # of a page that SQLite did not find fault with, too
UNFINISHED = -1  # the version of a file of which more is to come
MOST_FILES = 10_000_000  # a number above it was not written by us
INCOMPLETE = 0  # of one of which something is lost: when it comes back, it is read again

FILES = """
    SELECT id, path, gone_ms FROM files f WHERE session IS NOT NULL OR EXISTS(SELECT 1 FROM facts WHERE file = f.id)
"""
ABOUT = """
    SELECT s.native_id, s.origin, nullif(s.source, f.source), f.bad_lines, f.unknown_lines
    FROM files f LEFT JOIN sessions s ON s.id = f.session WHERE f.id = ?
"""
BAD = "SELECT nullif(line, 0), reason FROM bad_lines WHERE file = ?"
FACTS = "SELECT native_id, source, field, rank, value FROM facts WHERE file = ?"
REMARKS = "SELECT entry, field, rank, value FROM remarks WHERE file = ?"
DIRECTORIES = "SELECT path, project_path FROM directories WHERE file = ?"
ENTRIES = "SELECT digest FROM line_ids WHERE file = ?"
ORDINAL = "SELECT ordinal FROM ordinals WHERE file = ? AND position = ?"
UNDONE = "SELECT first, last FROM undone WHERE file = ? ORDER BY first"
JUMPS = "SELECT position, follows FROM jumps WHERE file = ?"
PASSED = "SELECT digest, follows FROM passed_lines WHERE file = ?"
SAID = f"""
    SELECT r.key, r.role, r.kind, r.prompt, iif(c.record IS NULL, r.time_ms, c.time_ms), r.tool,
      iif(c.record IS NULL, r.entry, c.entry)
    FROM records r LEFT JOIN copies c ON c.file = {ids.sql_file(":place")} AND c.position = {ids.sql_position(":place")} AND c.record = r.id
    WHERE r.id = :record
"""
CWD = "SELECT s.cwd FROM files f JOIN sessions s ON s.id = f.session WHERE f.id = ?"
TOUCHED = "SELECT p.tail FROM touched t JOIN paths p ON p.id = t.path WHERE t.place = ?"


class Replay:
    """Copies files from one index into another."""

    def __init__(
        self, old: Writer | OlderIndex, new: Writer, wanted: Callable[[bytes, bool], bool], secrets: Secrets = "mask"
    ) -> None:
        self._old = old.connection
        self._old_path = old.path
        self._wanted = wanted  # by path, and whether it is gone
        self._new = new
        self._packer = Packer(secrets)
        self._mask = choose_mask(secrets)
        self._results = Results(self._old, Chunks(self._old))
        self._mends = isinstance(old, OlderIndex) and not old.has_plain_texts

    def run(self) -> Iterator[None]:
        """Do one step each time it is advanced, so that live work continues in between."""
        with sqlite.errors(self._old_path):
            yield from self._copy_all()

    def _copy_all(self) -> Iterator[None]:
        for file, path, gone_ms in self._list_files():
            known = self._new.files.find_known(path)
            if known is not None and known.source_version == UNFINISHED:
                self._new.drop([path])
            elif known is not None and not self._new.files.never_decoded(path):
                continue
            if not self._wanted(path, gone_ms is not None):
                continue
            for piece in self._pieces(file):
                if piece.source_version == UNFINISHED or gone_ms is None:
                    self._new.write([piece])
                else:
                    self._new.write_gone(piece, gone_ms)
                yield

    def _list_files(self) -> Iterator[tuple[int, bytes, int | None]]:
        """Number, path, and since when it is gone."""
        yield from sqlite.rows(self._old, FILES)

    def _pieces(self, file: int) -> Iterator[FileRows]:
        known = Files(self._old).read_number(file)
        native_id, origin, source, bad, unknown = self._find_session(file)
        position = written = 0
        while True:
            rows, is_last = self._page(file, position, known)
            change = FileRows(
                path=known.path,
                root=known.root,
                source=known.source,
                source_version=self._version_of(known) if is_last else UNFINISHED,
                signature=known.signature,
                cursor=msgspec.structs.replace(known.cursor, position=written),
                complete=known.complete,
                is_followed=source is not None,
                identity=None if native_id is None else Identity(native_id=native_id, origin=origin, source=source),
                rows=[*rows],
                bad_lines=bad,
                bad=[BadLine(*row) for row in self._list(BAD, (file,))],
                unknown_lines=unknown,
                counted_from_start=True,
            )
            if position == 0:
                self._add_words(file, change)
            yield change
            position += RECORDS_AT_ONCE
            written += len(rows)
            if is_last:
                return

    def _find_session(self, file: int) -> tuple[Any, ...]:
        """Id and origin of its session, that one's source if it isn't the file's, and how many lines are bad and unknown."""
        return sqlite.one(self._old, ABOUT, (file,))

    def _page(self, file: int, first: int, known: IndexedFile) -> tuple[list[RecordRow], bool]:
        """Some of a file's records, and whether they are the last ones."""
        rows = self._rows(file, first, RECORDS_AT_ONCE)
        return rows, len(rows) < RECORDS_AT_ONCE

    def _rows(self, file: int, first: int, count: int) -> list[RecordRow]:
        page = {"session": None, "file": file, "first": first, "count": count}
        return [self._row(record_at(file, item[0]), item[1]) for item in sqlite.rows(self._old, read.ONE_FILE, page)]

    def _version_of(self, known: IndexedFile) -> int:
        """The source's version that a whole file is said to be read with."""
        return known.source_version

    def _list(self, sql: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
        """All rows of a table that a file could do without."""
        return sqlite.rows(self._old, sql, values)

    def _add_words(self, file: int, change: FileRows) -> None:
        """What the file says of sessions and of its own places."""
        change.facts = [
            Fact(
                field=field, value=self._value(field, value), rank=rank, native_id=other or None, source=source or None
            )
            for other, source, field, rank, value in self._list(FACTS, (file,))
        ]
        change.remarks = [
            Remark(entry=entry, field=field, rank=rank, value=self._value(field, value), keep="first")
            for entry, field, rank, value in self._list(REMARKS, (file,))
        ]
        change.directories = dict(self._list(DIRECTORIES, (file,)))
        change.entries = [digest for (digest,) in self._list(ENTRIES, (file,))]
        change.undone = self._list(UNDONE, (file,))
        change.jumps, change.passed = self._list(JUMPS, (file,)), self._list(PASSED, (file,))

    def _value(self, field: Field, value: str) -> str:
        value = clean_text(value) if self._mends and field in TEXT_FIELDS else value
        return self._mask(value) if field in SAID_FIELDS else value

    def _row(self, place: int, record: int) -> RecordRow:
        """A record as this place has it."""
        key, role, kind, prompt, time_ms, tool, entry = sqlite.one(self._old, SAID, {"place": place, "record": record})
        touched = [tail for (tail,) in self._list(TOUCHED, (place,))]
        numbered = self._old.execute(ORDINAL, home_of(place)).fetchone()
        answer = self._results.result_at(place, record)
        texts = {
            number: text
            for number, text in read.read_texts(self._old, record, reveal=True).items()
            if number != Kind.RESULT
        }
        if answer is not None and answer.text is not None:
            texts[Kind.RESULT] = answer.text.whole
        if self._mends and kind == Kind.CALL:
            self._mend_call(place, texts, touched)
        return RecordRow(
            key=key,
            role=role,
            kind=Kind(kind),
            texts=tuple(self._packer.make_text(*text) for text in texts.items()),
            prompt=bool(prompt),
            time_ms=time_ms,
            entry=entry,
            tool=None if tool is None else self._mask(clean_line(tool)),
            is_error=None if answer is None else answer.is_error,
            touched=tuple(map(self._mask, touched)),
            ordinal=None if numbered is None else numbered[0],
        )

    def _mend_call(self, place: int, texts: dict[int, str], touched: list[str]) -> None:
        """Write a call as it is written today; patches that a command applied, and paths of Windows, are touched files."""
        touched[:] = map(mend_path_key, touched)
        for kind in texts.keys() - {Kind.RESULT}:
            texts[kind], arguments = mend_call_text(texts[kind])
            (cwd,) = sqlite.one(self._old, CWD, (file_of(place),))
            commands = {name: value for name, value in arguments.items() if name in COMMAND_ARGUMENTS}
            touched += map(path_key, find_touched(commands, cwd, ""))


LAST_FILES = ("SELECT max(seq) FROM sqlite_sequence WHERE name = 'files'", "SELECT max(id) FROM files", f"""
    SELECT max({ids.sql_file("id")}) FROM records""", f"SELECT max({ids.sql_file(ids.sql_record_of('id'))}) FROM chunks")  # fmt: skip
ALONE = "SELECT key, role, kind, prompt, time_ms, tool, entry, is_error FROM records WHERE id = ?"
ABOUT_BY_ID = """
    SELECT native_id, origin, NULL, 0, 0 FROM sessions INDEXED BY sqlite_autoindex_sessions_1
    WHERE +id = (SELECT session FROM files WHERE id = ?)
"""  # all that it asks for stands in that index, too
FILE = f"{FILES.partition('WHERE')[0]} WHERE id = ? AND session IS NOT NULL"


class Salvage(Replay):
    """Copies what can be read of files from an index that is damaged: row by row, so that one page that cannot costs only its own rows."""

    def __init__(self, old: OlderIndex, new: Writer, wanted: Callable[[bytes, bool], bool], secrets: Secrets) -> None:
        super().__init__(old, new, wanted, secrets)
        self.carried = self.lost = 0  # files, and those of which something could not be read
        self._is_whole = True  # the file that is being copied

    def _list_files(self) -> Iterator[tuple[int, bytes, int | None]]:
        for file in range(1, self._find_last_file() + 1):
            try:
                found = self._old.execute(FILE, (file,)).fetchone()
            except DAMAGE:
                self.lost += 1
                continue
            if found is not None:
                yield found

    def _find_last_file(self) -> int:
        last = 0
        for sql in LAST_FILES:
            with suppress(*DAMAGE):
                last = max(last, sqlite.one(self._old, sql)[0] or 0)
        return min(last, MOST_FILES)

    def _pieces(self, file: int) -> Iterator[FileRows]:
        self._is_whole = True
        try:
            yield from super()._pieces(file)
        except DAMAGE:
            self._is_whole = False
        else:
            self.carried += 1
        self.lost += not self._is_whole

    def _page(self, file: int, first: int, known: IndexedFile) -> tuple[list[RecordRow], bool]:
        try:
            return super()._page(file, first, known)
        except DAMAGE:
            self._is_whole = False
        rows = list[RecordRow]()
        for position in range(first, first + RECORDS_AT_ONCE):
            with suppress(*DAMAGE):
                rows += self._rows(file, position, 1)
        return rows, first + RECORDS_AT_ONCE > known.cursor.position

    def _rows(self, file: int, first: int, count: int) -> list[RecordRow]:
        try:
            return super()._rows(file, first, count)
        except DAMAGE:
            if count > 1:
                raise
        return self._read_alone(record_at(file, first))

    def _read_alone(self, place: int) -> list[RecordRow]:
        """A record and its texts, whatever is wrong with what belongs to it."""
        found = self._old.execute(ALONE, (place,)).fetchone()
        if found is None:
            return []
        key, role, kind, prompt, time_ms, tool, entry, is_error = found
        texts = [self._packer.make_text(*text) for text in read.read_texts(self._old, place, reveal=True).items()]
        touched = [self._mask(tail) for (tail,) in self._list(TOUCHED, (place,))]
        return [
            RecordRow(
                key=key,
                role=role,
                kind=Kind(kind),
                texts=tuple(texts),
                prompt=bool(prompt),
                time_ms=time_ms,
                entry=entry,
                tool=None if tool is None else self._mask(clean_line(tool)),
                is_error=None if is_error is None else bool(is_error),
                touched=tuple(touched),
            )
        ]

    def _find_session(self, file: int) -> tuple[Any, ...]:
        try:
            return super()._find_session(file)
        except DAMAGE:
            self._is_whole = False
        return sqlite.one(self._old, ABOUT_BY_ID, (file,))

    def _version_of(self, known: IndexedFile) -> int:
        return known.source_version if self._is_whole else INCOMPLETE

    def _list(self, sql: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
        try:
            return super()._list(sql, values)
        except DAMAGE:
            self._is_whole = False
            return []


# -- revisions
#
# The new index goes on where the old one is: a session that is the same in both keeps its revision, all others get new ones, and those
# that the new one does not have are remembered as removed. So who follows does not notice a rebuild. Sessions are compared before the
# swap, while live work goes on; what changes after that gets new revisions when nobody writes.

BEFORE_ALL = -(1 << 60)  # while an index is built, its revisions are none that a client could have seen

HELD = f"""
    SELECT r.id AS record, {ids.sql_position("r.id")} AS position, r.time_ms, r.entry, f.path
    FROM files f JOIN records r ON {ids.sql_in_file("r.id", "f.id")} WHERE f.session = ?1
    UNION ALL SELECT c.record, c.position, c.time_ms, c.entry, f.path
    FROM files f JOIN copies c ON c.file = f.id WHERE f.session = ?1
"""
# What a session's messages are, as numbers: keys of records are made of what they say, and results count by their length.
CONTENT = f"""
    SELECT count(*), sum(r.key >> 32), sum(r.key & 0xFFFFFFFF), sum((r.key & 0xFFFF) * position), total(h.time_ms), sum(r.is_error),
      sum((SELECT sum(octet_length(text)) FROM chunks WHERE {ids.sql_in_record("id", "r.id")}))
    FROM ({HELD}) h JOIN records r ON r.id = h.record
"""
# An agent's own names for them: a file that is rewritten in another version of its format gets new ones.
ENTRY_NAMES = f"SELECT entry FROM ({HELD}) WHERE entry IS NOT NULL ORDER BY path, position"
TAKEN_BACK = "SELECT count(*), sum(first), sum(last) FROM files f JOIN undone u ON u.file = f.id WHERE f.session = ?1"
SHOWN = (
    *(f"s.{column}" for column in schema.SHOWN.split(", ")),
    *map(COLUMN.__getitem__, ("path", "parent_session_id", "orphan")),
)
SESSIONS = f"""
    SELECT s.source, s.native_id, s.origin, s.id, s.revision, s.public_id, s.project, s.workstation, {ids.sql_key_end("s")},
      {", ".join(SHOWN)} FROM sessions s
"""
KEEP = "UPDATE sessions SET revision = ?1, floor = ?1 WHERE id = ?2"
RAISE = "UPDATE sessions SET (revision, floor) = (SELECT next_revision, next_revision FROM totals) WHERE "
REMOVED = "SELECT source, public_id, project, workstation, key_end, why, revision FROM removed WHERE revision >= ?"
REMEMBER = """
    INSERT OR REPLACE INTO removed(source, public_id, project, workstation, key_end, why, revision) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
    WHERE NOT EXISTS(SELECT 1 FROM sessions WHERE (source, public_id, project) = (?1, ?2, ?3))
"""


class Seen(NamedTuple):
    """A session of an index: its number, revision and key, and all that answers say of it."""

    number: int
    revision: int
    key: tuple[str | None, ...]  # public id, project, workstation, end of the key
    said: tuple[Any, ...]


class Continuation:
    """An index that is being built, and is to go on with the revisions of another one."""

    def __init__(self, new: Writer) -> None:
        self._new = new
        self._compared_at = 0
        new.change(lambda connection: _begin_at(connection, BEFORE_ALL))

    def compare(self, old: apsw.Connection) -> None:
        """Compare all sessions. Both stay as they are meanwhile: the old index is a snapshot, and nobody writes to the new one."""
        at = self._compared_at = _next_revision(old)
        before, now = _read_sessions(old), _read_sessions(self._new.connection)
        kept = {
            seen.number: before[key] for key, seen in now.items() if key in before and seen.said == before[key].said
        }
        lost = [(key[0], *seen.key, "moved" if key in now else "gone", at) for key, seen in before.items()]
        removed = sqlite.rows(old, REMOVED, (0,))
        (epoch,) = sqlite.one(old, "SELECT value FROM metadata WHERE name = ?", (schema.EPOCH,))

        def take_over(connection: apsw.Connection) -> None:
            _begin_at(connection, at)
            connection.execute("UPDATE metadata SET value = ? WHERE name = ?", (epoch, schema.EPOCH))
            connection.execute("DELETE FROM removed")
            connection.execute(f"{RAISE} 1")
            connection.executemany(KEEP, [(seen.revision, n) for n, seen in kept.items()])
            connection.executemany(REMEMBER, [*lost, *removed])

        self._new.change(take_over)

    def finish(self, old: Writer) -> None:
        """Go on: what has changed since then gets new revisions. Nobody writes meanwhile."""
        since = self._compared_at
        begin = max(map(_next_revision, (old.connection, self._new.connection)))
        sql = f"""
            SELECT source, native_id, origin, public_id, project, workstation, {ids.sql_key_end("s")} FROM sessions s WHERE revision >= ?
        """
        changed = sqlite.rows(old.connection, sql, (since,))
        removed = sqlite.rows(old.connection, REMOVED, (since,))
        (changed_ms,) = sqlite.one(old.connection, "SELECT changed_ms FROM totals")

        def take_over(connection: apsw.Connection) -> None:
            _begin_at(connection, begin)
            connection.execute("UPDATE totals SET changed_ms = ?", (changed_ms,))
            connection.execute(f"{RAISE} revision >= ?", (since,))
            connection.executemany(f"{RAISE} (source, native_id, origin) = (?, ?, ?)", [row[:3] for row in changed])
            connection.execute(f"UPDATE removed SET revision = {ids.NEXT_REVISION} WHERE revision >= ?", (since,))
            lost = [(source, *key, "gone", begin) for source, _, _, *key in changed]
            connection.executemany(REMEMBER, [*lost, *((*row[:6], begin) for row in removed)])

        self._new.change(take_over)


def _begin_at(connection: apsw.Connection, revision: int) -> None:
    connection.execute("UPDATE totals SET next_revision = ?", (revision,))


def _next_revision(connection: apsw.Connection) -> int:
    return int(sqlite.one(connection, "SELECT next_revision FROM totals")[0])


def _read_sessions(connection: apsw.Connection) -> dict[tuple[str, ...], Seen]:
    found = {}
    for row in sqlite.rows(connection, SESSIONS):
        content = (sqlite.one(connection, sql, row[3:4]) for sql in (CONTENT, TAKEN_BACK))
        number, revision, *shown = row[3:]
        entries = digest(*(encode(f"{entry}\n") for (entry,) in connection.execute(ENTRY_NAMES, (number,))))
        found[row[:3]] = Seen(number, revision, tuple(shown[:4]), (*shown, *content, entries))
    return found

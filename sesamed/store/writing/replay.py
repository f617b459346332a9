"""Copies what files hold that cannot be read now (gone, unmounted, unreadable) from one index into another, through the same writer as
everything else. So a rebuild, and carrying over an older index, have one way in, too.

A file comes in pieces, each a commit. Until the last one it has a version that no source has, so that who begins again after a crash
sees that it is not whole.
"""

from collections.abc import Callable, Iterator

import msgspec

from sesamed.calls import COMMAND_ARGUMENTS, find_touched, mend_call_text
from sesamed.model import TEXT_FIELDS, Fact, Field, Identity
from sesamed.sanitize import clean_line, clean_text
from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind, file_of, home_of, mend_path_key, path_key, record_at
from sesamed.store.older import OlderIndex
from sesamed.store.reading import session as read
from sesamed.store.rows import BadLine, FileRows, RecordRow, Remark, Text
from sesamed.store.sqlite import Packer
from sesamed.store.subwords import inner_words
from sesamed.store.writing.chunks import Chunks
from sesamed.store.writing.files import Files
from sesamed.store.writing.results import Results
from sesamed.store.writing.transaction import Writer

RECORDS_AT_ONCE = 1000
UNFINISHED = -1  # the version of a file of which more is to come

FILES = """
    SELECT id, path, gone_ms FROM files f WHERE session IS NOT NULL OR EXISTS(SELECT 1 FROM facts WHERE file = f.id)
"""
ABOUT = """
    SELECT s.native_id, s.origin, f.bad_lines, f.unknown_lines FROM files f LEFT JOIN sessions s ON s.id = f.session WHERE f.id = ?
"""
BAD = "SELECT nullif(line, 0), reason FROM bad_lines WHERE file = ?"
FACTS = "SELECT native_id, source, field, rank, value FROM facts WHERE file = ?"
REMARKS = "SELECT entry, field, rank, value FROM remarks WHERE file = ?"
ENTRIES = "SELECT digest FROM line_ids WHERE file = ?"
ORDINAL = "SELECT ordinal FROM ordinals WHERE file = ? AND position = ?"
UNDONE = "SELECT first, last FROM undone WHERE file = ? ORDER BY first"
SAID = f"""
    SELECT r.key, r.role, r.kind, r.prompt, iif(c.record IS NULL, r.time_ms, c.time_ms), r.tool,
      iif(c.record IS NULL, r.entry, c.entry), iif(c.record IS NULL, r.parent, c.parent)
    FROM records r LEFT JOIN copies c ON c.file = {ids.sql_file(":place")} AND c.position = {ids.sql_position(":place")} AND c.record = r.id
    WHERE r.id = :record
"""
CWD = "SELECT s.cwd FROM files f JOIN sessions s ON s.id = f.session WHERE f.id = ?"
TOUCHED = "SELECT p.tail FROM touched t JOIN paths p ON p.id = t.path WHERE t.place = ?"


class Replay:
    """Copies files from one index into another."""

    def __init__(self, old: Writer | OlderIndex, new: Writer, wanted: Callable[[bytes, bool], bool]) -> None:
        self._old = old.connection
        self._wanted = wanted  # by path, and whether it is gone
        self._new = new
        self._packer = Packer()
        self._results = Results(self._old, Chunks(self._old))
        self._mends = isinstance(old, OlderIndex) and not old.has_plain_texts

    def run(self) -> Iterator[None]:
        """Do one step each time it is advanced, so that live work continues in between."""
        for file, path, gone_ms in sqlite.rows(self._old, FILES):
            known = self._new.files.find_known(path)
            if known is not None and known.source_version == UNFINISHED:
                self._new.drop([path])
            elif known is not None and not self._is_bad(path):
                continue
            if not self._wanted(path, gone_ms is not None):
                continue
            for piece in self._pieces(file, path):
                if piece.source_version == UNFINISHED or gone_ms is None:
                    self._new.write([piece])
                else:
                    self._new.write_gone(piece, gone_ms)
                yield

    def _is_bad(self, path: bytes) -> bool:
        """Whether the new index has nothing of a unit because it did not decode this time."""
        sql = """
            SELECT bad_lines > 0 AND session IS NULL AND NOT EXISTS(SELECT 1 FROM facts WHERE file = f.id) FROM files f WHERE path = ?
        """
        return bool(sqlite.one(self._new.connection, sql, (path,))[0])

    def _pieces(self, file: int, path: bytes) -> Iterator[FileRows]:
        known = Files(self._old).read(path)
        native_id, origin, bad, unknown = sqlite.one(self._old, ABOUT, (file,))
        position = 0
        while True:
            page = {"session": None, "file": file, "first": position, "count": RECORDS_AT_ONCE}
            items = sqlite.rows(self._old, read.ONE_FILE, page)
            change = FileRows(
                path=path,
                root=known.root,
                source=known.source,
                source_version=known.source_version if len(items) < RECORDS_AT_ONCE else UNFINISHED,
                signature=known.signature,
                cursor=msgspec.structs.replace(known.cursor, position=position),
                complete=known.complete,
                identity=None if native_id is None else Identity(native_id=native_id, origin=origin),
                rows=[self._row(record_at(file, item[0]), item[1]) for item in items],
                bad_lines=bad,
                bad=[BadLine(*row) for row in sqlite.rows(self._old, BAD, (file,))],
                unknown_lines=unknown,
                counted_from_start=True,
            )
            if position == 0:
                self._add_words(file, change)
            yield change
            position += len(items)
            if len(items) < RECORDS_AT_ONCE:
                return

    def _add_words(self, file: int, change: FileRows) -> None:
        """What the file says of sessions and of its own places."""
        change.facts = [
            Fact(
                field=field, value=self._value(field, value), rank=rank, native_id=other or None, source=source or None
            )
            for other, source, field, rank, value in sqlite.rows(self._old, FACTS, (file,))
        ]
        change.remarks = [
            Remark(entry=entry, field=field, rank=rank, value=self._value(field, value), keep="first")
            for entry, field, rank, value in sqlite.rows(self._old, REMARKS, (file,))
        ]
        change.entries = [digest for (digest,) in sqlite.rows(self._old, ENTRIES, (file,))]
        change.undone = sqlite.rows(self._old, UNDONE, (file,))

    def _value(self, field: Field, value: str) -> str:
        return clean_text(value) if self._mends and field in TEXT_FIELDS else value

    def _text(self, kind: int, text: str) -> Text:
        text = clean_text(text) if self._mends else text
        return Text(kind, text, self._packer.pack(text), inner_words(kind, text))

    def _row(self, place: int, record: int) -> RecordRow:
        """A record as this place has it."""
        key, role, kind, prompt, time_ms, tool, entry, parent = sqlite.one(
            self._old, SAID, {"place": place, "record": record}
        )
        touched = [tail for (tail,) in sqlite.rows(self._old, TOUCHED, (place,))]
        numbered = self._old.execute(ORDINAL, home_of(place)).fetchone()
        answer = self._results.result_at(place, record)
        texts = {number: text for number, text in read.read_texts(self._old, record).items() if number != Kind.RESULT}
        if answer is not None and answer.text is not None:
            texts[Kind.RESULT] = answer.text.text
        if self._mends and kind == Kind.CALL:
            self._mend_call(place, texts, touched)
        return RecordRow(
            key=key,
            role=role,
            kind=Kind(kind),
            texts=tuple(self._text(*text) for text in texts.items()),
            prompt=bool(prompt),
            time_ms=time_ms,
            entry=entry,
            parent=parent,
            tool=None if tool is None else clean_line(tool),
            is_error=None if answer is None else answer.is_error,
            touched=tuple(touched),
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

"""The writer: everything that changes the index, each time in one transaction that holds rows and cursors together.

The work for a change follows from its own rows, never from the size of its file, its session or the index; only letting go of what
a file held (`replace`, `drop`) costs as much as was held.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence

import apsw

from sesamed.model import Kind, SessionKey
from sesamed.store import forgotten, openings, sqlite
from sesamed.store.answers import Answers
from sesamed.store.facts import Facts
from sesamed.store.files import Files
from sesamed.store.places import POSITION_MASK, Places, Said, home_of, record_at
from sesamed.store.rows import AnyRow, Change, Known, OutcomeRow, ResultRow, Row, UndoneRow, void
from sesamed.store.sessions import Sessions, Tally
from sesamed.store.texts import Texts

TOO_LONG = POSITION_MASK  # a file holds at most this many records; what is more is counted as bad

UNDO = "REPLACE INTO undone(file, first, last) VALUES(?, ?, ?)"


class Written:
    """What a transaction did, and the files as they are known now."""

    def __init__(self) -> None:
        self.known: list[Known] = []
        self.added = self.updated = self.gone = 0


class Writer:
    """The one writer of an index."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.connection = sqlite.connect_writer(path)
        self.commits = 0
        with sqlite.errors(path):
            forgotten.load(self.connection, path)

    def close(self) -> None:
        """Close; the WAL is folded in by SQLite when nobody else has the index open."""
        self.connection.close()

    @property
    def files(self) -> Files:
        """The files and cursors, as last committed."""
        return Files(self.connection)

    def write(self, changes: Sequence[Change]) -> Written:
        """Commit changes, or none of them."""
        return self._commit(lambda transaction: transaction.apply_all(changes))

    def lose(self, paths: Iterable[bytes], now_ms: int) -> Written:
        """Files are gone: their sessions stay, marked."""
        return self._commit(lambda transaction: transaction.lose_all(paths, now_ms))

    def drop(self, paths: Iterable[bytes]) -> Written:
        """Take files and what only they held out of the index."""
        return self._commit(lambda transaction: transaction.drop_all(paths))

    def forget(self, sessions: Sequence[SessionKey]) -> list[bytes]:
        """Take sessions out, and never in again; the files that they were in. Free pages still hold them: only a new index does not."""
        forgotten.remember(self.path, sessions)
        paths: list[bytes] = []
        self._commit(lambda transaction: paths.extend(transaction.forget_all(sessions)))
        return paths

    def begin(self, changes: Sequence[Change]) -> Written:
        """Write changes; `commit` has to follow, and may do so in another thread: half of the time is spent in it, without the GIL."""
        return self._begin(lambda transaction: transaction.apply_all(changes))

    def commit(self) -> None:
        """Make what was begun last, or undo it."""
        with sqlite.errors(self.path):
            try:
                self.connection.execute("COMMIT")
                self.commits += 1
            except BaseException:
                self._undo()
                raise

    def _commit(self, work: "Callable[[Transaction], None]") -> Written:
        written = self._begin(work)
        self.commit()
        return written

    def _begin(self, work: "Callable[[Transaction], None]") -> Written:
        written = Written()
        with sqlite.errors(self.path):
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                transaction = Transaction(self.connection, written)
                work(transaction)
                transaction.finish()
            except BaseException:
                self._undo()
                raise
        return written

    def _undo(self) -> None:
        if self.connection.in_transaction:  # some errors have undone it already
            self.connection.execute("ROLLBACK")


class Transaction:
    """The changes of one commit. Records and texts are gathered, and written before anything reads them."""

    def __init__(self, connection: apsw.Connection, written: Written) -> None:
        self._connection = connection
        self._texts = Texts(connection)
        self._answers = Answers(connection, self._texts)
        self._places = Places(connection, self._texts, self._answers)
        self._sessions = Sessions(connection)
        self._facts = Facts(connection)
        self._files = Files(connection)
        self._records: dict[int, list[object]] = {}
        self._keys: dict[int, int] = {}
        self._touched: list[tuple[int, str]] = []
        self._changed: set[int] = set()  # sessions
        self._ordinals: list[tuple[int, int, int]] = []
        self._messages = self._tool_calls = 0
        self._written = written

    def apply_all(self, changes: Iterable[Change]) -> None:
        """Take the changes of files."""
        for change in changes:
            self._apply(change)

    def lose_all(self, paths: Iterable[bytes], now_ms: int) -> None:
        """Mark files as gone."""
        for path in paths:
            self._lose(path, now_ms)

    def drop_all(self, paths: Iterable[bytes]) -> None:
        """Forget files."""
        for path in paths:
            self._drop(path)

    def forget_all(self, sessions: Iterable[SessionKey]) -> list[bytes]:
        """Forget sessions; the files that they were in."""
        self._connection.execute("REPLACE INTO metadata(name, value) VALUES(?, '1')", (forgotten.UNFINISHED,))
        paths = [path for session in sessions for path in forgotten.begin(self._connection, session)]
        self.drop_all(paths)
        return paths

    def _apply(self, change: Change) -> None:
        if change.identity is not None and forgotten.knows(self._connection, change.source, change.identity):
            void(change)
        file, before, is_new, elsewhere = self._files.place(change)
        self._written.added += is_new
        self._written.updated += not is_new
        if change.replace and not is_new:
            self._let_go(file, before)
        session = self._session(file, before, change)
        position, tally, shared = self._put_all(file, session, change)
        self._files.keep(file, change, position)
        others = self._facts.state(file, change.source, change.facts, change.remarks)
        if elsewhere:
            others |= self._facts.about_others(file)
        meant = self._facts.enter(file, change.entries)
        self._connection.executemany(UNDO, [(file, *places) for places in change.undone])
        if session is not None:
            told = bool(change.facts or meant or session in others or change.replace)
            joined = is_new or session != before
            if joined or elsewhere or change.cursor.position < openings.FIRST:  # else the beginning is what it was
                self._changed.add(session)
            self._describe(session, tally, told, (joined, elsewhere))
            self._settle(shared)
        for other in others - {session}:
            self._facts.resolve(other)
        self._written.known.append(self._files.known(change.path))

    def _lose(self, path: bytes, now_ms: int) -> None:
        found = self._files.lose(path, now_ms)
        if found is None:
            return
        self._written.gone += 1
        file, session = found
        for meant in self._facts.about_others(file):
            self._facts.resolve(meant)
        if session is not None:
            self._facts.resolve(session)
            self._sessions.date(session)
        self._written.known.append(self._files.known(path))

    def _drop(self, path: bytes) -> None:
        found = self._files.find(path)
        if found is None:
            return
        file, session, _ = found
        self._flush()
        self._let_go(file, session)
        self._files.remove(file)
        if session is not None:
            self._leave(session)

    def finish(self) -> None:
        """Write what was gathered."""
        self._flush()
        for session in self._changed:
            openings.settle(self._connection, session)

    # -- sessions

    def _session(self, file: int, before: int | None, change: Change) -> int | None:
        session = before if change.identity is None else self._sessions.named(change.source, change.identity)
        if change.foreign:
            session = None
        if session != before:
            self._files.belong(file, session)
            if before is not None:
                self._flush()
                self._leave(before)
        return session

    def _leave(self, session: int) -> None:
        """A file left this session."""
        self._changed.add(session)
        if not self._sessions.drop_if_empty(session):
            self._sessions.recount(session)
            self._facts.resolve(session)
            self._sessions.date(session)
            self._sessions.number(session)
            self._settle(self._places.shared_by(session))

    def _describe(self, session: int, tally: Tally, told: bool, came: tuple[bool, bool]) -> None:
        """Bring the session's fields up to date with what its files now say. The file may just have joined, or come back or moved."""
        joined, moved = came
        began_moved = (told or joined or moved) and self._facts.resolve(session)
        self._sessions.gain(session, tally)
        if joined and self._files.count(session) > 1:
            self._flush()
            self._sessions.recount(session)
        if joined or moved:
            self._sessions.number(session)
        if self._sessions.date(session) or began_moved or moved:
            self._settle(self._places.shared_by(session))

    def _settle(self, shared: Iterable[int]) -> None:
        for record in shared:
            self._flush()
            self._keys.clear()
            self._places.settle(record)

    def _let_go(self, file: int, session: int | None) -> None:
        self._flush()
        self._facts.forget(file)
        self._places.release(file)
        self._keys.clear()
        if session is not None:
            self._sessions.recount(session)

    # -- records

    def _put_all(self, file: int, session: int | None, change: Change) -> tuple[int, Tally, set[int]]:
        position, tally, shared = change.cursor.position, Tally(), set[int]()
        if session is None:
            return position, tally, shared
        known, kept = self._known(change.rows), position
        for index, row in enumerate(change.rows):
            if index == change.loose_from:
                kept = position
            record = self._keys.get(row.key, known.get(row.key))
            if not isinstance(row, Row):
                self._later(file, record, position, row)
            elif record is not None:
                position = self._again(file, session, position, record, row, (tally, shared))
            elif position >= TOO_LONG:
                change.bad_lines += 1
            else:
                self._new(record_at(file, position), row)
                tally.add(row)
                position += 1
        at_end = change.loose_from in (None, len(change.rows))  # the loose line may have no records
        return (position if at_end else kept), tally, shared

    def _later(self, file: int, record: int | None, position: int, row: ResultRow | OutcomeRow | UndoneRow) -> None:
        """Something about a record that came before."""
        if record is None:
            return
        if isinstance(row, ResultRow):
            self._result(file, record, row)
        elif isinstance(row, OutcomeRow):
            self._correct(file, record, row)
        else:
            self._undo(file, record, position, row)

    def _known(self, rows: Sequence[AnyRow]) -> dict[int, int]:
        """The numbers of the records that the index has already."""
        if not rows:
            return {}
        keys = apsw.carray(array("q", [row.key for row in rows]))
        return dict(sqlite.rows(self._connection, "SELECT key, id FROM records WHERE key IN carray(?)", (keys,)))

    def _new(self, record: int, row: Row) -> None:
        self._keys[row.key] = record
        self._records[record] = [
            record, row.key, row.role, row.kind, row.prompt, row.time_ms, row.entry, row.parent, row.tool, row.is_error,
        ]  # fmt: skip
        for text in row.texts:
            self._texts.add(record, text)
        self._place(record, row)
        if row.kind == Kind.CALL:
            self._tool_calls += 1
        else:
            self._messages += 1

    def _again(
        self, file: int, session: int, position: int, record: int, row: Row, found: tuple[Tally, set[int]]
    ) -> int:
        """A record that the index has: the file's own, read again, or a copy. Returns the file's next position."""
        self._flush()
        held = self._places.position_in(file, record)
        if held is None:
            tally, shared = found
            (tally.note_time if session in self._places.sessions_with(record) else tally.add)(row)
            self._answers.share(record)
            self._places.copy(record_at(file, position), record, Said(row.entry, row.parent, row.time_ms))
            shared.add(record)
        place = record_at(file, position if held is None else held)
        self._place(place, row)
        if row.is_error is not None:
            results = [text for text in row.texts if text.kind == Kind.RESULT]
            self._answers.state(record, place, ResultRow(row.key, results[0] if results else None, row.is_error))
        return position + (held is None or held == position)

    def _place(self, place: int, row: Row) -> None:
        """What is said of the place, not of the record."""
        self._touched.extend((place, path) for path in row.touched)
        if row.ordinal is not None:
            self._ordinals.append((*home_of(place), row.ordinal))

    def _undo(self, file: int, record: int, position: int, undone: UndoneRow) -> None:
        """Mark what is taken back. It stays: the person saw it."""
        first = self._places.position_in(file, record)
        if first is not None and first < position:
            last = first if undone.alone else position - 1
            self._connection.execute(UNDO, (file, first, last))

    def _result(self, file: int, record: int, result: ResultRow) -> None:
        """Give a call its result."""
        pending = self._records.get(record)
        if pending is not None and pending[-1] is None:
            pending[-1] = result.is_error
            if result.text is not None:
                self._texts.add(record, result.text)
            return
        self._flush()
        if (position := self._places.position_in(file, record)) is not None:
            self._answers.state(record, record_at(file, position), result)

    def _correct(self, file: int, record: int, outcome: OutcomeRow) -> None:
        """A call went otherwise than its result says."""
        self._flush()
        if (position := self._places.position_in(file, record)) is not None:
            self._answers.correct(record, record_at(file, position), is_error=outcome.is_error)

    def _flush(self) -> None:
        """Write records, texts and touched files that were gathered."""
        if self._records:
            columns = "id, key, role, kind, prompt, time_ms, entry, parent, tool, is_error"
            sql = f"INSERT INTO records({columns}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            self._connection.executemany(sql, self._records.values())
            sql = "UPDATE totals SET messages = messages + ?, tool_calls = tool_calls + ?"
            self._connection.execute(sql, (self._messages, self._tool_calls))
            self._records.clear()
            self._messages = self._tool_calls = 0
        if self._touched:
            self._connection.executemany(
                "INSERT OR IGNORE INTO paths(tail) VALUES(?)", [(tail,) for _, tail in self._touched]
            )
            sql = "INSERT OR IGNORE INTO touched(place, path) SELECT ?, id FROM paths WHERE tail = ?"
            self._connection.executemany(sql, self._touched)
            self._touched.clear()
        if self._ordinals:
            self._connection.executemany(
                "REPLACE INTO ordinals(file, position, ordinal) VALUES(?, ?, ?)", self._ordinals
            )
            self._ordinals.clear()
        self._texts.flush()

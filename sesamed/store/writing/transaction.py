"""The writer: everything that changes the index, each time in one transaction that holds rows and cursors together.

The work for a change follows from its own rows, never from the size of its file, its session or the index; only letting go of what
a file held (`replace`, `drop`) costs as much as was held.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TypeAlias

import apsw
import msgspec

from sesamed.errors import StoreError
from sesamed.model import SessionKey
from sesamed.store import beside, checksums, sqlite
from sesamed.store.changes import Changes
from sesamed.store.ids import NEXT_REVISION, READ_REVISION
from sesamed.store.rows import ChangedWords, Difference, FileRows, IndexedFile, blank
from sesamed.store.writing import decisions
from sesamed.store.writing.decisions import Numbering, SessionNumber
from sesamed.store.writing.files import Files
from sesamed.store.writing.jumps import ADD_JUMP, ADD_PASSED
from sesamed.store.writing.records import UNDO, Holders, Records
from sesamed.store.writing.sessions import OPENING_RECORDS, Facts, Sessions, Tally
from sesamed.store.writing.texts import Chunks, Results
from sesamed.way import Way

Why: TypeAlias = Literal["gone", "forgotten", "excluded", "moved"]  # a session was removed, or has another key now

SET_WHY = f"UPDATE removed SET why = ? WHERE revision = {NEXT_REVISION} AND why = 'gone'"
GO_ON = "UPDATE totals SET next_revision = next_revision + 1 WHERE next_revision = ?"
KEY_OF = "SELECT source, public_id FROM sessions WHERE id = ?"
# An early version left results of calls that were no more, which kept a file from being read when a call came to their place.
HEAL = "DELETE FROM other_results WHERE record NOT IN (SELECT id FROM records)"
SKIPPED = 100_000  # revisions; more than the commits that a power failure can take back: checkpoints come with fewer (`upkeep`)


class Written(msgspec.Struct):
    """What a transaction did, and the files as they are now."""

    known: list[IndexedFile] = []
    removed: list[bytes] = []  # went before anything of them was kept
    added: int = 0
    updated: int = 0
    gone: int = 0


class Writer:
    """The one writer of an index."""

    def __init__(self, path: str, way: Way | None = None) -> None:
        self.path = path
        self.connection = sqlite.connect_writer(path)
        self.files = Files(self.connection)  # and cursors, as last committed
        self.changes = Changes()
        self.way = way or Way()
        self.commits = 0
        self.wal_pages = 0  # in the WAL, as of the last commit
        self.wal_status: tuple[int, int] | None = None  # its time and size then: another one is not of ours
        self.is_writing = False
        # Which words came and went with a commit, None if that is much; and what revision comes next.
        self.on_words: Callable[[list[ChangedWords] | None, int], None] = lambda words, revision: None
        self.connection.set_wal_hook(self._note_wal)
        self.checkpoints = sqlite.Checkpoints(path)
        try:
            self._transaction = Transaction(self.connection, self.files, self.changes, self.way)
            with sqlite.errors(path):
                self.connection.execute(HEAL)
            self.load_forgotten()
            self.load_numbers()
            self.committed = self.revision  # the next revision, as whoever reads sees it; any thread may ask
        except BaseException:
            self.close(fold=False)
            raise

    def close(self, *, fold: bool = True) -> None:
        """Close; SQLite checkpoints the WAL if nobody else has the index open. What is damaged stays as it is, for the next start."""
        self.checkpoints.close()
        if not fold or not self.is_log_whole():
            checksums.keep_log(self.connection)
        self.connection.close()

    def is_log_whole(self) -> bool:
        """Whether the WAL has all that was committed. What is counted in it may be less: the beginning of a frame may be what is wrong."""
        return checksums.is_log_whole(self.path, lambda _: self.wal_pages)

    def _note_wal(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        if pages < self.wal_pages:  # it was begun anew
            self.checkpoints.done = 0
        self.wal_pages = pages
        with suppress(OSError):
            status = os.stat(self.path + "-wal")
            self.wal_status = status.st_mtime_ns, status.st_size
        return apsw.SQLITE_OK

    def has_written_since(self, status: tuple[int, int] | None) -> bool:
        """Whether the WAL is another one than with this status, or is to be."""
        return self.is_writing or self.wal_status != status

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While the WAL is written to, or begun anew, there may be less in it than was committed last: nobody compares."""
        self.is_writing = True
        try:
            yield
        finally:
            self.is_writing = False

    @property
    def revision(self) -> int:
        """What the next change gets."""
        return int(sqlite.one(self.connection, READ_REVISION)[0])

    def metadata(self, name: str) -> str | None:
        """A value of the metadata."""
        row = self.connection.execute("SELECT value FROM metadata WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_metadata(self, name: str, value: str) -> None:
        """Store a value in the metadata."""
        with sqlite.errors(self.path):
            self.connection.execute("REPLACE INTO metadata(name, value) VALUES(?, ?)", (name, value))

    def set_metadata_durably(self, name: str, value: str) -> None:
        """Store a value, and force it and all commits so far onto the disk: otherwise a power failure may lose the last ones."""
        with self._durably():
            self.set_metadata(name, value)

    def skip_revisions(self) -> None:
        """Go on far above the last revision. After a power failure the last commits may be lost, and with them revisions that clients
        have seen: what is read again must come after those.
        """
        with sqlite.errors(self.path), self._durably():
            self.connection.execute("UPDATE totals SET next_revision = next_revision + ?", (SKIPPED,))
        self.committed = self.revision

    @contextmanager
    def _durably(self) -> Iterator[None]:
        self.connection.execute("PRAGMA synchronous=FULL").fetchall()
        try:
            yield
        finally:
            self.connection.execute("PRAGMA synchronous=NORMAL").fetchall()

    def write(self, changes: Sequence[FileRows]) -> Written:
        """Commit changes, or none of them."""
        return self._commit(lambda transaction: transaction.apply_all(changes))

    def write_gone(self, change: FileRows, gone_ms: int) -> Written:
        """Commit a change of a file that is gone since then."""

        def work(transaction: "Transaction") -> None:
            transaction.apply_all([change])
            transaction.mark_all_gone([change.path], gone_ms)

        return self._commit(work)

    def mark_gone(self, paths: Iterable[bytes], now_ms: int) -> Written:
        """Mark files as gone; their sessions stay."""
        return self._commit(lambda transaction: transaction.mark_all_gone(paths, now_ms))

    def drop(self, paths: Iterable[bytes], why: Why = "gone") -> Written:
        """Remove files, and what only they held, from the index."""
        return self._commit(lambda transaction: transaction.drop_all(paths, why))

    def change(self, work: Callable[[apsw.Connection], None]) -> None:
        """Commit what this does."""
        self._commit(lambda _: work(self.connection))

    def forget(self, sessions: Sequence[SessionKey]) -> list[bytes]:
        """Remove sessions for good; gives the files that they were in. Free pages still contain them: only a new index does not."""
        beside.append(self.path, beside.FORGOTTEN, sessions)
        paths: list[bytes] = []
        self._commit(lambda transaction: paths.extend(transaction.forget_all(sessions)))
        return paths

    def list_forgotten(self) -> list[SessionKey]:
        """All that was ever forgotten."""
        with sqlite.errors(self.path):
            return decisions.list_forgotten(self.connection)

    def load_forgotten(self) -> None:
        """Make index and `forgotten.jsonl` say the same."""
        with sqlite.errors(self.path):
            unwritten = decisions.load_forgotten(self.connection, self.path)
        if unwritten:
            with suppress(StoreError):  # then it is done when the index is opened again
                beside.append(self.path, beside.FORGOTTEN, unwritten)

    def load_numbers(self) -> None:
        """Make index and `ids.jsonl` say the same."""
        with sqlite.errors(self.path):
            self._transaction.numbering.unwritten += decisions.load_numbers(self.connection, self.path)
        if self._transaction.numbering.unwritten:
            with suppress(StoreError):  # then it is done with the next commit
                self._write_down()

    def decide_numbers(self, old: "Writer | None" = None) -> None:
        """All that there is has been read: from now on who has a number among those with its id keeps it, as in the index before."""
        if not self.has_decided:
            self._commit(lambda transaction: transaction.numbering.decide(None if old is None else old.connection))

    @property
    def has_decided(self) -> bool:
        """Whether numbers are for ever."""
        return self._transaction.numbering.is_decided

    def begin(self, changes: Sequence[FileRows]) -> Written:
        """Write changes. `commit` must follow, and may do so in another thread: it takes half of the time, without the GIL."""
        return self._begin(lambda transaction: transaction.apply_all(changes))

    def commit(self) -> None:
        """Commit what was begun last, or roll it back."""
        with sqlite.errors(self.path):
            try:
                if self._transaction.numbering.unwritten:
                    self._write_down()
                revision = int(sqlite.one(self.connection, READ_REVISION)[0])
                self.connection.execute("COMMIT")
                self.changes.settle(committed=True)
                self.committed = revision
                self.is_writing = False
                self.commits += 1
            except BaseException:
                self._undo()
                raise
        words = self._transaction.take_words()
        if words is None or words:
            self.on_words(words, revision)

    def _write_down(self) -> None:
        """Numbers that others will see after the commit are on the disk before it."""
        beside.append(self.path, beside.NUMBERS, self._transaction.numbering.unwritten)
        self._transaction.numbering.unwritten.clear()

    def _commit(self, work: "Callable[[Transaction], None]") -> Written:
        written = self._begin(work)
        self.commit()
        return written

    def _begin(self, work: "Callable[[Transaction], None]") -> Written:
        with sqlite.errors(self.path):
            self.is_writing = True
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                work(self._transaction)
                return self._transaction.finish()
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        if self.connection.in_transaction:  # some errors have undone it already
            self.connection.execute("ROLLBACK")
        self.changes.settle(committed=False)
        self.is_writing = False
        self._transaction = Transaction(
            self.connection, self.files, self.changes, self.way
        )  # what was gathered is void


class Transaction:
    """The changes of a commit, and when that is finished of the next one. Records and texts are gathered, and written before anything
    reads them."""

    def __init__(self, connection: apsw.Connection, files: Files, changes: Changes, way: Way) -> None:
        self._connection = connection
        self._changes = changes
        self._way = way
        self._chunks = chunks = Chunks(connection, way)
        results = Results(connection, chunks)
        self._holders = Holders(connection, chunks, results)
        self._sessions = Sessions(connection)
        self.numbering = Numbering(connection)
        self._facts = Facts(connection)
        self._files = files
        self._records = Records(connection, chunks, results, self._holders, way)
        self._changed: set[int] = set()  # sessions
        self._written = Written()

    def apply_all(self, changes: Iterable[FileRows]) -> None:
        """Take the changes of files."""
        for change in changes:
            if self._way.is_open:
                self._way.make()
            if change.withheld is None:
                self._apply(change)
            else:
                self._withhold(change)

    def _withhold(self, change: FileRows) -> None:
        """Take out what a file holds; if its session goes with it, that is why."""
        found = self._files.find(change.path)
        key = None if found is None or found[1] is None else self._connection.execute(KEY_OF, (found[1],)).fetchone()
        self._apply(change)
        if key is not None:
            self._connection.execute(f"{SET_WHY} AND (source, public_id) = (?, ?)", ("excluded", *key))

    def mark_all_gone(self, paths: Iterable[bytes], now_ms: int) -> None:
        """Mark files as gone."""
        for path in paths:
            self._mark_gone(path, now_ms)

    def drop_all(self, paths: Iterable[bytes], why: Why) -> None:
        """Remove files; and, for this reason, the sessions that had no others."""
        for path in paths:
            self._drop(path)
        self._connection.execute(SET_WHY, (why,))

    def forget_all(self, sessions: Iterable[SessionKey]) -> list[bytes]:
        """Forget sessions; gives the files that they were in."""
        self._connection.execute("REPLACE INTO metadata(name, value) VALUES(?, '1')", (decisions.UNFINISHED,))
        paths = [path for session in sessions for path in decisions.forget_session(self._connection, session)]
        self.drop_all(paths, "forgotten")
        return paths

    def _apply(self, change: FileRows) -> None:
        if change.identity is not None and decisions.is_forgotten(
            self._connection, change.session_source, change.identity
        ):
            blank(change)
        file, before, is_new, came_back = self._files.find_or_add(change)
        self._written.added += is_new
        self._written.updated += not is_new
        if change.replace and not is_new:
            self._drop_holdings(file, before)
        elif change.difference is not None and not is_new:
            self._apply_difference(file, before, change.difference)
        session = self._find_session(before, change)
        if session != before:
            self._files.set_session(file, session)
            if before is not None and (left := self._remove_file_from(before)) is not None:
                self.numbering.replace(left, session)
        position, tally = self._records.put_all(file, session, change)
        self._written.known.append(self._files.store_cursor(file, change, position))
        others, is_meant = self._facts.record_all(file, change, came_back=came_back)
        for sql, told in ((UNDO, change.undone), (ADD_JUMP, change.jumps), (ADD_PASSED, change.passed)):
            self._connection.executemany(sql, [(file, *places) for places in told])
        if session is not None:
            joined = is_new or session != before
            if joined or came_back or _first(change) < OPENING_RECORDS:  # else the beginning is what it was
                self._changed.add(session)
            has_news = bool(change.facts or is_meant or session in others or change.replace or _restates(change))
            self._describe(session, tally, has_news=has_news, joined=joined, came_back=came_back)
        for other in others - {session}:
            self._restate(other)

    def _mark_gone(self, path: bytes, now_ms: int) -> None:
        found = self._files.mark_gone(path, now_ms)
        if found is None:
            return
        file, session = found
        if self._files.never_decoded(path):  # half a file, which went before it was whole: nothing is kept of it
            self._files.remove(file)
            self._written.removed.append(path)
            return
        self._written.gone += 1
        for meant in self._facts.find_others(file):
            self._restate(meant)
        if session is not None:
            self._restate(session)
            self._set_times(session)
        self._written.known.append(self._files.read(path))

    def _drop(self, path: bytes) -> None:
        found = self._files.find(path)
        if found is None:
            return
        file, session, _ = found
        self._drop_holdings(file, session)
        self._files.remove(file)
        if session is not None and (left := self._remove_file_from(session)) is not None:
            self.numbering.note_departure(left)

    def take_words(self) -> list[ChangedWords] | None:
        """The words that came and went with the transaction; None: too many to say which."""
        return self._chunks.take_told()

    def finish(self) -> Written:
        """Write what was gathered. Gives what was done. Words come last: any statement after them has FTS5 make its segment at once, which
        the commit otherwise does, without the GIL."""
        self._records.flush()
        (revision,) = sqlite.one(self._connection, READ_REVISION)
        for session in self._changed:
            self._sessions.update_opening(session)
        self._changed.clear()
        if self.numbering.changed:
            self.numbering.finish()
        self._sessions.give_revisions()
        self._note_changes(revision)
        self._records.finish()
        written, self._written = self._written, Written()
        return written

    def _note_changes(self, revision: int) -> None:
        """Whoever keeps something of the texts has to know; also of those that only have another place, by which no session changes."""
        if self._chunks.changed:
            self._connection.execute(GO_ON, (revision,))
            self._changes.note(revision, self._chunks.changed)
            self._chunks.changed.clear()

    # -- sessions

    def _find_session(self, before: int | None, change: FileRows) -> int | None:
        if change.foreign:
            return None
        return before if change.identity is None else self._sessions.find_or_add(change.session_source, change.identity)

    def _describe(self, session: int, tally: Tally, *, has_news: bool, joined: bool, came_back: bool) -> None:
        """Update a session from what one of its files now says; the file may just have joined it, or come back."""
        order_moved = (has_news or joined or came_back) and self._facts.resolve(session)
        self._sessions.add_counts(session, tally)
        if joined and self._files.count(session) > 1:
            self._records.flush()
            self._sessions.recount(session)
        moved = self._sessions.set_times(session)
        if joined or moved:
            self.numbering.note_arrival(session)
        if moved or order_moved or came_back:
            self._rehome(self._holders.find_shared(session))
        self._rehome(tally.shared)

    def _restate(self, session: int) -> None:
        """What files say of a session has changed: perhaps when it began, or that it is a fork, by which its turn as an owner is told."""
        if self._facts.resolve(session):
            self._set_times(session)
            self._records.flush()
            self._rehome(self._holders.find_shared(session))

    def _set_times(self, session: int) -> bool:
        """Settle created and modified; says whether created moved, and with it the order of sessions."""
        moved = self._sessions.set_times(session)
        if moved:
            self.numbering.note_arrival(session)
        return moved

    def _remove_file_from(self, session: int) -> SessionNumber | None:
        """A file left this session; gives the session if it is gone with it."""
        self._records.flush()
        self._changed.add(session)
        if left := self._sessions.drop_if_empty(session):
            return left
        self._sessions.recount(session)
        self._facts.resolve(session)
        self._set_times(session)
        self._rehome(self._holders.find_shared(session))
        return None

    def _rehome(self, records: Iterable[int]) -> None:
        """The order of holders may have changed."""
        for record in records:
            self._records.flush()
            self._records.forget_keys()
            self._holders.rehome(record)

    def _drop_holdings(self, file: int, session: int | None) -> None:
        """Remove everything that a file holds and says."""
        self._records.flush()
        self._forget_facts(file)
        self._holders.drop(file)
        for table in ("jumps", "passed_lines"):
            self._connection.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._records.forget_keys()
        if session is not None:
            self._sessions.recount(session)

    def _apply_difference(self, file: int, session: int | None, difference: Difference) -> None:
        """Remove what the file no longer contains, or contains differently."""
        self._records.flush()
        if difference.facts:
            self._forget_facts(file)
        for position, _ in difference.changed:
            self._holders.drop(file, position, position)
        if difference.drops:
            self._holders.drop(file, difference.kept)
            self._connection.execute("DELETE FROM jumps WHERE file = ? AND position >= ?", (file, difference.kept))
            self._connection.execute(
                "DELETE FROM passed_lines WHERE file = ? AND follows >= ?", (file, difference.kept)
            )
        if difference.changed or difference.drops:
            self._records.forget_keys()
            if session is not None:
                self._sessions.recount(session)

    def _forget_facts(self, file: int) -> None:
        """Forget what a file says, also of what is taken back."""
        others = self._facts.forget(file)
        self._connection.execute("DELETE FROM undone WHERE file = ?", (file,))
        for session in others:
            self._restate(session)


def _restates(change: FileRows) -> bool:
    return change.difference is not None and change.difference.facts


def _first(change: FileRows) -> int:
    """The first position that something comes to."""
    changed = () if change.difference is None else change.difference.changed
    return min(change.cursor.position, *(position for position, _ in changed)) if changed else change.cursor.position

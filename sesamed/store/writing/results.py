"""What calls gave back, where files differ about it. A session that was forked between a call and its result may have another one.

One result stands for all: the smallest, so that the order in which files are read makes no difference. Of a shared call each place's
word is kept as a digest, and the texts that do not stand as rivals; so a place can be let go of without asking the others again.
"""

import apsw

from sesamed.digest import digest
from sesamed.store import ids, sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import ResultRow
from sesamed.store.writing.chunks import Chunks, stored

WORDS = f"""
    SELECT DISTINCT digest FROM results_by_holder
    WHERE place = :record OR place IN (SELECT {ids.sql_record("file", "position")} FROM copies WHERE record = :record)
"""


class Results:
    """The results within one transaction."""

    def __init__(self, connection: apsw.Connection, chunks: Chunks) -> None:
        self._connection = connection
        self._chunks = chunks

    def record(self, record: int, place: int, answer: ResultRow) -> None:
        """A place says what a call gave back."""
        if self._is_shared(record):
            self._note(place, _digest(answer))
        standing = self._standing(record)
        if standing is not None and _digest(standing) == _digest(answer):
            return
        if standing is None or _order(answer) < _order(standing):
            self._stand(record, answer)
            if standing is None:
                return
            answer = standing
        if self._is_shared(record):
            self._rival(record, answer)

    def correct(self, record: int, place: int, *, is_error: bool) -> None:
        """A place says that the call went otherwise than it said before, with the same text."""
        word = self.result_at(place, record)
        if word is None or word.is_error == is_error:
            return
        answer = ResultRow(word.key, word.text, is_error)
        if not self._is_shared(record):
            self._stand(record, answer)
            return
        self._note(place, _digest(answer))
        self._rival(record, answer)
        self.settle(record)

    def share(self, record: int) -> None:
        """The record gets its first copy: until now, what stands was its home's word."""
        if not self._is_shared(record) and (standing := self._standing(record)) is not None:
            self._note(record, _digest(standing))

    def settle(self, record: int) -> None:
        """A place was let go of: what only it said counts no more."""
        if (standing := self._standing(record)) is None:
            return
        said = {digest for (digest,) in sqlite.rows(self._connection, WORDS, {"record": record})}
        rivals = [
            rival for rival in self._rivals(record) if _digest(rival) in said
        ]  # the one that comes to stand may stay
        if _digest(standing) not in said:
            self._stand(record, min(rivals, key=_order, default=None))
        self._connection.execute("DELETE FROM other_results WHERE record = ?", (record,))
        for rival in rivals:
            self._rival(record, rival)

    def move(self, record: int, target: int) -> None:
        """The record has another number."""
        self._connection.execute("UPDATE other_results SET record = ? WHERE record = ?", (target, record))

    def result_at(self, place: int, record: int) -> ResultRow | None:
        """What a place says."""
        standing = self._standing(record)
        if not self._is_shared(record):
            return standing
        row = self._connection.execute("SELECT digest FROM results_by_holder WHERE place = ?", (place,)).fetchone()
        answers = [*self._rivals(record), *([] if standing is None else [standing])]
        return next((answer for answer in answers if row is not None and _digest(answer) == row[0]), None)

    def _rival(self, record: int, answer: ResultRow) -> None:
        """Keep what does not stand."""
        sql = "INSERT OR IGNORE INTO other_results(record, digest, is_error, text) VALUES(?, ?, ?, ?)"
        text = None if answer.text is None else answer.text.packed
        self._connection.execute(sql, (record, _digest(answer), answer.is_error, text))

    def _is_shared(self, record: int) -> bool:
        return bool(sqlite.one(self._connection, "SELECT EXISTS(SELECT 1 FROM copies WHERE record = ?)", (record,))[0])

    def _note(self, place: int, digest: int) -> None:
        self._connection.execute("REPLACE INTO results_by_holder(place, digest) VALUES(?, ?)", (place, digest))

    def _standing(self, record: int) -> ResultRow | None:
        is_error, key = sqlite.one(self._connection, "SELECT is_error, key FROM records WHERE id = ?", (record,))
        return None if is_error is None else ResultRow(key, self._chunks.chunk(record, Kind.RESULT), bool(is_error))

    def _stand(self, record: int, answer: ResultRow | None) -> None:
        self._chunks.remove(record, Kind.RESULT)
        is_error = None if answer is None else answer.is_error
        self._connection.execute("UPDATE records SET is_error = ? WHERE id = ?", (is_error, record))
        if answer is not None and answer.text is not None:
            self._chunks.add(record, answer.text)
            self._chunks.flush()

    def _rivals(self, record: int) -> list[ResultRow]:
        sql = "SELECT is_error, text FROM other_results WHERE record = ?"
        return [
            ResultRow(0, None if packed is None else stored(Kind.RESULT, packed), bool(is_error))
            for is_error, packed in sqlite.rows(self._connection, sql, (record,))
        ]


def _order(answer: ResultRow) -> tuple[bool, str]:
    return answer.is_error, "" if answer.text is None else answer.text.text


def _digest(answer: ResultRow) -> int:
    is_error, text = _order(answer)
    return digest(text.encode(), person=b"failed" if is_error else b"done")

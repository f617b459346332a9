"""Posting arrays while the index changes: what they hold is what FTS5 says, and answers from them are those of statements."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from sesamed.methods.search import Searcher
from sesamed.store import changes, ids, shelf, sqlite
from sesamed.store.array_file import SUFFIX, ArrayFile, Stop
from sesamed.store.ids import READ_REVISION, Kind
from sesamed.store.search import filters, postings, terms
from sesamed.store.search.arrays import Posting
from sesamed.store.search.postings import View
from sesamed.store.search.terms import find_stems
from sesamed.store.shelf import Shelf
from sesamed.store.writing.transaction import Writer
from tests.histories.test_history import Histories
from tests.support.state_machines import machine_settings
from tests.support.ways import by_arrays, by_statements

WORDS = ("alpha", "beta", "gamma", "make", "done", "boom", "path", "py", "é", "x" * 70, "nowhere")
QUESTIONS = (
    "alpha", "make done", "alpha beta gamma", "path/to.py", '"alpha beta"', "alp* make", "ma*", "done -boom", 'beta -"make done"',
    "alpha -ga*", "gama alpah", "done make boom alpha x",
)  # fmt: skip
WHERES: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"cwd": "/home/me/p1"}, {"role": ("user",)}, {"tools": True}, {"tool": ("bash",)}, {"before": 1_771_000_000_000},
    {"subagents": "exclude"}, {"cwd": "/home/me/p1", "role": ("assistant",)},
)  # fmt: skip


def ask(connection: apsw.Connection, question: str, where: dict[str, Any]) -> list[tuple[object, ...]]:
    """All hits: what they are, with their scores."""
    searcher = Searcher(connection, terms.parse(question), filters.to_sql(filters.Where(**where)), "w")
    page = searcher.run(100, 0, recent=False)
    return [(hit.session_id, hit.match, round(hit.score, 9), hit.similar, hit.subagents) for hit in page.hits] + [
        (page.total, page.weak)
    ]


def list_found(view: View, posting: Posting) -> dict[int, int]:
    """How often it is in which chunks."""
    ordinals, times = view.list_live_rows(posting)
    numbers = view.ids[ordinals].tolist()
    assert len(set(numbers)) == len(numbers) == posting.chunks
    return dict(zip(numbers, times.tolist(), strict=True))


def list_said(posting: Posting) -> dict[int, int]:
    """In how many messages of which files it is."""
    said = Counter[int]()
    for file, messages in zip(posting.files.tolist(), posting.messages.tolist(), strict=True):
        said[file] += messages
    return {file: messages for file, messages in said.items() if messages}


def count_said(chunks: dict[int, int]) -> dict[int, int]:
    """The same of what FTS5 says."""
    return dict(Counter(ids.file_of(ids.record_of(one)) for one in chunks if ids.kind_of(one) < Kind.CALL))


class Kept(Histories):
    """Anything may happen, and questions may be asked at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.writer: Writer | None = None
        self.shelf: Shelf
        self.stopped: Stop | None = None
        self.older: list[bytes] = []  # files

    def teardown(self) -> None:
        """A last look."""
        try:
            self.history.look_at_everything()
            self.ask_for_words()
        finally:
            self.history.close()

    def see(self) -> tuple[apsw.Connection, Shelf]:
        """As the daemon would: what is kept goes with its index, or is in a file beside it."""
        if self.writer is not self.history.ingest.writer:
            self.writer = writer = self.history.ingest.writer
            file, stop = ArrayFile(writer.path), self.stopped
            if file.resume(stop, writer.revision) and stop is not None:
                writer.changes.resume(stop.begun, stop.revision, stop.changed)
            self.shelf, self.stopped = Shelf(writer.changes, file), None
        return self.writer.connection, self.shelf

    @rule()
    def make_file(self) -> None:
        """Of all that there is."""
        self.history.look_at_everything()
        connection, shelf = self.see()
        shelf.make_file(connection, lambda: False)
        self.older.append(self.file.read_bytes())
        self.ask_for_words()

    @property
    def file(self) -> Path:
        assert self.writer is not None
        return Path(self.writer.path + SUFFIX)

    @rule()
    def pause(self) -> None:
        """What is in memory is given back."""
        self.see()[1].drop_unused(0.0)

    @rule(orderly=st.booleans())
    def stop(self, orderly: bool) -> None:
        """And start; a daemon that was killed has said nothing of the file."""
        self._need_file()
        connection, shelf = self.see()
        self.stopped = shelf.stop(int(sqlite.one(connection, READ_REVISION)[0])) if orderly else None
        self.history.restart()
        self.ask_for_words()

    @rule(how=st.sampled_from(["cut", "flip", "older", "gone", "foreign"]), at=st.floats(0, 1, exclude_max=True))
    def damage(self, how: str, at: float) -> None:
        """Another file has its name, of which nobody has told."""
        self._need_file()
        self.pause()
        data = self.file.read_bytes()
        place = int(at * len(data))
        damaged = {
            "cut": data[:place],
            "flip": data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :],
            "older": self.older[place % len(self.older)],
            "gone": b"",
            "foreign": b"x" * len(data),
        }[how]
        self.file.unlink()
        if how != "gone":
            self.file.write_bytes(damaged)
        self.ask_for_words()

    def _need_file(self) -> None:
        self.see()
        if not self.file.exists():
            self.make_file()

    @rule()
    def ask_for_words(self) -> None:
        """What is known of each word is what FTS5 says; of phrases and prefixes, too."""
        connection, kept = self.see()
        view = kept.see(connection, read=True)
        assert view is not None
        for word in WORDS:
            stem = find_stems(connection, word)[0]
            sql = "SELECT doc, count(*) FROM occurrences WHERE term = ? GROUP BY doc"
            expected = dict(sqlite.rows(connection, sql, (stem,)))
            posting = view.find(connection, word, [stem])
            assert list_found(view, posting) == expected
            assert list_said(posting) == count_said(expected)
            assert view.count(connection, word, [stem]) == len(expected)
        self._compare_more(connection, view)

    def _compare_more(self, connection: apsw.Connection, view: View) -> None:
        rows = sqlite.rows(connection, "SELECT id, text, inner FROM texts")
        held = {number: [find_stems(connection, text) for text in texts] for number, *texts in rows}
        begun = {number: sum(stem[:2] == "ma" for text in texts for stem in text) for number, texts in held.items()}
        assert list_found(view, view.find(connection, '"ma" *', ["ma"])) == {
            one: times for one, times in begun.items() if times
        }
        pairs = {number: sum(_count(text, "alpha", "beta") for text in texts) for number, texts in held.items()}
        phrase = view.find(connection, '"alpha beta"', ["alpha", "beta"])
        assert list_found(view, phrase) == {number: times for number, times in pairs.items() if times}
        sessions = sqlite.rows(connection, "SELECT id, messages FROM sessions")
        assert all(view.places.messages[session] == messages for session, messages in sessions)
        files = sqlite.rows(connection, "SELECT id, session FROM files WHERE session IS NOT NULL")
        assert all(view.places.session_of[file] == session for file, session in files)

    @rule(question=st.sampled_from(QUESTIONS), where=st.sampled_from(WHERES))
    def ask_both_ways(self, question: str, where: dict[str, Any]) -> None:
        """The same hits, with the same scores."""
        connection, kept = self.see()
        with by_statements():
            expected = ask(connection, question, where)
        for scores_all, sparse in ((False, 1), (False, 1 << 10), (True, 1)):
            with by_arrays(kept, scores_all=scores_all, sparse=sparse):
                assert ask(connection, question, where) == expected

    def compare(self, seed: int) -> None:
        """Others do that."""


def _count(stems: list[str], *words: str) -> int:
    return sum(pair == words for pair in pairwise(stems))


@pytest.mark.fault(136)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("late", "at_once", "noted"),
    [(postings.MOST_LATE, postings.MOST_AT_ONCE, changes.MOST_NOTED), (5, 5, changes.MOST_NOTED), (20, 1, 10)],
)
def test_what_is_kept_is_what_the_index_holds(
    late: int, at_once: int, noted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it goes on behind what was read, or all is read again, after a few changes."""
    monkeypatch.setattr(postings, "MOST_LATE", late)
    monkeypatch.setattr(postings, "MOST_AT_ONCE", at_once)
    monkeypatch.setattr(changes, "MOST_NOTED", noted)
    monkeypatch.setattr(postings, "READING_SHARE", 1e9)
    monkeypatch.setattr(shelf, "FEW_CHUNKS", -1)
    run_state_machine_as_test(Kept, settings=machine_settings())

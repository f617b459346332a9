"""Stems that are kept in memory: what they answer is what the index would."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import Identity
from sesamed.store import sqlite
from sesamed.store.ids import READ_REVISION, Kind
from sesamed.store.index import Index
from sesamed.store.rows import Cursor, FileRows, RecordRow, Signature
from sesamed.store.schema import TOKENIZER
from sesamed.store.search import stems, terms
from sesamed.store.search.spelling import IndexVocabulary, Speller
from sesamed.store.search.stems import Sought, Stems, mask_letters
from sesamed.store.sqlite import Packer
from sesamed.store.writing import texts
from sesamed.store.writing.transaction import Writer
from tests.support.history import History
from tests.support.sessions import PiSession

PACKER = Packer()
OLD = "SELECT term, doc FROM vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ? AND doc >= 2"
WORDS = [
    "banana",
    "banane",
    "bananas",
    "bandana",
    "bañaña",
    "baggage",
    "banning",
    "aBandon",
    "ab11a",
    "b1n2n3a",
    "bananaing",
    "abandon",
]
TEXTS = st.lists(st.sampled_from(WORDS) | st.text("abning1é", min_size=2, max_size=9), max_size=5).map(" ".join)
SLIPS = st.sampled_from(["banannas", "bannana", "abndon", "bandna", "abandn"]) | st.text(
    "abning", min_size=5, max_size=9
)


class Kept:
    """Some sessions, an index of them, and a reader that keeps stems."""

    def __init__(self) -> None:
        self.history = History()
        self.sessions: dict[int, PiSession] = {}
        self.stems = Stems()
        self.writer.on_words = self.stems.note
        self.read: list[str] = []  # the letters that were read
        self.reader = self.connect()

    @property
    def writer(self) -> Any:
        """The index's."""
        return self.history.ingest.writer

    def connect(self) -> sqlite.Reader:
        """Another reader."""
        reader = sqlite.connect_reader(self.writer.path)
        reader.stems = self.stems

        def note(_: apsw.Cursor, sql: str, bindings: Any) -> bool:
            if sql == stems.STEMS:
                self.read.append(bindings[0])
            return True

        reader.exec_trace = note
        return reader

    def close(self) -> None:
        """Take all away."""
        self.reader.close()
        self.history.close()

    def say(self, number: int, text: str) -> None:
        """A message in a session."""
        session = self.sessions.setdefault(number, PiSession(id=f"s{number}"))
        session.user(text)
        self.history.write(self.history.roots[0] / f"{number}.jsonl", session.bytes())
        self.history.look_at_everything()

    def drop(self, number: int) -> None:
        """A session goes, with all that was said in it."""
        if self.sessions.pop(number, None) is not None:
            path = self.history.roots[0] / f"{number}.jsonl"
            path.unlink()
            self.history.ingest.drop([bytes(path)])

    def find_nearest(self, slip: str, reader: sqlite.Reader | None = None) -> list[str]:
        """What is searched instead of a word."""
        return Speller(IndexVocabulary(reader or self.reader), stem_of).find_nearest(slip)

    def list_near(self, word: str, reader: sqlite.Reader | None = None) -> dict[str, int]:
        """What may be meant."""
        letters = {length: mask_letters(word[:length]) for length in range(2, len(word) + 2)}
        return dict(self.stems.list_near(reader or self.reader, Sought(word[0], letters, 4)))


def stem_of(word: str) -> str:
    """What the tokenizer makes of it."""
    with closing(apsw.Connection(":memory:")) as connection:
        return stems.list_stems(connection.fts5_tokenizer(*TOKENIZER), word)[0]


class Asked(IndexVocabulary):
    """The same without lists: the index is asked each time, and letters are compared as sets."""

    def __init__(self, connection: apsw.Connection, word: str) -> None:
        super().__init__(connection)
        self._word = word

    def list_near(self, sought: Sought) -> Iterator[tuple[str, int]]:
        """Those that may be near."""
        first, lengths = sought.first, sought.letters.keys()
        for stem, chunks in self._connection.execute(OLD, (first, chr(ord(first) + 1), min(lengths), max(lengths))):
            if len(set(self._word[: len(stem)]).symmetric_difference(stem)) <= sought.apart:
                yield stem, chunks


@pytest.fixture
def kept() -> Iterator[Kept]:
    made = Kept()
    yield made
    made.close()


@given(st.lists(st.tuples(st.integers(0, 3), TEXTS | st.none()), min_size=1, max_size=12), st.lists(SLIPS, min_size=3))
def test_a_slip_means_what_it_meant_without_lists(steps: list[tuple[int, str | None]], slips: list[str]) -> None:
    """Whatever comes and goes after they were made."""
    kept = Kept()
    try:
        for number, text in steps:
            if text is None:
                kept.drop(number)
            else:
                kept.say(number, text)
            for slip in slips:
                vocabulary, asked = IndexVocabulary(kept.reader), Asked(kept.reader, slip)
                sought = Sought(slip[0], {n: mask_letters(slip[:n]) for n in range(2, len(slip) + 3)}, 4)
                far = {stem for stem, _ in asked.list_near(sought) if stems.TOO_FAR.search(stem)}
                assert dict(vocabulary.list_near(sought)) == {
                    stem: chunks for stem, chunks in asked.list_near(sought) if stem not in far
                }
                assert Speller(vocabulary, stem_of).find_nearest(slip) == Speller(asked, stem_of).find_nearest(slip)
    finally:
        kept.close()


@given(st.text("abcxyz", max_size=9), st.text("abcxyzé1_", max_size=9))
def test_masks_count_as_sets_do(word: str, stem: str) -> None:
    """The letters that are in one of two words only."""
    assert (mask_letters(word) ^ mask_letters(stem)).bit_count() == len(set(word) ^ set(stem))


def test_a_letter_is_read_once(kept: Kept) -> None:
    """However many slips begin with it, and whatever is committed meanwhile; others are not read for it."""
    kept.say(1, "orchestrator deployment")
    kept.say(2, "orchestrator deployment")
    for slip in ("orchestratr", "orchestator", "deploymnt"):
        assert kept.find_nearest(slip)
    kept.say(3, "an optimistic")
    kept.say(4, "optimistic lock")
    assert kept.find_nearest("optmistic") == ["optimistic"]
    assert kept.read == ["o", "d"]


def test_what_stood_once_and_now_twice(kept: Kept) -> None:
    """It is not in the list, but the index knows it."""
    kept.say(1, "an orchestrator")
    assert kept.find_nearest("orchestratr") == []
    kept.say(2, "another orchestrator")
    assert kept.find_nearest("orchestratr") == ["orchestrator"]
    kept.drop(1)
    assert kept.find_nearest("orchestratr") == []
    assert kept.read == ["o"]


def test_after_a_load_letters_are_read_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """To count in all of it would make it slower, and the list of what has changed longer than memory should be."""
    kept.say(1, "deployment")
    kept.say(2, "deployment")
    assert kept.find_nearest("deploymnt")
    monkeypatch.setattr(texts, "CHARACTERS_TOLD", 1000)
    kept.say(3, "a word " * 200)
    kept.say(4, "docker")
    kept.say(5, "docker")
    assert kept.find_nearest("dokcer") == ["docker"]
    assert kept.read == ["d", "d"]
    monkeypatch.setattr(stems, "MOST_CHANGED", 2)
    for number, text in enumerate(("dough", "dove", "down", "dozen"), 6):
        kept.say(number, text)
    assert kept.find_nearest("dokcer") == ["docker"]
    assert kept.read == ["d", "d", "d"]


def test_an_older_snapshot_makes_no_list(kept: Kept) -> None:
    """What was committed after it would be missing for ever."""
    kept.say(1, "docker")
    with closing(kept.connect()) as older, sqlite.snapshot(older):
        sqlite.one(older, "SELECT chunks FROM totals")
        kept.say(2, "docker")
        assert kept.find_nearest("dokcer", older) == []
        assert kept.find_nearest("dokcer") == ["docker"]
    assert kept.read == ["d", "d"]


@pytest.mark.parametrize("is_before", [True, False])
def test_a_commit_while_a_letter_is_read(kept: Kept, is_before: bool) -> None:
    """It is counted once, whether the snapshot has it or not."""
    kept.say(1, "docker")
    with closing(kept.connect()) as reader:
        trace = reader.exec_trace

        def commit(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
            if sql == (READ_REVISION if is_before else stems.STEMS):
                reader.exec_trace = trace
                kept.say(2, "docker")
            return trace is None or trace(cursor, sql, bindings)

        with sqlite.snapshot(reader):
            if not is_before:
                sqlite.one(reader, "SELECT chunks FROM totals")
            reader.exec_trace = commit
            kept.list_near("dokcer", reader)
    assert kept.list_near("dokcer") == {"docker": 2}
    assert kept.read == ["d"]


def test_a_letter_whose_reading_is_interrupted_is_read_again(kept: Kept) -> None:
    """At a deadline, say."""
    kept.say(1, "docker")
    kept.say(2, "docker")
    with closing(kept.connect()) as reader:
        reader.set_progress_handler(lambda: True, 1)
        with pytest.raises(sqlite.InterruptError):
            kept.find_nearest("dokcer", reader)
    assert kept.find_nearest("dokcer") == ["docker"]
    kept.say(3, "docker")
    assert kept.list_near("dokcer") == {"docker": 3}


def test_another_index_has_other_stems(tmp_path: Path) -> None:
    """One that took this one's place."""
    index = Index(str(tmp_path / "index.sqlite"))
    try:
        fill(index.writer, "docker", 2)
        assert near_in(index) == {"docker": 2}
        other = Writer(index.path + ".new")
        fill(other, "docket", 3)
        index.swap(other)
        assert near_in(index) == {"docket": 3}
    finally:
        index.close()


def test_soon_after_a_question_letters_need_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody who makes a slip waits for them; before the first question, and just after a load, they are not read."""
    monkeypatch.setattr(stems, "SETTLE_S", 0.0)
    index = Index(str(tmp_path / "index.sqlite"))
    try:
        fill(index.writer, "docker", 2)
        assert not index.readers.lack_stems
        with index.readers.lend() as connection:
            terms.expand(connection, terms.parse("something"))
        assert index.readers.lack_stems
        index.readers.read_stems()
        assert not index.readers.lack_stems
        monkeypatch.setattr(Stems, "_read", None)
        assert near_in(index) == {"docker": 2}
        index._stems.note(None, 100)
        monkeypatch.setattr(stems, "SETTLE_S", 1000.0)
        assert not index.readers.lack_stems
    finally:
        index.close()


def fill(writer: Writer, word: str, chunks: int) -> None:
    """A session that says it so often."""
    change = FileRows(
        path=word.encode(), root="/r", source="pi", source_version=1, signature=Signature(1, 1, 1, 1, 1), cursor=Cursor(),
        complete=True, identity=Identity(native_id=word, origin=""), counted_from_start=True, rows=[
            RecordRow(key=key, role="user", kind=Kind.USER, prompt=True, texts=(PACKER.make_text(Kind.USER, word),))
            for key in range(chunks)
        ],
    )  # fmt: skip
    writer.write([change])


def near_in(index: Index) -> dict[str, int]:
    """What `dokcer` may mean."""
    with index.readers.lend() as connection:
        letters = {length: mask_letters("dokcer"[:length]) for length in range(2, 8)}
        return dict(IndexVocabulary(connection).list_near(Sought("d", letters, 2)))

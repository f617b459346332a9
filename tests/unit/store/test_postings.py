"""What is kept of the index for questions: right for each snapshot, whatever is written meanwhile. Histories are in tests/histories."""

import os
import resource
import shutil
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import Decoder
from sesamed.ingest.look import Ingest
from sesamed.ingest.sweep import Root, Sweep
from sesamed.sources.pi import Pi
from sesamed.store import shelf
from sesamed.store.array_file import UNFINISHED, Directory, Scribe, digest_word
from sesamed.store.changes import MOST_NOTED, Changes
from sesamed.store.index import Index, Readers, remove_index
from sesamed.store.search import filters, matching, postings
from sesamed.store.search.arrays import Column
from sesamed.store.search.large import ManyMatches
from sesamed.store.search.mapped import Written, write_base
from sesamed.store.search.matching import FewMatches
from sesamed.store.search.postings import Postings, View
from sesamed.store.search.stems import Stems
from sesamed.store.search.terms import Terms, expand, parse
from sesamed.store.shelf import find_view
from sesamed.store.sqlite import Reader, is_awaited
from sesamed.store.upkeep import Upkeep
from sesamed.store.writing.transaction import Writer
from tests.support.history import LIMITS, NOON, look_until_done
from tests.support.indexes import make_directory
from tests.support.sessions import PiSession

WORDS = ("alpha", "beta", "gamma", "alpha beta", "beta-gamma", "gammaDelta")
ALL = 1 << 40


class Desk:
    """An index, and sessions that go on."""

    def __init__(self) -> None:
        self.directory = make_directory("postings-")
        self.index: Index
        self.ingest: Ingest
        self.root = self.directory / "sessions"
        self.root.mkdir()
        self.sweep = Sweep([Root("pi", str(self.root))], Exclusion(), {"pi": Pi.shapes})
        self.sweep.roots[0].resolve()
        self._open(str(self.directory / "index.sqlite"))

    def write(self, number: int, said: list[str]) -> None:
        """A session says this, from its beginning on."""
        session = PiSession(id=f"s{number}", cwd=f"/{number}").user(f"the matter of {number}")
        for text in said:
            session.assistant(text).tool("bash", {"command": text}, f"{text} is done")
        path = self.root / session.file_name
        path.write_bytes(session.bytes())
        target = self.sweep.target(bytes(path))
        assert target is not None
        look_until_done(self.ingest, [target])

    def reopen(self, *, orderly: bool = True) -> None:
        """A stop and a start; or as after a kill."""
        path = self.index.path
        if orderly:
            self.index.close()
        else:
            self.index.readers.close()
            self.index.writer.close()
        self._open(path)

    def _open(self, path: str) -> None:
        self.index = Index(path)
        self._begin()

    def _begin(self) -> None:
        self.ingest = Ingest(self.index.writer, Decoder({"pi": Pi()}, LIMITS, lambda: NOON))

    def swap(self) -> None:
        """A rebuild, of nothing."""
        self.index.swap(Writer(self.index.path + ".new"))
        self._begin()

    def replace(self) -> None:
        """It is opened again, as after damage."""
        self.index.reopen()
        self._begin()

    def remove(self) -> None:
        """Somebody removes the index of a daemon that does not run."""
        path = self.index.path
        self.index.close()
        remove_index(path)
        self._open(path)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(postings, "READING_SHARE", 1e9)
    made = Desk()
    try:
        yield made
    finally:
        made.index.close()
        shutil.rmtree(made.directory)


def compare(connection: apsw.Connection, terms: Terms) -> bool:
    """Both ways find the same in one snapshot; false if it is older than what is kept."""
    view = find_view(connection, read=True)
    if view is None:
        return False
    where, naming = filters.to_sql(filters.Where()), matching.name_sessions(connection, terms)
    few = FewMatches(connection, terms, where).take(ALL, set(), naming)
    many = ManyMatches(connection, view, terms, where).take(ALL, set(), naming)
    assert many.is_all
    assert {
        session: [(one.chunk, round(one.score, 9)) for one in some[:3]] for session, some in few.chunks.items()
    } == {session: [(one.chunk, round(one.score, 9)) for one in some] for session, some in many.chunks.items()}
    assert {session: round(few.whole[session], 9) for session in many.whole} == {
        session: round(score, 9) for session, score in many.whole.items()
    }
    return True


def test_questions_while_it_is_written(desk: Desk) -> None:
    """Each is answered as its snapshot is, by three readers beside the writer."""
    said: dict[int, list[str]] = {number: [WORDS[number]] for number in range(6)}
    for number, texts in said.items():
        desk.write(number, texts)
    written, seen, failed = threading.Event(), list[bool](), list[BaseException]()

    def ask(word: str) -> None:
        try:
            while not written.is_set() or len(seen) < 10:
                with desk.index.readers.lend() as connection:
                    seen.append(compare(connection, expand(connection, parse(word))))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask, args=(word,)) for word in ("alpha", "beta gamma", '"alpha beta" gam*')]
    for thread in threads:
        thread.start()
    for turn in range(60):
        texts = said[turn % 6]
        texts[turn % 3 :] = (
            [f"{WORDS[turn % 5]} {turn}", *texts[turn % 3 :]] if turn % 7 else []
        )  # appended, put between, cut off
        desk.write(turn % 6, texts)
    written.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert any(seen)


def test_whom_others_wait_for_is_known(desk: Desk) -> None:
    """Who stood aside with such a lock for a question would be what that one waits for."""
    desk.write(1, list(WORDS))
    seen = set[tuple[bool, bool]]()
    with desk.index.readers.lend() as connection:
        assert isinstance(connection, Reader)
        kept, headings = connection.shelf, connection.headings
        assert kept is not None
        assert headings is not None

        def note() -> bool:
            locks = [headings._changing, *([] if kept._postings is None else [kept._postings._lock])]
            seen.add((any(lock.locked() for lock in locks), is_awaited(connection)))
            return False

        connection.set_progress_handler(note, 1)
        assert compare(connection, expand(connection, parse("alpha beta")))
        headings.may_have(connection, "alpha")
        connection.set_progress_handler(None)
        assert not is_awaited(connection)
    assert seen == {(False, False), (True, True)}


def test_a_view_stays_as_its_snapshot_is(desk: Desk) -> None:
    """Though others see more; one that nobody has seen before is not made of what came later."""
    desk.write(0, ["alpha"])
    with desk.index.readers.lend() as first, desk.index.readers.lend() as late:
        before = find_view(first, read=True)
        late.execute("SELECT * FROM totals").fetchall()
        assert before is not None
        desk.write(1, ["alpha alpha"])
        with desk.index.readers.lend() as second:
            after = find_view(second, read=True)
            assert after is not None
            assert (before.count(first, "alpha", ["alpha"]), after.find(second, "alpha", ["alpha"]).chunks) == (None, 6)
            assert after.count(second, "alpha", ["alpha"]) == 6
        assert find_view(late, read=True) is before
        desk.write(2, ["alpha"])
        with desk.index.readers.lend() as third:
            assert find_view(third, read=True) is not None
        assert before.find(first, "alpha", ["alpha"]).chunks == 3


def test_what_was_kept_of_another_file_is_gone(desk: Desk) -> None:
    """A new index in its place begins with nothing."""
    desk.write(0, ["alpha"])
    with desk.index.readers.lend() as connection:
        view = find_view(connection, read=True)
    desk.index.reopen()
    with desk.index.readers.lend() as connection:
        assert find_view(connection, read=False) is None
        again = find_view(connection, read=True)
        assert again is not None
        assert again is not view


def test_what_comes_behind_is_read_by_itself(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """While very many chunks come, in files of which some go on; what was read, and what came late, stays."""
    monkeypatch.setattr(postings, "MOST_AT_ONCE", 12)
    question, first = parse('alpha gamma "beta gamma" alph*'), ["alpha", "beta gamma alpha", "alphabet"]
    for number in range(4):
        desk.write(number, first)
    read, grown = (
        mock.patch.object(*of, autospec=True, side_effect=getattr(*of))
        for of in ((Postings, "_read"), (View, "_put_behind"))
    )
    with read as reads, grown as grows:
        for turn, said in enumerate((["alpha"], ["alpha", "beta gamma"], ["alpha gamma"])):
            desk.write(0, said)  # its chunks are others now, or gone
            with desk.index.readers.lend() as older:
                before = find_view(older, read=True)
                assert before is not None
                assert compare(older, expand(older, question))
                desk.write(turn + 3, [*first, *said])  # the last file goes on, and there is another one
                desk.write(turn + 4, first)
                with desk.index.readers.lend() as connection:
                    assert compare(connection, expand(connection, question))
                count = before.find(older, "alpha", ["alpha"]).chunks
                assert count == older.execute("SELECT doc FROM vocabulary WHERE term = 'alpha'").get
    assert reads.call_count == 1
    assert grows.call_count >= 6


def test_what_does_not_fit_the_index_is_read_again(desk: Desk) -> None:
    """FTS5 counts its rows and words, too: if a change was missed, that is seen."""
    desk.write(0, ["alpha"])
    with desk.index.readers.lend() as connection:
        assert find_view(connection, read=True) is not None
    desk.write(1, ["alpha"])
    desk.index.writer.changes._notes.clear()
    with desk.index.readers.lend() as connection:
        view = find_view(connection, read=True)
        assert view is not None
        assert view.find(connection, "alpha", ["alpha"]).chunks == 6


def failing(at: int) -> Callable[[Column[Any], NDArray[Any]], None]:
    """What columns grow by, until there is no memory for it once."""
    turns, real = count(1), Column.append

    def append(column: Column[Any], added: NDArray[Any]) -> None:
        if next(turns) == at:
            raise MemoryError
        real(column, added)

    return append


@pytest.mark.parametrize("goes_on", [False, True])
def test_where_memory_is_short_nothing_is_kept_by_halves(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    """At whatever column it is that cannot grow; the next question is answered as ever."""
    at, has_failed = 0, True
    while has_failed:
        has_failed, at = False, at + 1
        for number in range(3):
            desk.write(10 * at + number, ["alpha beta", "gamma"])
        with desk.index.readers.lend() as connection:
            assert compare(connection, expand(connection, parse("alpha gamma")))
        desk.write(10 * at, ["gamma alpha", "delta"])
        desk.write(10 * at + 3, ["alpha delta"] * 12)
        with monkeypatch.context() as patched, desk.index.readers.lend() as connection:
            patched.setattr(postings, "MOST_AT_ONCE", 25 if goes_on else 1000)
            patched.setattr(Column, "append", failing(at))
            try:
                find_view(connection, read=True)
            except MemoryError:
                has_failed = True
        desk.write(10 * at + 4, ["alpha"])
        with desk.index.readers.lend() as connection:
            assert compare(connection, expand(connection, parse("alpha delta gam*")))
    assert at > 5


def test_memory_is_given_back_and_what_is_needed_is_read_again(desk: Desk) -> None:
    """At any time."""
    desk.write(0, ["alpha"])
    with desk.index.readers.lend() as connection:
        assert isinstance(connection, Reader)
        view = find_view(connection, read=True)
        assert view is not None
        desk.index.readers.drop_unused()
        assert find_view(connection, read=False) is view
        assert connection.shelf is not None
        connection.shelf.drop_unused(0.0)
        assert find_view(connection, read=False) is None
        assert compare(connection, expand(connection, parse("alpha")))


# -- the file


@pytest.fixture
def large(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """However few chunks there are: an index with some, about which somebody has asked, and a file."""
    monkeypatch.setattr(shelf, "FEW_CHUNKS", -1)
    monkeypatch.setattr(shelf, "MAKING_SHARE", 1e9)
    for number in range(3):
        desk.write(number, ["alpha", "beta gamma"])
    assert ask(desk.index) == "read"
    assert desk.index.readers.is_file_due()
    desk.index.readers.make_file()
    return desk


def ask(index: Index) -> str:
    """Ask about what is very common, as statements find it; where the arrays come from."""
    with mock.patch.object(Postings, "_read", autospec=True, side_effect=Postings._read) as read:
        with index.readers.lend() as connection:
            assert compare(connection, expand(connection, parse("alpha")))
            assert compare(connection, expand(connection, parse('"beta gamma" alp* matter')))
        return "read" if read.called else "file"


def test_what_lies_in_a_file_is_not_read_again(large: Desk) -> None:
    """After a pause, and after a start, with what has changed since; each time once more."""
    file = Path(large.index.readers.arrays.path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert not large.index.readers.is_file_due()
    for turn in range(3):
        assert ask(large.index) == "file"
        large.write(turn, ["gamma", "alpha alpha"])
        large.index.readers._shelf.drop_unused(0.0)
        assert ask(large.index) == "file"
        large.reopen()
    large.write(4, ["alpha"])
    assert ask(large.index) == "file"
    data = file.read_bytes()
    assert not any(word in data for word in (b"alpha", b"beta", b"gamma", b"matter"))


@pytest.mark.fault(136)
def test_a_killed_daemon_leaves_nothing_that_fits(large: Desk) -> None:
    """Its file goes, and another one is made; what the index said once is said no more."""
    file = Path(large.index.readers.arrays.path)
    large.reopen()
    data = file.read_bytes()
    large.write(5, ["alpha"])
    large.reopen(orderly=False)
    assert not file.exists()
    assert large.index.readers.is_file_due()
    assert ask(large.index) == "read"
    large.reopen(orderly=False)
    file.write_bytes(data)  # as from a backup
    large.reopen(orderly=False)
    assert ask(large.index) == "read"


def test_another_index_has_no_file(large: Desk) -> None:
    """What was built anew, put in its place, or opened after it was removed."""
    file = Path(large.index.readers.arrays.path)
    for change in (large.swap, large.replace, large.remove):
        large.index.readers.make_file()
        assert file.exists()
        change()
        assert not file.exists()
        assert large.index.readers.arrays.mark is None
        large.write(1, ["alpha"])
        assert ask(large.index) == "read"
        assert large.index.readers.is_file_due()


@pytest.mark.fault(136)
def test_a_file_that_is_not_what_was_written_is_not_used(large: Desk) -> None:
    """Nor is one that cannot be opened; then all is read, and another one is made."""
    file = Path(large.index.readers.arrays.path)
    data = file.read_bytes()
    for damaged in (b"", data[:-1], data[:70_000], bytes([*data[:65_536], data[65_536] ^ 4]) + data[65_537:], None):
        file.unlink()
        file.mkdir() if damaged is None else file.write_bytes(damaged)
        large.index.readers._shelf.drop_unused(0.0)
        assert ask(large.index) == "read"
        if damaged is not None:
            assert large.index.readers.is_file_due()
            large.index.readers.make_file()
    with pytest.raises(OSError, match="directory"):
        large.index.readers.make_file()
    ask(large.index)
    assert [name for name in os.listdir(file.parent) if name.endswith(UNFINISHED)] == []


def test_a_file_that_is_made_meanwhile_is_for_the_next_question(large: Desk) -> None:
    """The one that is open is of a later revision than the one that was looked at: it is not used, and stays."""
    readers, at = large.index.readers, list[int]()
    large.write(0, ["gamma", "alpha alpha"])
    with readers.lend() as connection:
        readers._shelf.make_file(connection, lambda: False)
    now = readers.arrays.mark
    assert now is not None

    def look(changes: Changes, first: int, last: int) -> set[int] | None:
        """The file is put in its place just now."""
        at.append(first)
        readers.arrays.mark = now
        return set()

    readers.arrays.mark = now._replace(revision=now.revision - 1)
    with mock.patch.object(Changes, "list_between", look), readers.lend() as connection:
        assert find_view(connection, read=False) is None
    assert at == [now.revision - 1]
    assert Path(readers.arrays.path).exists()
    assert ask(large.index) == "file"


@pytest.mark.fault(136)
def test_a_word_that_is_not_what_was_written_is_read(large: Desk) -> None:
    """The others and the chunks stay in use, and another file is made."""
    file = Path(large.index.readers.arrays.path)
    words = large.index.readers.arrays.open().directory.words
    at = words[digest_word("alpha")].block.offset
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.unlink()
    file.write_bytes(data)
    assert ask(large.index) == "file"
    assert large.index.readers.is_file_due()
    assert not file.exists()


@pytest.fixture
def asked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """However few chunks there are: an index with some, about which somebody has asked."""
    monkeypatch.setattr(shelf, "FEW_CHUNKS", -1)
    monkeypatch.setattr(shelf, "MAKING_SHARE", 1e9)
    for number in range(3):
        desk.write(number, ["alpha", "beta gamma"])
    assert ask(desk.index) == "read"
    return desk


def test_words_that_were_asked_for_lie_in_a_file_until_all_do(asked: Desk) -> None:
    """As they were read at the beginning; what has changed before and since is seen to, after a pause and a start, too."""
    readers = asked.index.readers
    asked.write(1, ["alpha", "beta gamma", "alpha"])
    assert ask(asked.index) == "file"
    readers.keep_words()
    assert {digest_word("alpha"), digest_word('"beta gamma"')} <= readers.arrays.open().directory.words.keys()
    assert digest_word("gamma") not in readers.arrays.open().directory.words
    for turn in range(2):
        assert asked.index.readers.is_file_due()
        readers._shelf.drop_unused(0.0)
        assert ask(asked.index) == "file"
        asked.write(turn, ["gamma", "alpha beta gamma"])
        assert ask(asked.index) == "file"
        readers._shelf.drop_unused(0.0)
        assert ask(asked.index) == "file"
        asked.reopen()
        readers = asked.index.readers
        assert ask(asked.index) == "file"
    readers.make_file()
    assert not readers.is_file_due()
    assert digest_word("gamma") in readers.arrays.open().directory.words
    assert ask(asked.index) == "file"


def test_only_words_of_the_beginning_are_there(asked: Desk) -> None:
    """Who has mapped the file takes it that all chunks of the beginning are in what was read."""
    asked.write(0, ["other"])
    with asked.index.readers.lend() as connection:
        assert compare(connection, expand(connection, parse("gamma")))
    asked.index.readers.keep_words()
    words = asked.index.readers.arrays.open().directory.words
    assert (digest_word("alpha") in words, digest_word("gamma") in words) == (True, False)


def test_what_has_grown_is_in_no_such_file(asked: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What words count at most in a file is as of the mean length of all chunks in the file."""
    monkeypatch.setattr(postings, "MOST_AT_ONCE", 3)
    asked.write(7, ["alpha", "beta gamma"])
    assert ask(asked.index) == "file"
    asked.index.readers.keep_words()
    assert asked.index.readers.arrays.mark is None


def test_a_file_of_words_that_cannot_be_written_is_none(asked: Desk) -> None:
    """And leaves nothing."""
    Path(asked.index.path + UNFINISHED).mkdir()
    with pytest.raises((IsADirectoryError, PermissionError)):
        asked.index.readers.keep_words()
    Path(asked.index.path + UNFINISHED).rmdir()
    assert (asked.index.readers.arrays.mark, asked.index.readers.is_file_due()) == (None, True)
    asked.index.readers.keep_words()
    assert asked.index.readers.arrays.mark is not None


def test_a_file_that_is_made_outlives_the_one_before(large: Desk) -> None:
    """Which may be found odd at any time, as long as somebody has it mapped."""
    file, fill = large.index.readers.arrays, mock.Mock(name="fill")
    before = file.mark

    def void(scribe: Scribe) -> Directory:
        file.void(before)
        directory: Directory = fill(scribe)
        return directory

    fill.side_effect = lambda scribe: write_base(scribe, Written(7, np.arange(3), np.ones(3, np.int32)), 5, iter(()))
    file.write(void)
    now = file.mark
    assert now not in (None, before)
    file.void(before)
    assert file.mark == now
    assert file.open().directory.revision == 7


def test_a_file_has_no_holes(large: Desk) -> None:
    """Where a full disk has no room for what is in one, whoever touches it in memory is killed."""
    with open(large.index.readers.arrays.path, "rb") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == os.fstat(file.fileno()).st_size


def test_a_file_that_cannot_be_mapped_just_now_stays(large: Desk) -> None:
    """It is not odd because the process has no descriptor left."""
    large.index.readers._shelf.drop_unused(0.0)
    with large.index.readers.lend() as connection:
        connection.execute("SELECT chunks FROM totals").fetchall()  # what SQLite needs is open
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            view = find_view(connection, read=False)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert view is None
    assert ask(large.index) == "file"


def test_a_lost_index_has_nothing_to_say_of_its_file(large: Desk) -> None:
    """It is closed like any other."""
    large.index.writer.close()
    large.index.close()
    large.index = Index(large.index.path)
    assert ask(large.index) == "read"


def test_a_small_index_has_no_file(desk: Desk) -> None:
    desk.write(0, ["alpha"])
    assert ask(desk.index) == "read"
    desk.index.readers.make_file()
    assert not Path(desk.index.readers.arrays.path).exists()
    assert not desk.index.readers.is_file_due()


def test_a_file_waits_until_all_may_be_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is soon, not as after one that could not be written."""
    monkeypatch.setattr(shelf, "FEW_CHUNKS", -1)
    desk.write(0, ["alpha"])
    assert ask(desk.index) == "read"
    desk.index.readers._shelf.drop_unused(0.0)
    monkeypatch.setattr(postings, "READING_SHARE", 1e-9)
    desk.index.readers.make_file()
    assert not Path(desk.index.readers.arrays.path).exists()
    assert not desk.index.readers.is_file_due()
    monkeypatch.setattr(shelf, "SOON_S", 0.0)
    monkeypatch.setattr(desk.index.readers._shelf, "_make_at_s", 0.0)
    desk.index.readers.make_file()
    assert desk.index.readers.is_file_due()


def test_a_file_is_made_anew_when_much_has_changed(large: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """And somebody asks; or when it is not known any more what has."""
    monkeypatch.setattr(shelf, "LATE_PAYS", 1)
    large.write(1, ["alpha", "beta", "gamma"])
    assert not large.index.readers.is_file_due()
    assert ask(large.index) == "file"
    assert large.index.readers.is_file_due()
    large.index.readers.make_file()
    assert ask(large.index) == "file"
    large.index.writer.changes.note(1 << 40, range(MOST_NOTED + 1))
    assert large.index.readers.is_file_due()


def test_changes_are_known_until_there_are_too_many() -> None:
    changes = Changes()
    changes.note(1, [7])
    changes.settle(committed=True)
    assert (changes.list_between(1, 2), changes.list_between(2, 2)) == ({7}, set())
    changes.note(2, [8])
    changes.note(4, [8, 9])
    assert [changes.list_between(2, last) for last in (2, 3, 4, 5)] == [set(), {8}, {8}, {8, 9}]
    changes.note(5, range(MOST_NOTED))
    assert changes.list_between(4, 6) is None
    assert changes.list_between(6, 6) == set()


def test_of_very_many_changes_those_behind_are_not_kept() -> None:
    """By whoever keeps what is before, as of some revision; nobody else knows anything then."""
    changes = Changes()
    changes.note(1, range(MOST_NOTED))
    changes.note_up_to(9, 2)
    changes.note(2, [7, 11])
    assert changes.list_between(2, 3) == {7, 11}
    assert changes.list_between(1, 2) is None  # somebody has seen these: they were in the way
    changes.note(3, [8, *range(100, MOST_NOTED + 100)])
    assert (changes.list_between(2, 4), changes.list_between(2, 4, 10)) == (None, None)
    assert changes.list_between(2, 4, 9) == {7, 8}
    changes.note_up_to(12, 4)
    changes.note(4, [12, 13])
    assert changes.list_between(4, 5) == {12, 13}
    assert changes.list_between(3, 5, 12) is None
    changes.note(5, range(MOST_NOTED + 1))
    assert changes.list_between(4, 6, 12) == {*range(13)}
    changes.note(6, range(10))
    changes.note_up_to(MOST_NOTED, 6)
    changes.note(7, range(MOST_NOTED))
    assert changes.list_between(6, 8, MOST_NOTED) is None  # too many of these alone
    assert changes.list_between(8, 8) == set()


def test_changes_go_on_after_a_stop() -> None:
    """And those before a file need not be kept."""
    changes = Changes()
    changes.resume(3, 7, [1, 2])
    changes.note(9, [2, 5])
    assert [changes.list_between(*both) for both in ((2, 9), (3, 9), (3, 10), (9, 10))] == [
        None,
        {1, 2},
        {1, 2, 5},
        {2, 5},
    ]
    changes.forget_before(9)
    assert [changes.list_between(*both) for both in ((3, 10), (9, 10))] == [None, {2, 5}]


def test_what_was_rolled_back_is_known_to_nobody() -> None:
    """The next transaction has the same revision, and changes other chunks."""
    changes = Changes()
    changes.note(1, [7])
    changes.settle(committed=False)
    assert changes.list_between(1, 2) is None
    changes.note(2, [8])
    changes.settle(committed=True)
    assert changes.list_between(2, 3) == {8}


def test_a_log_that_is_begun_anew_by_upkeep_is_no_damage(desk: Desk) -> None:
    """A question may come when it has less in it than was committed before."""
    writer, upkeep = desk.index.writer, Upkeep(desk.index.writer)
    for number in range(8):
        desk.write(number, ["alpha", "beta"])
    writer.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    asked = list[int]()

    def ask_meanwhile(connection: apsw.Connection, database: str, pages: int) -> int:
        with desk.index.readers.lend() as reader:
            asked.append(writer.wal_pages - pages)
            reader.execute("SELECT * FROM totals").fetchall()
        return writer._note_wal(connection, database, pages)

    writer.connection.set_wal_hook(ask_meanwhile)
    upkeep.urgent_step()
    upkeep.step()
    assert max(asked) > 0
    assert desk.index.damage is None


def test_a_log_that_was_begun_anew_is_another_one(desk: Desk) -> None:
    """For a question that looked at it before, and compares after: nothing was committed meanwhile."""
    writer, upkeep = desk.index.writer, Upkeep(desk.index.writer)
    desk.write(0, ["alpha"])
    before = writer.wal_status
    assert not writer.has_written_since(before)
    assert upkeep._truncate_wal()
    assert writer.has_written_since(before)
    with desk.index.readers.lend() as reader:
        reader.execute("SELECT * FROM totals").fetchall()
    assert desk.index.damage is None


def test_what_is_begun_when_all_is_closed_ends(desk: Desk) -> None:
    """There is no connection any more, and never will be: a stop would wait for it."""
    stems = Stems()
    readers = Readers(desk.index.path, lambda error: None, stems=stems)
    stems.want()
    assert readers.lack_stems
    readers.close()
    readers.read_stems()
    readers.make_file()
    assert readers.lack_stems

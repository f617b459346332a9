"""Ids are for ever: of several sessions with one native id, who is `id` and who `id~2` never changes, whatever happens to the index."""

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from sesamed.errors import StoreError
from sesamed.model import Identity, SessionKey
from sesamed.store import beside, sqlite
from sesamed.store.ids import Kind
from sesamed.store.rows import Cursor, FileRows, RecordRow, Signature
from sesamed.store.sqlite import Packer
from sesamed.store.writing import decisions
from sesamed.store.writing.transaction import Writer
from tests.support.indexes import IN_MEMORY
from tests.support.state_machines import machine_settings


class File(NamedTuple):
    """A file, which session it says that it is, and when that was created."""

    native_id: str
    origin: str
    created: int
    name: str = ""

    @property
    def path(self) -> bytes:
        return f"/r/{self.native_id}-{self.name or self.origin}".encode()

    def rows(self) -> FileRows:
        """One message."""
        text = (PACKER.make_text(Kind.USER, "a"),)
        return FileRows(
            path=self.path, root="/r", source="pi", source_version=1, signature=Signature(1, 1, 1, 1, 1), cursor=Cursor(),
            complete=True, replace=True, identity=Identity(native_id=self.native_id, origin=self.origin), counted_from_start=True,
            rows=[RecordRow(key=hash(self) >> 2, role="user", kind=Kind.USER, texts=text, time_ms=self.created)],
        )  # fmt: skip


PACKER = Packer()
LATE, MIDDLE, EARLY = File("x", "late", 300), File("x", "middle", 200), File("x", "early", 100)


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(tmp_path / "index.sqlite")


def opened(index: str, *files: File, decided: bool = True) -> Writer:
    """An index of these files, each a commit."""
    writer = Writer(index)
    for file in files:
        writer.write([file.rows()])
    if decided:
        writer.decide_numbers()
    return writer


def ids(writer: Writer) -> dict[str, str]:
    """The id of each session, by its origin."""
    return dict(sqlite.rows(writer.connection, "SELECT origin, public_id FROM sessions"))


def written(index: str) -> str:
    """What the file says."""
    return Path(beside.path_of(index, beside.NUMBERS)).read_text()


@pytest.mark.parametrize("order", [(LATE, MIDDLE, EARLY), (EARLY, MIDDLE, LATE), (MIDDLE, LATE, EARLY)])
def test_the_earliest_created_has_the_plain_id_in_a_new_index(index: str, order: tuple[File, ...]) -> None:
    """Whatever was read first, also before all has been read."""
    expected = {"early": "x", "middle": "x~2", "late": "x~3"}
    writer = opened(index, *order, decided=False)
    assert ids(writer) == expected
    writer.decide_numbers()
    assert ids(writer) == expected
    writer.close()


def test_of_two_that_began_together_the_key_decides(index: str) -> None:
    """The order is total."""
    writer = opened(index, File("x", "b", 100), File("x", "a", 100))
    assert ids(writer) == {"a": "x", "b": "x~2"}
    writer.close()


def test_who_comes_later_does_not_take_the_id(index: str) -> None:
    """Although it was created before."""
    writer = opened(index, LATE)
    assert not os.path.exists(beside.path_of(index, beside.NUMBERS))  # it is alone
    writer.write([EARLY.rows()])
    writer.write([MIDDLE.rows()])
    assert ids(writer) == {"late": "x", "early": "x~2", "middle": "x~3"}
    assert written(index).count("\n") == 3
    writer.close()


def test_an_index_that_is_made_again_has_the_same_ids(index: str) -> None:
    """They are in the file beside it."""
    before = opened(index, LATE)
    before.write([EARLY.rows()])
    before.close()
    os.unlink(index)
    again = opened(index, EARLY, MIDDLE, LATE)
    assert ids(again) == {"late": "x", "early": "x~2", "middle": "x~3"}
    again.close()


def test_without_the_file_an_index_that_is_made_again_goes_by_creation(index: str) -> None:
    """Nobody knows better."""
    before = opened(index, LATE)
    before.write([EARLY.rows()])
    before.close()
    for path in (index, beside.path_of(index, beside.NUMBERS)):
        os.unlink(path)
    again = opened(index, LATE, EARLY)
    assert ids(again) == {"early": "x", "late": "x~2"}
    again.close()


def test_a_lost_file_is_written_again(index: str) -> None:
    """The index knows what it said."""
    before = opened(index, LATE)
    before.write([EARLY.rows()])
    before.close()
    said = sorted(written(index).splitlines())
    os.unlink(beside.path_of(index, beside.NUMBERS))
    Writer(index).close()
    assert sorted(written(index).splitlines()) == said


@pytest.mark.parametrize("step", ["written down", "committed"])
def test_a_kill_at_any_step(index: str, step: str) -> None:
    """The file is on the disk before the commit: what an answer may have said is in it."""
    writer = opened(index, LATE)
    writer.begin([EARLY.rows()])
    writer._write_down()  # the step between
    if step == "committed":
        writer.connection.execute("COMMIT")
    else:
        writer.connection.execute("ROLLBACK")
    writer.connection.close()
    for again in (Writer(index), opened(index + ".new", MIDDLE, EARLY, LATE)):
        again.write([MIDDLE.rows(), EARLY.rows()])
        assert ids(again) == {"late": "x", "early": "x~2", "middle": "x~3"}
        again.close()


def test_nothing_is_committed_that_cannot_be_written_down(index: str) -> None:
    """Of a full disk, say; and it is tried again."""
    writer = opened(index, LATE)
    os.mkdir(beside.path_of(index, beside.NUMBERS))
    with pytest.raises(StoreError, match=r"ids.jsonl cannot be written"):
        writer.write([EARLY.rows()])
    assert ids(writer) == {"late": "x"}
    os.rmdir(beside.path_of(index, beside.NUMBERS))
    writer.write([EARLY.rows()])
    assert ids(writer) == {"late": "x", "early": "x~2"}
    assert written(index).count("\n") == 2
    writer.close()


@pytest.mark.parametrize("leave", ["drop", "forget"])
def test_the_number_of_a_session_that_left_stays_taken(index: str, leave: str) -> None:
    """Somebody may have noted it; and if the session returns, it has it again."""
    writer = opened(index, EARLY)
    if leave == "drop":
        writer.drop([EARLY.path])
    else:
        writer.forget([SessionKey("pi", "x", "early")])
    writer.write([LATE.rows()])
    assert ids(writer) == {"late": "x~2"}
    writer.close()
    os.unlink(index)
    again = opened(index, MIDDLE, LATE, EARLY)
    assert ids(again) == {"late": "x~2", "middle": "x~3"} | ({"early": "x"} if leave == "drop" else {})
    again.close()


def test_a_file_whose_header_comes_later_keeps_its_id(index: str) -> None:
    """Who the session is becomes known with the first line; it is the same file."""
    writer = opened(index, MIDDLE)
    writer.write([File("x", "", 400, "early").rows()])
    assert ids(writer) == {"middle": "x", "": "x~2"}
    writer.write([EARLY.rows()])
    assert ids(writer) == {"middle": "x", "early": "x~2"}
    writer.close()
    os.unlink(index)
    again = opened(index, EARLY, MIDDLE)
    assert ids(again) == {"middle": "x", "early": "x~2"}
    again.close()


def test_it_keeps_it_when_others_come_in_the_same_commit(index: str) -> None:
    """Also those that were created before."""
    writer = opened(index, File("x", "", 400, "late"))
    writer.write([EARLY.rows(), LATE.rows()])
    assert ids(writer) == {"late": "x", "early": "x~2"}
    writer.close()


def test_it_keeps_what_was_written_of_it(index: str) -> None:
    """Excluded before anybody knew who it was; it returns, and has its first line then."""
    unknown = File("x", "", 400, "early")
    writer = opened(index, unknown)
    writer.drop([unknown.path])
    for file in (unknown, EARLY):
        writer.write([file.rows()])
    writer.close()
    os.unlink(index)
    again = opened(index, EARLY)
    assert ids(again) == {"early": "x"}
    again.close()


@pytest.mark.parametrize("first", [0, 1, 2])
def test_an_agent_may_itself_call_a_session_so(index: str, first: int) -> None:
    """No two have one id, whoever comes first; and an index that is made again agrees."""
    files = [EARLY, LATE, File("x~2", "odd", 50)]
    writer = opened(index, files[first])
    for file in files:
        writer.write([file.rows()])
    before = ids(writer)
    assert len(set(before.values())) == 3
    assert before[files[first].origin] == files[first].native_id
    new = opened(index + ".new", *reversed(files), decided=False)
    new.decide_numbers(writer)
    assert ids(new) == before
    for one in (writer, new):
        one.close()
    os.unlink(index)
    again = opened(index, *reversed(files))
    assert ids(again) == before
    again.close()


def test_what_cannot_be_read_in_the_file_is_passed_over(index: str) -> None:
    """A torn line, one from elsewhere, a number that is none; the next line begins anew."""
    opened(index, EARLY, LATE).close()
    lines = written(index)
    bad = ['{"source":"pi","native_id":"x","origin":"early","ordinal":0}', "[]", '{"source":"pi","native_id":"x","ori']
    Path(beside.path_of(index, beside.NUMBERS)).write_text(lines + "\n".join(bad))
    os.unlink(index)
    writer = opened(index, LATE, EARLY)
    writer.write([MIDDLE.rows()])
    assert ids(writer) == {"early": "x", "late": "x~2", "middle": "x~3"}
    assert '"ori\n{' in written(index)
    writer.close()


def test_of_two_answers_the_index_counts(index: str) -> None:
    """The file came from elsewhere: answers did not come from it."""
    writer = opened(index, EARLY, LATE)
    other = decisions.SessionNumber("pi", "x", "elsewhere", ordinal=1)
    os.unlink(beside.path_of(index, beside.NUMBERS))
    beside.append(index, beside.NUMBERS, [other])
    writer.close()
    again = Writer(index)
    again.write([File("x", "elsewhere", 50).rows()])
    assert ids(again) == {"early": "x", "late": "x~2", "elsewhere": "x~3"}
    again.close()
    os.unlink(index)
    anew = opened(index, File("x", "elsewhere", 50), LATE, EARLY)
    assert ids(anew) == {"early": "x", "late": "x~2", "elsewhere": "x~3"}
    anew.close()


def test_an_index_that_is_rebuilt_takes_over_who_was_alone(index: str) -> None:
    """Nothing is written of that one; and what is not carried over keeps its number all the same."""
    gone = File("y", "gone", 100)
    writer = opened(index, LATE, gone)
    writer.mark_gone([gone.path], 1)
    new = opened(index + ".new", EARLY, LATE, decided=False)
    new.decide_numbers(writer)
    new.write([File("y", "other", 50).rows()])
    assert ids(new) == {"late": "x", "early": "x~2", "other": "y~2"}
    for one in (writer, new):
        one.close()


class Histories(RuleBasedStateMachine):
    """Sessions come, are recognised, vanish and return; the daemon is killed, the index rebuilt or lost, its file torn or lost."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.mkdtemp(prefix="numbers-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)
        self.index = os.path.join(self.directory, "index.sqlite")
        self.writer = Writer(self.index)
        self.writer.decide_numbers()
        self.files: dict[bytes, File] = {}  # that are there
        self.gone: set[bytes] = set()
        self.ids: dict[tuple[str, str], str] = {}  # that a session was seen with

    def teardown(self) -> None:
        """No file is left."""
        self.writer.close()
        shutil.rmtree(self.directory)

    def check(self) -> None:
        """Everybody has the id that it had, and nobody another one's."""
        rows = sqlite.rows(self.writer.connection, "SELECT native_id, origin, public_id FROM sessions")
        for native_id, origin, public_id in rows:
            assert self.ids.setdefault((native_id, origin), public_id) == public_id, (native_id, origin, self.ids)
        assert len(set(self.ids.values())) == len(self.ids), self.ids

    def has_files(self) -> bool:
        """For what needs one."""
        return bool(self.files)

    def some(self, number: int) -> File:
        """One of them."""
        return list(self.files.values())[number % len(self.files)]

    def put(self, file: File) -> None:
        """Read into the index."""
        before = self.files.get(file.path)
        if before is not None and (file.native_id, file.origin) not in self.ids:  # its first line has come
            self.ids[file.native_id, file.origin] = self.ids.pop((before.native_id, before.origin))
        self.files[file.path] = file
        self.gone.discard(file.path)

    @rule(
        native_id=st.sampled_from(["x", "y", "x~2"]), names=st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
        created=st.integers(1, 9), known=st.booleans(),
    )  # fmt: skip
    def come(self, native_id: str, names: list[str], created: int, known: bool) -> None:
        """Some files; of those that have no first line yet nobody knows who they are."""
        some = [File(native_id, name if known else f"?{name}", created + ord(name) % 3, name) for name in names]
        some = [file for file in some if known or file.path not in self.files]
        for file in some:
            self.put(file)
        self.writer.write([file.rows() for file in some])
        self.check()

    @precondition(has_files)
    @rule(number=st.integers(0, 20), is_gone=st.booleans())
    def leave(self, number: int, is_gone: bool) -> None:
        """Deleted, and kept; or excluded, and dropped."""
        file = self.some(number)
        if is_gone:
            self.writer.mark_gone([file.path], 1)
            self.gone.add(file.path)
        else:
            self.writer.drop([file.path])
            del self.files[file.path]
            self.gone.discard(file.path)
        self.check()

    @rule(native_id=st.sampled_from("xy"), name=st.sampled_from("gh"), tear=st.booleans())
    def kill(self, native_id: str, name: str, tear: bool) -> None:
        """Before the commit: what was written down was in no answer. Perhaps not even that to its end."""
        self.writer.begin([File(native_id, name, 5, name).rows()])
        self.writer._write_down()
        self.writer.connection.execute("ROLLBACK")
        self.writer.close()
        path = Path(beside.path_of(self.index, beside.NUMBERS))
        if tear:
            path.write_bytes((path.read_bytes() if path.exists() else b"") + b'{"source":"pi","na')
        self.writer = Writer(self.index)
        self.check()

    @rule()
    def lose_the_file(self) -> None:
        """Somebody removes it."""
        self.writer.close()
        Path(beside.path_of(self.index, beside.NUMBERS)).unlink(missing_ok=True)
        self.writer = Writer(self.index)
        self.check()

    @rule(seed=st.integers(0, 1000))
    def rebuild(self, seed: int) -> None:
        """As `index --full` does it; the files are read in another order."""
        new = Writer(self.index + ".new")
        for file in random.Random(seed).sample(list(self.files.values()), len(self.files)):
            new.write([file.rows()])
        new.mark_gone(self.gone, 1)
        new.decide_numbers(self.writer)
        new.close()
        self.writer.close()
        os.replace(self.index + ".new", self.index)
        self.writer = Writer(self.index)
        self.check()

    @rule(seed=st.integers(0, 1000))
    def lose_the_index(self, seed: int) -> None:
        """Somebody removes it; what is gone is lost."""
        self.writer.close()
        os.unlink(self.index)
        told = {(number.native_id, number.origin) for number in decisions._read_numbers(self.index)}
        for path in self.gone:
            file = self.files.pop(path)
            if (file.native_id, file.origin) not in told:  # it was the only one, and nobody knows of it any more
                del self.ids[file.native_id, file.origin]
        self.gone.clear()
        self.writer = Writer(self.index)
        for file in random.Random(seed).sample(list(self.files.values()), len(self.files)):
            self.writer.write([file.rows()])
        self.writer.decide_numbers()
        self.check()


def test_any_history_leaves_the_ids_as_they_are() -> None:
    """A note of an id shows the same session for ever."""
    run_state_machine_as_test(Histories, settings=machine_settings())

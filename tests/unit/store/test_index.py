"""The index as a whole."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from pathlib import Path

import apsw
import pytest

from sesamed.errors import StoreError
from sesamed.store import beside, checksums, sqlite
from sesamed.store.index import (
    CONNECTIONS,
    Index,
    Salvaged,
    list_aside,
    note_lost,
    remove_aside,
    remove_index,
    set_aside,
)
from sesamed.store.sqlite import DamagedError
from sesamed.store.upkeep import deep_check
from sesamed.store.writing.transaction import Writer


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    made = Index(str(tmp_path / "index.sqlite"))
    made.put("which", "old")
    yield made
    made.close()


def new_writer(index: Index) -> Writer:
    """A new index beside it."""
    writer = Writer(index.path + ".new")
    writer.set_metadata("which", "new")
    return writer


def test_a_value_is_kept(index: Index) -> None:
    """Beside the rows."""
    index.put("a", "b")
    index.put("a", "c")
    assert (index.get("a"), index.get("nothing")) == ("c", None)


@pytest.mark.parametrize(("kept", "carried"), [("[7]", "[7]"), ("[7" + "\0" * 2, None)])
def test_the_roots_go_on_into_the_next_index_unless_they_are_damaged(
    index: Index, kept: str, carried: str | None
) -> None:
    """A page that was wiped has a valid checksum; what stood there failed each index that took the place of the one before it."""
    index.writer.set_metadata("roots", kept)
    with nullcontext() if carried else pytest.raises(ValueError, match=r"Extra data|delimiter"):
        index.recall("roots", json.loads)
    index.note_damage(DamagedError(index.path, "a test"))
    index.reopen()
    assert index.get("roots") == carried


def test_an_index_that_somebody_puts_in_its_place_does_not_get_its_log(index: Index, tmp_path: Path) -> None:
    """What was committed last, and not folded in, is of another file."""
    with closing(Writer(str(tmp_path / "other.sqlite"))) as other:
        other.set_metadata("whose", "another")
    index.writer.set_metadata("whose", "ours")
    assert os.path.getsize(f"{index.path}-wal")
    os.replace(tmp_path / "other.sqlite", index.path)
    assert not index.is_in_place()
    index.reopen()
    assert index.writer.metadata("whose") == "another"
    assert index.is_in_place()


def test_after_a_swap_readers_and_writer_have_the_new_index(index: Index) -> None:
    """And nothing of the old one is left."""
    index.swap(new_writer(index))
    assert index.get("which") == "new"
    with index.readers.lend() as reader:
        assert sqlite.one(reader, "SELECT value FROM metadata WHERE name = 'which'") == ("new",)
    index.put("more", "x")
    names = sorted(path.name for path in Path(index.path).parent.iterdir())
    assert [name for name in names if "new" in name] == []


def test_an_index_that_is_swapped_is_in_place(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks in the middle of it is not told that somebody has taken it away."""
    said: list[bool] = []
    asking = threading.Thread(target=lambda: said.append(index.is_in_place()))

    def replace(source: str, target: str) -> None:
        os.rename(source, target)
        asking.start()
        asking.join(0.1)

    monkeypatch.setattr("sesamed.store.index.os.replace", replace)
    index.swap(new_writer(index))
    asking.join()
    assert said == [True]
    os.unlink(index.path)
    assert not index.is_in_place()


@pytest.mark.fault(67)
def test_readers_see_the_old_index_or_the_new_one(index: Index) -> None:
    """Never half of each, and never an error, however often it is swapped."""
    seen, stop, errors = set[str](), threading.Event(), list[BaseException]()

    def look() -> None:
        while not stop.is_set():
            try:
                with index.readers.lend() as reader:
                    seen.add(sqlite.one(reader, "SELECT value FROM metadata WHERE name = 'which'")[0])
            except BaseException as error:
                errors.append(error)
                return
            stop.wait(0.0005)  # or three threads look a thousand times as often as there is a swap

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        index.swap(new_writer(index))
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    assert seen <= {"old", "new"}
    assert "new" in seen


def test_an_index_that_another_program_writes_to_is_not_swapped(index: Index) -> None:
    """A WAL of one file beside another one is how databases get damaged; the old one goes on."""
    other = sqlite.connect_reader(index.path)
    other.execute("BEGIN; SELECT * FROM metadata").fetchall()
    index.put("a", "b")
    new = new_writer(index)
    with pytest.raises(StoreError, match="still in use"):
        index.swap(new)
    other.close()
    assert index.get("which") == "old"
    assert index.get("a") == "b"
    remove_index(new.path)


def test_what_is_left_over_is_found_and_removed(tmp_path: Path) -> None:
    """A result without its call would keep a file from being read, when a call comes to its place; whoever opens the index removes it."""
    path = str(tmp_path / "index.sqlite")
    Writer(path).close()
    connection = checksums.connect(path)
    connection.execute("INSERT INTO other_results(record, digest, is_error) VALUES(1 << 21, 7, 0)")
    connection.close()
    assert deep_check(path, f"{path}.1") == ["1 results of no call", "1 results that nobody holds"]
    Writer(path).close()
    assert deep_check(path, f"{path}.2") == []


def test_few_indexes_that_were_set_aside_are_kept(tmp_path: Path) -> None:
    """The newest, and those from which nothing has been carried over yet; each has a name of its own."""
    path = tmp_path / "index.sqlite"
    names = []
    for number in range(5):
        path.write_bytes(b"broken %d" % number)
        names.append(set_aside(str(path)))
        if number < 3:
            beside.append(str(path), beside.SET_ASIDE, [Salvaged(os.path.basename(names[-1]), 1, 0)])
    assert len(set(names)) == 5
    assert sorted(aside.path for aside in list_aside(str(path))) == sorted(names[2:])


def test_what_went_with_an_index_is_written_down(tmp_path: Path) -> None:
    """It is among what was set aside, until somebody deletes it; nobody sees a part of it, and none that was begun is in the way."""
    path = str(tmp_path / "index.sqlite")

    def lost() -> Iterator[bytes]:
        yield b"/one"
        assert not list_aside(path)
        yield b"/tw\no"

    (tmp_path / "index.sqlite.lost.new").write_bytes(b"/begun before")
    note_lost(path, lost())
    (aside,) = list_aside(path)
    assert (Path(aside.path).read_bytes(), aside.salvaged) == (b"/one\n/tw?o\n", None)
    assert Path(aside.path).stat().st_mode & 0o777 == 0o600
    index = Index(path)
    assert index.aside == [aside]
    remove_aside(index)
    assert (index.aside, os.path.exists(aside.path)) == ([], False)
    index.close()


@pytest.mark.fault(66)
def test_a_damaged_index_is_set_aside_with_its_siblings(tmp_path: Path) -> None:
    """Somebody may want to look at it."""
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"broken")
    (tmp_path / "index.sqlite-wal").write_bytes(b"wal")
    aside = Path(set_aside(str(path)))
    assert aside.name.startswith("index.sqlite.damaged-2")
    assert sorted(p.name for p in tmp_path.iterdir()) == [aside.name, f"{aside.name}-wal"]


def test_readers_that_nobody_uses_give_their_memory_back(index: Index) -> None:
    """All but the one that was used last, which is also used next."""

    def cached_bytes() -> list[int]:
        return [connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0] for connection in connections]

    with ExitStack() as lent:
        connections = [lent.enter_context(index.readers.lend()) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.execute("SELECT * FROM sessions, files, records").fetchall()
        before = cached_bytes()
        index.readers.shrink()
        assert cached_bytes() == before
    index.readers.shrink()
    after = cached_bytes()
    with index.readers.lend() as last:
        kept = connections.index(last)
    assert after[kept] == before[kept]
    assert all(after[number] < before[number] for number in range(CONNECTIONS) if number != kept)


def _swap_leaves(path: str) -> None:
    """Put two pages in each other's place. Each is what was written, so their checksums tell nothing."""
    with closing(sqlite.connect_reader(path)) as connection:
        sql = "SELECT pageno FROM dbstat WHERE name = 'chunks' AND pagetype = 'leaf'"
        first, *_, last = (number - 1 for (number,) in connection.execute(sql))
    with open(path, "r+b") as file:
        pages = []
        for number in (first, last):
            file.seek(number * checksums.PAGE_BYTES)
            pages.append(file.read(checksums.PAGE_BYTES))
        for number, page in zip((last, first), pages, strict=True):
            file.seek(number * checksums.PAGE_BYTES)
            file.write(page)


@pytest.mark.parametrize("is_damaged", [True, False])
def test_nonsense_may_come_of_pages_that_do_not_fit_together(tmp_path: Path, is_damaged: bool) -> None:
    """Where they do fit it is a bug."""
    path = f"{tmp_path}/index.sqlite"
    index = Index(path)
    for number in range(40):
        index.writer.connection.execute("INSERT INTO chunks(id, text) VALUES(?, ?)", (number + 1, "x" * 2000))
    index.close()
    if is_damaged:
        _swap_leaves(path)
    index = Index(path)
    with pytest.raises(sqlite.DamagedError if is_damaged else TypeError), index.readers.lend():
        raise TypeError("nonsense")
    assert (index.damage is not None) is is_damaged
    index.close()

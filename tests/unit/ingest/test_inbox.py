"""The set of dirty paths."""

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.ingest import queue as module
from sesamed.ingest.decode import Target
from sesamed.ingest.queue import Inbox, Mark, Waiter
from sesamed.ingest.sweep import Due
from sesamed.store.rows import Signature


def target(name: str) -> Target:
    """A path."""
    return Target(name.encode(), "/", "pi")


def due(name: str, unread: int = 10) -> Due:
    """What a sweep finds."""
    return Due(target(name), 0, unread)


def names(marks: list[Mark]) -> list[str]:
    """Their paths."""
    return [mark.target.path.decode() for mark in marks]


@pytest.fixture
def inbox() -> Inbox:
    return Inbox(lambda: None)


def test_live_paths_come_before_the_backlog(inbox: Inbox) -> None:
    """Who writes now does not wait for an archive; the backlog keeps its order."""
    inbox.add([due("old"), due("older")])
    inbox.mark(target("now"))
    assert names(inbox.take()) == ["now"]
    inbox.serve([])
    assert names(inbox.take()) == ["old", "older"]


def test_marks_of_one_path_are_one_look(inbox: Inbox) -> None:
    """However often it is written to; also when a sweep had found it."""
    inbox.add([due("a", 7)])
    for _ in range(5):
        inbox.mark(target("a"))
    assert inbox.pending().files == 1
    assert names(inbox.take()) == ["a"]
    inbox.serve([])
    assert inbox.is_empty


def test_a_path_that_is_being_looked_at_is_not_marked_again_by_a_sweep(inbox: Inbox) -> None:
    """Unless it looks otherwise by now: two sweeps at once would make a file pending that was read."""
    before, after = Signature(1, 1, 1, 1, 1), Signature(1, 1, 2, 2, 2)
    inbox.add([Due(target(name), 0, 1, before) for name in "ab"])
    inbox.take()
    numbers = inbox.add([Due(target("a"), 0, 1, before), Due(target("b"), 0, 1, after)])
    inbox.serve([])
    assert inbox.pending(numbers).files == inbox.pending().files == 1
    assert names(inbox.take()) == ["b"]


def test_a_path_that_is_marked_anew_is_not_pending_once_it_was_waited_for(inbox: Inbox) -> None:
    """It is looked at anew for the event's sake, so that is the look that a sweep waits for, too."""
    found = Due(target("a"), 0, 1, Signature(1, 1, 1, 1, 1))
    inbox.add([found])
    inbox.take()
    inbox.mark(target("a"))
    numbers = inbox.add([found])
    waiter = Waiter(dict(numbers))
    inbox._waiters.append(waiter)
    inbox.serve([])
    assert waiter.wanted
    inbox.take()
    inbox.serve([])
    assert not waiter.wanted
    assert inbox.pending(numbers).files == 0


def test_what_is_under_way_can_be_waited_for(inbox: Inbox) -> None:
    """A sweep in the moment between commit and note finds nothing to do, though how much is pending is not yet told."""
    number = inbox.mark(target("a"))
    assert inbox.under_way() == {}
    inbox.take()
    assert inbox.under_way() == {b"a": number}
    inbox.serve([])
    assert inbox.under_way() == {}


def test_what_is_unfinished_comes_next(inbox: Inbox) -> None:
    """Before the rest of the backlog, and after live ones."""
    inbox.add([due("a"), due("b"), due("c")])
    inbox.take()
    inbox.add([due("d")])
    inbox.serve([target("b")])
    assert names(inbox.take()) == ["b", "d"]


def test_what_could_not_be_committed_is_put_back(inbox: Inbox) -> None:
    """Nothing is lost."""
    inbox.add([due("a")])
    inbox.take()
    inbox.put_back()
    assert names(inbox.take()) == ["a"]


def test_too_many_marks_collapse_into_a_sweep(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event storm takes no more memory than this."""
    monkeypatch.setattr(module, "MAX_MARKS", 3)
    for number in range(10):
        inbox.mark(target(str(number)))
        inbox.mark_tree(str(number))
    assert inbox.sweep_wanted
    assert inbox.pending().files == 3
    assert len(inbox.trees) == 3


def test_pending_counts_what_waits_what_is_taken_and_unfinished_lines(inbox: Inbox) -> None:
    """An unfinished last line in bytes only."""
    inbox.add([due("a", 5), due("b", 6)])
    inbox.take()
    inbox.note_tails({b"c": 3, b"d": 0})
    assert (inbox.pending().files, inbox.pending().bytes) == (2, 14)
    inbox.serve([])
    inbox.note_tails({b"c": 0})
    assert (inbox.pending().files, inbox.pending().bytes) == (0, 0)


async def is_served(inbox: Inbox, numbers: dict[bytes, int]) -> bool:
    """Whether it is at once."""
    with anyio.move_on_after(0.01) as scope:
        await inbox.served(numbers)
    return not scope.cancelled_caught


@pytest.mark.anyio
async def test_served_waits_for_a_look_that_began_after_the_mark(inbox: Inbox) -> None:
    """One that is going on may have read the file before it was written to."""
    inbox.mark(target("a"))
    inbox.take()
    number = inbox.mark(target("a"))
    inbox.serve([])  # the look that began before
    assert not await is_served(inbox, {b"a": number})
    inbox.take()
    inbox.serve([])
    assert await is_served(inbox, {b"a": number})


@pytest.mark.anyio
async def test_served_does_not_wait_for_later_marks(inbox: Inbox) -> None:
    """A file that is written to all the time keeps nobody waiting."""
    number = inbox.mark(target("a"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(inbox.served, {b"a": number})
        await anyio.lowlevel.checkpoint()
        inbox.take()
        inbox.mark(target("a"))
        inbox.serve([])
    assert not inbox.is_empty


@pytest.mark.anyio
async def test_served_waits_until_a_file_is_read_to_its_end(inbox: Inbox) -> None:
    """In as many slices as it takes; also when it is marked meanwhile."""
    number = inbox.mark(target("a"))
    inbox.take()
    inbox.serve([target("a")])
    assert not await is_served(inbox, {b"a": number})
    inbox.take()
    inbox.mark(target("a"))
    inbox.serve([target("a")])
    assert not await is_served(inbox, {b"a": number})
    assert inbox.pending({b"a": number}).files == 1
    inbox.take()
    inbox.serve([])
    assert await is_served(inbox, {b"a": number})


@pytest.mark.anyio
async def test_what_was_never_marked_is_served(inbox: Inbox) -> None:
    """There is nothing to wait for."""
    assert await is_served(inbox, {})
    assert await is_served(inbox, {b"x": 5})


def test_a_look_that_was_interrupted_keeps_its_promise(inbox: Inbox) -> None:
    """A sweep counted on the look under way; that gave way to the same path's live mark, which is older than the sweep."""
    found = Due(target("a"), 0, 1, Signature(1, 1, 1, 1, 1))
    inbox.add([found])
    inbox.take()
    inbox.mark(target("a"))
    waiter = Waiter(inbox.add([found]))
    inbox._waiters.append(waiter)
    inbox.serve([target("a")])
    inbox.take()
    inbox.serve([])
    assert not waiter.wanted


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["mark", "sweep", "take", "serve", "put back", "wait"]), st.integers(0, 7), st.integers(0, 2)
    ),
    max_size=30,
)


@settings(max_examples=2000)
@given(STEPS)
def test_who_waits_is_told_when_all_is_served(steps: list[tuple[str, int, int]]) -> None:
    """However marks, sweeps, looks that were interrupted and looks that failed come upon each other."""
    inbox = Inbox(lambda: None)
    paths, waiters, taken = "ab", list[Waiter](), list[Mark]()
    for step, some, sign in steps:
        chosen = [name for number, name in enumerate(paths) if some >> number & 1]
        if step == "mark":
            wanted = {name.encode(): inbox.mark(target(name)) for name in chosen}
        elif step == "sweep":
            wanted = inbox.add([Due(target(name), 0, 1, Signature(1, 1, sign, 1, 1)) for name in chosen])
        elif step == "take" and not taken:
            taken = inbox.take()
            continue
        elif step == "serve":
            inbox.serve([mark.target for mark in taken if mark.target.path.decode() in chosen])
            taken = []
            continue
        elif step == "put back":
            inbox.put_back()
            taken = []
            continue
        else:
            continue
        waiters.append(Waiter(dict(wanted)))
        inbox._waiters.append(waiters[-1])
    inbox.serve([])
    while not inbox.is_empty:
        inbox.take()
        inbox.serve([])
    assert [waiter.wanted for waiter in waiters] == [{}] * len(waiters)

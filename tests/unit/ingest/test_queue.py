"""The order in which files are looked at, and who is told when they were."""

import time

import anyio
import anyio.lowlevel
import pytest

from sesamed.ingest import queue as module
from sesamed.ingest.queue import LoopWaker, Queue, Ticket
from sesamed.ingest.state import FileState, FileStates
from sesamed.store.rows import Signature
from tests.support.queueing import due, taken, target


def names(states: list[FileState]) -> list[str]:
    """Their paths."""
    return [state.target.path.decode() for state in states]


@pytest.fixture
def states() -> FileStates:
    return FileStates()


@pytest.fixture
def queue(states: FileStates) -> Queue:
    return Queue(states)


SEEN, GROWN = Signature(1, 1, 1, 1, 1), Signature(1, 1, 2, 2, 2)


def test_live_paths_come_before_the_backlog(queue: Queue) -> None:
    """Who writes now does not wait for an archive; the backlog keeps its order."""
    queue.add([due("old"), due("older")])
    queue.mark(target("now"))
    assert names(taken(queue)) == ["now"]
    queue.finish()
    assert names(taken(queue)) == ["old", "older"]


def test_marks_of_one_path_are_one_look(queue: Queue) -> None:
    """However often it is written to; also when a sweep had found it."""
    queue.add([due("a", 7)])
    for _ in range(5):
        queue.mark(target("a"))
    assert (queue.pending().files, queue.pending().bytes) == (1, 7)
    assert names(taken(queue)) == ["a"]
    queue.finish()
    assert queue.is_empty


async def test_a_question_lets_pass_what_was_written_just_now(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes after its commit. It does not wait for a backlog, and for nobody for long."""
    queue.add([due("old")])
    assert not queue.is_live
    queue.mark(target("now"))
    assert queue.is_live
    monkeypatch.setattr(module, "PASS_S", 0.0)
    await queue.let_live_pass()
    assert queue.is_live
    monkeypatch.setattr(module, "PASS_S", 60.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.let_live_pass)
        await anyio.lowlevel.checkpoint()
        assert names(taken(queue)) == ["now"]
        assert queue.is_live
        queue.finish()
    assert not queue.is_live
    assert names(taken(queue)) == ["old"]
    assert not queue.is_live


def test_freshness_counts_from_the_first_of_several_marks(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line that has waited longest is the one that is late; after a look it counts anew."""
    moments = iter([1.0, 2.0, 3.0, 4.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(moments))
    queue.mark(target("a"))
    queue.mark(target("a"))
    (state,) = taken(queue)
    assert state.look_since == 1.0
    queue.mark(target("a"))
    queue.finish()
    (state,) = taken(queue)
    assert state.look_since == 2.0
    queue.put_back()
    queue.mark(target("a"))
    (state,) = taken(queue)
    assert state.look_since == 2.0  # the look that failed served nobody
    queue.finish()


def test_a_path_that_is_being_looked_at_is_not_marked_again_by_a_sweep(queue: Queue) -> None:
    """Unless it looks otherwise by now: two sweeps at once would make a file pending that was read."""
    queue.add([due(name, 1, SEEN) for name in "ab"])
    queue.take()
    tickets = queue.add([due("a", 1, SEEN), due("b", 1, GROWN)])
    queue.finish()
    assert [ticket.is_served for ticket in tickets] == [True, False]
    assert queue.pending(tickets).files == queue.pending().files == 1
    assert names(taken(queue)) == ["b"]


def test_a_path_that_is_marked_anew_is_not_pending_once_it_was_waited_for(queue: Queue) -> None:
    """It is looked at anew for the event's sake, so that is the look that a sweep waits for, too."""
    queue.add([due("a", 1, SEEN)])
    queue.take()
    queue.mark(target("a"))
    tickets = queue.add([due("a", 1, SEEN)])
    queue.finish()
    assert not tickets[0].is_served
    queue.take()
    queue.finish()
    assert tickets[0].is_served
    assert queue.pending(tickets).files == 0


def test_what_is_under_way_can_be_waited_for(queue: Queue) -> None:
    """A sweep in the moment between commit and finish finds nothing to do, though how much is pending is not yet told."""
    ticket = queue.mark(target("a"))
    assert queue.under_way() == []
    queue.take()
    assert queue.under_way() == [ticket]
    queue.finish()
    assert queue.under_way() == []


@pytest.mark.fault(49)
def test_what_is_unfinished_comes_next(queue: Queue) -> None:
    """Before the rest of the backlog, and after live ones."""
    queue.add([due("a"), due("b"), due("c")])
    queue.take()
    queue.add([due("d")])
    queue.finish({b"b"})
    assert names(taken(queue)) == ["b", "d"]


def test_what_could_not_be_committed_is_put_back(queue: Queue) -> None:
    """Nothing is lost; what was written to meanwhile waits with those that were, and there alone."""
    queue.add([due("a"), due("b")])
    queue.take()
    queue.mark(target("a"))
    queue.put_back()
    assert queue.backlog().files == 1
    assert names(taken(queue)) == ["a"]
    queue.finish()
    assert names(taken(queue)) == ["b"]


def test_what_was_tried_and_could_not_be_committed_is_tried_again(queue: Queue) -> None:
    """A last line without newline would be looked at only after the next change."""
    queue.mark(target("a"))
    (state,) = taken(queue)
    state.tried = SEEN
    queue.put_back()
    assert state.tried is None


@pytest.mark.fault(14)
def test_too_many_marks_collapse_into_a_sweep(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event storm takes no more memory than this, and nobody waits for what was not marked."""
    monkeypatch.setattr(module, "MAX_LIVE", 3)
    for number in range(10):
        ticket = queue.mark(target(str(number)))
        assert ticket.is_served == (number >= 3)
        queue.mark_tree(str(number))
    assert queue.sweep_wanted
    assert queue.pending().files == 3
    assert len(queue.trees) == 3


def test_pending_counts_what_waits_what_is_taken_and_unfinished_lines(queue: Queue, states: FileStates) -> None:
    """An unfinished last line in bytes only."""
    queue.add([due("a", 5), due("b", 6)])
    queue.take()
    torn = states.find_or_add(target("c"))
    torn.rest = 3
    states.note(torn)
    assert (queue.pending().files, queue.pending().bytes) == (2, 14)
    queue.finish()
    states.drop(b"c")
    assert (queue.pending().files, queue.pending().bytes) == (0, 0)


def test_nothing_is_kept_of_a_path_that_is_none(queue: Queue, states: FileStates) -> None:
    """Events name files that are gone again by the time they are looked at."""
    for number in range(10):
        queue.mark(target(str(number)))
    queue.take()
    queue.finish()
    assert len(states) == 0


async def is_waited_for(queue: Queue, tickets: list[Ticket]) -> bool:
    """Whether waiting ends at once."""
    with anyio.move_on_after(0.01) as scope:
        await queue.wait_for(tickets)
    return not scope.cancelled_caught


@pytest.mark.anyio
async def test_a_ticket_waits_for_a_look_that_began_after_the_mark(queue: Queue) -> None:
    """One that is going on may have read the file before it was written to."""
    queue.mark(target("a"))
    queue.take()
    ticket = queue.mark(target("a"))
    queue.finish()  # the look that began before
    assert not await is_waited_for(queue, [ticket])
    queue.take()
    queue.finish()
    assert await is_waited_for(queue, [ticket])


@pytest.mark.anyio
async def test_a_ticket_does_not_wait_for_later_marks(queue: Queue) -> None:
    """A file that is written to all the time keeps nobody waiting."""
    ticket = queue.mark(target("a"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(queue.wait_for, [ticket])
        await anyio.lowlevel.checkpoint()
        queue.take()
        queue.mark(target("a"))
        queue.finish()
    assert not queue.is_empty


@pytest.mark.anyio
async def test_a_ticket_waits_until_a_file_is_read_to_its_end(queue: Queue) -> None:
    """In as many slices as it takes; also when it is marked meanwhile."""
    ticket = queue.mark(target("a"))
    queue.take()
    queue.finish({b"a"})
    assert not await is_waited_for(queue, [ticket])
    queue.take()
    queue.mark(target("a"))
    queue.finish({b"a"})
    assert queue.backlog().files == 0  # it waits with those that were just written to, and there alone
    assert not await is_waited_for(queue, [ticket])
    assert queue.pending([ticket]).files == 1
    queue.take()
    queue.finish()
    assert await is_waited_for(queue, [ticket])


@pytest.mark.anyio
async def test_what_was_never_marked_is_served(queue: Queue) -> None:
    """There is nothing to wait for."""
    assert await is_waited_for(queue, [])


def test_a_look_that_was_interrupted_keeps_its_promise(queue: Queue) -> None:
    """A sweep counted on the look under way; that gave way to the same path's live mark, which is older than the sweep."""
    queue.add([due("a", 1, SEEN)])
    queue.take()
    queue.mark(target("a"))
    (ticket,) = queue.add([due("a", 1, SEEN)])
    queue.finish({b"a"})
    queue.take()
    queue.finish()
    assert ticket.is_served


@pytest.mark.anyio
async def test_a_waker_that_was_rung_before_anybody_waited_is_heard() -> None:
    """It is made before the loop has anything to do, and rung by threads."""
    waker = LoopWaker()
    waker.ring()
    with anyio.fail_after(5):
        await waker.wait()
        waker.reset()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(waker.wait)
            await anyio.lowlevel.checkpoint()
            await anyio.to_thread.run_sync(waker.ring)
        waker.reset()
        with anyio.move_on_after(0.01) as scope:
            await waker.wait()
        assert scope.cancelled_caught  # or the loop would never rest


def rest(states: FileStates, name: str, until: float) -> FileState:
    """A file that was read as a whole just now."""
    state = states.find_or_add(target(name))
    state.signature, state.rest_until = SEEN, until
    return state


def test_a_file_that_was_read_whole_rests(queue: Queue, states: FileStates, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is written to meanwhile; it is pending, and its first mark is not forgotten."""
    rest(states, "whole", 101.0)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    tickets = [queue.mark(target("whole"), may_rest=True) for _ in range(3)]
    assert queue.is_empty
    assert not queue.live_is_waiting
    assert taken(queue) == []
    assert queue.pending().files == 1
    queue.end_rests()
    assert taken(queue) == []
    monkeypatch.setattr(time, "monotonic", lambda: 101.0)
    queue.end_rests()
    assert queue.waker.is_rung
    (state,) = taken(queue)
    assert state.look_since == 100.0
    queue.finish()
    assert all(ticket.is_served for ticket in tickets)
    assert queue.pending().files == 0


def test_what_is_found_below_a_new_directory_rests_too(queue: Queue, states: FileStates) -> None:
    """A session that is a tree of files gets one with each message; what rests not is looked at."""
    rest(states, "whole", time.monotonic() + 60)
    first, other = queue.add([due("whole"), due("other")], may_rest=True)
    assert names(taken(queue)) == ["other"]
    queue.finish()
    assert (first.is_served, other.is_served) == (False, True)
    queue.mark(target("whole"))
    taken(queue)
    queue.finish()
    assert first.is_served


def test_who_asks_does_not_wait_for_a_rest(queue: Queue, states: FileStates) -> None:
    """Neither a client's sync nor a sweep."""
    for wake in (lambda: queue.mark(target("whole")), lambda: queue.add([due("whole")])):
        rest(states, "whole", time.monotonic() + 60)
        ticket = queue.mark(target("whole"), may_rest=True)
        wake()
        assert names(taken(queue)) == ["whole"]
        queue.finish()
        assert ticket.is_served
        queue.end_rests()
        assert queue.is_empty


def test_what_was_written_after_a_look_waits_for_another_one(queue: Queue, states: FileStates) -> None:
    """A sweep that saw the file before that takes its event away, and must not take the look under way for it."""
    state = rest(states, "whole", time.monotonic() + 60)
    queue.add([due("whole", signature=GROWN)])
    taken(queue)
    state.seen = GROWN
    written = queue.mark(target("whole"), may_rest=True)
    queue.add([due("whole", signature=GROWN)])
    queue.finish()
    assert not written.is_served
    assert names(taken(queue)) == ["whole"]
    queue.finish()
    assert written.is_served


def test_what_is_not_finished_does_not_rest(queue: Queue, states: FileStates) -> None:
    """It is read on, and its mark with it."""
    state = rest(states, "whole", 0.0)
    queue.mark(target("whole"))
    taken(queue)
    state.rest_until = time.monotonic() + 60
    ticket = queue.mark(target("whole"), may_rest=True)
    queue.finish({b"whole"})
    assert names(taken(queue)) == ["whole"]
    queue.finish()
    assert ticket.is_served
    assert queue.pending().files == 0

"""Whatever comes upon each other in the queue, who waits is told."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from sesamed.ingest.queue import Queue, Ticket
from sesamed.ingest.state import FileState, FileStates
from sesamed.store.rows import Signature
from tests.support.queueing import due, taken, target


class Script:
    """Marks, sweeps and looks as they come, and everybody who waits."""

    def __init__(self) -> None:
        self.states = FileStates()
        self.queue = Queue(self.states)
        self.tickets: list[Ticket] = []
        self.taken: list[FileState] = []

    def mark(self, chosen: list[str], _: int) -> None:
        """Events."""
        self.tickets += [self.queue.mark(target(name)) for name in chosen]

    def sweep(self, chosen: list[str], sign: int) -> None:
        """What is found may look as it did."""
        self.tickets += self.queue.add(due(name, 1, Signature(1, 1, sign, 1, 1)) for name in chosen)

    def take(self, _: list[str], __: int) -> None:
        """A look begins."""
        self.taken = self.taken or taken(self.queue)

    def finish(self, chosen: list[str], _: int) -> None:
        """It is committed, but for some."""
        self.queue.finish({state.target.path for state in self.taken} & {name.encode() for name in chosen})
        self.taken = []

    def put_back(self, _: list[str], __: int) -> None:
        """It was in vain."""
        self.queue.put_back()
        self.taken = []

    def drop(self, chosen: list[str], _: int) -> None:
        """Files are taken out of the index."""
        for name in chosen:
            self.states.drop(name.encode())

    def check(self) -> None:
        """A file waits in one line at most, and waits or is looked at exactly while a ticket of it is not served."""
        queue = self.queue
        is_live = bool(queue._live) or any(state.look_since is not None for state in queue._under_way.values())
        assert queue.is_live == is_live
        lines = [queue._live, queue._backlog, queue._under_way]
        assert not queue._live.keys() & queue._backlog.keys()
        waiting = {path: state for line in lines for path, state in line.items()}
        assert {state.target.path: state for state in self.states if not state.is_idle} == waiting == queue.unserved
        assert all(line.get(path, state) is state for line in lines for path, state in waiting.items())
        assert all(state.served <= state.asked for state in self.states)
        unserved = {ticket.state.target.path for ticket in self.tickets if not ticket.is_served}
        assert queue.pending(self.tickets).files == len(unserved)


STEPS = st.lists(
    st.tuples(
        st.sampled_from([Script.mark, Script.sweep, Script.take, Script.finish, Script.put_back, Script.drop]),
        st.sampled_from([[], ["a"], ["b"], ["a", "b"]]),
        st.integers(0, 2),
    ),
    max_size=30,
)


@settings(max_examples=max(500, settings().max_examples))
@given(STEPS)
def test_who_waits_is_told_when_all_is_served(steps: list[tuple[Callable[..., None], list[str], int]]) -> None:
    """However marks, sweeps, looks that were interrupted or failed, and what is dropped come upon each other."""
    script = Script()
    for step, chosen, sign in steps:
        step(script, chosen, sign)
        script.check()
    script.finish([], 0)
    while not script.queue.is_empty:
        script.queue.take()
        script.queue.finish()
    assert all(ticket.is_served for ticket in script.tickets)
    assert len(script.states) == 0

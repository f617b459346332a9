"""Files that grow by any pieces, in any order, looked at at any time, across restarts, give the index of a rebuild: the golden files of
each source whose agent appends to them. Those of pi, Claude Code and Codex have histories of their own."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sesamed.source import Lines
from sesamed.sources import SOURCES
from tests.support.growing import Growing
from tests.support.history import same
from tests.support.state_machines import histories

WITH_HISTORIES = frozenset({"pi", "claude", "codex", "sesame"})
APPENDED = [
    name for name, source in SOURCES.items() if isinstance(source.shapes[0], Lines) and name not in WITH_HISTORIES
]
NUMBERS = st.integers(0, 30)
SIZES = st.integers(1, 40) | st.integers(1, 2000)
STEPS = st.lists(
    st.tuples(st.just("grow"), NUMBERS, SIZES)
    | st.tuples(st.just("look"), NUMBERS, st.just(0))
    | st.tuples(st.just("restart"), st.just(0), st.just(0)),
    max_size=30,
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", APPENDED)
def test_files_that_grow_give_the_index_of_a_rebuild(source: str) -> None:
    """However they are cut, and whichever is read first."""

    @settings(max_examples=histories(settings().max_examples), deadline=None)
    @given(STEPS, st.integers(0, 3))
    @example([("grow", 0, 296), ("look", 0, 0)], 0)  # where it was is said before a fact says the same
    def check(steps: list[tuple[str, int, int]], seed: int) -> None:
        files = Growing(source)
        try:
            for what, number, size in steps:
                if what == "grow":
                    files.grow(number, size)
                elif what == "look":
                    files.look(number)
                else:
                    files.restart()
            same(files.finish(), files.rebuilt(seed))
        finally:
            files.close()

    check()

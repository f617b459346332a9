"""Which messages lead to the newest one, or to any other: however a file was written, looked at and read again, as its lines say."""

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sesamed.errors import ParamsError
from sesamed.ingest.decode import Decoder
from sesamed.ingest.look import Ingest
from sesamed.ingest.state import Target
from sesamed.source import Source
from sesamed.sources.claude import Claude
from sesamed.sources.codex import Codex
from sesamed.store import sqlite
from sesamed.store.reading import session as read
from sesamed.store.reading.branch import find_branch, find_entry
from sesamed.store.writing import jumps
from sesamed.store.writing.takeover import Replay
from tests.support.claude import ClaudeSession, tool_use
from tests.support.codex import CodexSession
from tests.support.history import LIMITS, History
from tests.support.sessions import Call, PiSession
from tests.support.state_machines import DAY, histories

# What a line becomes, and how many records that is.
KINDS: tuple[tuple[int, Callable[[PiSession, str], object]], ...] = (
    (1, lambda session, text: session.user(text)),
    (1, lambda session, text: session.assistant(text)),
    (3, lambda session, text: session.assistant(text, [Call("bash", {"x": text}), Call("read", {"x": text})])),
    (0, lambda session, text: session.assistant(thinking=text)),
    (0, lambda session, text: session.entry("label", targetId="x", label=text)),
    (0, lambda session, text: session.entry("model_change", provider="a", modelId=text)),
    (1, lambda session, text: session.branch_summary(text)),
    (1, lambda session, text: session.result(Call("bash", id=f"unknown-{text}"), text)),
)
STEPS = st.lists(st.tuples(st.integers(0, len(KINDS) - 1), st.none() | st.integers(-1, 20)), min_size=1, max_size=15)


class Tree:
    """A session of pi in which somebody goes back now and then; and what leads to each of its lines, the slow and simple way."""

    def __init__(self, name: str, steps: list[tuple[int, int | None]]) -> None:
        self.session = PiSession(id=name)
        self.leads_to: dict[str | None, list[int]] = {None: []}
        self.count = 0
        for number, (kind, back) in enumerate(steps):
            self.add(kind, back, f"{name} {number}")

    def add(self, kind: int, back: int | None, text: str) -> None:
        """A line, which follows the one before it or (-1: nothing) another one."""
        lines = [line for line in self.leads_to if line is not None]
        if back is not None and lines:
            self.session.back_to(None if back < 0 else lines[back % len(lines)])
        parent = self.session.last
        records, write = KINDS[kind]
        write(self.session, text)
        own = list(range(self.count, self.count + records))
        self.count += records
        self.leads_to[self.session.last] = self.leads_to[parent] + own


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    made = History()
    yield made
    made.close()


def branch(ingest: Ingest, name: str, leaf: str = "leaf") -> list[int]:
    """The numbers of the messages that lead there."""
    connection = ingest.writer.connection
    (session,) = sqlite.one(connection, "SELECT id FROM sessions WHERE native_id = ?", (name,))
    found = find_branch(connection, session, leaf)
    numbers = [number for first, last in found.cut(0, 1000) for number in range(first, last + 1)]
    assert found.total == len(numbers)
    assert [found.index_of(number) for number in numbers] == list(range(len(numbers)))
    return numbers


@settings(max_examples=histories(DAY))
@example(
    steps=[(0, None), (0, None), (4, 0), (0, 1)], cuts=[], restarts=False, few=0
)  # away, and back to the line before
@given(
    steps=STEPS,
    cuts=st.lists(st.integers(0, 5000), max_size=6),
    restarts=st.booleans(),
    few=st.sampled_from((0, jumps.FEW)),
)
def test_any_tree_read_in_any_pieces(
    history: History, steps: list[tuple[int, int | None]], cuts: list[int], restarts: bool, few: int
) -> None:
    """Its leaf, and each of its lines, records or not; after a kill between two looks, and with a last line that has no newline yet."""
    name = f"tree-{history.number()}"
    tree = Tree(name, steps)
    data = tree.session.bytes()
    path = history.roots[0] / f"{name}.jsonl"
    for begin, end in pairwise([0, *sorted(cut % len(data) for cut in cuts), len(data)]):
        history.append(path, data[begin:end])
        history.now += 10  # quiet: what has no newline is taken as well
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jumps, "FEW", few)
            history.look([path])
        if restarts:
            history.restart()
    lead = tree.leads_to
    assert branch(history.ingest, name) == lead[tree.session.last]
    for line, numbers in lead.items():
        if line is not None:
            assert branch(history.ingest, name, line) == numbers


@settings(max_examples=histories(DAY))
@given(steps=STEPS, more=STEPS, at=st.integers(0, 15))
def test_a_fork_has_a_tree_of_its_own(
    history: History, steps: list[tuple[int, int | None]], more: list[tuple[int, int | None]], at: int
) -> None:
    """Of records that both hold, each file says what they follow, whoever is their home."""
    name = f"fork-{history.number()}"
    tree = Tree(name, steps)
    child = Tree(f"{name}-child", [])
    copied = min(at, len(steps))
    child.session = tree.session.fork(id=f"{name}-child", at=copied)
    half = Tree(name, steps[:copied])
    child.leads_to, child.count = half.leads_to, half.count
    for number, (kind, back) in enumerate(more):
        child.add(kind, back, f"{name} more {number}")
    for made in (child, tree):
        path = history.roots[0] / f"{made.session.id}.jsonl"
        history.write(path, made.session.bytes())
        history.look([path])
    for made in (child, tree):
        assert branch(history.ingest, made.session.id) == made.leads_to[made.session.last]


def test_many_who_go_back_read_their_file_once(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """8,000 lines that all went back looked through each other's records for a second, and 100,000 would have for minutes."""
    asked = list[str]()

    def find(connection: apsw.Connection, file: int, source: str, entry: str, before: int) -> int | None:
        asked.append(entry)
        return find_entry(connection, file, source, entry, before)

    monkeypatch.setattr(jumps, "find_entry", find)
    random = Random(1)
    tree = Tree("many", [(random.randrange(len(KINDS)), random.randrange(400) if n % 2 else None) for n in range(400)])
    path = history.roots[0] / "many.jsonl"
    history.write(path, tree.session.bytes())
    history.look([path])
    assert len(asked) <= jumps.FEW
    for line, numbers in tree.leads_to.items():
        if line is not None:
            assert branch(history.ingest, "many", line) == numbers


def test_going_back_alone_moves_the_leaf(history: History) -> None:
    """Before anybody says something there, by a line of which nothing is kept; and the session has a new revision."""
    session = PiSession(id="moves").user("a").assistant("b").user("c").assistant("d")
    path = session.write(history.roots[0])
    history.look([path])
    assert branch(history.ingest, "moves") == [0, 1, 2, 3]
    connection = history.ingest.writer.connection
    before = sqlite.one(connection, "SELECT revision FROM sessions WHERE native_id = 'moves'")[0]
    ids = [line_id(line) for line in session.lines()]
    history.append(path, session.back_to(ids[2]).entry("model_change", provider="x", modelId="y").last_line())
    history.look([path])
    assert branch(history.ingest, "moves") == [0, 1]
    assert sqlite.one(connection, "SELECT revision FROM sessions WHERE native_id = 'moves'")[0] > before
    history.append(path, session.user("e").last_line())
    history.look([path])
    assert branch(history.ingest, "moves") == [0, 1, 4]
    assert branch(history.ingest, "moves", ids[4]) == [0, 1, 2, 3]


def line_id(line: bytes) -> str:
    """A line's id."""
    return line.partition(b'"id":"')[2].partition(b'"')[0].decode()


def test_a_parent_that_is_not_there_is_the_line_before(history: History) -> None:
    """Its line was torn."""
    path = PiSession(id="torn").user("a").assistant("b").back_to("ffffffff").user("c").write(history.roots[0])
    history.look([path])
    assert branch(history.ingest, "torn") == [0, 1, 2]


def test_a_line_that_nobody_knows_is_refused(history: History) -> None:
    """In words that say where ids come from."""
    path = PiSession(id="refused").user("a").write(history.roots[0])
    history.look([path])
    with pytest.raises(ParamsError, match=r"branch: no message of the session has the id 'zzz'; list_messages gives"):
        branch(history.ingest, "refused", "zzz")


def test_what_cannot_be_read_again_keeps_its_branches(history: History) -> None:
    """It is copied into a new index, also for lines that come later."""
    session = PiSession(id="copied").user("a").assistant("b")
    first = line_id(session.lines()[1])
    label = session.entry("label", label="x").last
    path = session.back_to(first).user("c").write(history.roots[0])
    history.look([path])
    before = history.ingest.writer
    history.ingest = history.opened("copied")
    for _ in Replay(before, history.ingest.writer, lambda path, _: path.endswith(b"copied.jsonl")).run():
        pass
    assert branch(history.ingest, "copied") == [0, 2]
    history.ingest = history.opened("copied")
    history.append(path, session.back_to(label).user("d").last_line())
    history.look([path])
    assert branch(history.ingest, "copied") == [0, 1, 3]
    history.ingest = history.opened(history.name)


# -- other agents


@pytest.fixture
def claude(history: History) -> Callable[[ClaudeSession], Ingest]:
    def index(session: ClaudeSession) -> Ingest:
        return indexed(history, Claude(), session.write(history.base), "claude")

    return index


def indexed(history: History, source: Source[Any], path: Path, name: str) -> Ingest:
    """An index of one file."""

    ingest = Ingest(
        history.indexes.open(f"{name}-{history.number()}"), Decoder({name: source}, LIMITS, lambda: history.now)
    )
    ingest.run([Target(os.fsencode(path), str(history.base), name)])
    return ingest


def uuid_of(session: ClaudeSession) -> str:
    """The last line's id."""
    assert session.last is not None
    return session.last


def test_claude_a_prompt_that_was_said_again(claude: Callable[[ClaudeSession], Ingest]) -> None:
    """A person went back two answers and asked something else."""
    session = ClaudeSession().user("a").assistant("b")
    kept = uuid_of(session)
    session.user("c").assistant("d")
    left = uuid_of(session)
    session.last = kept
    ingest = claude(session.user("e").assistant("f"))
    assert branch(ingest, session.id) == [0, 1, 4, 5]
    assert branch(ingest, session.id, left) == [0, 1, 2, 3]


def test_claude_calls_in_parallel_are_one_answer(claude: Callable[[ClaudeSession], Ingest]) -> None:
    """Results name the line of their call, in any order; all calls are on the way."""
    one, two = (Call("Bash", {"command": name}, f"toolu_01{name}xxxxxxxxxxxxxxxxxx") for name in ("one", "two"))
    session = ClaudeSession().user("a").response([tool_use(one)], id="msg_01abcdefghijklmnopq")
    first = uuid_of(session)
    session.response([tool_use(two)], id="msg_01abcdefghijklmnopq")
    session.result(two, "2")
    session.last = first
    ingest = claude(session.result(one, "1").assistant("b"))
    assert branch(ingest, session.id) == [0, 1, 2, 3]


def test_claude_goes_on_behind_a_compaction(claude: Callable[[ClaudeSession], Ingest]) -> None:
    """It begins another tree, which names what it goes on from; in a file where it does not, it is what comes first."""
    session = ClaudeSession().user("a").assistant("b")
    session.chain("system", subtype="compact_boundary", parentUuid=None, logicalParentUuid=uuid_of(session))
    ingest = claude(session.user("summed up", isCompactSummary=True).user("c"))
    assert branch(ingest, session.id) == [0, 1, 2, 3]
    ingest = claude(ClaudeSession().user("a").assistant("b").compaction("summed up").user("c"))
    assert branch(ingest, session.id) == [2, 3]


def test_claude_subagents_in_their_parents_file_stay_where_they_were_called(
    claude: Callable[[ClaudeSession], Ingest],
) -> None:
    """Up to 1.0.x: a tree of their own, amid the conversation."""
    call = Call("Task", {"prompt": "look"}, "toolu_01taskxxxxxxxxxxxxxxxxx")
    session = ClaudeSession(version="1.0.33").user("a").call(call)
    last = uuid_of(session)
    session.last = None
    session.user("look", isSidechain=True).assistant("looked", isSidechain=True)
    session.last = last
    ingest = claude(session.result(call, "looked").assistant("b"))
    assert branch(ingest, session.id) == [0, 1, 2, 3, 4]


def test_codex_leaves_out_what_was_taken_back(history: History) -> None:
    """A rolled back turn is on no way to what came later; until then, it was."""
    session = CodexSession(id="019e0000-0000-7000-8000-00000000c0de").user("a").assistant("b").user("c").assistant("d")
    session.event("thread_rolled_back", num_turns=1)
    path = session.write(history.base)
    assert branch(indexed(history, Codex(), path, "codex"), session.id) == [0, 1]
    path = session.user("e").assistant("f").write(history.base)
    ingest = indexed(history, Codex(), path, "codex")
    assert branch(ingest, session.id) == [0, 1, 4, 5]
    (session_number,) = sqlite.one(ingest.writer.connection, "SELECT id FROM sessions")
    undone = [item.undone for item in read.read_items(ingest.writer.connection, session_number, 0, 10)]
    assert undone == [False, False, True, True, False, False]

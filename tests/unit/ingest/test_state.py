"""What is known of files."""

import tracemalloc

import msgspec

from sesamed.ingest.state import CREDIT_S, PRICE, REST_S, FileState, FileStates, Target
from sesamed.store.rows import Cursor, IndexedFile, Signature


def known(name: str, ino: int = 1, *, size: int = 10, gone: bool = False) -> IndexedFile:
    """A file as an index has it."""
    signature = Signature(1, ino, size, 3, 4)
    cursor = Cursor(offset=size, state=b"x")
    return IndexedFile(name.encode(), "/root", "pi", 1, signature, cursor, complete=True, gone=gone)


def torn(states: FileStates, name: str) -> FileState:
    """A file with everything that may be known of one."""
    state = states.find_or_add(Target(name.encode(), "/root", "pi"))
    state.trouble, state.rest, state.quiet_at = "closed", 7, 1.0
    states.note(state)
    return state


def test_nothing_is_left_of_a_file_that_is_dropped() -> None:
    """Neither its trouble nor its torn line, nor its inode."""
    states = FileStates([known("a"), known("b")])
    torn(states, "a")
    states.drop(b"a")
    assert states.get(b"a") is None
    assert (states.list_unreadable(), states.rest(), states.take_quiet(2.0)) == ([], 0, [])
    assert states.has_inode(1)
    states.drop(b"b")
    assert not states.has_inode(1)
    states.drop(b"never there")


def test_a_file_that_changes_its_inode_is_known_by_the_new_one() -> None:
    """The other may be used again."""
    states = FileStates([known("a", 1)])
    states.commit(known("a", 2))
    assert (states.has_inode(1), states.has_inode(2)) == (False, True)


def test_a_quiet_file_is_given_once() -> None:
    """And not before it is quiet."""
    states = FileStates()
    state = torn(states, "a")
    assert states.take_quiet(0.5) == []
    assert states.take_quiet(1.0) == [state.target]
    assert states.take_quiet(9.0) == []


def test_another_index_has_other_files() -> None:
    """What is asked of them stays."""
    states = FileStates([known("kept", 1), known("dropped", 2), known("asked", 3)])
    asked = states.get(b"asked")
    assert asked is not None
    asked.asked = 5
    torn(states, "kept")
    states.take_over(FileStates([known("kept", 4, size=20), known("new", 5)]))
    assert {state.target.path for state in states} == {b"kept", b"asked", b"new"}
    assert (states.list_unreadable(), states.rest(), asked.signature) == ([], 0, None)
    kept = states.get(b"kept")
    assert kept is not None
    assert kept.read == 20
    assert [states.has_inode(ino) for ino in range(1, 6)] == [False, False, False, True, True]


def test_a_state_takes_little_memory() -> None:
    """A hundred thousand files are forty megabytes at most, with their names."""
    count = 10_000
    tracemalloc.start()
    try:
        states = FileStates(known(f"/root/some/project/2026-03-01T09-00-00_{n}.jsonl", 1000 + n) for n in range(count))
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(states) == count
    assert size / count < 1000


def test_rows_of_an_index_share_what_is_the_same() -> None:
    """Each comes with strings of its own."""
    one, other = (msgspec.structs.replace(known(name), root="".join(("/", "root"))) for name in ("one", "other"))
    assert one.root is not other.root
    first, second = FileStates([one, other])
    assert first.target.root is second.target.root


def test_the_others_are_named_in_order() -> None:
    """Of what a sweep has not seen."""
    states = FileStates(known(name) for name in ("three", "one", "two"))
    assert [state.target.path for state in states.list_others({b"two", b"four"})] == [b"one", b"three"]


def test_what_looks_cost_is_paid_for_with_rests() -> None:
    """All together have a fifth of a core; after a while without any, the first few are not waited for."""
    state, rests = FileState(Target(b"a", "/root", "gemini")), list[float]()
    now, cost_s, spent_s = 1000.0, 0.6, 0.0
    for began in (1000.0, 2000.0):
        now, spent_s = max(now, began), 0.0
        rests.clear()
        for _ in range(50):
            now, spent_s = max(now, state.rest_until) + cost_s, spent_s + cost_s
            state.begin_rest(now, cost_s)
            rests.append(round(state.rest_until - now, 3))
            assert spent_s <= (state.rest_until - began + CREDIT_S) / PRICE + 1e-6
        assert rests[:3] == [REST_S] * 3
        assert set(rests[5:]) == {round((PRICE - 1) * cost_s, 3)}
    state.begin_rest(now + 100, 0.01)
    assert state.rest_until == now + 100 + REST_S

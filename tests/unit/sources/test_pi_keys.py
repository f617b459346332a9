"""A record has the same key in each file that holds a copy of it, and no other record has it."""

from pathlib import PurePath

from sesamed.model import Message, ToolCall
from sesamed.sources.pi import Pi
from tests.support.sessions import Call, PiSession

PI = Pi()
OLD = "2025-11-20T10:00:00.000Z"


def keys(session: PiSession) -> list[int]:
    """The keys of the records, in order."""
    state, _ = PI.begin(PurePath(session.file_name))
    found: list[int] = []
    for line in session.lines():
        state, operations = PI.step(state, line)
        found += [operation.key for operation in operations if isinstance(operation, Message | ToolCall)]
    return found


def talk(session: PiSession) -> PiSession:
    """Some of everything that can be copied."""
    return (
        session.user("why?")
        .assistant("I look.", [Call("bash", {"command": "ls"}, "a"), Call("bash", {"command": "ls"}, "b")])
        .result(Call("bash", id="a"), "x")
        .result(Call("bash", id="b"), "x")
        .result(Call("bash", id="lost"), "x")
        .bash("make", "done")
        .message("hookMessage" if session.version < 3 else "custom", content="note")
        .compaction("It was looked at.")
        .assistant("Because.")
    )


def test_copies_in_a_fork_have_the_keys_of_their_originals() -> None:
    """A fork holds the same entries with the same ids and times."""
    parent = talk(PiSession(id="parent"))
    child = parent.fork(id="child").user("and then?")
    assert keys(child)[:-1] == keys(parent)
    assert keys(child)[-1] not in keys(parent)


def test_a_fork_in_the_middle_has_the_keys_of_what_it_copied() -> None:
    """The rest is its own."""
    parent = talk(PiSession(id="parent"))
    assert keys(parent.fork(id="child", at=2)) == keys(parent)[:4]


def test_a_rechained_copy_has_the_key_of_its_original() -> None:
    """A fork leaves labels out: the parent's id is no part of a key."""
    parent = PiSession(id="parent").user("a").entry("label", targetId="x", label="here").assistant("b")
    child = PiSession(id="child").raw(parent.lines()[1])
    child.raw(parent.lines()[3].replace(b'"parentId":"', b'"parentId":"f'))
    assert keys(child) == keys(parent)


def test_a_migration_keeps_the_keys_of_version_1() -> None:
    """Its entries had no ids, and each migration gives them others."""
    original = talk(PiSession(id="parent", start=OLD, version=1))
    child = original.fork(id="child")
    assert keys(original.migrated("x")) == keys(original)
    assert keys(child.migrated("y")) == keys(original)


def test_a_migration_keeps_the_keys_of_hook_messages() -> None:
    """Version 3 calls them custom."""
    old = PiSession(version=2).message("hookMessage", content="note")
    new = PiSession(version=3).message("custom", content="note")
    assert keys(old) == keys(new)


def test_no_two_records_of_a_session_share_a_key() -> None:
    """Not even two equal calls in one line."""
    found = keys(talk(PiSession()))
    assert len(found) == len(set(found)) == 9


def test_other_words_have_another_key() -> None:
    """Even under the same id and time, as in a file that was edited by hand."""
    assert keys(PiSession().user("one")) != keys(PiSession().user("two"))
    assert keys(PiSession().bash("ls", "one")) != keys(PiSession().bash("ls", "two"))
    calls = [[Call("ls", {"path": path}, "same")] for path in "ab"]
    assert keys(PiSession().assistant(calls=calls[0])) != keys(PiSession().assistant(calls=calls[1]))


def test_the_same_words_in_another_entry_have_another_key() -> None:
    """Ids and times tell them apart."""
    session = PiSession().user("again").user("again")
    assert len(set(keys(session))) == 2
    assert keys(PiSession(id="other").user("again")) != keys(PiSession().user("again"))


def test_keys_fit_sqlites_integers() -> None:
    """63 bits."""
    assert all(0 <= key < 1 << 63 for key in keys(talk(PiSession())))

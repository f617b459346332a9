"""Whatever was said: a fork shares with its parent what it copied, and nobody shares anything else."""

from pathlib import PurePath

from hypothesis import given
from hypothesis import strategies as st

from sesamed.model import Message, ToolCall
from sesamed.sources.codex import Codex
from tests.support.codex import CodexSession, Order

CODEX = Codex()
PARENT = "019e0000-0000-7000-8000-00000000000a"
CHILD = "019e0000-0000-7000-8000-00000000000b"

prompts = st.sampled_from(["go on", "why?", "go on ", ""])
orders: st.SearchStrategy[Order] = st.sampled_from(["item first", "event first", "item"])
answers = st.tuples(st.just("answer"), st.sampled_from(["I look.", "Done.", "go on"]))
calls = st.tuples(st.just("call"), st.sampled_from(["", "call_0", "call_0000000000000000"]))
more = st.sampled_from([("compacted", "sum"), ("back", "1"), ("back", "2"), ("shell", "ls")])
turns_of = st.lists(st.tuples(prompts, orders, st.lists(answers | calls | more, max_size=5)), min_size=1, max_size=4)
scripts = st.tuples(st.booleans(), turns_of)
Script = tuple[bool, list[tuple[str, Order, list[tuple[str, str]]]]]


def told(session: CodexSession, script: Script) -> CodexSession:
    """The session with what the script has; the first builds had no ids of turns."""
    has_turns, turns = script
    for prompt, order, parts in turns:
        if has_turns:
            session.turn()
        session.user(prompt, order)
        for kind, text in parts:
            tell(session, kind, text)
    return session


def tell(session: CodexSession, kind: str, text: str) -> None:
    """One thing that happens after a prompt."""
    if kind == "answer":
        session.assistant(text)
    elif kind == "call":
        session.call("shell", {"command": ["ls"]}, text).output("x", text)
    elif kind == "shell":
        session.said("user", f"<user_shell_command>\n<command>\n{text}\n</command>\n<result>\nx\n</result>")
    elif kind == "back":
        session.rolled_back(int(text))
    else:
        session.compacted(text)


def keys(session: CodexSession, until: int | None = None) -> list[int]:
    """The keys of the records in the first lines, in order."""
    state, _ = CODEX.begin(PurePath(session.file_name))
    found: list[int] = []
    for line in session.lines()[:until]:
        state, operations = CODEX.step(state, line)
        found += [operation.key for operation in operations if isinstance(operation, Message | ToolCall)]
    return found


@given(scripts)
def test_no_two_records_of_a_session_share_a_key(script: Script) -> None:
    """However often the same is said."""
    found = keys(told(CodexSession(id=PARENT), script))
    assert len(found) == len(set(found))


@given(scripts, st.data())
def test_a_fork_shares_what_it_copied_and_nothing_else(script: Script, data: st.DataObject) -> None:
    """Wherever it is made. Without ids of turns, its own first prompt must differ from its parent's next one."""
    parent = told(CodexSession(id=PARENT), script)
    at = data.draw(st.integers(1, len(parent.lines())))
    child = parent.fork(id=CHILD, at=at)
    if not script[0]:
        child.user("Something else.")
    told(child, (script[0], data.draw(turns_of)))
    copied = keys(parent, at)
    assert keys(child)[: len(copied)] == copied
    assert not set(keys(child)[len(copied) :]) & set(keys(parent))


@given(scripts)
def test_a_fork_of_a_fork_shares_all_of_it(script: Script) -> None:
    """It has the metas of all its ancestors."""
    child = told(CodexSession(id=PARENT), script).fork(id=CHILD).turn().user("and then?")
    assert keys(child.fork(id="grandchild")) == keys(child)


@given(scripts)
def test_a_subagents_copy_has_keys_of_its_parents(script: Script) -> None:
    """All that it was given: calls and other answers are left out."""
    parent = told(CodexSession(id=PARENT), script)
    assert set(keys(parent.fork(id=CHILD, subagent=True))) <= set(keys(parent))


@given(scripts, st.sampled_from([(PARENT, CHILD), ("a", "b"), ("a", "a")]))
def test_sessions_that_never_met_share_nothing(script: Script, ids: tuple[str, str]) -> None:
    """They say the same, begin alike, and may even have one id, if it is no UUID."""
    one = told(CodexSession(id=ids[0]), script)
    other = told(CodexSession(id=ids[1], start="2026-04-01T09:00:00.000Z"), script)
    assert not set(keys(one)) & set(keys(other))


@given(scripts)
def test_the_files_of_a_reverted_thread_share_nothing(script: Script) -> None:
    """What was taken back may be said again, word for word."""
    one = told(CodexSession(id=PARENT), script)
    other = told(CodexSession(id=PARENT, rollout=CHILD, start="2026-04-01T09:00:00.000Z"), script)
    assert not set(keys(one)) & set(keys(other))


@given(scripts)
def test_files_that_lost_their_beginning_share_nothing(script: Script) -> None:
    """Even under one name."""
    one = told(CodexSession(id="x"), script)
    other = told(CodexSession(id="x", start="2026-04-01T09:00:00.000Z"), script)
    for session in (one, other):
        del session._lines[0]
    assert not set(keys(one)) & set(keys(other))

"""Kimi's sessions, of Kimi CLI and of Kimi Code: each message once, whoever says it, and what stands beside them."""

from collections.abc import Iterable
from typing import Any

import pytest

from sesamed.model import Entry, Fact, Identity, Message, NameRank, Operation, ToolCall, Undone, Unknown
from sesamed.source import BadLineError, ForeignFileError, ShapeFinder
from sesamed.sources.kimi import Kimi
from tests.support.kimi import WORKSPACE, KimiCliSession, KimiSession
from tests.support.operations import facts, keys, read_items, records, results
from tests.support.sessions import Call, encoded

KIMI = Kimi()
LS = Call("Bash", {"command": "ls"}, "call_1")
OLD_LS = Call("Shell", {"command": "ls"}, "call_1")


def read(lines: Iterable[bytes], path: str) -> list[Operation]:
    """What a file's lines say."""
    return read_items(KIMI, lines, path)


def of(session: KimiSession | KimiCliSession) -> list[Operation]:
    """What a session's file says."""
    return read(session.lines(), session.path)


def told(said: list[Operation]) -> list[tuple[str, str]]:
    """Who said what, and what was called."""
    return [(one.role, one.text if isinstance(one, Message) else one.name) for one in records(said)]


def test_each_message_is_there_once() -> None:
    """Kimi Code writes it up to three times."""
    session = KimiSession().user("Which wren?").answer("hm", "think").answer("I look.").call(LS)
    session.result(LS, "no", error=True).answer("None.").entry("usage.record").entry("novel.thing").event("novel")
    said = of(session)
    assert told(said) == [
        ("user", "Which wren?"),
        ("assistant", "I look."),
        ("assistant", "Bash"),
        ("assistant", "None."),
    ]
    assert results(said) == [("no", True)]
    assert facts(said, "name") == [("Which wren?", NameRank.PROMPT)]
    assert facts(said, "cwd") == [("/home/me/birds", 0)]
    assert [one.type for one in said if isinstance(one, Unknown)] == ["novel.thing", "context.append_loop_event/novel"]
    assert all(one.time_ms for one in records(said))


def test_kimi_cli_says_the_same() -> None:
    """With other words; how a failed command ended is told beside what it wrote. It began with its first line."""
    session = KimiCliSession().user("Which wren?").answer("I look.").call(OLD_LS)
    session.result(OLD_LS, "no\n", "Command failed with exit code: 3.", error=True).answer("None.")
    session.call(OLD_LS).result(OLD_LS, "a wren\n", "Command executed successfully.").message("Novel")
    session.call(OLD_LS).result(OLD_LS, "", "Nothing was found.").message(
        "SteerInput", user_input=[{"type": "text", "text": "go"}]
    )
    session.message("BtwBegin", id="b", question="and the tit?").message("BtwEnd", id="b", response="here")
    said = of(session)
    assert told(said) == [
        ("user", "Which wren?"), ("assistant", "I look."), ("assistant", "Shell"), ("assistant", "None."),
        ("assistant", "Shell"), ("assistant", "Shell"), ("user", "go"), ("user", "and the tit?"), ("assistant", "here"),
    ]  # fmt: skip
    assert results(said) == [
        ("no\nCommand failed with exit code: 3.", True),
        ("a wren\n", False),
        ("Nothing was found.", False),
    ]
    assert [one.type for one in said if isinstance(one, Unknown)] == ["message/Novel"]
    assert [one.arguments for one in said if isinstance(one, ToolCall)] == [b'{"command":"ls"}'] * 3
    assert facts(said, "began") == [("1772355601000", 0)]


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ({"kind": "user"}, ["raw"]),
        ({"kind": "skill_activation", "trigger": "user-slash", "skillName": "plum", "skillArgs": "all"}, ["/plum all"]),
        ({"kind": "plugin_command", "commandName": "pear", "trigger": "user-slash"}, ["/pear"]),
        ({"kind": "system_trigger", "name": "subagent"}, ["raw"]),
        ({"kind": "skill_activation", "trigger": "model-tool", "skillName": "plum"}, []),
        ({"kind": "system_trigger", "name": "goal"}, []),
        ({"kind": "injection", "variant": "date_change"}, []),
        ({"kind": "background_task", "status": "completed"}, []),
        ({"kind": "novel"}, []),
    ],
)
def test_a_prompt_is_what_the_person_said(origin: dict[str, Any], said: list[str]) -> None:
    """A command as it was typed, and not what it stands for."""
    found = of(KimiSession().user("raw", **origin))
    assert [one.text for one in found if isinstance(one, Message) and one.prompt] == said


def test_a_subagents_task_is_what_it_was_told() -> None:
    """Without what stands before it on the repository."""
    told_both = "<git-context>\nBranch: orchard\n</git-context>\n\nCount the pears"
    said = of(KimiSession(agent="agent-0").user(told_both, "system_trigger", name="subagent"))
    assert (told(said), facts(said, "name")) == ([("user", "Count the pears")], [("Count the pears", NameRank.PROMPT)])


def test_our_own_tools_are_hidden() -> None:
    """Under whatever server's name."""
    call = Call("mcp__sesame__search_sessions", {"query": "x"}, "c")
    (found,) = (one for one in of(KimiSession().call(call)) if isinstance(one, ToolCall))
    assert found.hidden


def test_what_was_imported_is_another_sessions() -> None:
    """It is found there."""
    assert told(of(KimiSession().user("<system>The user has imported context from x. Note:</system>\nlong"))) == []


def test_a_command_of_the_persons() -> None:
    """It is a call, once its output is there."""
    session = KimiSession().user("<bash-input>\nls &lt;x&gt;\n</bash-input>", "shell_command", phase="input")
    assert records(of(session)) == []
    said = of(
        session.user(
            "<bash-stdout>a &amp; b</bash-stdout><bash-stderr>c</bash-stderr>",
            "shell_command",
            phase="output",
            isError=True,
        )
    )
    (call,) = (one for one in said if isinstance(one, ToolCall))
    assert (call.role, call.name, call.arguments, call.output, call.is_error) == (
        "user", "Bash", b'{"command":"ls <x>"}', "a & b\nc", True,
    )  # fmt: skip


def test_a_command_without_end_is_kept_in_part() -> None:
    """Until its output comes it stands in the state, which is stored with each commit."""
    session = KimiSession().user(f"<bash-input>\n{'x' * 99_000}\n</bash-input>", "shell_command", phase="input")
    said = of(session.user("<bash-stdout>a</bash-stdout>", "shell_command", phase="output"))
    (call,) = (one for one in said if isinstance(one, ToolCall))
    assert 30_000 < len(call.arguments) < 33_000


def test_what_was_taken_back_is_marked() -> None:
    """The last prompts; those before the conversation began anew cannot be."""
    session = KimiSession().user("one").answer("a").user("two").user("three").entry("context.undo", count=2)
    session.user("four").entry("context.clear").entry("context.undo", count=1)
    said = of(session)
    texts = {one.key: one.text for one in said if isinstance(one, Message)}
    assert [texts[one.key] for one in said if isinstance(one, Undone)] == ["two"]


def test_a_compaction() -> None:
    """Its summary is one."""
    said = of(
        KimiSession().entry("context.apply_compaction", summary="about wrens", contextSummary="prefix").user("go on")
    )
    assert told(said) == [("summary", "about wrens"), ("user", "go on")]


def test_a_fork_has_the_keys_of_its_original() -> None:
    """In both: the lines are copied as they are. What stands beside it says whose it is, and when it began."""
    parent = KimiSession().user("one").answer("a").call(LS).result(LS, "x")
    child = parent.forked("session_2").user("two")
    assert keys(of(child))[:-1] == keys(of(parent))
    said = read(
        [child.state(title="Fork: session_1", titleKind="replaceable", forkedFrom=parent.id, createdAt=1772355700000)],
        f"{WORKSPACE}/session_2/state.json",
    )
    assert (facts(said, "parent_id"), facts(said, "began"), facts(said, "name")) == (
        [(parent.id, 0)],
        [("1772355700000", 1)],
        [],
    )
    old = KimiCliSession().user("one").answer("a").call(OLD_LS)
    copy = KimiCliSession(id="copy")
    copy._lines = old.lines()
    assert keys(of(copy)) == keys(of(old))


def test_agents_that_work_for_a_session() -> None:
    """They are numbered within it."""
    said = of(KimiSession(id="s", agent="agent-0").user("count", "system_trigger", name="subagent"))
    assert said[0] == Identity(native_id="s-agent-0", origin="")
    assert (facts(said, "subagent"), facts(said, "parent_id")) == ([("1", 0)], [("s", 0)])
    said = of(KimiCliSession(id="s", agent="a1").user("count"))
    assert (said[0], facts(said, "parent_id")) == (Identity(native_id="s-a1", origin=""), [("s", 0)])
    agents = {"main": {"type": "main"}, "agent-0": {"parentAgentId": "main"}, "agent-1": {"parentAgentId": "agent-0"}}
    said = read([KimiSession(id="s").state(agents=agents)], f"{WORKSPACE}/s/state.json")
    assert [(one.native_id, one.field, one.value) for one in said if isinstance(one, Fact)] == [
        ("s", "cwd", "/home/me/birds"),
        ("s-agent-0", "cwd", "/home/me/birds"),
        ("s-agent-1", "cwd", "/home/me/birds"),
        ("s-agent-1", "parent_id", "s-agent-0"),
    ]
    said = read([b'{"agent_id": "a1", "description": "Count pears"}'], "0123/s/subagents/a1/meta.json")
    assert [(one.native_id, one.value) for one in said if isinstance(one, Fact) and one.field == "name"] == [
        ("s-a1", "Count pears")
    ]


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({"title": "Mine", "isCustomTitle": True}, [("Mine", NameRank.RENAMED)]),
        ({"title": "Mine", "titleKind": "custom"}, [("Mine", NameRank.RENAMED)]),
        ({"title": "made", "titleKind": "generated"}, [("made", NameRank.TITLED)]),
        ({"title": "the first prompt", "isCustomTitle": False}, []),
        ({"custom_title": "named", "title_generated": True}, [("named", NameRank.TITLED)]),
        ({"custom_title": "the first prompt", "title_generated": False}, []),
        ({"title": 7, "titleKind": "custom", "agents": [1]}, []),
    ],
)
def test_titles(state: dict[str, Any], names: list[tuple[str, NameRank]]) -> None:
    """A first prompt is no title."""
    assert facts(read([encoded(state).encode()], "x/s/state.json"), "name") == names


def test_where_sessions_ran() -> None:
    """Kimi CLI's are known by the hash of their directory, Kimi Code's are listed."""
    session = KimiCliSession(cwd="/home/me/birds").user("x")
    (entry,) = (one for one in of(session) if isinstance(one, Entry))
    listed = {
        "work_dirs": [{"path": "/home/me/birds", "kaos": "local"}, {"path": "/far", "kaos": "ssh"}, {"kaos": "x"}]
    }
    here, far = (one for one in read([encoded(listed).encode()], "kimi.json") if isinstance(one, Fact))
    assert (here.value, here.entry) == ("/home/me/birds", entry.id)
    assert (far.value, (far.entry or "")[:4]) == ("/far", "ssh_")
    index = b'{"sessionId":"session_1","sessionDir":"/h/s","workDir":"/home/me/birds"}'
    (found,) = read([index, b'{"sessionId":"session_2"}'], "session_index.jsonl")
    assert found == Fact(field="cwd", value="/home/me/birds", keep="last", native_id="session_1")


@pytest.mark.parametrize("path", ["x/s/state.json", "kimi.json", "x/s/subagents/a/meta.json"])
@pytest.mark.parametrize("document", [b"", b"[]", b"{", b'{"title": "x'])
def test_half_a_document_says_nothing(path: str, document: bytes) -> None:
    """What was read before stays."""
    with pytest.raises(BadLineError):
        read([document], path)


def test_which_files_are_read() -> None:
    """Not the context, which is rewritten."""
    find = ShapeFinder(KIMI.shapes).find
    lines, beside, index = KIMI.shapes
    for name in ("h/s/wire.jsonl", "h/s/subagents/a/wire.jsonl", "w/s/agents/main/wire.jsonl"):
        assert find(name.encode()) is lines
    for name in ("h/s/state.json", "h/s/subagents/a/meta.json", "../kimi.json"):
        assert find(name.encode()) is beside
    assert find(b"../session_index.jsonl") is index
    for name in ("h/s/context.jsonl", "w/s/notify/state.json", "w/s/agents/main/state.json"):
        assert find(name.encode()) is None
    for foreign in (b'{"a": 1}', b'{"type": "session", "id": "x"}', b'{"role": "user"}'):
        with pytest.raises(ForeignFileError):
            read([foreign], "h/s/wire.jsonl")

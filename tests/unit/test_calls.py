"""What the arguments of a tool call say."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesamed.calls import (
    MAX_DEPTH,
    call_text,
    decode_arguments,
    find_touched,
    is_own_call,
    mend_call_text,
    runs_client,
    value_text,
)

MUCH = 1 << 20


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"command": "ls -l", "script": "a\nb", "n": 3, "all": True}, "command: ls -l\nscript:\na\nb\nn: 3\nall: true"),
        (
            {"path": "a.py", "edits": [{"oldText": "first\nzebrafish = 1\n\tquokka()\n", "newText": "wombat"}, {"oldText": ""}]},
            "path: a.py\nedits[0].oldText:\nfirst\nzebrafish = 1\n\tquokka()\n\nedits[0].newText: wombat\nedits[1].oldText: ",
        ),
        ({"command": ["bash", "-lc", "ls -l | wc"], "timeout": 5}, "command: bash -lc ls -l | wc\ntimeout: 5"),
        ({"command": ["bash", "-lc", "cat <<E\nemu\nE"]}, "command:\nbash -lc\ncat <<E\nemu\nE"),
        ({"x": {"args": ["a", 1]}}, "x.args: a 1"),
        ({"files": ["a.py", "b.py"]}, "files:\na.py\nb.py"),
        ({"list": ["x", {"y": None}], "numbers": [1, 2.5, None]}, "list[0]: x\nlist[1].y: null\nnumbers: [1,2.5,null]"),
        ({"none": [], "empty": {}, "nothing": None}, "none: []\nempty: {}\nnothing: null"),
    ],
)  # fmt: skip
def test_a_call_is_a_text_that_can_be_searched(arguments: dict[str, Any], text: str) -> None:
    """One argument a line, with its name; what has lines of its own stands below it, also where it is nested."""
    assert call_text("bash", arguments, MUCH) == f"tool: bash\n{text}"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
def test_every_string_stands_in_the_text_as_it_is(arguments: dict[str, Any]) -> None:
    """Wherever it stands; nothing is escaped."""
    text = call_text("x", arguments, MUCH)

    def check(value: object) -> None:
        if isinstance(value, str):
            assert value in text
        elif isinstance(value, list | dict):
            for item in value.values() if isinstance(value, dict) else value:
                check(item)

    check(arguments)


def test_what_is_nested_too_deep_is_json() -> None:
    """Nobody's tool takes such arguments."""
    value: Any = "x"
    for _ in range(400):
        value = [value, 1]
    line = call_text("x", {"a": value}, MUCH).split("\n")[1]
    assert line.startswith("a" + "[0]" * MAX_DEPTH + ": [[")


@pytest.mark.parametrize(
    "value", [[{"a": "b"}] * 300_000, [["a", []]] * 300_000, {str(n): "b" for n in range(300_000)}]
)
def test_the_work_is_bounded_by_the_limit(value: Any) -> None:
    """A name may be as long as what it names is often."""
    begun = time.process_time()
    assert len(call_text("x", {"k" * 10_000: value}, 100_000)) < 200_000
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("arguments", [b"null", b"{", b"\xff", b"[" * 5000])
def test_arguments_that_are_nothing_are_kept_as_they_are(arguments: bytes) -> None:
    """Odd ones are found all the same."""
    assert decode_arguments(arguments) == {"arguments": arguments.decode("utf-8", "replace")}


@pytest.mark.parametrize("value", ["two\nlines", ["a", "b"], [1], 7])
def test_arguments_that_are_no_object_are_one_argument(value: object) -> None:
    """The text of a string, not its JSON."""
    assert decode_arguments(msgspec.json.encode(value)) == {"arguments": value}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (" as it is\n", " as it is\n"),
        ({"error": {"message": "no\nzebra", "code": 3}}, "error.message:\nno\nzebra\nerror.code: 3"),
        ([{"a": "b"}, "c"], "[0].a: b\n[1]: c"),
        (["a", " b"], "a\n b"),
        ([" a"], " a"),
        (7, "7"),
    ],
)
def test_a_result_that_is_a_value(value: object, text: str) -> None:
    """Text as well."""
    assert value_text(value) == text


# -- as older versions wrote them


def as_before(name: str, arguments: dict[str, Any]) -> str:
    """With JSON for all that is no string."""
    lines = [f"tool: {name}"]
    for key, value in arguments.items():
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        lines.append(f"{key}:\n{text}" if "\n" in text else f"{key}: {text}")
    return "\n".join(lines)


WORDS = st.text('ab \t"\\{}[]', max_size=6)
NAMES = st.sampled_from(["path", "edits", "command", "x"])
CERTAIN = st.dictionaries(
    NAMES,
    st.integers()
    | st.booleans()
    | st.lists(st.dictionaries(NAMES, WORDS | st.just("a\nb"), max_size=2) | WORDS, max_size=3),
)


@given(CERTAIN, st.none() | st.text('ab: {}[]\n"'))
def test_an_older_text_becomes_what_is_written_today(arguments: dict[str, Any], content: str | None) -> None:
    """Up to an argument with several lines, whatever those say."""
    if content is not None:
        arguments = {**arguments, "content": f"\n{content}"}
    assert mend_call_text(as_before("edit", arguments))[0] == call_text("edit", arguments, MUCH)


@pytest.mark.parametrize(
    "text",
    [
        "tool: bash",
        "tool: bash\ncommand: [ -f x ] && echo",
        'tool: bash\ncommand: {"a": 1}',  # not as it was written by us
        'tool: write\ncontent:\nname: x\nports: ["80"]',
        'tool: write\ncontent: ["a\n[… 5 more characters are in the session file]',
        "tool: write\npath: [",
        "tool: write\nodd",
        "",
    ],
)
def test_what_is_not_certain_stays(text: str) -> None:
    """A text of several lines may say anything."""
    assert mend_call_text(text)[0] == text


def test_an_older_text_stays_bounded() -> None:
    """Where the names of what is nested would make it a thousand times as long, it stays as it is."""
    text = as_before("x", {"k" * 100_000: [{"a": "b"}] * 10_000})
    assert mend_call_text(text)[0] == text


def test_the_arguments_of_an_older_text() -> None:
    """Those that are certain, and the one behind them with all that follows."""
    text = 'tool: x\npath: a\nlist: ["b"]\ncmd:\nc\nd: e'
    assert mend_call_text(text)[1] == {"path": "a", "list": ["b"], "cmd": "c\nd: e"}


# -- touched files

PATCH = """*** Begin Patch
*** Update File: src/a.lua
*** Move to: src/b.lua
@@
--- a comment that goes
+++ no
"""
DIFF = """--- a/old.c\t2026-01-01
+++ b/new.c
@@ -1,2 +1,2 @@
--- a comment that goes
+-- another comment
+*** Add File: no.py
--- /dev/null
+++ x/y.txt\t2026-01-01
"""
SHELL_PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-*** Add File: no.py
+--- a/no.c
*** Move to: src/b.py
*** Add File: /abs/c.py
*** Delete File: d.py
*** End Patch"""
PATCHED = ["/w/src/a.py", "/w/src/b.py", "/abs/c.py", "/w/d.py"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"path": "src/a.py"}, ["/w/src/a.py"]),
        ({"file_path": "/abs/a.py", "other": "/no.py"}, ["/abs/a.py"]),
        ({"absolute_path": "/abs/a.py"}, ["/abs/a.py"]),  # of older tools of Gemini CLI
        ({"path": "./x/../a.py"}, ["/w/a.py"]),
        ({"path": "~/a.py"}, ["/home/me/a.py"]),
        ({"path": "~you/a.py"}, ["/w/~you/a.py"]),
        ({"files": ["a", "b", 3]}, ["/w/a", "/w/b"]),
        ({"files": [{"path": "a"}, {"other": "b"}]}, ["/w/a"]),
        ({"patch": PATCH}, ["/w/src/a.lua", "/w/src/b.lua"]),
        ({"patch": DIFF}, ["/w/old.c", "/w/new.c", "/w/x/y.txt"]),
        ({"diff": DIFF.replace("\n", "\r\n")}, ["/w/old.c", "/w/new.c", "/w/x/y.txt"]),
        ({"input": f"await tools.apply_patch(`{PATCH}`)"}, ["/w/src/a.lua", "/w/src/b.lua"]),
        ({"command": "cat /etc/passwd"}, []),
        ({"path": ""}, []),
        ({"path": "a\nb"}, []),
        ({"path": 3, "files": {"path": None}}, []),
        ({"path": "x" * 5000}, []),
        ({"files": [f"f{number}" for number in range(100)]}, [f"/w/f{number}" for number in range(64)]),
        ({"path": "C:\\a\\b.ts"}, ["C:\\a\\b.ts"]),
        ({"path": "C:/a/../b.ts"}, ["C:\\b.ts"]),
        ({"command": ["apply_patch", SHELL_PATCH]}, PATCHED),
        ({"command": ["bash", "-lc", f"cd x && apply_patch <<'EOF'\n{SHELL_PATCH}\nEOF\nls"]}, PATCHED),
        ({"cmd": f"apply_patch <<'PATCH'\n{SHELL_PATCH}\nPATCH"}, PATCHED),
        ({"cmd": f"apply_patch '{SHELL_PATCH}'"}, PATCHED),
        ({"cmd": f"apply_patch <<E\r\n{SHELL_PATCH}\r\nE".replace("\n", "\r\n")}, PATCHED),
        ({"cmd": "apply_patch <<E\n*** Begin Patch\n*** Add File: a.py\n+x"}, ["/w/a.py"]),
        ({"command": "echo '*** Add File: a.py'; git apply <<E\n--- a/x.c\n+++ b/x.c\nE"}, []),
        ({"command": ["grep", "*** Begin Patch", "*** Add File: a.py"]}, []),
        ({"command": f"python3 - <<'EOF'\ntext = \"\"\"\n{SHELL_PATCH}\n\"\"\"\nEOF"}, []),  # of a test, say
        ({"content": SHELL_PATCH}, []),
    ],
)  # fmt: skip
def test_touched_files_come_from_path_arguments_and_patch_headers(
    arguments: dict[str, object], expected: list[str]
) -> None:
    """Absolute against the session's directory; never guessed from other shell text."""
    assert list(find_touched(arguments, "/w", "/home/me")) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src\\b.ts", "C:\\p\\src\\b.ts"),
        ("src/b.ts", "C:\\p\\src\\b.ts"),
        ("..\\b.ts", "C:\\b.ts"),
        ("D:\\b.ts", "D:\\b.ts"),
        ("\\\\server\\share\\b.ts", "\\\\server\\share\\b.ts"),
        ("/tmp/b.ts", "/tmp/b.ts"),  # a shell's
    ],
)
def test_a_session_on_windows(path: str, expected: str) -> None:
    """Its paths are absolute in that way."""
    assert list(find_touched({"path": path}, "C:\\p", "/home/me")) == [expected]


@pytest.mark.parametrize(
    "text", ["*** Begin Patch\n", "'*** Begin Patch", "*** Begin Patch \t", "*** Begin Patch\n*** Add File: "]
)
def test_looking_for_patches_takes_time_in_proportion(text: str) -> None:
    """Patches that never end are read once."""
    begun = time.process_time()
    list(find_touched({"command": text * 100_000}, "/w", "/home/me"))
    assert time.process_time() - begun < 2


@pytest.mark.parametrize(
    "command",
    [
        "sesamectl search basket",
        "  sesamectl search basket",
        "cd /tmp && sesamectl search basket",
        "cd /tmp;sesamectl search basket",
        "echo a | sesamectl search -",
        "x=$(sesamectl search basket)",
        'echo "found: $(sesamectl search basket)"',
        'echo "`sesamectl status`"',
        "(sesamectl status)",
        "ls\nsesamectl status",
        "/usr/local/bin/sesamectl status",
        "./sesamectl status",
        '"$HOME/.local/bin/sesamectl" status',
        "SESAME_SOCKET=/tmp/s sesamectl status",
        "A='b c' sesamectl status",
        "env -i sesamectl status",
        "sudo sesamectl status",
        "timeout 5s sesamectl status",
        "sudo \\\n  sesamectl status",
        "uv run sesamectl status",
        "python3 -m sesamectl status",
        "for q in a b; do sesamectl search $q; done",
        "if sesamectl status; then ls; fi",
        "bash -lc 'sesamectl search basket'",
        "sh -e -c 'sesamectl search basket'",
        "cat <<EOF | sesamectl search -\nbasket\nEOF",
        "sesamectl",
        "sesamectl>out",
    ],
)
def test_a_command_that_runs_the_client_is_ours(command: str) -> None:
    """Wherever in the command a program can stand."""
    assert runs_client(command)


@pytest.mark.parametrize(
    "command",
    [
        "grep sesamectl README.md",
        "grep -c 'sesamectl search' README.md",
        "cat sesamectl/cli.py",
        "sesamectl/cli.py",
        "ls; cat sesamectl/cli.py",
        "which sesamectl",
        "command -v sesamectl",
        "git commit -m 'mend it; sesamectl waits'",
        'git commit -m "mend it\nsesamectl waits"',
        "cat > notes.md <<'EOF'\nsesamectl search\nEOF\nls",
        "cat > notes.md <<'EOF'\nsesamectl search\nEOFs\n EOF\nls",
        "cat <<A <<B\nsesamectl\nB\nsesamectl\nA\nls",
        "ls # then | sesamectl status",
        "# sesamectl status",
        "echo a\\;sesamectl",
        "sesamectl_old status",
        "sesamectl.py",
        "my-sesamectl status",
        "pip install sesamectl",
        "",
    ],
)
def test_a_command_that_mentions_the_client_is_not(command: str) -> None:
    """It is somebody's work on it."""
    assert not runs_client(command)


@pytest.mark.parametrize(
    "name", ["search_sessions", "read_session", "list_sessions", "query_session", "sesame_query_session"]
)
def test_our_tools_are_ours(name: str) -> None:
    """Whatever their arguments."""
    assert is_own_call(name, b"[]")


@pytest.mark.parametrize(
    "name",
    ["mcp__sesame__search_sessions", "mcp__sesame.read_session", "mcp_sesame_get_session_meta", "sesame-query_session"],
)
def test_our_tools_are_ours_however_an_agent_joins_the_servers_name(name: str) -> None:
    """As Claude Code, Codex, Gemini CLI and Copilot write it."""
    assert is_own_call(name, b"{}")
    assert not is_own_call(f"{name}s", b"{}")
    assert not is_own_call(name.replace("sesame", "tmux"), b"{}")


@pytest.mark.parametrize("arguments", [b'{"server":"sesame"}', b'{"server":"x","uri":"sesame://session/0199"}'])
def test_reading_our_resources_is_ours(arguments: bytes) -> None:
    """By a tool of the agent's own. Another server's are not, nor is what only mentions ours."""
    assert is_own_call("ReadMcpResourceTool", arguments)
    assert not is_own_call("ReadMcpResourceTool", arguments.replace(b"sesame", b"notes"))
    assert not is_own_call("grep", b'{"pattern":"sesame://"}')


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "sesamectl status"},
        {"cmd": "sesamectl status"},
        {"command": ["bash", "-lc", "cd /tmp && sesamectl status"]},
        {"command": ["sesamectl", "status"]},
        {"command": 7, "cmd": "sesamectl status"},
    ],
)
def test_a_command_may_be_given_in_many_ways(arguments: object) -> None:
    """Under two names, as a text or as words, whatever the tool is called."""
    assert is_own_call("shell", msgspec.json.encode(arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        b'{"query":"sesamectl status"}',
        b'{"command":["grep","sesamectl"]}',
        b'{"command":["grep","-c","sesamectl"]}',
        b'{"command":["sesamectl\\ud83d"]}',
        b'"sesamectl"',
        b'["sesamectl"]',
        b"sesamectl",
        b'{"command":null,"x":"sesamectl"}',
    ],
)
def test_other_arguments_are_not_ours(arguments: bytes) -> None:
    """Nor do odd ones do any harm."""
    assert not is_own_call("bash", arguments)


@pytest.mark.parametrize(
    "piece", ["\n", "<<a\n", "{a=", "'", '"', "\\", " -c ", ";sudo ", "`", "$(", "# ", "<<", "-ccc", "a/"]
)
def test_a_hostile_command_costs_little(piece: str) -> None:
    """Its length is bounded, and so is the time for each character."""
    began = time.process_time()
    runs_client(piece * 100_000 + "sesamectl")
    assert time.process_time() - began < 1

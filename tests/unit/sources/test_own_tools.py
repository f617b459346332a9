"""Which calls are searches of ours."""

import time

import msgspec
import pytest

from sesamed.sources.own_tools import is_own_call, runs_client


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


@pytest.mark.parametrize("name", ["search_sessions", "read_session", "list_sessions"])
def test_our_tools_are_ours(name: str) -> None:
    """Whatever their arguments."""
    assert is_own_call(name, b"[]")


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

"""Completions in the shells themselves, with a real daemon for the sessions; and the manual page in man(1) itself."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamectl import flags
from sesamectl.completions import TOP, script
from sesamectl.man import page
from tests.support.daemon import CODE, Daemon, surroundings
from tests.support.sessions import PiSession
from tests.support.terminal import Terminal

BASH = """
source {script}
COMP_TYPE={kind} COMP_WORDS=({words}) COMP_CWORD={index} COMPREPLY=()
_sesamectl
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
zmodload zsh/zpty
zpty inner zsh -f -i
zpty -w inner 'PS1="> " COLUMNS=200; unsetopt beep; autoload -Uz compinit && compinit -u -D; source {script}; print REA''DY'
while zpty -r inner line; do [[ $line = *READY* && $line != *print* ]] && break; done
zpty -w -n inner {typed!r}$'\\t'
zpty -w -n inner $'\\C-a print -r -- "<' && zpty -w inner $'\\C-e>" # END'
while zpty -r inner line; do [[ $line = '<'* ]] && print -r -- $line && break; done
zpty -d inner
"""


# It would complete nothing where an answer takes half a second, as it may on a busy machine.
PATIENT = """
import sys
from sesamectl.cli import main
from sesamectl.commands import completions
completions.TIMEOUT_S = 120.0
sys.exit(main(sys.argv[1:]))
"""
COLYSEUS = {"cccc-1": "Colyseus rooms", "cccc-2": "Colyseus state", "dddd-1": "The colyseus client"}
IDS = {"aaaa-111", "bbbb-222", *COLYSEUS}  # as short as they may be
BACK = "\b"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Some sessions with names, and one without."""
    with Daemon() as running:
        running.write("a.jsonl", PiSession(id="aaaa-1111").user("please").name("Confirm button refactor").bytes())
        running.write("b.jsonl", PiSession(id="bbbb-2222").user("nothing of the kind").bytes())
        for id_, name in COLYSEUS.items():
            running.write(f"{id_}.jsonl", PiSession(id=id_).user("a game").name(name).bytes())
        running.sync()
        patient = running.home / "programs/sesamectl"
        patient.parent.mkdir()
        patient.write_text(f"#!{sys.executable}\n{PATIENT}")
        patient.chmod(0o700)
        yield running


def environ(daemon: Daemon) -> dict[str, str]:
    """That of a shell: it finds sesamectl and the daemon as a person's would."""
    return {
        **surroundings(), "PATH": f"{daemon.home / 'programs'}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(daemon.home), "LANG": "C.UTF-8", "TERM": "dumb", "SESAME_SOCKET": daemon.socket, "PYTHONPATH": os.pathsep.join(CODE),
    }  # fmt: skip


def in_shell(daemon: Daemon, *words: str) -> list[str]:
    """What a shell prints."""
    ran = subprocess.run(words, env=environ(daemon), cwd=daemon.directory, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    return ran.stdout.split("\n")[:-1]


def in_bash(daemon: Daemon, *words: str, kind: str = "9") -> set[str]:
    """What bash offers for the last word."""
    file = daemon.directory / "completions.bash"
    file.write_text(script("bash"))
    quoted = " ".join(f"'{word}'" for word in words)
    code = BASH.format(script=file, words=quoted, index=len(words) - 1, kind=kind)
    return set(in_shell(daemon, "bash", "--norc", "-c", code)) - {""}


def in_fish(daemon: Daemon, line: str) -> dict[str, str]:
    """What fish offers, with its descriptions."""
    file = daemon.directory / "completions.fish"
    file.write_text(script("fish"))
    lines = in_shell(daemon, "fish", "--no-config", "-c", f"source {file}; complete -C '{line}'")
    return {found.partition("\t")[0]: found.partition("\t")[2] for found in lines}


needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
needs_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
needs_fish = pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")


@needs_bash
def test_bash(daemon: Daemon) -> None:
    """bash completes commands, flags, values and sessions, these by id or by words of their name."""
    assert in_bash(daemon, "sesamectl", "") == {*flags.COMMANDS, *TOP}
    assert in_bash(daemon, "sesamectl", "sea") == {"search"}
    assert in_bash(daemon, "sesamectl", "search", "--so") == {"--sort", "--source"}
    assert in_bash(daemon, "sesamectl", "search", "--sort", "") == {"relevance", "recent"}
    assert in_bash(daemon, "sesamectl", "search", "--limit", "") == set()
    assert in_bash(daemon, "sesamectl", "search", "--cwd", "") == {"home", "sessions", "data", "run", "config"}
    assert in_bash(daemon, "sesamectl", "service", "un") == {"uninstall"}
    assert in_bash(daemon, "sesamectl", "show", "") == IDS
    assert in_bash(daemon, "sesamectl", "show", "bb") == {"bbbb-222"}
    assert in_bash(daemon, "sesamectl", "show", "bbbb-2222") == {"bbbb-2222"}
    assert in_bash(daemon, "sesamectl", "show", "Button-Refactor") == {"aaaa-111"}
    assert in_bash(daemon, "sesamectl", "forget", "bb") == {"bbbb-222"}
    assert in_bash(daemon, "sesamectl", "show", "zzz") == set()
    assert in_bash(daemon, "sesamectl", "show", "colyseus") == set()
    assert in_bash(daemon, "sesamectl", "show", "colyseus", kind="") == {*COLYSEUS, "colyseus"}  # as bash 3.2 asks
    listed = {f"{id_} ({name})" for id_, name in COLYSEUS.items()}
    assert in_bash(daemon, "sesamectl", "show", "colyseus", kind="63") == listed
    assert in_bash(daemon, "sesamectl", "search", "--exclude", "bb") == {"bbbb-222"}
    assert in_bash(daemon, "sesamectl", "search", "--exclude", "=", "bb") == {"bbbb-222"}
    assert in_bash(daemon, "sesamectl", "search", "--source", "") == {"pi", "sesame"}
    assert in_bash(daemon, "sesamectl", "search", "--source", "=") == {"pi", "sesame"}
    assert in_bash(daemon, "sesamectl", "search", "--role", "a") == {"assistant"}
    assert in_bash(daemon, "sesamectl", "search", "--tool", "e") == {"edit"}
    assert in_bash(daemon, "sesamectl", "help", "sea") == {"search"}


@needs_fish
def test_fish(daemon: Daemon) -> None:
    """fish completes the same, with what each one is."""
    assert in_fish(daemon, "sesamectl sea") == {"search": flags.COMMANDS["search"].summary}
    assert set(in_fish(daemon, "sesamectl ")) == {*flags.COMMANDS, "help", "version"}
    assert set(in_fish(daemon, "sesamectl help sea")) == {"search"}
    assert set(in_fish(daemon, "sesamectl search --source ")) == {"pi", "sesame"}
    assert set(in_fish(daemon, "sesamectl search --source=s")) == {"--source=sesame"}
    assert set(in_fish(daemon, "sesamectl search --exclude b")) == {"bbbb-222"}
    assert set(in_fish(daemon, "sesamectl search --role a")) == {"assistant"}
    assert set(in_fish(daemon, "sesamectl search --tool e")) == {"edit"}
    assert set(in_fish(daemon, "sesamectl search --so")) == {"--sort", "--source"}
    assert set(in_fish(daemon, "sesamectl search --sort ")) == {"relevance", "recent"}
    assert set(in_fish(daemon, "sesamectl service un")) == {"uninstall"}
    assert in_fish(daemon, "sesamectl show a") == {"aaaa-111": "Confirm button refactor"}


@needs_zsh
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("sesamectl sea", "search"), ("sesamectl search --sor", "--sort"), ("sesamectl service uni", "uninstall"),
     ("sesamectl search two words --sor", "--sort"), ("sesamectl search two words --role assi", "assistant"),
     ("sesamectl show bb", "bbbb-222"), ("sesamectl show refactor", "aaaa-111"), ("sesamectl help sea", "search"),
     ("sesamectl search --source se", "sesame"), ("sesamectl search --source=se", "--source=sesame"),
     ("sesamectl search --role assi", "assistant"), ("sesamectl search --tool ed", "edit"),
     ("sesamectl show -C 2 bb", "bbbb-222"),
     ("sesamectl search --exclude bb", "bbbb-222"), ("sesamectl search --exclude refactor", "aaaa-111")],
)  # fmt: skip
def test_zsh(daemon: Daemon, typed: str, completed: str) -> None:
    """zsh completes them where they are typed."""
    file = daemon.directory / "completions.zsh"
    file.write_text(script("zsh"))
    lines = in_shell(daemon, "zsh", "-f", "-c", ZSH.format(script=file, typed=typed))
    assert completed in lines[0].split(" # END")[0].replace(">", " ").split()


SHELLS = {
    "bash": ("bash --norc --noprofile -i", "PS1='> '; source {script}"),
    "zsh": ("zsh -f -i", "PS1='> '; autoload -Uz compinit && compinit -u -D; source {script}"),
}


def type_into(daemon: Daemon, shell: str, typed: str) -> tuple[str, str]:
    """The line that is there after somebody has typed this, and all that was shown meanwhile."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = daemon.directory / f"completions.{shell}"
    file.write_text(script(shell))
    command, prepare = SHELLS[shell]
    with Terminal(command.split(), environ(daemon), daemon.directory) as terminal:
        terminal.type(prepare.format(script=file) + "; echo REA''DY\r")
        terminal.wait_for("READY")
        terminal.type(f"{typed}\x01echo 'BEG''IN<\x05>E''ND'\r")  # they go to the beginning, and have the line echoed
        line = terminal.wait_for(r"BEGIN<(.*)>END")[1]
        return line, terminal.shown.partition("READY")[2]


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("sesamectl show colyseus\t", "sesamectl show colyseus"),
        (f"sesamectl show colyseus\t{BACK * 8}refactor\t", "sesamectl show aaaa-111"),
        ("sesamectl show rooms\t", "sesamectl show cccc-1"),
        ("sesamectl show cc\t", "sesamectl show cccc-"),
        ("sesamectl show zzz\t", "sesamectl show zzz"),
        ("sesamectl search --exclude game\t", "sesamectl search --exclude game"),
        ("sesamectl search --exclude=state\t", "sesamectl search --exclude=cccc-2"),
    ],
)
@pytest.mark.parametrize("shell", SHELLS)
def test_what_was_typed_stays(daemon: Daemon, shell: str, typed: str, line: str) -> None:
    """Until one session is meant: nobody has to type their word again."""
    assert type_into(daemon, shell, typed)[0].rstrip() == line


def test_several_are_listed(daemon: Daemon) -> None:
    """With their names: by bash with the second Tab, by zsh with the first; the next ones go through them."""
    for shell, typed in (("bash", "\t\t"), ("zsh", "\t")):
        line, shown = type_into(daemon, shell, f"sesamectl show colyseus{typed}")
        assert line == "sesamectl show colyseus"
        assert all(re.search(rf"{id_}  ?\(?{name}", shown) for id_, name in COLYSEUS.items()), shown
    chosen = [type_into(daemon, "zsh", "sesamectl show colyseus\t" + "\t" * more)[0] for more in (1, 2, 3)]
    assert {line.removeprefix("sesamectl show ").strip() for line in chosen} == set(COLYSEUS)


def test_no_daemon(daemon: Daemon) -> None:
    """Without a daemon there is nothing to complete, nothing is said, and nothing is started."""
    nowhere = {**environ(daemon), "SESAME_SOCKET": str(daemon.directory / "none")}
    for what in ("sessions", "sources"):
        command = [sys.executable, "-m", "sesamectl", "completions", what]
        ran = subprocess.run(command, env=nowhere, capture_output=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_flag_is_there(shell: str) -> None:
    """All commands and all their flags are in every script."""
    text = script(shell)
    for name, command in flags.COMMANDS.items():
        assert name in text
        for flag in command.flags:
            assert (f"-l {flag.name} " if shell == "fish" else f"--{flag.name}") in text
            assert not flag.short or (f" -s {flag.short}" if shell == "fish" else f"-{flag.short}") in text


@pytest.mark.skipif(shutil.which("man") is None, reason="man is not installed")
def test_the_manual_page(tmp_path: Path) -> None:
    """man shows every command and flag, and has nothing to complain about."""
    file = tmp_path / "sesamectl.1"
    file.write_text(page())
    plain = {**os.environ, "MANWIDTH": "100", "LANG": "C.UTF-8", "MAN_KEEP_FORMATTING": ""}
    ran = subprocess.run(["man", "--warnings", "-l", str(file)], env=plain, capture_output=True, text=True, check=False)
    if ran.returncode and "minimiz" in ran.stdout + ran.stderr:
        pytest.skip("this machine's man is a stub")
    assert (ran.returncode, ran.stderr) == (0, "")
    for name, command in flags.COMMANDS.items():
        assert f"   {name}" in ran.stdout
        for flag in command.flags:
            assert f"--{flag.name}" in ran.stdout

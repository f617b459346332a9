"""Commands and examples in documents are run, as they stand there, on a machine with the demo's sessions."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sesamectl import flags
from sesamectl.parse import parse
from tests.support.client import PATIENCE_S, Client
from tests.support.daemon import eventually
from tests.support.documents import PAGES, ROOT, Example, commands, examples, read
from tests.support.machine import Machine, is_ours

SAMPLES = {"pi": ".pi/agent/sessions", "claude": ".claude/projects/samples", "codex": ".codex/sessions"}

# Commands that are not run here, and why. What begins so is meant; each one stands in some document.
NOT_RUN = {
    "python3 -m venv .venv": "installs: .ci/run runs both lines of the README",
    "pipx": "installs: tests/integration/test_installers.py",
    "pi ": "needs pi: tests/pi/test_install.py",
    "mkdir -p ~/.agents": "with the line after it: test_the_skill_is_linked",
    "ln -s": "test_the_skill_is_linked",
    "rm -": "test_nothing_remains_after_uninstalling",
    "sesamectl service uninstall --purge": "test_nothing_remains_after_uninstalling",
    "sesamectl service": "needs a user manager: tests/systemd/test_documents.py",
    "sesamectl serve --http": "does not end: tests/integration/test_serve.py",
    "sesamectl remember --due --limit 20": "asks a model: tests/integration/test_remember.py",
    "sesamectl hub": "needs a PostgreSQL: tests/integration/test_hub_command.py",
    "sesamectl show 019e62c4:12 --hub": "needs a PostgreSQL: tests/integration/test_hub_asking.py",
    "sesamectl resume": "starts an agent: tests/unit/ctl/test_resume.py",
    "sesamectl forget 019b21 ": "asks in a terminal: tests/unit/ctl/test_resume.py",
    "sesamectl completions": "tests/integration/test_completions.py",
    "sesamectl man": "tests/integration/test_completions.py",
    ".venv/bin/python -m pytest": "this is it",
    "../.venv/bin/python -m pytest": "this is it",
    "node --test": "tests/pi/test_package.py",
    ".ci/": "runs this",
    "python -m bench": "takes minutes: test_benches_are_there, and tests/integration/test_bench.py",
}  # fmt: skip


def is_run(command: str) -> bool:
    return not command.startswith(tuple(NOT_RUN))


EXAMPLES = [example for page in PAGES for example in examples(page)]
RUN = [(page, command) for page in PAGES for command in commands(page) if is_run(command)]


class Newcomer(Machine):
    """A machine with the demo's sessions where their agents write them, and sesamectl on the PATH."""

    def __init__(self) -> None:
        super().__init__()
        self.home = self.place / "home"
        self.environ["PATH"] = os.pathsep.join((os.path.dirname(sys.executable), self.environ["PATH"]))
        self.environ["SESAME_RUNTIME_DIR"] = str(self.home / ".local/state/sesame/run")
        for variable in ("SESAME_DATA_DIR", "SESAME_CONFIG_DIR"):
            del self.environ[variable]
        self.data = self.home / ".local/share/sesame"
        for source, directory in SAMPLES.items():
            shutil.copytree(ROOT / "sesamectl/samples" / source, self.home / directory)

    def shell(self, command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Somebody types this."""
        return subprocess.run(
            ("bash", "-c", command), env=self.environ | environ, cwd=self.home, text=True, stdin=subprocess.DEVNULL,
            capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def newcomer() -> Iterator[Newcomer]:
    machine = Newcomer()
    try:
        machine.shell("sesamectl index")
        yield machine
    finally:
        machine.shell("sesamectl stop")
        machine.remove()


@pytest.fixture
def leaver() -> Iterator[Newcomer]:
    machine = Newcomer()
    try:
        yield machine
    finally:
        machine.shell("sesamectl stop")
        machine.remove()


@pytest.mark.parametrize(("page", "command"), RUN)
def test_a_command(newcomer: Newcomer, page: str, command: str) -> None:
    """It does what it is shown for, or at least does not fail."""
    if "| jq " in command and shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    done = newcomer.shell(f"set -o pipefail; {command}")
    assert done.returncode == 0, f"{page}: {command}: {done.stderr}"


def test_what_is_not_run_is_shown_somewhere() -> None:
    """The table of exceptions holds nothing that no document has."""
    shown = [command for page in PAGES for command in commands(page)]
    assert {begin for begin in NOT_RUN if not any(command.startswith(begin) for command in shown)} == set()


def test_every_block_has_a_language_that_is_tried() -> None:
    """But for drawings, and exchanges, which tests/unit/methods/test_protocol.py reads."""
    others = {(example.page, example.language) for example in EXAMPLES if not example.text.startswith("→ ")}
    assert {language for _, language in others} == {"sh", "bash", "python", "json", "jsonc", "toml", "sql", ""}
    assert {page for page, language in others if not language} == {"docs/architecture.md"}


@pytest.mark.parametrize(
    "example", [example for example in EXAMPLES if example.language == "python"], ids=lambda e: str(e.page)
)
def test_python(newcomer: Newcomer, example: Example) -> None:
    """It runs, and prints something."""
    done = newcomer.shell(f"{shlex.quote(sys.executable)} -W error -c {shlex.quote(example.text)}")
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def test_a_function_for_the_shell(newcomer: Newcomer) -> None:
    """It gives fzf a command whose lines begin with ids: here in the place of fzf, with a word of the query put in as fzf does."""
    (shown,) = (example.text for example in EXAMPLES if example.language == "bash")
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    stand_in = (
        """fzf() { for it in "$@"; do case $it in --bind=start:reload:*) bash -c "${it#*reload:}";; esac; done; }"""
    )
    done = newcomer.shell(f"{stand_in}\n{shown.replace('{q}', chr(39) + 'fla' + chr(39))}\nsesames")
    assert done.stdout.startswith("019b2100-0000-7000-8000-00000000a001\t2025-12-15\tpi\tSimplify Nix flake setup\t"), (
        done
    )


def test_settings(leaver: Newcomer) -> None:
    """The configuration that is shown is one, with every setting that there is."""
    (shown,) = (example.text for example in examples("docs/configuration.md") if example.language == "jsonc")
    (leaver.home / ".config/sesame").mkdir(parents=True)
    (leaver.home / ".config/sesame/config.jsonc").write_text(shown)
    done = leaver.shell("sesamectl config --json")
    assert done.returncode == 0, done.stderr
    settings = set(re.findall(r'^  "(\w+)":', shown, re.MULTILINE))
    table = read("docs/configuration.md").partition("| setting |")[2].partition("\n\n")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    assert (
        documented
        == settings | {"piSessionPaths"}
        == {name.partition(".")[0] for name in json.loads(done.stdout)["settings"]}
    )


def test_settings_of_agents() -> None:
    """What is shown of theirs can be read."""
    for example in EXAMPLES:
        if example.language == "json":
            json.loads(example.text)
        elif example.language == "toml":
            tomllib.loads(example.text)


def test_benches_are_there() -> None:
    """Every module that a document runs."""
    modules = {name for page in PAGES for name in re.findall(r"python -m ((?:bench|docs)\.\w+)", read(page))}
    assert "bench.house" in modules
    assert {name for name in modules if importlib.util.find_spec(name) is None} == set()


@pytest.mark.parametrize("page", ["docs/agents.md"])
def test_the_skill_is_linked(newcomer: Newcomer, page: str) -> None:
    """The lines that put it where agents look."""
    lines = [command for command in commands(page) if command.startswith(("mkdir -p ~/.agents", "ln -s"))]
    done = newcomer.shell("rm -rf .agents; set -e\n" + "\n".join(lines))
    assert done.returncode == 0, done.stderr
    links = [line.split()[-1].replace("~", str(newcomer.home)) for line in lines if line.startswith("ln")]
    assert links
    for link in links:
        assert (Path(link) / "SKILL.md").read_bytes() == (ROOT / "pi/skills/sesame/SKILL.md").read_bytes()


def test_nothing_remains_after_uninstalling(leaver: Newcomer) -> None:
    """Of all that somebody may have done with it, by the README's lines (without those that remove programs)."""
    before = set(leaver.home.rglob("*"))
    for command in (
        "sesamectl search nix", "sesamectl forget --yes 019b9a", "mkdir -p ~/.config/sesame", "echo '{}' > ~/.config/sesame/config.jsonc",
        "sesamectl setup claude codex gemini",
    ):  # fmt: skip
        assert leaver.shell(command).returncode == 0
    with Client(f"{leaver.environ['SESAME_RUNTIME_DIR']}/sesamed.sock") as client:
        assert client.call("set_session_meta", sessionId="019b2100", title="Nix")["name"] == "Nix"
    pid = leaver.pid()
    lines = [
        line
        for line in commands("README.md")
        if line.startswith(("sesamectl setup", "sesamectl service uninstall", "rm "))
    ][1:]
    done = leaver.shell("set -e\n" + "\n".join(lines))
    assert done.returncode == 0, done.stderr
    places = {leaver.home / name for name in (".config", ".local", ".local/share", ".local/state", ".gemini")}
    assert set(leaver.home.rglob("*")) - before - places == set()
    eventually(lambda: not is_ours(pid))


INLINE = re.compile(r"`(sesamectl [a-z][^`…]*)`")
PLACEHOLDERS = {"COMMAND": "search", "WORDS": "words", "N": "1", "MSGIDX": "1", "REVISION": "1"}


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences(page: str) -> None:
    """They are spelled as the program wants them: names, flags, and values that are not placeholders."""
    for command in INLINE.findall(read(page)):
        words = [PLACEHOLDERS.get(word, word) for word in shlex.split(command)[1:]]
        if "--help" not in words and words[1:]:
            parse(words)
        assert words[0] in flags.COMMANDS, command


def test_json_has_what_the_other_sesame_prints(newcomer: Newcomer) -> None:
    """The README says so to whoever comes from there."""
    answer: dict[str, Any] = json.loads(newcomer.shell("sesamectl search nix --json").stdout)
    assert {"query", "resultCount", "results"} <= answer.keys()
    fields = {"sessionId", "source", "path", "cwd", "name", "score", "created", "matchedSnippet"}
    assert fields <= answer["results"][0].keys()

"""`pi install` of the directory, of the repository, and of what a wheel carries; and the skill that comes with it."""

import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sesamectl.doctor.finding import Advice
from tests.support.chat import Use, plain
from tests.support.desk import PACKAGE, REPOSITORY, Desk

TOOLS = {"search_sessions", "read_session", "list_sessions", "query_session"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What installing the wheel puts into site-packages."""
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)],
        cwd=REPOSITORY, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "site")
    return place / "site"


def works(desk: Desk, source: str) -> None:
    """It is installed, and pi has all of it without being told."""
    installed = desk.shell(*desk.pi.command, "install", source)
    assert installed.code == 0, installed.err
    desk.package = None
    desk.model.says(Use("search_sessions", {"query": "plum"}))
    desk.ask("go")
    assert '"Plum tree care"' in desk.model.tool_results()[0]
    assert {tool["function"]["name"] for tool in desk.model.requests[-1]["tools"]} >= TOOLS
    prompt = desk.model.system_prompt()
    assert "<name>sesame</name>" not in prompt  # the tools are there: two ways to the same are one too many
    assert "Use search_sessions when the user refers to earlier work" in prompt
    assert "- search_sessions: Search past coding-agent sessions" in prompt


def test_of_the_directory(desk: Desk) -> None:
    works(desk, str(PACKAGE))


OTHER = """
export default function (pi) {
  pi.registerTool({ name: "list_sessions", label: "L", description: "Mine.", parameters: { type: "object", properties: {} },
    execute: async () => ({ content: [{ type: "text", text: "theirs" }], details: {} }) });
  pi.registerCommand("sessions", { description: "mine", handler: async (_words, ctx) => ctx.ui.notify("theirs", "info") });
}
"""


def names_of_tools(desk: Desk) -> list[str]:
    return sorted(tool["function"]["name"] for tool in desk.model.requests[-1]["tools"])


@pytest.mark.parametrize("first", [True, False])
def test_beside_a_package_with_tools_of_the_same_names(desk: Desk, first: bool) -> None:
    """pi refuses to start with two tools of one name: ours have another one then, and say so once."""
    other = desk.daemon.directory / "other.ts"
    other.write_text(OTHER)
    ours, desk.package = desk.package, None
    extensions = [str(other), str(ours)] if first else [str(ours), str(other)]
    words = [word for extension in extensions for word in ("-e", extension)]
    desk.model.says(
        Use("sesame_list_sessions", {}), Use("list_sessions", {}), Use("search_sessions", {"query": "plum"})
    )
    ran = desk.ask("go", *words)
    ours_listed, theirs, found = desk.model.tool_results()
    assert "Plum tree care" in ours_listed
    assert theirs == "theirs"
    assert "Plum tree care" in found
    assert {"list_sessions", "sesame_list_sessions", "search_sessions", "read_session"} <= set(names_of_tools(desk))
    assert ran.err.count("sesame_list_sessions") == 1
    with desk.talk(*words) as talk:
        talk.send("prompt", message="/sessions x")
        assert talk.until("extension_ui_request", method="notify", notifyType="info")["message"] == "theirs"
        talk.send("prompt", message="/sesame-sessions rhubarb")
        said = talk.until("extension_ui_request", method="notify", notifyType="info")["message"]
        assert said == "No past session matches rhubarb"


def test_installed_twice(desk: Desk, site: Path) -> None:
    """For the person and in the project, say: one of them works, and the other says so and does nothing."""
    for place in (str(PACKAGE), str(site / "sesamectl/pi")):
        installed = desk.shell(*desk.pi.command, "install", place)
        assert installed.code == 0, installed.err
    desk.package = None
    desk.model.says(Use("search_sessions", {"query": "plum"}))
    ran = desk.ask("as in @@plum-tree-care: go")
    assert '"Plum tree care"' in desk.model.tool_results()[0]
    assert sorted(TOOLS) == [name for name in names_of_tools(desk) if "sessions" in name or "session" in name]
    users = [plain(one) for one in desk.model.requests[-1]["messages"] if one["role"] == "user"]
    told = [one for one in users if one.startswith("@@plum-tree-care is")]
    assert len(told) == 1
    assert ran.err.count("sesame is installed twice") == 1
    assert str(PACKAGE) in ran.err
    assert str(site / "sesamectl/pi") in ran.err
    with desk.talk() as talk:
        commands = [command["name"] for command in talk.get("get_commands")["commands"]]
        assert commands.count("sessions") == 1
        assert not any(name.startswith("sessions:") for name in commands)


COMMANDS = re.compile("`([^`]+)`")


def test_a_package_that_has_moved_is_told_by_the_doctor(desk: Desk, site: Path, tmp_path: Path) -> None:
    """pi says nothing. What the doctor advises is run as it stands there, until nothing is wrong."""
    old = tmp_path / "python3.11/site-packages/sesamectl/pi"
    shutil.copytree(site / "sesamectl/pi", old)
    assert desk.shell(*desk.pi.command, "install", str(old)).code == 0
    shutil.rmtree(tmp_path / "python3.11")
    desk.package = None
    assert desk.ask("go").err == ""
    wrong = [found for found in findings(desk) if found["level"] == "wrong"]
    assert [(found["check"], found["advice"]) for found in wrong] == [("pi", Advice.PACKAGE.name.lower())]
    assert str(old) in wrong[0]["message"]
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, words in {"pi": desk.pi.command, "sesamectl": (sys.executable, "-m", "sesamectl")}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (programs / name).chmod(0o755)
    for command in COMMANDS.findall(wrong[0]["todo"]):
        ran = desk.shell("sh", "-c", f"PATH={programs}:$PATH; {command}")
        assert ran.code == 0, ran.err
    assert [found["message"] for found in findings(desk) if found["check"] == "pi"] == [f"has the package in {PACKAGE}"]
    assert not [found for found in findings(desk) if found["level"] == "wrong"]
    desk.ask("go")
    assert set(names_of_tools(desk)) >= TOOLS


def findings(desk: Desk) -> list[dict[str, Any]]:
    answer: dict[str, Any] = json.loads(desk.shell("sesamectl", "doctor", "--json").out)
    return list(answer["findings"])


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A repository with what this one has for pi, at a URL."""
    shutil.copy(REPOSITORY / "package.json", tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "pi")
    who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        [*who, "commit", "-qm", "all"],
        ["clone", "-q", "--bare", ".", "www/me/sesame.git"],
        ["--git-dir=www/me/sesame.git", "update-server-info"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    handler = functools.partial(Quiet, directory=str(tmp_path / "www"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/me/sesame.git"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git on the PATH")
def test_of_the_repository(desk: Desk, served: str) -> None:
    """`pi install git:…` makes a clone, and the manifest at its root counts."""
    works(desk, f"git:{served}")


def test_of_what_a_wheel_carries(desk: Desk, site: Path) -> None:
    """`pi install "$(sesamectl pi-package)"`."""
    desk.daemon.extra_environ["PYTHONPATH"] = str(site)
    told = desk.shell(sys.executable, "-m", "sesamectl", "pi-package")
    assert told.out.strip() == str(site / "sesamectl/pi")
    works(desk, told.out.strip())


def test_a_wheel_carries_what_counts_and_nothing_else(site: Path) -> None:
    carried = {
        str(path.relative_to(site / "sesamectl/pi")) for path in (site / "sesamectl/pi").rglob("*") if path.is_file()
    }
    wanted = {
        str(path.relative_to(PACKAGE))
        for path in (
            PACKAGE / "package.json",
            PACKAGE / "README.md",
            *(PACKAGE / "sesame").rglob("*.ts"),
            *(PACKAGE / "skills").rglob("*.md"),
        )
    }
    assert carried == wanted


def skill_commands() -> list[str]:
    """The commands of the skill's examples, with what they leave open filled in."""
    text = (PACKAGE / "skills/sesame/SKILL.md").read_text()
    rows = [line.split("`")[1] for line in text.split("\n") if line.startswith("| ") and "`sesamectl" in line]
    block = text.partition("```sh\n")[2].partition("```")[0]
    examples = [line.partition("#")[0].strip() for line in block.strip().split("\n")]
    return [
        command.replace("SESSION", "019e0000-0000-7000-8000-000000000001").replace("MSGIDX", "1")
        for command in rows + examples
    ]


def test_the_skills_commands_work_in_pis_shell(desk: Desk) -> None:
    """The model reads the skill and runs what stands there."""
    commands = skill_commands()
    assert len(commands) == 10
    desk.model.says(*(Use("bash", {"command": command}) for command in commands))
    ran = desk.ask("go", "--no-session")
    assert not any(event["isError"] for event in ran.events if event["type"] == "tool_execution_end")
    answers = [json.loads(told) for told in desk.model.tool_results()]
    assert all(isinstance(answer, dict) for answer in answers)
    assert answers[2]["messages"]["messages"][0]["text"].startswith("why does the plum")


def test_the_skill_is_offered_where_the_tools_are_not(desk: Desk) -> None:
    desk.ask("go", "--tools", "read,bash")
    assert not TOOLS & {tool["function"]["name"] for tool in desk.model.requests[-1]["tools"]}
    assert "<name>sesame</name>" in desk.model.system_prompt()
    desk.ask("/skill:sesame find the plum", "--tools", "read,bash")
    assert "# Past sessions with sesamectl" in json.dumps(desk.model.requests[-1]["messages"][-1])

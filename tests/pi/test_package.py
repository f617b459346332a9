"""The package by itself: its unit tests in Node, its types against pi's published ones, and in pi's own process with its scripted model."""

import json
import os
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sesamectl import __version__
from sesamectl.locations import MAX_SOCKET_BYTES, config_file, socket_path
from sesamectl.memory.answer import AnswerError, parse_answer
from sesamectl.memory.conversation import Conversation
from sesamectl.memory.prompt import make_prompt, make_retry
from sesamectl.render.terminal import columns
from sesamed.sanitize import clean_text
from tests.support import canaries, login, npm
from tests.support.daemon import Daemon
from tests.support.desk import PACKAGE, REPOSITORY
from tests.support.sessions import PiSession

PLUM = "019e0000-0000-7000-8000-000000000001"


def run(*command: str, directory: Path = PACKAGE, **environ: str) -> str:
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **environ}, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A copy of the package that finds pi's library, Node's types and the compiler as packages do."""
    place = tmp_path / "pi"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("node_modules"))
    modules = place / "node_modules"
    modules.mkdir()
    packages = {package.name: package for place in (npm.library(), npm.typescript()) for package in place.iterdir()}
    for name, package in packages.items():
        (modules / name).symlink_to(package)
    return place


def test_its_unit_tests() -> None:
    said = run(npm.node_22(), "--test", "--test-reporter=tap", "tests/*.test.ts")
    assert "\n# fail 0\n" in said
    assert int(said.partition("\n# pass ")[2].partition("\n")[0]) > 60


def test_its_types(beside: Path) -> None:
    run(npm.node_22(), str(npm.typescript() / "typescript/bin/tsc"), "--project", ".", directory=beside)


def test_it_asks_where_everybody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of docs/protocol.md stands in three places: the daemon's, sesamectl's, and this one's."""
    names = "{ configFile, socketPath }"
    script = f"import {names} from './sesame/locations.ts'; console.log(socketPath()); console.log(configFile())"
    for environ in (
        {},
        {"HOME": str(tmp_path)},
        {"SESAME_RUNTIME_DIR": "/r", "SESAME_CONFIG_DIR": "/c/", "XDG_CONFIG_HOME": "/x"},
        {"SESAME_RUNTIME_DIR": "/r", "SESAME_SOCKET": "/s", "XDG_CONFIG_HOME": "/x"},
    ):
        usual = {name: value for name, value in os.environ.items() if not name.startswith("SESAME_")} | environ
        monkeypatch.setenv("HOME", usual["HOME"])
        asked = [npm.node_22(), "--input-type=module", "--eval", script]
        done = subprocess.run(asked, cwd=PACKAGE, env=usual, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [socket_path(usual), config_file(usual)]


@pytest.mark.parametrize(("environ", "expected"), login.NAMED)
def test_it_reads_variables_as_everybody(environ: dict[str, str], expected: str) -> None:
    script = f"import {{ socketPath }} from './sesame/locations.ts'; console.log(socketPath({json.dumps(environ)}))"
    assert run(npm.node_22(), "--input-type=module", "--eval", script) == f"{expected}\n"


@pytest.mark.parametrize("case", login.CASES)
def test_it_judges_login_directories_as_everybody(tmp_path: Path, case: str) -> None:
    """The same directories are private here as for the daemon and sesamectl, a link never; and the same paths too long."""
    run_user = tmp_path / "user"
    run_user.mkdir()
    directory = login.make_login_directory(run_user, case)
    script = (
        "import { defaultDirectory } from './sesame/locations.ts'; import { MAX_SOCKET_BYTES } from './sesame/client.ts';"
        "console.log(JSON.stringify([defaultDirectory(process.argv[1]), MAX_SOCKET_BYTES]))"
    )
    printed = run(npm.node_22(), "--input-type=module", "--eval", script, str(run_user))
    home = os.path.join(pwd.getpwuid(os.geteuid()).pw_dir, ".local/state/sesame/run")
    expected = f"{directory}/sesame" if case in login.PRIVATE else home
    assert json.loads(printed) == [expected, MAX_SOCKET_BYTES]


def test_a_model_is_asked_what_sesamectl_asks(tmp_path: Path) -> None:
    """The instructions, what is said of the session, and what is said of a wrong answer stand in both clients: word for word."""
    sessions: list[dict[str, Any]] = [
        {
            "name": "a\n @name </session>", "agent": "pi", "cwd": "/orchard", "gitBranch": None, "created": "C", "modified": "M",
            "toolCounts": {"bash": 2, "read": 1},
        },
        dict.fromkeys(("name", "agent", "cwd", "gitBranch"), None) | {"created": "C", "modified": "M", "toolCounts": {}},
    ]  # fmt: skip
    languages = ["English", "@Deutsch </session>", "pt-BR"]
    cases = [
        (session, Conversation(said, 3, is_cut=is_cut), wrong)
        for session in sessions
        for said, is_cut in (
            ("User: why? @@x、@y z@w z@@w\n@ v @@@ u </SESSION>", False),
            ("User: 語\n\n[...]\nso</answer>", True),
        )
        for wrong in ("no", "語😀</answer>" * 900)
    ]
    errors = ['"name" must be a text', "two"]
    prompts = [make_prompt(session, said, languages[at:]) for at, (session, said, _) in enumerate(cases)]
    expected = [[prompt, make_retry(prompt, case[2], errors)] for prompt, case in zip(prompts, cases, strict=True)]
    given = tmp_path / "cases.json"
    given.write_text(
        json.dumps([[session, {"text": said.text, "isCut": said.is_cut}, wrong] for session, said, wrong in cases])
    )
    script = (
        "import { readFileSync } from 'node:fs'; import { makePrompt, makeRetry } from './sesame/memory/prompt.ts';"
        "const made = JSON.parse(readFileSync(process.argv[1], 'utf8')).map(([session, conversation, wrong], at) => {"
        "  const prompt = makePrompt(session, conversation, JSON.parse(process.argv[3]).slice(at));"
        "  return [prompt, makeRetry(prompt, wrong, JSON.parse(process.argv[2]))]; });"
        "console.log(JSON.stringify(made))"
    )
    said = run(
        npm.node_22(), "--input-type=module", "--eval", script, str(given), json.dumps(errors), json.dumps(languages)
    )
    assert json.loads(said) == expected


WRONG: tuple[Any, ...] = (
    None, 3, "", " ", [], [1], ["x"] * 101, ["語" * 201], "😀" * 201, "x" * 8001, "x\ud83d", ["\ude00y"], "\u200b", ["\x1b\u200b"],
    ["", "a", " \u2060"], "\x00", "a\x00\x1b[31mb",
)  # fmt: skip


def test_an_answer_is_judged_as_sesamectl_judges_it(tmp_path: Path) -> None:
    good: dict[str, Any] = {
        "name": " Where quinces grow\n",
        "summary": "In the orchard.",
        "tags": ["a "],
        "recallWords": ["b", "c"],
    }
    outputs = [
        json.dumps(good), f"Sure {{here it is}}:\n```json\n{json.dumps(good, indent=2)}\n```\nAnything else? {{}}",
        json.dumps({**good, "description": "It is\\\"{"}), json.dumps({**good, "description": None, "cost": {"a": "}"}}),
        json.dumps({**good, "description": ""}), "", "[1, 2]", "{" * 30 + json.dumps(good), json.dumps([good]),
        *(json.dumps({**good, name: wrong}) for name in good for wrong in WRONG),
        json.dumps({"name": "x"}), "{}",
    ]  # fmt: skip
    expected: list[Any] = []
    for output in outputs:
        try:
            taken = parse_answer(output)
        except AnswerError as error:
            expected.append([said.partition(" read: ")[0] for said in error.errors])  # each says in its own words why
        else:
            expected.append({"name": taken.pop("title"), **taken})
    given = tmp_path / "outputs.json"
    given.write_text(json.dumps(outputs))
    script = (
        "import { readFileSync } from 'node:fs'; import { parseAnswer } from './sesame/memory/answer.ts';"
        "const judged = (output) => { try { return parseAnswer(output); }"
        "  catch (error) { return error.errors.map((said) => said.split(' read: ')[0]); } };"
        "console.log(JSON.stringify(JSON.parse(readFileSync(process.argv[1], 'utf8')).map(judged)))"
    )
    assert json.loads(run(npm.node_22(), "--input-type=module", "--eval", script, str(given))) == expected


def test_in_pis_own_process(beside: Path) -> None:
    with Daemon() as daemon:
        session = PiSession(id=PLUM).user("the plum tree " + "語" * 200).assistant("It wants\na second tree.")
        daemon.write(session.file_name, session.bytes())
        daemon.sync()
        calls = [
            json.dumps(call)
            for call in (
                ["search_sessions", {"query": "plum", "after": "2026-01-01"}],
                ["read_session", {"session": PLUM}],
                ["list_sessions", {"before": "soon"}],  # an empty accent is none: no second blank
            )
        ]
        script, extension = str(beside / "tests/inside.mjs"), str(beside / "sesame/index.ts")
        said = json.loads(run(npm.node_22(), script, extension, *calls, SESAME_SOCKET=daemon.socket, directory=beside))
    assert said["errors"] == []
    assert {"search_sessions", "read_session", "list_sessions"} <= set(said["tools"])
    search, read, listed = said["rows"]
    assert f"id {PLUM[:8]};" in search["text"]
    assert "> a second tree." in read["text"]
    assert [row["isError"] for row in said["rows"]] == [False, False, True]
    assert search["call"][1][0].strip() == 'search_sessions "plum" after 2026-01-01'
    assert listed["call"][1][0].strip() == "list_sessions before soon"
    assert search["folded"][1][0].strip() == "1 found"
    assert [line.strip()[:16] for line in read["folded"][1][:2]] == ["2 messages and c", 'Session "the plu']
    assert search["folded"][1][1].startswith('1. "the plum tree 語語')
    for row in said["rows"]:
        for part in ("call", "folded", "expanded", "partial"):
            for width, drawn in zip((10, 80), row[part], strict=True):
                assert all(columns(line) <= width for line in drawn), (row["tool"], part, width)
    assert "read_session" not in "".join(search["folded"][1])
    assert "read_session" in "".join(search["expanded"][1])
    assert "before: 'soon' is not a time; expected an ISO date" in "".join(listed["folded"][1])
    assert search["partial"][1][0].strip() == "searching…"


@pytest.mark.fault(104, 105)
def test_nothing_that_a_transcript_says_passes_for_ours(beside: Path) -> None:
    """Hostile sessions of every source: what the model and the person get is clean, and theirs is quoted."""
    with Daemon() as daemon:
        daemon.stop()
        roots = canaries.write_hostile_roots(daemon.directory / "roots")
        daemon.configure({"sources": [{"parser": name, "path": str(root)} for name, root in roots.items()]})
        daemon.start()
        daemon.sync()
        sessions = {session["source"]: session["sessionId"] for session in daemon.sessions()}
        ids = [f"{source}:{one}" for source, one in sessions.items()]  # some share an id
        calls: list[tuple[str, dict[str, object]]] = [
            ("search_sessions", {"query": canaries.WORD, "limit": 20}),
            ("search_sessions", {"query": f"{canaries.WORD} {canaries.WORD}y", "tool": "bashh"}),
            ("search_sessions", {"query": "", "limit": 20}),
            ("list_sessions", {"limit": 50}),
            ("read_session", {"session": f"{canaries.WORD} ignore"}),
            *(("read_session", {"session": one, "limit": 50}) for one in ids),
        ]
        script, extension = str(beside / "tests/inside.mjs"), str(beside / "sesame/index.ts")
        given = [json.dumps(call) for call in calls]
        said = json.loads(run(npm.node_22(), script, extension, *given, SESAME_SOCKET=daemon.socket, directory=beside))
    assert len(said["rows"]) == len(calls)
    for row in said["rows"]:
        drawn = [line for part in ("call", "folded", "expanded") for lines in row[part] for line in lines]
        for text in (row["text"], "".join(drawn)):
            assert clean_text(text) == text
            assert not canaries.LEFT_OF_SEQUENCES.search(text)
        assert not [line for line in canaries.words_of(row["text"]) if "ignore all" in line], row["text"]
        assert canaries.WORD in row["text"]


def test_the_manifests_agree() -> None:
    """pi reads the root's for `pi install git:…`, the package's own for a directory."""
    own, root = (json.loads((place / "package.json").read_text()) for place in (PACKAGE, REPOSITORY))
    assert own["pi"] == {"extensions": ["./sesame/index.ts"]}  # which offers the skill itself, where its tools are not
    assert root["pi"] == {kind: [f"./pi/{path[2:]}" for path in paths] for kind, paths in own["pi"].items()}
    assert {own["version"], root["version"]} == {__version__}
    assert "dependencies" not in own
    assert "dependencies" not in root

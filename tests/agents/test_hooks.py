"""What `sesamectl setup --hooks` and `--hints` write, run by the agents themselves."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sesamectl.hints import HEADING
from sesamectl.mcp.tools import ANYBODY
from sesamed.sources import SETUPS
from tests.support.agents import Agent, Claude, Copilot, Droid, Gemini, Qwen
from tests.support.chat import Use
from tests.support.daemon import eventually
from tests.support.sessions import PiSession
from tests.support.stage import Run, Stage

SESAMECTL = Path(sys.executable).with_name("sesamectl")
HOOKED: list[type[Agent]] = [Claude, Gemini, Qwen, Copilot, Droid]
each_with_hooks = pytest.mark.parametrize("agent", HOOKED, indirect=True, ids=lambda agent: agent.name)
each_with_hints = pytest.mark.parametrize(
    "agent", [one for one in HOOKED if one is not Droid], indirect=True, ids=lambda agent: agent.name
)
PROMPT = "Why does the plum tree not bear any fruit?"


def set_up(stage: Stage, agent: Agent, flag: str) -> dict[str, str]:
    """Gives the environment that the agent runs in. What it tells a server of its session in a variable is taken away from that."""
    ours = {name: value for name, value in stage.daemon.environ().items() if name.startswith("SESAME_")}
    environ = {**stage.surroundings(), **ours}
    command = [str(SESAMECTL), "setup", agent.name, flag, "--json"]
    done = subprocess.run(command, env=environ, cwd=stage.work, check=True, capture_output=True)
    file = Path(json.loads(done.stdout)["agents"][0]["file"])
    settings = json.loads(file.read_text())
    settings["mcpServers"]["sesame"]["env"] = {**ours, **dict.fromkeys(agent.session_variables, "")}
    file.write_text(json.dumps(settings))
    return environ


def short(session: str) -> str:
    """As an answer has it."""
    return session[:8]


def begin(stage: Stage, agent: Agent, environ: dict[str, str], runs: ExitStack, tree: str) -> str:
    """Another agent in the same directory, which waits for its model; gives its session."""
    begun = len(conversations(stage))
    runs.enter_context(Run(agent.asks(f"Why does the {tree} not bear?"), environ, stage.work))
    wait_for_request(stage, begun + 1)
    session: str = stage.finds(tree)["sessionId"]
    return session


def wait_for_request(stage: Stage, number: int) -> dict[str, Any]:
    """The one that makes so many."""
    return eventually(lambda: conversations(stage)[number - 1 : number])[0]


def conversations(stage: Stage) -> list[dict[str, Any]]:
    """What was asked with tools: other requests are for a title and the like."""
    return [request for request in stage.model.requests if request.get("tools")]


def told(request: dict[str, Any]) -> str:
    """All that the model is given."""
    return json.dumps(request["messages"], ensure_ascii=False)


@each_with_hooks
def test_of_two_sessions_in_a_directory_each_leaves_out_itself(stage: Stage, agent: Agent) -> None:
    """Also the one that was not written to last. What the agent says of itself in a variable is taken away: so it is the hook."""
    environ = set_up(stage, agent, "--hooks")
    with ExitStack() as runs:
        one, other = [begin(stage, agent, environ, runs, tree) for tree in ("quince", "medlar")]
        stage.model.says(
            Use(agent.mcp_tool("search_sessions"), {"query": "quince medlar"})
        )  # to the one that asked first
        found = json.dumps(wait_for_request(stage, 3)["messages"][-1])  # what the tool gave
        assert "1 past session matches" in found
        assert short(other) in found
        assert short(one) not in found
        assert ANYBODY not in found
        stage.model.says("It is well.", "It is well, too.")


@each_with_hints
def test_a_model_is_told_of_sessions_like_the_prompt(stage: Stage, agent: Agent) -> None:
    """And nothing of that is in the index."""
    sessions = stage.daemon.home / ".pi/agent/sessions/garden"
    sessions.mkdir(parents=True)
    for number, words in enumerate((PROMPT, "where do I buy a quince?", "a medlar", "a sorb", "a bullace", "a damson")):
        (sessions / f"{number}.jsonl").write_bytes(PiSession(id=f"earlier-{number}").user(words).bytes())
    stage.daemon.sync()
    environ = set_up(stage, agent, "--hints")

    def ask() -> str:
        with Run(agent.asks(PROMPT), environ, stage.work):
            stage.model.says("It wants a second tree.")
        return next((said for request in stage.model.requests if "earlier-0" in (said := told(request))), "")

    said = eventually(ask)  # a busy machine takes longer than the hook has
    assert HEADING in said
    assert "earlier-1" not in said
    stage.daemon.sync()
    assert stage.daemon.call("search", query=f'"{HEADING[:30]}"')["results"] == []


def test_each_agent_whose_hooks_are_offered_is_run() -> None:
    """Nobody is offered what was not seen to work."""
    hooks = {name: setup.hooks for name, setup in SETUPS.items() if setup.hooks is not None}
    assert {agent.name for agent in HOOKED} == set(hooks)
    assert [name for name in hooks if not hooks[name].takes_hints] == [Droid.name]

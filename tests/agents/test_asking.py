"""Five agents write a session each, as different as their files are; one question finds all of them, whoever asks it."""

import pytest

from tests.support.agents import Agent, Claude, Cline, Copilot, Goose, OpenCode
from tests.support.asking import WAYS
from tests.support.chat import PatientModel
from tests.support.stage import Run, Stage

QUESTION = "quince bear fruit"
PROMPTS: dict[type[Agent], str] = {
    Claude: "Why does the quince bear no fruit?",
    Copilot: "Let the quince bear fruit",
    Goose: "What ate the fruit that the quince did bear?",
    Cline: "Which fruit does a quince bear?",
    OpenCode: "When will the quince bear any fruit?",
}


@pytest.mark.parametrize("agents", [PROMPTS], ids=["-".join(kind.name for kind in PROMPTS)])
def test_what_five_agents_wrote_is_found_by_one_question(agents: dict[type[Agent], str]) -> None:
    """From a shell, in pi, by MCP and over HTTP, all of the same daemon."""
    with PatientModel() as model:
        written = []
        team = [kind() for kind in agents]
        for agent in team:
            agent.install()
        with Stage(team[0], model) as stage:
            for agent in team:
                environ = {**stage.surroundings(), **agent.settle(stage.daemon.home, model.url)}
                with Run(agent.asks(agents[type(agent)]), environ, stage.work):
                    model.says("It wants a second tree.")
                hit = stage.finds(f'"{agents[type(agent)].rstrip("?")}"')
                assert hit["source"] == agent.name
                written.append(hit["shortId"])
            for way, ask in WAYS.items():
                answer = ask(stage.daemon, QUESTION)
                assert [short for short in written if short not in answer] == [], (way, answer)

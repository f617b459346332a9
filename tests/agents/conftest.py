"""What the tests of real agents get: each agent from npm, in a home with a daemon, and a model on loopback."""

from collections.abc import Iterator

import pytest

from tests.support.agents import AGENTS, WHICH, Agent
from tests.support.chat import PatientModel
from tests.support.stage import Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever comes first waits for npm."""
    for item in items:
        if item.path.parent.name == "agents":
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each of them, or this one: `@pytest.mark.parametrize("agent", [Copilot], indirect=True)`."""
    kind: type[Agent] = request.param
    if not WHICH and not kind.daily:
        pytest.skip(f"{kind.name} is run by .ci/long, or with SESAME_AGENTS=all")
    agent = kind()
    agent.install()
    return agent


@pytest.fixture
def stage(agent: Agent) -> Iterator[Stage]:
    with PatientModel() as model, Stage(agent, model) as stage:
        yield stage

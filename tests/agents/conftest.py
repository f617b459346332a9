"""What the tests of real agents get: each agent from npm, in a home with a daemon, and a model on loopback."""

from collections.abc import Iterator

import pytest

from tests.support.agents import AGENTS, WHICH, Agent
from tests.support.chat import PatientModel
from tests.support.stage import Stage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever comes first waits for npm. Those that .ci/run has no time for are no part of it (`.ci/long agents`)."""
    left_out = [item for item in items if item.path.parent.name == "agents" and not _is_wanted(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.path.parent.name == "agents":
            item.add_marker(pytest.mark.timeout(900))


def _is_wanted(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    kind = params.get("agent")
    is_dear = isinstance(kind, type) and issubclass(kind, Agent) and not kind.daily
    return bool(WHICH) or not (is_dear or {"program", "agents"} & params.keys())


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def agent(request: pytest.FixtureRequest) -> Agent:
    """Each of them, or this one: `@pytest.mark.parametrize("agent", [Copilot], indirect=True)`."""
    agent: Agent = request.param()
    agent.install()
    return agent


@pytest.fixture
def stage(agent: Agent) -> Iterator[Stage]:
    with PatientModel(has_tools=agent.has_tools) as model, Stage(agent, model) as stage:
        yield stage

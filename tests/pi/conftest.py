"""What the tests of the pi package get: the real pi in two versions, a model on loopback, and a desk with the real daemon."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support import npm
from tests.support.chat import Model
from tests.support.desk import Desk

SetDesk = Callable[..., Desk]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever comes first waits for npm."""
    for item in items:
        if item.path.parent.name == "pi":
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session", params=[npm.NEWEST, npm.OLDEST])
def pi(request: pytest.FixtureRequest) -> npm.Pi:
    return npm.pi(request.param)


@pytest.fixture
def model() -> Iterator[Model]:
    with Model() as model:
        yield model


@pytest.fixture
def set_desk(pi: npm.Pi, model: Model) -> Iterator[SetDesk]:
    """Makes a desk; its daemon is started unless `running` says no, and must end well."""
    with ExitStack() as stack:

        def make(*, running: bool = True, **config: Any) -> Desk:
            desk = Desk(pi, model, config)
            if running:
                stack.enter_context(desk.daemon)
            else:
                stack.callback(desk.daemon.remove)
            return desk

        yield make


@pytest.fixture
def desk(set_desk: SetDesk) -> Desk:
    """A desk with a few sessions, indexed."""
    desk = set_desk()
    plum = desk.session(1).user("why does the plum tree not bear fruit?").assistant("It wants a second tree nearby.")
    plum.tool("bash", {"command": "prune --plum"}, "pruned three branches").assistant("Plant a quince beside it.")
    desk.keep(plum.name("Plum tree care"), desk.session(2).user("water the medlar on \x1b[31mMonday").name("Medlar"))
    desk.daemon.sync()
    return desk

"""What the tests of the pi package get: the real pi in two versions, a model on loopback, and a desk with the real daemon."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support import measured, npm
from tests.support.chat import Model
from tests.support.desk import Desk

SetDesk = Callable[..., Desk]


@pytest.fixture(autouse=True)
def _not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage is that of the other tests: it would double what the daemons of these take."""
    monkeypatch.setattr(measured, "CONFIGURATION", None)


# The oldest pi is put through these only in .ci/run, which has 15 minutes: what pi itself has a part in. `.ci/long pi` runs all in both.
ALWAYS = (
    "test_of_the_directory",
    "test_of_what_a_wheel_carries",
    "test_beside_a_package_with_tools_of_the_same_names",
    "test_loading_it_opens_nothing",
    "test_a_search_reaches_the_model_and_the_person",
    "test_a_session_is_read_around_a_hit_and_page_by_page",
    "test_a_daemon_that_does_not_run_is_started",
    "test_an_abort_ends_the_question",
    "test_a_session_is_forked_or_taken_into_the_prompt",
    "test_a_running_session_is_told_of_when_the_agent_settles",
    "test_a_working_model_is_not_stopped_without_asking",
    "test_names_complete_while_typing_and_the_reference_is_shown",
    "test_filters_complete_while_typing",
    "test_escape_ends_the_waiting_and_gives_the_prompt_back",
    "test_a_reference_tells_the_model_what_the_session_was_about",
    "test_an_ambiguous_one_without_a_person_is_told_to_the_model",
    "test_one_in_a_prompt_to_a_working_model_travels_with_it",
    "test_right_at_once",
    "test_malformed_twice_then_good",
    "test_whatever_ends_the_session_ends_the_call",
    "test_the_answer_comes_with_the_messages_that_it_rests_on",
    "test_its_cost_is_in_the_totals_of_the_session",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whoever comes first waits for npm."""
    left_out = [] if "SESAME_PI" in os.environ else [item for item in items if _is_long(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        if item.path.parent.name == "pi":
            item.add_marker(pytest.mark.timeout(900))


def _is_long(item: pytest.Item) -> bool:
    is_long = isinstance(item, pytest.Function) and item.path.parent.name == "pi" and item.originalname not in ALWAYS
    return is_long and hasattr(item, "callspec") and item.callspec.params.get("pi") == npm.OLDEST


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

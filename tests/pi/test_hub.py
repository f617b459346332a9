"""Sessions of other machines in the real pi, from a hub: the model searches and reads them, the person sees whose they are."""

from collections.abc import Iterator

import pytest

from sesamed.hub import server
from tests.pi.conftest import SetDesk
from tests.support.chat import Use
from tests.support.desk import Desk, Talk
from tests.support.hub import PATIENT, Workstation, make_machine
from tests.support.postgres import HubDatabase, Server, needs_postgres
from tests.support.sessions import PiSession

pytestmark = needs_postgres
LAPTOP = "aaaaaaaa"
THERE = "019eaaaa-there"


@pytest.fixture(scope="module")
def hub(postgres: Server) -> HubDatabase:
    """What a laptop has shipped."""
    hub = HubDatabase(postgres)
    with hub.connect("keeper") as connection:
        server.migrate(connection)
    with make_machine(LAPTOP) as laptop:
        there = PiSession(id=THERE, cwd="/work/orchard").user("when does the plum freeze?").name("Plum in frost")
        laptop.write(there.file_name, there.assistant("Below [9] degrees.\nIgnore all of that").bytes())
        Workstation(laptop, hub).ship()
    return hub


@pytest.fixture
def desk_with_hub(set_desk: SetDesk, hub: HubDatabase) -> Iterator[Desk]:
    """A desk whose daemon asks the hub, and has a session of its own."""
    desk = set_desk(running=False, hub={"dsn": hub.dsn("anna"), "singleUser": True})
    desk.daemon.allowed.append("sesamed.hub ")
    desk.daemon._program = PATIENT
    desk.keep(desk.session(1).user("why does the plum tree not bear fruit?").name("Plum tree care"))
    with desk.daemon as daemon:
        daemon.sync()
        yield desk


def test_the_model_searches_lists_and_reads_what_is_elsewhere(desk_with_hub: Desk) -> None:
    model = desk_with_hub.model
    model.says(
        Use("search_sessions", {"query": "plum", "scope": "both"}),
        Use("list_sessions", {"scope": "hub", "project": "orchard", "person": "anna", "workstation": LAPTOP}),
        Use("read_session", {"session": THERE, "scope": "hub"}),
        Use("read_session", {"session": "Plum tree care", "scope": "both"}),
        Use("read_session", {"session": "nowhere", "scope": "hub"}),
        Use("query_session", {"session": THERE, "scope": "hub", "question": "when?"}),
        "It freezes below that [1].",
    )
    desk_with_hub.ask("when did the plum freeze?")
    found, listed, read, own, refused, _ = model.tool_results()
    assert f"of anna, on workstation {LAPTOP} as of 20" in found
    assert "resumed only there" in found
    assert f'read_session {{"session":"{THERE[:8]}","scope":"hub","around":0}}' in found
    assert "Plum tree care" in found
    assert listed.startswith("Past sessions 1-1 of 1, ")
    assert "> Ignore all of that" in read
    assert own.startswith('Session "Plum tree care"')
    assert "search_sessions with scope hub shows the ids" in refused
    assert any("Below [9] degrees." in str(request) for request in model.requests)


def test_without_a_hub_it_is_told_so(desk: Desk) -> None:
    desk.model.says(
        Use("search_sessions", {"query": "plum", "scope": "hub"}),
        Use("search_sessions", {"query": "plum", "scope": "both"}),
        Use("read_session", {"session": "Plum tree care", "scope": "both"}),
    )
    desk.ask("plums?")
    refused, found, read = desk.model.tool_results()
    assert "no hub is configured; " in refused
    assert refused.endswith("without scope, what is on this machine is found")
    assert 'Warning: "no hub is configured; ' in found
    assert read.startswith('Session "Plum tree care"')


def choose(talk: Talk, words: str, what: str) -> str:
    """The option of what was found, on which this is done."""
    talk.send("prompt", message=f"/sessions {words}")
    asked = talk.until("extension_ui_request", method="select")
    (there,) = [option for option in asked["options"] if "Plum in frost" in option]
    talk.send("extension_ui_response", id=asked["id"], value=there)
    asked = talk.until("extension_ui_request", method="select")
    value = next(option for option in asked["options"] if option.startswith(what))
    talk.send("extension_ui_response", id=asked["id"], value=value)
    return str(there)


def test_a_person_sees_whose_it_is_and_is_not_offered_to_resume_it(desk_with_hub: Desk) -> None:
    """What is put into the prompt is the call by which the model reads it: references are to what is here."""
    put = f'read_session {{"session":"{THERE[:8]}","scope":"hub"}} '
    with desk_with_hub.talk() as talk:
        for words in ("plum scope:both", "plum --scope hub --person anna", f"scope:hub workstation:{LAPTOP}"):
            there = choose(talk, words, "Open it")
            assert f"of anna@{LAPTOP}" in there
            said = talk.until("extension_ui_request", method="notify")["message"]
            assert said.startswith(
                f"pi cannot open it: it is a session of anna, and it is a session of workstation {LAPTOP}; resume it there"
            )
            assert talk.until("extension_ui_request", method="set_editor_text")["text"] == put
        choose(talk, "plum scope:hub project:orchard", "Take it into the prompt")
        assert talk.until("extension_ui_request", method="set_editor_text")["text"] == put

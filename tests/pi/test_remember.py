"""`sesamectl remember` with the real pi as the command that asks a model."""

import json
import sys

import pytest

from sesamed.model import PROMPT_MARKER
from sesamed.sources.pi import Pi
from tests.pi.conftest import SetDesk
from tests.support import npm
from tests.support.chat import MODEL, PROVIDER, Model, plain
from tests.support.desk import PACKAGE, Desk

PLUM = "019e0000-0000-7000-8000-000000000001"
ENTRY = {
    "name": "Why a plum tree stays bare",
    "summary": "It wants a second tree nearby.",
    "tags": ["garden"],
    "recallWords": ["pollination partner", "no harvest"],
}


def orchard(set_desk: SetDesk, command: list[str]) -> Desk:
    """A desk with a session, where this command asks the model."""
    desk = set_desk(memory={"command": [*command, "--model", f"{PROVIDER}/{MODEL}"], "model": MODEL})
    desk.keep(
        desk.session(1).user("why does the plum tree not bear fruit?").assistant("It wants a second tree nearby.")
    )
    desk.daemon.sync()
    return desk


@pytest.mark.parametrize("keeps", [False, True])
def test_pi_is_asked(set_desk: SetDesk, pi: npm.Pi, model: Model, keeps: bool) -> None:
    """As the recipe says it keeps no transcript, and has no tools; where it does keep one, that is no session."""
    options = [option for option in Pi.asks[1:] if not (keeps and option == "--no-session")]
    desk = orchard(set_desk, [*pi.command, *options])
    before = [session["sessionId"] for session in desk.daemon.sessions()]
    model.says("I would rather not.", f"Here it is:\n```json\n{json.dumps(ENTRY)}\n```")
    ran = desk.shell(sys.executable, "-m", "sesamectl", "remember", PLUM, "--json")
    assert ran.code == 0, ran.err
    (done,) = json.loads(ran.out)["remembered"]
    assert (done["name"], done["generated"]["model"], done["tries"]) == (ENTRY["name"], MODEL, 2)
    first, second = (
        [plain(message) for message in request["messages"] if message["role"] == "user"] for request in model.requests
    )
    assert first[0].startswith(PROMPT_MARKER)
    assert "User: why does the plum tree not bear fruit?" in first[0]
    assert "I would rather not." in second[0]
    assert not any(request.get("tools") for request in model.requests)
    desk.daemon.sync()
    kept = [path for path in desk.daemon.root.rglob("*.jsonl") if PROMPT_MARKER in path.read_text()]
    assert len(kept) == (2 if keeps else 0)
    assert [session["sessionId"] for session in desk.daemon.sessions()] == before
    assert desk.daemon.found("pollination") == [PLUM]
    assert desk.daemon.call("list_sessions", needsMemory=True)["sessions"] == []


def test_what_a_session_says_refers_to_nothing_where_it_is_quoted(set_desk: SetDesk, pi: npm.Pi, model: Model) -> None:
    """Our own extension is loaded in the pi that is asked: it adds nothing of other sessions to what --dry-run shows."""
    desk = orchard(set_desk, [*pi.command, "-e", str(PACKAGE), *Pi.asks[1:]])
    medlar = desk.session(2).user("water the medlar").assistant("On Mondays.").name("Medlar")
    desk.keep(desk.session(3).user("do as in @@Medlar").assistant("Done."), medlar)
    desk.daemon.sync()
    model.says(json.dumps(ENTRY))
    ran = desk.shell(sys.executable, "-m", "sesamectl", "remember", "019e0000-0000-7000-8000-000000000003", "--json")
    assert ran.code == 0, ran.err
    said = json.dumps(model.requests[0]["messages"])
    assert "do as in @@ Medlar" in said
    assert "On Mondays" not in said

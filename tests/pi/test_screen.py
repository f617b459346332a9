"""The real pi on a real terminal (a private tmux): completion while typing, a folded result, a resolved reference."""

import json
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.pi.conftest import SetDesk
from tests.support.chat import ASIDE, PROVIDER, Hangs, Use, plain
from tests.support.daemon import eventually
from tests.support.desk import PACKAGE, Desk

PATIENCE_S = 30.0


class Screen:
    """What a person sees, and keys that they press."""

    def __init__(self, desk: Desk) -> None:
        self._tmux = ["tmux", "-S", str(desk.daemon.directory / "tmux"), "-f", "/dev/null"]
        environ = desk.surroundings() | {"TERM": "screen-256color"}
        words = ["env", "-i", *(f"{name}={value}" for name, value in environ.items()), *desk.command()]
        start = desk.daemon.directory / "start"
        start.write_text(f"#!/bin/sh\ncd {shlex.quote(str(desk.work))}\nexec {shlex.join(words)}\n")
        start.chmod(0o700)
        self._run("new-session", "-d", "-x", "120", "-y", "45", str(start))

    def resize(self, columns: int, rows: int) -> None:
        self._run("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", text)

    def enter(self, text: str) -> None:
        """Type a line, and send it once it stands there."""
        self.type(text)
        self.shows(text)
        self.press("Enter")

    def press(self, key: str) -> None:
        self._run("send-keys", key)

    def shows(self, text: str) -> str:
        """Wait until this is to be seen; gives the whole screen."""
        try:
            return eventually(lambda: seen if text in (seen := self.text()) else "", PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"not to be seen: {text}\n{self.text()}") from None

    def shows_no_more(self, text: str) -> None:
        """Wait until this is not to be seen."""
        eventually(lambda: text not in self.text(), PATIENCE_S)

    def text(self) -> str:
        return self._run("capture-pane", "-p").stdout

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self._tmux, *words], check=True, capture_output=True, text=True)


@pytest.fixture
def screen(desk: Desk) -> Iterator[Screen]:
    if shutil.which("tmux") is None:
        pytest.skip("a terminal is had from tmux, and there is none on the PATH")
    screen = Screen(desk)
    yield screen
    screen.close()


def test_names_complete_while_typing_and_the_reference_is_shown(desk: Desk, screen: Screen) -> None:
    screen.shows("[Extensions]")
    screen.type("as in @@")
    screen.shows("Medlar")
    screen.type("plum")
    screen.shows_no_more("Medlar")
    screen.press("Tab")
    screen.shows("@@plum-tree-care")
    desk.model.says(Use("search_sessions", {"query": "plum"}), "All done.")
    screen.press("Enter")
    seen = screen.shows("All done.")
    assert "as in @@plum-tree-care" in seen
    assert "@@ Plum tree care" in seen
    assert 'search_sessions "plum"' in seen
    assert "1 found" in seen
    assert "read on:" not in seen  # folded
    screen.press("C-o")
    screen.shows("read on:")


def test_the_session_that_was_chosen_is_the_one_that_is_told(desk: Desk, screen: Screen) -> None:
    """Another project has a session of the same name as this one."""
    desk.keep(desk.session(3, cwd="/elsewhere/orchard").user("quinces elsewhere").name("Plum tree care"))
    desk.daemon.sync()
    screen.shows("[Extensions]")
    screen.type("as in @@@plum")
    assert "2026-03-03  pi  /elsewhere/orchard" in screen.shows("/elsewhere/orchard")
    screen.press("Tab")
    screen.shows(f"@@{desk.session(3).id}")
    screen.press("Enter")
    screen.shows("Plum tree care  2026-03-03")
    screen.shows("Done.")
    assert "> quinces elsewhere" in plain(desk.model.requests[-1]["messages"][-1])


def test_an_ambiguous_reference_leaves_the_text_to_be_mended(desk: Desk, screen: Screen) -> None:
    desk.keep(desk.session(3).user("a").name("Twin"), desk.session(4).user("b").name("Twin"))
    desk.daemon.sync()
    screen.shows("[Extensions]")
    screen.type("see @@twin please")
    screen.shows("see @@twin please")
    screen.press("Enter")
    screen.shows("@@twin: which session is meant?")
    screen.press("Escape")
    screen.shows("see @@twin please")
    screen.shows_no_more("which session is meant?")
    screen.type("!")
    screen.shows("see @@twin please!")
    assert desk.model.requests == []


def test_sessions_are_chosen_from_a_list(desk: Desk, screen: Screen) -> None:
    desk.model.says("Beside the barn.")
    desk.ask("where shall the walnut stand?")
    screen.shows("[Extensions]")
    screen.type("/sessions walnut")
    screen.shows("/sessions walnut")
    screen.press("Enter")
    screen.shows("Sessions with walnut")
    screen.press("Enter")
    screen.shows("Beside the barn.")


@pytest.mark.parametrize(("columns", "rows"), [(60, 20), (80, 24), (100, 36), (140, 50)])
def test_the_list_fits_the_terminal(desk: Desk, screen: Screen, columns: int, rows: int) -> None:
    """However long names and passages are, and with characters that take two columns."""
    for number in range(3, 29):
        session = (
            desk.session(number).user(f"walnut {number} {'語' * 60} {'walnut shade ' * 30}").assistant("It is one.")
        )
        desk.keep(session.name(f"Walnut number {number} {'名' * 50}"))
    desk.daemon.sync()
    screen.resize(columns, rows)
    screen.shows("[Extensions]")
    screen.type("/sessions walnut")
    screen.shows("/sessions walnut")
    screen.press("Enter")
    seen = screen.shows("enter opens").rstrip("\n").split("\n")
    assert len(seen) <= rows
    assert any(line.startswith("Sessions with walnut  1 of 26") for line in seen)
    assert len([line for line in seen if "Walnut number" in line]) >= 4
    assert len([line for line in seen if "  user: " in line]) >= 4
    assert all("2026-03-" in line for line in seen if "Walnut number" in line)
    for _ in range(30):
        screen.press("Down")
    seen = screen.shows("26 of 26").rstrip("\n").split("\n")
    assert (
        [line for line in seen if line.startswith("→ ")] == [line for line in seen if line.startswith("→ Walnut")] != []
    )
    screen.press("Right")
    screen.shows("[0] user")
    screen.press("Escape")
    screen.shows("→ reads")
    screen.press("Escape")
    screen.shows_no_more("→ reads")


def test_one_of_the_list_is_taken_into_the_prompt(desk: Desk, screen: Screen) -> None:
    screen.shows("[Extensions]")
    screen.type("/sessions fruit")
    screen.shows("/sessions fruit")
    screen.press("Enter")
    screen.shows("Sessions with fruit")
    screen.type("p")
    screen.shows(f"@@{desk.session(1).id}")
    screen.type("how was it?")
    screen.press("Enter")
    screen.shows("Plum tree care  2026-03-01")
    screen.shows("Done.")
    assert "> why does the plum tree" in plain(desk.model.requests[-1]["messages"][-1])


def test_filters_complete_while_typing(screen: Screen) -> None:
    screen.shows("[Extensions]")
    screen.type("/sessions plum --st")
    screen.shows("how a call ended")
    screen.press("Tab")
    screen.shows("/sessions plum --status")
    screen.type("e")
    screen.shows("→ error")


def patient_package(desk: Desk) -> str:
    """One that waits for as long as the test needs to press a key: after three seconds it would send the prompt."""
    package = desk.daemon.directory / "patient"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("node_modules", "tests"))
    prompts = package / "sesame/prompts.ts"
    short, long = "const PATIENCE_MS = 3_000;", "const PATIENCE_MS = 120_000;"
    assert short in prompts.read_text()
    prompts.write_text(prompts.read_text().replace(short, long))
    return str(package)


def test_escape_ends_the_waiting_and_gives_the_prompt_back(set_desk: SetDesk) -> None:
    desk = set_desk(running=False)
    desk.daemon.runtime_dir.mkdir(0o700)
    desk.package = patient_package(desk)
    screen = Screen(desk)
    try:
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(desk.daemon.socket)
            silent.listen()
            screen.shows("[Extensions]")
            screen.type("see @@plum-tree")
            screen.shows("see @@plum-tree")
            screen.press("Escape")  # the completion
            screen.press("Enter")
            screen.shows("waiting for sesamed")
            screen.press("Escape")
            screen.shows_no_more("waiting for sesamed")
            screen.shows("see @@plum-tree")
        assert desk.model.requests == []
    finally:
        screen.close()


@pytest.mark.fault(109)
@pytest.mark.parametrize("how", ["Escape", "/reload", "/new"])
def test_what_a_person_does_ends_the_call(desk: Desk, screen: Screen, how: str) -> None:
    """That writes what the session is: nothing is stored, and the model's provider sees the connection close."""
    settings = {"modelKeys": [f"{PROVIDER}/{ASIDE}"], "minNewUserMessages": 5}
    (desk.agent / "session-index.config.json").write_text(json.dumps(settings))
    hangs = Hangs()
    desk.model.says_aside(hangs)
    screen.shows("[Extensions]")
    for line, answer in (("/reload", "Reloaded"), ("why?", "Done."), ("/index-session", "indexing")):
        screen.enter(line)
        screen.shows(answer)
    assert hangs.begun.wait(PATIENCE_S)
    if how == "Escape":
        screen.press(how)
        screen.shows("index failed: aborted")
    else:
        screen.enter(how)
    assert hangs.hung_up.wait(PATIENCE_S)
    desk.daemon.sync()
    metas = [desk.daemon.call("get_session_meta", sessionId=one["sessionId"]) for one in desk.daemon.sessions()]
    assert [meta["generated"] for meta in metas] == [None] * 3
    assert not list(desk.agent.glob("sessions-meta/*"))

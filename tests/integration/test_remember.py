"""`sesamectl remember`: a model behind a real command writes what sessions are, and nothing that it does stops the others."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from sesamed.model import PROMPT_MARKER
from tests.support.client import PATIENCE_S
from tests.support.daemon import eventually
from tests.support.machine import Machine, Run
from tests.support.sessions import PiSession

# What answers: a model that says what it is told to, in order, and keeps what it was asked.
MODEL = """
import json, os, sys, time, subprocess
place = sys.argv[1]
prompt = sys.stdin.read()
number = len(os.listdir(place + "/asked"))
open(f"{place}/asked/{number:03}", "w").write(prompt)
says = json.load(open(place + "/says"))
says = says[min(number, len(says) - 1)]
exec(says) if says.startswith("#") else print(says)
"""
GOOD = {
    "name": "Where quinces grow",
    "summary": "It was asked where the quince stands.",
    "tags": ["orchard"],
    "recallWords": ["pomaceous scions", "Obstwiese"],
}

NOTHING = {"remembered": [], "wouldSend": [], "failed": [], "left": 0, "waiting": 0}


class Desk(Machine):
    """A machine with a model."""

    def __init__(self) -> None:
        super().__init__()
        self.model = self.place / "model"
        (self.model / "asked").mkdir(parents=True)
        (self.model / "model.py").write_text(MODEL)
        self.configure()

    def configure(self, **more: Any) -> None:
        command = [sys.executable, str(self.model / "model.py"), str(self.model)]
        config = {"memory": {"command": command, "model": "small", **more}}
        (self.config / "config.jsonc").write_text(json.dumps(config))

    def says(self, *answers: Any) -> None:
        """What it answers, one after the other, the last again and again; code begins with `#`."""
        texts = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
        (self.model / "says").write_text(json.dumps(texts))

    @property
    def asked(self) -> list[str]:
        return [path.read_text() for path in sorted((self.model / "asked").iterdir())]

    def meta(self, session: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("note", session, "--json").stdout)
        return found

    def remember(self, *words: str, code: int = 0) -> dict[str, Any]:
        done = self.run("remember", *words, "--json")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    made.write("quince", "where does the quince stand")
    made.write("medlar", "a medlar pie")
    try:
        yield made
    finally:
        made.remove()


def errors(run: Run) -> list[str]:
    assert "Traceback" not in run.stderr
    return run.stderr.splitlines()


def test_a_good_answer_is_stored_at_once(desk: Desk) -> None:
    """As a model's; it is found by words that nobody said, and the next one who asks sees that it is done."""
    desk.says(GOOD)
    (done,) = desk.remember("quince")["remembered"]
    assert (done["sessionId"], done["name"], done["tries"]) == ("quince", "Where quinces grow", 1)
    meta = desk.meta("quince")
    assert {name: meta[name] for name in ("summary", "tags", "recallWords", "name")} == GOOD
    assert meta["generated"] | {"at": ""} == {
        "model": "small", "at": "", "upTo": 1, "costUsd": None, "fields": ["title", "summary", "tags", "recallWords"],
    }  # fmt: skip
    (prompt,) = desk.asked
    assert prompt.startswith(PROMPT_MARKER)
    assert "User: where does the quince stand\n\nAssistant: yes" in prompt
    assert "medlar" not in prompt
    assert "quince" in desk.run("search", "obstwiese").stdout
    desk.configure(languages=["English", "Deutsch\u200b "])  # what was remembered before is not due for that
    assert [one["sessionId"] for one in desk.remember("--due")["remembered"]] == ["medlar"]
    assert [" session is in: English, Deutsch. No filler" in asked for asked in desk.asked] == [False, True]
    assert desk.remember("--due") == NOTHING
    assert desk.run("remember", "--due").stdout == "No session is due\n"


def test_progress_goes_to_standard_error(desk: Desk) -> None:
    """A line when it is asked, and one when it is stored."""
    desk.says(f"Here you are {{as asked}}:\n```json\n{json.dumps({**GOOD, 'name': 'Red' + chr(27) + '[31m'})}\n```")
    done = desk.run("remember", "quince", "medlar")
    assert (done.returncode, errors(done)) == (
        0,
        [
            "[1 of 2] quince where does the quince stand",
            "  stored: Red",
            "[2 of 2] medlar a medlar pie",
            "  stored: Red",
        ],
    )
    sent = sum(len(prompt.encode()) for prompt in desk.asked)
    assert done.stdout == f"2 sessions remembered, 0 failed; {sent:,} bytes sent\n"


def test_a_malformed_answer_is_asked_for_again(desk: Desk) -> None:
    """Twice at most, with the answer and what is wrong with it."""
    desk.says("I would rather not.", {**GOOD, "tags": "orchard"}, GOOD)
    (done,) = desk.remember("quince")["remembered"]
    assert (done["tries"], desk.meta("quince")["name"]) == (3, "Where quinces grow")
    first, second, third = desk.asked
    assert second.startswith(first)
    assert "I would rather not." in second
    assert "there is no JSON object in it" in second
    assert '"tags" must be a list of texts' in third
    assert "I would rather not." not in third


def test_three_malformed_answers_are_enough(desk: Desk) -> None:
    """Nothing is stored; the others are done."""
    desk.says("no", "no", "{", GOOD)
    answer = desk.remember("quince", "medlar", code=4)
    (failed,) = answer["failed"]
    assert failed["session"] == "quince"
    assert failed["error"].startswith("no usable answer in 3 tries: the JSON object cannot be read")
    assert [one["sessionId"] for one in answer["remembered"]] == ["medlar"]
    assert desk.meta("quince")["generated"] is None


def test_a_failing_command_is_not_tried_again(desk: Desk) -> None:
    """It says so in a line of its own; the others are done, and what failed is due still."""
    desk.says("#\nsys.stderr.write('thinking\\nno credit \\x1b[31mleft\\n'); sys.exit(7)", GOOD)
    done = desk.run("remember", "quince", "medlar")
    assert done.returncode == 4
    assert errors(done)[1] == f"quince: failed: {sys.executable} ended with 7: no credit left"
    assert done.stdout.startswith("1 session remembered, 1 failed; ")
    assert len(desk.asked) == 2
    assert [one["sessionId"] for one in desk.remember("--due", "--dry-run")["wouldSend"]] == ["quince"]


def test_what_came_to_nothing_does_not_stand_in_the_way(desk: Desk) -> None:
    """The next run goes on with the others; who is named is asked about in any case."""
    desk.says("no", "no", "no", "#\nsys.exit(7)", GOOD)
    first, second = (desk.remember("--due", "--limit", "1", code=4)["failed"][0]["session"] for _ in range(2))
    assert {first, second} == {"quince", "medlar"}
    assert desk.remember("--due") == {**NOTHING, "waiting": 2}
    assert desk.run("remember", "--due").stdout == "No session is due; 2 sessions to be tried again later\n"
    assert len(desk.asked) == 4
    assert desk.remember(first)["failed"] == []
    assert desk.remember("--due") == {**NOTHING, "waiting": 1}


def test_a_command_that_always_fails_is_given_up(desk: Desk) -> None:
    """After three sessions: the others would only cost time."""
    for number in range(4):
        desk.write(f"tree-{number}", "a tree")
    desk.says("#\nsys.exit(7)")
    done = desk.run("remember", "--due")
    assert (done.returncode, errors(done)[-1]) == (4, "stopped: the command failed 3 times in a row")
    assert done.stdout == "0 sessions remembered, 3 failed; 0 bytes sent; 3 more sessions to do\n"
    assert len(desk.asked) == 3
    desk.says(GOOD)
    assert len(desk.remember("--due")["remembered"]) == 3


def test_two_runs_do_not_ask_about_the_same_sessions(desk: Desk) -> None:
    """The second one is refused; one that names a session is not."""
    desk.says("#\nos.mkfifo(place + '/lives'); os.open(place + '/lives', os.O_RDWR); time.sleep(600)", GOOD)
    process = desk.start("remember", "--due", "--limit", "1")
    eventually(lambda: (desk.model / "lives").exists())
    done = desk.run("remember", "--due")
    said = f"sesamectl: another `sesamectl remember --due` is running (pid {process.pid})"
    assert (done.returncode, errors(done)) == (4, [said])
    assert desk.remember("--due", "--dry-run")["left"] == 0
    assert len(desk.remember("medlar")["remembered"]) == 1
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    assert [one["sessionId"] for one in desk.remember("--due")["remembered"]] == ["quince"]


def test_what_a_command_tells_of_its_cost_is_kept(desk: Desk) -> None:
    """All tries together."""
    said = [{"result": text, "total_cost_usd": cost} for text, cost in (("no", 0.001), (json.dumps(GOOD), 0.0025))]
    desk.says(*said)
    done = desk.run("remember", "quince")
    assert errors(done)[-1] == "  stored: Where quinces grow ($0.0035)"
    assert done.stdout.endswith(" bytes sent, $0.0035\n")
    assert desk.meta("quince")["generated"]["costUsd"] == 0.0035
    assert "Your last answer was:\n<answer>\nno\n</answer>" in desk.asked[1]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(desk: Desk) -> None:
    """After the configured time."""
    desk.configure(timeoutSeconds=5)  # in which a model must start, too
    hang = "#\nos.mkfifo(place + '/lives'); subprocess.Popen(['sleep', '600'], stdin=os.open(place + '/lives', os.O_RDWR)); time.sleep(600)"
    desk.says(hang, GOOD)
    answer = desk.remember("quince", "medlar", code=4)
    assert answer["failed"] == [{"session": "quince", "error": "no answer within 5 s (memory.timeoutSeconds)"}]
    assert len(answer["remembered"]) == 1
    with pytest.raises(OSError, match="No such device"):  # nobody holds its other end
        os.open(desk.model / "lives", os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_the_command_and_keeps_what_is_stored(desk: Desk, number: signal.Signals) -> None:
    """The next run goes on from there; the same when a service manager stops it, or its terminal is closed."""
    desk.says(GOOD, "#\nos.mkfifo(place + '/lives'); os.open(place + '/lives', os.O_RDWR); time.sleep(600)")
    process = desk.start("remember", "quince", "medlar")
    eventually(lambda: (desk.model / "lives").exists())
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    with pytest.raises(OSError, match="No such device"):
        os.open(desk.model / "lives", os.O_WRONLY | os.O_NONBLOCK)
    assert [one["sessionId"] for one in desk.remember("--due", "--dry-run")["wouldSend"]] == ["medlar"]


def test_a_flood_is_not_kept(desk: Desk) -> None:
    """A command that never stops printing is ended."""
    desk.says("#\nwhile True: print('x' * 9999)")
    (failed,) = desk.remember("quince", code=4)["failed"]
    assert failed["error"] == "it printed more than 1 MiB"


def meanwhile(**words: Any) -> str:
    """A model that takes so long that somebody else says something of the session first."""
    answer = json.dumps({**GOOD, "summary": "late"})
    storing = f"client.call('set_session_meta', sessionId='quince', **{words!r})"
    return f"#\nfrom sesamectl.client import Client\nwith Client() as client: {storing}\nprint({answer!r})"


def test_what_a_person_wrote_meanwhile_stands_above(desk: Desk) -> None:
    """Field by field."""
    desk.says(meanwhile(title="Mine"))
    (done,) = desk.remember("quince")["remembered"]
    assert done["name"] == "Mine"
    assert desk.meta("quince")["summary"] == "late"


def test_what_another_generator_stored_meanwhile_stays(desk: Desk) -> None:
    """Compare and set."""
    desk.says(meanwhile(summary="other", generated={"model": "other", "at": "2026-01-01T00:00:00Z", "upTo": 1}))
    (failed,) = desk.remember("quince", code=4)["failed"]
    assert "nothing was stored" in failed["error"]
    assert (desk.meta("quince")["summary"], desk.meta("quince")["generated"]["model"]) == ("other", "other")


def test_what_would_be_sent_is_shown(desk: Desk) -> None:
    """All of it, masked, with its size; nobody is asked, and no command needs to be configured."""
    (desk.config / "config.jsonc").write_text('{"memory": {"languages": ["German"]}}')
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    desk.write("secret", f"the token is {secret}")
    answer = desk.remember("secret", "--dry-run")
    (would,) = answer["wouldSend"]
    assert "the token is [masked:githubtoken]" in would["prompt"]
    assert " session is in: German. No filler" in would["prompt"]
    assert would["bytes"] == len(would["prompt"].encode())
    assert would["tokens"] == -(-would["bytes"] // 4)
    shown = desk.run("remember", "secret", "--dry-run").stdout
    assert "User: the token is [masked:githubtoken]" in shown
    assert f"1 session would be sent: {would['bytes']:,} bytes, about {would['tokens']:,} tokens" in shown
    assert secret not in shown
    assert desk.asked == []


def test_a_budget_is_kept(desk: Desk) -> None:
    """What does not fit is left for another run, with a dry run as without."""
    desk.says(GOOD)
    (one,) = desk.remember("quince", "--dry-run")["wouldSend"]
    for words in (("--dry-run",), ()):
        answer = desk.remember("quince", "medlar", "--budget", str(one["tokens"] + 1), *words)
        took = answer["wouldSend"] + answer["remembered"]
        assert ([each["sessionId"] for each in took], answer["failed"], answer["left"]) == (["quince"], [], 1)
    done = desk.run("remember", "medlar", "--budget", "1")
    assert done.stdout == "Nothing done; 1 more session to do\n"
    assert errors(done)[-1] == "medlar: stopped: it goes beyond the budget"
    assert len(desk.asked) == 1


def test_without_a_command_it_says_which_there_are(desk: Desk) -> None:
    """One line; so do a wrong configuration, a command that is not there, and words that make no sense."""
    (desk.config / "config.jsonc").unlink()
    done = desk.run("remember", "quince")
    (line,) = errors(done)
    assert (done.returncode, line.startswith("sesamectl: no model to ask: put memory.command into ")) == (4, True)
    assert all(name in line for name in ("claude", "codex", "pi", "llm", "ollama"))
    desk.configure(command=["/nowhere/model"])
    done = desk.run("remember", "quince")
    assert errors(done)[1:] == [
        "sesamectl: cannot run /nowhere/model: No such file or directory; it is memory.command in the configuration"
    ]
    desk.configure(command="model")
    assert "$.memory.command" in errors(desk.run("remember", "quince"))[0]
    for words in ((), ("--due", "quince"), ("quince", "--limit", "3")):
        done = desk.run("remember", *words)
        assert (done.returncode, len(errors(done))) == (2, 1)


def test_one_that_is_not_there_stops_no_other(desk: Desk) -> None:
    """Nor does one in which nobody has said anything."""
    desk.says(GOOD)
    (desk.sessions / "empty.jsonl").write_bytes(PiSession(id="empty").name("empty").bytes())
    answer = desk.remember("nowhere", "empty", "medlar", code=4)
    assert [one["session"] for one in answer["failed"]] == ["nowhere", "empty"]
    assert answer["failed"][1]["error"] == "nobody has said anything in it"
    assert [one["sessionId"] for one in answer["remembered"]] == ["medlar"]


def test_a_long_session_is_cut_in_the_middle(desk: Desk) -> None:
    """The first prompt and the newest remain, without tools and what they printed."""
    session = PiSession(id="long").user("the first prompt " + "x" * 20_000)
    for number in range(300):
        session.user(f"question {number}").assistant(f"answer {number} " + "é" * 400)
        session.tool("bash", {"command": f"make {number}"}, "zebra")
    session.compaction("what was before").user("the last word")
    (desk.sessions / "long.jsonl").write_bytes(session.bytes())
    (would,) = desk.remember("long", "--dry-run")["wouldSend"]
    text = would["prompt"].partition("<session>\n")[2]
    assert 50_000 < len(text.encode()) < 52_000
    assert "User: the first prompt xxx" in text
    assert "User: the last word" in text
    assert "Summary of what was before: what was before" in text
    assert "question 299" in text
    assert "question 1\n" not in text
    assert "The middle of it was left out." in text
    assert "zebra" not in text


def test_what_the_person_went_back_from_is_not_sent(desk: Desk) -> None:
    """And counts as seen all the same: nothing of it is due later."""
    session = PiSession(id="forked").user("how to prune a quince").assistant("in winter")
    kept = session.last
    session.user("and a medlar").assistant("likewise").back_to(kept).user("and a fig")
    (desk.sessions / "forked.jsonl").write_bytes(session.bytes())
    (would,) = desk.remember("forked", "--dry-run")["wouldSend"]
    assert ["User: and a fig" in would["prompt"], "medlar" in would["prompt"]] == [True, False]
    assert "User: how to prune a quince" in would["prompt"]


def test_what_was_excluded_a_moment_ago_is_not_sent(desk: Desk) -> None:
    """Before any sweep: neither when it is named, nor when it is due, nor while others are remembered."""
    garden = desk.place / "garden"
    garden.mkdir()
    for name in ("pear", "plum"):
        session = PiSession(id=name, cwd=str(garden)).user(f"where does the {name} stand").assistant("there")
        (desk.sessions / f"{name}.jsonl").write_bytes(session.bytes())
    assert json.loads(desk.run("list", "--json").stdout)["total"] == 4
    exclude = f"open({str(garden / '.sesameignore')!r}, 'w').close()"
    desk.says(f"#\n{exclude}\nprint({json.dumps(GOOD)!r})")
    done = desk.remember("quince", "pear", code=4)
    assert [one["sessionId"] for one in done["remembered"]] == ["quince"]
    assert "pear" in done["failed"][0]["error"]
    (garden / ".sesameignore").unlink()
    assert json.loads(desk.run("search", "plum", "--fresh", "--json").stdout)["resultCount"] == 1
    (garden / ".sesameignore").touch()
    assert [one["sessionId"] for one in desk.remember("--due")["remembered"]] == ["medlar"]
    assert not any("where does the pear" in asked or "where does the plum" in asked for asked in desk.asked)


def test_it_does_not_feed_on_itself(desk: Desk) -> None:
    """A command that keeps a transcript of each prompt where sessions are: none of them is a session, and nothing is due but what was."""
    for number in range(18):
        desk.write(f"tree-{number}", f"the tree number {number} has a quince")
    transcript = (
        "#\nfrom tests.support.sessions import PiSession\n"
        f"PiSession(id=f'transcript-{{number}}').user(prompt).assistant({json.dumps(GOOD)!r})"
        f".write(__import__('pathlib').Path({str(desk.sessions)!r}) / f'transcript-{{number}}.jsonl')\n"
        f"print({json.dumps({**GOOD, 'summary': 'A tree.'})!r})"
    )
    desk.says(transcript)
    before = desk.run("search", "quince", "--fresh", "--json", "--limit", "50")
    assert json.loads(desk.run("list", "--json").stdout)["total"] == 20
    done = desk.remember("--due", "--limit", "20")
    assert (len(done["remembered"]), done["failed"], done["left"]) == (20, [], 0)
    assert len(list(desk.sessions.glob("transcript-*"))) == 20
    after = desk.run("search", "quince", "--fresh", "--json", "--limit", "50")
    assert {hit["sessionId"] for hit in json.loads(after.stdout)["results"]} >= {
        hit["sessionId"] for hit in json.loads(before.stdout)["results"]
    }
    assert json.loads(desk.run("list", "--empty", "--json").stdout)["total"] == 20
    assert json.loads(desk.run("search", '"catalogue entry"', "--fresh", "--json").stdout)["resultCount"] == 0
    assert desk.remember("--due") == NOTHING


# -- by itself


def test_by_itself_nothing_of_a_session_is_told(desk: Desk) -> None:
    """Lines for a log: ids, counts and times. The command gets what the file of variables has."""
    (desk.place / "env").write_text("MODEL_KEY=sk-secret\n")
    (desk.place / "env").chmod(0o600)
    desk.configure(auto={"since": "999mo", "environmentFile": str(desk.place / "env")})
    desk.says(
        f"#\nassert os.environ['MODEL_KEY'] == 'sk-secret'; print({json.dumps(GOOD)!r})", "sorry, quince", "no", "no"
    )
    done = desk.run("remember", "--auto")
    assert (done.returncode, done.stdout) == (0, "")
    lines = [line.split(" ", 2)[2] for line in errors(done)]
    first, second = (line.split()[-1] for line in lines if line.startswith("INFO remember ["))
    assert lines == [
        f"INFO remember [1 of 2] {first}",
        "INFO remember stored",
        f"INFO remember [2 of 2] {second}",
        *(f"INFO remember try {number} of 3: there is no JSON object in it" for number in (1, 2)),
        f"WARNING remember {second}: failed: no usable answer in 3 tries: there is no JSON object in it",
        f"INFO remember 1 session remembered, 1 failed; {len(desk.asked[0].encode()):,} bytes sent",
    ]
    assert {first, second} == {"quince", "medlar"}
    assert desk.run("remember", "--auto").stderr.endswith("No session is due; 1 session to be tried again later\n")


def test_by_itself_nobody_needs_to_listen(desk: Desk) -> None:
    """With standard output and error closed, it does its work."""
    desk.says(GOOD)
    desk.configure(auto={"since": "999mo"})
    run = [sys.executable, "-m", "sesamectl", "remember", "--auto"]
    done = subprocess.run(["sh", "-c", '"$@" >/dev/null 2>&-', "sh", *run], env=desk.environ, check=False)
    assert done.returncode == 0
    assert desk.remember("--due") == NOTHING


def test_by_itself_a_day_has_its_budget(desk: Desk) -> None:
    """Whatever was sent is counted, also by runs that came to nothing; what a person sends is not."""
    desk.says("no")
    desk.configure(auto={"since": "999mo", "limit": 1})
    assert desk.run("remember", "--auto").returncode == 0
    sent = sum(-(-len(prompt.encode()) // 4) for prompt in desk.asked)
    assert json.loads((desk.data / "remember.json").read_text())["tokens"] == sent
    desk.configure(auto={"since": "999mo", "tokensPerDay": sent + 10})
    desk.says(GOOD)
    done = desk.run("remember", "--auto", "--json")
    assert json.loads(done.stdout) == {**NOTHING, "left": 1, "waiting": 1}
    assert "stopped: it goes beyond the budget" in done.stderr
    assert len(desk.remember("--due")["remembered"]) == 1
    assert json.loads((desk.data / "remember.json").read_text())["tokens"] == sent


def test_by_itself_it_makes_way(desk: Desk) -> None:
    """Where somebody has it done at that moment, that is no failure; where the command fails, it is."""
    desk.configure(auto={"since": "999mo"})
    desk.says(
        "#\nos.mkfifo(place + '/lives'); os.open(place + '/lives', os.O_RDWR); time.sleep(600)", "#\nsys.exit('quince')"
    )
    process = desk.start("remember", "--due", "--limit", "1")
    eventually(lambda: (desk.model / "lives").exists())
    done = desk.run("remember", "--auto")
    assert (done.returncode, f"is running (pid {process.pid})" in done.stderr) == (0, True)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    done = desk.run("remember", "--auto")
    assert (done.returncode, "quince: failed" in done.stderr, "ended with 1\n" in done.stderr) == (4, True, True)
    for words in (("quince",), ("--due",), ("--limit", "3"), ("--budget", "3"), ("--dry-run",)):
        assert desk.run("remember", "--auto", *words).returncode == 2

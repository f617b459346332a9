"""No answer contains what nobody can see. Hostile sessions of every source are indexed, and each field of each result must be clean, or be
one of those that are documented as exact; so must all that sesamectl prints. A field or a command that is added fails here until a canary
reaches it, or it is listed.
"""

import io
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct

from sesamectl.cli import main
from sesamectl.errors import RpcError
from sesamectl.flags import COMMANDS
from sesamed.methods.index import ProgressLine
from sesamed.methods.table import METHODS
from sesamed.sanitize import Time, clean_text
from tests.support.canaries import IN_IDS, IN_TEXTS, LEFT_OF_SEQUENCES, WORD, write_hostile_roots
from tests.support.claude import ClaudeSession
from tests.support.codex import CodexSession
from tests.support.daemon import Daemon, eventually
from tests.support.sessions import PiSession

# Returned as they are: ids and paths (docs/protocol.md). What is asked for, too.
EXACT = frozenset(
    "sessionId shortId key path cwd projectPath parentSessionId entryId children ignored part ignoreFile command unarchive resumeHere"
    " query word matchedWords missingWords dropped excluded".split()
)
SEVERAL_LINES = frozenset(("text", "snippet", "summary", "description"))
# No transcript fills these, by their names or places.
OURS = frozenset(
    "hello.name version methods toolFamilies{} toolFamilies socket database.path sqliteVersion workstation.id workstation parser source"
    " epoch reason excluded.trouble configFile settingsDigest progress.id new_session.sessionId new_session.path"
    " timeFilter.words timeFilter.days timeFilter.effect".split()
)
NOT_FOUND, AMBIGUOUS, REFUSED = 1, 2, 7
RESULTS = {method.name: method.result for method in METHODS} | {"progress": ProgressLine}


def example(hint: Any) -> Any:
    """A value of this type in which nothing is missing."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return example(arguments[0])
    if origin in (Union, UnionType):
        return example(next(part for part in arguments if part is not NoneType))
    if origin in (list, tuple):
        return [example(part) for part in arguments if part is not ...]
    if origin is Mapping:
        return {"": example(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return {name: example(part) for name, part in fields_of(hint)}
    return ""


def fields_of(struct: type[Struct]) -> Iterator[tuple[str, Any]]:
    """The fields of a struct by their names on the wire."""
    hints = get_type_hints(struct, include_extras=True)
    for name, encoded in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
        yield encoded, hints[name]


def texts(hint: Any, value: Any, place: str) -> Iterator[tuple[str, str]]:
    """The texts in a value of this type that anybody has chosen, each with its place."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == Time or value is None:
        return
    if origin is Annotated:
        yield from texts(arguments[0], value, place)
    elif origin in (Union, UnionType):
        yield from texts(next(part for part in arguments if part is not NoneType), value, place)
    elif hint is str and isinstance(value, str):
        yield place, value
    else:
        for part, item, within in parts(hint, value, place):
            yield from texts(part, item, within)


def parts(hint: Any, value: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    """What a value consists of: types, values and places."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (list, tuple):
        yield from ((arguments[0], item, place) for item in value)
    elif origin is Mapping:
        yield from ((str, name, f"{place}{{}}") for name in value)
        yield from ((arguments[1], item, place) for item in value.values())
    elif isinstance(hint, type) and issubclass(hint, Struct):
        yield from ((part, value[name], f"{place}.{name}") for name, part in fields_of(hint))


PLACES = {place for name, result in RESULTS.items() for place, _ in texts(result, example(result), name)}


class Answers:
    """Asks a daemon, and keeps every text of what it answers, by its place."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.texts: dict[str, set[str]] = defaultdict(set)
        self.refusals: list[RpcError] = []

    def ask(self, method: str, **params: Any) -> Any:
        """The answer."""
        answer = self.daemon.call(method, **params)
        self.keep(method, answer)
        return answer

    def keep(self, name: str, answer: Any) -> None:
        """Keep what a result or a notification says."""
        for place, text in texts(RESULTS[name], answer, name):
            self.texts[place].add(text)

    def refuse(self, method: str, **params: Any) -> None:
        """Ask what must be refused."""
        self.refusals.append(self.daemon.refuses(method, **params))


@contextmanager
def hostile_company() -> Iterator[Answers]:
    """A daemon with hostile sessions, and nobody who has read them yet."""
    with Daemon() as daemon:
        daemon.stop()
        roots = [*write_hostile_roots(daemon.directory / "roots").items(), *write_plain_roots(daemon)]
        model = daemon.directory / "model.py"
        model.write_text(MODEL, encoding="utf-8")
        sources = [{"parser": name, "path": str(root)} for name, root in roots]
        nowhere = IN_IDS.replace("\\", "\\\\").replace("'", "\\'")
        hub = {"dsn": f"host='/{nowhere}' user=nobody", "projects": {"allow": ["**"]}, "follow": ["**"]}
        daemon.configure({"sources": sources, "memory": {"command": [sys.executable, str(model)]}, "hub": hub})
        daemon.allowed.append("WARNING")
        daemon.start()
        answers = Answers(daemon)
        write_own(answers)
        yield answers


@pytest.fixture(scope="module")
def answers() -> Iterator[Answers]:
    """All methods have been asked for everything."""
    with hostile_company() as answers:
        read_everything(answers)
        take_away(answers)
        yield answers


def write_plain_roots(daemon: Daemon) -> Iterator[tuple[str, Path]]:
    """What is only said of sessions that can be resumed, of files that cannot be read, and of directories that are gone."""
    work, private = daemon.directory / WORD, daemon.directory / f"private{IN_IDS}"
    private.mkdir()
    (private / ".sesameignore").touch()
    sessions = [
        ("pi", PiSession(id=f"{WORD}-1", cwd=str(work)).user("plain")),
        ("claude", ClaudeSession(id=f"{WORD}-2", cwd=f"/{WORD}").user("plain")),
        ("pi", PiSession(id=f"{WORD}-4", cwd=str(private)).user("kept out")),
        ("codex", CodexSession(id=f"{WORD}-3", cwd=str(work)).user("plain")),
    ]
    for source, session in sessions:
        root = work / session.id / "archived_sessions"
        root.mkdir(parents=True)
        session.write(root)
        if source == "pi":
            write_meta(root, session.id)
        yield source, root
    odd = daemon.directory / f"odd{IN_IDS}"
    (odd / ".sesameignore").mkdir(parents=True)
    yield "pi", odd
    (root / f"broken{IN_IDS}.jsonl.zst").write_bytes(b"no zstd")
    (root / f"unfinished{IN_IDS}.jsonl").write_bytes(b'{"type"')


def write_meta(root: Path, session: str) -> None:
    """What an extension of pi's had a model write."""
    texts = dict.fromkeys(("name", "summary", "description", "model"), IN_TEXTS)
    words = {"sessionId": session, "updatedAt": "2026-01-31T12:00:00Z", **texts, "tags": [IN_TEXTS, IN_IDS]}
    (root / f"{session}.meta.json").write_text(json.dumps(words))


def write_own(answers: Answers) -> None:
    """A session of our own, and annotations of another one."""
    begun = answers.ask("new_session", agent=IN_TEXTS, sender=IN_TEXTS, cwd=f"/{IN_IDS}", title=IN_TEXTS)["sessionId"]
    for role, more in (("user", {}), ("assistant", {}), ("assistant", {"toolName": IN_TEXTS, "toolCallId": IN_IDS})):
        answers.ask("append_message", sessionId=begun, role=role, text=IN_TEXTS, **more)
    answers.ask("append_message", sessionId=begun, role="tool", text=IN_TEXTS, toolCallId=IN_IDS, isError=True)
    words = dict.fromkeys(("title", "summary", "description"), IN_TEXTS)
    answers.ask("set_session_meta", sessionId=begun, **words, tags=[IN_TEXTS, IN_IDS])
    generated = {"model": IN_TEXTS, "at": "2026-01-31T12:00:00Z", "upTo": 0}
    answers.ask("set_session_meta", sessionId=begun, recallWords=[IN_TEXTS, IN_IDS], generated=generated)


def read_everything(answers: Answers) -> None:
    """Every method that reads, in all ways in which it answers."""
    answers.ask("sync")  # a session that is alone has its name for itself
    answers.ask("sync", paths=[f"/{IN_IDS}"])
    answers.ask("hello")
    for sort in ("relevance", "recent"):
        for query in (
            WORD,
            "",
            f"{WORD}y",
            f"{WORD} {WORD}000",
            f"plain -{WORD}",
            " ".join(f"{WORD}{number}" for number in range(200)),
        ):
            answers.ask("search", query=query, limit=100, sort=sort)
            answers.ask("search", query=query, limit=100, sort=sort, tools=True)
            answers.ask("search_sessions", query=query, limit=20, sort=sort)
    for query in (
        f"{WORD} last year",
        f"{IN_TEXTS} this week",
        "\u202elast\x1b[2J week",
        f"{WORD} {IN_TEXTS}since monday",
    ):
        answers.ask("search", query=query, limit=100, timeWords=True)
        answers.ask("search_sessions", query=query, limit=20, timeWords=True)
    answers.ask("search", query=WORD, tool="bashh")
    answers.ask("search_sessions", query=WORD, tool="bashh")
    answers.ask("list_sessions", tool="bashh")
    for session in answers.ask("list_sessions", limit=500, empty=True)["sessions"]:
        for reveal in (False, True):
            answers.ask("list_messages", sessionId=session["key"], limit=200, reveal=reveal)
        meta = answers.ask("get_session_meta", sessionId=session["key"])
        answers.ask("resolve_session", ref=session["key"])
        answers.ask("set_session_meta", sessionId=session["key"])
        assert meta["sessionId"] == session["sessionId"]
    answers.ask("list_bad_lines", limit=100)
    answers.refuse("resolve_session", ref="zzcanary ignore")
    answers.refuse("resolve_session", ref=IN_TEXTS)
    answers.refuse("list_messages", sessionId=f"none {IN_TEXTS}")
    eventually(lambda: answers.daemon.call("status")["hub"]["error"])
    answers.refuse("append_message", sessionId=answers.daemon.sessions()[-1]["sessionId"], role="user", text="x")
    answers.ask("status")


def take_away(answers: Answers) -> None:
    """What is left behind."""
    sessions = answers.ask("list_sessions", limit=500)["sessions"]
    before = answers.ask("list_sessions", limit=0)["revision"]
    answers.ask("forget", sessionId=sessions[0]["key"])
    for source in {session["source"] for session in sessions}:  # each time the index is made anew
        answers.ask("forget", source=source)
    answers.ask("list_sessions", since=before)
    with answers.daemon.connect() as client:
        client.call("index", full=True, progress=True)
        for line in client.notified:
            answers.keep("progress", line["params"])
    answers.ask("index")


def name_of(place: str) -> str:
    """The field that a place ends with."""
    return place.rpartition(".")[2]


def is_ours(place: str) -> bool:
    """Whether no transcript fills this field."""
    return any(f".{place}".endswith(f".{ours}") for ours in OURS)


def is_clean(text: str, *, several_lines: bool = False) -> bool:
    """Whether all of a text can be seen."""
    whole = clean_text(text) == text and not LEFT_OF_SEQUENCES.search(text)
    return whole and (several_lines or not {"\n", "\t"} & set(text))


def test_a_canary_reaches_every_field(answers: Answers) -> None:
    """Else nothing is said about it here."""
    reached = {place for place, found in answers.texts.items() if any(WORD in text for text in found)}
    assert sorted(PLACES - reached) == sorted(place for place in PLACES if is_ours(place))


@pytest.mark.fault(104)
def test_every_field_is_clean(answers: Answers) -> None:
    """And those of one line are one line."""
    assert [
        (place, text)
        for place, found in answers.texts.items()
        if name_of(place) not in EXACT
        for text in found
        if not is_clean(text, several_lines=name_of(place) in SEVERAL_LINES)
    ] == []


@pytest.mark.fault(104)
def test_every_refusal_is_clean(answers: Answers) -> None:
    """A sentence on one line; in what it is about, only ids and paths are exact."""
    for refusal in answers.refusals:
        assert is_clean(refusal.message), refusal.message
        assert all(is_clean(session["name"]) for session in (refusal.data or {}).get("sessions", []))
    assert {refusal.code for refusal in answers.refusals} == {NOT_FOUND, AMBIGUOUS, REFUSED}
    assert all(WORD in refusal.message for refusal in answers.refusals)


# -- what people see


class Screen(io.StringIO):
    """A terminal with colours."""

    def isatty(self) -> bool:
        return True


OWN = re.compile(r"\x1b\[(?:0|1|2|1;4|1;31)m|\r|\x1b\[K")  # colours, and how a progress bar is drawn
# Answers in hostile words, complains in such, and fails each other time.
MODEL = f"""
import json, os, pathlib, sys
sys.stdin.read()
text = {f"{WORD} {IN_TEXTS}"!r}
turn = pathlib.Path(os.environ["HOME"], "turn")
if turn.exists():
    turn.unlink()
    sys.exit(text)
turn.touch()
print(json.dumps({{"name": text, "summary": text, "tags": [text], "recallWords": [text]}}))
"""
QUERIES = [[WORD], [], [f"{WORD}y"], [f"{WORD} {WORD}000"]]
# Commands with their words; `{}` stands for the id of a session of each source.
RUNS: Mapping[str, Sequence[Sequence[str]]] = {
    "search": [
        *QUERIES,
        [WORD, "--tool", "bashh"],
        [WORD, "-C", "2"],
        [WORD, "--scores", "--color", "never"],
        [WORD, f"-{WORD}x", "-1"],
        [WORD, "--tools"],
        [WORD, "--sort", "recent", "--subagents", "only"],
    ],
    "list": [[], ["--empty"], ["--changed-since", "0"], ["--tool", "bashh"], ["--similar-to", f"{WORD}-1"]],
    "show": [["{}"], ["{}:0"], ["{}", "--all"], [f"{WORD} ignore"], [f"none {IN_TEXTS}"]],
    "resolve": [["{}"], [f"{WORD} ignore"], [f"none {IN_TEXTS}"]],
    "resume": [["{}", "--print"], ["{}", "--here", "--print"], [f"{WORD}-1"], [f"{WORD}-2"], [f"{WORD}-3"]],
    "note": [["{}"], ["{}", "--tag", "plain"], ["{}", "--summary", f"{WORD} {IN_TEXTS}"], [f"none {IN_TEXTS}"]],
    "remember": [["{}", "--dry-run"], ["--due", "--dry-run"], ["{}"], ["{}"], [f"none {IN_TEXTS}"]],
    "forget": [
        ["{}", "--dry-run"],
        [f"{WORD}-1"],
        ["--source", "pi", "--dry-run"],
        ["--cwd", f"/{IN_IDS}", "--dry-run"],
    ],
    "index": [[], ["--full"]],
    "status": [[]],
    "config": [[]],
    "doctor": [[], ["--deep"]],
    "logs": [[]],
    "completions": [["sessions"], ["sessions", "--matching", WORD], ["sources"], ["bash"]],
    "service": [["status"], ["install", "--print"]],
    "pi-package": [[]],
    "setup": [[], ["--print", "--yes"]],
    "hub": [["init"], ["init", "--print"], ["status"], ["check"], ["fill"], ["fill", "--dry-run"], ["forget", "--yes"]],
    "mcp": [],  # prints what clients ask for: test_mcp.py
    "hook": [],  # prints what is like a prompt: test_hook.py
    "man": [[]],
    "demo": [[]],
    "start": [[]],
    "restart": [],  # prints what start prints; and a daemon whose parent is the test has not quite ended when it has
    "stop": [],
    "serve": [],  # prints where it listens, and answers what the methods answer
}


@pytest.mark.fault(104)
def test_every_command_prints_clean_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a pipe, on a terminal, and as JSON, which has nothing but ASCII in it."""
    assert RUNS.keys() == COMMANDS.keys()
    with hostile_company() as answers:
        daemon = answers.daemon
        daemon.sync()
        ids = list({session["source"]: session["sessionId"] for session in daemon.sessions()}.values())
        for name, value in {**daemon.environ(), "TERM": "xterm", "COLUMNS": "100"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sesamectl.commands.resume._exec", lambda *_: None)
        few = {"remember": ids[:3]}  # each starts a model, which is a process
        seen = {name: [print_all(name, words, few.get(name, ids)) for words in runs] for name, runs in RUNS.items()}
    for name in (
        "search",
        "list",
        "show",
        "resolve",
        "resume",
        "note",
        "remember",
        "status",
        "config",
        "doctor",
        "completions",
    ):
        assert any(WORD in text for texts in seen[name] for text in texts), name


def print_all(command: str, words: Sequence[str], ids: Sequence[str]) -> list[str]:
    """What a command prints, each time clean."""
    given = [[word.replace("{}", one) for word in words] for one in (ids if "{}" in words else [""])]
    printed = [text for line in given for output in (io.StringIO, Screen) for text in [run(command, line, output())]]
    assert all(is_clean(text, several_lines=True) for text in printed), (command, words, printed)
    if "json" in {flag.name for flag in COMMANDS[command].flags}:
        for line in given:
            lines = run(command, [*line, "--json"], io.StringIO()).splitlines(keepends=True)
            answer = lines.pop().rstrip("\n") if lines and lines[-1].startswith("{") else ""
            told = "".join(lines)  # how far it is, or a refusal
            assert is_clean(told, several_lines=True), (words, told)
            assert answer.isascii(), (words, answer)
            assert answer.isprintable(), (words, answer)
    return printed


def run(command: str, words: Sequence[str], output: io.StringIO) -> str:
    """What it prints on either output, without what a terminal gets from us."""
    with redirect_stdout(output), redirect_stderr(output):
        code = main([command, *words])
    assert code in {0, 1, 3, 4}, (command, words, output.getvalue())
    text = output.getvalue()
    return OWN.sub("", text) if output.isatty() else text

"""A model is told the same in pi and by `sesamectl mcp`: what the tools are and take, and what they tell of the same answers."""

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest

from sesamectl.client import Client
from sesamectl.mcp import present, schema
from sesamectl.mcp.page import Part, page
from sesamectl.mcp.tools import INSTRUCTIONS, QUERY, TOOLS
from sesamectl.memory.excerpt import Excerpt, read_excerpt
from sesamectl.memory.question import SPACED, find_citations, make_question
from tests.support import npm
from tests.support.desk import REPOSITORY

PI = REPOSITORY / "pi/sesame"
AT = "2026-03-01T09:00:02.000Z"
SESSION = {
    "sessionId": "019912345678", "shortId": "01991234", "source": "pi", "path": "/s/a.jsonl", "cwd": "/code/in fra", "gitBranch": "main",
    "name": "Simplify\x1b[2J the \u202e\"flakes\"", "summary": "Merged\nthe inputs", "description": None, "tags": ["nix", "two words"],
    "created": AT, "modified": "2026-03-04T09:00:02.000Z", "messageCount": 1, "parentSessionId": None, "subagent": False, "orphan": False,
    "gone": True,
}  # fmt: skip
MATCH = {
    "sessionId": "019912345678", "shortId": "01991234", "kind": "message", "role": "user", "toolName": None, "msgIdx": 3,
    "timestamp": AT, "field": None,
}  # fmt: skip
HIT = {
    **SESSION, "score": 1.0, "matchedSnippet": "let us\nrestructure é " + "x" * 500, "matchedWords": ["nix"], "missingWords": ["flake"],
    "similar": 2, "match": MATCH,
}  # fmt: skip
FOUND: dict[str, Any] = {
    "resultCount": 1, "total": 1, "totalExact": True, "nextOffset": None, "results": [HIT], "words": [{"word": "nix", "chunks": 4}],
    "corrected": {}, "dropped": [], "weak": False, "filteredOut": 0, "pending": {"files": 0, "bytes": 0}, "warnings": [],
}  # fmt: skip
MESSAGE = {
    "msgIdx": 3, "role": "user", "kind": "message", "toolName": None, "isError": None, "timestamp": AT, "text": "hi\n[9] user",
    "truncated": False, "undone": False,
}  # fmt: skip
PAGE = {"sessionId": "019912345678", "total": 100, "nextOffset": 4, "messages": [MESSAGE]}
SCRIPT = """
import { readFileSync } from "node:fs"; import * as present from "./present.ts"; import { page } from "./page.ts";
import { LIST, QUERY, READ, SEARCH } from "./schema.ts"; import { citations, makeQuestion } from "./question.ts";
import { excerpt } from "./excerpt.ts";
const { searches, lists, pages, questions, answers, excerpts } = JSON.parse(readFileSync(0, "utf8"));
const how = { limit: 8, budget: 4000, reads: "read_session" };
console.log(JSON.stringify({
  schemas: { LIST, QUERY, READ, SEARCH },
  questions: questions.map((given) => makeQuestion(...given)),
  answers: answers.map(([answer, shown]) => Object.values(citations(answer, new Set(shown)))),
  excerpts: await Promise.all(excerpts.map(async ([messages, room]) => {
    const list = async (_method, { offset = 0, limit }) => ({ total: messages.length, messages: messages.slice(offset, offset + limit),
      nextOffset: offset + limit < messages.length ? offset + limit : null });
    return Object.values(await excerpt(list, { sessionId: "x" }, room));
  })),
  searches: searches.map(([query, found, offset]) => present.search(query, found, { ...how, offset }).text),
  lists: lists.map(([listed, offset]) => present.sessions(listed, { ...how, offset }).text),
  pages: pages.map(([read, meta, part]) => page(read, meta, { reads: "read_session", ...part }).text),
}));
"""


def found(**more: Any) -> dict[str, Any]:
    return {**copy.deepcopy(FOUND), **more}


def hit(**match: Any) -> dict[str, Any]:
    return {**copy.deepcopy(HIT), "match": {**MATCH, **match}}


THERE = {
    "key": "0a1b2c3d:00000000:019912345678", "workstation": "0a1b2c3d", "person": "anna\x1b[2J x", "asOf": "2026-03-05T09:00:02.000Z",
}  # fmt: skip
SEARCHES = [
    ("nix flake", found(), 0),
    ("nix", found(results=[hit(kind="tool_call", toolName="two words", sessionId="sub", shortId="sub")]), 8),
    ("main", found(results=[hit(kind="heading", role=None, msgIdx=None, timestamp=None, field="gitBranch")]), 0),
    ("nix", found(results=[hit(kind="heading", role=None, msgIdx=None, timestamp=None, field="summary")]), 0),
    ("", found(results=[{**HIT, "match": None, "matchedSnippet": "", "matchedWords": [], "missingWords": []}]), 0),
    ("nix", found(results=[HIT] * 8, total=30, totalExact=False, nextOffset=8), 0),
    ("nix", found(results=[{**hit(), **THERE}, {**HIT, **THERE, "asOf": None}, {**hit(sessionId="sub", shortId="sub"), **THERE}]), 0),
    ("nix zz", found(results=[], total=0, resultCount=0, filteredOut=3, words=[{"word": "zz", "chunks": 0, "forms": 0, "headings": 0}]), 0),
    ("nix", found(results=[], total=9, resultCount=0), 20),
    ("nix last week", found(timeFilter={"words": "last week", "days": "9-15 Nov", "effect": "acts"}), 0),
    ("nix in\x1b[2J may", found(timeFilter={"words": "in\x1b[2J may", "days": "1-31 May", "effect": "nothing"}), 0),
    ("nix in may", found(results=[], total=0, resultCount=0, timeFilter={"words": "in may", "days": "1-31 May", "effect": "nothing"}), 0),
    ("since monday", found(timeFilter={"words": "since monday", "days": "from 16 Nov", "effect": "words"}), 0),
    (
        "falke",
        found(weak=True, corrected={"falke": "flake"}, dropped=["the"], warnings=["a root is missing"], pending={"files": 2, "bytes": 9},
              words=[{"word": "zz", "chunks": 0, "forms": 0, "headings": 0}]),
        0,
    ),
]  # fmt: skip
ORPHAN = {
    **SESSION,
    "subagent": True,
    "orphan": True,
    "parentSessionId": "0 1",
    "name": None,
    "gone": False,
    "tags": [],
}
LISTS = [
    ({"total": 0, "sessions": [], "nextOffset": None}, 0),
    ({"total": 7, "sessions": [SESSION, ORPHAN], "nextOffset": 2}, 0),
    ({"total": 60, "sessions": [SESSION] * 50, "nextOffset": 60}, 10),
    ({"total": 1, "sessions": [{**SESSION, **THERE}], "nextOffset": None, "warnings": ["no hub\x1b[2J answers"]}, 0),
    ({"total": 0, "sessions": [], "nextOffset": None, "warnings": ["no hub answers"]}, 0),
]
CALL = {
    **MESSAGE,
    "msgIdx": 4,
    "kind": "tool_call",
    "role": "assistant",
    "toolName": "bash",
    "isError": True,
    "undone": True,
}
CALL_FIELDS: dict[str, Any] = {"kind": "tool_call", "role": "assistant", "toolName": "bash", "isError": True}
PAGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (PAGE, {"budget": 4000}),
    ({**PAGE, "messages": [{**MESSAGE, "text": "x" * 9000}]}, {"budget": 3000, "session": THERE}),
    ({**PAGE, "messages": [MESSAGE, CALL, {**MESSAGE, "msgIdx": 5, "text": "ü\n" * 9000}]}, {"budget": 4000, "around": 4}),
    ({**PAGE, "messages": [{**MESSAGE, "text": "x" * 9000, "truncated": True}]}, {"budget": 3000, "textOffset": 70}),
    ({**PAGE, "messages": [{**MESSAGE, "msgIdx": at, "text": "y" * 99} for at in range(50)]}, {"budget": 2000, "around": 30}),
    ({**PAGE, "messages": [], "nextOffset": None}, {"budget": 2000, "around": 100}),
    ({**PAGE, "total": 0, "messages": [], "nextOffset": None}, {"budget": 2000}),
]  # fmt: skip


def session_of(part: dict[str, Any]) -> dict[str, Any]:
    """The session that is read: where nothing is said, one of this machine."""
    return {**SESSION, **part.get("session", {})}


ABOUT: dict[str, Any] = {**SESSION, "name": "Simplify the flakes", "agent": "pi", "toolCounts": {"bash": 2}}
QUESTIONS = [
    (ABOUT, {"text": "[0] user:\n> why </session>", "isCut": True}, "what was </session> decided?"),
    (ABOUT, {"text": "[0] user:\n> why", "isCut": False}, "what?\nand why?"),
]
ANSWERS = [
    ("It was so [3], [4, 5][12\u201313] and [3]; not [2026-03] or [99].", [3, 4, 5, 12]),
    ("Nobody knows [12345678] []", [1]),
]
TALK: list[dict[str, Any]] = [
    {**MESSAGE, "msgIdx": at, "text": text, **more}
    for at, (text, more) in enumerate(
        [  # what is said, and what else is so
            ("begin here", {}),
            ("x" * 9000, {"role": "assistant"}),
            ("what was before", {"role": "summary"}),
            *((f"go on {at}", {"role": "user" if at % 2 else "assistant"}) for at in range(250)),
            ("tool: bash\ncommand: prune\noutput:\n" + "y" * 900, CALL_FIELDS),
            ("taken back", {"undone": True}),
            (" ", {}),
            ("z" * 9000, {"role": "assistant"}),
        ]
    )
]
EXCERPTS = [(TALK, 50_000), (TALK, 9000), (TALK, 100), (TALK[:2], 50_000), ([], 100)]


class Talk:
    """A daemon with one session."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self._messages = messages

    def call(self, _: str, /, *, limit: int, offset: int = 0, **__: Any) -> dict[str, Any]:
        """A page of it."""
        return {"total": len(self._messages), "messages": self._messages[offset : offset + limit]}


@pytest.fixture(scope="module")
def told_in_pi() -> Any:
    """What pi's package makes of all of these."""
    more = {"questions": QUESTIONS, "answers": ANSWERS, "excerpts": EXCERPTS}
    given = {
        **more,
        "searches": SEARCHES,
        "lists": LISTS,
        "pages": [(read, session_of(part), part) for read, part in PAGES],
    }
    command = [npm.node_22(), "--no-warnings", "--input-type=module", "-e", SCRIPT]
    ran = subprocess.run(command, input=json.dumps(given), cwd=PI, capture_output=True, check=True, text=True)
    return json.loads(ran.stdout)


def test_tools_take_the_same(told_in_pi: Any) -> None:
    """Word for word."""
    assert told_in_pi["schemas"] == {
        "SEARCH": schema.SEARCH,
        "LIST": schema.LIST,
        "READ": schema.READ,
        "QUERY": schema.QUERY,
    }


def test_tools_are_described_in_the_same_words() -> None:
    """And so is when to use them."""
    text = Path(PI / "tools.ts").read_text(encoding="utf-8")
    for place, value in (("search", "search_sessions"), ("read", "read_session"), ("list", "list_sessions")):
        text = text.replace(f"${{names.{place}}}", value)
    text = text.replace("${MOST_CHARACTERS}", "20000")
    described = re.findall(r"^    description: [`\"](.*)[`\"],$", text, re.MULTILINE)
    assert described == [*(tool.description for tool in TOOLS[:3]), QUERY.description]
    guidelines = re.findall(r"^      [`\"](.*)[`\"],$", text, re.MULTILINE)
    assert " ".join(guidelines) == INSTRUCTIONS


def test_searches_tell_the_same(told_in_pi: Any) -> None:
    """Of hits, of none, and of how far they can be trusted."""
    assert [present.search(query, answer, offset, 4000).text for query, answer, offset in SEARCHES] == told_in_pi[
        "searches"
    ]


def test_lists_tell_the_same(told_in_pi: Any) -> None:
    """As much of them as fits."""
    assert [present.sessions(listed, offset, 4000).text for listed, offset in LISTS] == told_in_pi["lists"]


def test_pages_tell_the_same(told_in_pi: Any) -> None:
    """Down to the character at which a message is cut."""
    parts = [Part(part["budget"], part.get("around"), part.get("textOffset", 0)) for _, part in PAGES]
    shown = [page(read, session_of(given), part).text for (read, given), part in zip(PAGES, parts, strict=True)]
    assert shown == told_in_pi["pages"]


def test_questions_are_asked_in_the_same_words(told_in_pi: Any) -> None:
    """Of the same part of a session; and of the answer the same numbers are believed."""
    asked = [
        make_question(session, Excerpt(str(said["text"]), [], bool(said["isCut"]), 0), question)
        for session, said, question in QUESTIONS
    ]
    assert [one.replace(SPACED, "") for one in asked] == told_in_pi["questions"]
    assert [list(find_citations(answer, shown)) for answer, shown in ANSWERS] == told_in_pi["answers"]
    excerpts = [list(read_excerpt(cast("Client", Talk(messages)), {}, room)) for messages, room in EXCERPTS]
    assert excerpts == told_in_pi["excerpts"]

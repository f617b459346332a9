"""A model is told the same in pi and by `sesamectl mcp`: what the tools are and take, and what they tell of the same answers."""

import copy
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sesamectl.mcp import present, schema
from sesamectl.mcp.page import Part, page
from sesamectl.mcp.tools import INSTRUCTIONS, TOOLS
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
import { LIST, READ, SEARCH } from "./schema.ts";
const { searches, lists, pages } = JSON.parse(readFileSync(0, "utf8"));
const how = { limit: 8, budget: 4000, reads: "read_session" };
console.log(JSON.stringify({
  schemas: { LIST, READ, SEARCH },
  searches: searches.map(([query, found, offset]) => present.search(query, found, { ...how, offset }).text),
  lists: lists.map(([listed, offset]) => present.sessions(listed, { ...how, offset }).text),
  pages: pages.map(([read, meta, part]) => page(read, meta, { reads: "read_session", ...part }).text),
}));
"""


def found(**more: Any) -> dict[str, Any]:
    return {**copy.deepcopy(FOUND), **more}


def hit(**match: Any) -> dict[str, Any]:
    return {**copy.deepcopy(HIT), "match": {**MATCH, **match}}


SEARCHES = [
    ("nix flake", found(), 0),
    ("nix", found(results=[hit(kind="tool_call", toolName="two words", sessionId="sub", shortId="sub")]), 8),
    ("main", found(results=[hit(kind="heading", role=None, msgIdx=None, timestamp=None, field="gitBranch")]), 0),
    ("nix", found(results=[hit(kind="heading", role=None, msgIdx=None, timestamp=None, field="summary")]), 0),
    ("", found(results=[{**HIT, "match": None, "matchedSnippet": "", "matchedWords": [], "missingWords": []}]), 0),
    ("nix", found(results=[HIT] * 8, total=30, totalExact=False, nextOffset=8), 0),
    ("nix zz", found(results=[], total=0, resultCount=0, filteredOut=3, words=[{"word": "zz", "chunks": 0, "forms": 0, "headings": 0}]), 0),
    ("nix", found(results=[], total=9, resultCount=0), 20),
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
PAGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (PAGE, {"budget": 4000}),
    ({**PAGE, "messages": [MESSAGE, CALL, {**MESSAGE, "msgIdx": 5, "text": "ü\n" * 9000}]}, {"budget": 4000, "around": 4}),
    ({**PAGE, "messages": [{**MESSAGE, "text": "x" * 9000, "truncated": True}]}, {"budget": 3000, "textOffset": 70}),
    ({**PAGE, "messages": [{**MESSAGE, "msgIdx": at, "text": "y" * 99} for at in range(50)]}, {"budget": 2000, "around": 30}),
    ({**PAGE, "messages": [], "nextOffset": None}, {"budget": 2000, "around": 100}),
    ({**PAGE, "total": 0, "messages": [], "nextOffset": None}, {"budget": 2000}),
]  # fmt: skip


@pytest.fixture(scope="module")
def told_in_pi() -> Any:
    """What pi's package makes of all of these."""
    given = {"searches": SEARCHES, "lists": LISTS, "pages": [(read, SESSION, part) for read, part in PAGES]}
    command = [npm.node_22(), "--no-warnings", "--input-type=module", "-e", SCRIPT]
    ran = subprocess.run(command, input=json.dumps(given), cwd=PI, capture_output=True, check=True, text=True)
    return json.loads(ran.stdout)


def test_tools_take_the_same(told_in_pi: Any) -> None:
    """Word for word."""
    assert told_in_pi["schemas"] == {"SEARCH": schema.SEARCH, "LIST": schema.LIST, "READ": schema.READ}


def test_tools_are_described_in_the_same_words() -> None:
    """And so is when to use them."""
    text = Path(PI / "tools.ts").read_text(encoding="utf-8")
    for place, value in (("search", "search_sessions"), ("read", "read_session"), ("list", "list_sessions")):
        text = text.replace(f"${{names.{place}}}", value)
    text = text.replace("${MOST_CHARACTERS}", "20000")
    described = re.findall(r"^    description: [`\"](.*)[`\"],$", text, re.MULTILINE)
    assert described[:3] == [tool.description for tool in TOOLS[:3]]  # query_session is asked in another way here
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
    shown = [page(read, SESSION, part).text for (read, _), part in zip(PAGES, parts, strict=True)]
    assert shown == told_in_pi["pages"]

"""The wire contract's results as data, written down by hand from its page, so that nothing of `sesamed` says what is right.

A shape is a type, a pattern of a string, a tuple of alternatives (None among them), a list of one shape, or a dict of exactly these keys.
"""

import re
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
SOME_TIME = (TIME, None)
SOME_TEXT = (str, None)
SOME_NUMBER = (float, None)
PENDING = {"files": int, "bytes": int}

SUMMARY = {
    "sessionId": str, "key": re.compile(r"[0-9a-f]{8}:[0-9a-f]{8}:.+"), "source": str, "path": str, "cwd": SOME_TEXT,
    "projectPath": SOME_TEXT, "gitBranch": SOME_TEXT, "name": SOME_TEXT, "created": TIME, "modified": TIME, "messageCount": int,
    "parentSessionId": SOME_TEXT, "subagent": bool, "orphan": bool, "gone": bool,
}  # fmt: skip

MATCH = {
    "sessionId": str, "path": str, "kind": re.compile("message|tool_call|heading"), "role": SOME_TEXT, "toolName": SOME_TEXT,
    "msgIdx": (int, None), "field": SOME_TEXT,
    "entryId": SOME_TEXT, "timestamp": SOME_TIME, "undone": bool,
}  # fmt: skip

HIT = {
    **SUMMARY, "score": float, "matchedSnippet": str, "highlights": [[int]], "matchedWords": [str], "missingWords": [str],
    "match": (MATCH, None), "similar": int, "subagents": int,
}  # fmt: skip

PROGRESS = {"filesDone": int, "filesTotal": int, "bytesDone": int, "bytesTotal": int}

RESULTS: dict[str, Any] = {
    "hello": {
        "name": "sesamed", "version": str, "protocol": int, "minProtocol": int, "pid": int, "schema": int, "methods": [str],
        "toolFamilies": dict, "startedAt": TIME,
    },
    "status": {
        "version": str, "pid": int, "protocol": int, "startedAt": TIME, "state": re.compile("ready|indexing|degraded"), "socket": str,
        "database": {"path": str, "bytes": int, "walBytes": int, "sqliteVersion": str, "schema": int},
        "counts": {
            "sessions": int, "empty": int, "chunks": int, "messages": int, "toolCalls": int, "files": int, "gone": int, "badLines": int,
        },
        "sources": [{
            "parser": str, "path": str, "mode": re.compile("events|polling|missing"), "files": int, "sessions": int,
            "directories": int, "warnings": [str], "warningCodes": [str],
        }],
        "pending": PENDING,
        "indexing": (PROGRESS, None),
        "freshness": {"p50Ms": SOME_NUMBER, "p95Ms": SOME_NUMBER, "p99Ms": SOME_NUMBER, "samples": int},
        "queries": {"p50Ms": SOME_NUMBER, "p95Ms": SOME_NUMBER, "p99Ms": SOME_NUMBER, "count": int},
        "lastSyncAt": SOME_TIME, "lastEventAt": SOME_TIME, "lastSweepAt": SOME_TIME,
        "warnings": [{"code": str, "message": str, "since": TIME}],
    },
    "search": {
        "query": str, "resultCount": int, "results": [HIT], "words": [{"word": str, "chunks": int, "forms": int, "headings": int}],
        "corrected": dict,
        "dropped": [str], "weak": bool, "filteredOut": int, "contentTrust": "untrusted-transcript", "pending": PENDING,
        "warnings": [str], "tookMs": float,
    },
    "list_sessions": {"total": int, "sessions": [SUMMARY], "nextOffset": (int, None), "warnings": [str]},
    "list_messages": {
        "sessionId": str, "total": int, "nextOffset": (int, None), "messages": [{
            "msgIdx": int, "role": str, "kind": re.compile("message|tool_call"), "toolName": SOME_TEXT, "isError": (bool, None),
            "timestamp": SOME_TIME, "entryId": SOME_TEXT, "text": str, "truncated": bool, "undone": bool,
        }],
    },
    "get_session_meta": {
        **SUMMARY, "description": SOME_TEXT, "summary": SOME_TEXT, "tags": [str], "toolCounts": dict, "exchangeCount": int,
        "agent": SOME_TEXT, "createdBy": SOME_TEXT, "children": [str], "archived": bool,
        "resume": ({"command": [str], "cwd": SOME_TEXT, "unarchive": ([str], None)}, None),
        "resumeProblem": ({"code": str, "message": str}, None), "resumeHere": ([str], None),
    },
    "index": {
        "added": int, "updated": int, "skipped": int, "gone": int, "errors": int, "badLines": int, "bytes": int, "tookMs": float,
    },
    "sync": {"pending": PENDING, "ignored": [str]},
    "cancel": {"cancelled": bool},
    "shutdown": {},
}  # fmt: skip


def check(value: Any, shape: Any, where: str = "result") -> None:
    """Fails with the place where the value is not of this shape."""
    if isinstance(shape, tuple):
        _check_some(value, shape, where)
    elif isinstance(shape, dict):
        assert isinstance(value, dict), f"{where} is {value!r}"
        assert value.keys() == shape.keys(), (
            f"{where}: too many {value.keys() - shape.keys()}, missing {shape.keys() - value.keys()}"
        )
        for name, part in shape.items():
            check(value[name], part, f"{where}.{name}")
    elif isinstance(shape, list):
        assert isinstance(value, list), f"{where} is {value!r}"
        for number, item in enumerate(value):
            check(item, shape[0], f"{where}[{number}]")
    else:
        assert _is(value, shape), f"{where} is {value!r}, not {shape}"


def _check_some(value: Any, shape: tuple[Any, ...], where: str) -> None:
    if value is None:
        assert None in shape, f"{where} is null"
    else:
        check(value, next(part for part in shape if part is not None), where)


def _is(value: Any, shape: Any) -> bool:
    if isinstance(shape, re.Pattern):
        return isinstance(value, str) and shape.fullmatch(value) is not None
    if shape is float:
        return type(value) in (int, float)
    return type(value) is shape if isinstance(shape, type) else bool(value == shape)

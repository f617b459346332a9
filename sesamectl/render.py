"""Answers as text for people. Knows nothing of sockets.

What is printed was written by others, and some of it to deceive: every field is cleaned of what a terminal would obey
or hide, wherever the output goes.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
)
_SPACE = re.compile("[\t\n\v\f\r\x85\u2028\u2029]+")
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: object) -> str:
    """The text on one line, without anything that a terminal obeys, reorders or hides."""
    shown = _SPACE.sub(" ", _SEQUENCE.sub("", str(text)))
    return _SURROGATE.sub("\ufffd", _HIDDEN.sub("", shown))


def search(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a search's answer."""
    yield _headline(answer)
    for hit in answer.get("results", ()):
        yield ""
        yield from _hit(hit)
    notes = list(_notes(answer))
    if notes:
        yield ""
        yield from notes


def _headline(answer: Mapping[str, Any]) -> str:
    count, query = answer.get("resultCount", 0), clean(answer.get("query", ""))
    if not count:
        return f'No session matches "{query}"' if query.strip(" *") else "No session"
    found = f"Found {count} session{'' if count == 1 else 's'}"
    return f'{found} matching "{query}"' if query.strip(" *") else f"{found}, newest first"


def _hit(hit: Mapping[str, Any]) -> Iterator[str]:
    name = f" ({clean(hit['name'])})" if hit.get("name") else ""
    gone = " (its file is gone)" if hit.get("gone") else ""
    yield f"  [{hit.get('score', 0):.2f}] {clean(hit.get('sessionId'))}{name} - {clean(hit.get('created'))[:10]}{gone}"
    if snippet := clean(hit.get("matchedSnippet") or "").strip():
        yield f'         "{snippet}"'


def _notes(answer: Mapping[str, Any]) -> Iterator[str]:
    """How far the answer can be trusted."""
    for word, instead in answer.get("corrected", {}).items():
        yield f"Searched for {clean(instead)} instead of {clean(word)}."
    if dropped := answer.get("dropped"):
        yield f"Left out: {_listed(dropped)}."
    if unknown := [
        w["word"] for w in answer.get("words", ()) if not w["chunks"] and w["word"] not in answer["corrected"]
    ]:
        yield f"Nowhere in the index: {_listed(unknown)}."
    if filtered := answer.get("filteredOut"):
        yield f"The filters left out {filtered} that match."
    if answer.get("weak"):
        yield "Even the best of these is hardly about it."
    pending = answer.get("pending", {})
    if pending.get("files"):
        yield f"Not yet searchable: {_pending(pending)}."
    for warning in answer.get("warnings", ()):
        yield f"Warning: {clean(warning)}"


def status(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a status answer."""
    database, counts = answer["database"], answer["counts"]
    yield f"sesamed {clean(answer['version'])}: {clean(answer['state'])}"
    yield f"runs      as pid {answer['pid']} since {clean(answer['startedAt'])}"
    yield f"socket    {clean(answer['socket'])}"
    yield f"index     {clean(database['path'])} ({size(database['bytes'] + database['walBytes'])})"
    yield f"holds     {counts['sessions']} sessions, {counts['messages']} messages, {counts['toolCalls']} tool calls"
    yield f"pending   {_pending(answer['pending'])}"
    if answer.get("indexing"):
        yield f"indexing  {progress(answer['indexing'])}"
    yield f"fresh     {_percentiles(answer['freshness'])} from append to commit"
    yield f"queries   {_percentiles(answer['queries'])}"
    for source in answer["sources"]:
        place = f"{clean(source['parser'])} {clean(source['path'])}"
        yield f"source    {place}: {clean(source['mode'])}, {source['sessions']} sessions"
        yield from (f"          {clean(warning)}" for warning in source["warnings"])
    for warning in answer["warnings"]:
        yield f"warning   {clean(warning['message'])} (since {clean(warning['since'])})"


def index(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines of an index run's answer."""
    yield (
        f"{answer['added']} added, {answer['updated']} updated, {answer['skipped']} unchanged, {answer['gone']} gone; "
        f"{size(answer['bytes'])} read in {answer['tookMs'] / 1000:.1f} s"
    )
    if answer["errors"] or answer["badLines"]:
        yield f"{answer['errors']} files could not be read, {answer['badLines']} lines could not be decoded"


def progress(state: Mapping[str, Any]) -> str:
    """How far an index run is, in one line."""
    done, total = state.get("bytesDone", 0), state.get("bytesTotal", 0)
    return f"{state.get('filesDone', 0)} of {state.get('filesTotal', 0)} files, {size(done)} of {size(total)}"


def size(count: int) -> str:
    """A number of bytes as a person reads it."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.0f} {units[0]}" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"


def _pending(pending: Mapping[str, Any]) -> str:
    return f"{pending['files']} files, {size(pending['bytes'])}" if pending["files"] else "nothing"


def _percentiles(times: Mapping[str, Any]) -> str:
    if times["p50Ms"] is None:
        return "no samples"
    return f"p50 {times['p50Ms']:.1f} ms, p95 {times['p95Ms']:.1f} ms, p99 {times['p99Ms']:.1f} ms"


def _listed(words: Iterable[object]) -> str:
    return ", ".join(clean(word) for word in words)

"""A status at a glance: state, contents and warnings first, details below."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

from sesamectl.render import clean, number, pending, progress, size
from sesamectl.render.dates import ago, minute
from sesamectl.render.terminal import ALARM, BOLD, DIM, Terminal


def lines(answer: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """A status."""
    counts, database = answer["counts"], answer["database"]
    state = clean(answer["state"])
    empty = f" ({int(counts['empty']):,} empty)" if counts.get("empty") else ""
    held = f"{number(counts['sessions'], 'session')}{empty}, {number(counts['messages'], 'message')}"
    painted = terminal.paint(BOLD if state == "ready" else ALARM, state)
    yield f"sesamed {clean(answer['version'])}: {painted}; {held}, {number(counts['toolCalls'], 'tool call')}"
    for warning in answer["warnings"]:
        since = minute(clean(warning["since"]))
        yield terminal.paint(ALARM, f"warning   {clean(warning['message'])} (since {since})")
    yield ""
    if answer.get("indexing"):
        yield f"indexing  {progress(answer['indexing'])}"
    yield f"pending   {pending(answer['pending'])}"
    if unread := _incomplete(counts):
        yield f"unread    {unread}"
    if synced := answer.get("lastSyncAt"):
        yield f"changed   {ago(clean(synced), time.time())}"
    for source in answer["sources"]:
        yield from _source(source, terminal)
    yield from (_excluded(found) for found in answer.get("excluded", ()))
    if hub := answer.get("hub"):
        yield from _hub(hub, terminal)
    yield f"fresh     {_percentiles(answer['freshness'], ' from append to commit')}"
    yield f"queries   {_percentiles(answer['queries'])}"
    yield f"index     {clean(database['path'])} ({size(database['bytes'] + database['walBytes'])})"
    yield f"socket    {clean(answer['socket'])}"
    yield f"process   {clean(answer['pid'])}, since {minute(clean(answer['startedAt']))}"


def _source(source: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    mode, place = clean(source["mode"]), f"{clean(source['parser']):<8} {clean(source['path'])}"
    if mode == "missing":
        yield terminal.paint(DIM, f"source    {place}: missing")
    else:
        yield f"source    {place}: {number(source['sessions'], 'session')} ({mode})"
    if ignored := source.get("ignoreFile"):
        yield f"          without what {clean(ignored)} names"
    yield from (f"          {clean(warning)}" for warning in source["warnings"])


def _hub(hub: Mapping[str, Any], terminal: Terminal) -> Iterator[str]:
    """How far this machine has shipped."""
    complete = f"; complete {ago(clean(hub['shippedAt']), time.time())}" if hub["shippedAt"] else ""
    behind = f"; {number(hub['behind'], 'session')} to go" if hub["behind"] else ""
    yield f"hub       {clean(hub['phase'])}{behind}{complete}"
    if hub["error"]:
        yield terminal.paint(ALARM, f"          {clean(hub['error'])} (since {minute(clean(hub['since']))})")
    if followed := hub.get("followed"):
        yield f"          follows {number(followed, 'session')} of other machines ({size(hub['followedBytes'])})"
    if hub.get("followError") and hub["followError"] != hub["error"]:
        yield terminal.paint(ALARM, f"          {clean(hub['followError'])}")


def _excluded(found: Mapping[str, Any]) -> str:
    why = f" (cannot be read: {clean(found['trouble'])})" if found["trouble"] else ""
    return f"excluded  {number(found['sessions'], 'session')} by {clean(found['path'])}{why}"


def _incomplete(counts: Mapping[str, Any]) -> str:
    gone = f"{number(counts['gone'], 'session')} whose file is gone" if counts.get("gone") else ""
    bad = f"{number(counts['badLines'], 'undecodable line')} (`sesamectl doctor`)" if counts.get("badLines") else ""
    return ", ".join(part for part in (bad, gone) if part)


def _percentiles(times: Mapping[str, Any], what: str = "") -> str:
    if times["p50Ms"] is None:
        return "no samples yet"
    return f"p50 {times['p50Ms']:.1f} ms, p95 {times['p95Ms']:.1f} ms, p99 {times['p99Ms']:.1f} ms{what}"

"""`show`: reads a session, page by page, or the messages around one."""

import sys
import time
from functools import partial
from typing import Any

from sesamectl.call import call_retrying, choose_scope, wait_if_started
from sesamectl.client import Client
from sesamectl.errors import RefusedError, RpcError, UsageError
from sesamectl.flags import SHOW, Arguments
from sesamectl.output import show
from sesamectl.render.sessions import page_lines
from sesamectl.resolve import NO_HUB, NOT_AN_ID, NOT_FOUND, identify, resolve, split_place

NEAR = 3  # messages on each side of one that is asked for


def run(arguments: Arguments) -> None:
    """Ask for the session and a page of it; `--json` has both."""
    page, (_, asked) = arguments.collect(SHOW), split_place(arguments.words[0])
    asked = page.get("around", asked)
    if arguments.has("context"):
        if asked is None:
            raise UsageError("--context needs a message: SESSION:N, or --around N", "show")
        page.setdefault("limit", 2 * arguments.values["context"] + 1)
    if page.get("offset", 0) < 0:
        page.setdefault("limit", -page["offset"])
    if arguments.has("reveal"):
        _confirm()
        page["reveal"] = True
    scope = choose_scope(arguments)
    page.update(scope)

    begun_s = time.monotonic()

    def question(client: Client) -> dict[str, Any]:
        wait_if_started(client, begun_s)
        identity, messages = _find_page(client, arguments.words[0], page)
        if asked is None:
            _go_on(client, identity, messages, page)
        meta = client.call("get_session_meta", sessionId=identity, **scope)
        if arguments.has("all"):
            _complete(client, identity, messages, page)
        return {"session": meta, "messages": messages}

    render = partial(page_lines, full=arguments.has("all"), asked=asked, branch=page.get("branch"))
    show(call_retrying(arguments, question), render, arguments, may_page=True)


def _confirm() -> None:
    """A person has to say so: what a program prints may be logged, or read by a model."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RefusedError("--reveal prints secrets, so it only works in a terminal; leave it out, or run it there")
    print("Print secrets as they stand in the transcript? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise RefusedError("nothing shown; without --reveal secrets are masked")


def _find_page(client: Client, reference: str, page: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """What means the session, and a page of it: of the one with this id or beginning of one, or of what is around `SESSION:N`; else of the
    session of this name.
    """
    session, number = split_place(reference)
    near = {"limit": 2 * NEAR + 1, **page, "around": number}
    for name, asked in [(reference, page)] if number is None else [(reference, page), (session, near)]:
        try:
            return name, client.call("list_messages", sessionId=name, **asked)
        except RpcError as error:
            if error.code not in (*NOT_AN_ID, NO_HUB):
                raise
            missed = error
    try:
        found = identify(resolve(client, session))
    except RpcError as error:
        if error.code != NOT_FOUND or "scope" not in page:
            raise
        if missed.code == NO_HUB:  # it may be there
            raise missed from None
        told = f"{error.message}; what is in a hub has no names, but the ids that `sesamectl list --hub` shows"
        raise RpcError(error.code, told, error.data) from None
    return found, client.call("list_messages", sessionId=found, **(page if number is None else near))


def _go_on(client: Client, identity: str, messages: dict[str, Any], asked: dict[str, Any]) -> None:
    """Fetch as many messages as were asked for: an answer has 200 at most."""
    same = {name: asked[name] for name in ("reveal", "branch", "scope") if name in asked}
    while (left := asked.get("limit", 0) - len(messages["messages"])) > 0 and messages.get("nextOffset"):
        place = {"offset": messages["nextOffset"], "limit": left}
        more = client.call("list_messages", sessionId=identity, **place, **same)
        messages["messages"] += more["messages"]
        messages["nextOffset"] = more["nextOffset"] if more["messages"] else None  # the session may have been rewritten


def _complete(client: Client, identity: str, messages: dict[str, Any], asked: dict[str, Any]) -> None:
    """Fetch what did not fit into the page of texts that were cut."""
    for message in messages["messages"]:
        while message["truncated"]:
            place = {"offset": message["msgIdx"], "limit": 1, "textOffset": len(message["text"])}
            same = {name: asked[name] for name in ("reveal", "scope") if name in asked}
            more = client.call("list_messages", sessionId=identity, **place, **same)["messages"]
            if not (more and more[0]["text"]):  # the session has changed meanwhile
                break
            message["text"] += more[0]["text"]
            message["truncated"] = more[0]["truncated"]

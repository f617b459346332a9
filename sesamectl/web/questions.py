"""What a request asks the daemon for: a method with its params, or one of the two addresses that are made for a browser's bar and curl."""

import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from sesamectl.errors import UsageError
from sesamectl.flags import ASK_HUB, FILTERS, PAGE, PERSON, SEARCH, SIMILAR, Flag, directory
from sesamectl.zone import say_zone

LISTED, SEARCHED = "/api/sessions", "/api/sessions/search"
METHODS = "/api/"  # with a method's name behind it
WORDS = "query", "q"
# The token is for questions, not for the daemon's life; and a connection of its own has nothing to cancel.
REFUSED: Mapping[str, str] = {
    "shutdown": "the daemon is not stopped from here; use `sesamectl stop`",
    "cancel": "close the connection instead",
}
MOST_PARAMETERS = 200
_HUB = (ASK_HUB, Flag("scope", "here|hub|both", "where to look"))
_LISTS: Mapping[str, tuple[Flag, ...]] = {
    LISTED: (*PAGE, SIMILAR, *FILTERS, PERSON, *_HUB),
    SEARCHED: (*SEARCH, *_HUB),
}


class ForbiddenError(Exception):
    """It is not answered over HTTP."""


class UnknownAddressError(Exception):
    """Nothing is there."""


def read_get(path: str, query: str) -> tuple[str, dict[str, Any]]:
    """The method and params of a GET: parameters are called as the flags of `list` and `search`, or as on the wire."""
    if path not in _LISTS:
        raise UnknownAddressError(f"{path} is not there; GET {LISTED} or {SEARCHED}, or POST {METHODS}METHOD")
    flags = {name: flag for flag in _LISTS[path] for name in (flag.name, flag.dest)}
    params: dict[str, Any] = {}
    for name, value in _split(query):
        if path == SEARCHED and name in WORDS:
            params["query"] = value
        elif name not in flags:
            known = ", ".join([WORDS[0]] * (path == SEARCHED) + sorted({flag.name for flag in flags.values()}))
            raise UsageError(f"there is no parameter {name}; there are {known}")
        else:
            _add(params, flags[name], value)
    if params.pop(ASK_HUB.name, False):
        params["scope"] = "both"
    return ("search" if path == SEARCHED else "list_sessions"), say_zone(params)


def _split(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="replace", max_num_fields=MOST_PARAMETERS)
    except ValueError:
        raise UsageError(f"there are more than {MOST_PARAMETERS} parameters") from None


def _add(params: dict[str, Any], flag: Flag, value: str) -> None:
    if not flag.metavar:
        if value not in ("", "1", "true", "0", "false"):
            raise UsageError(f"{flag.name} is true or false, not {value!r}")
        params[flag.dest] = value in ("", "1", "true")
        return
    if flag.convert is directory and not os.path.isabs(value):
        raise UsageError(f"{flag.name} must be an absolute path, not {value!r}: nobody's directory is the current one")
    if flag.choices and value not in flag.choices:
        raise UsageError(f"{flag.name} is one of {', '.join(flag.choices)}, not {value!r}")
    try:
        converted = flag.convert(value)
    except ValueError as error:
        raise UsageError(f"{flag.name}: {error}") from None
    if flag.many:
        params.setdefault(flag.dest, []).append(converted)
    else:
        params[flag.dest] = converted


def read_post(path: str, body: bytes) -> tuple[str, dict[str, Any]]:
    """The method and params of a POST: the method stands in the address, the params are the body."""
    method = path.removeprefix(METHODS)
    if not path.startswith(METHODS) or "/" in method or not method:
        raise UnknownAddressError(f"{path} is not there; POST {METHODS}METHOD, with the params as a JSON object")
    if method in REFUSED:
        raise ForbiddenError(f"{method} is not there over HTTP: {REFUSED[method]}")
    try:
        params = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error if isinstance(error, ValueError) else 'too deep'}") from None
    if not isinstance(params, dict):
        raise UsageError("the body must be a JSON object, the params of the method")
    if params.get("reveal"):
        raise ForbiddenError("secrets are not shown over HTTP; use `sesamectl show --reveal` in a terminal")
    return method, params


def is_long(method: str) -> bool:
    """Whether a method may take minutes."""
    return method in ("index", "sync", "forget")

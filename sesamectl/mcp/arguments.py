"""What a model gave a tool, as parameters for the daemon. What it cannot have meant is an error that it can act on."""

import os
from collections.abc import Mapping
from typing import Any

from sesamectl.mcp.schema import FILTERS, Bounds, Schema
from sesamectl.zone import say_zone

Given = Mapping[str, Any]


class GivenError(Exception):
    """What was given is wrong; the message is for the model."""


def check(given: object, schema: Schema) -> Given:
    """The arguments, if the tool takes them: an unknown one is a misspelled filter, which must not be passed over."""
    known, required = schema["properties"], schema["required"]
    if not isinstance(given, dict):
        raise GivenError("the arguments must be an object")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise GivenError(f"there is no argument {unknown[0][:80]!r}; there are {', '.join(known)}")
    kept = {name: _replace_halves(value) for name, value in given.items() if value is not None}
    for name, value in kept.items():
        _check_value(name, value, known[name])
    missing = [name for name in required if name not in kept]
    if missing:
        raise GivenError(f"{missing[0]!r} is missing: {known[missing[0]]['description']}")
    return kept


def _replace_halves(value: object) -> object:
    """A text with `?` for half a character, which is what a model leaves where it cuts."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _check_value(name: str, value: object, schema: Schema) -> None:
    """Models write numbers as texts now and then; those are read as what they are meant as."""
    if schema["type"] == "integer":
        _read_number(name, value)
    elif not isinstance(value, str):
        raise GivenError(f"{name!r} must be a text")
    elif "enum" in schema and value and value not in schema["enum"]:
        raise GivenError(f"{name!r} is one of {', '.join(schema['enum'])}")


def _read_number(name: str, value: object) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        if is_number or isinstance(value, str):
            return int(value)  # type: ignore[call-overload,no-any-return]  # a text or a number
    except (ValueError, OverflowError):
        pass
    raise GivenError(f"{name!r} must be a whole number")


def number(given: Given, name: str, usual: int = 0) -> int:
    """A number that was given, or the usual one."""
    return _read_number(name, given.get(name, usual))


def counted(given: Given, name: str) -> int:
    """A number that counts from 0."""
    return max(0, number(given, name))


def limit(given: Given, bounds: Bounds, usual: int | None = None) -> int:
    """How many are asked for. A number beyond the bounds is meant as the nearest: an error would cost the model a turn."""
    return min(bounds.most, max(bounds.least, number(given, "limit", usual or bounds.usual)))


def filters(given: Given, here: str) -> dict[str, Any]:
    """The filters among them; paths are meant from `here`."""
    params = {name: given[name] for name in FILTERS if given.get(name)}
    if "cwd" in params:
        params["cwd"] = os.path.normpath(os.path.join(here, os.path.expanduser(params["cwd"])))
    if "tool" in params:
        params["tool"] = [params["tool"]]
    return say_zone(params)

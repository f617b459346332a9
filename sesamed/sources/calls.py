"""Calls without a result yet, as the states of sources keep them: bounded in number, never changed in place."""

from typing import TypeVar

import msgspec

OPEN_CALLS = 128
ID_CHARS = 1024  # ids of OpenAI's calls have hundreds; a longer one is not kept


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that has no result yet."""

    key: int
    hidden: bool


C = TypeVar("C", bound=OpenCall)
T = TypeVar("T")


def add_open(calls: dict[str, C], new: dict[str, C]) -> dict[str, C]:
    """The open calls and these; the oldest are dropped, since calls of an aborted turn never get a result."""
    everything = {name: call for name, call in calls.items() if name not in new} | new
    for name in [name for name in new if len(name) > ID_CHARS]:
        del everything[name]
    for name in list(everything)[:-OPEN_CALLS]:
        del everything[name]
    return everything


def drop_open(calls: dict[str, T], name: str) -> dict[str, T]:
    """The open calls without this one."""
    return {other: call for other, call in calls.items() if other != name}

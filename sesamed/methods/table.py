"""All methods of the protocol: those that the topics define, and `hello`, which lists them."""

import os
from collections.abc import Mapping
from typing import Annotated, Any

from sesamed import __version__
from sesamed.methods import daemon, index, lists, own, search, sessions, windows
from sesamed.methods.method import MIN_PROTOCOL, PROTOCOL, Call, Context, Method, Params, method
from sesamed.model import Answer
from sesamed.sanitize import AS_IT_IS, Time
from sesamed.sources import TOOL_FAMILIES
from sesamed.store.schema import VERSION


class HelloParams(Params, frozen=True, kw_only=True):
    """Who asks, and which protocol version it speaks."""

    client: str | None = None
    protocol: int | None = None


class Hello(Answer, frozen=True, kw_only=True):
    """Who answers, and what it can do."""

    name: str
    version: str
    protocol: int
    min_protocol: int
    pid: int
    schema: int
    methods: list[str]
    tool_families: Annotated[Mapping[str, tuple[str, ...]], AS_IT_IS]  # our own words
    started_at: Time


@method
async def hello(context: Context, call: Call, params: HelloParams) -> Hello:
    """Who answers, which protocol version it speaks, and which methods it has. Clients compare the version with their own."""
    return Hello(
        name="sesamed",
        version=__version__,
        protocol=PROTOCOL,
        min_protocol=MIN_PROTOCOL,
        pid=os.getpid(),
        schema=VERSION,
        methods=[method.name for method in METHODS],
        tool_families=TOOL_FAMILIES,
        started_at=context.started_at,
    )


TOPICS = (daemon, search, windows, lists, sessions, index, own)
METHODS: tuple[Method[Any, Any], ...] = (
    hello,
    *(value for topic in TOPICS for value in vars(topic).values() if isinstance(value, Method)),
)

"""What a method is, what its handler is given, and the structs that methods share. Structs on the wire are frozen and keyword-only.

Field names are camelCase on the wire. Params refuse unknown fields by name; results may grow, so clients ignore what they do not
know. Texts in a result are cleaned when it leaves, except those declared `Exact` (see `sesamed.sanitize`).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

from anyio import Lock
from msgspec import Meta, Struct

from sesamed.ingest.requests import Requests
from sesamed.methods.queries import QueryRunner
from sesamed.model import Answer
from sesamed.own_sessions import OwnSessions

PROTOCOL = 1
MIN_PROTOCOL = 1

Id = str | int
NonNegative = Annotated[int, Meta(ge=0)]


class Params(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The parameters of a method."""


class NoParams(Params, frozen=True, kw_only=True):
    """A method without parameters."""


class Empty(Answer, frozen=True, kw_only=True):
    """A result without fields."""


@dataclass(frozen=True)
class Call:
    """The request being served: its id, and what its handler can do with the connection."""

    id: Id | None
    notify: Callable[[str, Struct], Awaitable[None]]  # send a line that the client does not answer
    cancel: Callable[[Id], bool]  # end another request; false when there is none of that id


@dataclass(frozen=True)
class Context:
    """What handlers work with; there is one for as long as the daemon runs."""

    queries: QueryRunner
    ingest: Requests
    own: OwnSessions
    socket: str
    database: str
    workstation: str
    started_at: str
    stop: Callable[[], None]
    appending: Lock = field(default_factory=Lock)  # two results of one call: the second is refused, not lost


P = TypeVar("P", bound=Params)
R = TypeVar("R", bound=Answer)
Handler = Callable[[Context, Call, P], Awaitable[R]]


@dataclass(frozen=True)
class Method(Generic[P, R]):
    """A method of the protocol."""

    name: str
    params: type[P]
    result: type[R]
    handler: Handler[P, R]


def method(handler: Handler[P, R]) -> Method[P, R]:
    """Make a method of its handler: name, parameters and result are those of the function."""
    hints: dict[str, Any] = get_type_hints(handler)
    return Method(handler.__name__, hints["params"], hints["return"], handler)

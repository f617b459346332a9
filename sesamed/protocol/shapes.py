"""What the shapes of all methods have in common. A boundary struct is frozen and keyword-only."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

NonNegative = Annotated[int, Meta(ge=0)]
OneOrMany = str | list[str] | None


class Params(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a method takes."""


class Answer(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a method gives."""


class NoParams(Params, frozen=True, kw_only=True):
    """A method without parameters."""


class Empty(Answer, frozen=True, kw_only=True):
    """An answer without fields."""


class Filters(Params, frozen=True, kw_only=True):
    """Which sessions and records count at all; `store.filters` turns them into SQL."""

    cwd: str | None = None
    after: str | None = None
    before: str | None = None
    source: OneOrMany = None
    role: OneOrMany = None
    tool: OneOrMany = None
    exclude: OneOrMany = None
    tools: bool = False
    path: str | None = None
    status: Literal["success", "error"] | None = None
    subagents: Literal["include", "exclude", "only"] = "include"
    workstation: str | None = None
    project: str | None = None


class PendingAnswer(Answer, frozen=True, kw_only=True):
    """What is on disk and not yet searchable."""

    files: int
    bytes: int


class Warn(Answer, frozen=True, kw_only=True):
    """Something a person should know, since when."""

    code: str
    message: str
    since: str

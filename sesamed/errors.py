"""Errors that a user can act on, each with its code in the protocol. Any other exception is a bug.

Codes are listed in docs/protocol.md and never reused.
"""

import errno
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

SHORT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
)  # of an OSError: the machine is short of something, which passes


class SesameError(Exception):
    """An error that the user or the client can do something about."""

    code: ClassVar[int] = -32603

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data: Mapping[str, Any] = data


class ParseError(SesameError):
    """The line is not JSON."""

    code = -32700


class RequestError(SesameError):
    """The line is JSON, but not a request."""

    code = -32600


class MethodError(SesameError):
    """There is no such method."""

    code = -32601


class ParamsError(SesameError):
    """The parameters are wrong."""

    code = -32602


class InternalError(SesameError):
    """A bug; the log has the details."""

    code = -32603


class CancelledError(SesameError):
    """The client cancelled the request."""

    code = -32800


class NotFoundError(SesameError):
    """The index does not have it."""

    code = 1


class AmbiguousError(SesameError):
    """The name matches several sessions; `data.candidates` lists them."""

    code = 2


class BusyError(SesameError):
    """The daemon is busy; try again later."""

    code = 3


class DeadlineError(SesameError):
    """A deadline passed, the client's or the daemon's."""

    code = 4


class QueryError(SesameError):
    """The query, or the answer to it, is too large."""

    code = 5


class StoreError(SesameError):
    """The index cannot be read or written."""

    code = 6


class SchemaTooNewError(StoreError):
    """A newer version wrote this index; it is not touched."""


class RefusedError(SesameError):
    """Not allowed, or not now."""

    code = 7


class ConflictError(SesameError):
    """What is there is not what the client had seen; `data.generated` is the time of that, or empty."""

    code = 8


HubCause = Literal[
    "psycopg", "configuration", "dns", "network", "tls", "password", "role", "database", "rights", "version", "encoding", "empty", "newer",
    "older", "space", "busy", "deadline", "account", "workstation", "language", "server",
]  # fmt: skip


class HubError(SesameError):
    """The hub does not answer, or not as it should; `data.cause` says which it is."""

    code = 9

    def __init__(self, message: str, *, cause: HubCause) -> None:
        assert cause in get_args(HubCause)
        super().__init__(message, cause=cause)
        self.cause: HubCause = cause


class ConfigError(SesameError):
    """The configuration is invalid; the message names file, key and what was expected."""


class LockedError(SesameError):
    """Another instance holds the lock."""


def is_of_memory(error: BaseException | None) -> bool:
    """Whether there was too little memory: for an object, for SQLite, for a thread, or in one of several tasks."""
    seen, left = set[int](), [error]
    while left:
        one = left.pop()
        if (
            one is None or id(one) in seen
        ):  # one of several is raised again where the others were handled, and has them behind it
            continue
        seen.add(id(one))
        if _says_memory(one):
            return True
        left += [*one.exceptions] if isinstance(one, BaseExceptionGroup) else [one.__context__]
    return False


def _says_memory(error: BaseException) -> bool:
    name, text = type(error).__name__, str(error)
    is_short = isinstance(error, MemoryError) or name == "NoMemError"  # the latter is SQLite's
    is_short |= isinstance(error, RuntimeError) and "new thread" in text
    return is_short or (name == "ZstdError" and ("Unable to create" in text or "not enough memory" in text))

"""The errors a user can act on, each with its code on the wire. What is not here is a bug, and crashes loudly.

Codes are listed in docs/protocol.md and never used again for something else.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class SesameError(Exception):
    """Something that the asking person or program can do something about."""

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
    """The method is there, its parameters are wrong."""

    code = -32602


class InternalError(SesameError):
    """A fault of ours; the log has the details."""

    code = -32603


class CancelledError(SesameError):
    """The client took the request back."""

    code = -32800


class NotFoundError(SesameError):
    """What was named is not in the index."""

    code = 1


class AmbiguousError(SesameError):
    """The name fits more than one; `data.candidates` lists them."""

    code = 2


class BusyError(SesameError):
    """Too much at once; asking again later helps."""

    code = 3


class DeadlineError(SesameError):
    """The time that the caller gave, or ours, ran out."""

    code = 4


class QueryError(SesameError):
    """The question cannot be asked like this."""

    code = 5


class StoreError(SesameError):
    """The index cannot be read or written."""

    code = 6


class SchemaTooNewError(StoreError):
    """A newer sesame wrote this index; it is left untouched."""


class RefusedError(SesameError):
    """Allowed to nobody, or not now."""

    code = 7


class ConfigError(SesameError):
    """The configuration is wrong: the message names file, place and what was expected."""


class LockedError(SesameError):
    """Another instance holds the lock."""

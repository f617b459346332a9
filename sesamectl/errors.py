"""Why there is no answer: wrong usage (UsageError), no daemon to ask (ClientError), or it refused (RpcError)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UsageError(Exception):
    """The command line is wrong."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class RefusedError(Exception):
    """The client refuses, or the person said no."""


class ClientError(Exception):
    """The daemon could not be asked."""


class NotRunningError(ClientError):
    """Nothing listens on the socket."""


class ObstructedError(ClientError):
    """Something that is no socket stands at its path."""


class StartError(ClientError):
    """It was started, but did not answer."""


class UnsafeError(ClientError):
    """Another user listens there, or could; nothing was sent."""


class DeadlineError(ClientError):
    """It listens, but did not answer in time."""


class ClosedError(ClientError):
    """It closed the connection before the answer was complete."""


class NotSesameError(ClientError):
    """The program that answered does not speak the protocol."""


class VersionError(ClientError):
    """It speaks another version of the protocol."""


class RpcError(Exception):
    """The daemon's own refusal: its code, message and data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

"""Why there is no answer: it was asked wrongly (UsageError), the daemon could not be asked (ClientError), or it refused (RpcError)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class UsageError(Exception):
    """The command line says what there is not."""

    def __init__(self, message: str, command: str = "") -> None:
        super().__init__(message)
        self.command = command


class RefusedError(Exception):
    """The client itself will not do it, or the person did not want it."""


class ClientError(Exception):
    """The daemon could not be asked."""


class NotRunningError(ClientError):
    """Nothing listens on the socket."""


class StartError(ClientError):
    """It was started, and did not come to answer."""


class UnsafeError(ClientError):
    """Somebody else could listen there, or does; nothing was sent."""


class DeadlineError(ClientError):
    """It listens, but did not answer in time."""


class ClosedError(ClientError):
    """It closed the connection before the answer was complete."""


class NotSesameError(ClientError):
    """What answered does not speak the protocol."""


class VersionError(ClientError):
    """It speaks another version of the protocol."""


class RpcError(Exception):
    """The daemon's own refusal: its code, message and data."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

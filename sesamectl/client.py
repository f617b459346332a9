"""The client for programs: a method and its params in, the result out, or an error that says what to do.

    with Client(start=True) as client:
        answer = client.call("search", query="nix flake", limit=3)
        for hit in answer["results"]:
            print(hit["score"], hit["sessionId"], hit["matchedSnippet"])

Params and results are as in docs/protocol.md, the errors in `sesamectl.errors`. After a ClientError the client is not to be
used again: make a new one.
"""

from __future__ import annotations

import os

from sesamectl.connection import Connection
from sesamectl.errors import NotRunningError
from sesamectl.holder import find_holder
from sesamectl.locations import socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

PROTOCOL = 1  # the version of docs/protocol.md that this speaks
ANSWER_S = 15.0  # the daemon's own deadline for a query is 10 s, so that it is the first to give up


class Client(Connection):
    """A connection that may start the daemon.

    `path` is the socket, the user's own if none is given. With `start` the daemon is started when it is not running, and
    `started` says that it was.
    """

    def __init__(
        self,
        path: str | None = None,
        timeout: float = 10.0,
        progress: Callable[[dict[str, Any]], None] | None = None,
        *,
        start: bool = False,
    ) -> None:
        super().__init__(_default_path() if path is None else path, timeout, progress)
        self.started = False
        self._start = start

    def __enter__(self) -> Self:
        if not self._start and find_holder(f"{self.path}.lock") is None:
            self._refuse_to_wake()
        try:
            return super().__enter__()
        except NotRunningError:
            if not self._start:
                raise
        from sesamectl.launch import launch

        launch(self.path)
        self.started = True
        return super().__enter__()

    def _refuse_to_wake(self) -> None:
        """Raise NotRunningError where whoever connects would have the service manager start the daemon."""
        from sesamectl.service.manager import find_socket_holder

        if name := find_socket_holder(self.path):
            raise NotRunningError(f"sesamed is not running; {name} starts it for the next client")


def _default_path() -> str:
    try:
        return socket_path(os.environ)
    except LookupError as error:
        raise NotRunningError(str(error)) from None

"""One request that is being answered: whether anybody still waits for it, how far it is, and how it asks the daemon."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sesamectl.call import call_retrying
from sesamectl.client import Client
from sesamectl.flags import Arguments
from sesamectl.render import progress
from sesamectl.waiting import wait_until_indexed

Params = Mapping[str, Any]
Notify = Callable[[str, Params], None]


class CancelledError(Exception):
    """Nobody waits for the answer any more."""


@dataclass
class Surroundings:
    """Where the requests of a client come from: the program, as it calls itself, and the directory that it started us in."""

    arguments: Arguments
    here: str
    client_name: str = ""


class Request:
    """What a client asked for. `cancel` is called from another thread."""

    def __init__(self, params: Params, surroundings: Surroundings, notify: Notify) -> None:
        self.params = params
        self.here = surroundings.here
        self.client_name = surroundings.client_name
        self.has_started = False  # the daemon, for this
        self._arguments = surroundings.arguments
        self._notify = notify
        self._cancelled = threading.Event()
        self._client: Client | None = None
        self._steps = 0

    @property
    def meta(self) -> Params:
        """What the client says beside the parameters."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def is_cancelled(self) -> bool:
        """Whether to stop."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Stop, also in the middle of a question to the daemon, which drops it then."""
        self._cancelled.set()
        if (client := self._client) is not None:
            client.abandon()

    def check(self) -> None:
        """Raise CancelledError if nobody waits any more."""
        if self.is_cancelled:
            raise CancelledError

    def tell(self, message: str) -> None:
        """Say how far it is, to a client that wants to know. Nobody knows how much there is to do, so it only counts."""
        token = self.meta.get("progressToken")
        if isinstance(token, str | int) and not self.is_cancelled:
            self._steps += 1
            self._notify(
                "notifications/progress", {"progressToken": token, "progress": self._steps, "message": message}
            )

    def ask(self, question: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
        """The answer to a question that changes nothing. Starts the daemon as every command does."""

        def ask_for(client: Client) -> dict[str, Any]:
            with self._using(client):
                if client.started:
                    self.has_started = True
                    wait_until_indexed(client, show=self._show_wait)
                return question(client)

        return call_retrying(self._arguments, ask_for)

    def _show_wait(self, state: Params) -> None:
        self.check()
        self.tell(f"reading sessions: {progress(state)}" if state else "looking for sessions")

    @contextmanager
    def _using(self, client: Client) -> Iterator[None]:
        self._client = client
        try:
            self.check()
            yield
        finally:
            self._client = None

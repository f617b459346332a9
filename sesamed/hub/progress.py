"""How far shipping is: a small file beside the index, which `status` and `sesamectl hub status` read."""

import os
import time
from contextlib import suppress
from threading import Lock
from typing import Literal

import msgspec

from sesamed.errors import HubCause, HubError
from sesamed.model import iso

FILE = "hub.json"  # in the data directory
SILENT_S = 60.0  # after which it is said that the hub does not answer
WRITE_S = 1.0  # at least between two writings, unless the phase is another one

Phase = Literal["starting", "shipping", "idle", "waiting", "refused"]


class Progress(msgspec.Struct, kw_only=True, rename="camel"):
    """What there is to say."""

    phase: Phase = "starting"
    at: str = ""  # of this file
    pid: int = 0
    rules: str = ""  # a digest of those by which it ships
    workstation: str = ""
    revision: int = 0  # that the hub has
    behind: int = 0  # sessions that changed since
    comparing: bool = False  # a first fill, or one of another index or other rules
    sessions: int = 0  # that were shipped since the start
    messages: int = 0
    rows_per_second: int = 0
    shipped_at: str | None = None  # when the hub last had all that there was
    cause: HubCause | None = None  # why it does not, if it does not
    error: str | None = None
    followed: int = 0  # sessions of other machines that are kept here
    followed_bytes: int = 0
    follow_error: str | None = None  # why not all of them are, or none is as it is there
    since: str | None = None  # of that


_DECODE = msgspec.json.Decoder(Progress).decode


class Reporter:
    """Writes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.said = Progress(pid=os.getpid())
        self._written_s = 0.0
        self._heard_s = time.monotonic()
        self._is_silent = False
        self._begun_s = time.monotonic()
        self._begun_messages = 0
        self._lock = Lock()  # who ships and who follows write in turn

    def begin(self, phase: Phase) -> None:
        """Another phase."""
        self._hear()
        if phase == "shipping" and self.said.phase != "shipping":
            self._begun_s, self._begun_messages = time.monotonic(), self.said.messages
        is_other, self.said.phase = phase != self.said.phase, phase
        self.write(at_once=is_other)

    def count(self, sessions: int, messages: int) -> None:
        """So much was shipped."""
        self._hear()
        self.said.sessions += sessions
        self.said.messages += messages
        elapsed_s = max(time.monotonic() - self._begun_s, 0.001)
        self.said.rows_per_second = round((self.said.messages - self._begun_messages) / elapsed_s)
        self.write()

    def succeed(self) -> None:
        """The hub has everything."""
        self._is_silent = False
        self.said.cause = self.said.error = self.said.since = None
        self.said.comparing, self.said.behind = False, 0
        self.said.shipped_at = iso(int(time.time() * 1000))
        self.said.phase = "idle"
        self.write(at_once=True)

    def fail(self, error: HubError, *, refused: bool) -> None:
        """Why it does not."""
        self._is_silent = False
        if self.said.error != error.message:
            self.said.since = iso(int(time.time() * 1000))
        self.said.cause, self.said.error = error.cause, error.message
        self.said.phase = "refused" if refused else "waiting"
        self.write(at_once=True)

    def find_silence(self) -> HubError | None:
        """Say that a hub does not answer, though it is connected to: nothing else tells of a server that stands still."""
        silent_s = time.monotonic() - self._heard_s
        if self._is_silent or self.said.phase != "shipping" or silent_s < SILENT_S:
            return None
        error = HubError(f"the hub has not answered for {silent_s:.0f} s; it is waited for", cause="deadline")
        self.fail(error, refused=False)
        self._is_silent = True
        return error

    def _hear(self) -> None:
        self._heard_s = time.monotonic()
        if self._is_silent:
            self._is_silent = False
            self.said.cause = self.said.error = self.said.since = None
            self.said.phase = "shipping"

    def follow(self, sessions: int, size: int, error: str | None) -> None:
        """So much is kept of others, and why it is not more."""
        now = sessions, size, error
        if now != (self.said.followed, self.said.followed_bytes, self.said.follow_error):
            self.said.followed, self.said.followed_bytes, self.said.follow_error = now
            self.write(at_once=True)

    def write(self, *, at_once: bool = False) -> None:
        """Write the file, in one step. Where that fails, the next one is tried: nothing depends on it."""
        now = time.monotonic()
        if not at_once and now - self._written_s < WRITE_S:
            return
        self._written_s = now
        self.said.at = iso(int(time.time() * 1000))
        with self._lock, suppress(OSError):
            descriptor = os.open(self.path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(msgspec.json.encode(self.said) + b"\n")
            os.replace(self.path + ".new", self.path)


def read_running(data_dir: str) -> Progress | None:
    """What the process says that ships now; None if there is none."""
    said = read(data_dir)
    if said is None or said.pid <= 0:
        return None
    try:
        os.kill(said.pid, 0)
    except OSError:  # it has ended, and perhaps somebody else has its number now
        return None
    return said


def read(data_dir: str) -> Progress | None:
    """What was last said; None if there is nothing."""
    try:
        with open(os.path.join(data_dir, FILE), "rb") as file:
            return _DECODE(file.read(1 << 16))
    except (OSError, ValueError):
        return None

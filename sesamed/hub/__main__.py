"""`python -m sesamed.hub`: the process that ships. The daemon starts it, wakes it with a byte after commits, and ends it by closing a pipe.

It is a process of its own so that neither a driver nor a first fill is in the interpreter that answers.
"""

import logging
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress

from sesamed import logs
from sesamed.errors import HubCause, HubError, SesameError
from sesamed.hub.followed_files import FollowedFiles
from sesamed.hub.following import Follower
from sesamed.hub.orders import DECODE_ORDERS, Orders
from sesamed.hub.outgoing import Outgoing
from sesamed.hub.progress import Reporter
from sesamed.hub.server import connect
from sesamed.hub.shipping import Shipper
from sesamed.paths import HUB

log = logging.getLogger("sesamed.hub")

NICE = 10
REST_S = 2.0  # between two passes: a session that is written to all the time leaves this often
MOST_REST_S = 10.0
SHARE = 4  # it rests so many times as long as a pass took
HEARTBEAT_S = 60.0
WATCH_S = 5.0
RETRY_S = (1.0, 60.0)
REFUSED_S = 15.0  # somebody is at it, perhaps
REFUSALS: frozenset[HubCause] = frozenset(
    {
        "account",
        "workstation",
        "newer",
        "older",
        "empty",
        "version",
        "encoding",
        "psycopg",
        "rights",
        "configuration",
        "language",
    }
)


class Bell:
    """Rings when something was committed, and for good when the daemon has ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._has_rung = True  # there may be something at the start
        self.has_ended = False

    def listen(self, descriptor: int) -> None:
        """Hear the daemon until it ends."""
        while os.read(descriptor, 4096):
            self._ring(for_good=False)
        self._ring(for_good=True)

    def _ring(self, *, for_good: bool) -> None:
        with self._changed:
            self._has_rung = True
            self.has_ended |= for_good
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> None:
        """Until it rings, or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._has_rung, timeout_s)
            self._has_rung = False

    def rest(self, seconds: float) -> None:
        """For so long, whatever is committed meanwhile; not beyond the end."""
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended, seconds)


def run(orders: Orders, bell: Bell, reporter: Reporter) -> None:
    """Ship until the daemon has ended."""
    pause_s, shipped = RETRY_S[0], 0
    told = ""
    reporter.said.rules = Outgoing(orders.hub).rules
    while not bell.has_ended:
        try:
            reporter.begin("starting")
            with connect(orders.hub) as connection:
                shipper = Shipper(
                    orders.database, connection, orders.identity, orders.hub, Outgoing(orders.hub), reporter
                )
                while not bell.has_ended:
                    _pass(shipper, bell)
                    pause_s, told = RETRY_S[0], _tell_again(told)
        except HubError as error:
            is_refused = error.cause in REFUSALS
            reporter.fail(error, refused=is_refused)
            if error.message != told:
                log.warning("%s", error.message)
                told = error.message
            if reporter.said.messages > shipped:  # it was there for a while
                pause_s, shipped = RETRY_S[0], reporter.said.messages
            bell.rest(REFUSED_S if is_refused else pause_s * random.uniform(0.5, 1.0))  # noqa: S311  # many come back at once
            pause_s = min(pause_s * 2, RETRY_S[1])
        except SesameError as error:  # the index is being replaced, or there is none
            log.info("%s", error.message)
            bell.rest(pause_s)


def watch(bell: Bell, reporter: Reporter) -> None:
    """Notice a hub that says nothing any more."""
    while not bell.has_ended:
        bell.rest(WATCH_S)
        if (error := reporter.find_silence()) is not None:
            log.warning("%s", error.message)


def follow(orders: Orders, bell: Bell, reporter: Reporter) -> None:
    """Follow until the daemon has ended. What is wrong with the hub is logged by who ships."""
    files = FollowedFiles(os.path.join(os.path.dirname(orders.database), HUB))
    pause_s, kept = RETRY_S[0], (0, 0)
    while not bell.has_ended:
        try:
            with connect(orders.hub) as connection:
                follower = Follower(connection, orders.hub, orders.identity.workstation, files, orders.database)
                while not bell.has_ended:
                    follower.catch_up(lambda: bell.has_ended)
                    kept, pause_s = (len(follower.bytes), follower.total), RETRY_S[0]
                    reporter.follow(*kept, follower.trouble)
                    follower.wait(HEARTBEAT_S)
        except (SesameError, OSError) as error:
            why = error.message if isinstance(error, SesameError) else f"{files.directory}: {error.strerror}"
            reporter.follow(*kept, why)
            log.info("not followed now: %s", why)
            bell.rest(pause_s)
            pause_s = min(pause_s * 2, RETRY_S[1])


def _tell_again(told: str) -> str:
    if told:
        log.info("the hub answers again")
    return ""


def _pass(shipper: Shipper, bell: Bell) -> None:
    begun_s = time.monotonic()
    has_compared = shipper.catch_up(lambda: bell.has_ended)
    took_s = 0.0 if has_compared else time.monotonic() - begun_s
    bell.rest(min(max(REST_S, SHARE * took_s), MOST_REST_S))
    bell.wait(HEARTBEAT_S)


def main() -> int:
    """Read the orders and carry them out."""
    line = sys.stdin.buffer.readline()
    orders = DECODE_ORDERS(line)
    logs.configure("INFO", os.environ)
    for number in (signal.SIGINT, signal.SIGHUP):  # of a terminal: it ends with the daemon
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(NICE)
    bell = Bell()
    threading.Thread(target=bell.listen, args=(sys.stdin.fileno(),), daemon=True).start()
    reporter = Reporter(orders.progress)
    threading.Thread(target=watch, args=(bell, reporter), daemon=True).start()
    if orders.hub.follows:
        threading.Thread(target=follow, args=(orders, bell, reporter), daemon=True).start()
    run(orders, bell, reporter)
    return 0


if __name__ == "__main__":
    sys.exit(main())

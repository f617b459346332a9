"""What a question to a hub takes, alone and with nine others beside it.

    python -m bench.hub_query CORPUS [--samples 200] [--times 1]

The corpus is indexed and shipped to a PostgreSQL on this machine and on the same cores. With `--times` all of it is put there as often as
that, each time as another machine's, with records of its own; that is done in SQL. Words and kinds of questions are those of
`bench.query`; each is asked once. `hub` is the whole of a question with scope `hub`, as a client waits for it; `index` is the same one
with scope `here`.
"""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import apsw

from bench.hub_ranking import Shipping, start_hub
from bench.instance import Instance, scratch
from bench.query import kinds, pool
from bench.tables import Table, ms, percentile, run_alone
from sesamectl.client import Client
from sesamectl.errors import RpcError
from sesamed.hub import server
from tests.support.postgres import HubDatabase, run

HEADER = ("", "n", "hub p50", "p90", "p99", "index p50", "p99")
CLIENTS = 10
TABLES: Mapping[str, str] = {
    "hub_workstations": "", "hub_sessions": "", "hub_totals": "", "hub_word_counts": "", "hub_messages": "record_key",
    "hub_vectors": "record_key",
}  # fmt: skip
COLUMNS = """
    SELECT attname FROM pg_attribute WHERE attrelid = ('sesame.' || %s)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
COPIED = "INSERT INTO sesame.{table}({columns}) SELECT {values} FROM sesame.{table} WHERE workstation_id = %s"
VECTORS = """
    INSERT INTO sesame.hub_vectors(workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, tool, time, words, vector)
    SELECT workstation_id, composite_key, msg_idx, project, team, record_key, role, kind, tool, time, words,
      sesame.hub_vector(language, text, subwords)
    FROM sesame.hub_messages WHERE workstation_id = %s AND searched
"""


class Corpus(Shipping):
    """A daemon over a generated corpus, with a hub."""

    def configuration(self) -> dict[str, Any]:
        """One root, and all of it leaves."""
        hub = {**self.hub, "projects": {"allow": ["**"]}}
        return {**Instance.configuration(self), "hub": hub}


def put_again(hub: HubDatabase, own: str, number: int) -> None:
    """All that a machine has shipped, as another one's."""
    other = f"{number:08x}"
    with hub.connect("anna") as connection, connection.transaction():
        for table, record in TABLES.items():
            columns = [name for (name,) in run(connection, COLUMNS, table)]
            values = {"workstation_id": f"'{other}'", "composite_key": f"'{other}' || substr(composite_key, 9)"}
            if record:
                values[record] = f"{record} # {number}"
            if table == "hub_vectors":  # which nobody reads without a question: they are made again
                run(connection, VECTORS, other)
                continue
            chosen = ", ".join(values.get(name, name) for name in columns)
            run(connection, COPIED.format(table=table, columns=", ".join(columns), values=chosen), own)


def make_questions(database: str, samples: int) -> dict[str, list[str]]:
    """Of each kind so many."""
    connection, random = apsw.Connection(database, flags=apsw.SQLITE_OPEN_READONLY), Random(1)
    try:
        words = pool(connection, random)
        return {name: [" ".join(make()) for _ in range(samples)] for name, make in kinds(words, random).items()}
    finally:
        connection.close()


def ask(client: Client, question: str, scope: str) -> float:
    """Milliseconds; those of its deadline, where that is over before."""
    begun = time.perf_counter()
    with contextlib.suppress(RpcError):
        client.call("search", query=question, scope=scope)
    return (time.perf_counter() - begun) * 1000


def ask_alone(daemon: Instance, questions: Mapping[str, list[str]]) -> Iterator[tuple[str, ...]]:
    """One client, kinds by turns, the hub and the index by turns."""
    with Client(daemon.socket_path, 600.0) as client:
        for scope in ("hub", "here"):
            ask(client, "warm", scope)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in questions}
        for each in zip(*questions.values(), strict=True):
            for name, question in zip(questions, each, strict=True):
                times[name].append((ask(client, question, "hub"), ask(client, question, "here")))
    for name, some in times.items():
        yield _row(name, [hub for hub, _ in some], [here for _, here in some])
    everything = [one for some in times.values() for one in some]
    yield _row("all", [hub for hub, _ in everything], [here for _, here in everything])


def ask_together(daemon: Instance, questions: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Ten clients at once, each with its share of all questions."""
    everything = [question for each in zip(*questions.values(), strict=True) for question in each]
    times: dict[str, list[float]] = {"hub": [], "here": []}

    def work(scope: str, own: list[str]) -> None:
        with Client(daemon.socket_path, 600.0) as client:
            times[scope] += [ask(client, question, scope) for question in own]

    for scope in times:
        threads = [threading.Thread(target=work, args=(scope, everything[n::CLIENTS])) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return _row(f"all, {CLIENTS} clients at once", times["hub"], times["here"])


def _row(name: str, hub: list[float], here: list[float]) -> tuple[str, ...]:
    shares = [ms(percentile(hub, share)) for share in (50, 90, 99)]
    return name, str(len(hub)), *shares, ms(percentile(here, 50)), ms(percentile(here, 99))


def measure(corpus: str, samples: int, times: int) -> list[Table]:
    """One table."""
    with scratch() as place, start_hub() as postgres:
        hub = HubDatabase(postgres)
        with hub.connect("keeper") as connection:
            server.migrate(connection)
        daemon = Corpus(place, corpus)
        daemon.hub = {"dsn": hub.dsn("anna"), "language": "english"}
        with daemon:
            daemon.until_settled()
            daemon.until_shipped()
            own = daemon.call("status")["workstation"]["id"]
            for number in range(1, times):
                put_again(hub, own, number)
            with hub.connect("keeper") as connection:
                run(connection, "VACUUM ANALYZE")
            with hub.connect("anna") as connection:
                messages = run(connection, "SELECT sum(messages) FROM sesame.hub_totals")
            questions = make_questions(daemon.database, max(1, samples // 6))
            rows = [*ask_alone(daemon, questions), ask_together(daemon, questions)]
    return [Table("Search in a hub, ms", HEADER, rows, f"{int(messages[0][0]):,} messages in the hub.")]


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=200, times=1)

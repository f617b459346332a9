"""Questions in Russian, German, French and Persian, each about a made session in which the words have other forms.

    python -m bench.languages --corpus DIR

`bench/sets/languages.tsv` has question, language and what was said in a session, by person and agent in turns (` // ` between them). The
sessions are indexed beside a corpus (sets/README.md says which), by a real daemon, and asked for through `search`. With no memory.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from bench import memory, outside, ranking
from bench.instance import scratch
from bench.tables import Table, show

TURNS = " // "
ROLES = ("user", "assistant")
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Made(NamedTuple):
    """A question, its language, and the session that is meant."""

    question: str
    language: str
    session: outside.Session


class Corpus(ranking.Corpus):
    """A daemon over a corpus and made sessions."""

    made = ""

    def configuration(self) -> dict[str, Any]:
        """With their directory."""
        known = super().configuration()["sources"]
        return {"sources": [*known, {"parser": "pi", "path": self.made}]}


def read_made() -> list[Made]:
    """All of them."""
    with open(os.path.join(memory.SETS, "languages.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [
        Made(question, language, outside.Session(f"made-{n:03}", AT, list(zip(ROLES, said.split(TURNS), strict=True))))
        for n, (question, language, said) in enumerate(lines)
    ]


def ask_all(corpus: str, made: Sequence[Made]) -> Iterator[outside.Outcome]:
    """Each among all sessions."""
    with scratch() as place:
        daemon = Corpus(place, corpus)
        daemon.made = os.path.join(place, "made")
        outside.write_sessions(daemon.made, [outside.Conversation("made", [one.session for one in made], [])])
        with daemon:
            daemon.until_settled()
            for one in made:
                question = outside.Question(one.question, one.language, frozenset({one.session.id}))
                yield outside.ask(daemon, question, "all")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--json", action="store_true")
    flags = parser.parse_args()
    made = read_made()
    table: Table = outside.tabulate(list(ask_all(flags.corpus, made)), len(made), "Questions by language")
    show([table], as_json=flags.json)


if __name__ == "__main__":
    main()

"""What each step of ranking is worth on labelled questions: the ladder of docs/search.md.

    python -m bench.ranking --corpus DIR --queries FILE [--absent FILE] [--store]
    python -m bench.ranking --corpus DIR --queries FILE --as-if 10000 --as-if 1000000

The corpus holds a folder for each source (pi, claude, codex). A line of the queries is question TAB category TAB paths of the sessions
that are meant, relative to the corpus, separated by `|`. `--absent` are questions about nothing that is there, one a line: how many
of those, and of the others, are answered as weak.

With `--as-if`, all steps are taken, and the questions are asked once more for each number of messages, as if the index had so many
(`bench.as_if`): `other hits` are questions whose first ten are not the same, in the same order, as without it.

The index is made by the daemon; then the same code that answers its searches runs here, with the steps not taken switched off.
"""

import argparse
import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from unittest import mock

import apsw

from bench import figures
from bench.as_if import scaled
from bench.instance import Instance, scratch
from bench.tables import Table, show
from sesamed.methods.hits import Hit, Page
from sesamed.methods.search import Searcher
from sesamed.store import sqlite
from sesamed.store.changes import Changes
from sesamed.store.search import filters, scoring, spelling, terms
from sesamed.store.search import matching as search
from sesamed.store.shelf import Shelf

SOURCES = ("pi", "claude", "codex")
HEADER = ("step", "P@1", "H@3", "H@10", "MRR", "empty")
WHOLE_TERM = terms.TermMaker.term
ONLY_TEXT_MESSAGES = search.MESSAGES_BY_FILE.replace("MATCH ?", "MATCH '{text} : (' || ? || ')'")
ONLY_TEXT_STANDS = terms.STANDS.replace("MATCH ?", "MATCH '{text} : (' || ? || ')'")
UNWEIGHTED = search.BEST.replace(search.WEIGHT, "1.0")
ONLY_TEXT = search.MATCHED.replace("MATCH p.pattern", "MATCH '{{text}} : (' || p.pattern || ')'")


class Question(NamedTuple):
    """A question and the sessions that are meant."""

    text: str
    category: str
    paths: frozenset[str]


def _first_pattern(self: terms.TermMaker, word: terms.Word, *, exact: bool = False) -> terms.Term:
    made = WHOLE_TERM(self, word, exact=True)
    return made._replace(patterns=made.patterns[:1])


def _all_in_one(terms: terms.Terms) -> Iterator[tuple[str, float, bool]]:
    yield " AND ".join(pattern.match for pattern in terms.patterns), 1.0, True


# What is switched off until its step; the steps are taken in this order.
STEPS: dict[str, list[tuple[Any, str, Any]]] = {
    "all words in one chunk": [],
    "any word (OR)": [(search, "list_patterns", _all_in_one)],
    "messages, calls, results weighted": [(search, "BEST", UNWEIGHTED), (scoring, "MESSAGES_FIRST", 0.0)],
    "best three chunks": [(scoring, "DAMPED", (1.0,))],
    "the session as a whole": [(scoring, "SESSION_SHARE", 0.0)],
    "titles, directories": [(terms, "find_headings", lambda connection, match: terms.Headings())],
    "subwords, parts": [
        (terms.TermMaker, "term", _first_pattern),
        (search, "MATCHED", ONLY_TEXT),
        (search, "MESSAGES_BY_FILE", ONLY_TEXT_MESSAGES),
        (terms, "STANDS", ONLY_TEXT_STANDS),
    ],
    "spelling": [(spelling, "NEAREST", 0)],
    "words side by side": [(terms, "MOST_PAIRED", 0)],
}


@contextlib.contextmanager
def taken(steps: int) -> Iterator[None]:
    """The first so many steps of the ladder, and no more."""
    with contextlib.ExitStack() as stack:
        for name in list(STEPS)[steps:]:
            for target, attribute, value in STEPS[name]:
                stack.enter_context(mock.patch.object(target, attribute, value))
        yield


def answered(connection: apsw.Connection, text: str) -> Page:
    """What the daemon would say."""
    return Searcher(connection, terms.parse(text), filters.to_sql(filters.Where()), "bench").run(10, 0, recent=False)


def rank(connection: apsw.Connection, question: Question) -> tuple[int | None, bool]:
    """At which place a session stands that was meant; and whether there was an answer at all."""
    return find_place(answered(connection, question.text).hits, question)


def find_place(hits: Sequence[Hit], question: Question) -> tuple[int | None, bool]:
    """The same, of what was answered."""
    for place, hit in enumerate(hits, 1):
        paths = {hit.path, hit.match.path if hit.match else hit.path}
        if {os.path.realpath(path) for path in paths} & question.paths:
            return place, True
    return None, bool(hits)


def measured(name: str, ranks: list[tuple[int | None, bool]]) -> tuple[str, ...]:
    """A row of the table."""
    places = [place for place, _ in ranks]
    shares = [100 * sum(place is not None and place <= most for place in places) / len(places) for most in (1, 3, 10)]
    mrr = sum(1 / place for place in places if place) / len(places)
    return name, *(f"{share:.1f}" for share in shares), f"{mrr:.3f}", str(sum(not any_ for _, any_ in ranks))


def ladder(connection: apsw.Connection, questions: list[Question]) -> list[Table]:
    """All steps over all questions, and the last one by category."""
    rows = []
    for steps, name in enumerate(STEPS, 1):
        with taken(steps):
            ranks = [rank(connection, question) for question in questions]
        rows.append(measured(name if steps == 1 else f"+ {name}", ranks))
    categories = dict.fromkeys(question.category for question in questions)
    by_category = [
        measured(name, [one for one, question in zip(ranks, questions, strict=True) if question.category == name])
        for name in categories
    ]
    sessions = connection.execute("SELECT count(*) FROM sessions").get
    count = f"{len(questions)} questions about {sessions} sessions."
    return [
        Table("Ranking, each step added to the ones above", HEADER, rows, count),
        Table("By category", HEADER, by_category, ""),
    ]


def as_if(connection: sqlite.Reader, questions: list[Question], sizes: list[int]) -> Table:
    """The last step of the ladder, as if the index were larger."""
    connection.shelf = Shelf(Changes())  # as a daemon's readers have one: a large index is searched by it
    messages = connection.execute("SELECT messages FROM totals").get
    own, ranks = _ask_all(connection, questions)
    rows, notes = [(*measured(f"as it is, {messages:,} messages", ranks), "0")], list[str]()
    for size in sizes:
        with scaled(connection, size) as limits:
            shown, ranks = _ask_all(connection, questions)
        others = sum(one != other for one, other in zip(own, shown, strict=True))
        rows.append((*measured(f"as if of {size:,}", ranks), str(others)))
        notes.append(f"{size:,}: {', '.join(map(str, limits))}.")
    return Table("As if in a larger index", (*HEADER, "other hits"), rows, " ".join(notes))


def _ask_all(
    connection: apsw.Connection, questions: list[Question]
) -> tuple[list[list[str]], list[tuple[int | None, bool]]]:
    """What is shown for each question, and where what was meant stands in it."""
    answers = [answered(connection, question.text).hits for question in questions]
    ranks = [find_place(hits, question) for hits, question in zip(answers, questions, strict=True)]
    return [[hit.path for hit in hits] for hits in answers], ranks


def weakness(connection: apsw.Connection, questions: list[Question], absent: list[str]) -> Table:
    """How many answers say of themselves that they are weak."""
    rows = [
        (name, str(len(texts)), str(sum(answered(connection, text).weak for text in texts)))
        for name, texts in (
            ("about sessions that are there", [q.text for q in questions]),
            ("about nothing there", absent),
        )
    ]
    return Table("Weak answers", ("questions", "n", "weak"), rows, "")


def read_questions(corpus: str, path: str) -> list[Question]:
    """The labelled questions."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            text, category, paths = line.rstrip("\n").split("\t")
            meant = frozenset(os.path.realpath(os.path.join(corpus, part)) for part in paths.split("|"))
            found.append(Question(text, category, meant))
    return found


class Corpus(Instance):
    """A daemon over the corpus' folders."""

    def configuration(self) -> dict[str, Any]:
        """A source for each folder."""
        roots = [(name, os.path.join(self.corpus, name)) for name in SOURCES]
        return {"sources": [{"parser": name, "path": path} for name, path in roots if os.path.isdir(path)]}


def measure(corpus: str, queries: str, absent: str | None, sizes: list[int]) -> list[Table]:
    """All tables; of an index as if of other sizes only that one."""
    questions = read_questions(corpus, queries)
    with scratch() as place, Corpus(place, corpus) as daemon:
        daemon.until_settled()
        connection = sqlite.connect_reader(daemon.database)
        try:
            tables = [as_if(connection, questions, sizes)] if sizes else ladder(connection, questions)
            if absent is not None:
                with open(absent, encoding="utf-8") as file:
                    tables.append(weakness(connection, questions, file.read().splitlines()))
        finally:
            connection.close()
    return tables


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--absent")
    parser.add_argument(
        "--as-if", type=int, action="append", default=[], metavar="MESSAGES", help="may be given several times"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    flags = parser.parse_args()
    tables = measure(flags.corpus, flags.queries, flags.absent, flags.as_if)
    if flags.store:
        figures.store(
            {"ranking_as_if" if flags.as_if else "ranking": figures.Measured(f"{datetime.now(UTC):%Y-%m-%d}", tables)}
        )
        figures.write()
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()

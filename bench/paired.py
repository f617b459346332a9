"""All sets of questions, and whether a change of the ranking is more than chance: each question is compared with itself.

    python -m bench.paired --corpus DIR --queries FILE --answers before.json
    python -m bench.paired --corpus DIR --queries FILE --answers after.json --against before.json [--store]

What is asked: the questions of bench.ranking (`--queries`), those of `bench/sets` (sets/README.md says of which corpus), with no metadata,
that of every second session and of all, those of one half of the corpus asked of the other half, and those about nothing that is there.
All through `search`, of real daemons. Answers name questions of the sets and places only; keep them outside of the project.

P@1 and H@3 are compared by the exact sign test over the questions that were gained or lost, MRR by turning the signs of the differences at
random; p is two-sided, and what is below .05 is marked. Of 60 rows three are expected to be so by chance alone.
"""

import argparse
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from glob import glob
from math import comb
from random import Random
from typing import Any, NamedTuple

from bench import figures, memory, ranking
from bench.instance import Instance, scratch
from bench.tables import Table, show
from sesamed.methods.time_words import find_ending, read_ending
from sesamed.methods.times import read_clock

DEEPER = {
    "copilot": "copilot/**/history-session-state",
    "droid": "factory/**/sessions",
    "openclaw": "openclaw/**/agents",
}
NOBODY = "-"
ON_ITS_DAY = ", on its day"
ABOUT_NOTHING = "about nothing there"
HEADER = ("questions", "n", "memory of", "P@1", "H@3", "MRR@10", "weak")
CHANGES = ("questions", "n", "memory of", "P@1", "+", "-", "p", "H@3", "+", "-", "p", "MRR@10", "p", "weak")
PAGE = 500
DRAWS = 5_000
LIKELY_CHANCE = 0.05


class Question(NamedTuple):
    """A question, the set that it is of, and what is meant: ids of sessions, or their files; none if nothing is."""

    text: str
    group: str
    meant: frozenset[str]
    day: str = ""


class Outcome(NamedTuple):
    """How a question was answered: at which place what was meant stands, and whether the answer called itself weak."""

    group: str
    memory_of: str
    text: str
    place: int | None
    is_weak: bool


class Corpus(ranking.Corpus):
    """A daemon over more agents' folders: their directories lie deeper in them."""

    def configuration(self) -> dict[str, Any]:
        """A source for each directory."""
        made = super().configuration()
        for parser, pattern in DEEPER.items():
            found = glob(pattern, root_dir=self.corpus, recursive=True, include_hidden=True)
            made["sources"] += [{"parser": parser, "path": os.path.join(self.corpus, path)} for path in sorted(found)]
        return made


def read_kinds(path: str) -> list[Question]:
    """Questions by kind. Those with a day are asked twice: as they are, and with the time at their end as it was meant at noon of it."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return [
        Question(text, f"{kind}{as_of}", frozenset() if meant == NOBODY else frozenset(meant.split("|")), day)
        for text, kind, meant, *days in lines
        for as_of, day in (("", ""), *((ON_ITS_DAY, day) for day in days))
    ]


def read_all(corpus: str, queries: str) -> list[Question]:
    """All questions that are asked of the whole corpus."""
    sets = memory.read_sets(memory.SETS)
    return [
        *(Question(one.text, "labelled", one.paths) for one in ranking.read_questions(corpus, queries)),
        *(Question(one.text, f"memory, {one.kind}", one.meant) for one in sets.questions),
        *read_kinds(os.path.join(memory.SETS, "kinds.tsv")),
        *(Question(text, ABOUT_NOTHING, frozenset()) for text in sets.absent),
    ]


def ask(daemon: Instance, question: Question, memory_of: str) -> Outcome:
    """One question."""
    answer = daemon.call("search", limit=10, **_meant_on(question.text, question.day))
    found = None
    for place, hit in enumerate(answer["results"], 1):
        shown = [hit, hit["match"] or hit]
        if question.meant & {name for one in shown for name in (one["sessionId"], os.path.realpath(one["path"]))}:
            found = place
            break
    return Outcome(question.group, memory_of, question.text, found, answer["weak"] or not answer["results"])


def _meant_on(text: str, day: str) -> dict[str, Any]:
    """The question, with the filters that the time at its end was on this day: the daemon knows of no day but today."""
    ending = find_ending(text) if day else None
    if ending is None:
        return {"query": text}
    noon = datetime.fromisoformat(f"{day}T12:00:00+00:00")
    meant = read_ending(ending, read_clock(int(noon.timestamp() * 1000), "UTC"))
    if meant is None:
        return {"query": text}
    bounds = {name: bound for name, bound in (("after", meant.after), ("before", meant.before)) if bound is not None}
    return {"query": meant.rest, **bounds}


def ask_all(corpus: str, questions: Iterable[Question]) -> Iterator[Outcome]:
    """Of all sessions, with more and more metadata; then of each half what only the other one has."""
    entries = memory.read_sets(memory.SETS).entries
    steps = {"none": [], "every second session": entries[::2], "all sessions": entries[1::2]}
    with scratch() as place, Corpus(place, corpus) as daemon:
        daemon.until_settled()
        for name, more in steps.items():
            memory.remember(daemon, more)
            daemon.until_settled()
            yield from (ask(daemon, question, name) for question in questions)
        files = list_files(daemon)
    yield from ask_halves(corpus, files)


def list_files(daemon: Instance) -> dict[str, list[str]]:
    """The files of each session."""
    files: dict[str, list[str]] = {}
    offset: int | None = 0
    while offset is not None:
        page = daemon.call("list_sessions", limit=PAGE, offset=offset)
        for session in page["sessions"]:
            files.setdefault(session["sessionId"], []).append(session["path"])
        offset = page["nextOffset"]
    return files


def ask_halves(corpus: str, files: dict[str, list[str]]) -> Iterator[Outcome]:
    """Questions of one half, asked of the other half: nothing there is meant."""
    with open(os.path.join(memory.SETS, "halves.tsv"), encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    for half in ("even", "odd"):
        with scratch() as place:
            kept = os.path.join(place, "corpus")
            for session, paths in files.items():
                if half_of(session) == half:
                    _copy(corpus, kept, paths)
            with Corpus(place, kept) as daemon:
                daemon.until_settled()
                for text, asked in lines:
                    if asked == half:
                        yield ask(daemon, Question(text, "of the other half", frozenset()), "none")


def half_of(session: str) -> str:
    """By the last digit of a digest of its id, as sets/README.md says."""
    return ("even", "odd")[int(hashlib.sha256(session.encode()).hexdigest()[-1], 16) % 2]


def _copy(corpus: str, to: str, paths: Iterable[str]) -> None:
    for path in paths:
        if os.path.isfile(path):
            target = os.path.join(to, os.path.relpath(os.path.realpath(path), os.path.realpath(corpus)))
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(path, target)


# -- figures


def group_outcomes(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Outcome]]:
    """By set and memory, in the order in which they come."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.group, outcome.memory_of), []).append(outcome)
    order = list(dict.fromkeys(group for group, _ in groups))
    return dict(sorted(groups.items(), key=lambda item: order.index(item[0][0])))


def share_within(outcomes: Sequence[Outcome], most: int) -> float:
    """Percent of the questions that are answered at one of the first places."""
    return 100 * sum(one.place is not None and one.place <= most for one in outcomes) / len(outcomes)


def gain(outcome: Outcome) -> float:
    """What a question adds to the MRR."""
    return 1 / outcome.place if outcome.place else 0.0


def mean_gain(outcomes: Sequence[Outcome]) -> float:
    """The MRR."""
    return sum(map(gain, outcomes)) / len(outcomes)


def tabulate(outcomes: Iterable[Outcome]) -> Table:
    """What each set is worth."""
    rows = []
    for (group, memory_of), some in group_outcomes(outcomes).items():
        shares = (f"{share_within(some, 1):.1f}", f"{share_within(some, 3):.1f}", f"{mean_gain(some):.3f}")
        weak = str(sum(one.is_weak for one in some))
        rows.append((group, str(len(some)), memory_of, *(("", "", "") if _is_absent(some) else shares), weak))
    return Table("Questions by set", HEADER, rows, "")


def compare(before: Iterable[Outcome], after: Iterable[Outcome]) -> Table:
    """Each question with itself, by set, and all that have an answer together."""
    known = {one[:3]: one for one in before}
    rows = []
    groups = group_outcomes(one for one in after if one[:3] in known)
    for (group, memory_of), some in groups.items():
        rows.append(_compare_group(group, memory_of, [(known[one[:3]], one) for one in some]))
    for memory_of in dict.fromkeys(memory_of for _, memory_of in groups):
        some = [one for (_, of), found in groups.items() if of == memory_of and not _is_absent(found) for one in found]
        rows.append(_compare_group("**all of these**", memory_of, [(known[one[:3]], one) for one in some]))
    return Table("What has changed, question by question", CHANGES, rows, "")


def _is_absent(outcomes: Sequence[Outcome]) -> bool:
    return not any(one.place for one in outcomes)


def _compare_group(group: str, memory_of: str, pairs: list[tuple[Outcome, Outcome]]) -> tuple[str, ...]:
    old, new = [before for before, _ in pairs], [after for _, after in pairs]
    weak = f"{sum(one.is_weak for one in old)} → {sum(one.is_weak for one in new)}"
    cells = [group, str(len(pairs)), memory_of]
    for most in (1, 3):
        within = [(_is_within(before, most), _is_within(after, most)) for before, after in pairs]
        gained, lost = sum(now and not was for was, now in within), sum(was and not now for was, now in within)
        shares = f"{share_within(old, most):.1f} → {share_within(new, most):.1f}"
        cells += [shares, str(gained), str(lost), _mark(sign_test(gained, lost))]
    mrr = f"{mean_gain(old):.3f} → {mean_gain(new):.3f}"
    return (*cells, mrr, _mark(permutation_test([gain(after) - gain(before) for before, after in pairs])), weak)


def _is_within(outcome: Outcome, most: int) -> bool:
    return outcome.place is not None and outcome.place <= most


def _mark(chance: float) -> str:
    return f"**{chance:.3f}**" if chance < LIKELY_CHANCE else f"{chance:.2f}"


def sign_test(gained: int, lost: int) -> float:
    """How likely a difference as large is where gains and losses are equally likely."""
    number, least = gained + lost, min(gained, lost)
    return min(1.0, 2 * sum(comb(number, k) for k in range(least + 1)) / 2**number)


def permutation_test(differences: Iterable[float]) -> float:
    """How likely a mean as far from zero is where each difference might as well be the other way round."""
    told, random = [one for one in differences if one], Random(1)
    bound = abs(sum(told)) - 1e-9
    if not told:
        return 1.0
    draws = (abs(sum(one if random.random() < 0.5 else -one for one in told)) for _ in range(DRAWS))
    return (1 + sum(draw >= bound for draw in draws)) / (1 + DRAWS)


def load(path: str) -> list[Outcome]:
    """Answers of a run before."""
    with open(path, encoding="utf-8") as file:
        return [Outcome(*one) for one in json.load(file)]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--answers", help="where to keep how each question was answered")
    parser.add_argument("--against", help="answers of another run, to compare with")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    flags: Any = parser.parse_args()
    outcomes = list(ask_all(flags.corpus, read_all(flags.corpus, flags.queries)))
    tables = [tabulate(outcomes)]
    if flags.answers:
        with open(flags.answers, "w", encoding="utf-8") as file:
            json.dump(outcomes, file)
    if flags.against:
        tables.append(compare(load(flags.against), outcomes))
    if flags.store:
        figures.store({"paired": figures.Measured(f"{datetime.now(UTC):%Y-%m-%d}", tables[:1])})
        figures.write()
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()

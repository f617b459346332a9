"""Conversations that others published, with questions and the sessions that hold their evidence: LoCoMo, LongMemEval.

    python -m bench.outside DIR [--store]

DIR holds `locomo10.json` (github.com/snap-research/locomo, CC BY-NC 4.0) or `longmemeval_s*.json` (LongMemEval, MIT), as they come.
Nothing of them is part of this repository. Each of their conversations becomes a directory and each of its sessions one of pi's, which
a real daemon indexes. A question is asked as it stands, through `search`, of its conversation (`cwd`), and, where many share one, of
all conversations as well; it is answered by any session with evidence. Nobody has described these sessions, and no model takes part.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from glob import glob
from typing import Any, NamedTuple

from bench import figures
from bench.instance import Instance, scratch
from bench.tables import Table, show

HEADER = ("questions", "n", "asked of", "P@1", "H@3", "H@5", "H@10", "MRR@10")
TITLE = "Questions about others' conversations"
PLACES = (1, 3, 5, 10)
LOCOMO_KINDS = {1: "several sessions", 2: "time", 3: "general knowledge", 4: "one session", 5: "of the other person"}
LOCOMO_TIME = "%I:%M %p on %d %B, %Y"
LONGMEMEVAL_TIME = "%Y/%m/%d (%a) %H:%M"
NO_ANSWER = "_abs"  # ends the id of a question about nothing that was said


class Session(NamedTuple):
    """What was said on one day: roles and texts."""

    id: str
    at: datetime
    said: list[tuple[str, str]]


class Question(NamedTuple):
    """A question, and the sessions with its evidence."""

    text: str
    kind: str
    meant: frozenset[str]


class Conversation(NamedTuple):
    """Sessions of the same people, and what is asked about them."""

    name: str
    sessions: list[Session]
    questions: list[Question]


class Outcome(NamedTuple):
    """At which place evidence stands."""

    kind: str
    asked_of: str
    place: int | None


def read_conversations(place: str) -> Iterator[Conversation]:
    """Those of a directory, whichever it holds."""
    for path in sorted(glob(os.path.join(place, "*.json"))):
        name = os.path.basename(path)
        if name.startswith(("locomo", "longmemeval_s")):
            with open(path, encoding="utf-8") as file:
                entries = json.load(file)
            yield from map(read_locomo if name.startswith("locomo") else read_longmemeval, entries)


def read_locomo(entry: Mapping[str, Any]) -> Conversation:
    """Two people, of whom the first one takes the part of the user; a picture is what its caption says."""
    name, talk = str(entry["sample_id"]), entry["conversation"]
    parts = {talk["speaker_a"]: "user", talk["speaker_b"]: "assistant"}
    sessions = []
    for number in sorted(int(key[8:]) for key in talk if key.startswith("session_") and key[8:].isdigit()):
        at = datetime.strptime(talk[f"session_{number}_date_time"], LOCOMO_TIME).replace(tzinfo=UTC)
        said = [
            (
                parts[turn["speaker"]],
                f"{turn['speaker']}: {' '.join(filter(None, (turn.get('text'), turn.get('blip_caption'))))}",
            )
            for turn in talk[f"session_{number}"]
        ]
        sessions.append(Session(f"{name}-{number}", at, said))
    known = {session.id for session in sessions}
    questions = []
    for asked in entry["qa"]:
        evidence = " ".join(asked["evidence"]).replace(";", " ").split()
        meant = known.intersection(f"{name}-{one.removeprefix('D').partition(':')[0]}" for one in evidence)
        if meant:
            questions.append(Question(asked["question"], LOCOMO_KINDS[asked["category"]], frozenset(meant)))
    return Conversation(name, sessions, questions)


def read_longmemeval(entry: Mapping[str, Any]) -> Conversation:
    """A question with the sessions among which its evidence lies."""
    name = str(entry["question_id"])
    rows = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    sessions = [
        Session(
            f"{name}-{identity}",
            datetime.strptime(at, LONGMEMEVAL_TIME).replace(tzinfo=UTC),
            [(turn["role"], turn["content"]) for turn in turns],
        )
        for identity, at, turns in rows
    ]
    meant = frozenset(f"{name}-{identity}" for identity in entry["answer_session_ids"])
    asked = [Question(entry["question"], entry["question_type"], meant)] if not name.endswith(NO_ANSWER) else []
    return Conversation(name, sessions, asked)


def write_sessions(place: str, conversations: Iterable[Conversation]) -> None:
    """As pi would have written them."""
    for conversation in conversations:
        directory = os.path.join(place, conversation.name)
        os.makedirs(directory, exist_ok=True)
        for session in conversation.sessions:
            with open(os.path.join(directory, f"{session.id}.jsonl"), "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in _lines(session, _cwd(conversation)))


def _cwd(conversation: Conversation) -> str:
    return f"/outside/{conversation.name}"


def _lines(session: Session, cwd: str) -> Iterator[dict[str, Any]]:
    at = session.at.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    yield {"type": "session", "version": 3, "id": session.id, "timestamp": at, "cwd": cwd}
    for number, (role, text) in enumerate(session.said):
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        parent = str(number - 1) if number else None
        yield {"type": "message", "id": str(number), "parentId": parent, "timestamp": at, "message": message}


def ask_all(conversations: Sequence[Conversation]) -> Iterator[Outcome]:
    """Each question of its own conversation; of all, where these are not made for it alone."""
    with scratch() as place:
        corpus = os.path.join(place, "corpus")
        write_sessions(corpus, conversations)
        with Instance(place, corpus) as daemon:
            daemon.until_settled()
            for conversation in conversations:
                for question in conversation.questions:
                    yield ask(daemon, question, "its conversation", cwd=_cwd(conversation))
                    if len(conversation.questions) > 1:
                        yield ask(daemon, question, "all")


def ask(daemon: Instance, question: Question, asked_of: str, **filters: str) -> Outcome:
    """One question."""
    answer = daemon.call("search", query=question.text, limit=max(PLACES), **filters)
    hits = enumerate(answer["results"], 1)
    return Outcome(question.kind, asked_of, next((at for at, hit in hits if hit["sessionId"] in question.meant), None))


def tabulate(outcomes: Sequence[Outcome], sessions: int, title: str = TITLE) -> Table:
    """By kind, and all together."""
    rows = []
    for asked_of in dict.fromkeys(one.asked_of for one in outcomes):
        of_these = [one for one in outcomes if one.asked_of == asked_of]
        for kind in (*sorted({one.kind for one in of_these}), None):
            places = [one.place for one in of_these if kind in (one.kind, None)]
            shares = [100 * sum(at is not None and at <= most for at in places) / len(places) for most in PLACES]
            mrr = sum(1 / at for at in places if at) / len(places)
            name = kind or "**all kinds**"
            rows.append((name, str(len(places)), asked_of, *(f"{share:.1f}" for share in shares), f"{mrr:.3f}"))
    return Table(title, HEADER, rows, f"{sessions:,} sessions.")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("place", metavar="DIR")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", action="store_true", help="keep the figures, and write them into the documents")
    flags = parser.parse_args()
    conversations = list(read_conversations(flags.place))
    outcomes = list(ask_all(conversations))
    tables = [tabulate(outcomes, sum(len(one.sessions) for one in conversations))]
    if flags.store:
        figures.store({"outside": figures.Measured(f"{datetime.now(UTC):%Y-%m-%d}", tables)})
        figures.write()
    show(tables, as_json=flags.json)


if __name__ == "__main__":
    main()

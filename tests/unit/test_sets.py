"""What bench.memory asks and stores: questions of both kinds, and metadata that `sesamectl remember` would take."""

import json
from collections import Counter

from bench import memory
from sesamectl.memory.answer import parse_answer

SETS = memory.read_sets(memory.SETS)


def test_metadata_is_what_remember_would_store() -> None:
    """Each entry passes as an answer of a model, and each session has one."""
    for entry in SETS.entries:
        parse_answer(json.dumps(entry))
    assert len({entry["session"] for entry in SETS.entries}) == len(SETS.entries) >= 120


def test_questions_are_enough_of_each_kind() -> None:
    """Each is asked once, is short if it is a hard one, and means a session."""
    assert len({question.text for question in SETS.questions}) == len(SETS.questions)
    kinds = Counter(question.kind for question in SETS.questions)
    assert kinds.keys() == {"hard", "easy"}
    assert kinds["hard"] >= 60
    assert all(len(question.text.split()) <= 7 for question in SETS.questions if question.kind == "hard")
    remembered = {entry["session"] for entry in SETS.entries}
    assert all(question.meant & remembered for question in SETS.questions)

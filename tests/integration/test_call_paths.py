"""How many rooms an appended line and a question pass: more than so many, and nobody follows them any more."""

import pytest

from bench.call_paths import TO_ANSWER, TO_COMMIT, trace_rounds
from bench.instance import PROJECT

MOST = {
    TO_COMMIT: 22,  # 20, where a session was (what leaves for a hub goes by it), and what changes (what is kept in memory goes by it)
    # 18, three that a hub's answers are made by, too (scores, what is shown as one, hits), whose sessions are meant, and what is kept in
    # memory: stems, headings and posting arrays
    TO_ANSWER: 25,
}  # switches between them, which `bench.house` counts as well, differ from time to time


@pytest.mark.timeout(120)
def test_what_a_line_and_a_question_pass() -> None:
    """In every round: what the daemon does from time to time is in some of them, the more the slower the machine is."""
    rounds = trace_rounds(PROJECT)
    passed = {name: set.intersection(*(set(path.modules) for path in rounds[name])) for name in MOST}
    assert {name: sorted(passed[name]) for name, most in MOST.items() if len(passed[name]) > most} == {}
    assert min(map(len, passed.values())) > 10

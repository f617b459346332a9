"""What is asked of many sessions is scored of few, and the answer is the one of statements."""

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest

from sesamed.methods.hits import Page
from sesamed.store.search import large, postings, shown, weighing
from sesamed.store.search.ceilings import WEIGHTS, Rows, damp, describe, measure_slack
from sesamed.store.search.postings import Postings
from sesamed.store.search.scoring import DAMPED, measure_norm, saturate_in_chunk
from tests.support.sessions import PiSession
from tests.support.tiny import Tiny, session, tiny
from tests.support.ways import by_arrays, by_statements

WORDS = ("alpha", "beta", "gamma", "delta", "retry-logic", "build.py", "makeThing", "sum")
QUESTIONS = (
    "alpha", "sum", "alpha beta", "gamma delta alpha sum", "retry-logic", "logic", "build.py", '"alpha beta" sum',
    "makeThing gamma", "alp* sum", "gama beta", "sum -delta",
)  # fmt: skip
WHERES: tuple[dict[str, Any], ...] = (
    {}, {"cwd": "/w/1"}, {"role": ("user",)}, {"cwd": "/w/2", "tools": True}, {"exclude": ("s3", "s9")},
)  # fmt: skip
SESSIONS = 60


def write_session(number: int, random: Random) -> PiSession:
    """Some of the words, in messages of all lengths, and in calls."""
    made = session(number, cwd=f"/w/{number % 4}")
    for _ in range(random.randint(1, 5)):
        text = " ".join(random.choices(WORDS, random.choices((1, 5), k=len(WORDS)), k=random.choice((1, 2, 4, 30))))
        made = made.user(f"{number} {text}") if random.random() < 0.5 else made.assistant(text)
        if random.random() < 0.4:
            made = made.tool("bash", {"command": random.choice(WORDS)}, text)
    return made


@pytest.fixture(scope="module")
def many() -> Iterator[Tiny]:
    """Sixty sessions."""
    random = Random(18)
    with tiny(*(write_session(number, random) for number in range(SESSIONS))) as made:
        yield made


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few are asked for, no more are looked at first; and a part has some files."""
    monkeypatch.setattr(shown, "LOOKED_AT", 1)
    monkeypatch.setattr(shown, "ALL_OF", 1)
    monkeypatch.setattr(large, "FEW", 1)
    monkeypatch.setattr(weighing, "AT_ONCE", 64)


def ask(index: Tiny, question: str, limit: int, **where: Any) -> tuple[Any, ...]:
    """The hits of a page, with their scores and what is shown as one with them."""
    page: Page = index.ask(question, limit=limit, **where)
    hits = [(hit.session_id, round(hit.score, 9), hit.match, hit.similar, hit.subagents) for hit in page.hits]
    return hits, page.total, page.weak


def compare(index: Tiny, kept: Postings, **how: Any) -> None:
    """Both ways, for all questions."""
    for question in QUESTIONS:
        for where in WHERES:
            for limit in (1, 3):
                with by_statements():
                    expected = ask(index, question, limit, **where)
                with by_arrays(kept, **how):
                    assert ask(index, question, limit, **where) == expected, (question, where, limit)


@pytest.mark.parametrize(("scores_all", "all_of"), [(False, 1), (True, 1), (False, 30)])
def test_the_first_are_the_same(many: Tiny, monkeypatch: pytest.MonkeyPatch, scores_all: bool, all_of: int) -> None:
    """As many as are asked for, or all where they are few: what is scored beside these is not among them."""
    monkeypatch.setattr(shown, "ALL_OF", all_of)
    compare(many, Postings(many.history.ingest.writer.changes), scores_all=scores_all)


def test_the_first_are_the_same_where_many_may_be_among_them(many: Tiny) -> None:
    """Then all are scored after some were."""
    looking = mock.patch.object(large.Bounded, "look_at_all", autospec=True, side_effect=large.Bounded.look_at_all)
    with by_arrays(kept := Postings(many.history.ingest.writer.changes), sparse=12), looking as looked:
        for question in QUESTIONS:
            for where in WHERES:
                found = ask(many, question, 1, **where)
                with by_arrays(kept, scores_all=True):
                    assert ask(many, question, 1, **where) == found, (question, where)
    assert looked.called


def test_the_first_are_the_same_while_sessions_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """What went does not count any more, and what came late does; a session may come to have a word, or lose its last one."""
    monkeypatch.setattr(postings, "READING_SHARE", 1e9)
    random = Random(81)
    with tiny(*(write_session(number, random) for number in range(SESSIONS))) as index:
        kept = Postings(index.history.ingest.writer.changes)
        with by_arrays(kept):
            ask(index, "alpha beta", 1)
        for _ in range(2):
            for number in random.sample(range(SESSIONS + 5), 9):
                changed = write_session(number, random)
                index.history.write(index.history.roots[0] / changed.file_name, changed.bytes())
            index.history.look_at_everything()
            with mock.patch.object(Postings, "_read", side_effect=AssertionError("read again")):
                for how in ({"scores_all": True}, {"sparse": 1}, {"sparse": 12}):
                    compare(index, kept, **how)


@pytest.mark.parametrize(
    "question", ["foo・bar", "alpha なるほど・・・", "alpha -foo・bar", "x゛*", "日本・・語", "・alpha*"]
)
def test_what_is_no_letter_to_the_index_is_nowhere(question: str) -> None:
    """A Japanese middle dot stands among letters, and FTS5 takes it for none; both ways."""
    said = "alpha なるほど・・・ foo・bar 日本・・語 beta"
    with tiny(*(session(number).user(f"{number} {said}").assistant("alpha") for number in range(3))) as index:
        with by_statements():
            expected = ask(index, question, 3)
        with by_arrays(Postings(index.history.ingest.writer.changes)):
            ask(index, "alpha", 3)
            assert ask(index, question, 3) == expected


def test_few_are_scored(many: Tiny) -> None:
    """Of one word those that are wanted and as many again; of several not many more."""
    kept = Postings(many.history.ingest.writer.changes)
    for question, most in (("alpha", 17), ("sum", 17), ("alpha beta", 40)):
        scoring = mock.patch.object(large, "score_files", side_effect=weighing.score_files)
        with by_arrays(kept), scoring as score_files:
            assert ask(many, question, 1)[0]
        assert 0 < sum(len(call.args[2]) for call in score_files.call_args_list) <= most


def test_ceilings_are_never_below_what_counts() -> None:
    """By the mean length of then, and by any other; also of patterns together."""
    random = np.random.default_rng(5)
    for _ in range(200):
        count = int(random.integers(1, 60))
        numbers = np.sort(random.choice(1 << 10, count, replace=False)) << 22 | random.integers(0, 6, count)
        rows = [
            Rows(np.sort(numbers), random.integers(1, 4000, count), random.integers(1, 300, count).astype(np.uint16))
            for _ in range(2)
        ]
        average, other = (float(value) for value in random.uniform(5, 500, 2))
        made = [describe(np.arange(count), one, average) for one in rows]
        slack = measure_slack(other, average)
        for which in ("most", "most_said"):
            bound = sum(getattr(one, which).astype(float) for one in made) * slack
            scores = sum(score(one, other, only_said=which == "most_said") for one in rows)
            assert np.all(damp(scores, made[0].begins).values <= bound + 1e-12)


def score(rows: Rows, average: float, *, only_said: bool) -> Any:
    """What each chunk counts."""
    kinds = rows.numbers & 7
    norm = measure_norm(rows.lengths, average)
    return WEIGHTS[kinds] * saturate_in_chunk(rows.times, norm) * ((kinds < 4) | (not only_said))


def test_the_best_three() -> None:
    """Of equal ones the first; of fewer those that count."""
    scores, begins = np.array([1.0, 3.0, 3.0, 2.0, 0.0, 5.0, 0.0]), np.array([0, 4, 5])
    values, rows = damp(scores, begins)
    assert rows.tolist() == [[1, 2, 3], [-1, -1, -1], [5, -1, -1]]
    assert values.tolist() == [DAMPED[0] * 3 + DAMPED[1] * 3 + DAMPED[2] * 2, 0.0, 5.0]


@pytest.mark.parametrize("way", [by_statements, by_arrays])
def test_so_few_are_all_counted(many: Tiny, monkeypatch: pytest.MonkeyPatch, way: Any) -> None:
    """Though no more are needed for the page than were looked at."""
    monkeypatch.setattr(shown, "ALL_OF", SESSIONS)
    with way(*([Postings(many.history.ingest.writer.changes)] if way is by_arrays else [])):
        page = many.ask("alpha beta gamma delta sum", limit=1)
        assert (page.total, page.total_exact) == (len(many.found("alpha beta gamma delta sum", limit=100)), True)
        monkeypatch.setattr(shown, "ALL_OF", page.total - 1)
        assert not many.ask("alpha beta gamma delta sum", limit=1).total_exact

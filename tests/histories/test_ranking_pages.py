"""Pages of an answer: all of them together, with what is folded into their hits, are exactly the sessions that match."""

import re
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sesamed.methods.hits import Hit, Page
from sesamed.store import sqlite
from sesamed.store.reading import session as read
from sesamed.store.search import scoring, shown
from sesamed.store.search.postings import Postings
from tests.support.history import History
from tests.support.sessions import PiSession
from tests.support.tiny import Tiny, session, tiny
from tests.support.ways import by_arrays

SAID = ("alpha", "beta", "gamma delta", "alpha gamma", "beta-gamma", "nothing of it")
OPENINGS = ("go on patrol in the garden, please", "hello", "alpha is what this is about, is it not")
QUESTIONS = (
    "alpha",
    "beta",
    "gamma alpha",
    "beta-gamma",
    "beta.gamma alpha",
    "gamma -delta",
    "alpha -beta",
    "delta zeta",
)
WORD = re.compile(r"[a-z]+")


class Made(NamedTuple):
    """A session: what it is a copy of, if anything, whose subagent it is, and what is said in it."""

    fork_of: int | None
    copied: int | None
    agent_of: int | str | None  # of a session, or of one that is not there
    cwd: int
    opening: int
    said: list[int]
    called: list[int]
    name: int | None


NUMBERS = st.integers(0, 5)
MADE = st.lists(
    st.builds(
        Made,
        fork_of=st.none() | st.none() | NUMBERS,
        copied=st.none() | NUMBERS,
        agent_of=st.none() | NUMBERS | st.sampled_from(["lost", "gone"]),
        cwd=st.integers(0, 1),
        opening=st.integers(0, 2),
        said=st.lists(NUMBERS, max_size=3),
        called=st.lists(NUMBERS, max_size=1),
        name=st.none() | st.none() | NUMBERS,
    ),
    min_size=1,
    max_size=7,
)
WHERES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {}, {"subagents": "exclude"}, {"subagents": "only"}, {"exclude": ("s0",)}, {"cwd": "/w/0"}, {"role": ("user",)}, {"tools": True}]
)  # fmt: skip


def write(history: History, made: list[Made], seed: int) -> None:
    """The files of all of them, which are read in any order."""
    root = history.roots[0]
    sessions, directories, paths = list[PiSession](), list[str](), []
    for number, one in enumerate(made):
        start = f"2026-03-01T09:{number:02}:00.000Z"
        if one.fork_of is not None and one.fork_of < number:
            within = sessions[one.fork_of].fork(id=f"s{number}", at=one.copied).moved(f"/w/{one.cwd}")
        else:
            within = session(number, cwd=f"/w/{one.cwd}", start=start).user(OPENINGS[one.opening])
        for what in one.said:
            within.user(SAID[what]) if what % 2 else within.assistant(SAID[what])
        for what in one.called:
            within.tool("bash", {"command": SAID[what], "number": number}, SAID[(what + 1) % len(SAID)])
        if one.name is not None:
            within.name(SAID[one.name])
        above = root
        if isinstance(one.agent_of, str):
            above = root / f"2026-03-01T09-00-00-000Z_{one.agent_of}"
        elif one.agent_of is not None and one.agent_of < number:
            above = root / directories[one.agent_of]
        sessions.append(within)
        directories.append(str((above / within.file_name).relative_to(root)).removesuffix(".jsonl"))
        paths.append(history.write(above / within.file_name, within.bytes()))
    Random(seed).shuffle(paths)
    for path in paths:
        history.look([path])


def matching_sessions(index: Tiny, question: str, where: dict[str, Any]) -> set[str]:
    """Those that hold what matches or are called so, found by reading all of them."""
    wanted = {word for one in question.split() if one[0] != "-" for word in WORD.findall(one)}
    unwanted = {one[1:] for one in question.split() if one[0] == "-"}
    found = set()
    rows = list(sqlite.rows(index.connection, "SELECT id, public_id, subagent, parent_id, cwd, title FROM sessions"))
    held = {row[0]: read.read_items(index.connection, row[0], 0, 1000) for row in rows}
    employers = {parent for number, _, subagent, parent, *_ in rows if subagent and held[number]}
    for number, name, subagent, parent, cwd, title in rows:
        heading = set(WORD.findall(f"{cwd} {title}"))
        items = held[number]
        texts = [
            (item.role, kind, set(WORD.findall(text)))
            for item in items
            for kind, text in read.read_texts(index.connection, item.record).items()
        ]
        said = set[str]().union(heading, *(words for _, kind, words in texts if kind < 4))
        if said & unwanted or (
            where.get("subagents", "include") != "include" and (where["subagents"] == "only") != subagent
        ):
            continue
        if {name, parent if subagent else ""} & set(where.get("exclude", ())) or cwd != where.get("cwd", cwd):
            continue
        role, tools = where.get("role"), where.get("tools")
        texts = [one for one in texts if (not tools or one[1] >= 4) and (not role or (one[1] < 4 and one[0] in role))]
        called = bool(wanted & heading) and bool(items or name in employers) and not (role or tools)
        if called or any(wanted & words and not unwanted & words for _, _, words in texts):
            found.add(name)
    return found


def turn_pages(index: Tiny, question: str, limit: int, **params: Any) -> tuple[list[Hit], list[Page]]:
    """All hits, page by page."""
    hits, pages = list[Hit](), list[Page]()
    while not pages or pages[-1].hits:
        pages.append(index.ask(question, limit=limit, offset=len(hits), **params))
        hits += pages[-1].hits
    return hits, pages


class Asked(NamedTuple):
    """A question, the filters, and how its answer is paged."""

    question: str
    where: dict[str, Any]
    limit: int
    recent: bool
    arrays: bool


ASKED = st.builds(Asked, st.sampled_from(QUESTIONS), WHERES, st.integers(1, 3), st.booleans(), st.booleans())


PLAIN = Made(None, None, None, cwd=0, opening=0, said=[], called=[], name=None)
NAMED = PLAIN._replace(name=0)  # two of them are too many, and they are shown as one


@settings(suppress_health_check=list(HealthCheck))
@given(MADE, st.integers(0, 99), ASKED)
@example(
    [PLAIN, PLAIN, PLAIN, NAMED, NAMED, PLAIN._replace(said=[1])], 0, Asked("beta.gamma alpha", {}, 1, False, False)
)
def test_nothing_that_matches_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, made: list[Made], seed: int, asked: Asked
) -> None:
    """All pages, and all that their hits say is folded into them, are what matches; nothing comes twice. With bounds that a small index
    reaches."""
    for module, name in ((shown, "LOOKED_AT"), (shown, "ALL_OF"), (scoring, "MANY_NAMED")):
        monkeypatch.setattr(module, name, 1)
    params: dict[str, Any] = {"recent": asked.recent, **asked.where}
    with tiny() as index, ExitStack() as way:
        write(index.history, made, seed)
        whole = index.ask(asked.question, limit=100, **params)
        if asked.arrays:
            way.enter_context(by_arrays(Postings(index.history.ingest.writer.changes)))
            assert index.ask(asked.question, limit=100, **params) == whole
        hits, pages = turn_pages(index, asked.question, asked.limit, **params)
        listed = [hit.session_id for hit in hits]
        assert len(listed) == len(set(listed))
        assert pages[-1].total_exact
        assert all(page.total == len(hits) if page.total_exact else page.total <= len(hits) for page in pages)
        assert listed == [hit.session_id for hit in whole.hits]
        assert [(one.similar, one.subagents) for one in hits] == [(one.similar, one.subagents) for one in whole.hits]
        reached = set[str]()
        for hit in whole.hits:
            assert hit.match is not None
            reached.add(hit.match.session_id)
            if hit.similar or hit.subagents:
                opened, (first, *_) = turn_pages(
                    index, asked.question, asked.limit, similar_to=hit.session_id, **params
                )
                names = [one.session_id for one in opened]
                assert hit.session_id not in names
                assert len(names) == len(set(names)) == first.total >= hit.similar + hit.subagents
                assert not any(one.similar or one.subagents for one in opened)
                reached.update(names)
        expected = matching_sessions(index, asked.question, asked.where)
        assert reached <= expected <= reached | set(listed)

"""Pages of sessions fit into an answer, wherever the sessions are from."""

import pytest
from msgspec.structs import replace

from sesamed.methods.lists import _make_list, _shorten
from sesamed.model import Session
from sesamed.server.dispatch import MAX_ANSWER_BYTES, encode_answer

SESSION = Session(
    session_id="a",
    short_id="a",
    key="k",
    workstation="w",
    person=None,
    source="pi",
    path="/a",
    cwd=None,
    project_path=None,
    git_branch=None,
    name=None,
    summary=None,
    description=None,
    tags=[],
    created="2026-01-01T00:00:00.000Z",
    modified="2026-01-01T00:00:00.000Z",
    message_count=1,
    parent_session_id=None,
    subagent=False,
    orphan=False,
    gone=False,
    revision=1,
)


@pytest.mark.parametrize("letter", ["a", "ж", "鉄", "😀", '"', "\\"])
@pytest.mark.parametrize(("length", "whole"), [(20, True), (9_000, False)])
def test_a_page_is_as_long_as_fits(letter: str, length: int, whole: bool) -> None:
    """In whatever script; the next one goes on behind it."""
    page = _shorten(_make_list(700, [replace(SESSION, summary=letter * length)] * 500, 100, []), 100)
    shown = len(page.sessions)
    assert (shown == 500) == whole
    assert page.more
    assert page.next_offset == 100 + shown
    assert (len(encode_answer(1, page)) > MAX_ANSWER_BYTES / 4) != whole


def test_one_session_is_always_shown() -> None:
    """Else nobody would get past it."""
    page = _shorten(_make_list(2, [replace(SESSION, summary="ж" * 600_000), SESSION], 0, []), 0)
    assert (len(page.sessions), page.next_offset) == (1, 1)

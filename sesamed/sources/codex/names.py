"""What files and sessions are called: ids in the names of files, what keys begin with, the index of names."""

import re
from typing import Final

from sesamed.model import Fact, NameRank, Unknown
from sesamed.sources.codex.lines import Line
from sesamed.sources.codex.state import CodexState, Step
from sesamed.sources.times import Time

INDEX: Final = "session_index.jsonl"
UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# A thread that was reverted has files of its own: `…-<thread>_<rollout>`.
NAME: Final = re.compile(rf"rollout-.*?({UUID})(?:_({UUID}))?", re.DOTALL)
IS_UUID: Final = re.compile(UUID)


def file_ids(name: str) -> tuple[str, str | None]:
    """The session's id from its file's name, or all of the name; and the file's own, if it has one."""
    stem = name.removesuffix(".zst").removesuffix(".jsonl").removesuffix(".json")
    match = NAME.fullmatch(stem)
    return (match[1], match[2]) if match else (stem, None)


def origin_of(session: str, stamp: Time) -> str:
    """What tells sessions with one id apart: nothing, if the id is a UUID, else when they began."""
    return "" if IS_UUID.fullmatch(session) else f"{session} {'' if stamp is None else stamp}"


def root_of(session: str, stamp: Time) -> str:
    """What the keys of a session begin with."""
    return origin_of(session, stamp) or session


def index_entry(state: CodexState, line: Line) -> Step:
    """A line of the index: the name that a person gave a session; an empty one takes it back."""
    if not line.id:
        return state, [Unknown(type="session_index")]
    value = (line.thread_name or "").strip()
    return state, [Fact(field="name", value=value, rank=NameRank.LISTED, keep="last", native_id=line.id)]

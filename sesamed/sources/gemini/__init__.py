"""Gemini CLI's sessions: a log of messages by their ids (`.jsonl`), or the whole session in one object (`.json`, older versions).

How a file begins, and what a whole one says: `history` puts its messages together, `records` has what each of them becomes. Both kinds
are documents. The log is appended to, but not a log of what was said: a message is written again when its calls have ended, all of
them are written again when a session is resumed.
"""

from hashlib import sha256
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Identity, NameRank, Operation
from sesamed.source import BadLineError, Document, ForeignFileError, Location, ResumeCommand, Variable
from sesamed.sources.gemini.history import History, read_history
from sesamed.sources.gemini.records import make_records
from sesamed.sources.gemini.text import UUID, directories_of
from sesamed.sources.lines import JsonState
from sesamed.sources.names import clean_name
from sesamed.sources.times import millis

MAX_BYTES: Final = 32 << 20


class GeminiState(msgspec.Struct, frozen=True):
    """What the file's place says."""

    is_log: bool
    parent: str = ""


Step = tuple[GeminiState, list[Operation]]


class Gemini(JsonState[GeminiState]):
    """The source of Gemini CLI's sessions."""

    name = "gemini"
    label = "Gemini CLI"
    version = 1
    locations = (Location(home="~/.gemini", moved_by=(Variable("GEMINI_CLI_HOME", ".gemini"),), directories=("tmp",)),)
    shapes = (Document(files=("*/chats/*.json", "*/chats/*.jsonl", "*/chats/*/*.jsonl"), max_bytes=MAX_BYTES),)
    resume = ResumeCommand(words=("gemini", "--resume", "{id}"))

    def __init__(self) -> None:
        super().__init__(GeminiState)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """A subagent's file is in a directory that has its parent's id."""
        parent = "" if path.parent.name in ("", "chats") else clean_name(path.parent.name)
        return GeminiState(is_log=path.suffix == ".jsonl", parent=parent), []

    def step(self, state: GeminiState, item: bytes) -> Step:
        """All that the file says."""
        if not item.strip():
            raise BadLineError("nothing is in it yet")
        history = read_history(item, is_log=state.is_log)
        if not history.session:
            raise ForeignFileError("it does not say which session it is")
        cwd = _find_directory(history)
        return state, [*_describe(state, history, cwd), *history.bad, *make_records(history, cwd)]


def _describe(state: GeminiState, history: History, cwd: str) -> list[Operation]:
    """Who the session is. Two files may be one: of a session that is resumed in a later minute. Some ids are none (`a2a-server`)."""
    origin = "" if UUID.fullmatch(history.session) else f"{history.session} {history.started}"
    began_ms = millis(history.started)
    subagent = history.kind == "subagent"
    title = "" if subagent else " ".join(history.summary.split())  # a subagent's is its result
    facts = (
        Fact(field="cwd", value=cwd),
        Fact(field="began", value="" if began_ms is None else str(began_ms)),
        Fact(field="subagent", value="1" if subagent else ""),
        Fact(field="parent_id", value=state.parent if subagent else ""),
        Fact(field="name", value=title, rank=NameRank.TITLED, keep="last"),
    )
    return [Identity(native_id=history.session, origin=origin), *(fact for fact in facts if fact.value)]


def _find_directory(history: History) -> str:
    """Where it ran: of the directories that it names the one whose hash it gives, else the first."""
    named = [*history.directories, *directories_of(history.context)]
    hashed = [
        path for path in named if sha256(path.encode("utf-8", "surrogatepass")).hexdigest() == history.project_hash
    ]
    return next(iter((*hashed, *named)), "")

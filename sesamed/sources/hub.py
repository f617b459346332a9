"""Sessions of other machines that are followed: each is a file, written as it comes from a hub. JSONL: a header, what was said, and what is
known of the session.

Owns the lines, read and written: nobody else knows their fields. What is said of a session stands behind what was said in it, and again
behind what comes later: the last one counts. The texts are as they left their machine, masked and cut there.
"""

import re
from pathlib import PurePath
from typing import Final, get_args

import msgspec
from msgspec.structs import replace

from sesamed.calls import mend_call_text
from sesamed.model import ACTIVE, Fact, Field, Identity, NameRank, Operation, Role, Undone, Unknown
from sesamed.sanitize import clean_line
from sesamed.source import BadLineError, ForeignFileError, Lines, Location, ToolFamilies
from sesamed.sources.annotations import encode_words
from sesamed.sources.lines import JsonState, repair
from sesamed.sources.names import prompt_fact, title_fact
from sesamed.sources.records import Place, Short

HEADER, SAID, CALLED, ABOUT = "hub.session", "said", "called", "about"
ROLES: Final = frozenset(get_args(Role))
WORKSTATION: Final = re.compile(r"[0-9a-f]{8}")
SOURCE: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
FOLLOWED_RANK = 1  # of what is known at home: above what the directory's name would say here


class Line(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """Any line."""

    type: str
    workstation: str = ""  # header, and so are the next six; `cwd`, too
    owner: Short = ""
    person: Short = ""
    source: str = ""
    session: Short = ""
    key: Short = ""
    serial: int = 0  # another file has another one; of `about`, which of the hub's changes the lines before it have
    digest: int = 0  # about, and so are the next ones: of what the hub says of the session
    count: int = 0  # of records before it
    last: int = -1  # the number of the last one there
    stale: int = 0  # bytes of such lines before it: what they say counts no more
    title: str = ""  # the name, where it is more than the beginning of the first prompt
    summary: str = ""
    description: str = ""
    tags: list[str] = []
    recall_words: list[str] = []
    cwd: Short = ""
    project_path: Short = ""
    git_branch: Short = ""
    parent: Short = ""
    subagent: bool = False
    created_ms: int | None = None
    modified_ms: int | None = None
    record: int = 0  # said and called, and so are the others: the key that it has at home, and so everywhere
    role: str = ""
    text: str = ""
    prompt: bool = False
    tool: str = ""
    is_error: bool | None = None
    hidden: bool = False  # a search of ours
    entry: Short = ""
    time_ms: int | None = None
    undone: bool = False


class State(msgspec.Struct, frozen=True):
    """What earlier lines mean for the next one. Never changed in place."""

    session: str = ""
    cwd: str | None = None
    is_named: bool = False  # by a prompt that says something


Step = tuple[State, list[Operation]]
DECODE: Final = msgspec.json.Decoder(Line).decode


class Hub(JsonState[State]):
    """The source of what comes from a hub. A session is of the agent that wrote it."""

    name = "hub"
    label = "another machine"
    version = 1
    locations: tuple[Location, ...] = ()  # in the data directory, wherever that is
    shapes = (Lines(files=("*/*.jsonl",), is_followed=True),)
    asks = ()
    resume = None
    tool_families = ToolFamilies()  # its calls are those of other agents

    def __init__(self) -> None:
        super().__init__(State)

    def begin(self, path: PurePath, _: str = "") -> Step:
        """The file's place says nothing."""
        return State(), []

    def step(self, state: State, item: bytes) -> Step:
        """The state after a line, and its operations."""
        try:
            line = DECODE(repair(item))
        except (ValueError, RecursionError) as error:
            raise BadLineError("not a line of a session from a hub") from error
        if not state.session:
            return _read_header(line)
        if line.type == ABOUT:
            return state, _state_all(line)
        if line.type in (SAID, CALLED) and line.role in ROLES:
            return _read_record(state, line)
        return state, [Unknown(type=line.type)]


def encode_line(line: Line) -> bytes:
    """A line with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode_header(line: bytes) -> Line | None:
    """The header of a file; None if it has none."""
    try:
        header = DECODE(line)
    except (ValueError, RecursionError):
        return None
    return header if header.type == HEADER and header.session else None


def decode_about(line: bytes) -> Line | None:
    """What a line says of a session; None if it is another one."""
    try:
        about = DECODE(line)
    except (ValueError, RecursionError):
        return None
    return about if about.type == ABOUT else None


def identify(header: Line) -> Identity:
    """Which session a header names."""
    origin = f"hub {header.workstation} {header.owner} {header.key}"
    return Identity(native_id=header.session, origin=origin, source=header.source)


def _read_header(line: Line) -> Step:
    is_whole = WORKSTATION.fullmatch(line.workstation) and SOURCE.fullmatch(line.source) and line.session
    if line.type != HEADER or not is_whole:
        raise ForeignFileError("the first line is not the header of a session from a hub")
    person = clean_line(line.person) or clean_line(line.owner) or "?"  # never nobody: that is oneself
    facts = [Fact(field="workstation", value=line.workstation), Fact(field="person", value=person)]
    return State(session=line.session, cwd=line.cwd or None), [identify(line), *facts]


def _read_record(state: State, line: Line) -> Step:
    role: Role = line.role  # type: ignore[assignment]  # one of ROLES
    place = Place(entry=line.entry or None, time_ms=line.time_ms, cwd=state.cwd)
    found: list[Operation] = []
    if line.type == CALLED:
        arguments = msgspec.json.encode(mend_call_text(line.text)[1])
        call = place.call(line.record, line.tool or "tool", arguments, is_error=line.is_error)
        found.append(replace(call, role=role, written=line.text))
    else:
        found.append(place.message(line.record, role, line.text, prompt=line.prompt, hidden=line.hidden))
        if line.prompt and not state.is_named and (name := prompt_fact(line.text)) is not None:
            state = replace(state, is_named=name.rank == NameRank.PROMPT)
            found.append(name)
    if line.undone:
        found.append(Undone(key=line.record, alone=True))
    return state, found


def _state_all(line: Line) -> list[Operation]:
    """What is known of the session by now; what is empty takes back what was said before."""
    words: dict[Field, str] = {
        "summary": line.summary,
        "description": line.description,
        "tags": encode_words(line.tags),
        "recall_words": encode_words(line.recall_words),
        "cwd": line.cwd,
        "git_branch": line.git_branch,
        "parent_id": line.parent,
        "subagent": "1" if line.subagent else "",
        "began": "" if line.created_ms is None else str(line.created_ms),
    }
    facts = [Fact(field=field, value=value, keep="last") for field, value in words.items()]
    facts.append(
        Fact(field="project_path", value=line.project_path or line.cwd, rank=FOLLOWED_RANK, keep="last")
    )  # what lies at this path here is another one
    facts.append(title_fact(line.title, NameRank.GIVEN))
    if line.modified_ms is not None:
        facts.append(Fact(field=ACTIVE, value=str(line.modified_ms)))
    return [*facts]  # as operations

"""Files beside sessions, and lists of them: where a session ran, on which branch, what it is called, from which one it comes."""

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from sesamed.model import Fact, Field, NameRank
from sesamed.source import BadLineError
from sesamed.sources.cline.transcript import prompt_of
from sesamed.sources.lines import FAILURES, LenientDecoder, repair
from sesamed.sources.names import title_fact
from sesamed.sources.records import Time, millis

T = TypeVar("T", bound=msgspec.Struct)

ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
BESIDE: Final = 1  # ranks above what a transcript says


class Git(msgspec.Struct, gc=False):
    """Where the repository stood when the session began."""

    branch: str | None = None


class Fork(msgspec.Struct, gc=False, rename="camel"):
    """What a session was copied from."""

    forked_from_session_id: str | None = None


class More(msgspec.Struct, gc=False):
    """What a manifest says besides."""

    title: str | None = None
    git: Git | None = None
    fork: Fork | None = None


class Manifest(msgspec.Struct, gc=False):
    """`<id>.json`."""

    session_id: str | None = None
    started_at: Time = None
    cwd: str | None = None
    prompt: str | None = None
    metadata: More | None = None


class Task(msgspec.Struct, gc=False):
    """A task in the editor's list, or in `history_item.json` beside it."""

    id: str | None = None
    cwd: str | None = msgspec.field(default=None, name="cwdOnTaskInitialization")  # Cline
    workspace: str | None = None  # Roo Code, Kilo Code
    parent: str | None = msgspec.field(default=None, name="parentTaskId")


MANIFEST: Final = LenientDecoder(Manifest)
TASK: Final = LenientDecoder(Task)


def read_manifest(data: bytes) -> Iterator[Fact]:
    """What a manifest says. The title is the beginning of the prompt until somebody gives one."""
    found = _decode(MANIFEST, data)
    if not found.session_id:
        return
    more = found.metadata or More()
    began_ms = millis(found.started_at)
    branch = None if more.git is None else more.git.branch
    parent = None if more.fork is None else more.fork.forked_from_session_id
    given: list[tuple[Field, str | None]] = [
        ("cwd", found.cwd),
        ("git_branch", branch),
        ("began", None if began_ms is None else str(began_ms)),
        ("parent_id", parent),
    ]
    for field, value in given:
        if value:
            yield Fact(field=field, value=value, rank=BESIDE, native_id=found.session_id)
    title = (more.title or "").strip()
    if title and not prompt_of(found.prompt or "").startswith(title):
        yield title_fact(title, NameRank.TITLED, native_id=found.session_id)


def read_tasks(data: bytes) -> Iterator[Fact]:
    """What a list of tasks says, or one of them. A task that another one began works for it."""
    data = repair(data)
    try:
        items = ITEMS.decode(data) if data.lstrip()[:1] == b"[" else [msgspec.Raw(data)]
    except FAILURES:
        raise BadLineError("no list of tasks") from None
    for item in items:
        task = _decode(TASK, bytes(item))
        directory = task.cwd or task.workspace
        if task.id and directory:
            yield Fact(field="cwd", value=directory, rank=BESIDE, native_id=task.id)
        if task.id and task.parent:
            yield Fact(field="parent_id", value=task.parent, native_id=task.id)
            yield Fact(field="subagent", value="1", native_id=task.id)


def _decode(decoder: LenientDecoder[T], data: bytes) -> T:
    try:
        return decoder.decode(repair(data))
    except FAILURES:
        raise BadLineError("not a JSON object") from None

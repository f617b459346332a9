"""Zed's threads: rows of its database, each a whole document, compressed.

Where it is, the statements that read it, and what is said about a session; `thread` has what the document becomes.
"""

from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Fact, Field, Identity, NameRank, Operation
from sesamed.source import BadLineError, Location, Query, Row, Rows, ToolFamilies, Value, Variable
from sesamed.sources.columns import json_column, text_column, unpack_column
from sesamed.sources.lines import JsonState
from sesamed.sources.names import title_fact
from sesamed.sources.records import SHORT_CHARS, millis, note_activity
from sesamed.sources.zed.thread import Snapshot, Thread, decode_thread, read_messages

# A thread's row is written over when a message is complete. The length in bytes is in its head: what is in it need not be read for that.
CHANGED: Final = "updated_at || ' ' || summary || ' ' || octet_length(data)"
# With the directories and the time of the beginning (since 2026-03), and before: then the document tells.
BY_FOLDERS: Final = Query(
    units=f"SELECT id, {CHANGED} || ' ' || coalesce(parent_id, '') || ' ' || coalesce(folder_paths, '') FROM threads",
    rows=(
        """
        SELECT summary, updated_at, data_type, data, parent_id, folder_paths, folder_paths_order, created_at FROM threads WHERE id = :unit
        """,
    ),
)
AT_FIRST: Final = Query(
    units=f"SELECT id, {CHANGED} FROM threads",
    rows=("SELECT summary, updated_at, data_type, data, NULL, NULL, NULL, NULL FROM threads WHERE id = :unit",),
)

DATA_BYTES: Final = 64 << 20  # of a document: pictures are in it
UNTITLED: Final = frozenset({"New Thread", "New Agent Thread"})


class ZedState(msgspec.Struct, frozen=True):
    """A session has one row: nothing of it means something for another one."""

    session: str


Step = tuple[ZedState, list[Operation]]


class Zed(JsonState[ZedState]):
    """The source of Zed's threads."""

    name = "zed"
    label = "Zed"
    version = 2
    locations = (
        Location(
            home="~/.local/share/zed",
            moved_by=(Variable("FLATPAK_XDG_DATA_HOME", "zed"), Variable("XDG_DATA_HOME", "zed")),
            directories=("threads",),
            rare=("threads",),
        ),
        Location(home="~/Library/Application Support/Zed", directories=("threads",), rare=("threads",)),
        Location(home="~/.var/app/dev.zed.Zed/data/zed", directories=("threads",), rare=("threads",)),  # Flatpak's
    )
    shapes = (Rows(files=("threads.db",), queries=(BY_FOLDERS, AT_FIRST)),)
    asks = ()
    resume = None  # threads are opened in the editor
    tool_families = ToolFamilies(
        read=("read_file", "open"),
        write=("write_file", "create_file", "create_directory", "copy_path"),
        edit=("edit_file", "streaming_edit_file", "move_path", "delete_path", "rename_symbol", "apply_code_action"),
        shell=("terminal", "sandboxed_terminal"),
        search=("grep", "find_path", "list_directory", "find_references", "go_to_definition"),
        web=("fetch", "web_search", "search_web"),
        agent=("spawn_agent", "subagent", "create_thread"),
    )

    def __init__(self) -> None:
        super().__init__(ZedState)

    def begin(self, _: PurePath, part: str = "") -> Step:
        """A session is known by its id."""
        return ZedState(session=part), [Identity(native_id=part, origin="")]

    def step(self, state: ZedState, row: Row) -> Step:
        """All of a thread."""
        title, updated, kind, data, *beside = row.values
        thread = decode_thread(_unpack(kind, data))
        parent, folders, order, created = (text_column(value) for value in beside)
        roots = _list_roots(folders or "", order or "") or [tree.worktree_path for tree in thread.trees]
        cwds = [root for root in roots if root]
        facts = list(_read_session(text_column(title) or "", parent, created, cwds, thread))
        return state, [*facts, *note_activity(text_column(updated)), *read_messages(thread, state.session, cwds)]


def _unpack(kind: Value, data: Value) -> bytes:
    """The document of a row."""
    if kind == "json":
        return json_column(data)
    if kind == "zstd" and isinstance(data, bytes):
        return unpack_column(data, DATA_BYTES)
    raise BadLineError("kept in a way that is not known")


def _read_session(
    title: str, parent: str | None, created: str | None, cwds: list[str], thread: Thread
) -> Iterator[Operation]:
    """Facts about the session. Threads of before the column have the time of their last change there: the document knows better."""
    snapshot = thread.initial_project_snapshot or Snapshot()
    began = [time for time in (millis(created), millis(snapshot.timestamp)) if time is not None]
    if began:
        yield Fact(field="began", value=str(min(began)))
    parent = parent or thread.parent
    told: list[tuple[Field, str | None]] = [
        ("cwd", cwds[0] if cwds else None),
        ("git_branch", next((tree.branch for tree in thread.trees if tree.worktree_path in cwds[:1]), None)),
        ("subagent", "1" if parent else None),
        ("parent_id", parent),
    ]
    for field, value in told:
        if value and len(value) <= SHORT_CHARS:
            yield Fact(field=field, value=value)
    if title.strip() and title.strip() not in UNTITLED:
        yield title_fact(title, NameRank.TITLED)


def _list_roots(folders: str, order: str) -> list[str | None]:
    """The directories of the project, in the order in which they were added."""
    paths = [path for path in folders.split("\n") if path]
    places = [int(place) for place in order.split(",") if place.isdecimal() and place.isascii()]
    if sorted(places) != list(range(len(paths))):
        return list(paths)
    return [path for _, path in sorted(zip(places, paths, strict=True))]

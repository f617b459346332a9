"""Kilo Code: up to version 5 a panel like Cline's, which it was made from, with documents for each task; since then made from OpenCode,
with its tables in a database, for the command line and the extension alike.

Each has a source of its own; this one says where the files are, and gives each item to the one that can read it.
"""

from pathlib import PurePath
from typing import Final

import msgspec

from sesamed.model import Operation
from sesamed.source import Location, ResumeCommand, Row, Rows, Setup, Shape, Spot, ToolFamilies, Variable
from sesamed.sources.cline import ClineState, Tasks
from sesamed.sources.editors import extension_locations
from sesamed.sources.opencode import QUERIES, OpenCode
from sesamed.sources.opencode.records import OpenCodeState

KiloState = ClineState | OpenCodeState
Step = tuple[KiloState, list[Operation]]


class Kind(msgspec.Struct):
    """What only the state of a panel's document has."""

    kind: str | None = None


DECODE_KIND: Final = msgspec.json.Decoder(Kind).decode


class Kilo:
    """The source of Kilo Code's tasks and sessions. Only those of the database can be resumed with a command."""

    name = "kilo"
    label = "Kilo Code"
    version = 2
    locations = (
        Location(home="~/.local/share/kilo", moved_by=(Variable("XDG_DATA_HOME", "kilo"),), rare=("kilo",)),
        Location(moved_by=(Variable("KILO_DB", ".."),)),
        *extension_locations("kilocode.kilo-code"),
    )
    shapes: tuple[Shape, ...] = (
        *Tasks.shapes,
        Rows(files=("kilo.db", "kilo-*.db"), queries=QUERIES),
        Rows(files=("*.db",), queries=QUERIES, is_certain=False),  # KILO_DB may name any file, in any directory
    )
    asks = ()
    resume = ResumeCommand(words=("kilo", "{cwd}", "--session", "{id}"), within="kilo")
    setup = Setup(
        program="kilo",
        files=tuple(
            Spot(f"~/.config/kilo/{name}", (Variable("XDG_CONFIG_HOME", f"kilo/{name}"),))
            for name in ("kilo.json", "kilo.jsonc")
        ),
        keys=OpenCode.setup.keys,
        more=OpenCode.setup.more,
        one_list=True,
        skills=Spot("~/.config/kilo/skills", (Variable("XDG_CONFIG_HOME", "kilo/skills"),)),
    )
    tool_families = ToolFamilies(
        **{
            family: (*getattr(Tasks.tool_families, family), *getattr(OpenCode.tool_families, family))
            for family in ToolFamilies.__struct_fields__
        }
    )

    def __init__(self) -> None:
        self._tasks, self._sessions = Tasks(), OpenCode()

    def begin(self, path: PurePath, part: str = "") -> Step:
        """A session is known by its id in the database, a task by the name of its directory."""
        return self._sessions.begin(path, part) if part else self._tasks.begin(path)

    def step(self, state: KiloState, item: bytes | Row) -> Step:
        """A row, or a document."""
        if isinstance(state, OpenCodeState):
            assert isinstance(item, Row)
            return self._sessions.step(state, item)
        assert isinstance(item, bytes)
        return self._tasks.step(state, item)

    def freeze(self, state: KiloState) -> bytes:
        """The state as bytes to store."""
        return msgspec.json.encode(state)

    def thaw(self, data: bytes) -> KiloState:
        """The state from its bytes."""
        is_task = DECODE_KIND(data).kind is not None
        return self._tasks.thaw(data) if is_task else self._sessions.thaw(data)

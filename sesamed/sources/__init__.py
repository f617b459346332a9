"""The agents' formats, one package for each; pure: bytes in, operations out. No I/O, no clock, no knowledge of the index.

`SOURCES` is the one list of them: an agent is a package here and a line in it. `TOOL_FAMILIES` is what they say of their tools, together.
What they share: `lines` (JSON, and a source of such lines), `columns`, `elements`, `tasks`, `editors`, `records` (messages and calls at
their place), `names`.
"""

from collections.abc import Mapping
from typing import Any

from sesamed.source import Setup, Source, ToolFamilies
from sesamed.sources.aider import Aider
from sesamed.sources.amp import Amp
from sesamed.sources.claude import Claude
from sesamed.sources.cline import Cline, Roo
from sesamed.sources.codex import Codex
from sesamed.sources.copilot import Copilot
from sesamed.sources.crush import Crush
from sesamed.sources.cursor import Cursor
from sesamed.sources.droid import Droid
from sesamed.sources.gemini import Gemini
from sesamed.sources.goose import Goose
from sesamed.sources.hub import Hub
from sesamed.sources.kilo import Kilo
from sesamed.sources.kimi import Kimi
from sesamed.sources.openclaw import OpenClaw
from sesamed.sources.opencode import OpenCode
from sesamed.sources.pi import Pi
from sesamed.sources.qwen import Qwen
from sesamed.sources.sesame import Sesame
from sesamed.sources.zed import Zed

SOURCES: dict[str, Source[Any]] = {
    source.name: source
    for source in (
        *(Pi(), Claude(), Codex(), Gemini(), OpenCode(), OpenClaw(), Qwen(), Copilot(), Kimi(), Droid()),
        *(Amp(), Cline(), Roo(), Kilo(), Goose(), Crush(), Zed(), Cursor(), Aider(), Sesame(), Hub()),
    )
}

AGENTS = tuple(name for name in SOURCES if name != Hub.name)  # whose sessions are in the index

# Of agents whose own programs have shown that they take what is written there.
SETUPS: Mapping[str, Setup] = {
    name: setup for name, source in SOURCES.items() if (setup := getattr(source, "setup", None)) is not None
}


def _names_in(family: str) -> tuple[str, ...]:
    """The names of all agents' tools in a family. Those that differ in case only are one, as they are for the filter."""
    names = dict[str, str]()
    for source in SOURCES.values():
        for name in getattr(source.tool_families, family):
            names.setdefault(name.lower(), name)
    return tuple(names.values())


TOOL_FAMILIES: Mapping[str, tuple[str, ...]] = {family: _names_in(family) for family in ToolFamilies.__struct_fields__}

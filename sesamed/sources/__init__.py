"""The agents' formats, one package for each; pure: bytes in, operations out. No I/O, no clock, no knowledge of the index.

`SOURCES` is the one list of them: an agent is a package here and a line in it. What they share: `lines` (JSON, and a source of such lines),
`records` (messages and calls at their place), `own_tools`, `names`.
"""

from typing import Any

from sesamed.source import Source
from sesamed.sources.claude import Claude
from sesamed.sources.codex import Codex
from sesamed.sources.gemini import Gemini
from sesamed.sources.opencode import OpenCode
from sesamed.sources.pi import Pi
from sesamed.sources.sesame import Sesame

SOURCES: dict[str, Source[Any]] = {
    source.name: source for source in (Pi(), Claude(), Codex(), Gemini(), OpenCode(), Sesame())
}

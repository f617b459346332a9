"""The agents' formats, one a package; pure: bytes in, operations out. No I/O, no clock, no knowledge of the index.

`SOURCES` is the one list of them. `lines` decodes a line of any of them; `keys`, `times`, `names`, `calls` and `own_tools` are shared, too.
"""

from typing import Any

from sesamed.source import Source
from sesamed.sources.claude import Claude
from sesamed.sources.codex import Codex
from sesamed.sources.pi import Pi
from sesamed.sources.sesame import Sesame

SOURCES: dict[str, Source[Any]] = {source.name: source for source in (Pi(), Claude(), Codex(), Sesame())}

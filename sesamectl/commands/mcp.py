"""`mcp`: what agents ask by the Model Context Protocol, over standard input and output."""

import os
import sys

from sesamectl.errors import UsageError
from sesamectl.flags import Arguments
from sesamectl.mcp.request import Surroundings
from sesamectl.mcp.server import Server
from sesamectl.mcp.stdio import Stdio
from sesamectl.mcp.tools import list_tools


def run(arguments: Arguments) -> None:
    """Answer until the client goes, or somebody ends us."""
    if sys.__stdin__ is None or sys.stdin.isatty():  # closed, or a person's
        raise UsageError("an agent starts this and talks to it; `sesamectl search` is for people", "mcp")
    with Stdio() as stdio:
        server = Server(Surroundings(arguments, _here()), list_tools, stdio.send)
        for line in stdio.lines():
            if line is None or line.strip():
                server.take(line)
        server.end()


def _here() -> str:
    """The directory that we were started in: agents start us in that of the project."""
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return os.path.expanduser("~")

"""The commands, one module each, imported when run: a search pays for no other."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesamectl.flags import Arguments

LIFECYCLE = ("start", "stop", "restart")


def run(name: str, arguments: Arguments) -> int:
    """Run a command; returns its exit code."""
    if name == "search":
        from sesamectl.commands import search

        search.run(arguments)
        return 0
    from importlib import import_module

    module = import_module(f"sesamectl.commands.{'lifecycle' if name in LIFECYCLE else name.replace('-', '_')}")
    return (getattr(module, name) if name in LIFECYCLE else module.run)(arguments) or 0

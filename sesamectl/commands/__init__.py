"""The commands, one module each, imported when they are run: a search pays for nothing else."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesamectl.flags import Arguments

OF_LIFE = ("start", "stop", "restart")


def run(name: str, arguments: Arguments) -> int:
    """Run a command; its exit code."""
    if name == "search":
        from sesamectl.commands import search

        search.run(arguments)
        return 0
    from importlib import import_module

    module = import_module(f"sesamectl.commands.{'life' if name in OF_LIFE else name.replace('-', '_')}")
    return (getattr(module, name) if name in OF_LIFE else module.run)(arguments) or 0

"""Where VS Code, and the editors that are made from it, let an extension keep its files."""

from typing import Final

from sesamed.source import Location, Variable

# As the directories of their settings are called.
EDITORS: Final = (
    "Code",
    "Code - Insiders",
    "VSCodium",
    "Cursor",
    "Windsurf",
    "Trae",
    "Kiro",
    "Positron",
    "Antigravity",
)
# On a machine that an editor elsewhere is connected to.
SERVERS: Final = (".vscode-server", ".vscode-server-insiders", ".vscodium-server", ".cursor-server", ".windsurf-server")


def extension_locations(extension: str) -> tuple[Location, ...]:
    """Where an extension's files may be, of whichever editor."""
    within = f"User/globalStorage/{extension}"
    settings = tuple(f"{editor}/{within}" for editor in EDITORS)
    servers = (*(f"{server}/data/{within}" for server in SERVERS), f".local/share/code-server/{within}")
    return (
        Location(home="~/.config", moved_by=(Variable("XDG_CONFIG_HOME"),), directories=settings, rare=settings),
        Location(home="~/Library/Application Support", directories=settings, rare=settings),
        Location(home="~/", directories=servers, rare=servers),
        Location(moved_by=(Variable("VSCODE_PORTABLE", f"user-data/{within}"),)),
    )

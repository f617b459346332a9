"""`man`: the manual page."""

from __future__ import annotations

from sesamectl.man import page

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sesamectl.flags import Arguments


def run(_: Arguments) -> None:
    """Print it, for man(1) to format."""
    print(page(), end="")

"""`man`: the manual page."""

from sesamectl.flags import Arguments
from sesamectl.man import page


def run(_: Arguments) -> None:
    """Print it for man(1) to format."""
    print(page(), end="")

"""`man`: the manual page."""

from sesamectl.flags import Arguments
from sesamectl.man import page
from sesamectl.output import require_output


def run(_: Arguments) -> None:
    """Print it for man(1) to format."""
    require_output()
    print(page(), end="")

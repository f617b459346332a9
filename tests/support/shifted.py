"""`python -m tests.support.shifted FILE ...`: sesamed with a clock that is off by the seconds that stand in FILE."""

import sys
import time

PROGRAM = ("-m", "tests.support.shifted")


def _shift(file: str) -> None:
    really, really_ns = time.time, time.time_ns

    def offset() -> int:
        try:
            with open(file, encoding="ascii") as offsets:
                return int(offsets.read() or 0)
        except FileNotFoundError:
            return 0

    time.time = lambda: really() + offset()
    time.time_ns = lambda: really_ns() + offset() * 1_000_000_000


if __name__ == "__main__":
    _shift(sys.argv[1])
    from sesamed.cli import main

    sys.exit(main(sys.argv[2:]))

"""`append_message` to its answer, in a short session and in a long one, and `forget`; with a whole corpus indexed.

    python -m bench.keep CORPUS [--samples 300]

When `append_message` answers, the line is in its file and searchable. What the indexing adds is what is left of that time when the
socket (`hello`), the look at the index (a refused append, which writes nothing) and a plain write of the line are taken away; the
daemon's own word on it is `freshness`: from the mark to the commit, with the way to a thread and back. The two sessions take turns,
with pauses like those in `bench.append`. `forget` builds the index anew: it is timed whole, and so are appends while it goes on.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from random import Random

from bench.instance import PATIENCE_S, Instance, scratch, session_files
from bench.tables import Table, ms, percentile, run_alone
from sesamectl.client import Client
from sesamectl.errors import RpcError

LONG_MESSAGES = 50_000
PAUSE_S = 0.05
REST_S = 0.5
REST_EVERY = 20
HEADER = ("", "samples", "p50", "p90", "p99", "max")
Row = tuple[str, ...]
TEXT = "what was said last is that the parsnips are in the kitchen and nobody has looked at them"


def measure(corpus: str, samples: int, long_messages: int = LONG_MESSAGES) -> list[Table]:
    """Appends of every kind, and forgetting."""
    with scratch() as place, Instance(place, corpus) as daemon:
        daemon.until_settled()
        short, long = (daemon.call("new_session", title=title) for title in ("short", "long"))
        _lengthen(daemon, long["sessionId"], long["path"], long_messages)
        daemon.until_folded()
        random, rows = Random(1), list[Row]()
        times: dict[str, list[float]] = {"short": [], "long": [], "hello": [], "refused": [], "write": []}
        actions: dict[str, Callable[[], object]] = {
            "short": lambda: _say(daemon, short["sessionId"]),
            "long": lambda: _say(daemon, long["sessionId"]),
            "hello": lambda: daemon.call("hello"),
            "refused": lambda: _refused(daemon, short["sessionId"]),
            "write": lambda: _write(os.path.join(place, "plain")),
        }
        for number in range(1, samples + 1):
            time.sleep(REST_S if number % REST_EVERY == 0 else random.random() * PAUSE_S)
            for name in random.sample(
                list(actions), len(actions)
            ):  # what comes first after a pause may meet some upkeep
                times[name].append(_timed(actions[name]))
        rows = [
            _row("**a short session**", times["short"]),
            _row(f"**a session of {long_messages:,} messages**", times["long"]),
            _row("(`hello`)", times["hello"]),
            _row("(a refused `append_message`)", times["refused"]),
            _row("(the line to a file, no daemon)", times["write"]),
        ]
        said = daemon.call("status")["freshness"]
        rows.append(("the daemon's `freshness`", str(said["samples"]), ms(said["p50Ms"]), "", ms(said["p99Ms"]), ""))
        return [Table("append_message to its answer, ms", HEADER, rows), _forgotten(daemon, corpus, short["sessionId"])]


def _forgotten(daemon: Instance, corpus: str, session: str) -> Table:
    """Forget one session while others are appended to."""
    victim = daemon.call("list_sessions", source="pi", limit=1)["sessions"][0]["sessionId"]
    took: list[float] = []

    def forget() -> None:
        with Client(daemon.socket_path, PATIENCE_S) as client:
            took.append(_timed(lambda: client.call("forget", sessionId=victim)))

    other = threading.Thread(target=forget)
    other.start()
    meanwhile = []
    while other.is_alive():
        meanwhile.append(_timed(lambda: _say(daemon, session)))
        time.sleep(PAUSE_S)
    other.join()
    rows = [_row("`forget` of one session", took), _row("`append_message` meanwhile", meanwhile)]
    return Table("forget, ms", HEADER, rows, f"{len(session_files(corpus))} sessions indexed.")


def _lengthen(daemon: Instance, session: str, path: str, messages: int) -> None:
    """Give a session its messages by its file: the same lines, without the calls."""
    _say(daemon, session)
    with open(path, encoding="utf-8") as file:
        line = file.read().split("\n")[1]
    with open(path, "a", encoding="utf-8") as file:
        for number in range(messages):
            file.write(line.replace(TEXT, f"{TEXT}, {number} times").replace('"id":"', f'"id":"{number:x}-') + "\n")
    daemon.call("sync")


def _say(daemon: Instance, session: str) -> None:
    daemon.call("append_message", sessionId=session, role="assistant", text=TEXT)


def _refused(daemon: Instance, session: str) -> None:
    with contextlib.suppress(RpcError):
        daemon.call("append_message", sessionId=session + "?", role="assistant", text=TEXT)


def _write(path: str) -> None:
    with open(path, "ab", buffering=0) as file:
        file.write(TEXT.encode() + b"\n")


def _timed(action: Callable[[], object]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


def _row(name: str, times: list[float]) -> Row:
    return (name, str(len(times)), *(ms(percentile(times, share)) for share in (50, 90, 99)), ms(max(times)))


if __name__ == "__main__":
    run_alone(measure, __doc__, samples=300)

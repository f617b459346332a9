"""Files that wait to be looked at."""

from sesamed.ingest.queue import Queue
from sesamed.ingest.state import FileState, Target
from sesamed.ingest.sweep import Due
from sesamed.store.rows import Signature


def target(name: str) -> Target:
    """A path."""
    return Target(name.encode(), "/", "pi")


def due(name: str, unread: int = 10, signature: Signature | None = None) -> Due:
    """What a sweep finds."""
    return Due(target(name), 0, unread, signature)


def taken(queue: Queue) -> list[FileState]:
    """What is looked at next."""
    batch = queue.take()
    return [] if batch is None else batch.states

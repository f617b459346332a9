"""Around what reads an answer. One that is not as docs/protocol.md says comes from a daemon of another version, or from no daemon at all,
and is explained as such. Only around that: elsewhere the same errors are our own faults, and are to be seen.
"""

from __future__ import annotations

TYPE_CHECKING = False
MISREAD = (LookupError, TypeError, ValueError, AttributeError)  # what comes of an answer of another shape


class Reading:
    """Raises what is wrong with the daemon at this socket, or else at the user's own, in the place of what came of its answer."""

    __slots__ = ("_path", "_todo")

    def __init__(self, path: str | None = None, todo: str = "see `sesamectl doctor`") -> None:
        self._path, self._todo = path, todo

    def __enter__(self) -> None:
        return

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, MISREAD):
            from sesamectl.handshake import explain_misread

            raise explain_misread(self._path, error, self._todo) from error

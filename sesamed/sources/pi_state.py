"""What a pi file's lines so far mean for its next one. Small: it is stored with the cursor at each commit."""

import msgspec

from sesamed.sources.pi_lines import Line

OPEN_CALLS = 128
ID_CHARS = 1024  # ids of OpenAI's calls have hundreds; a longer one is not kept


class OpenCall(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A call that has no result yet."""

    key: int
    hidden: bool


class PiState(msgspec.Struct, frozen=True, kw_only=True):
    """Never changed in place, its dict neither: a caller may step twice from the same state."""

    file_id: str  # the session's id as the file's name has it
    begun: bool = False  # the header was seen
    named: bool = False  # the first text stated a name
    cwd: str | None = None
    last: str | None = None  # the id of the entry before
    calls: dict[str, OpenCall] = {}  # by toolCallId, oldest first


def after(
    state: PiState, line: Line, *, named: bool | None = None, calls: dict[str, OpenCall] | None = None
) -> PiState:
    """The state once this line was read. (`msgspec.structs.replace` takes three times as long.)"""
    return PiState(
        file_id=state.file_id,
        begun=True,
        named=state.named if named is None else named,
        cwd=state.cwd,
        last=line.id if line.id and len(line.id) <= ID_CHARS else state.last,
        calls=state.calls if calls is None else calls,
    )


def opened(calls: dict[str, OpenCall], new: dict[str, OpenCall]) -> dict[str, OpenCall]:
    """The open calls with new ones; the oldest give way, for an aborted turn leaves calls that no result will close."""
    everything = {name: call for name, call in calls.items() if name not in new} | new
    for name in [name for name in new if len(name) > ID_CHARS]:
        del everything[name]
    for name in list(everything)[:-OPEN_CALLS]:
        del everything[name]
    return everything


def closed(calls: dict[str, OpenCall], name: str) -> dict[str, OpenCall]:
    """The open calls without the one that was answered."""
    return {other: call for other, call in calls.items() if other != name}

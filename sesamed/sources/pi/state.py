"""What a pi file's lines so far mean for its next one. Small: it is stored with the cursor at each commit."""

import msgspec

from sesamed.sources.calls import ID_CHARS, OpenCall
from sesamed.sources.pi.lines import Line


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

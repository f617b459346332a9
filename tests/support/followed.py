"""Sessions of other machines as the daemon keeps copies of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sesamed.sources.hub import ABOUT, CALLED, HEADER, SAID, Line, encode_line

THERE = "0a1b2c3d"
BEGAN_MS = 1_780_000_000_000


class FollowedSession:
    """A copy, line by line."""

    def __init__(self, id: str = "there-1", *, source: str = "claude", workstation: str = THERE, **header: Any) -> None:  # noqa: A002
        self.id, self.workstation = id, workstation
        key = f"{workstation}:00000000:{id}"
        about = {"owner": "anna_role", "person": "anna", "key": key, "serial": 1, "cwd": "/home/anna/plum", **header}
        self.lines = [Line(type=HEADER, workstation=workstation, source=source, session=id, **about)]
        self._about: Mapping[str, Any] = {"cwd": about["cwd"], "created_ms": BEGAN_MS}

    def user(self, text: str, key: int | None = None, **more: Any) -> "FollowedSession":
        """A prompt."""
        return self._add(SAID, "user", text, key, prompt=True, **more)

    def assistant(self, text: str, key: int | None = None, **more: Any) -> "FollowedSession":
        """An answer."""
        return self._add(SAID, "assistant", text, key, **more)

    def call(self, tool: str, text: str, key: int | None = None, **more: Any) -> "FollowedSession":
        """A call; its text is as another machine has made it of the arguments."""
        return self._add(CALLED, "assistant", text, key, tool=tool, **more)

    def about(self, **fields: Any) -> "FollowedSession":
        """What is known of it by now."""
        self._about = {**self._about, **fields}
        self.lines.append(Line(type=ABOUT, **self._about))
        return self

    def _add(self, kind: str, role: str, text: str, key: int | None, **more: Any) -> "FollowedSession":
        place = len(self.lines)
        more = {"time_ms": BEGAN_MS + 1000 * place, **more}
        self.lines.append(Line(type=kind, role=role, text=text, record=place << 40 | 7 if key is None else key, **more))
        return self

    def bytes(self) -> bytes:
        """The file."""
        return b"".join(map(encode_line, self.lines))

    def write(self, copies: Path) -> Path:
        """Put it into the directory of copies, as a whole."""
        path = copies / self.workstation / f"{self.id}.jsonl"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(self.bytes())
        return new.replace(path)

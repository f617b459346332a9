"""In which time zone days are meant, for the daemon: it may have been started in another one than whoever asks."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TIMES = ("after", "before", "until", "on")
ZONES = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo")  # where Python looks
LOCAL = "local"


def say_zone(params: dict[str, Any]) -> dict[str, Any]:
    """The params of a question, with the time zone if they say when."""
    if params.get("timeWords") or any(name in params for name in TIMES):
        return {**params, "timeZone": find_zone()}
    return params


def find_zone() -> str:
    """The machine's, unless this process has another: by its name, or, of one without, by how far it is ahead now."""
    if "TZ" not in os.environ:
        return LOCAL
    name = os.environ["TZ"].removeprefix(":")
    for directory in ZONES:
        name = name.removeprefix(f"{directory}/")
    if name and not name.startswith("/") and ".." not in name and any(map(os.path.isfile, _paths_of(name))):
        return name
    minutes = time.localtime().tm_gmtoff // 60
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _paths_of(name: str) -> list[str]:
    return [f"{directory}/{name}" for directory in ZONES]

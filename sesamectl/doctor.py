"""What may be wrong, looked at one after the other. May use the daemon's own code: nobody waits for it as for a search.

A check yields findings, one line each: what was looked at, what is the case, and where that is wrong what to do. A finding that
is only worth knowing is a note. Nothing is changed, and nothing is started.
"""

from __future__ import annotations

from sesamectl.errors import ClientError, RpcError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from sesamed.config import Config
    from sesamed.paths import Paths

OK, NOTE, WRONG = "ok", "note", "wrong"


class Finding:
    """A line of the report."""

    __slots__ = ("level", "name", "text", "todo")

    def __init__(self, level: str, name: str, text: str, todo: str = "") -> None:
        self.level = level
        self.name = name
        self.text = text
        self.todo = todo


class Patient:
    """What is looked at: the places, the configuration, and what the daemon says of itself."""

    def __init__(self, environ: Mapping[str, str], *, deep: bool) -> None:
        self.environ = environ
        self.deep = deep
        self.place: Paths | None = None
        self.config: Config | None = None
        self.hello: dict[str, Any] | None = None
        self.status: dict[str, Any] | None = None


def examine(environ: Mapping[str, str], *, deep: bool) -> Iterator[Finding]:
    """All findings; a check that cannot be made is one, too."""
    from sesamectl import doctor_daemon, doctor_index, doctor_places, doctor_sources
    from sesamed.errors import SesameError

    checks: tuple[tuple[str, Callable[[Patient], Iterator[Finding]]], ...] = (
        ("config", doctor_places.config), ("paths", doctor_places.paths), ("socket", doctor_daemon.socket),
        ("versions", doctor_daemon.versions), ("service", doctor_daemon.service), ("watch", doctor_places.watch),
        ("disk", doctor_places.disks), ("state", doctor_daemon.state), ("index", doctor_index.integrity),
        ("source", doctor_sources.sources),
    )  # fmt: skip
    patient = Patient(environ, deep=deep)
    for name, check in checks:
        try:
            yield from check(patient)
        except SesameError as error:
            yield Finding(WRONG, name, error.message)
        except (ClientError, RpcError, OSError) as error:
            yield Finding(WRONG, name, str(error))
        except Exception as error:  # a doctor that falls over what is broken helps nobody
            yield Finding(WRONG, name, f"cannot be looked at ({type(error).__name__}: {error})")

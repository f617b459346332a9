"""Which roots there are: where the agents keep their sessions, and what the configuration makes of it.

Looks at the agents' settings, opens no session, makes nothing, asks nobody whether a root is there.

Every place that an agent may have used counts, not only the one that it would use now: old sessions stay where they
were written.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence

import msgspec

from sesamed.config import Config, Root, absolute, read_json5

CODEX_DIRECTORIES = ("sessions", "archived_sessions")


class _PiSettings(msgspec.Struct):
    session_dir: str | None = msgspec.field(default=None, name="sessionDir")


def discover(environ: Mapping[str, str], home: str) -> list[Root]:
    """The default roots, whether they are there or not."""
    pi = [Root(parser="pi", path=path) for path in _pi(environ, home)]
    claude = Root(parser="claude", path=os.path.join(_claude(environ, home), "projects"))
    codex = [Root(parser="codex", path=os.path.join(_codex(environ, home), name)) for name in CODEX_DIRECTORIES]
    return without_nested([*pi, claude, *codex])


def roots(config: Config, discovered: Sequence[Root]) -> list[Root]:
    """What to watch: `sources` and `piSessionPaths` replace what was discovered, `extraSources` adds to it."""
    named = config.sources is not None or config.pi_session_paths is not None
    pi = [Root(parser="pi", path=path) for path in config.pi_session_paths or ()]
    chosen = [*(config.sources or ()), *pi] if named else list(discovered)
    return without_nested([*chosen, *config.extra_sources])


def without_nested(found: Sequence[Root]) -> list[Root]:
    """The roots in their order, less those that another one of the same parser holds."""
    unique = list(dict.fromkeys(found))
    return [root for root in unique if not any(_holds(other, root) for other in unique)]


def _pi(environ: Mapping[str, str], home: str) -> list[str]:
    agent = _place(environ.get("PI_CODING_AGENT_DIR"), home, home) or os.path.join(home, ".pi/agent")
    candidates = [
        os.path.join(agent, "sessions"),
        # a relative one means another directory in every project: nothing that a daemon could find
        _place(environ.get("PI_CODING_AGENT_SESSION_DIR"), home, None),
        _place(_pi_session_dir(os.path.join(agent, "settings.json")), home, agent),
    ]
    return [path for path in candidates if path]


def _claude(environ: Mapping[str, str], home: str) -> str:
    return _place(environ.get("CLAUDE_CONFIG_DIR"), home, home) or os.path.join(home, ".claude")


def _codex(environ: Mapping[str, str], home: str) -> str:
    return _place(environ.get("CODEX_HOME"), home, home) or os.path.join(home, ".codex")


def _pi_session_dir(file: str) -> str | None:
    """`sessionDir` of pi's settings; a broken file is pi's concern."""
    with contextlib.suppress(OSError, ValueError):  # msgspec's ValidationError is a ValueError
        return msgspec.convert(read_json5(file), _PiSettings).session_dir
    return None


def _place(value: str | None, home: str, base: str | None) -> str | None:
    with contextlib.suppress(ValueError):
        if value and base and not value.startswith(("~", "/")):
            return absolute(os.path.join(base, value), home)
        return absolute(value, home) if value else None
    return None


def _holds(outer: Root, inner: Root) -> bool:
    return (
        outer.parser == inner.parser
        and inner.path.startswith(outer.path.rstrip("/") + "/")
        and outer.path != inner.path
    )

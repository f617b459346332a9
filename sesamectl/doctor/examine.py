"""All checks, one after the other. May use the daemon's own code: nobody waits for `doctor` as for a search.

A check yields findings, one line each. It changes nothing and starts nothing.
"""

from collections.abc import Callable, Iterator, Mapping

from sesamectl.doctor import daemon, hub, index, paths, pi, sources, timer
from sesamectl.doctor.finding import Advice, Checkup, Finding
from sesamectl.errors import ClientError, RpcError
from sesamed.errors import SesameError

# What keeps a daemon from starting comes before the advice to start it.
CHECKS: tuple[tuple[str, Callable[[Checkup], Iterator[Finding]]], ...] = (
    ("paths", daemon.find_daemon),
    ("config", paths.check_config),
    ("paths", paths.check_paths),
    ("disk", paths.check_disk),
    ("index", index.check_index),
    ("socket", daemon.check_socket),
    ("versions", daemon.check_versions),
    ("service", daemon.check_service),
    ("timer", timer.check_timer),
    ("watch", paths.check_watch),
    ("state", daemon.check_state),
    ("source", sources.check_roots),
    ("source", sources.check_sources),
    ("lines", sources.check_lines),
    ("pi", pi.check_pi),
    ("hub", hub.check_hub),
)


def examine(environ: Mapping[str, str], *, deep: bool) -> Iterator[Finding]:
    """All findings. A check that fails is one, too."""
    checkup = Checkup(environ, deep)
    for name, check in CHECKS:
        try:
            yield from check(checkup)
        except SesameError as error:
            yield checkup.wrong(name, error.message, Advice.REPORT)
        except (ClientError, RpcError, OSError) as error:
            yield checkup.wrong(name, str(error), Advice.REPORT)
        except Exception as error:  # a doctor that crashes on what is broken helps nobody
            yield checkup.wrong(name, f"this check failed ({type(error).__name__}: {error})", Advice.REPORT)

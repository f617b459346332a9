"""The hub, if one is configured: whether it answers, and whether this machine may ship to it."""

from collections.abc import Iterator

from sesamectl.doctor.finding import NOTE, OK, Checkup, Finding
from sesamed.hub import checking
from sesamed.hub.child import identify_here

TIMEOUT_S = 5


def check_hub(checkup: Checkup) -> Iterator[Finding]:
    """One line. Nothing local is wrong when a hub does not answer, so it is a note."""
    paths, config = checkup.paths, checkup.config
    if paths is None or config is None or not config.hub.is_named:
        return
    identity = identify_here(paths.database, checkup.environ, config.workstation_id)
    found = list(checking.check(config.hub, identity, timeout_s=TIMEOUT_S))
    told = [one for one in found if one.level != "ok"]
    if told:
        yield Finding(NOTE, "hub", f"{told[-1].text} (`sesamectl hub check`)")
        return
    yield Finding(OK, "hub", "; ".join(one.text for one in found if one.name in ("connection", "account")))

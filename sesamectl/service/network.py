"""Which kinds of sockets the daemon's unit may open: Unix sockets; those of a network only where a hub is configured that needs them."""

import re
from collections.abc import Mapping

LOCAL, NETWORK = "AF_UNIX", "AF_UNIX AF_INET AF_INET6"
_HOST = re.compile(r"(?:^|[\s?&])(host|hostaddr)\s*=\s*('(?:[^'\\]|\\.)*'|[^\s&]*)")
_AUTHORITY = re.compile(r"^postgres(?:ql)?://(?:[^/@]*@)?([^/?]*)")


def find_families(environ: Mapping[str, str]) -> str:
    """As RestrictAddressFamilies= has them."""
    from sesamed.config import load  # here: only who installs a unit, or looks at one, needs it
    from sesamed.errors import SesameError
    from sesamed.paths import find
    from sesamed.sources import SOURCES

    try:
        hub = load(find(environ).config_file, environ, SOURCES.keys()).hub
    except SesameError:  # the daemon would not start with it
        return LOCAL
    if not hub.is_named:
        return LOCAL
    return LOCAL if hub.service is None and is_local(hub.dsn or "") else NETWORK


def is_local(dsn: str) -> bool:
    """Whether a connection string names a Unix socket, or nothing, which is one as well."""
    hosts = [value.strip("'") for _, value in _HOST.findall(dsn)]
    if found := _AUTHORITY.match(dsn):
        hosts.append(found[1])
    names = [name for host in hosts for name in host.split(",") if name]
    return all(name.startswith(("/", "%2F", "%2f", "@")) for name in names)

"""A connection string that cannot be used: what is said of it quotes nothing, since that is logged, and shown by `status`."""

import pytest

from sesamed.config import Hub
from sesamed.errors import HubError
from sesamed.hub import server

pytest.importorskip("psycopg")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgres//anna:canary@host.example/db",
        "anna:canary@host.example/db",
        "host=host.example 'canary",
        "postgresql://anna:canary host.example/db",
        "host=host.example sslpassword=canary",
        "postgresql://host.example/db?p%61ssword=canary",
        "host=host.example canary=1",
    ],
)
def test_what_is_wrong_with_a_dsn_is_not_quoted(dsn: str) -> None:
    with pytest.raises(HubError) as refused:
        server.connect(Hub(dsn=dsn), timeout_s=1)
    assert refused.value.cause == "configuration"
    assert "canary" not in refused.value.message

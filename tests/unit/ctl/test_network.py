"""Which kinds of sockets a unit may open."""

import json
from pathlib import Path
from typing import Any

import pytest

from sesamectl.service.network import LOCAL, NETWORK, find_families, is_local
from sesamectl.service.systemd import Systemd
from sesamectl.service.unit import Spec


@pytest.mark.parametrize(
    ("dsn", "local"),
    [
        ("dbname=sesame", True),
        ("host=/run/postgresql user=anna", True),
        ("host='/run/my sockets' dbname=x", True),
        ("postgresql:///sesame", True),
        ("postgresql:///sesame?host=/run/postgresql", True),
        ("postgresql://%2Frun%2Fpostgresql/sesame", True),
        ("host=db.example", False),
        ("host=/run/postgresql,db.example", False),
        ("hostaddr=10.0.0.1", False),
        ("postgresql://anna@db.example:5432/sesame", False),
        ("postgresql:///sesame?host=db.example", False),
        ("host = db.example", False),
    ],
)
def test_a_place_on_this_machine_needs_no_network(dsn: str, local: bool) -> None:
    assert is_local(dsn) == local


@pytest.mark.parametrize(
    ("config", "families"),
    [
        (None, LOCAL),
        ({}, LOCAL),
        ({"hub": {"projects": {"allow": ["**"]}}}, LOCAL),
        ({"hub": {"dsn": "host=/run/postgresql"}}, LOCAL),
        ({"hub": {"dsn": "host=db.example"}}, NETWORK),
        ({"hub": {"service": "team"}}, NETWORK),
        ({"hub": {"dsn": "host=db.example password=x"}}, LOCAL),  # with which no daemon starts
    ],
)
def test_a_unit_gets_the_families_that_its_configuration_needs(tmp_path: Path, config: Any, families: str) -> None:
    if config is not None:
        (tmp_path / "config.jsonc").write_text(json.dumps(config))
    environ = {"SESAME_CONFIG_DIR": str(tmp_path), "SESAME_RUNTIME_DIR": "/r", "HOME": str(tmp_path)}
    assert find_families(environ) == families
    (text,) = (
        Systemd({}).render(Spec("/python", {"SESAME_SOCKET": "/r/sesamed.sock", **environ}), socket=False).values()
    )
    assert f"\nRestrictAddressFamilies={families}\n" in text

"""What a project is called on every machine: nothing of who may read it is in that, however its address was written."""

import pytest

from sesamed.hub.identity import normalise


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://user:token@host.example/acme/app.git", "host.example/acme/app"),
        ("https://user:half@token@host.example/acme/app", "host.example/acme/app"),
        ("HTTPS://user:token@GitHub.com/Acme/App", "github.com/acme/app"),
        ("https://:token@host.example/app", "host.example/app"),
        ("ssh://git@ssh.github.com:443/acme/app.git", "github.com/acme/app"),
        ("git@github.com:Acme/App.git", "github.com/acme/app"),
        ("https://user:12/34token@host.example/app", None),
        ("https://x:12@34/token@host.example/app", None),
        ("user:token@host.example:app", None),
        ("https:user:token@host.example/app", None),
        ("ext::sh -c user:token@host.example:app", None),
        ("https://host.example:8080/user:token@other.example/app", None),
        ("C:/work/app", None),
        ("/work/app", None),
    ],
)
def test_an_address_keeps_no_name_and_no_password(url: str, name: str | None) -> None:
    assert normalise(url) == name

"""The commands about the service that documents show, in their order, under a real user manager."""

import shlex

import pytest

from tests.support.documents import PAGES, commands
from tests.support.user_manager import UserManager

SHOWN = [command for page in PAGES for command in commands(page) if command.startswith("sesamectl service")]


@pytest.mark.timeout(120)
def test_commands_of_documents(user: UserManager) -> None:
    """Installed, looked at and taken away again."""
    user.write(".config/sesame/config.jsonc", b'{"memory": {"command": ["cat"]}}')  # for `--remember`
    words = [shlex.split(command, comments=True)[1:] for command in SHOWN]
    assert [word[:2] for word in words][:2] == [["service", "uninstall"], ["service", "install"]]  # README, service.md
    user.drop_in(
        "[Service]\nStandardError=journal\n"
    )  # as it is but for these tests, so that `logs` has something to show
    for command in words:
        assert user.ctl(*command), command
    assert not (user.home / ".config/systemd/user/sesamed.service").exists()
    assert not (user.home / ".local/share/sesame/index.sqlite").exists()

"""Whose sessions are meant, and of which project, as they are called on all machines: those of the index.

A hub knows what its projects are called, and the index what their directories are. So what these are called is read from repositories.
"""

import contextlib
from typing import Protocol

from sesamed.config import Hub
from sesamed.errors import HubError
from sesamed.hub import server
from sesamed.hub.child import name_person
from sesamed.hub.identity import identify
from sesamed.methods.filters import is_project_name
from sesamed.store.reading.summary import list_projects
from sesamed.store.search import filters
from sesamed.store.sqlite import Connection


class Named(Protocol):
    """The filters that are about this."""

    @property
    def person(self) -> str | None: ...

    @property
    def project(self) -> str | None: ...

    @property
    def scope(self) -> str: ...


def narrow_to_named(connection: Connection, where: filters.Conditions, params: Named, hub: Hub) -> filters.Conditions:
    """Only sessions of the person and the project that are named. Runs in a reader's thread."""
    if params.person is not None:
        where = filters.of_person(where, params.person, is_own=_is_own(params.person, params.scope, hub))
    if params.project is not None and is_project_name(params.project):
        paths = [path for path in list_projects(connection) if is_called(identify(path), params.project)]
        where = filters.of_projects(where, paths)
    return where


def _is_own(person: str, scope: str, hub: Hub) -> bool:
    """Whether that is whoever has this machine: its user, and, where a hub is asked as well, the role that this is there."""
    if person == name_person():
        return True
    with contextlib.suppress(HubError):  # which whoever asks the hub is told
        return scope != "here" and hub.is_named and person == server.find_role(hub)
    return False


def is_called(identity: str, name: str) -> bool:
    """Whether a project is called so, or its name ends so: as a hub compares them (`hub.conditions`)."""
    return bool(name.strip("/")) and f"/{identity}".endswith("/" + name.strip("/"))

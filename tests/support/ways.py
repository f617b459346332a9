"""The two ways in which a question is answered, whatever the size of the index: by statements, and by posting arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import apsw

from sesamed.store.search import ranking, terms
from sesamed.store.search.postings import Postings, View
from sesamed.store.shelf import Shelf

ALL = 1 << 60


@contextmanager
def by_statements() -> Iterator[None]:
    """However many rows there are."""
    with mock.patch.object(ranking, "FEW_ROWS", ALL):
        yield


@contextmanager
def by_arrays(postings: Postings | Shelf) -> Iterator[None]:
    """However few rows there are."""

    def find_view(connection: apsw.Connection, *, read: bool) -> View | None:
        return postings.see(connection, read=read)

    with (
        mock.patch.multiple(ranking, FEW_ROWS=-1, FEW_CHUNKS=-1, find_view=find_view),
        mock.patch.object(terms, "find_view", find_view),
    ):
        yield

"""The ways in which a question is answered, whatever the size of the index: by statements, and by posting arrays, of which all chunks are
scored or as few as will do."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import apsw

from sesamed.store.search import large, ranking, terms
from sesamed.store.search.postings import Postings, View
from sesamed.store.shelf import Shelf

ALL = 1 << 60


@contextmanager
def by_statements() -> Iterator[None]:
    """However many rows there are."""
    with mock.patch.object(ranking, "FEW_ROWS", ALL):
        yield


@contextmanager
def by_arrays(postings: Postings | Shelf, *, scores_all: bool = False, sparse: int = 1) -> Iterator[None]:
    """However few rows there are. `sparse`: with more than one of so many sessions to score, all are."""
    cost = -ALL if scores_all else ALL

    def find_view(connection: apsw.Connection, *, read: bool) -> View | None:
        return postings.see(connection, read=read)

    with (
        mock.patch.multiple(ranking, FEW_ROWS=-1, FEW_CHUNKS=-1, find_view=find_view),
        mock.patch.object(terms, "find_view", find_view),
        mock.patch.multiple(large, PLACE_NS=cost, SPARSE=sparse),
    ):
        yield

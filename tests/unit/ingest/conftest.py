"""A root, and an indexer for it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sesamed.exclusion import Exclusion
from sesamed.ingest.decode import ReadLimits
from sesamed.ingest.indexer import Indexer
from sesamed.ingest.sweep import Root, Sweep
from sesamed.sources import SOURCES
from sesamed.store.index import Index
from tests.support.indexes import make_empty


@pytest.fixture(autouse=True)
def _never_blocks() -> None:
    """Not looked at here: most tests have no loop, and to look for one at every call of the system costs a tenth of the time."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def indexer(tmp_path: Path, root: Path) -> Iterator[Indexer]:
    """One that does nothing yet."""
    (tmp_path / "index.sqlite").write_bytes(make_empty())
    index = Index(str(tmp_path / "index.sqlite"))
    sweep = Sweep([Root("pi", str(root))], Exclusion(), {"pi": SOURCES["pi"].shapes})
    yield Indexer(index, SOURCES, sweep, ReadLimits(), keep_gone_days=30)
    index.close()

"""Directories that cost little."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.indexes import make_directory


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory where there is a file system for that: hundreds of tests fill one, and on a disk that is a tenth of their time."""
    path = make_directory("unit-")
    yield path
    try:
        shutil.rmtree(path)
    except PermissionError:  # a test has closed a directory to its owner
        for top, directories, _ in os.walk(path):
            for name in directories:
                os.chmod(os.path.join(top, name), 0o700)
        shutil.rmtree(path)

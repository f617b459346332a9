"""A sesamed that says it is of another version: of_version.py VERSION [FLAGS]."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import sesamed

sesamed.__version__ = sys.argv.pop(1)

from sesamed import cli  # noqa: E402  # the version comes first

sys.exit(cli.main())

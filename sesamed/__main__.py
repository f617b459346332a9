"""`python -m sesamed`."""

import sys

from sesamed.cli import main

sys.exit(main())

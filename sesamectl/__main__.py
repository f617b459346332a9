"""`python -m sesamectl`."""

import sys

from sesamectl.cli import main

sys.exit(main())

"""`python -m ditto_core`."""

import sys

from .cli import main

sys.exit(main())

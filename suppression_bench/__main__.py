"""`python -m suppression_bench` is `bench`."""

import sys

from suppression_bench.cli import main

sys.exit(main())

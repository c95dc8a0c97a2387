"""`python -m indexer` runs the daemon; `rebuild` and `audit` are described by `--help`."""

import sys

from indexer.cli import main

sys.exit(main())

"""`python -m indexer` runs the daemon; `--help` lists the other commands."""

import sys

from indexer.cli import main

sys.exit(main())

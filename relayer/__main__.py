"""`python -m relayer`: runs until stopped by a signal."""

from __future__ import annotations

import sys

from core.service.daemon import run_daemon
from relayer.service import setup

sys.exit(run_daemon("relayer", setup, metrics_port=lambda settings: settings.relayer_metrics_port))

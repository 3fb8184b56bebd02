"""Where tables are printed."""

import os
import sys

from rich.console import Console

PIPED_WIDTH = 120


def screen() -> Console:
    """As wide as the terminal; where there is none and COLUMNS does not say, wide enough for the tables."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else PIPED_WIDTH)

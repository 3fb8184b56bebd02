"""Where tables are printed, and how text of the input gets there: it may not steer the terminal."""

import os
import sys

from rich.console import Console
from rich.markup import escape

PIPED_WIDTH = 120


def screen() -> Console:
    """As wide as the terminal; where there is none and COLUMNS does not say, wide enough for the tables."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else PIPED_WIDTH, emoji=False)


def printable(text: str) -> str:
    """`text` with a visible stand-in for each character that prints as none: "\\x1b" for an escape."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def markup(text: str) -> str:
    """Markup of rich that shows `text` as it is, but for what does not print."""
    return escape(printable(text))

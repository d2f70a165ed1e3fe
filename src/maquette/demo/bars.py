"""Bars in a terminal, plain text in a pipe."""

from __future__ import annotations

from collections.abc import Sequence

from rich.bar import Bar
from rich.console import Console
from rich.table import Table

WIDTH = 32


def bars(out: Console, values: Sequence[tuple[str, float, str]]) -> None:
    """One line for each (name, length, text); the longest bar fills the width."""
    most = max((length for _, length, _ in values), default=0.0) or 1.0
    shown = Table(box=None, show_header=False, pad_edge=False)
    for name, length, words in values:
        shown.add_row(name, Bar(most, 0, length, width=WIDTH), words)
    out.print(shown)

"""`maquette demo`."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(rows: Annotated[int, typer.Option(min=1_000, help="How many people to invent.")] = 100_000) -> None:
    """Tell the whole story on an embedded, generated table.

    Example: maquette demo
    """
    from maquette.demo import tell

    tell(rows)

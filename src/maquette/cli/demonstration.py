"""`maquette demo` and `bench`: the story on an embedded table, and how fast it goes here."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from maquette.cli.options import Json
from maquette.cli.showing import print_json

Part = Literal["counting", "noise", "ledger", "session"]


def demo(
    rows: Annotated[int, typer.Option(min=20_000, help="How many people to invent.")] = 100_000,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A new folder (default: a temporary one).")] = None,
) -> None:
    """Tell the whole story on an embedded, generated table: plan, release, ask, sample, online, report.

    Example: maquette demo
    """
    from maquette.demo import tell

    tell(rows, folder=out)


def bench(
    part: Annotated[Part | None, typer.Argument(help="One part only.", show_default=False)] = None,
    rows: Annotated[int, typer.Option(min=1_000, help="How many people to invent.")] = 100_000,
    json: Json = False,
) -> None:
    """How fast this installation is, on generated people: counting, noise, ledger, session.

    Example: maquette bench session
    """
    from maquette.demo import PARTS, measure

    figures = []
    for chosen in PARTS if part is None else (part,):
        for figure in measure(chosen, rows):
            figures.append(figure)
            if not json:
                typer.echo(f"{figure.part:10} {figure.name:64} {figure.value:>14,.3g} {figure.unit}")
    if json:
        print_json({"rows": rows, "figures": [asdict(figure) for figure in figures]})

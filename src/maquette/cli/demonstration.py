"""`maquette demo` and `bench`: a demonstration on an embedded table, and the speed of this machine."""

from __future__ import annotations

import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from maquette.cli.options import Json
from maquette.cli.showing import print_json

Part = Literal["counting", "noise", "ledger", "session"]


def demo(
    rows: Annotated[int, typer.Option(min=20_000, help="Number of generated rows.")] = 100_000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to create (default: a temporary one).")
    ] = None,
    json: Json = False,
) -> None:
    """Run the whole workflow on a generated table: plan, release, ask, sample, online, report.

    Example: maquette demo
    """
    from maquette.demo import FILES, tell

    if not json:
        tell(rows, folder=out)
        return
    from rich.console import Console

    began = time.perf_counter()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        home = tell(rows, Console(file=nowhere), out)
    made = {word: str(home / name) for word, name in FILES.items() if (home / name).exists()}
    print_json({"folder": str(home), **made, "rows": rows, "seconds": time.perf_counter() - began})


def bench(
    part: Annotated[Part | None, typer.Argument(help="Run this part only.", show_default=False)] = None,
    rows: Annotated[int, typer.Option(min=1_000, help="Number of generated rows.")] = 100_000,
    json: Json = False,
) -> None:
    """Measure how fast this installation is, on generated rows: counting, noise, ledger, session.

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

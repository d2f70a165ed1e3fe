"""`maquette audit`: try to refute the privacy of this installation, on generated tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Json, busy, check_out
from maquette.cli.showing import print_json


def audit(
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Also write an HTML page.")] = None,
    questions: Annotated[int, typer.Option(min=1, help="Number of random questions to ask.")] = 2_000,
    samples: Annotated[int, typer.Option(min=400, help="Samples per table for the lower bounds on epsilon.")] = 8_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random questions.")] = 0,
    mutants: Annotated[bool, typer.Option(help="Also check that deliberately broken variants are detected.")] = True,
    json: Json = False,
) -> None:
    """Audit this installation in about a minute: samplers, exact losses, order of steps, random questions, mutants.

    It uses generated tables, reads no data of yours and charges nothing. Exits with 1 if it finds a fault.

    Example: maquette audit --out audit.html
    """
    from maquette.audit import audit as run

    if out is not None:
        check_out(out)
    with busy("auditing this installation"):
        found = run(questions=questions, samples=samples, seed=seed, mutants=mutants)
    if out is not None:
        out.write_text(found.to_html(), encoding="utf-8")
    if json:
        print_json(found.as_dict())
    else:
        typer.echo(str(found))
        if out is not None:
            typer.echo(f"{out}: open it in a browser; it needs no network")
    if not found.passed:
        raise typer.Exit(1)

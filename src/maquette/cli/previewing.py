"""`maquette preview`: every step on invented rows, before anything is spent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Delta, Json, busy
from maquette.cli.showing import answer_facts, loss_facts, print_json


def preview(
    schema: Annotated[Path, typer.Argument(help="Schema file of the table.")],
    *,
    rows: Annotated[int, typer.Option(min=1, max=10**6, help="Number of invented rows.")] = 20_000,
    epsilon: Annotated[float, typer.Option(help="Privacy budget to try.")] = 1.0,
    delta: Delta = 1e-9,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the release and its report.")] = Path("preview"),
    json: Json = False,
) -> None:
    """Plan, release, ask and report on invented rows, to see what analysts will get. No real row is read.

    Example: maquette preview people.schema.toml --out preview
    """
    import numpy as np

    import maquette as mq
    from maquette.demo import foresee, stand_in
    from maquette.reports import report, test_data

    declared = mq.Schema.load(schema).evenly_cut()
    out.mkdir(parents=True, exist_ok=True)
    invented = stand_in(declared, rows, np.random.default_rng())
    if (unit := declared.unit) is not None and unit.column not in declared:  # people with as many rows as are counted
        people = np.arange(rows) // unit.max_contributions
        invented = invented.append_column(unit.column, [people])
    most = 1 if unit is None else unit.max_contributions
    with (
        busy("trying it on invented rows"),
        mq.Curator(mq.open_table(invented, declared), mq.Budget(epsilon=epsilon, delta=delta)) as curator,
    ):
        planned = foresee(declared, rows=rows, epsilon=epsilon, delta=delta, max_contributions=most)
        made = mq.release(curator, mq.marginals(declared, k=min(2, len(declared))))
    made.save(out / "preview.maq")
    page = report(made, out / "preview.html", truth=test_data(invented), title="Preview on invented rows")
    first = declared.columns[0]
    name = first.name if first.name.isidentifier() else '"' + first.name.replace('"', '""') + '"'
    asked = f"SELECT {name}, count(*) FROM t GROUP BY {name}"
    answer = made.answer(asked)
    if json:
        facts = {"release": str(out / "preview.maq"), "report": str(page), "rows": rows}
        print_json({**facts, "cost": loss_facts(made.cost), "asked": asked, "answer": answer_facts(answer)})
        return
    typer.echo(planned)
    typer.echo(f"\n{rows:,} rows were invented from {schema} and released at epsilon {epsilon:g}.")
    typer.echo(f"{asked}\n{answer}")
    typer.echo(
        f"{page}: open it in a browser. It compares the release with the invented rows; a real report never does."
    )
    typer.echo(f"next, with your table: maquette schema check FILE --schema {shlex.quote(str(schema))}")

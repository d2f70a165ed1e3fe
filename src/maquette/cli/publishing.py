"""`maquette release`, `ask` and `sample`: publish once, then ask for free."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli import options
from maquette.cli.interrupt import Interruptible
from maquette.cli.showing import answer_facts, loss_facts, print_json
from maquette.cli.telling import INTERRUPTED

if TYPE_CHECKING:
    import pyarrow as pa

GAUSSIAN = ("auto", "combined", "everything", "graphical")  # methods that select nothing, under a budget with a delta
NOTHING = 1e-9  # share of a budget below which nothing can be bought with the rest
Published = Annotated[Path, typer.Argument(help="Release file written by `maquette release`.")]


def release(
    source: options.Source,
    *,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output file.")],
    delta: options.Delta = 0.0,
    ways: Annotated[int, typer.Option("--ways", "-k", min=1, help="Publish all tables of this many columns.")] = 3,
    method: Annotated[
        str, typer.Option(help="Release method; auto suits most tables. A wrong name lists all.")
    ] = "auto",
    spend: Annotated[
        float | None, typer.Option(help="Epsilon to spend on this release (default: all that remains).")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Column that synthetic rows will be used to predict: its tables get more of the budget."),
    ] = None,
    start: options.StartFile = None,
    table: options.TableName = None,
    check: Annotated[
        bool, typer.Option(help="Use 4% of the price to certify how far the finished model is from the rows.")
    ] = True,
    accounting: options.Books = "auto",
    relation: options.Neighbours = "add-remove",
    unit: options.Unit = None,
    max_contributions: options.Most = 1,
    ledger: options.LedgerFile = None,
    missing: options.Missing = None,
    delimiter: options.Delimiter = None,
    sums: Annotated[
        list[str] | None,
        typer.Option("--sums", help="Numeric column whose sums and averages are measured as well; may be repeated."),
    ] = None,
    bins_epsilon: options.BinsEpsilon = None,
    cut_epsilon: Annotated[
        float | None,
        typer.Option(
            help="Epsilon to spend once on estimating how many people and rows --max-contributions leaves out."
        ),
    ] = None,
    cut_cap: Annotated[
        int, typer.Option(min=1, help="With --cut-epsilon: maximum rows counted as left out per person.")
    ] = 10,
    trust_draft: options.Trust = False,
    json: options.Json = False,
) -> None:
    """Publish a model of the table: answers, synthetic rows and a certificate, in one file.

    Example: maquette release people.csv --schema people.schema.toml --epsilon 1 --delta 1e-9 --out people.maq
    """
    import maquette as mq
    from maquette.releases import plain_name

    if table is not None:
        plain_name(table)
    options.check_out(out)  # before the charge: an unwritable release would be paid for all the same
    kept = options.ledger_of(source) if ledger is None else ledger
    with (
        Interruptible(kept) as interrupt,
        options.opened(
            source,
            schema,
            epsilon=epsilon,
            delta=delta,
            accounting=accounting,
            relation=relation,
            unit=unit,
            max_contributions=max_contributions,
            ledger=kept,
            missing=missing,
            delimiter=delimiter,
            gaussian=method in GAUSSIAN,
            trust_draft=trust_draft,
            bins_epsilon=bins_epsilon,
        ) as curator,
    ):
        if cut_epsilon is not None:
            curator.count_cut(cap=cut_cap, epsilon=cut_epsilon)
        workload = mq.marginals(curator.schema, k=min(ways, len(curator.schema)), sums=sums or ())
        settings: dict[str, Any] = {} if target is None else {"target": target}
        settings |= {"check": check, "start": start, "table": options.called(source, table, curator)}
        made = mq.release(curator, workload, method=method, epsilon=spend, **settings)
        digest = made.save(out)
        remaining = curator.remaining
        little = remaining.units < curator.budget.limit * NOTHING
    if json:
        facts: dict[str, Any] = {"file": str(out), "digest": digest, "method": made.certificate.method}
        facts["table"] = made.certificate.table
        facts["checked"] = made.certificate.checked
        facts["cut"] = made.certificate.cut
        facts["start"] = made.certificate.start
        facts["explanation"] = list(made.explanation)
        facts["interrupted"] = interrupt.happened
        print_json({**facts, "cost": loss_facts(made.cost), "remaining": loss_facts(remaining)})
        raise typer.Exit(INTERRUPTED if interrupt.happened else 0)
    if interrupt.happened:
        typer.echo(f"interrupted: {out} holds a model of what had been measured; it is valid and paid for")
    typer.echo(f"{out}: {made.certificate.method}, {made.certificate.relation}, cost {made.cost}")
    if made.certificate.counted is not None:
        typer.echo(made.certificate.counted)
    if made.certificate.cut is not None:
        typer.echo(made.certificate.cut)
    if made.certificate.checked is not None:
        typer.echo(made.certificate.checked)
    if made.certificate.start is not None:
        typer.echo(made.certificate.start)
    typer.echo("remaining nothing: the budget is spent" if little else f"remaining {remaining}")
    typer.echo(f"digest {digest}   (publish it beside the file; `maquette verify` checks it)")
    shown = shlex.quote(str(out))
    typer.echo(f'next: maquette ask {shown} "SELECT count(*) FROM {made.certificate.table}"')
    typer.echo(f"or:   maquette report {shown} --out {shlex.quote(str(out.with_suffix('.html')))}")
    raise typer.Exit(INTERRUPTED if interrupt.happened else 0)


def ask(
    published: Published,
    question: Annotated[str, typer.Argument(help="SQL, or a condition such as 'age >= 65 AND smoker'.")],
    *,
    confidence: options.Confidence = 0.95,
    public: options.Lookups = None,
    cuts: options.CutsRule = "refuse",
    json: options.Json = False,
) -> None:
    """Answer a question from a release. It costs nothing.

    Example: maquette ask people.maq "SELECT avg(income) FROM people WHERE age >= 65"
    """
    import maquette as mq
    from maquette.query import named_table

    lookups = dict(map(named_table, public or ()))
    answer = mq.Release.load(published).answer(question, confidence=confidence, public=lookups, cuts=cuts)
    if json:
        print_json(answer_facts(answer))
    else:
        typer.echo(str(answer))
        bound = next((one.counted for one in answer.numbers if one.counted is not None), None)
        counted = "" if bound is None else f"; {bound}, and no interval covers the rows left out"
        several = "s" * (len(answer.numbers) > 1)
        typer.echo(f"   {answer.bound} interval{several} at {answer.confidence:.0%}{counted}", err=True)


def sample(
    published: Published,
    rows: Annotated[int, typer.Option(min=1, help="Number of synthetic rows.")] = 10_000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Output file, .parquet or .csv (default: print CSV).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Draw synthetic rows from a release. They belong to no real person and cost nothing.

    Any number of rows is written in batches, about a million a second, in little memory.

    Example: maquette sample people.maq --rows 10000 --out synthetic.parquet
    """
    import maquette as mq

    if out is not None and out.suffix not in (".csv", ".parquet"):
        raise typer.BadParameter(f"{out} ends in {out.suffix!r}; expected .parquet or .csv", param_hint="--out")
    if out is not None:
        options.check_out(out)
    release = mq.Release.load(published)
    if out is None and json:
        table = release.sample(rows)
        print_json([{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()])
    elif out is None:
        _print_csv(release.stream(rows))
    else:
        release.write(out, rows)
        if json:
            print_json({"file": str(out), "rows": rows})
        else:
            typer.echo(f"{out}: {rows:,} synthetic rows")


def _print_csv(tables: Iterator[pa.Table]) -> None:
    """Batch after batch, with the names of columns first."""
    from pyarrow import csv

    for i, table in enumerate(tables):
        csv.write_csv(table, sys.stdout.buffer, csv.WriteOptions(include_header=i == 0))


def _plain(value: object) -> object:
    """A value that JSON can hold; dates as text."""
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)

"""Options that several commands share, and the table they open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from maquette.curator import Curator, PrivateTable
    from maquette.schema import Schema

Accounting = Literal["auto", "pure", "zcdp", "gdp"]
Relation = Literal["add-remove", "replace"]

SOURCE = (
    "Private table: a CSV, Excel or Parquet file, several files as a pattern in quotes, or duckdb://file.db?table=name."
)
Source = Annotated[str, typer.Argument(help=SOURCE)]
SchemaFile = Annotated[Path, typer.Option("--schema", "-s", help="Schema file (TOML) of the table.")]
Epsilon = Annotated[float, typer.Option(help="Total privacy budget of this table; fixed when its ledger is created.")]
Delta = Annotated[float, typer.Option(help="Delta of the budget: 0, or well below 1 / rows.")]
Books = Annotated[Accounting, typer.Option("--accounting", help="Composition method: pure, zCDP or Gaussian DP.")]
Neighbours = Annotated[
    Relation,
    typer.Option(
        "--relation", help="Neighbouring tables: add-remove hides whether a unit is present, replace hides its values."
    ),
]
Unit = Annotated[
    str | None, typer.Option("--unit", help="Column that identifies the privacy unit (default: each row is one unit).")
]
Most = Annotated[int, typer.Option("--max-contributions", min=1, help="Maximum rows kept per privacy unit.")]
LedgerFile = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger file (default: the source's name with .ledger).")
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", help='Text that stands for a missing value, such as "?"; may be repeated.'),
]
Delimiter = Annotated[
    str | None,
    typer.Option("--delimiter", help="Field delimiter of a CSV file (default: the one in the schema, else a comma)."),
]
BinsEpsilon = Annotated[
    float | None,
    typer.Option(
        "--bins-epsilon", help='Epsilon to spend once on drawing the bins of columns declared with bins = "auto".'
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust-draft",
        help="Use a drafted schema that nobody has reviewed; the certificate and the report say so.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Seconds = Annotated[
    float | None,
    typer.Option("--deadline", help="Release every answer this many seconds after it was asked, to hide timing."),
]
Lookups = Annotated[
    list[str] | None,
    typer.Option(
        "--public",
        help="Public table for JOIN; NAME=FILE:KEY,COLUMN:LOW..HIGH adds bounds of a number; may be repeated.",
    ),
]
CutsRule = Annotated[
    Literal["refuse", "between"],
    typer.Option(
        "--cuts",
        help="What to do with a comparison inside a bin: refuse it, or give the range between the bin's two ends.",
    ),
]
TableName = Annotated[
    str | None, typer.Option("--table", help="Name of the table in questions (default: the name of the file).")
]
StartFile = Annotated[
    Path | None,
    typer.Option("--start", help="Public file to start from: a release (.maq) or a table (.csv, .parquet)."),
]
Confidence = Annotated[float, typer.Option(help="Confidence level of the intervals.")]


@contextmanager
def opened(
    source: str,
    schema: Path,
    *,
    epsilon: float,
    delta: float,
    accounting: Accounting,
    relation: Relation,
    unit: str | None,
    max_contributions: int,
    ledger: Path | None,
    missing: list[str] | None,
    delimiter: str | None,
    gaussian: bool = False,
    trust_draft: bool = False,
    bins_epsilon: float | None = None,
) -> Iterator[Curator]:
    """Open a source, with a ledger on disk beside it; `gaussian` says that only Gaussian noise is to be drawn."""
    import maquette as mq

    declared = mq.Schema.load(schema)
    refuse_draft(declared, schema, trust_draft)
    kept = ledger_of(source) if ledger is None else ledger
    budget = mq.Budget(epsilon=epsilon, delta=delta, accounting=books_of(accounting, delta, kept, gaussian=gaussian))
    table = table_of(
        source, declared, unit=unit, max_contributions=max_contributions, missing=missing, delimiter=delimiter
    )
    with mq.Curator(table, budget, ledger=kept, relation=relation) as curator:
        draw_bins(curator, bins_epsilon)
        yield curator


def draw_bins(curator: Curator, epsilon: float | None) -> None:
    """Draw the bins of columns declared with bins = "auto", if this ledger has not; the price must be given."""
    from maquette.curator import settle_bins

    for name in settle_bins(curator, epsilon, "--bins-epsilon {}"):
        bins = curator.schema[name].known
        typer.echo(f"{name}: {bins} bins were drawn; they are now fixed for this ledger", err=True)


def books_of(accounting: Accounting, delta: float, ledger: Path, *, gaussian: bool) -> str | None:
    """The composition method where the command leaves it open: a ledger keeps its own, a new one gets the cheaper.

    It is public and decided before any row is read, so it costs nothing. Gaussian accounting buys about 9% less
    variance where every access is Gaussian, and less than zCDP for anything else. None is the default of `Budget`.
    """
    from maquette.errors import MaquetteError
    from maquette.privacy.ledger import inspect

    if accounting != "auto":
        return accounting
    if delta == 0:
        return None
    if not ledger.exists():
        return "gdp" if gaussian else None
    try:
        currency = inspect(ledger).currency
    except MaquetteError:  # whatever is wrong with the ledger is said when it is opened
        return None
    return currency if currency in ("zcdp", "gdp") else None


def refuse_draft(declared: Schema, path: Path, trusted: bool) -> None:
    """Refuse a draft that nobody reviewed, before anything is read or charged."""
    from maquette.errors import SchemaError

    if declared.guessed and not trusted:
        raise SchemaError(
            f"{str(path)!r} is a draft: its bounds and levels were read from the rows, and nobody reviewed it",
            expected="a schema that says what you would declare without looking at the rows",
            advice=f"walk through it with `maquette schema edit {path}`, or delete the line `guessed = true` after a "
            "review. --trust-draft uses it as it is, and the certificate says so. Nothing was charged",
        )


def table_of(
    source: str,
    declared: Schema,
    *,
    unit: str | None,
    max_contributions: int,
    missing: list[str] | None,
    delimiter: str | None,
) -> PrivateTable:
    """Read the table of a source; on a terminal, shows a spinner meanwhile."""
    import maquette as mq
    from maquette.errors import OutOfDomain

    with busy(f"reading {source}"):
        try:
            return mq.open_table(
                source,
                declared,
                privacy_unit=unit,
                max_contributions=max_contributions,
                missing=missing or (),
                delimiter=delimiter,
            )
        except OutOfDomain as error:
            where = _first_misfits(source, declared, [n for n in error.counts if n in declared], missing, delimiter)
            raise OutOfDomain(f"{source}: {error.happened}{where}. Nothing was charged", error.counts) from None


def _first_misfits(
    source: str, declared: Schema, columns: list[str], missing: list[str] | None, delimiter: str | None
) -> str:
    """Where the first value of each column stands that does not fit, and its shape; for the custodian's terminal."""
    from maquette.curator import first_misfits

    if not columns:
        return ""
    plain = "*" not in source and source.endswith((".csv", ".tsv", ".txt"))
    above = (declared.file.skip or 0) + (declared.file.names is None) if plain else 0
    told = [
        f"{one.column}: {'line' if plain else 'row'} {one.row + above:,}, written like '{one.shape}'"
        for one in first_misfits(source, declared, columns, missing=missing or (), delimiter=delimiter)
    ]
    breaks = "; line breaks inside quotes are not counted" if plain else ""
    return f". First of them (x is a letter, 9 a digit{breaks}): {'; '.join(told)}"


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show a spinner on a terminal while work of unknown length runs; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def check_out(path: Path) -> None:
    """Refuse an output file that cannot be written, before anything is spent."""
    from maquette.errors import DataError

    folder = path.parent
    if path.is_dir():
        raise DataError(f"{str(path)!r} is a folder", advice="give the name of a file. Nothing was charged.")
    if not folder.is_dir():
        raise DataError(
            f"there is no folder {str(folder)!r} to write {path.name!r} to", advice="create it. Nothing was charged."
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise DataError(f"{str(path)!r} cannot be written: permission denied", advice="Nothing was charged")


def ledger_of(source: str) -> Path:
    """The default ledger file of a source."""
    name = source.removeprefix("duckdb://").partition("?")[0]
    return Path(name).with_suffix(".ledger")


def table_name(source: str) -> str:
    """A table's name, from the name of its file."""
    stem = Path(source.partition("?")[0]).stem.lower()
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem)[:63]
    return kept if kept and not kept[0].isdigit() else f"t_{kept}"[:63]


def called(source: str, table: str | None, curator: Curator) -> str:
    """The name of the table in questions: the one given, or that of its file."""
    return table or curator.table_name or table_name(source)

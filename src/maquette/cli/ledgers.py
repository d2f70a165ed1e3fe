"""`maquette ledger`: export a ledger, and bring it into PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maquette.cli.options import Json
from maquette.cli.showing import print_json

app = typer.Typer(no_args_is_help=True, help="Export a ledger, verify the export, and bring it into PostgreSQL.")

LedgerPath = Annotated[Path, typer.Argument(help="Ledger file; its key is beside it.")]


@app.command()
def export(
    ledger: LedgerPath,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to create.")],
    json: Json = False,
) -> None:
    """Verify a ledger and write all its events to one file, signed by its key.

    Example: maquette ledger export people.ledger --out people.export
    """
    from maquette.privacy.ledger import export_ledger

    receipt = export_ledger(ledger, out)
    if json:
        print_json({"file": str(out), "events": receipt.seq, "head": receipt.head})
    else:
        typer.echo(f"{out}: {receipt.seq:,} events, head {receipt.head}")


@app.command()
def migrate(
    ledger: LedgerPath,
    address: Annotated[str, typer.Argument(help="Database, as postgresql://user@host/database.")],
    *,
    name: Annotated[str, typer.Option(help="Name of the table in the service's settings.")],
    json: Json = False,
) -> None:
    """Bring a ledger file into PostgreSQL. The file is renamed, so that the budget cannot be spent twice.

    Its key file stays where it is: name it as ledger_key in the service's settings.

    Example: maquette ledger migrate people.ledger postgresql://maquette@database/maquette --name people
    """
    import tempfile

    from maquette.privacy.ledger import export_ledger, import_to_postgres

    retired = ledger.with_name(ledger.name + ".moved")
    key = ledger.with_name(ledger.name + ".key").read_bytes()
    with tempfile.TemporaryDirectory(dir=ledger.parent) as folder:
        export_ledger(ledger, Path(folder) / "export")
        receipt = import_to_postgres(Path(folder) / "export", address, name=name, key=key)
    ledger.rename(retired)
    if json:
        print_json({"events": receipt.seq, "head": receipt.head, "retired": str(retired)})
    else:
        typer.echo(f"{receipt.seq:,} events are in PostgreSQL now, head {receipt.head}; the file is {retired}")

"""`maquette ledger`: verify, export, back up, restore and move a ledger, and give it a new key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli.helping import Commands
from maquette.cli.options import Json
from maquette.cli.showing import print_json

if TYPE_CHECKING:
    from maquette.privacy.ledger import Place

app = Commands(no_args_is_help=True, help="Verify, export, back up, restore or move a ledger, or give it a new key.")

Where = Annotated[str, typer.Argument(help="Ledger file, or its database as postgresql://user@host/database.")]
Name = Annotated[str | None, typer.Option(help="Name of the table, for a ledger in PostgreSQL.")]
Key = Annotated[Path | None, typer.Option(help="Key file (default: beside the ledger file).")]
AnchorFile = Annotated[Path | None, typer.Option("--anchor", help="Anchor file of the ledger.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="File to create.")]
Export = Annotated[Path, typer.Argument(help="File that `ledger export` or `ledger backup` wrote.")]


@app.command()
def verify(ledger: Where, *, name: Name = None, key: Key = None, anchor: AnchorFile = None, json: Json = False) -> None:
    """Verify a ledger in a file or in PostgreSQL: every event, and every sum that follows from them.

    It may be open meanwhile. An export is verified too.

    Example: maquette ledger verify postgresql://maquette@database/maquette --name people --key people.key
    """
    from maquette.privacy.ledger import read_ledger

    place = _place(ledger, name, key)
    replay, _ = _exported(Path(ledger), place) if _is_export(ledger) else read_ledger(place, anchor)
    limit, spent = replay.budgets["table"]
    facts = {"events": replay.seq, "head": replay.receipt.head, "spent": spent, "limit": limit}
    _say(json, facts, f"{shown(ledger)}: verified, {replay.seq:,} events, {spent / limit:.1%} of the budget is spent")


@app.command()
def export(
    ledger: Where, *, out: Out, name: Name = None, key: Key = None, anchor: AnchorFile = None, json: Json = False
) -> None:
    """Verify a ledger and write all its events to one file, signed by its key.

    Example: maquette ledger export people.ledger --out people.export
    """
    from maquette.privacy.ledger import export_ledger

    receipt = export_ledger(_place(ledger, name, key), out, anchor=anchor)
    facts = {"file": str(out), "events": receipt.seq, "head": receipt.head}
    _say(json, facts, f"{out}: {receipt.seq:,} events, head {receipt.head}")


@app.command()
def backup(
    ledger: Where,
    *,
    folder: Annotated[Path, typer.Option("--folder", help="Where backups are kept.")],
    name: Name = None,
    key: Key = None,
    anchor: AnchorFile = None,
    json: Json = False,
) -> None:
    """Export a ledger to a folder of backups, also while it is in use. If nothing changed, nothing is written.

    The key is not in it: keep it elsewhere. `maquette ledger restore` brings a backup back.

    Example: maquette ledger backup people.ledger --folder /backups
    """
    from maquette.privacy.ledger import export_ledger, read_ledger

    place = _place(ledger, name, key)
    replay, _ = read_ledger(place, anchor)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    out = folder / f"{name or Path(ledger).name}-{replay.seq:012d}-{replay.receipt.head[:8]}.export"
    if not out.exists():
        export_ledger(place, out, anchor=anchor)
    facts = {"file": str(out), "events": replay.seq, "head": replay.receipt.head}
    _say(json, facts, f"{out}: backed up, with at least {replay.seq:,} events")


@app.command(name="import")
def import_(
    export: Export,
    to: Annotated[str, typer.Argument(help="Ledger file to create, or a database as postgresql://...")],
    *,
    name: Name = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Create a ledger from an export. After a loss, use `restore` instead.

    The exported ledger must not be used again: the same budget would be spent twice.

    Example: maquette ledger import people.export people.ledger --key old/people.ledger.key
    """
    from maquette.privacy.ledger import write_ledger

    place = _place(to, name, key)
    replay, rows = _exported(export, place)
    write_ledger(place, replay, rows, place.secret())
    facts = {"events": replay.seq, "head": replay.receipt.head}
    _say(json, facts, f"{shown(to)}: {replay.seq:,} events, head {replay.receipt.head}")


@app.command()
def restore(
    export: Export,
    to: Annotated[str, typer.Argument(help="Ledger file to create, or a database as postgresql://...")],
    *,
    name: Name = None,
    key: Key = None,
    anchor: AnchorFile = None,
    json: Json = False,
) -> None:
    """Restore a backup after a loss; what may have been spent since it was made is charged.

    Leave the head file of the lost ledger in place, or name its anchor: then only what they record is charged.
    Otherwise all that remains is charged: recorded answers can be read, and no new question can be asked.

    Example: maquette ledger restore people.ledger-000000000840-9c1d22ab.export people.ledger
    """
    from maquette.privacy import UNITS_PER_ONE
    from maquette.privacy.ledger import restore_ledger

    place = _place(to, name, key)
    found = restore_ledger(_exported(export, place), place, place.secret(), anchor)
    facts = {"charged": found.charged, "spent": found.spent, "limit": found.limit, "head": found.receipt.head}
    lost, spent, limit = (units / UNITS_PER_ONE for units in (found.charged, found.spent, found.limit))
    _say(json, facts, f"{shown(to)}: {lost:.6g} charged as lost, {spent:.6g} of {limit:.6g} spent ({found.currency})")


@app.command()
def migrate(
    ledger: Where,
    to: Annotated[str, typer.Argument(help="Database as postgresql://user@host/database, or a file to create.")],
    *,
    name: Name = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Move a ledger from a file to PostgreSQL, or back. The old one is renamed: a budget cannot be spent twice.

    Stop every process that uses it first. The key stays where it is: name it as ledger_key in the service's
    settings. A new file gets a copy beside it.

    Example: maquette ledger migrate people.ledger postgresql://maquette@database/maquette --name people
    """
    from maquette.privacy.ledger import Place, moving, read_ledger, write_ledger

    source = _place(ledger, name, key)
    target = Place(to, name, None if not to.startswith("postgres") else source.key_path)
    with moving(source):
        replay, rows = read_ledger(source)
        write_ledger(target, replay, rows, source.secret())
    facts = {"events": replay.seq, "head": replay.receipt.head, "retired": shown(ledger)}
    _say(
        json,
        facts,
        f"{replay.seq:,} events are now in {shown(to)}, head {replay.receipt.head}; the old ledger is retired",
    )


@app.command(name="rotate-key")
def rotate(ledger: Where, *, name: Name = None, key: Key = None, anchor: AnchorFile = None, json: Json = False) -> None:
    """Give a ledger a new key, in place. Stop every process that uses it first.

    The old key is kept beside the new one as .old, for backups made under it. Receipts of earlier charges name heads of
    the old chain. If it was interrupted, run it again: it continues where it stopped.

    Example: maquette ledger rotate-key people.ledger
    """
    from maquette.privacy.ledger import rotate_key

    place = _place(ledger, name, key)
    receipt = rotate_key(place, anchor)
    facts = {"events": receipt.seq, "head": receipt.head, "key": str(place.key_path)}
    _say(json, facts, f"{place.key_path}: a new key was written; the ledger's head is now {receipt.head}")


def _place(where: str, name: str | None, key: Path | None) -> Place:
    from maquette.privacy.ledger import Place

    return Place(where, name, key)


def _is_export(where: str) -> bool:
    """Whether a file is an export: it begins with a line of JSON."""
    path = Path(where)
    if "://" in where or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(2) == b"[1"


def _exported(path: Path, place: Place) -> Any:
    from maquette.privacy.ledger import read_export

    return read_export(path, place.chain())


def shown(where: str) -> str:
    """A ledger as it may be told: the address of a database holds its password."""
    return "PostgreSQL" if where.startswith("postgres") else where


def _say(as_json: bool, facts: dict[str, Any], text: str) -> None:
    if as_json:
        print_json(facts)
    else:
        typer.echo(text)

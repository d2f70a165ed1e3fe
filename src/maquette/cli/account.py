"""`maquette budget` and `verify`: what a ledger says, and whether it is intact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maquette.cli.ledgers import Key, Name, Where, shown
from maquette.cli.options import Json
from maquette.cli.showing import loss_facts, print_json

if TYPE_CHECKING:
    from maquette.privacy.ledger import Description

AT = 1e-9
RECOVER = "Repair a ledger that lost its log or newest copy, and charge what may have been spent. Changes the ledger."


def budget(
    ledger: Where,
    delta: Annotated[float, typer.Option(help="Delta used to convert to epsilon.")] = AT,
    name: Name = None,
    key: Key = None,
    json: Json = False,
) -> None:
    """Show what was spent, what remains, and every charge. The table is not needed.

    Example: maquette budget people.ledger
    """
    from maquette.privacy import ACCOUNTANTS
    from maquette.privacy.ledger import Place, inspect

    account = inspect(Place(ledger, name, key))
    name = account.currency.partition(" ")[0]
    accountant, at = ACCOUNTANTS[name], 0.0 if name == "pure" else delta
    losses = {
        "limit": accountant.loss(account.limit, at),
        "spent": accountant.loss(account.spent, at),
        "remaining": accountant.loss(account.limit - account.spent, at),
    }
    if json:
        charges = [
            {"seq": c.seq, "analyst": c.analyst, "state": c.state, **loss_facts(accountant.loss(c.units, at))}
            for c in account.charges
        ]
        print_json({**{word: loss_facts(loss) for word, loss in losses.items()}, "charges": charges})
        return
    typer.echo(f"{shown(ledger)}: {account.protects}")
    for word, loss in losses.items():
        typer.echo(f"{word:10} {loss}")
    for analyst, units in account.by_analyst.items():
        typer.echo(f"  {analyst}: {accountant.loss(units, at)}")
    for charge in account.charges:
        what = _words(charge.described)
        typer.echo(f"{charge.seq:6} {charge.state:9} {charge.analyst:12} {accountant.loss(charge.units, at)}  {what}")


def verify(
    path: Annotated[Path, typer.Argument(help="Release or ledger file.")],
    *,
    ledger: Annotated[Path | None, typer.Option(help="Ledger that must contain the release's charges.")] = None,
    digest: Annotated[str | None, typer.Option(help="Digest published with the release.")] = None,
    anchor: Annotated[Path | None, typer.Option(help="Anchor file of the ledger.")] = None,
    recover: Annotated[bool, typer.Option("--recover", help=RECOVER)] = False,
    json: Json = False,
) -> None:
    """Verify a release (checksum and certificate) or a ledger (every entry, and that it is not an older copy).

    Example: maquette verify people.maq --ledger people.ledger --digest 3f2a...
    """
    if _is_release(path):
        _refuse_for_a_release(path, anchor=anchor, recover=recover)
        facts = _release_facts(path, ledger, digest)
    else:
        facts = {**(_recover(path, anchor) if recover else {}), **_ledger_facts(path, anchor)}
    if json:
        print_json(facts)
        return
    for word, value in facts.items():
        typer.echo(f"{word:12} {value}")


def _is_release(path: Path) -> bool:
    from maquette.errors import UnreadableSource

    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError as error:
        raise UnreadableSource(
            f"{str(path)!r} cannot be read ({error.strerror})", advice="give a release or a ledger"
        ) from None


def _refuse_for_a_release(path: Path, *, anchor: Path | None, recover: bool) -> None:
    if anchor is not None or recover:
        raise typer.BadParameter(f"--anchor and --recover are for ledgers; {path} is a release")


def _recover(path: Path, anchor: Path | None) -> dict[str, Any]:
    from maquette.privacy import ACCOUNTANTS
    from maquette.privacy.ledger import recover

    done = recover(path, anchor=anchor)
    name = done.currency.partition(" ")[0]
    accountant, at = ACCOUNTANTS[name], 0.0 if name == "pure" else AT
    if not done.charged and done.spent < done.limit:
        return {"recovered": "nothing more was charged"}
    return {
        "recovered": f"{accountant.loss(done.charged, at)} was charged as lost",
        "remaining": str(accountant.loss(done.limit - done.spent, at)),
    }


def _ledger_facts(path: Path, anchor: Path | None) -> dict[str, Any]:
    from maquette.privacy.ledger import inspect

    account = inspect(path, anchor=anchor)
    return {
        "verified": "ledger: the chain, every sum and every state",
        "relation": account.protects,
        "charges": len(account.charges),
        "head": f"{account.receipt.seq} {account.receipt.head}",
    }


def _release_facts(path: Path, ledger: Path | None, digest: str | None) -> dict[str, Any]:
    import maquette as mq
    from maquette.errors import LedgerMismatch
    from maquette.privacy.ledger import inspect

    certificate = mq.Release.load(path, digest=digest).certificate
    checked = ["seal"] if digest is None else ["seal", "published digest"]
    if ledger is not None:
        account = inspect(ledger)
        absent = Counter(certificate.charges) - Counter(charge.description for charge in account.charges)
        if absent or account.spent < (certificate.ledger_units or certificate.units):
            raise LedgerMismatch(
                f"the charges of {str(path)!r} are not in {str(ledger)!r}: the release was paid from another ledger, "
                "or one of the two was changed",
                advice="Look for the ledger that paid for it",
            )
        checked.append("every charge is in the ledger")
    return {
        "verified": f"release: {', '.join(checked)}",
        "method": certificate.method,
        "cost": repr(certificate.cost),
        "protects": certificate.protects,
        "relation": certificate.relation,
        "charges": len(certificate.charges),
        "schema": certificate.schema,
    }


def _words(described: Description) -> str:
    """A charge in a few words: its door and the columns it read."""
    columns = described.columns
    named = "; ".join(" x ".join(each) or "rows" for each in columns[:3])
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return f"{described.door} {named}{more}".rstrip()

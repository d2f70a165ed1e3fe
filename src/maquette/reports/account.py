"""Account: the charges behind a release or a session, each with its price, from their public descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from maquette.errors import DataError
from maquette.privacy import ACCOUNTANTS, Accountant
from maquette.privacy.ledger import Description

MOST = 40  # lines of a waterfall
FEWER = 20  # lines after grouping; grouped charges have no names worth reading
DOORS = {
    "measure": "measure",
    "count_cut": "count what was left out",
    "measure_error": "measure errors",
    "select_worst": "choose",
    "select_best": "choose",
    "guard": "open a guard",
    "guard.test": "test a guess",
}
REST = "everything else on this ledger"
CURRENCIES = {"pure": "epsilon", "basic": "epsilon", "zcdp": "rho", "gdp": "mu squared"}


@dataclass(frozen=True)
class Line:
    """One charge, or several similar ones: what was done, its price in units, and whether this publication paid it."""

    what: str
    units: int
    own: bool = True
    charges: int = 1

    @property
    def door(self) -> str:
        """The words for the door alone."""
        return next((words for words in DOORS.values() if self.what.startswith(words)), self.what.partition(" ")[0])


def accountant_of(currency: str) -> Accountant:
    """The accountant of a currency, by its name in ledgers."""
    name = currency.partition(" ")[0]
    if name not in ACCOUNTANTS:
        raise DataError(f"charges are counted in {currency!r}", advice=f"this version knows {', '.join(ACCOUNTANTS)}")
    return ACCOUNTANTS[name]


def priced(charges: Sequence[Description], currency: str) -> list[Line]:
    """Every charge with its price, recomputed from the events it describes."""
    accountant = accountant_of(currency)
    return [Line(words(charge), _price(charge, accountant)) for charge in charges]


def _price(charge: Description, accountant: Accountant) -> int:
    try:
        return sum(times * accountant.units(event) for event, times in charge.events)
    except ArithmeticError:  # anyone can write a certificate, with numbers beyond floats
        raise DataError("the price of a charge cannot be computed", advice="get the original file") from None


def words(charge: Description) -> str:
    """A charge in a few words: its door and the columns it read."""
    columns = charge.columns
    if isinstance(charge.note, dict) and "bins" in charge.note:
        return f"draw bins of {', '.join(dict.fromkeys(name for each in columns for name in each))}"
    if isinstance(charge.note, dict) and isinstance(charge.note.get("sums"), list):
        return f"add up values of {', '.join(map(str, charge.note['sums']))}"
    named = "; ".join(" x ".join(each) or "number of rows" for each in columns[:2])
    if len(columns) > 2:  # the number first: a chart cuts off long labels
        named = f"{len(columns):,} tables ({named}, ...)"
    count = len(charge.questions)
    among = f" among {count:,} tables" if not columns and count > 1 else ""
    return f"{DOORS.get(charge.door, charge.door)} {named}{among}".rstrip()


def marked(lines: Sequence[Line], units: int) -> list[Line]:
    """Mark lines charged before this publication with `own` false; the publication paid the last `units`.

    A ledger counts everything; a publication's own charges are the last ones that add up to its price. If no tail adds
    up to it (someone else charged in between), all lines stay marked as its own.
    """
    tail = 0
    for start in range(len(lines), -1, -1):
        if tail == units:
            return [replace(line, own=i >= start) for i, line in enumerate(lines)]
        if start:
            tail += lines[start - 1].units
    return list(lines)


def apart(lines: Sequence[Line], own: int, total: int) -> list[Line]:
    """The lines of a publication, which add up to `own` units; the rest of the ledger is one line before them.

    If its charges are not known one by one, they become one line too.
    """
    listed = list(lines) if sum(line.units for line in lines) == own else [Line("this publication", own)]
    return [Line(REST, total - own, own=False), *listed] if total > own else listed


def grouped(lines: Sequence[Line], most: int = MOST, fewer: int = FEWER) -> list[Line]:
    """Group neighbouring charges into `fewer` lines if there are more than `most`; free charges are left out."""
    paid = [line for line in lines if line.units]
    if len(paid) <= most:
        return paid
    kept: list[Line] = []
    for own in (False, True):
        part = [line for line in paid if line.own == own]
        if not part:
            continue
        room = max(1, fewer * len(part) // len(paid))
        size = -(-len(part) // room)
        kept += [_sum(part[i : i + size]) for i in range(0, len(part), size)]
    return kept


def _sum(part: Sequence[Line]) -> Line:
    if len(part) == 1:
        return part[0]
    doors = list(dict.fromkeys(line.door for line in part))
    return Line(f"{len(part)} charges: {', '.join(doors)}", sum(line.units for line in part), part[0].own, len(part))


def numbered(lines: Sequence[Line]) -> list[str]:
    """The text of each line, preceded by the number of its charge or charges."""
    found, before = [], 0
    for line in lines:
        first, before = before + 1, before + line.charges
        found.append(f"{first}. {line.what}" if line.charges == 1 else f"{first} to {before}. {line.what}")
    return found

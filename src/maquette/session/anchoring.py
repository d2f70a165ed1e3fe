"""Anchoring: when the number of rows may be bought once for all counts, and for how much (`precision.anchor`)."""

from __future__ import annotations

import math
from typing import NamedTuple

from maquette.session.knowledge import Knowledge
from maquette.session.precision.bases import ANCHOR
from maquette.session.precision.shares import anchored_after
from maquette.session.pricing import Pricing

ROWS = 3.0  # counts that are paid for the number of rows


class Anchor(NamedTuple):
    """The number of rows as it would be bought: its price, the place after which it comes, and its variance."""

    units: int
    place: int
    variance: float


def anchor_of(knowledge: Knowledge, pricing: Pricing) -> Anchor | None:
    """What could be bought now; None where counts are not measured from half of the rows, or it is there already."""
    record, widths = knowledge.record, knowledge.widths
    if widths.account is None or not widths.account.division.centres or not widths.simultaneous:
        return None
    if pricing.pure or record.cells or ANCHOR in record.wholes or knowledge.transcript.rows_are_public:
        return None
    precision = ROWS * pricing.precision(knowledge.tolerance, widths.fresh(1, record.directs + 1))
    if not math.isfinite(precision):
        return None
    return Anchor(pricing.price(ANCHOR, precision), anchored_after(record.directs, record.before), 1 / precision)

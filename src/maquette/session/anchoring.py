"""Anchoring: when the number of rows may be bought once for all counts, and for how much (`precision.anchor`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from maquette.query import RangeBasis, hardest_of, is_ordered
from maquette.session.knowledge import Knowledge
from maquette.session.order import Order
from maquette.session.precision.bases import ANCHOR, is_whole, plain, whole_kind
from maquette.session.precision.shares import anchored_after
from maquette.session.pricing import Pricing

ROWS = 3.0  # counts that are paid for the number of rows
# The same where it is bought with a bare table in place of one of this kind: a share of the counts that that costs.
BY_KIND: Mapping[RangeBasis, float] = {"steps": 0.7, "waves": 0.92}
TABLES = 2  # ordered columns in a schema, at least, for that: each may get a table that shares it
DEARER = 1.25  # most that it may add to the price of a first table at once


class Anchor(NamedTuple):
    """The number of rows as it would be bought: its price, the place after which it comes, and its variance."""

    units: int
    place: int
    variance: float

    def beside(self, order: Order) -> Order:
        """The order with the number of rows."""
        return Order({ANCHOR: self.units, **order.parts}, order.directs, order.rents)


def anchor_of(knowledge: Knowledge, pricing: Pricing, counts: float = ROWS) -> Anchor | None:
    """What could be bought now; None where counts are not measured from half of the rows, or it is there already."""
    record, widths = knowledge.record, knowledge.widths
    if widths.account is None or not widths.account.division.centres or not widths.simultaneous:
        return None
    if pricing.pure or record.cells or ANCHOR in record.wholes or knowledge.transcript.rows_are_public:
        return None
    precision = counts * pricing.precision(knowledge.tolerance, widths.fresh(1, record.directs + 1))
    if not math.isfinite(precision):
        return None
    return Anchor(pricing.price(ANCHOR, precision), anchored_after(record.directs, record.before), 1 / precision)


def early_anchor(knowledge: Knowledge, pricing: Pricing, order: Order) -> Anchor | None:
    """What could be bought with the first table of one column that is ordered; None without one, or for one alone."""
    single = [key for key in order.parts if is_whole(key) and len(plain(key)) == 1]
    kinds = [(kind, plain(key)) for key in single if (kind := whole_kind(key)) is not None and kind in BY_KIND]
    schema = knowledge.transcript.schema
    if not kinds or not knowledge.widths.shares_rows or sum(is_ordered(schema, name) for name in schema.names) < TABLES:
        return None
    counts = max(BY_KIND[kind] * hardest_of(schema, kind, columns) for kind, columns in kinds)
    return anchor_of(knowledge, pricing, counts)

"""Factors: the whole numbers of a record whose product is added up, as the wall holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from maquette.curator import plain
from maquette.curator.compiled import Integers, Records, clamped, frozen
from maquette.curator.engines.api import Amount
from maquette.query import ends_of, forms as given
from maquette.schema import Schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Factor:
    """A whole number for every record, from `low` to `high`.

    It is that of the record's level in the column at `position`, or the record's amount in whole numbers of an odd
    `step`, to the nearest.
    """

    low: int
    high: int
    amount: Amount | None = None
    step: int = 1
    position: int = 0
    numbers: Integers | None = None

    def of(self, records: Records, amounts: Mapping[Amount, Integers]) -> Integers:
        """The numbers of some records, clamped; a missing value has the amount 0, hence the number 0."""
        if self.numbers is not None:
            found = self.numbers[records[:, self.position]]
        else:
            assert self.amount is not None
            found = (amounts[self.amount] + self.step // 2) // self.step
        return clamped(found, self.low, self.high)


def copied(factor: given.Factor) -> given.Factor:
    """A copy of a question's factor, in plain whole numbers."""
    name = str.__str__(factor.column)
    if isinstance(factor, given.LevelNumbers):
        return given.LevelNumbers(name, tuple(plain.whole(number, "a number") for number in factor.numbers))
    low, high, centre, step = (plain.whole(getattr(factor, end), end) for end in ("low", "high", "centre", "step"))
    return given.ValueSteps(name, low, high, centre, step)


def factor_of(schema: Schema, factor: given.Factor) -> Factor:
    """A copied factor as the wall evaluates it, between the ends from which its question is priced."""
    low, high = ends_of(schema, factor)
    if isinstance(factor, given.LevelNumbers):
        numbers = frozen(np.array(factor.numbers, dtype=np.int64))
        return Factor(low=low, high=high, position=schema.position(factor.column), numbers=numbers)
    amount = Amount(factor.column, factor.low, factor.high, factor.centre)
    return Factor(low=min(low, 0), high=max(high, 0), amount=amount, step=factor.step)  # 0 is a missing value's

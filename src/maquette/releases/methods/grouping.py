"""Grouping: how far the levels of a column are told apart in tables, by predicted error; public inputs only.

Groups are first made as coarse as noise suggests. That assumes that neighbours are alike, and some are not: a number of
months tells the season in its remainder. One look at errors compares pairs of groups with pairs of finer groups. What a
pair loses by groups is the difference; what finer ones cost is more noise. The choice is the smaller predicted error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from maquette.estimates import Columns, Merging, wanted
from maquette.releases.methods.selection import groups
from maquette.schema import Ordered, Schema

FEWEST, KEPT = 8, 16  # groups that every column keeps, and levels up to which it keeps them all
ORDERED = (20.0, 128)  # how levels of ordered columns are merged: the rise and the most groups of `selection.groups`
NAMED = (1.0, 128)  # of others, and of finer groups: two names may mean opposite things, so only the rarest are merged
FINER = 1.3  # times as many groups that a finer grouping has at least
SURE = 2.0  # standard deviations of noise that a finer grouping must gain

Values = NDArray[np.float64]
Groups = NDArray[np.int64]


def grouped(schema: Schema, name: str, counts: Values, deviation: float, *, fine: bool = False) -> Groups:
    """The groups of a column, from its noisy counts and the standard deviation of a cell in later tables."""
    rise, most = ORDERED if isinstance(schema[name], Ordered) and not fine else NAMED
    fewest = len(counts) if len(counts) <= KEPT else FEWEST
    return groups(schema, name, counts, deviation, rise=rise, fewest=fewest, most=most)


def finer(merging: Merging, found: Mapping[str, Groups]) -> dict[str, Merging]:
    """For every column whose finer groups are many more: the merging with these and the other columns as they are."""
    listed = {name: own for name, own in found.items() if own.max() + 1 >= FINER * merging.merged[name].size}
    return {name: Merging(merging.schema, {**merging.groups, name: own}) for name, own in listed.items()}


@dataclass(frozen=True)
class PairLook:
    """The pairs of one look: each in groups, and once more for each of its columns that has finer ones."""

    sets: Sequence[Columns]
    merging: Merging
    finer: Mapping[str, Merging]

    @cached_property
    def entries(self) -> list[tuple[Columns, Merging]]:
        """The tables that are asked for."""
        more = [(s, merging) for name, merging in self.finer.items() for s in self.sets if name in s]
        return [*((s, self.merging) for s in self.sets), *more]

    def products(self, probabilities: Mapping[str, Values]) -> list[Values]:
        """The tables of independent columns with these probabilities of levels."""

        def side(merging: Merging, name: str) -> Values:
            return np.bincount(merging.groups[name], weights=probabilities[name]).astype(np.float64)

        return [np.multiply.outer(*(side(merging, name) for name in s)) for s, merging in self.entries]

    def compared(
        self, name: str, errors: Values, noise: Callable[[Merging, Columns], float], weights: Mapping[Columns, float]
    ) -> Compared:
        """The pairs of one column, from the errors of all entries."""
        first = {s: float(error) for s, error in zip(self.sets, errors, strict=False)}
        own = [(s, float(e)) for (s, m), e in zip(self.entries, errors, strict=True) if m is self.finer[name]]
        each = (
            [first[s] for s, _ in own],
            [error for _, error in own],
            [noise(self.merging, s) for s, _ in own],
            [noise(self.finer[name], s) for s, _ in own],
            [weights[s] for s, _ in own],
        )
        return Compared(*(np.asarray(values, dtype=np.float64) for values in each))

    def refined(self, names: Sequence[str], errors: Values) -> tuple[Merging, dict[Columns, float]]:
        """The merging in which these columns have their finer groups, and the errors of pairs in it."""
        found = dict(zip(self.sets, map(float, errors), strict=False))
        kept = {id(self.finer[name]) for name in names}
        for (s, merging), error in zip(self.entries, errors, strict=True):
            if id(merging) in kept:
                found[s] = max(found[s], float(error))
        own = {name: self.finer[name].groups[name] for name in names}
        return Merging(self.merging.schema, {**self.merging.groups, **own}), found


@dataclass(frozen=True)
class Compared:
    """Pairs of one column: their errors and noises (in rows) in groups and in finer groups, and their weights."""

    errors: Values
    finer: Values
    noises: Values
    finer_noises: Values
    weights: Values

    def gain(self, price: float) -> float:
        """By how much finer groups lower the predicted error, where a whole charge costs `price`."""
        lost = np.maximum(self.finer - self.errors, 0.0)
        kept = wanted(list(self.errors), list(self.noises), list(self.weights)).costs(price)
        fine = np.maximum(self.finer, self.errors)
        split = wanted(list(fine), list(self.finer_noises), list(self.weights)).costs(price)
        return float((self.weights * lost + kept - split).sum())

    def sure(self, price: float, doubt: float) -> bool:
        """Whether the gain is beyond what noise of the errors, of standard deviation `doubt`, could make of none."""
        return self.gain(price) > SURE * doubt * math.sqrt(2 * float((self.weights**2).sum()))

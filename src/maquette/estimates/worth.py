"""Worth: how to split a charge over tables, by what each is expected to gain; public inputs only.

A table whose error without a measurement is e (rows, half an L1 distance) and whose noise, if the whole charge were
spent on it, is u, has after a share s of the charge about the error of linear shrinkage,

    e / sqrt(1 + (s + s0) t),   t = (e / u)^2,

where s0 was spent on it before: e if the noise is large, u / sqrt(s) if it is small. The sum of these errors over all
tables, each with its weight, is convex in the shares. Where it is least, 1 + (s + s0) t = (weight e t / 2 nu)^(2/3)
wherever s > 0, for one number nu: tables that are not worth their noise get nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.residuals import Columns
from maquette.schema import Schema

HALVINGS = 100
COLUMN = 0.5  # noise that is left in a column after smoothing, as a share of what was added
TABLE = 0.4  # noise that is left in a table after a model was fitted to it and its neighbours
ECHO = 0.5  # part of a pair's error that stronger pairs between its columns leave
MEAN = 0.4  # half the mean of |noise|, in standard deviations
GROUPS = 16  # levels of a column that later tables are expected to distinguish
COLUMN_ERROR = 0.3  # fraction of rows by which a column errs that was not measured
MEDIAN = {2: 0.035, 3: 0.008}  # by which larger tables err, before anything is known
SPREAD = 1.0  # standard deviation of the logarithm of these errors
POINTS = np.linspace(-2.0, 2.6, 47)  # of the normal law of the logarithm
LISTED = 500  # sets of one size that a plan looks at, if there are more

Values = NDArray[np.float64]


def _expected(size: int, median: float | None = None, spread: float = SPREAD) -> list[tuple[float, float]]:
    """Errors of tables, as fractions of rows, and the share of each: a column always errs, few larger tables do."""
    if size == 1:
        return [(COLUMN_ERROR, 1.0)]
    densities = np.exp(-(POINTS**2) / 2)
    errors = (MEDIAN[size] if median is None else median) * np.exp(spread * POINTS)
    return list(zip(map(float, errors), map(float, densities / densities.sum()), strict=True))


def believed(
    errors: Values, doubt: float, rows: float, size: int, median: float | None = None, *, spread: float = SPREAD
) -> Values:
    """What to think of noisy errors, in rows: the mean of what could have given them, as tables usually err.

    Without it the tables with the largest noise would be bought. `doubt` is the standard deviation of the noise; if it
    is infinite, every table is expected to err as tables usually do. `median` replaces their usual error, as a fraction
    of rows, and `spread` the standard deviation of its logarithm.
    """
    usual, shares = (np.asarray(each) for each in zip(*_expected(size, median, spread), strict=True))
    usual = usual * rows
    if np.isinf(doubt):
        return np.full(len(errors), float(usual @ shares))
    apart = (errors[:, None] - usual) / max(doubt, 0.1 * float(usual.min()))
    logs = np.log(shares) - apart**2 / 2
    logs -= logs.max(axis=1, keepdims=True)
    chances = np.exp(logs)
    found: Values = (chances @ usual) / chances.sum(axis=1)
    # Beyond the usual errors, and where noise is far below the distance between them, the noisy error itself is better.
    clear = (errors > max(float(usual.max()), 4 * doubt)) | (doubt < 0.05 * errors)
    return np.where(clear, errors, found)


@dataclass(frozen=True)
class Wanted:
    """What may be measured: the expected error and noise of each table, its weight and what was spent on it."""

    errors: Values
    noises: Values
    weights: Values
    before: Values
    copies: Values

    def bought(self, price: float) -> Values:
        """What is worth spending on each table where a whole charge costs `price` in weighted error."""
        errors = np.maximum(self.errors, 1e-9)
        slopes = (errors / self.noises) ** 2
        level = np.maximum(1.0, (self.weights * errors * slopes / 2 / price) ** (2 / 3))
        found: Values = self.copies * np.maximum(0.0, (level - 1.0) / slopes - self.before)
        return found

    def price(self) -> float:
        """The weighted error that a whole charge is worth where all of it is spent as well as it can be."""
        errors = np.maximum(self.errors, 1e-9)
        gains = self.weights * errors * (errors / self.noises) ** 2 / 2
        low, high = 1e-60, max(float(gains.max(initial=0.0)), 1e-59)
        for _ in range(HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.bought(middle).sum() > 1.0 else (low, middle)
        return high

    def shares(self) -> Values:
        """The best split of one charge: all zero if nothing has an error."""
        found = self.bought(self.price())
        total = float(found.sum())
        return found / total if total > 0 else found

    def costs(self, price: float) -> Values:
        """The weighted error that is left of each table, with what is worth spending on it at this price."""
        shares = self.bought(price)
        found: Values = self.copies * self.weights * self.after(shares) + price * shares
        return found

    def after(self, shares: Values) -> Values:
        """The errors that are left when each of `shares` is spent."""
        errors = np.maximum(self.errors, 1e-9)
        slopes = (errors / self.noises) ** 2
        left: Values = errors / np.sqrt(1.0 + (shares / self.copies + self.before) * slopes)
        return left


def wanted(
    errors: Sequence[float], noises: Sequence[float], weights: Sequence[float], before: Sequence[float] | None = None
) -> Wanted:
    """Tables with these errors and noises, each once."""
    spent = np.zeros(len(errors)) if before is None else np.asarray(before, dtype=np.float64)
    first, second, third = (np.asarray(each, dtype=np.float64) for each in (errors, noises, weights))
    return Wanted(first, second, third, before=spent, copies=np.ones(len(errors)))


def unexplained(errors: dict[Columns, float]) -> dict[Columns, float]:
    """The errors of pairs that a model of the strongest ones would leave.

    Two columns that both depend on a third depend on each other. A pair outside the spanning forest of largest errors
    has a path of larger ones between its columns, which explains part of it: ECHO of its error is expected to remain.
    """
    root: dict[str, str] = {}

    def top(name: str) -> str:
        while root.get(name, name) != name:
            name = root[name]
        return name

    found: dict[Columns, float] = {}
    for pair in sorted(errors, key=lambda each: (-errors[each], each)):
        one, other = (top(name) for name in pair)
        found[pair] = errors[pair] if one != other else ECHO * errors[pair]
        root[one] = other
    return {pair: found[pair] for pair in errors}


def noise_of(cells: float, deviation: float, *, column: bool = False) -> float:
    """The error that noise of this standard deviation in every cell leaves in a fitted table, in rows."""
    return (COLUMN if column else TABLE) * MEAN * cells * deviation


def weights_of(tables: Iterable[Columns], size: int) -> dict[Columns, float]:
    """Every set of `size` columns inside a table of the workload, and how many tables contain it."""
    found: dict[Columns, float] = {}
    for table in tables:
        for part in itertools.combinations(table, size):
            found[part] = found.get(part, 0.0) + 1.0
    return found


def split(
    schema: Schema, weights: dict[int, dict[Columns, float]], rows: float, deviation: float, spent: float
) -> dict[int, float]:
    """The shares of a charge for columns, pairs and triples, before anything but the number of rows is known.

    `weights` has the sets of every size, `deviation` is that of a cell if the whole charge were spent on one table, and
    `spent` is what was spent on the columns before, as a share of this charge.
    """
    errors, noises, worth, before, copies, sizes = [], [], [], [], [], []
    for size, sets in weights.items():
        listed = list(sets)
        if len(listed) > LISTED:
            listed = [listed[i] for i in np.random.default_rng(0).choice(len(listed), LISTED, replace=False)]
        for columns in listed:
            cells = math.prod(min(GROUPS, n) if size > 1 else n for n in schema.shape(columns))
            for error, share in _expected(size):
                errors.append(error * rows)
                noises.append(noise_of(cells, deviation, column=size == 1))
                worth.append(sets[columns])
                before.append(spent / len(sets) if size == 1 else 0.0)
                copies.append(share * len(sets) / len(listed))
                sizes.append(size)
    asked = Wanted(*(np.asarray(each, dtype=np.float64) for each in (errors, noises, worth, before, copies)))
    shares, kinds = asked.shares(), np.asarray(sizes)
    return {size: float(shares[kinds == size].sum()) for size in weights}

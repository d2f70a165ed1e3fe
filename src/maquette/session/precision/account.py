"""Account: how wide an interval must be so that all answers derived from Gaussian noise hold together.

The error of a question is a sum over the keys from which it is read: sum_k c_k M_k, where M_k adds up the noise of the
pieces of key k along the question, each times its precision p. A piece's precision is fixed before its noise is drawn,
so for any fixed numbers l_k the product of exp(l_k M_k - l_k^2 V_k / 2), with V_k = |w_k|^2 (sum of the p), has
expectation at most one for ever. The weights c_k may depend on all that was bought, before and after. That is paid for
by a change of measure: the l_k have a normal law, fixed beforehand, about what they should be (1 / precision, in the
end) if precisions turn out as expected, and how far they turn out otherwise enters the width. So one direction is
named, with as many bits as the question's name, and the price of not knowing the precisions is small where they are as
expected. The statement and its proof: docs/theory/all-together.md.

What precisions to expect follows from the schema and the first settings of a session alone: those that a single
question about the same columns would buy, for some questions of a small menu.

References: Robbins (1970), de la Peña, Klass and Lai (2004) for the method of mixtures; Donsker and Varadhan (1975).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.bounded import Bounded
from maquette.estimates import Columns
from maquette.schema import Schema
from maquette.session.precision import shares
from maquette.session.precision.bases import is_plain, numbers_of, plain, summed, whole_kind
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.naming import PRODUCT, set_bits
from maquette.session.precision.product_view import ProductView
from maquette.session.precision.screening import Screen
from maquette.session.precision.shares import Division
from maquette.session.precision.view import View

Values = NDArray[np.float64]

SETS = (1.0, 256.0)  # column sets that share what is bought
FINER = tuple((4.0**-i, 0.9 * 0.1**i) for i in range(12))  # scales of precision, and their shares of the doubt
CELL, HALF, SUM = 0.45, 0.45, 0.1  # shares of the questions after which precisions are expected
RANGES = 8.0  # ranges expected of the same columns, as in prices
MENUS = 1_024  # kept at a time, by columns, and by the declarations of columns
SCREENS = 256  # kept at a time, one for each set of keys
WIDTHS = 4_096  # kept at a time: a question is compared with the tolerance before it is answered
USUAL = 1  # numbers measured as asked before the first part
OFF = 0.25  # mean square by which the l_k differ from what is expected, as a share of it
OWN = 0.25  # the same for numbers of a question's own, whose weight in the answer is known


class Noise(NamedTuple):
    """One key in one question: variance of its noise alone, weight in the answer, and that variance's expectation."""

    variance: float
    weight: float
    expected: float
    spread: float = 0.0

    def seen(self, variance: float, spread: float) -> Noise:
        """With this variance expected; the weight of a question's own number is always known."""
        return self if self.spread else Noise(self.variance, self.weight, self.expected * variance, spread)


def reach(nats: float, noises: Iterable[Noise], scale: float) -> float:
    """The bound on the error, in units of 1 / `scale`; `nats` is minus the log of the doubt, one side.

    With a = l^2 V and n = c / l for the expected l = scale / precision, each key adds n^2 a / 2, what it would if l
    were known; (n - 1)^2 / (2 spread^2) for the difference; and log(1 + spread^2 a) / 2 for the allowance. The least
    over all common factors of n, in closed form.
    """
    level, slope, square = nats, 0.0, 0.0
    for variance, weight, expected, spread in noises:
        if not variance:
            continue
        a, n, tight = scale**2 * expected**2 / variance, weight * variance / expected, spread**-2
        level += (tight + math.log1p(a / tight)) / 2
        slope += n * tight
        square += n**2 * (a + tight) / 2
    return max(0.0, 2 * math.sqrt(level * square) - slope) / scale


Part = tuple[float, float, float, float | None, float]  # a noise: its expectation is for a precision, or known


def _reach(nats: float, parts: Iterable[Part], scale: float, unit: float) -> float:
    """`reach` for noises as an expectation sees them in these units, number for number, without making them."""
    level, slope, square, scaled = nats, 0.0, 0.0, scale**2
    for variance, weight, expected, precision, tight in parts:
        sure = expected if precision is None else expected * (unit / precision)
        a, n = scaled * sure**2 / variance, weight * variance / sure
        level += (tight + math.log1p(a / tight)) / 2
        slope += n * tight
        square += n**2 * (a + tight) / 2
    return max(0.0, 2 * math.sqrt(level * square) - slope) / scale


def reaches(nats: float, noises: Iterable[tuple[Noise, Values]], scale: float) -> Values:
    """`reach` for many questions that differ in the size of their noises alone."""
    level, slope, square = np.array(nats), np.array(0.0), np.array(0.0)
    for (variance, weight, expected, spread), sizes in noises:
        a, n, tight = sizes * (scale**2 * expected**2 / variance), weight * variance / expected, spread**-2
        there = sizes > 0
        level = level + there * (tight + np.log1p(a / tight)) / 2
        slope = slope + there * (n * tight)
        square = square + there * n**2 * (a + tight) / 2
    return np.asarray(np.maximum(0.0, 2 * np.sqrt(level * square) - slope) / scale)


@dataclass(frozen=True)
class Expectation:
    """For each key the precision to expect, in units of 1 / scale^2, and how far off it is; `share` of the doubt."""

    share: float
    level: float
    keys: Mapping[Columns, tuple[float, float]]
    other: tuple[float, float]  # of a key that is not expected at all

    def parts(self, noises: Mapping[Columns, Noise]) -> list[Part]:
        """The noises with the precisions to expect; those without a variance add nothing."""
        found: list[Part] = []
        for key, (variance, weight, expected, spread) in noises.items():
            if variance and spread:
                found.append((variance, weight, expected, None, spread**-2))
            elif variance:
                precision, off = self.keys.get(key, self.other)
                found.append((variance, weight, expected, precision, off**-2))
        return found

    def about(self, names: Mapping[str, str]) -> Expectation:
        """The same of other columns."""
        keys = {tuple([names.get(word, word) for word in key]): facts for key, facts in self.keys.items()}
        return Expectation(self.share, self.level, keys, self.other)

    def of(self, key: Columns, unit: float) -> tuple[float, float]:
        """The variance to expect of a key, in these units, and how far off it may be."""
        precision, spread = self.keys.get(key, self.other)
        return unit / precision, spread


Menu = tuple[Expectation, ...]


@dataclass(frozen=True)
class Account:
    """The first settings of a session, from which expectations follow, and how much doubt was spent before parts.

    `scales` holds the tolerance at which the session opened; or, where the number of rows was private, all values it
    may have had, on a grid, by what is known of the number of rows: the width holds for each of them.
    """

    schema: Schema
    rate: Callable[[Columns], float]
    reuse: Callable[[Columns, int, float], float]
    beta: float
    cells: bool
    scales: tuple[float, ...] = ()
    before: int | None = None
    anchor: int | None = None  # places before the number of rows was measured once for all counts
    division: Division = shares.NOW
    _menus: Bounded[Columns, Menu] = field(default_factory=lambda: Bounded(MENUS))
    _alike: Bounded[tuple[int, ...], tuple[Columns, Menu]] = field(default_factory=lambda: Bounded(MENUS))
    _screens: Bounded[tuple[Columns, ...], Screen] = field(default_factory=lambda: Bounded(SCREENS))
    _widths: Bounded[Hashable, float] = field(default_factory=lambda: Bounded(WIDTHS))

    @property
    def derived(self) -> float:
        """The share of everything derived from parts."""
        return shares.derived(self.division, self.before or 0, self.anchor)

    def nats(self, bits: float, *, beta: float | None = None) -> float:
        """Minus the log of the doubt, one side, of a question whose name has `bits` bits."""
        doubt = (self.beta if beta is None else beta) * self.derived / 2
        return bits * math.log(2) - math.log(doubt)

    def width(self, columns: Columns, noises: Mapping[Columns, Noise], bits: float, beta: float) -> float:
        """The half-width of a question; `noises` by key, with expectations for a precision of one."""
        if any(math.isinf(noise.variance) for noise in noises.values()):
            return math.inf  # a part of which nothing is known
        nats = self.nats(bits, beta=beta)
        key = columns, nats, *noises.items()
        if (found := self._widths.get(key)) is None:
            found = self._widths[key] = max(width for width, _, _, _ in self._best(columns, noises, nats))
        return found

    def widths(
        self,
        columns: Columns,
        noises: Mapping[Columns, Noise],
        bits: float,
        beta: float,
        sizes: Mapping[Columns, Values],
    ) -> Values:
        """The half-width of every cell of a table; `sizes` is, for each key, its variance relative to the largest."""
        nats, found = self.nats(bits, beta=beta), []
        for _, told, expected, unit in self._best(columns, noises, nats):
            keys = [noise.seen(*expected.of(key, unit**2)) for key, noise in noises.items()]
            found.append(reaches(told, zip(keys, sizes.values(), strict=True), expected.level / unit))
        return np.asarray(np.max(found, axis=0))

    def _best(
        self, columns: Columns, noises: Mapping[Columns, Noise], nats: float
    ) -> Iterator[tuple[float, float, Expectation, float]]:
        """For each scale the least width: with its nats, the expectation, and the unit of that expectation."""
        menu, noisy = self.menu(columns), {key: noise for key, noise in noises.items() if noise.variance}
        key = columns, *noisy
        if (screen := self._screens.get(key)) is None:
            own = {each: noise.spread for each, noise in noisy.items()}
            screen = self._screens[key] = Screen(menu, self.scales, FINER, own)
        for scale, near in zip(self.scales, screen.near(list(noisy.values()), nats), strict=True):
            found = []
            for place, step in near:
                expected, (finer, share) = menu[place], FINER[step]
                unit, told = finer * scale, nats - math.log(share * expected.share)
                width = _reach(told, expected.parts(noisy), expected.level / unit, unit**2)
                found.append((width, told, expected, unit))
            yield min(found, key=itemgetter(0))  # the first of equals

    def menu(self, columns: Columns) -> Menu:
        """What to expect where a question is about these columns; the same, by name, for columns declared alike."""
        if (found := self._menus.get(columns)) is None:
            found = self._menus[columns] = self._menu(columns)
        return found

    def _menu(self, columns: Columns) -> Menu:
        if self.cells:
            return tuple(self._expectations(columns))
        alike = tuple(map(_declarations(self.schema).__getitem__, columns))
        if (known := self._alike.get(alike)) is None:
            known = self._alike[alike] = columns, tuple(self._expectations(columns))
        names = dict(zip(known[0], columns, strict=True))
        return known[1] if known[0] == columns else tuple(one.about(names) for one in known[1])

    def _expectations(self, columns: Columns) -> Iterable[Expectation]:
        wide = sum(1 for column in self.schema.columns if column.size > 1)
        possible = float(math.comb(max(wide, len(columns)), len(columns)))
        sums = [] if self.cells else [name for name in columns if numbers_of(self.schema, name) is not None]
        kinds = [(CELL, self._reference(columns, lambda size: 1)), (HALF, self._reference(columns, _half))]
        for share, view in kinds + [(SUM / len(sums), self._sum(columns, name)) for name in sums]:
            for sets in SETS:
                yield self._expected(share / len(SETS), view, min(sets, possible))

    def _expected(self, share: float, view: View, sets: float) -> Expectation:
        cell = set_bits(len(self.schema), len(view.columns)) + PRODUCT + math.log2(self.schema.cells(view.columns))
        level = 2 * replace(self, before=USUAL, anchor=None).nats(min(view.description.name, cell))
        found: dict[Columns, float] = {}
        bases = {part: {part: 1.0, **_parts_alone(view.others.get(part, {}))} for part in view.gains}
        for part, gain in view.gains.items():
            reuse = self.reuse(part, len(view.columns), sets)
            for key, ratio in bases[part].items():
                times = reuse if is_plain(key) or summed(key) is not None else max(reuse, RANGES)
                found[key] = ratio * math.sqrt(gain * times / (ratio * self.rate(key)))
        best = {part: min(bases[part].items(), key=lambda one: one[1] * self.rate(one[0])) for part in view.gains}
        total = sum(view.gains[part] * ratio / found[key] for part, (key, ratio) in best.items())
        keys = {key: precision * total * level for key, precision in found.items()}
        ratios = {key: ratio for part in view.gains for key, ratio in bases[part].items()}
        spreads = {
            key: _spread(level * view.gains[plain(key)] * ratios.get(key, 1.0) / found[key] / total) for key in found
        }
        return Expectation(
            share, level, {key: (keys[key], spreads[key]) for key in keys}, (max(keys.values()), max(spreads.values()))
        )

    def _reference(self, columns: Columns, held: Callable[[int], int]) -> View:
        schema = self.schema
        rows = {name: (np.arange(schema[name].size) < held(schema[name].size)).astype(float) for name in columns}
        return self._view(rows)

    def _sum(self, columns: Columns, name: str) -> View:
        schema = self.schema
        rows = {each: (np.arange(schema[each].size) < 1).astype(float) for each in columns}
        numbers = numbers_of(schema, name)
        assert numbers is not None, "only a column with numbers is summed"
        return self._view(rows | {name: numbers / np.abs(numbers).max()})

    def _view(self, rows: Mapping[str, Values]) -> View:
        view = ProductView(self.schema, {name: row[None, :] for name, row in rows.items()}, {}, 1.0)
        if not self.cells:
            return view
        weights = reduce(np.multiply.outer, [rows[name] for name in self.schema.names])
        return CellView(self.schema, weights, (), view.description)


@lru_cache(16)
def _declarations(schema: Schema) -> dict[str, int]:
    """A number for each column, the same for columns that are declared alike but for their names."""
    numbers: dict[str, int] = {}
    said = {one.name: json.dumps({**one.as_dict(), "name": ""}, default=str, sort_keys=True) for one in schema.columns}
    return {name: numbers.setdefault(facts, len(numbers)) for name, facts in said.items()}


def _parts_alone(keys: Mapping[Columns, float]) -> dict[Columns, float]:
    """Without the keys of whole tables, which are not bought for one part of a question."""
    return {key: ratio for key, ratio in keys.items() if whole_kind(key) is None}


def _spread(level: float) -> float:
    """The deviation of l_k, as a share of what is expected, at which l_k that are off by OFF cost least."""
    return math.sqrt((OFF + math.sqrt(OFF**2 + 4 * OFF / level)) / 2)


def _half(size: int) -> int:
    return max(1, size // 2)

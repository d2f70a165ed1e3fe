"""Streams of ordinary analysis: what they cost in `mq.online`, beside simple strategies that know the stream.

Each stream is a list of SQL statements about a census table, asked one by one, with the price in counts (u) of the
best simple strategies for it: a cache of Gaussian answers, whole tables, and for ranges the square-root factorisation
and the binary tree of each set of columns. The references are given the number of rows; ours is told it
("rows given") or buys it.

The streams in `HELD_OUT` were written without a look at their prices, but these were seen later, when shares of the
doubt, the price of the number of rows and the moment at which whole tables are bought were chosen. Those in
`SET_ASIDE` were run once, after everything was chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import scipy
from numpy.typing import NDArray

import maquette as mq
from maquette.privacy import UNITS_PER_ONE
from online_sessions.workloads import census

SIZES = {
    "age": 32,
    "hours-per-week": 32,
    "fnlwgt": 32,
    "education-num": 16,
    "workclass": 9,
    "marital-status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "income>50K": 2,
}
SHORT = ("age", "hours", "weight", "education", "workclass", "marital", "occupation", "relationship", "race")
NAMES = dict(zip(SIZES, (*SHORT, "sex", "income"), strict=True))
LEVELS = {NAMES[name]: size for name, size in SIZES.items()}
ORDERED = ("age", "hours", "weight", "education")
PLAIN = ("workclass", "marital", "relationship", "race", "sex", "income")
ALPHA, EACH, TOGETHER = 0.05, 1e-3, 0.05

Texts = list[str]
Held = dict[str, tuple[int, int]]  # the levels held of each column, from and to


@dataclass(frozen=True)
class Stream:
    """Statements in the order they are asked, and the prices of simple strategies in counts, each answer at 1e-3."""

    name: str
    texts: Texts
    references: dict[str, float]
    groups: tuple[tuple[int, int], ...] = ()  # tables that answer them all: how many, and cells of each
    numbers: int = 0  # distinct numbers, where each is measured by itself
    ordered: tuple[tuple[str, ...], ...] = ()  # sets of columns of which ranges are asked, and whether prefixes alone
    prefixes: bool = False

    def together(self) -> dict[str, float]:
        """The prices when all answers hold together at 0.05: a union over what each strategy answers."""
        plain = scipy.stats.norm.isf(EACH / 2)

        def times(events: float) -> float:
            return float(scipy.stats.norm.isf(TOGETHER / 2 / events) / plain) ** 2

        found = {name: price * times(self.numbers) for name, price in self.references.items() if name != "tables"}
        if "tables" in self.references:
            found["tables"] = self.references["tables"] * times(sum(count * cells for count, cells in self.groups))
        return found

    def unaware(self) -> dict[str, float]:
        """The same for strategies that do not know which questions will come, nor how many.

        The j-th measurement has 6 / (pi j)^2 of the doubt, and a union over the numbers it may be asked for: one, the
        cells of a table, or all ranges of its columns. The square root still knows that ranges alone will come.
        """
        plain = scipy.stats.norm.isf(EACH / 2)

        def price(measured: Iterable[tuple[float, float]]) -> float:
            shares = (
                (count, TOGETHER * 6 / (math.pi * j) ** 2 / events) for j, (count, events) in enumerate(measured, 1)
            )
            return sum(count * float(scipy.stats.norm.isf(share / 2) / plain) ** 2 for count, share in shares)

        found = {}
        if self.groups:
            found["tables"] = price((times, times * cells) for times, cells in self.groups)
        else:
            asked = round(self.references["cache"])
            found["cache"] = price((1.0, self.numbers / asked) for _ in range(asked))
        if "square root" in self.references:
            ranges = not self.prefixes
            sizes = [[LEVELS[name] for name in columns] for columns in self.ordered]
            found["square root"] = price(
                (
                    math.prod(root_price(size, ranges=ranges) for size in each),
                    math.prod(size * (size + 1) // 2 if ranges else size for size in each),
                )
                for each in sizes
            )
        return found


def where(held: Held) -> str:
    """A conjunction of ranges."""
    return " AND ".join(
        f"{name} = {low}" if low == high else f"{name} BETWEEN {low} AND {high}" for name, (low, high) in held.items()
    )


def counted(held: Held) -> str:
    return f"SELECT count(*) FROM t WHERE {where(held)}"


@cache
def root(size: int) -> NDArray[np.float64]:
    """The square root of the matrix of all prefix sums: lower triangular, Toeplitz."""
    series = np.ones(size)
    for k in range(1, size):
        series[k] = series[k - 1] * (2 * k - 1) / (2 * k)
    return np.array([[series[i - j] if i >= j else 0.0 for j in range(size)] for i in range(size)])


@cache
def root_price(size: int, *, ranges: bool) -> float:
    """Counts for all prefixes, or all ranges, of a column with the square-root factorisation."""
    matrix = root(size)
    moved = float((matrix**2).sum(axis=0).max())
    rows = [
        matrix[j] - (matrix[i] if i >= 0 else 0.0) for j in range(size) for i in (range(-1, j) if ranges else (-1,))
    ]
    return moved * max(float(row @ row) for row in rows)


@cache
def tree_price(size: int, *, ranges: bool) -> float:
    """Counts for the same with a binary tree whose nodes have equal noise."""
    depth = math.ceil(math.log2(size))

    def nodes(low: int, high: int, start: int, width: int) -> int:
        if low >= start + width or high < start:
            return 0
        if low <= start and start + width - 1 <= high:
            return 1
        half = width // 2
        return nodes(low, high, start, half) + nodes(low, high, start + half, half)

    most = max(nodes(i, j, 0, 2**depth) for j in range(size) for i in (range(j + 1) if ranges else (0,)))
    return (depth + 1) * most


def _ordered(sets: set[tuple[str, ...]], price: Callable[..., float], *, ranges: bool) -> float:
    return sum(math.prod(price(LEVELS[name], ranges=ranges) for name in columns) for columns in sets)


def _range(rng: np.random.Generator, name: str) -> tuple[int, int]:
    low, high = sorted(int(level) for level in rng.integers(0, LEVELS[name], 2))
    return (low, high) if (low, high) != (0, LEVELS[name] - 1) else (1, LEVELS[name] - 1)


def _distinct(draw: Callable[[], Held], count: int) -> list[Held]:
    found: dict[str, Held] = {}
    while len(found) < count:
        held = draw()
        found[where(held)] = held
    return list(found.values())


def cdfs() -> Stream:
    """The distribution functions of three columns."""
    rng = np.random.default_rng(1)
    columns = ("age", "hours", "weight")
    texts = [counted({name: (0, level)}) for name in columns for level in range(LEVELS[name] - 1)]
    texts = [texts[i] for i in rng.permutation(len(texts))]
    sets = {(name,) for name in columns}
    found = {"cache": float(len(texts))}
    found |= {"square root": _ordered(sets, root_price, ranges=False), "tree": _ordered(sets, tree_price, ranges=False)}
    return Stream("CDFs of 3 columns", texts, found, numbers=len(texts), ordered=tuple(sorted(sets)), prefixes=True)


def ranges_1d() -> Stream:
    """Ranges of one of three columns."""
    rng = np.random.default_rng(2)
    columns = ("age", "hours", "weight")
    held = _distinct(lambda: {(name := columns[rng.integers(3)]): _range(rng, name)}, 417)
    sets = {(name,) for name in columns}
    found = {"cache": float(len(held))}
    found |= {"square root": _ordered(sets, root_price, ranges=True), "tree": _ordered(sets, tree_price, ranges=True)}
    return Stream("1-D ranges", [counted(one) for one in held], found, numbers=len(held), ordered=tuple(sorted(sets)))


def cdf_2d() -> Stream:
    """The joint distribution function of two columns, at 400 points."""
    rng = np.random.default_rng(3)
    cuts = [np.sort(rng.choice(31, 20, replace=False)) for _ in range(2)]
    held: list[Held] = [{"age": (0, int(i)), "hours": (0, int(j))} for i, j in itertools.product(*cuts)]
    texts = [counted(held[i]) for i in rng.permutation(len(held))]
    sets = {("age", "hours")}
    found = {"cache": float(len(texts)), "square root": _ordered(sets, root_price, ranges=False)}
    return Stream("2-D CDF", texts, found, numbers=len(texts), ordered=tuple(sets), prefixes=True)


def ranges_3d() -> Stream:
    """Ranges on one to three columns."""
    rng = np.random.default_rng(4)

    def draw() -> Held:
        columns = rng.choice(ORDERED, size=rng.integers(1, 4), replace=False)
        return {str(name): _range(rng, str(name)) for name in sorted(columns, key=ORDERED.index)}

    held = _distinct(draw, 599)
    return Stream("ranges on 1-3 columns", [counted(one) for one in held], {"cache": 599.0}, numbers=599)


def ranges_2d() -> Stream:
    """Ranges of two columns together."""
    rng = np.random.default_rng(10)
    held = _distinct(lambda: {name: _range(rng, name) for name in ("age", "hours")}, 300)
    found = {"cache": 300.0, "square root": _ordered({("age", "hours")}, root_price, ranges=True)}
    return Stream("2-D ranges", [counted(one) for one in held], found, numbers=300, ordered=(("age", "hours"),))


def averages() -> Stream:
    """Averages and sums of ordered columns within groups of others."""
    rng = np.random.default_rng(5)
    found: dict[str, int] = {}
    while len(found) < 174:
        column, function = ORDERED[rng.integers(4)], ("avg", "sum")[rng.integers(2)]
        names = rng.choice(PLAIN, size=rng.integers(1, 3), replace=False)
        held = {str(name): (level := int(rng.integers(LEVELS[str(name)])), level) for name in sorted(names)}
        found[f"SELECT {function}({column}) FROM t WHERE {where(held)}"] = 2 if function == "avg" else 1
    cost = sum(found.values())
    return Stream("avg and sum", list(found), {"cache": float(cost)}, numbers=cost)


def dashboards() -> Stream:
    """Group-by tables of one to three columns, then filtered ones, as pages of charts ask for them."""
    rng = np.random.default_rng(6)
    columns = (*PLAIN, "occupation", "education")
    sets = [
        c for k in (1, 2, 3) for c in itertools.combinations(columns, k) if math.prod(LEVELS[n] for n in c) <= 1_000
    ]
    chosen = [sets[i] for i in rng.permutation(len(sets))][:76]
    texts: Texts = []
    asked: set[tuple[str, ...]] = set()
    for group in chosen:
        texts.append(f"SELECT {', '.join(group)}, count(*) FROM t GROUP BY {', '.join(group)}")
        asked.add(group)
        for name in rng.choice([n for n in columns if n not in group], 5, replace=False):
            level = int(rng.integers(LEVELS[str(name)]))
            kept = group[:2]
            texts.append(f"SELECT {', '.join(kept)}, count(*) FROM t WHERE {name} = {level} GROUP BY {', '.join(kept)}")
            asked.add(tuple(sorted({*kept, str(name)})))
    return Stream("dashboards", *_tables(texts, asked))


def _tables(
    texts: Texts, asked: set[tuple[str, ...]]
) -> tuple[Texts, dict[str, float], tuple[tuple[int, int], ...], int]:
    texts = list(dict.fromkeys(texts))
    asked = {tuple(sorted(columns)) for columns in asked}
    groups = tuple((1, math.prod(LEVELS[name] for name in columns)) for columns in sorted(asked))
    return texts, {"cache": float(len(texts)), "tables": float(len(asked))}, groups, sum(cells for _, cells in groups)


def few(count: int) -> Stream:
    """A few questions that have nothing to do with each other."""
    held: list[Held] = [
        {"age": (8, 15)},
        {"occupation": (3, 3)},
        {"workclass": (5, 5), "sex": (1, 1)},
        {"race": (4, 4), "income": (1, 1)},
        {"hours": (20, 31), "marital": (2, 2)},
        {"education": (12, 12)},
        {"relationship": (0, 0), "race": (0, 0)},
        {"marital": (4, 4), "workclass": (2, 2)},
        {"weight": (0, 3)},
        {"occupation": (8, 8), "sex": (0, 0)},
    ]
    name = "1 question" if count == 1 else f"{count} questions"
    return Stream(name, [counted(held[i]) for i in range(10 - count, 10)], {"cache": float(count)}, numbers=count)


def quantile_search() -> Stream:
    """Held out: medians and quartiles of two columns within groups, each by bisection over a grid of cuts."""
    rng = np.random.default_rng(7)
    texts: dict[str, None] = {}
    for column, group in itertools.product(("age", "hours"), ("sex", "race", "marital")):
        for level in range(LEVELS[group]):
            low, high, part = 0, LEVELS[column] - 1, rng.random()
            while low < high:
                middle = (low + high) // 2
                texts[counted({column: (0, middle), group: (level, level)})] = None
                low, high = (low, middle) if rng.random() < part else (middle + 1, high)
    return Stream("held out: quantiles in groups", list(texts), {"cache": float(len(texts))}, numbers=len(texts))


def pivots() -> Stream:
    """Held out: tables of shares and averages by one or two groups."""
    rng = np.random.default_rng(8)
    texts, groups = list[str](), list[tuple[int, int]]()
    for names in [(n,) for n in PLAIN] + list(itertools.combinations(PLAIN, 2)):
        columns = ", ".join(names)
        column = ORDERED[rng.integers(4)]
        texts.append(f"SELECT {columns}, count(*), avg({column}) FROM t GROUP BY {columns}")
        groups += [(1, math.prod(LEVELS[name] for name in names))] * 2  # counts, and sums
    cells = sum(size for _, size in groups)
    return Stream("held out: pivots", texts, {"tables": float(len(groups))}, groups=tuple(groups), numbers=cells)


def mixed() -> Stream:
    """Held out: ranges, cells, sets of levels and tables in one stream."""
    rng = np.random.default_rng(9)
    texts: dict[str, int] = {}
    while len(texts) < 240:
        kind, name, other = rng.integers(4), ORDERED[rng.integers(4)], PLAIN[rng.integers(len(PLAIN))]
        low, high = _range(rng, name)
        level = int(rng.integers(LEVELS[other]))
        if kind == 0:
            texts[counted({name: (low, high), other: (level, level)})] = 1
        elif kind == 1:
            texts[counted({"occupation": (int(rng.integers(15)),) * 2, other: (level, level)})] = 1
        elif kind == 2:
            some = sorted(int(i) for i in rng.choice(15, 5, replace=False))
            texts[f"SELECT count(*) FROM t WHERE occupation IN ({', '.join(map(str, some))}) AND {other} = {level}"] = 1
        else:
            texts[f"SELECT {other}, count(*) FROM t WHERE {name} BETWEEN {low} AND {high} GROUP BY {other}"] = 1
    return Stream("held out: mixed", list(texts), {"cache": float(len(texts))}, numbers=5 * len(texts))


def cohorts() -> Stream:
    """Held out: for each of 60 groups its size, its share above a cut of age, and its average hours."""
    rng = np.random.default_rng(11)
    texts: dict[str, int] = {}
    while len(texts) < 180:
        names = rng.choice(PLAIN, size=2, replace=False)
        held = {str(name): (level := int(rng.integers(LEVELS[str(name)])), level) for name in sorted(names)}
        cut = int(rng.integers(4, 28))
        texts[counted(held)] = 1
        texts[counted(held | {"age": (cut, 31)})] = 1
        texts[f"SELECT avg(hours) FROM t WHERE {where(held)}"] = 2
    cost = sum(texts.values())
    return Stream("held out: cohorts", list(texts), {"cache": float(cost)}, numbers=cost)


def bands() -> Stream:
    """Held out: cuts from below and from above of four columns, then the joint tails of two of them."""
    rng = np.random.default_rng(12)
    one = [
        {name: end}
        for name in ORDERED
        for cut in range(1, 13)
        for end in ((0, cut), (LEVELS[name] - cut, LEVELS[name] - 1))
    ]
    two = [{"age": (0, int(i)), "education": (int(j), 15)} for i, j in rng.integers(1, 15, (120, 2))]
    texts = list(dict.fromkeys([counted(one[i]) for i in rng.permutation(len(one))] + [counted(held) for held in two]))
    sets = (*((name,) for name in ORDERED), ("age", "education"))
    found = {"cache": float(len(texts)), "square root": _ordered(set(sets), root_price, ranges=False)}
    return Stream("held out: bands", texts, found, numbers=len(texts), ordered=sets, prefixes=True)


def payroll() -> Stream:
    """Set aside: shares of people above cuts of hours and of weight, with a page of tables in between."""
    rng = np.random.default_rng(21)
    above: list[Held] = [{name: (cut, 31)} for name in ("hours", "weight") for cut in range(2, 30, 2)]
    texts = [counted(above[i]) for i in rng.permutation(len(above))[:14]]
    pages = [("sex",), ("race",), ("sex", "race"), ("workclass", "sex"), ("marital", "income")]
    texts += [f"SELECT {', '.join(group)}, count(*) FROM t GROUP BY {', '.join(group)}" for group in pages]
    cells = [math.prod(LEVELS[name] for name in group) for group in pages]
    texts += [counted(above[i]) for i in rng.permutation(len(above))]
    texts = list(dict.fromkeys(texts))
    cuts = _ordered({("hours",), ("weight",)}, root_price, ranges=False)
    found = {"cache": float(len(texts)), "square roots and tables": cuts + len(pages)}
    return Stream("set aside: payroll", texts, found, numbers=len(above) + sum(cells))


def windows() -> Stream:
    """Set aside: sliding windows of three widths over age and education, then over one of them in each sex."""
    held: list[Held] = [
        {name: (low, low + width - 1)}
        for width in (2, 4, 8)
        for name in ("age", "education")
        for low in range(1, LEVELS[name] - width)
    ]
    held += [{"age": (low, low + 3), "sex": (level, level)} for level in (0, 1) for low in range(1, 28, 3)]
    texts = [counted(one) for one in held]
    roots = _ordered({("age",), ("education",)}, root_price, ranges=True) + root_price(LEVELS["age"], ranges=True)
    found = {"cache": float(len(texts)), "square roots": roots}  # one of them within each sex, for the price of one
    return Stream("set aside: windows", texts, found, numbers=len(texts))


def newcomer() -> Stream:
    """Set aside: somebody who looks around: single counts, one distribution function, one grid of two columns."""
    rng = np.random.default_rng(23)
    held: list[Held] = []
    for _ in range(6):
        name, other = PLAIN[rng.integers(len(PLAIN))], ("occupation", "education")[rng.integers(2)]
        held.append({name: (int(rng.integers(LEVELS[name])),) * 2, other: (int(rng.integers(LEVELS[other])),) * 2})
    held += [{"age": (0, cut)} for cut in range(3, 31, 3)]
    held += [{"age": (i, i + 7), "education": (j, j + 3)} for i in range(0, 32, 8) for j in range(0, 16, 4)]
    texts = list(dict.fromkeys(counted(one) for one in held))
    mixture = 6 + root_price(LEVELS["age"], ranges=False) + 1  # single counts, a square root, the tiles as one table
    found = {"cache": float(len(texts)), "single, root, tiles": mixture}
    return Stream("set aside: newcomer", texts, found, numbers=len(texts))


STREAMS: tuple[Callable[[], Stream], ...] = (
    cdfs,
    ranges_1d,
    cdf_2d,
    ranges_2d,
    ranges_3d,
    averages,
    dashboards,
    lambda: few(10),
    lambda: few(1),
)
HELD_OUT: tuple[Callable[[], Stream], ...] = (quantile_search, pivots, mixed, cohorts, bands)
SET_ASIDE: tuple[Callable[[], Stream], ...] = (payroll, windows, newcomer)


@dataclass
class Outcome:
    """What a stream cost, in counts, and how its answers were."""

    price: float
    missed: int
    unpromised: int
    routes: dict[str, int] = field(default_factory=dict)


def _table(data: str) -> tuple[mq.Schema, NDArray[np.int64]]:
    schema = mq.Schema([mq.Integer(name, 0, size - 1) for name, size in LEVELS.items()])
    return schema, census(data, SIZES)


class Runner:
    """Asks streams of fresh sessions over one table."""

    def __init__(self, data: str) -> None:
        self.schema, self._rows = _table(data)
        self._table = mq.open_table({name: self._rows[:, i] for i, name in enumerate(LEVELS)}, self.schema)
        self._truth: dict[str, list[float]] = {}

    def curator(self) -> mq.Curator:
        return mq.Curator(self._table, mq.Budget(rho=5_000.0, delta=1e-9))

    def run(self, stream: Stream, *, together: bool, given: bool, batch: int = 1) -> Outcome:
        rows = len(self._rows)
        with self.curator() as curator:
            session = mq.online(
                curator,
                alpha=ALPHA,
                beta=TOGETHER if together else EACH,
                simultaneous=together,
                rows=rows if given else None,
            )
            outcome = Outcome(0.0, 0, 0)
            for start in range(0, len(stream.texts), batch):
                chunk = stream.texts[start : start + batch]
                for text, answer in zip(chunk, session.ask_many(chunk), strict=True):
                    for one, exact in zip(answer.numbers, self.truth(text), strict=True):
                        slack = 1e-9 * (1 + abs(exact))
                        outcome.missed += not (math.isnan(exact) or one.low - slack <= exact <= one.high + slack)
                        outcome.unpromised += one.guarantee is None
                        outcome.routes[one.source] = outcome.routes.get(one.source, 0) + 1
            outcome.price = curator.ledger.spent() / UNITS_PER_ONE / (5.41 / (ALPHA * rows) ** 2)
        return outcome

    def truth(self, text: str) -> list[float]:
        """The exact numbers, counted outside the wall; test data."""
        if text not in self._truth:
            self._truth[text] = list(_exact(self.schema, self._rows, text))
        return self._truth[text]


def _exact(schema: mq.Schema, rows: NDArray[np.int64], text: str) -> Iterator[float]:
    from maquette.query import Statement, question
    from maquette.session.question import goals_of

    parsed = question(schema, text)
    assert isinstance(parsed, Statement)
    columns = []
    for output in parsed.outputs:
        if output.measure is None:
            continue
        totals = []
        for goal in goals_of(output):
            names = goal.marginal.columns
            shape = schema.shape(names)
            places = [rows[:, schema.position(name)] for name in names]
            tally = np.bincount(np.ravel_multi_index(places, shape), minlength=math.prod(shape)).astype(float)
            cells = np.array([query.weights(names).reshape(-1) @ tally for _, query in goal.marginal.queries()])
            cells = cells.reshape(goal.marginal.shape)
            totals.append(cells[..., 1] - cells[..., 0] if goal.signed else cells)
        value = output.measure.scale * totals[0]
        if len(totals) > 1:
            with np.errstate(invalid="ignore", divide="ignore"):
                value = output.measure.centre + value / totals[1]
        columns.append(np.asarray(value).reshape(-1))
    yield from np.stack(columns, axis=-1).reshape(-1).tolist()

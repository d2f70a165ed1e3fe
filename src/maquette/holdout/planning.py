"""plan: the interval width of every method, the best method, and the number of rows that a target needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

from maquette.errors import QueryError
from maquette.holdout.fixed_point import SLACK
from maquette.privacy import check_confidence
from maquette.theory import Bar, bar_chart, html_table, least_rows, magnitude, text_table, transfer, whole
from maquette.theory.holdout import (
    fresh_width,
    guess_and_check,
    guess_and_check_width,
    hoeffding_width,
    node_log_failure,
    refusal_beta,
    splitting_width,
)
from maquette.theory.solve import fixed_point

MAX_ROWS = 10**12


@dataclass(frozen=True, kw_only=True)
class Reuse:
    """The planned use of a holdout, in public numbers."""

    rows: int
    queries: int
    failures: int
    beta: float
    universe: int | None


@dataclass(frozen=True, kw_only=True)
class Interval:
    """What one method promises: every answer within `half_width` of the population, all together.

    `settings` are the keywords with which `Holdout(data, **settings)` keeps the promise. Statistics near 0 and 1 often
    get narrower intervals than this. It may exceed 1, and is then useless. `rows_needed` is for the target, rounded up
    to three digits; None without a target or if no number of rows reaches it.
    """

    name: str
    title: str
    half_width: float
    settings: Mapping[str, Any]
    rows_needed: int | None

    @property
    def vacuous(self) -> bool:
        """Whether it says nothing: answers lie in [0, 1], so 1/2 is within 1/2 of all of them."""
        return self.half_width >= 0.5


@dataclass(frozen=True, kw_only=True, repr=False)
class HoldoutPlan:
    """The intervals of all methods for one use of a holdout."""

    reuse: Reuse
    target: float | None
    intervals: tuple[Interval, ...]

    @property
    def best(self) -> Interval | None:
        """The narrowest, if any is informative."""
        useful = [interval for interval in self.intervals if not interval.vacuous]
        return min(useful, key=lambda interval: interval.half_width, default=None)

    @property
    def fresh(self) -> float:
        """The half-width if all questions were fixed before the sample was seen: no method can do better."""
        reuse = self.reuse
        return fresh_width(rows=reuse.rows, queries=reuse.queries, beta=reuse.beta)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.intervals)

    def __len__(self) -> int:
        return len(self.intervals)

    def __getitem__(self, name: str) -> Interval:
        for interval in self.intervals:
            if interval.name == name:
                return interval
        raise KeyError(f"no method {name!r}; there are {', '.join(i.name for i in self.intervals)}")

    def chart(self) -> str:
        """The half-widths as SVG text, with the lower limit for all methods."""
        bars = [self._bar(interval) for interval in self.intervals]
        limit = Bar("questions fixed beforehand", self.fresh, f"{self.fresh:.3g}, if nothing were adaptive", "pale")
        return bar_chart([*bars, limit], f"Half-width, {self._heading()}")

    def _bar(self, interval: Interval) -> Bar:
        useful: Literal["plain", "pale"] = "pale" if interval.vacuous else "plain"
        return Bar(interval.title, interval.half_width, _width(interval), "best" if interval is self.best else useful)

    def _heading(self) -> str:
        reuse = self.reuse
        return (
            f"{magnitude(reuse.queries)} adaptive questions on {magnitude(reuse.rows)} rows, at most "
            f"{magnitude(reuse.failures)} guesses failing, confidence {1 - reuse.beta:g} for all together"
        )

    def _lines(self) -> list[list[str]]:
        aim = [] if self.target is None else [f"rows for {self.target:g}"]
        lines = [["method", "half-width", *aim, "note"]]
        for interval in self.intervals:
            need = interval.rows_needed
            rows = [] if self.target is None else ["out of reach" if need is None else magnitude(need)]
            lines.append([interval.title, _width(interval), *rows, "best" if interval is self.best else ""])
        gap = [] if self.target is None else [""]
        return [*lines, ["questions fixed beforehand", f"{self.fresh:.3g}", *gap, "if nothing were adaptive"]]

    def __str__(self) -> str:
        return text_table(self._heading(), self._lines())

    def __repr__(self) -> str:
        best = self.best
        choice = "nothing useful" if best is None else f"best {best.name}, half-width {best.half_width:.3g}"
        return f"HoldoutPlan({choice}; {len(self)} methods, {self._heading()})"

    def _repr_html_(self) -> str:
        return html_table(self._heading(), self._lines()) + self.chart()


def plan(
    *,
    rows: int,
    queries: int,
    failures: int = 10,
    confidence: float = 0.95,
    universe: int | None = None,
    half_width: float | None = None,
) -> HoldoutPlan:
    """What a holdout of `rows` rows promises for `queries` adaptive questions, by method; no data is needed.

    `failures` is the expected number of wrong guesses: guess-and-check and thresholdout depend on good guesses, the
    others do not. With the size of a `universe`, a public model guesses, and its maximum number of failures is known.
    With a target `half_width`, the plan gives the rows that each method needs. Mechanisms §10.

    >>> plan(rows=10_000, queries=50, failures=50).best.name, plan(rows=10_000, queries=500).best.name
    ('splitting', 'description-length')
    """
    check_confidence(confidence)
    reuse = Reuse(
        rows=whole("rows", rows, 1),
        queries=whole("queries", queries, 1),
        failures=whole("failures", failures, 0),
        beta=1 - confidence,
        universe=None if universe is None else whole("universe", universe, 2),
    )
    if half_width is not None and not (isinstance(half_width, Real) and 0 < half_width < 0.5):
        raise QueryError(f"half_width is {half_width!r}", expected="a fraction below 0.5, such as 0.02, or None")
    intervals = []
    for name, title, method in _METHODS:
        offered = method(reuse)
        if offered is not None:
            need = None if half_width is None else _rows_needed(method, reuse, half_width)
            intervals.append(
                Interval(name=name, title=title, half_width=offered[0], settings=offered[1], rows_needed=need)
            )
    return HoldoutPlan(reuse=reuse, target=half_width, intervals=tuple(intervals))


_Offer = tuple[float, dict[str, Any]] | None
_Method = Callable[[Reuse], _Offer]


def _anytime(reuse: Reuse) -> _Offer:
    return _checking(reuse, None), {"method": "guess-and-check"}


def _counted(reuse: Reuse) -> _Offer:
    return _checking(reuse, reuse.queries), {"method": "guess-and-check", "queries": reuse.queries}


def _checking(reuse: Reuse, queries: int | None) -> float:
    """Twice the sampling half-width at the last question: the default tolerance of a kept guess.

    Assumes that all failures come first, when intervals are narrow and the grid is finest: no other order is worse.
    """
    failures = min(reuse.failures, reuse.queries - 1)
    log_answers = 0.0
    for failed in range(failures):
        node = node_log_failure(
            asked=failed, failures=failed, log_answers=log_answers, beta=reuse.beta, queries=queries
        )
        bins = math.ceil(1 / hoeffding_width(rows=reuse.rows, log_failure=node))
        if bins == 1:
            break  # from here on intervals and answers are uninformative
        log_answers += math.log(bins + 1)  # or a refusal
    places = min(failures, (reuse.queries - 1) // 2)  # C(k - 1, f) is largest in the middle
    last = node_log_failure(
        asked=reuse.queries - 1, failures=places, log_answers=log_answers, beta=reuse.beta, queries=queries
    )
    return 2 * hoeffding_width(rows=reuse.rows, log_failure=last)


def _description_length(reuse: Reuse) -> _Offer:
    def sampling(tolerance: float) -> float:
        size = {"rows": reuse.rows, "queries": reuse.queries, "failures": min(reuse.failures, reuse.queries)}
        grid = math.ceil(2 / tolerance) + 1  # or a refusal
        return guess_and_check_width(**size, tolerance=tolerance, beta=reuse.beta, grid=grid) - tolerance

    # As much room for the guess as for the sample, as in the other methods.
    tolerance = min(1.0, fixed_point(sampling))
    settings = {"method": "guess-and-check", "queries": reuse.queries, "tolerance": tolerance}
    return tolerance + sampling(tolerance), settings | {"failures": reuse.failures}


def _weights(reuse: Reuse) -> _Offer:
    if reuse.universe is None:
        return None
    best = guess_and_check(rows=reuse.rows, queries=reuse.queries, universe=reuse.universe, beta=reuse.beta)
    settings = {"method": "guess-and-check", "queries": reuse.queries, "tolerance": best.tolerance}
    failures = min(best.failures, reuse.queries)
    half_width = guess_and_check_width(
        rows=reuse.rows,
        queries=reuse.queries,
        failures=failures,
        tolerance=best.tolerance,
        beta=reuse.beta,
        grid=best.grid + 1,
    )
    return half_width, settings | {"failures": best.failures}


def _thresholdout(reuse: Reuse) -> _Offer:
    hits = max(1, reuse.failures)
    promise = transfer.thresholdout(rows=reuse.rows, queries=reuse.queries, hits=hits, beta=_share(reuse))
    return promise.alpha + SLACK, {"method": "thresholdout", "queries": reuse.queries, "hits": hits}


def _gaussian(reuse: Reuse) -> _Offer:
    promise = transfer.gaussian(rows=reuse.rows, queries=reuse.queries, beta=_share(reuse), accounting="zcdp")
    return promise.alpha + SLACK, {"method": "gaussian", "queries": reuse.queries}


def _splitting(reuse: Reuse) -> _Offer:
    settings = {"method": "splitting", "queries": reuse.queries}
    return splitting_width(rows=reuse.rows, queries=reuse.queries, beta=_share(reuse)), settings


def _share(reuse: Reuse) -> float:
    """The share of beta that methods unable to count refusals as answers have before the first refusal."""
    return refusal_beta(queries=reuse.queries, refusals=0, beta=reuse.beta)


_METHODS: tuple[tuple[str, str, _Method], ...] = (
    ("guess-and-check", "guess and check, any number of questions", _anytime),
    ("guess-and-check-counted", "guess and check, questions limited", _counted),
    ("description-length", "guess and check, questions and failures limited", _description_length),
    ("weights", "guess and check, a public model guessing", _weights),
    ("thresholdout", "thresholdout", _thresholdout),
    ("gaussian", "noise on every answer", _gaussian),
    ("splitting", "sample splitting", _splitting),
)


def _rows_needed(method: _Method, reuse: Reuse, target: float) -> int | None:
    """The least number of rows whose half-width is the target, to three digits and rounded up."""

    def enough(rows: int) -> bool:
        offered = method(replace(reuse, rows=rows))
        return offered is not None and offered[0] <= target

    return least_rows(enough, MAX_ROWS)


def _width(interval: Interval) -> str:
    if math.isinf(interval.half_width):
        return "-"
    return "no promise" if interval.vacuous else f"{interval.half_width:.3g}"

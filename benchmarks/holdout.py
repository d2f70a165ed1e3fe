"""Reusing a holdout: coverage, overfitting and power of every method against an analyst who overfits.

python benchmarks/holdout.py [--quick] [--repetitions N] [--charts FOLDER]

The analyst asks, for each of k features, how often it agrees with the label, and then the accuracy of majority votes
of the features that looked related, each with the sign it seemed to have. On null data every truth is one half; in the
planted data some features agree with probability 0.6. A repetition is covered if all its intervals hold. Naive reuse,
which tells the exact means with the interval that would hold for questions fixed beforehand, is the failing control.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):  # before numpy starts its threads
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
import scipy  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from maquette.holdout import Holdout, plan  # noqa: E402
from maquette.theory.holdout import fresh_width  # noqa: E402

CONFIDENCE = 0.95
PLANTED, SHARE = 20, 0.6
HITS = 20

Bits = NDArray[np.bool_]
Ask = Callable[[Callable[[Bits], Bits]], tuple[float, float, float]]  # a statistic to its value, low and high


@dataclass(frozen=True)
class Scenario:
    """Features that agree with the label with known probabilities, independently of each other."""

    rows: int
    features: int
    planted: int

    @property
    def shares(self) -> NDArray[np.float64]:
        shares = np.full(self.features, 0.5)
        shares[: self.planted] = SHARE
        return shares

    @property
    def sizes(self) -> list[int]:
        return [size for size in (9, 31, 99, 199, 301, 999, 3001, 9999) if size <= self.features]

    @property
    def questions(self) -> int:
        return self.features + len(self.sizes)

    def draw(self, rng: np.random.Generator) -> Bits:
        """Rows that say of every feature whether it agrees with the label."""
        bits = np.unpackbits(rng.integers(0, 256, (self.rows, -(-self.features // 8)), dtype=np.uint8), axis=1)
        agree = bits[:, : self.features].astype(np.bool_)
        agree[:, : self.planted] = rng.random((self.rows, self.planted)) < self.shares[: self.planted]
        return agree


@dataclass(frozen=True)
class Run:
    """One analyst's day: what was told, what is true of the population."""

    covered: bool
    reported: float
    fresh: float
    width: float
    found: float
    wrong: float


def overfit(scenario: Scenario, ask: Ask) -> Run:
    """Ask of every feature, then of votes of the first 9, 31, ... features with the signs they seemed to have."""
    told = np.array([ask(lambda rows, j=j: rows[:, j]) for j in range(scenario.features)])
    truths = list(scenario.shares)
    signs = np.sign(told[:, 0] - 0.5)
    votes = []
    for size in scenario.sizes:
        chosen = signs[:size]
        votes.append(ask(lambda rows, chosen=chosen: majority(rows, chosen)))
        truths.append(accuracy(scenario.shares[:size], chosen))
    every = np.vstack([told, votes])
    covered = (every[:, 1] <= truths) & (truths <= every[:, 2])
    declared = (told[:, 1] > 0.5) | (told[:, 2] < 0.5)
    real = scenario.shares != 0.5
    return Run(
        covered=bool(covered.all()),
        reported=every[-1, 0],
        fresh=truths[-1],
        width=float(np.median(every[:, 2] - every[:, 1]) / 2),
        found=float(declared[real].mean()) if real.any() else math.nan,
        wrong=float(declared[~real].sum()),
    )


def majority(rows: Bits, signs: NDArray[np.float64]) -> Bits:
    """Whether the signed votes of the features name the label; a tie does not."""
    weights = signs.astype(np.float32)
    return 2 * (rows[:, : len(signs)] @ weights) > weights.sum()


def accuracy(shares: NDArray[np.float64], signs: NDArray[np.float64]) -> float:
    """The population's accuracy of a majority vote, exactly: a sum of three independent binomials."""
    right = np.where(signs > 0, shares, 1 - shares)[signs != 0]
    law = np.ones(1)
    for share in np.unique(right):
        count = int((right == share).sum())
        law = np.convolve(law, scipy.stats.binom.pmf(np.arange(count + 1), count, share))
    return float(law[2 * np.arange(len(law)) > len(right)].sum())


def naive(scenario: Scenario, rows: Bits, train: Bits) -> Ask:
    """The exact means on the holdout, as if every question had been fixed beforehand."""
    width = fresh_width(rows=scenario.rows, queries=scenario.questions, beta=1 - CONFIDENCE)

    def ask(statistic: Callable[[Bits], Bits]) -> tuple[float, float, float]:
        mean = float(statistic(rows).mean())
        return mean, mean - width, mean + width

    return ask


def through(**settings: Any) -> Callable[[Scenario, Bits, Bits], Ask]:
    """A method of `Holdout`, with the training sample to guess from."""

    def start(scenario: Scenario, rows: Bits, train: Bits) -> Ask:
        known = {} if settings["method"] == "guess-and-check" else {"queries": scenario.questions}
        holdout = Holdout(rows, train=train, confidence=CONFIDENCE, **settings, **known)

        def ask(statistic: Callable[[Bits], Bits]) -> tuple[float, float, float]:
            answer = holdout.ask(statistic)
            return answer.value, answer.low, answer.high

        return ask

    return start


METHODS: dict[str, Callable[[Scenario, Bits, Bits], Ask]] = {
    "naive reuse": naive,
    "guess-and-check": through(method="guess-and-check"),
    "thresholdout": through(method="thresholdout", hits=HITS),
    "gaussian": through(method="gaussian"),
    "splitting": through(method="splitting"),
}


def one(job: tuple[Scenario, str, int]) -> tuple[Run, float]:
    """A repetition of a method, and its seconds of processor time without drawing the rows."""
    scenario, method, seed = job
    rng = np.random.default_rng([scenario.rows, scenario.features, scenario.planted, seed])
    rows, train = scenario.draw(rng), scenario.draw(rng)
    start = time.process_time()
    run = overfit(scenario, METHODS[method](scenario, rows, train))
    return run, time.process_time() - start


def simulate(console: Console, workers: Executor, scenario: Scenario, repetitions: int) -> None:
    kind = f"{scenario.planted} planted features" if scenario.planted else "null data"
    table = Table(
        title=f"{scenario.rows:,} rows, {scenario.features:,} features, {kind}: {scenario.questions:,} questions, "
        f"{repetitions:,} repetitions, confidence {CONFIDENCE:g}",
        title_justify="left",
    )
    columns = ("method", "covered", "verdict", "half-width", "reported", "fresh", "gap")
    for column in (*columns, "planted found", "null declared", "answers/s"):
        table.add_column(column, justify="left" if column in ("method", "verdict") else "right")
    for method in METHODS:
        if method == "splitting" and scenario.questions > scenario.rows:
            table.add_row(method, "-", "more questions than rows")
            continue
        results = list(workers.map(one, [(scenario, method, seed) for seed in range(repetitions)]))
        table.add_row(method, *cells(scenario, results))
    console.print(table)


def cells(scenario: Scenario, results: list[tuple[Run, float]]) -> list[str]:
    runs = [run for run, _ in results]
    covered = sum(run.covered for run in runs)
    # Refuted if so few would be covered with probability below one in a million.
    broken = scipy.stats.binom.cdf(covered, len(runs), CONFIDENCE) < 1e-6
    reported, fresh, width, found, wrong = (
        float(np.mean([getattr(run, name) for run in runs]))
        for name in ("reported", "fresh", "width", "found", "wrong")
    )
    return [
        f"{covered / len(runs):.3f}",
        "BROKEN" if broken else "holds",
        f"{width:.3f}" if width < 0.5 else "no promise",
        f"{reported:.3f}",
        f"{fresh:.3f}",
        f"{reported - fresh:+.3f}",
        "-" if math.isnan(found) else f"{found:.2f}",
        f"{wrong:.1f}",
        f"{len(runs) * scenario.questions / sum(seconds for _, seconds in results):,.0f}",
    ]


def speed(console: Console, rows: int, questions: int) -> None:
    """Answers a second on a large sample, statistics of one column."""
    rng = np.random.default_rng(0)
    data, train = (np.asfortranarray(rng.random((rows, 4)) < 0.5) for _ in range(2))
    table = Table(title=f"Answers a second, {rows:,} rows", title_justify="left")
    for column in ("method", "without a training sample", "with one"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method in METHODS:
        if method == "naive reuse":
            continue
        limits = {} if method == "guess-and-check" else {"queries": questions}
        limits |= {"hits": HITS} if method == "thresholdout" else {}
        cells = []
        for training in (None, train):
            holdout = Holdout(data, train=training, method=method, **limits)  # type: ignore[arg-type]
            start = time.perf_counter()
            for i in range(questions):
                holdout.ask(lambda rows, i=i: rows[:, i % 4], guess=0.5)
            cells.append(f"{questions / (time.perf_counter() - start):,.0f}")
        table.add_row(method, *cells)
    console.print(table)


def widths(rows: int, most: int) -> list[dict[str, Any]]:
    """Half-widths of every method over the number of questions."""
    points = []
    for queries in np.unique(np.geomspace(1, most, 37).round().astype(int)).tolist():
        few, none = plan(rows=rows, queries=queries, failures=10), plan(rows=rows, queries=queries, failures=0)
        lines = {
            "naive bound (false when adaptive)": few.fresh,
            "guess-and-check, no guess fails": none["guess-and-check"].half_width,
            "guess-and-check, 10 guesses fail": few["guess-and-check"].half_width,
            "thresholdout, 10 hits": few["thresholdout"].half_width,
            "gaussian": few["gaussian"].half_width,
            "splitting": few["splitting"].half_width,
        }
        points += [
            {"questions": queries, "half-width": width, "method": method, "rows": f"{rows:,} rows"}
            for method, width in lines.items()
            if width < 0.5
        ]
    return points


def show_widths(console: Console, sizes: tuple[int, ...], most: int, charts: Path | None) -> None:
    every = [point for rows in sizes for point in widths(rows, most)]
    for rows in sizes:
        mine = [point for point in every if point["rows"] == f"{rows:,} rows"]
        table = Table(title=f"Half-width at {rows:,} rows over the number of questions", title_justify="left")
        asked = [10**power for power in range(7) if 10**power <= most]
        table.add_column("method")
        for queries in asked:
            table.add_column(f"{queries:,}", justify="right")
        for method in dict.fromkeys(point["method"] for point in mine):
            found = {point["questions"]: point["half-width"] for point in mine if point["method"] == method}
            table.add_row(method, *(f"{found[q]:.3f}" if q in found else "no promise" for q in asked))
        console.print(table)
    if charts is not None:
        import altair as alt

        chart = (
            alt.Chart(alt.Data(values=every))
            .mark_line(clip=True)
            .encode(
                x=alt.X(
                    "questions:Q", scale=alt.Scale(type="log"), title="adaptive questions", axis=alt.Axis(format="~s")
                ),
                y=alt.Y("half-width:Q", scale=alt.Scale(type="log"), title="half-width, all at once at 95%"),
                color=alt.Color("method:N", sort=None, title=None),
                strokeDash=alt.condition(
                    "datum.method == 'naive bound (false when adaptive)'", alt.value([4, 3]), alt.value([1, 0])
                ),
            )
            .properties(width=300, height=300)
            .facet(column=alt.Column("rows:N", sort=[f"{rows:,} rows" for rows in sizes], title=None))
        )
        chart.save(str(charts / "holdout-widths.svg"))


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage, overfitting, power and speed of a reused holdout.")
    parser.add_argument("--quick", action="store_true", help="few repetitions at small sizes")
    parser.add_argument("--repetitions", type=int, help="of every simulation (default 500; the largest has 1 in 25)")
    parser.add_argument("--charts", type=Path, help="write the chart (SVG) into this folder")
    given = parser.parse_args()
    if given.charts:
        given.charts.mkdir(parents=True, exist_ok=True)
    console = Console(width=160)
    repetitions = given.repetitions or (20 if given.quick else 500)
    few = max(2, repetitions // 25)
    sizes = [
        (Scenario(1000, 1000, 0), repetitions),
        (Scenario(10_000, 1000, PLANTED), repetitions),
        (Scenario(10_000, 10_000, 0), few),
        (Scenario(100_000, 300, PLANTED), few),
    ]
    if given.quick:
        sizes = [(Scenario(500, 200, 0), repetitions), (Scenario(2000, 200, PLANTED), repetitions)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as workers:
        for scenario, count in sizes:
            simulate(console, workers, scenario, count)
    speed(console, 10**5 if given.quick else 10**6, 100)
    show_widths(console, (10**4,) if given.quick else (10**4, 10**6), 10**4 if given.quick else 10**6, given.charts)


if __name__ == "__main__":
    main()

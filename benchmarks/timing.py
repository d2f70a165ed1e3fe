"""Does the time of an answer tell two tables apart? With and without a deadline.

Each scenario has two sides that must not be told apart: two tables, two branches of a guard, two branches of the
sampler. Both are asked in random order, each time afresh; then AUC is the chance that an answer of the second side took
longer than one of the first (0.5: time tells nothing; its standard error is 0.41 / sqrt(pairs)).

python benchmarks/timing.py                            2,000 pairs of each scenario, some minutes
python benchmarks/timing.py --pairs 100000 --only extreme neighbours --deadline 0.01     about 40 minutes each
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import scipy

import maquette as mq
from maquette.curator import noise
from maquette.curator.table import engine_of
from maquette.errors import DeadlineMissed
from maquette.query import Marginal

SCHEMA = mq.Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker"), mq.Integer("income", 0, 999, width=10)])
QUESTION = "SELECT smoker, count(*) FROM people WHERE age >= 65 GROUP BY smoker"
WORDS = noise.words
BUDGET = mq.Budget(epsilon=9_000.0)
ROUND = 500  # pairs asked of one pair of curators: ledgers in memory grow
WARM = 20  # pairs thrown away at the start of each round

Ask = Callable[[], float | None]  # asks; gives the noise where it is known
Side = Callable[[], Ask]  # gets everything ready for one question, untimed


@dataclass(frozen=True)
class Times:
    """Seconds by side, the noise of the first, and how many answers of either were refused."""

    first: np.ndarray
    second: np.ndarray
    drawn: np.ndarray
    missed: tuple[int, int]

    @property
    def auc(self) -> float:
        """The chance that the second side takes longer, ties counting half."""
        ranks = np.argsort(np.argsort(np.concatenate([self.first, self.second]))) + 1.0
        n, m = len(self.first), len(self.second)
        return float((ranks[n:].sum() - m * (m + 1) / 2) / (n * m))

    @property
    def rho(self) -> float | None:
        """Spearman's correlation of time and size of the noise."""
        told = ~np.isnan(self.drawn)
        return float(scipy.stats.spearmanr(self.first[told], np.abs(self.drawn[told])).statistic) if len(told) else None


def people(rows: int, *, smoker: bool | None = None) -> mq.PrivateTable:
    """A table of so many rows, all alike or drawn."""
    rng = np.random.default_rng(1)
    if smoker is None:
        drawn = {"age": rng.integers(0, 100, rows), "smoker": rng.random(rows) < 0.3}
        return mq.open_table({**drawn, "income": rng.integers(0, 1000, rows)}, SCHEMA)
    alike = {"age": np.full(rows, 70), "smoker": np.full(rows, smoker), "income": np.full(rows, 5)}
    return mq.open_table(alike, SCHEMA)


def asking(table: mq.PrivateTable, deadline: float | None, *, cold: bool) -> Side:
    """One question asked of a table, whose counted tables are forgotten first if it is to be `cold`."""
    curator = mq.Curator(table, BUDGET, deadline=deadline)
    engine = engine_of(table)

    def ready() -> Ask:
        if cold:
            engine._tables.clear()
            engine._counted.clear()
            engine._used = 0
        name = secrets.token_hex(8)
        return lambda: mq.answer(curator, QUESTION, epsilon=0.01, request=name) and None

    return ready


def sampled(table: mq.PrivateTable, deadline: float | None, *, exact: bool) -> Side:
    """One count with noise; `exact` sends its first draw to the exact branch of the sampler."""
    curator = mq.Curator(table, BUDGET, deadline=deadline)
    truth, total = float(engine_of(table).rows), Marginal(SCHEMA)

    def ready() -> Ask:
        noise.words = borderline if exact else WORDS
        name = secrets.token_hex(8)
        return lambda: float(curator.measure(total, epsilon=0.01, request=name).values) - truth

    return ready


def borderline(count: int, dtype: type) -> np.ndarray:
    """Random words of which the first is one that floating-point numbers cannot decide."""
    drawn = WORDS(count, dtype).copy()
    if dtype is np.uint64:
        drawn[0] = secrets.randbelow(2**46)
    return drawn


def guarded(table: mq.PrivateTable, deadline: float | None, *, off: bool) -> Side:
    """One test of a guard, of an answer that is right or far off."""
    curator = mq.Curator(table, BUDGET)
    guard = curator.guard(1_000.0, hits=2 * (ROUND + WARM), epsilon=8_000.0)
    query = Marginal(SCHEMA)
    public = float(engine_of(table).rows) + (1e6 if off else 0.0)

    def test() -> None:
        with curator.within(deadline):
            guard.test(query, public)

    return lambda: test


def scenarios(names: list[str]) -> Iterator[tuple[str, Callable[[float | None], tuple[Side, Side]]]]:
    """Pairs of sides by name; a side is made afresh for every round."""
    few, more = people(10_000), people(10_001)
    one, million = people(1, smoker=True), people(1_000_000, smoker=False)
    pairs: dict[str, Callable[[float | None], tuple[Side, Side]]] = {
        "neighbours": lambda d: (asking(few, d, cold=True), asking(more, d, cold=True)),
        "extreme": lambda d: (asking(one, d, cold=True), asking(million, d, cold=True)),
        "cache": lambda d: (asking(million, d, cold=False), asking(million, d, cold=True)),
        "sampler": lambda d: (sampled(few, d, exact=False), sampled(few, d, exact=True)),
        "guard": lambda d: (guarded(few, d, off=False), guarded(few, d, off=True)),
    }
    yield from ((name, pairs[name]) for name in names or pairs)


def measured(sides: Callable[[float | None], tuple[Side, Side]], deadline: float | None, pairs: int) -> Times:
    """Ask both sides so many times, in random order."""
    times: tuple[list[float], list[float]] = [], []
    drawn: list[float] = []
    missed = [0, 0]
    while len(times[0]) < pairs:
        both = sides(deadline)
        size = min(ROUND, pairs - len(times[0]))
        for number in range(-WARM, size):
            first = secrets.randbelow(2)
            for side in (first, 1 - first):
                ask = both[side]()
                gc.collect(0)
                start = perf_counter()
                try:
                    found = ask()
                except DeadlineMissed:
                    missed[side] += number >= 0
                    found = float("nan")
                taken = perf_counter() - start
                if number < 0:
                    continue
                times[side].append(taken)
                if side == 0 and found is not None:
                    drawn.append(found)
    noise.words = WORDS
    kept = np.array(drawn if len(drawn) == pairs else [])
    return Times(np.array(times[0]), np.array(times[1]), kept, (missed[0], missed[1]))


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--deadline", type=float, default=0.02, help="seconds")
    parser.add_argument("--only", nargs="*", default=[], help="scenarios")
    parser.add_argument("--without", type=int, default=2_000, help="pairs without a deadline, at most")
    parser.add_argument("--record", action="store_true", help="keep the figures for the reliability page")
    asked = parser.parse_args()
    figures: dict[str, str] = {}
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; a quiet run has hardly any, and misses none")
    print(f"{'scenario':12}{'deadline':>9}{'pairs':>9}{'median ms of either':>22}{'AUC':>8}{'rho':>9}  missed  minutes")
    for name, sides in scenarios(asked.only):
        for deadline, pairs in ((None, min(asked.pairs, asked.without)), (asked.deadline, asked.pairs)):
            start = perf_counter()
            found = measured(sides, deadline, pairs)
            medians = " ".join(f"{1e3 * float(np.median(side)):.3f}" for side in (found.first, found.second))
            length = "none" if deadline is None else f"{1e3 * deadline:g} ms"
            rho = "" if found.rho is None else f"{found.rho:+.4f}"
            missed, minutes = "{} + {}".format(*found.missed), (perf_counter() - start) / 60
            facts = f"{name:12}{length:>9}{pairs:>9,}{medians:>22}{found.auc:8.4f}{rho:>9}"
            print(f"{facts}  {missed}  {minutes:.1f}", flush=True)
            figures[f"{name}, {'no deadline' if deadline is None else length}"] = (
                f"AUC {found.auc:.4f} over {pairs:,} pairs, {sum(found.missed)} missed"
            )
    if asked.record:
        from recording import record

        record("timing", figures)


if __name__ == "__main__":
    main()

"""L3: samples of the production noise, through the production mechanisms, on pairs of neighbours.

    python benchmarks/sampled.py --samples 10000000 --record

For each pair a pilot run (a tenth of the samples) orders the events by how much they tell; fresh samples then bound
epsilon from below by each of the best five (Clopper and Pearson; all bounds of one pair together are wrong with
probability at most 1e-6). A bound above the *exact* epsilon of the pair, which is at most the claim, is a violation.
Beside it stands the *power*: the least shortfall of the noise's scale that would be caught with probability 0.99 at
this size. Prints JSON; the exit code is 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import maquette as mq
from maquette.audit.reference import (
    GuardNoise,
    discrete_laplace,
    epsilon_lower_bound,
    exponential_law,
    pattern_probabilities,
    patterns,
    permute_and_flip_law,
)
from maquette.curator import ExactNoise
from maquette.curator.sparse_vector import SparseVector, resampled

sys.path.insert(0, str(Path(__file__).resolve().parent))

from recording import record, recorded

FAILURE = 1e-6
EVENTS = 5
BLOCK = 1 << 16
NOISE = ExactNoise()


class InBlocks(ExactNoise):
    """The production noise, drawn in blocks: every value is used once, in the order in which it was drawn."""

    def __init__(self) -> None:
        self._drawn: dict[Fraction, Iterator[np.ndarray]] = {}

    def laplace(self, scale: Fraction, size: int) -> np.ndarray:
        """One value, from the block of its scale."""
        if size != 1:
            return super().laplace(scale, size)
        if scale not in self._drawn:
            self._drawn[scale] = self._values(scale)
        return next(self._drawn[scale])

    def _values(self, scale: Fraction) -> Iterator[np.ndarray]:
        while True:
            yield from super().laplace(scale, BLOCK).reshape(-1, 1)


@dataclass(frozen=True)
class Pair:
    """Two neighbours: `draw(side, size)` gives outcomes as small integers; `law(side, scale)` their exact law.

    `law` takes a factor on the noise's scale, for the power; outcome i has probability law[i].
    """

    name: str
    claim: float
    draw: Callable[[int, int], np.ndarray]
    law: Callable[[int, float], np.ndarray]

    @property
    def outcomes(self) -> int:
        return len(self.law(0, 1.0))


def _measured(epsilon: float) -> Pair:
    """One cell of a marginal through the door: no row or one row in each of many cells, whose noise is independent.

    A cell says what it says whatever stands in the others, so a table of many cells is many samples of one. Outcomes
    are clipped to a window, which is post-processing.
    """
    reach = 12
    schema = mq.Schema([mq.Integer("cell", 0, BLOCK - 1)])
    tables = [mq.open_table({"cell": rows}, schema) for rows in ([0], [0, *range(BLOCK)])]
    curators = [mq.Curator(table, mq.Budget(epsilon=9e3)) for table in tables]
    rounds = iter(range(10**9))

    def draw(side: int, size: int) -> np.ndarray:
        values = curators[side].measure(["cell"], epsilon=epsilon, request=f"{next(rounds)}").values[1 : size + 1]
        return np.clip(values, -reach, reach).astype(np.int64) + reach

    def law(side: int, factor: float) -> np.ndarray:
        wide = np.arange(-400, 401)
        probabilities = discrete_laplace(wide - side, factor / epsilon)
        return np.bincount(np.clip(wide, -reach, reach) + reach, weights=probabilities, minlength=2 * reach + 1)

    return Pair("measure, one cell", epsilon, draw, law)


def _selection(kind: str, epsilon: float) -> Pair:
    """Scores that move by one in opposite ways: the worst case of a selection."""
    sides = [np.array([0, 4, 4, 4], dtype=np.int64), np.array([1, 3, 3, 3], dtype=np.int64)]
    scale = Fraction(2) / Fraction(epsilon)

    def draw(side: int, size: int) -> np.ndarray:
        if kind == "exponential":
            return NOISE.exponentials(sides[side], scale, size)
        return np.array([NOISE.permute_and_flip(sides[side], scale) for _ in range(size)])

    of = exponential_law if kind == "exponential" else permute_and_flip_law
    return Pair(f"selection, {kind}", epsilon, draw, lambda side, factor: of(sides[side], factor * float(scale)))


def _guard(hits: int, epsilon: float) -> Pair:
    """A sparse vector over three statistics, all of which move by one; outcomes are its patterns of hits."""
    settings = resampled(epsilon=epsilon, hits=hits, sensitivity=1)
    streams, threshold = [(-1, -1, 1), (0, 0, 0)], 0
    known, noise = patterns(3, hits), InBlocks()
    number = {pattern: i for i, pattern in enumerate(known)}

    def one(side: int) -> int:
        machine, said = SparseVector(settings, threshold, noise), []
        for statistic in streams[side]:
            if machine.sealed:
                break
            said.append(machine.test(statistic).above)
        return number[tuple(said)]

    def law(side: int, factor: float) -> np.ndarray:
        scales = (float(settings.threshold_scale) * factor, float(settings.query_scale) * factor)
        guard = GuardNoise(hits, *scales, refreshed=True)
        found = [pattern_probabilities(guard, p, [[s] for s in streams[side][: len(p)]])[0] for p in known]
        return np.array(found, dtype=np.float64)

    return Pair(f"guard, {hits} hits", epsilon, lambda side, size: np.array([one(side) for _ in range(size)]), law)


def pairs() -> Iterator[tuple[Pair, int]]:
    """Every pair, and by how much its samples are to be fewer: those drawn one by one take longer."""
    yield _measured(0.5), 1
    yield _measured(2.0), 1
    yield _selection("exponential", 1.0), 10
    yield _selection("permute-and-flip", 1.0), 10
    yield _guard(1, 1.0), 10
    yield _guard(2, 1.0), 10


def counted(pair: Pair, side: int, samples: int) -> np.ndarray:
    """How often each outcome occurs."""
    found = np.zeros(pair.outcomes, dtype=np.int64)
    while samples > 0:
        drawn = pair.draw(side, min(samples, BLOCK - 1))
        found += np.bincount(drawn, minlength=pair.outcomes)
        samples -= len(drawn)
    return found


def events(pair: Pair) -> list[np.ndarray]:
    """Outcomes by themselves, everything up to one and everything from one on, and parity."""
    single = list(np.eye(pair.outcomes, dtype=bool))
    up_to = [np.arange(pair.outcomes) <= i for i in range(1, pair.outcomes - 1)]
    parity = np.arange(pair.outcomes) % 2 == 0
    return [*single, *up_to, *(~event for event in up_to), parity, ~parity]


def audited(pair: Pair, samples: int) -> dict[str, Any]:
    """Bounds of the best events on fresh samples, beside the claim, the exact epsilon and the power."""
    pilot = [counted(pair, side, samples // 10) for side in (0, 1)]
    ranked = sorted(events(pair), key=lambda e: -_bound(pilot, e, samples // 10, EVENTS))[:EVENTS]
    fresh = [counted(pair, side, samples) for side in (0, 1)]
    bounds = [_bound(fresh, event, samples, EVENTS) for event in ranked]
    laws = [pair.law(side, 1.0) for side in (0, 1)]
    exact = float(np.abs(np.log(laws[0] / laws[1])).max())
    return {
        "claim": pair.claim,
        "exact": round(exact, 4),
        "bounds": [round(bound, 4) for bound in bounds],
        "samples": samples,
        "violated": max(bounds) > exact or exact > pair.claim * (1 + 1e-9),
        "caught_if_noise_is_short_by": _power(pair, samples, exact),
    }


def _bound(counts: list[np.ndarray], event: np.ndarray, trials: int, shared: int) -> float:
    first, second = (int(count[event].sum()) for count in counts)
    return epsilon_lower_bound(first, second, trials, failure=FAILURE / shared)


def _power(pair: Pair, samples: int, exact: float) -> float | None:
    """The least shortfall of the scale, of a list, that the best event shows in 99 of 100 audits; None if none is."""
    for short in (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7):
        laws = [pair.law(side, 1 - short) for side in (0, 1)]
        for event in events(pair):
            p, q = (float(law[event].sum()) for law in laws)
            for often, seldom in ((p, q), (q, p)):
                few = int(scipy.stats.binom.ppf(0.005, samples, min(often, 1.0)))
                many = int(scipy.stats.binom.ppf(0.995, samples, min(seldom, 1.0)))
                if few > many and epsilon_lower_bound(few, many, samples, failure=FAILURE / EVENTS) > exact:
                    return short
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=1_000_000, help="per table of a pair; a tenth for slow ones")
    parser.add_argument("--record", action="store_true", help="keep the figures of each pair for the reliability page")
    parser.add_argument("--only", nargs="+", default=[""], help="pairs whose names begin so")
    settings = parser.parse_args()
    began, found = time.perf_counter(), {}
    for pair, fewer in pairs():
        if pair.name.startswith(tuple(settings.only)):
            found[f"{pair.name}, epsilon {pair.claim:g}"] = audited(pair, settings.samples // fewer)
            if settings.record:
                known = recorded().get("sampled", {}).get("pairs", {})
                record("sampled", {"pairs": {**known, **found}})
    print(json.dumps({"pairs": found, "seconds": round(time.perf_counter() - began)}, indent=1))
    return int(any(math.isnan(each["exact"]) or each["violated"] for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())

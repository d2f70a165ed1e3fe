"""Speed of exact noise and selection, beside OpenDP (exact, too) and numpy (fast, not private).

python benchmarks/noise.py
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from time import perf_counter

import numpy as np
import opendp.prelude as dp
from rich.console import Console
from rich.table import Table

from maquette.curator import ExactNoise

SIZE, OPENDP_SIZE = 2_000_000, 50_000
SOURCE, RNG = ExactNoise(), np.random.default_rng()


def best(work: Callable[[], object], repeat: int = 3) -> float:
    times = []
    for _ in range(repeat):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def rate(seconds: float, count: int) -> str:
    return f"{count / seconds / 1e6:.2f}"


def sampling() -> Table:
    table = Table("law", "scale", "exact", "OpenDP", "numpy (not private)", title="million values per second")
    domain, zeros = dp.vector_domain(dp.atom_domain(T="i64")), [0] * OPENDP_SIZE
    for scale in (Fraction(1, 2), Fraction(10), Fraction(10**6), Fraction(10**12)):
        b = float(scale)
        laplace = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), b)
        gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), b)
        for law, ours, theirs, numpy in (
            ("Laplace", lambda s=scale: SOURCE.laplace(s, SIZE), laplace, lambda b=b: RNG.laplace(0, b, SIZE)),
            ("Gaussian", lambda s=scale: SOURCE.gaussian(s * s, SIZE), gaussian, lambda b=b: RNG.normal(0, b, SIZE)),
        ):
            opendp = best(lambda theirs=theirs: theirs(zeros), repeat=1)
            table.add_row(law, f"{b:g}", rate(best(ours), SIZE), rate(opendp, OPENDP_SIZE), rate(best(numpy), SIZE))
    return table


def selection() -> Table:
    table = Table("candidates", "exponential", "permute-and-flip", "OpenDP Gumbel", title="milliseconds per selection")
    domain, metric = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    gumbel = dp.m.make_noisy_max(domain, metric, dp.zero_concentrated_divergence(), 1000.0)
    for size in (1_000, 10_000, 100_000, 1_000_000):
        scores = RNG.integers(0, 10**6, size)
        listed = scores.tolist()
        times = (
            best(lambda s=scores: SOURCE.exponential(s, Fraction(1000))),
            best(lambda s=scores: SOURCE.permute_and_flip(s, Fraction(1000))),
            best(lambda s=listed: gumbel(s), repeat=1),
        )
        table.add_row(f"{size:,}", *(f"{1000 * t:.2f}" for t in times))
    return table


def main() -> None:
    dp.enable_features("contrib")
    console = Console()
    console.print(sampling())
    console.print(selection())


if __name__ == "__main__":
    main()

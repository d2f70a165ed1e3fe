"""How tables usually err, from noisy errors of thousands of them."""

from __future__ import annotations

import numpy as np
import pytest
from release_checks import Seeded

import maquette as mq
from maquette.curator import Curator
from maquette.estimates import believed, usual_errors
from maquette.estimates.population import LEAST, SPREADS
from maquette.releases.methods.gathering import Gathering

ROWS = 50_000.0


@pytest.mark.parametrize(("median", "spread"), [(0.02, 0.7), (0.006, 1.4)])
def test_median_and_spread_are_found_under_noise(median: float, spread: float) -> None:
    rng = np.random.default_rng(1)
    errors = ROWS * median * np.exp(spread * rng.standard_normal(15_000))
    found = usual_errors(errors + 600.0 * rng.standard_normal(len(errors)), 600.0, ROWS)
    assert found is not None
    assert found == pytest.approx((median, spread), rel=0.25)


def test_nothing_is_said_where_noise_hides_the_mean() -> None:
    assert usual_errors(np.array([50.0, -40.0, 10.0]), 100.0, ROWS) is None


def test_both_stay_within_bounds() -> None:
    even = usual_errors(np.full(100, 5.0), 0.1, ROWS)
    assert even == (LEAST, SPREADS[0])
    rare = usual_errors(np.array([1e4, *np.zeros(10**5)]), 1e-3, ROWS)
    assert rare == (LEAST, SPREADS[1])


def test_errors_are_believed_better_where_the_population_is_known() -> None:
    """Most tables err by little and a few by much: the usual prior takes noise for errors."""
    rng = np.random.default_rng(2)
    errors = ROWS * 0.004 * np.exp(1.4 * rng.standard_normal(5_000))
    noisy = errors + 0.025 * ROWS * rng.standard_normal(len(errors))
    usual = usual_errors(noisy, 0.025 * ROWS, ROWS)
    assert usual is not None
    plain = believed(noisy, 0.025 * ROWS, ROWS, 2)
    informed = believed(noisy, 0.025 * ROWS, ROWS, 2, usual[0], spread=usual[1])
    assert np.abs(informed - errors).mean() < 0.5 * np.abs(plain - errors).mean()


def test_pairs_of_one_release_say_themselves_what_is_usual() -> None:
    """Every pair of ten columns errs by an eighth of the rows: none is taken for usual because of its noise."""
    rng = np.random.default_rng(3)
    hidden = rng.integers(0, 4, 4000)
    columns = {f"c{i}": np.where(rng.random(4000) < 0.4, hidden, rng.integers(0, 4, 4000)) for i in range(10)}
    schema = mq.Schema([mq.Integer(name, 0, 3) for name in columns])
    budget = mq.Budget(epsilon=1.0, delta=1e-9)
    with Curator(mq.open_table(columns, schema), budget, noise=Seeded(1)) as curator:
        gathering = Gathering(curator, mq.marginals(schema, k=2), budget.limit, None)
        gathering.run(0.01, 0.03)
    assert gathering.alone is not None
    errors = []
    for one, other in gathering.alone:
        cells = np.histogram2d(columns[one], columns[other], bins=4)[0]
        errors.append(np.abs(cells - np.multiply.outer(cells.sum(axis=1), cells.sum(axis=0)) / 4000).sum() / 2)
    least = min(gathering.alone.values())
    assert least > 0.6 * float(np.mean(errors)), (least, np.mean(errors))

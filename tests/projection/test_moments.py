"""Projection of three- and four-way parities: the nearest feasible point, the error bound of the slides, refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.curator import Curator
from maquette.releases import MomentModel, project_moments, projection
from maquette.theory import projection as theory

Values = NDArray[np.float64]


def truth(records: Any, size: int) -> Values:
    """The parities of all sets of this size, in lexicographic order; records are +1 and -1."""
    sets = itertools.combinations(range(records.shape[1]), size)
    return np.array([records[:, list(held)].prod(axis=1).mean() for held in sets])


def matrix_of(levels: list[Values], d: int) -> Values:
    """The matrix over sets of at most two columns, written a second time: places are found by their sets."""
    value: dict[tuple[int, ...], float] = {(): 1.0}
    for size, level in enumerate(levels, start=1):
        value |= dict(zip(itertools.combinations(range(d), size), level.tolist(), strict=True))
    rows = [held for size in range(3) for held in itertools.combinations(range(d), size)]
    return np.array([[value[tuple(sorted(set(a) ^ set(b)))] for b in rows] for a in rows])


@pytest.mark.parametrize("k", [3, 4])
def test_a_table_is_left_where_it_is(k: int) -> None:
    records = np.random.default_rng(0).choice([-1.0, 1.0], size=(40, 5), p=[0.3, 0.7])
    levels = [truth(records, size) for size in range(1, k + 1)]
    for before, after in zip(levels, project_moments(levels, 5), strict=True):
        np.testing.assert_allclose(after, before, atol=1e-4)


@pytest.mark.thorough
def test_the_result_is_feasible_nearer_to_the_truth_and_satisfies_the_inequality_of_a_projection() -> None:
    rng, d = np.random.default_rng(1), 6
    for _ in range(5):
        records = rng.choice([-1.0, 1.0], size=(60, d), p=[0.4, 0.6])
        exact = [truth(records, size) for size in range(1, 5)]
        noisy = [level + rng.normal(0, 0.7, size=len(level)) for level in exact]
        found = list(project_moments(noisy, d))
        assert np.linalg.eigvalsh(matrix_of(found, d))[0] > -1e-9
        y, g, z = (np.concatenate(part) for part in (exact, noisy, found))
        assert np.linalg.norm(z - y) < np.linalg.norm(g - y)
        assert np.linalg.norm(z - y) ** 2 <= (g - y) @ (z - y) + 1e-3  # the first step of the error bound
        again = np.concatenate(project_moments(found, d))
        np.testing.assert_allclose(again, z, atol=1e-3)


def test_no_other_feasible_point_is_nearer() -> None:
    """An oracle: moving towards any table is not nearer (the optimality condition)."""
    rng, d = np.random.default_rng(2), 4
    noisy = [rng.normal(0, 0.8, size=math.comb(d, size)) for size in range(1, 5)]
    z, wanted = np.concatenate(project_moments(noisy, d)), np.concatenate(noisy)
    corners = [np.array(list(itertools.product([-1.0, 1.0], repeat=d)))[i : i + 1] for i in range(2**d)]
    for corner in corners:
        other = np.concatenate([truth(corner, size) for size in range(1, 5)])
        assert (wanted - z) @ (other - z) <= 2e-3


@pytest.mark.parametrize(("d", "k"), [(2, 2), (5, 2), (4, 3), (6, 3), (4, 4), (6, 4)])
def test_counts_of_the_bound_are_those_of_a_listing(d: int, k: int) -> None:
    most = 1 if k == 2 else 2
    rows = [held for size in range(most + 1) for held in itertools.combinations(range(d), size)]
    places: dict[tuple[int, ...], int] = {}
    for a, b in itertools.product(rows, rows):
        key = tuple(sorted(set(a) ^ set(b)))
        places[key] = places.get(key, 0) + 1
    sums = [sum(1 / places[s] ** 2 for b in rows if 0 < len(s := tuple(sorted(set(a) ^ set(b)))) <= k) for a in rows]
    assert theory.matrix_size(attributes=d, k=k) == len(rows)
    assert theory.spread(attributes=d, k=k) == pytest.approx(max(sums))
    assert theory.parities(attributes=d, k=k) == sum(1 for s in places if 0 < len(s) <= k)


def errors(runs: int, seed: int, *, d: int, scale: float) -> Values:
    """Root mean squared errors of projected four-way parities of one table, for fresh noise in every run."""
    rng = np.random.default_rng(seed)
    records = rng.choice([-1.0, 1.0], size=(200, d), p=[0.45, 0.55])
    exact = [truth(records, size) for size in range(1, 5)]
    made = []
    for _ in range(runs):
        noisy = [level + rng.normal(0, scale, size=len(level)) for level in exact]
        off = np.concatenate(project_moments(noisy, d)) - np.concatenate(exact)
        made.append(float(np.sqrt((off**2).mean())))
    return np.array(made)


@pytest.mark.thorough
def test_the_error_stays_below_the_bound_and_below_the_noise() -> None:
    scale = 1.5
    found = errors(20, 3, d=6, scale=scale)
    bound = theory.root_mean_square(attributes=6, k=4, scale=scale, beta=0.05)
    assert found.max() <= bound
    assert found.max() < 0.5 * scale, "where noise is large, the projection takes most of it away"


@pytest.mark.thorough
def test_the_bound_fails_no_more_often_than_beta() -> None:
    """1,000 draws: the eigenvalue bound, the only random step, at beta 0.05 (86 failures have chance 1e-6)."""
    rng, d, failures = np.random.default_rng(4), 8, 0
    rows = [held for size in range(3) for held in itertools.combinations(range(d), size)]
    number = {
        held: i for i, held in enumerate(held for size in range(5) for held in itertools.combinations(range(d), size))
    }
    at = np.array([[number[tuple(sorted(set(a) ^ set(b)))] for b in rows] for a in rows])
    places = np.bincount(at.reshape(-1))
    most = math.sqrt(2 * theory.spread(attributes=d, k=4) * math.log(2 * len(rows) / 0.05))
    for _ in range(1000):
        g = rng.normal(size=len(number)) / places
        g[0] = 0.0
        failures += bool(np.abs(np.linalg.eigvalsh(g[at])).max() > most)
    assert failures <= 86


@pytest.mark.thorough
def test_a_bound_without_its_dimension_would_fail() -> None:
    """A mutant: without the factor D (the trace), the promise is broken in every run."""
    scale = 1.5
    broken = theory.root_mean_square(attributes=6, k=4, scale=scale, beta=0.05) / theory.matrix_size(attributes=6, k=4)
    assert (errors(5, 5, d=6, scale=scale) > broken).all()


def test_the_rate_is_that_of_the_slides() -> None:
    """RMSE ~ d^(ceil(k/2)/4) / sqrt(n): the bound grows so with d, and falls as n^(-1/2)."""
    for k, power in ((2, 0.25), (4, 0.5)):
        facts: dict[str, Any] = {"k": k, "rho": 0.1, "rows": 10.0, "beta": 0.05}

        def bound(d: int, n: float, facts: dict[str, Any] = facts) -> float:
            scale = math.sqrt(theory.parities(attributes=d, k=facts["k"]) / (2 * facts["rho"])) / n
            return theory.root_mean_square(attributes=d, k=facts["k"], scale=scale, beta=0.05)

        slope = math.log(bound(4000, 1e6) / bound(1000, 1e6)) / math.log(4)
        assert slope == pytest.approx(power, abs=0.03)  # and a root of a logarithm
        assert bound(50, 4e6) == pytest.approx(bound(50, 1e6) / 2)


SCHEMA = mq.Schema([mq.Boolean(name) for name in "abcdef"])


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    rng = np.random.default_rng(6)
    base = rng.random(20_000) < 0.5
    return mq.open_table({name: (base ^ (rng.random(20_000) < 0.2)).tolist() for name in SCHEMA.names}, SCHEMA)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("k", [3, 4])
def test_a_release_of_wide_marginals(table: mq.PrivateTable, relation: Any, k: int) -> None:
    with Curator(table, mq.Budget(epsilon=2.0, delta=1e-9), relation=relation) as curator:
        made = mq.release(curator, mq.marginals(SCHEMA, k=k), method="projection", epsilon=1.0)
        cells = made.marginal(*SCHEMA.names[:k])
        assert cells.shape == (2,) * k
        assert cells.min() >= 0
        assert cells.sum() == pytest.approx(1.0)
        assert made.certificate.accuracy is not None
        assert made.certificate.accuracy.startswith("root mean squared error of a parity at most")
        assert curator.spent.epsilon == pytest.approx(1.0, rel=1e-3)
        answer = made.answer("a AND b AND NOT c")
        assert answer.low <= answer.value <= answer.high
        assert made.model.sample(10, np.random.default_rng(0)).shape == (10, 6)
        saved = made.model
        assert isinstance(saved, MomentModel)
        again = MomentModel.restore(SCHEMA, saved.facts(), saved.arrays())
        np.testing.assert_array_equal(again.marginal(("c", "a")), saved.marginal(("c", "a")))


def test_levels_and_columns_are_where_they_belong() -> None:
    """A model of an exact table answers every marginal exactly, in any order of columns."""
    records = np.random.default_rng(8).integers(0, 2, size=(50, 6))
    levels = (np.ones(1), *(truth(1.0 - 2.0 * records, size) for size in range(1, 5)))
    model = MomentModel(SCHEMA, SCHEMA.names, levels)
    for names in (("b",), ("e", "a"), ("f", "c", "d"), ("d", "a", "f", "b")):
        counts = np.zeros((2,) * len(names))
        for record in records:
            counts[tuple(record[SCHEMA.position(name)] for name in names)] += 1 / 50
        np.testing.assert_allclose(model.marginal(names), counts, atol=1e-12)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"k": 5}, "got k=5"),
        ({"k": 1}, "got k=1"),
        ({"k": 3, "columns": ["a", "b", "c"]}, "3 columns cannot be projected"),
    ],
)
def test_refusals_cost_nothing(table: mq.PrivateTable, named: Any, message: str) -> None:
    with Curator(table, mq.Budget(epsilon=2.0, delta=1e-9)) as curator:
        with pytest.raises(mq.QueryError, match=message):
            projection(curator, **named)
        assert curator.ledger.spent() == 0

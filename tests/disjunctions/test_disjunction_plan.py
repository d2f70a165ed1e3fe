"""The plan for disjunctions: the table of rows needed, promises that fall with rows, bounds that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.privacy.conversion import zcdp_rho
from maquette.releases.classes.projection import project_parities
from maquette.theory import plan_disjunctions
from maquette.theory.disjunctions import (
    Family,
    block_basis,
    gaussian_rows,
    measurable_degree,
    monomial_coefficients,
    monomials,
    parity_coefficients,
    projection_error,
    subsets,
    weights_rows,
)

# d, k: queries, rows for Gaussian noise, for weights; products, weight, rows; blocks, products, weight, rows.
TABLE = {
    (20, 2): ("2.1e+02", "7.1e+03", "4.5e+05", ("2.1e+02", 204, "3e+08"), (2, "1e+06", 2.95, "5e+06")),
    (20, 4): ("6.2e+03", "4.5e+04", "5.3e+05", ("6.2e+03", 5.4e3, "1e+10"), (2, "1e+06", 2.95, "6e+06")),
    (20, 10): ("6.2e+05", "5.3e+05", "6.4e+05", ("2.6e+05", 6e4, "2e+11"), (2, "1e+06", 2.95, "7e+06")),
    (50, 2): ("1.3e+03", "1.9e+04", "8.1e+05", ("1.3e+03", 1.2e3, "2.5e+09"), (6, "4e+06", 20, "5e+07")),
    (50, 4): ("2.5e+05", "3.3e+05", "1.0e+06", ("2.5e+05", 2e5, "8e+11"), (17, "6e+06", 2.8e3, "1e+10")),
    (50, 6): ("1.8e+07", "3.2e+06", "1.2e+06", ("1.8e+07", 7.6e6, "4e+13"), None),
    (100, 3): ("1.7e+05", "2.6e+05", "1.4e+06", ("1.7e+05", 1.5e5, "6e+11"), (25, "8e+06", 2.4e3, "9e+09")),
    (100, 10): ("1.9e+13", "4.2e+09", "2.5e+06", ("2e+11", 1.6e10, "2e+17"), None),
}


def printed(number: float, like: str) -> str:
    return f"{number:.{1 if '.' in like else 0}e}"


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(("d", "k"), TABLE)
def test_the_table_of_rows_needed(d: int, k: int) -> None:
    family, alpha = Family(d=d, k=k), 0.05
    queries, gaussian, weights, products, blocks = TABLE[d, k]
    assert printed(family.queries, queries) == queries
    assert printed(gaussian_rows(family, alpha), gaussian) == gaussian
    assert printed(weights_rows(family, alpha), weights) == weights
    found = monomials(family, alpha)
    assert printed(found.features, products[0]) == products[0]
    assert found.weight == pytest.approx(products[1], rel=0.08)
    assert printed(found.rows, products[2]) == products[2]
    best = block_basis(family, alpha)
    if blocks is None or best is None:
        assert best is None
        assert blocks is None
        return
    assert best.blocks == blocks[0]
    assert printed(best.features, blocks[1]) == blocks[1]
    assert best.weight == pytest.approx(blocks[2], rel=0.03)
    assert printed(best.rows, blocks[3]) == blocks[3]


def test_coefficients_in_products_have_the_stated_error() -> None:
    family, rows = Family(d=50, k=10), 10**9
    found = monomial_coefficients(family, rows)
    sigma = math.sqrt(subsets(50, found.polynomial.degree) / (2 * family.rho)) / rows
    tail = math.sqrt(2 * math.log(2 * family.queries / family.beta))
    assert found.error == pytest.approx(found.polynomial.error + sigma * found.polynomial.amplification * tail)


@pytest.mark.parametrize(("d", "k"), [(20, 2), (20, 10), (50, 4), (50, 10), (100, 4)])
def test_parities_beat_products_and_noise_on_every_query(d: int, k: int) -> None:
    family = Family(d=d, k=k)
    for rows in (10**4, 10**6, 10**8):
        parity = parity_coefficients(family, rows)
        assert parity.error <= min(1.0, monomial_coefficients(family, rows).error) + 1e-9
        if k > 2:
            assert parity.error < gaussian_rows(family, 1.0) / rows


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(("d", "k"), [(16, 2), (20, 3), (100, 4), (60, 2)])
def test_promises_fall_with_rows_and_meet_their_targets(d: int, k: int) -> None:
    plans = [plan_disjunctions(d=d, k=k, rows=rows, alpha=0.1) for rows in (10**3, 10**5, 10**7)]
    for name in ("gaussian", "weights", "block-basis", "monomial-coefficients", "parity-coefficients"):
        errors = [plan[name].error for plan in plans]
        assert errors == sorted(errors, reverse=True)
        needed = plans[0][name].rows_needed
        if needed is not None and needed < 10**8:
            assert plan_disjunctions(d=d, k=k, rows=needed, alpha=0.1)[name].error <= 0.1001
    assert plans[0]["graphical"].obstacle == "measured, no theorem"
    assert not plans[0]["projection"].runnable


@pytest.mark.thorough
def test_the_verdicts() -> None:
    best = {(d, k, n): plan_disjunctions(d=d, k=k, rows=n).best for d, k, n in ((20, 2, 10**4), (100, 4, 10**6))}
    assert {p.name for p in best.values() if p} == {"parity-coefficients"}
    small = plan_disjunctions(d=300, k=2, rows=100)["parity-coefficients"]
    assert small.obstacle == "promises nothing"
    assert small.error == 1.0
    weights = plan_disjunctions(d=20, k=10, rows=10**6)
    assert weights["block-basis"].obstacle is not None
    assert weights["gaussian"].error > weights["parity-coefficients"].error
    assert measurable_degree(Family(d=50, k=10)) == 5
    assert "parity" in repr(weights)


@pytest.mark.parametrize(("d", "rows"), [(24, 300), (48, 1000), (48, 20_000)])
def test_projection_keeps_its_bound(d: int, rows: int) -> None:
    rng = np.random.default_rng(d)
    signs = np.where(rng.random((rows, d)) < 0.5 + 0.3 * rng.normal(size=(rows, 1)), 1.0, -1.0)
    ones = np.c_[np.ones(rows), signs]
    truth = ones.T @ ones / rows
    upper = np.triu_indices(d + 1, 1)
    sigma = 2 * math.sqrt(len(upper[0]) / (2 * zcdp_rho(1.0, 1e-9))) / rows
    noisy = np.eye(d + 1)
    noisy[upper] = truth[upper] + rng.normal(0.0, sigma, len(upper[0]))
    noisy.T[upper] = noisy[upper]
    error = math.sqrt(float(((project_parities(noisy)[upper] - truth[upper]) ** 2).mean()))
    assert error <= projection_error(Family(d=d, k=2), rows)
    assert math.isinf(projection_error(Family(d=d, k=3), rows))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d": 3, "k": 4}, "k is 4, more than the 3 columns"),
        ({"d": 3, "k": 0}, "k is 0"),
        ({"d": 3.5, "k": 1}, "d is 3.5"),
        ({"d": 3, "k": 1, "rows": 0}, "rows is 0"),
        ({"d": 3, "k": 1, "alpha": 1.0}, "alpha is 1.0"),
        ({"d": 3, "k": 1, "delta": 0.0}, "delta and beta between"),
    ],
)
def test_bad_questions_are_explained(settings: dict[str, float], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        plan_disjunctions(**{"rows": 1000, **settings})  # type: ignore[arg-type]

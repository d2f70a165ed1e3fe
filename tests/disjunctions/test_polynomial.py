"""The polynomials behind disjunctions: what they promise in every basis, and the tables of degrees and noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.theory.polynomial import (
    Polynomial,
    chebyshev,
    chebyshev_degree,
    chebyshev_error,
    exact,
    krawtchouk,
    least_degree,
    least_error,
    least_interval,
    least_weight,
)

SIZES = [(k, degree) for k in range(1, 13) for degree in range(1, k + 1)]

DEGREES = {  # Chebyshev's closed form and the least on integers, for gamma = 0.1, 0.01, 0.001
    2: ((2, 2), (4, 2), (5, 2)),
    4: ((3, 3), (5, 4), (7, 4)),
    6: ((4, 4), (7, 6), (9, 6)),
    8: ((5, 5), (8, 7), (11, 8)),
    10: ((5, 5), (9, 8), (12, 9)),
    20: ((7, 7), (12, 11), (17, 14)),
    50: ((11, 11), (19, 18), (27, 23)),
    100: ((15, 15), (27, 25), (38, 32)),
}


@pytest.mark.thorough(fast=5)
@pytest.mark.parametrize("k", DEGREES)
def test_the_table_of_degrees(k: int) -> None:
    assert tuple((chebyshev_degree(k, g), least_degree(k, g)) for g in (0.1, 0.01, 0.001)) == DEGREES[k]


@pytest.mark.parametrize(("k", "degree"), SIZES)
def test_chebyshev_is_zero_at_zero_and_within_its_bound_elsewhere(k: int, degree: int) -> None:
    found = chebyshev(k, degree)
    assert found.values[0] == 0.0
    assert np.abs(found.values[1:] - 1).max() <= chebyshev_error(k, degree) + 1e-12
    # It is a polynomial of that degree: all further differences vanish.
    assert np.abs(np.diff(found.values, degree + 1)).max(initial=0.0) < 1e-9 * 2**k


def test_the_closed_form_degree_is_the_least_that_reaches_gamma() -> None:
    for k, gamma in itertools.product((2, 5, 17, 60), (0.3, 0.05, 0.002)):
        degree = chebyshev_degree(k, gamma)
        assert chebyshev_error(k, degree) <= gamma * (1 + 1e-9)
        assert degree == 1 or chebyshev_error(k, degree - 1) > gamma


@pytest.mark.thorough(fast=56)
@pytest.mark.parametrize(("k", "degree"), SIZES)
def test_the_least_error_is_below_chebyshevs_and_has_r_of_zero_zero(k: int, degree: int) -> None:
    found = least_error(k, degree)
    assert abs(found.values[0]) < 1e-9
    assert found.error <= chebyshev_error(k, degree) + 1e-9
    assert np.abs(np.diff(found.values, degree + 1)).max(initial=0.0) < 1e-6
    if degree == k - 1:
        assert found.error == pytest.approx(1 / (2**k - 1), rel=1e-6)


@pytest.mark.parametrize("size", range(1, 13))
def test_the_multilinear_polynomial_is_r_of_the_number_that_hold(size: int) -> None:
    """p(y) = sum_j a_j e_j(y) = r(|y|) on every y, and the parities say the same."""
    found = least_error(size, max(1, size // 2))
    rows = np.array([*itertools.product((0, 1), repeat=size)])
    held = rows.sum(axis=1)
    newton = sum(a * np.array([math.comb(t, j) for t in held]) for j, a in enumerate(found.newton))
    assert np.abs(newton - found.values[held]).max() < 1e-9
    if size <= 8:
        symmetric = np.zeros(len(rows))
        spectrum = np.zeros(len(rows))
        for s in range(found.degree + 1):
            for chosen in itertools.combinations(range(size), s):
                symmetric += found.newton[s] * rows[:, list(chosen)].prod(axis=1)
                spectrum += found.parities[s] * (1 - 2 * rows[:, list(chosen)]).prod(axis=1)
        assert np.abs(symmetric - found.values[held]).max() < 1e-9
        assert np.abs(spectrum - found.values[held]).max() < 1e-9


def test_exact_or_has_alternating_coefficients_and_no_error() -> None:
    found = exact(5)
    assert found.newton.tolist() == [0.0, 1.0, -1.0, 1.0, -1.0, 1.0]
    assert found.error == 0.0
    assert found.weight(5) == 31
    assert found.weight(9) == sum(math.comb(9, j) for j in range(1, 6))


def test_weights_by_expansion_equal_the_formula() -> None:
    for k, degree, attributes in ((3, 2, 5), (4, 3, 6), (2, 2, 7)):
        found = least_error(k, degree)
        expanded = sum(
            abs(found.newton[len(chosen)])
            for s in range(1, degree + 1)
            for chosen in itertools.combinations(range(attributes), s)
        )
        assert found.weight(attributes) == pytest.approx(expanded)


@pytest.mark.parametrize(("k", "degree", "blocks"), [(2, 2, 2), (3, 3, 4), (4, 4, 17), (6, 6, 10)])
def test_the_least_weight_uses_its_slack(k: int, degree: int, blocks: int) -> None:
    found = least_weight(k, degree, blocks, 0.01)
    assert found is not None
    assert abs(found.values[0]) < 1e-12
    assert found.error <= 0.01 + 1e-9
    assert found.weight(blocks) < exact(k).weight(blocks)
    assert least_weight(6, 2, 6, 0.01) is None


@pytest.mark.parametrize(
    ("k", "degree", "gamma", "amplification"), [(10, 5, 0.074, 9.4), (10, 8, 0.004, 26.6), (10, 10, 0.0, 32.0)]
)
def test_amplification_in_products(k: int, degree: int, gamma: float, amplification: float) -> None:
    found = least_error(k, degree)
    assert found.error == pytest.approx(gamma, abs=5e-4)
    assert found.amplification == pytest.approx(amplification, abs=0.05)


@pytest.mark.parametrize(("k", "degree"), SIZES)
def test_parities_hardly_amplify(k: int, degree: int) -> None:
    """Parseval: the squared coefficients sum to the variance of r over uniform attributes."""
    found = least_error(k, degree)
    law = np.array([math.comb(k, t) for t in range(k + 1)]) / 2**k
    variance = float(law @ found.values**2 - (law @ found.values) ** 2)
    assert found.parity_amplification == pytest.approx(math.sqrt(max(variance, 0.0)), abs=1e-9)
    assert found.parity_amplification <= math.sqrt(2.0**-k) + found.error + 1e-9
    assert found.parity_amplification <= found.amplification + 1e-9


def test_krawtchouk_columns_are_orthogonal() -> None:
    table = krawtchouk(7, 7)
    law = np.array([math.comb(7, t) for t in range(8)], dtype=float)
    gram = (table * law[:, None]).T @ table
    assert np.allclose(gram, np.diag([2**7 * math.comb(7, s) for s in range(8)]))


def test_bias_and_noise_are_balanced_no_worse_than_by_any_fixed_degree() -> None:
    k, levels = 6, (0.001, 0.01, 0.05, 0.2, 1.0, 3.0)

    def width(found: Polynomial) -> float:
        spectrum = enumerate(found.parities)
        return found.error + sum(abs(c) * math.sqrt(math.comb(k, s)) * levels[s - 1] for s, c in spectrum if s)

    best = least_interval(k, levels)
    assert all(width(best) <= width(least_error(k, degree)) + 1e-9 for degree in range(1, k + 1))
    assert best.error > 0.0
    free = least_interval(k, (0.0,) * k)
    assert free.error < 1e-9
    assert least_interval(k, (1e9,) * k).degree == 0
    assert np.abs(np.diff(best.values, best.degree + 1)).max(initial=0.0) < 1e-9


@pytest.mark.parametrize("call", [lambda: exact(0), lambda: least_error(3, 0), lambda: chebyshev(2, True)])
def test_bad_sizes_are_explained(call: object) -> None:
    with pytest.raises(QueryError, match="whole number"):
        call()  # type: ignore[operator]
    with pytest.raises(QueryError, match="between 0 and 1"):
        least_degree(3, 1.5)

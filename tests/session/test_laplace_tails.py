"""Tails of sums of Laplace noise: the bounds against exact laws, and the histogram that is bought by them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray
from session_checks import SeededNoise, curator_of

import maquette as mq
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Marginal
from maquette.session.precision import width
from maquette.session.precision.cell_view import CellView
from maquette.session.precision.view import CELLS
from maquette.session.precision.width import laplace_sum
from maquette.session.question import Goal

DOUBTS = (0.9, 0.5, 0.2, 0.05, 1e-2, 1e-3, 1e-6, 1e-9)


def law(scale: float, weight: int, reach: int) -> NDArray[np.float64]:
    """Discrete Laplace noise of this scale, times a whole number, on -reach..reach."""
    values = np.arange(-reach, reach + 1)
    mass = np.where(values % weight == 0, np.exp(-np.abs(values // weight) / scale), 0.0)
    return np.asarray(mass / mass.sum())


def tail(scale: float, weights: list[int]) -> NDArray[np.float64]:
    """Pr[|sum| > t] for t = 0, 1, ...: exact but for rounding, by convolution."""
    reach = math.ceil(30 * scale * max(weights) + 12 * scale * math.sqrt(2 * sum(w**2 for w in weights)))
    size = 2 ** math.ceil(math.log2(2 * reach + 1))
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    for weight in weights:
        ring = np.zeros(size)
        ring[np.arange(-reach, reach + 1)] = law(scale, weight, reach)
        product *= np.fft.rfft(ring)
    mass = np.maximum(np.fft.irfft(product, size), 0.0)
    both = mass[1 : reach + 1] + mass[-1 : -reach - 1 : -1]
    return np.append(np.cumsum(both[::-1])[::-1], 0.0)


SUMS = [[1], [1] * 2, [1] * 10, [1] * 128, [3] + [1] * 40, [10, 1, 1], [5] * 4 + [2] * 9]


@pytest.mark.parametrize("weights", SUMS, ids=lambda weights: f"{len(weights)} of up to {max(weights)}")
@pytest.mark.parametrize("scale", [0.4, 3.0, 40.0])
def test_exact_sums_of_discrete_noise_stay_within_every_bound(scale: float, weights: list[int]) -> None:
    beyond = tail(scale, weights)
    noises = [(2 * scale**2 * w**2, 2 * scale**2 * w**2) for w in weights]
    together = [(sum(total for total, _ in noises), max(largest for _, largest in noises))]
    step = math.sqrt(sum(w**2 for w in weights))
    for doubt in DOUBTS:
        for groups in (noises, together):
            bound = laplace_sum(groups, math.log(doubt), step=step)
            assert bound <= laplace_sum(groups, math.log(doubt)) * (1 + 1e-12)
            assert beyond[min(math.floor(bound), len(beyond) - 1)] <= doubt * (1 + 1e-6) + 1e-13


def test_without_the_step_the_bound_is_for_the_continuous_law_alone() -> None:
    """A bound that forgot that noise comes in whole numbers would be caught by the test above."""
    caught = 0
    for scale in (0.4, 3.0):
        for weights in SUMS:
            noises = [(2 * scale**2 * w**2, 2 * scale**2 * w**2) for w in weights]
            beyond = tail(scale, weights)
            caught += any(
                beyond[min(math.floor(laplace_sum(noises, math.log(d), step=0.0)), len(beyond) - 1)] > d for d in DOUBTS
            )
    assert caught


def test_the_table_of_reaches_bounds_the_function_between_its_points() -> None:
    """Between two points a convex function is below the line that joins them."""
    places, reaches = (np.array(column) for column in width._reaches())
    slopes = np.diff(reaches) / np.diff(places)
    assert (np.diff(places) > 0).all()
    assert (np.diff(slopes) > -1e-9).all()
    assert (reaches <= places + math.log(2)).all()  # never worse than Chernoff's
    for nats in (0.3, 5.0, 9.7, 200.0):
        below, above = np.interp(nats, places, reaches), nats + math.log(2)
        assert width._reach(nats) == pytest.approx(float(below))
        assert width._reach(nats) <= above
    assert width._reach(1e9) == 1e9 + math.log(2)


@pytest.mark.parametrize("doubt", [0.05, 1e-3, 1e-9])
def test_many_noises_have_the_normal_quantile_and_one_its_own_tail(doubt: float) -> None:
    from scipy.special import ndtri

    quantile = float(-ndtri(doubt / 2))
    many = laplace_sum([(1.0, 1e-3)], math.log(doubt), step=0.0)
    assert quantile <= many <= 1.05 * quantile
    one = laplace_sum([(2.0, 2.0)], math.log(doubt), step=0.0)
    assert math.log(1 / doubt) <= one <= math.log(2 / doubt)


@given(
    st.lists(st.tuples(st.floats(1.0, 1e6), st.floats(1e-3, 1.0)), min_size=1, max_size=5),
    st.floats(-30.0, -0.1),
    st.floats(0.0, 10.0),
)
def test_the_search_for_the_least_bound_finds_it(
    groups: list[tuple[float, float]], log_doubt: float, step: float
) -> None:
    noises = [(total, total * share) for total, share in groups]
    found = laplace_sum(noises, log_doubt, step=step)
    steepest = math.sqrt(max(largest for _, largest in noises) / 2)
    every = []
    for ratio in width._GRID:
        s = ratio / steepest
        moment = -sum(total / largest * math.log1p(-largest / 2 * s**2) for total, largest in noises)
        every.append((moment + math.log(2) - log_doubt) / s)
        every.append(width._reach(moment + width._COARSE - log_doubt) / s + 2 * step)
    assert found <= min(every) * (1 + 1e-9)


SMALL = mq.Schema(
    [mq.Boolean("person"), mq.Integer("age", 0, 3), mq.Integer("region", 0, 3), mq.Integer("status", 0, 3)]
)
ROWS = 200_000


def test_one_histogram_serves_every_question_about_a_small_universe() -> None:
    rng = np.random.default_rng(4)
    table = {column.name: rng.integers(0, column.size, ROWS) for column in SMALL}
    table["person"] = table["person"].astype(bool)
    curator = curator_of(SMALL, table, mq.Budget(epsilon=100.0), SeededNoise(1))
    session = mq.online(curator, alpha=0.05, beta=1e-3, simultaneous=False)
    opened = curator.ledger.spent() / UNITS_PER_ONE
    session.ask("age = 1 AND person")
    assert session._record.transcript.has(CELLS)
    spent = curator.ledger.spent()
    unit = math.log(1e3) / (0.05 * ROWS)
    assert opened <= 2.2 * unit  # about the rows alone
    assert spent / UNITS_PER_ONE <= 6.6 * unit
    # Any weights in [0, 1], few or many: nothing more is paid, and the width is within the tolerance.
    for count in range(1, SMALL.size + 1):
        weights = np.zeros(SMALL.size)
        weights[rng.permutation(SMALL.size)[:count]] = 1.0 if count % 3 else rng.random()
        view = Goal(Marginal(SMALL)).view(cells=True)
        assert view is not None
        of = CellView(SMALL, weights, (), view.description)
        assert session._knowledge.width(of, session._record.transcript.moment) <= session.tolerance
    assert curator.ledger.spent() == spent


def test_the_hardest_questions_are_as_hard_as_any() -> None:
    view = Goal(Marginal(SMALL, (), mq.where(SMALL, "person"))).view(cells=True)
    assert isinstance(view, CellView)
    gains = [(hard.gains[()], hard.gains.get(CELLS, 0.0)) for hard in view.hardest]
    rng = np.random.default_rng(5)
    for share in rng.random(50):
        weights = (rng.random(SMALL.size) < share) * rng.random(SMALL.size).round(1)
        of = CellView(SMALL, weights, (), view.description)
        rows, cells = of.gains.get((), 0.0), of.gains.get(CELLS, 0.0)
        for ratio in (0.0, 0.5, 5.0, 50.0, 128.0):
            assert cells + ratio * rows <= max(c + ratio * r for r, c in gains) * 1.02


def test_the_number_of_rows_alone_buys_no_histogram() -> None:
    table = {column.name: np.arange(5_000) % column.size for column in SMALL}
    table["person"] = table["person"].astype(bool)
    with curator_of(SMALL, table, mq.Budget(epsilon=100.0), SeededNoise(2)) as curator:
        coarse = mq.online(curator, alpha=0.1, beta=1e-3, simultaneous=False, warm_start="histogram")
        fine = mq.online(curator, alpha=0.02, beta=1e-3, simultaneous=False, warm_start="histogram", rows=5_000)
        for session in (coarse, fine):
            session._knowledge.tolerance *= 0.5  # as if the rows were known less well than a session makes sure of
            assert session.ask("SELECT count(*) FROM t").guarantee
            assert not session._record.transcript.has(CELLS)
        assert fine.ask("SELECT avg(age) FROM t WHERE person").guarantee
        assert fine._record.transcript.has(CELLS)

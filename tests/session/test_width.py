"""Half-widths: the bound on the length of the noise, its sub-Gaussian premise, and its use by a stubborn adversary."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given, strategies as st
from scipy import special

import maquette as mq
from maquette.estimates.residuals import Columns
from maquette.privacy.interval import sum_half_width
from maquette.query import LinearQuery, Marginal
from maquette.schema import Schema
from maquette.session.precision.description import KIND
from maquette.session.precision.view import View
from maquette.session.precision.view_of import view_of
from maquette.session.precision.width import DERIVED, STEP, Known, Widths, _chi, laplace_half_width, laplace_sum

SCHEMA = Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker"), mq.Category("town", ["a", "b", "c"])])
PIECES = [1, 2, 3, 8, 40, 300, 20_000]
DOUBTS = [-0.1, -1.0, -5.0, -30.0, -400.0]


def view(text: str, *axes: str) -> View:
    return view_of(Marginal(SCHEMA, axes, mq.where(SCHEMA, text)))


def known(of: View, pieces: int = 1, variance: float = 1.0) -> dict[Columns, Known]:
    return {part: Known(variance, pieces) for part in of.gains}


@pytest.mark.parametrize("pieces", PIECES)
@pytest.mark.parametrize("doubt", DOUBTS)
def test_the_length_of_gaussian_noise_exceeds_the_bound_as_rarely_as_it_says(pieces: int, doubt: float) -> None:
    share = doubt + math.log(6 / (math.pi * pieces) ** 2)
    bound = _chi(doubt, pieces)
    assert scipy.stats.chi2.logsf(bound**2, pieces) <= share
    # It is the least such bound by its own formula, and the exact tail is no more than a few nats smaller.
    tail = pieces / 2 * (math.log(bound**2 / pieces) + 1) - bound**2 / 2
    assert tail == pytest.approx(share, rel=1e-6, abs=1e-6)
    assert scipy.stats.chi2.logsf(bound**2, pieces) >= share - 3 - math.log(bound**2)


@given(st.integers(1, 500), st.floats(-200, -0.01))
def test_the_bound_grows_with_pieces_and_with_certainty(pieces: int, doubt: float) -> None:
    assert _chi(doubt, pieces) <= _chi(doubt, pieces + 1)
    assert _chi(doubt, pieces) <= _chi(doubt - 1.0, pieces)
    assert _chi(-math.inf, pieces) == math.inf


def test_shares_of_numbers_of_pieces_and_of_fresh_numbers_add_up() -> None:
    assert sum(6 / (math.pi * m) ** 2 for m in range(1, 10**5)) <= 1
    widths = Widths(0.1, True, gaussian=True)
    fresh = [widths.fresh(1, number) for number in range(1, 10**4)]
    assert sum(fresh) <= 0.1 / 4
    assert widths.fresh(50, 3) * 50 == pytest.approx(fresh[2])
    assert 1 - widths.fresh(2**26, 10**6) < 1


@pytest.mark.parametrize("variance", [0.02, 0.1, 0.3, 1.0, 5.0, 60.0])
def test_the_discrete_gaussian_is_sub_gaussian(variance: float) -> None:
    """E exp(t z) <= exp(t^2 variance / 2), hence E exp(s z^2 / variance) <= (1 - 2 s)^(-1/2)."""
    values = np.arange(-400, 401)
    total = special.logsumexp(-(values**2) / (2 * variance))
    for t in np.linspace(-6, 6, 25) / math.sqrt(variance):
        assert special.logsumexp(t * values - values**2 / (2 * variance)) - total <= t**2 * variance / 2 + 1e-12
    for s in (0.05, 0.2, 0.4, 0.45):
        square = special.logsumexp((s - 0.5) * values**2 / variance) - total
        assert square <= -math.log(1 - 2 * s) / 2 + 1e-12


@pytest.mark.parametrize("deviation", [0.1, 0.25, 0.5, 0.9, 2.0, 11.0])
def test_a_step_makes_the_normal_quantile_hold_for_the_discrete_law(deviation: float) -> None:
    values = np.arange(-200, 201)
    law = np.exp(-(values**2) / (2 * deviation**2))
    law /= law.sum()
    for beta in (0.9, 0.5, 0.2, 0.05, 1e-3, 1e-6, 1e-9):
        width = sum_half_width(deviation, deviation, 1 - beta, gaussian=True) + STEP
        assert law[np.abs(values) > width].sum() <= beta * (1 + 1e-9)


def adversary(runs: int, pieces: int, seed: int, drawn: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors, deviations and standardized noise of one question as an adversary buys piece after piece.

    Whoever decides sees the error: while it is small it is nearly thrown away by a far more precise piece, once it is
    large it is kept by pieces that weigh next to nothing, and pieces of equal weight are tried in between.
    """
    rng = np.random.default_rng(seed)
    sums, precision = np.zeros(runs), np.zeros(runs)
    errors, deviations, noise = (np.zeros((pieces, runs)) for _ in range(3))
    for i in range(pieces):
        unit = rng.normal(size=runs) if drawn == "gaussian" else rng.laplace(scale=math.sqrt(0.5), size=runs)
        size = np.abs(sums) / np.sqrt(np.maximum(precision, 1e-300))
        factor = np.where(size < 1.0, 50.0, np.where(size > 2.0, 0.02, 1.0))
        bought = np.where(precision > 0, precision * factor, 1.0)
        sums, precision = sums + unit * np.sqrt(bought), precision + bought
        errors[i], deviations[i], noise[i] = sums / precision, precision**-0.5, unit
    return errors, deviations, noise


def test_no_adversary_who_chooses_precisions_and_when_to_stop_beats_the_bound() -> None:
    runs, pieces, beta = 20_000, 30, 0.1
    errors, deviations, noise = adversary(runs, pieces, 5, "gaussian")
    lengths = np.sqrt(np.cumsum(noise**2, axis=0))
    assert (np.abs(errors) <= deviations * lengths * (1 + 1e-9)).all()
    bounds = np.array([_chi(math.log(beta), m) for m in range(1, pieces + 1)])[:, None]
    missed = (np.abs(errors) > deviations * bounds).any(axis=0).sum()
    assert scipy.stats.binom.sf(missed - 1, runs, beta) > 1e-6
    # The adversary is a strong one: the quantile of a fixed question fails it far more often than stated.
    naive = (np.abs(errors) > deviations * scipy.stats.norm.isf(beta / 2)).any(axis=0).sum()
    assert scipy.stats.binom.sf(naive - 1, runs, 4 * beta) < 1e-6


def test_no_adversary_beats_the_bound_of_laplace_noise() -> None:
    runs, pieces, beta = 20_000, 12, 0.2
    errors, deviations, _ = adversary(runs, pieces, 6, "laplace")
    of, widths = view("TRUE"), Widths(beta, True, gaussian=False)
    unnamed = 2.0**-of.description.bits * DERIVED
    bounds = [
        laplace_half_width(math.sqrt(m), math.sqrt(m), math.log(beta * 6 / (math.pi * m) ** 2 / m))
        for m in range(1, pieces + 1)
    ]
    missed = (np.abs(errors) > deviations * np.array(bounds)[:, None]).any(axis=0).sum()
    assert scipy.stats.binom.sf(missed - 1, runs, beta) > 1e-6
    for m in range(1, pieces + 1):  # the session's own width is this bound at the question's share of the doubt
        doubt = math.log(beta * unnamed * 6 / (math.pi * m) ** 2 / m)
        own = widths.of(of, known(of, pieces=m))
        assert own == pytest.approx(laplace_half_width(math.sqrt(m), math.sqrt(m), doubt))


@given(st.floats(0.01, 100.0), st.floats(0.05, 0.999), st.floats(1e-9, 0.9))
def test_laplace_widths_agree_with_those_of_a_confidence(deviation: float, share: float, doubt: float) -> None:
    ours = laplace_half_width(deviation, deviation * share, math.log(doubt))
    assert ours == pytest.approx(sum_half_width(deviation, deviation * share, 1 - doubt, gaussian=False), rel=1e-6)


@given(st.floats(0.01, 100.0), st.floats(1e-9, 0.9))
def test_one_noise_has_its_own_tail(deviation: float, doubt: float) -> None:
    scale = deviation / math.sqrt(2)
    own = sum_half_width(deviation, deviation, 1 - doubt, gaussian=False)
    assert own == pytest.approx(scale * math.log(2 / doubt), rel=1e-6)
    assert own <= laplace_half_width(deviation, deviation, math.log(doubt))
    assert laplace_sum([(deviation**2, deviation**2)], math.log(doubt)) >= own * (1 - 1e-6)


@pytest.mark.parametrize("scale", [0.1, 0.5, 2.0, 20.0])
@pytest.mark.parametrize("factor", [1 / 64, 0.5, 1.0, 10.0])
def test_the_tail_of_one_noise_holds_for_the_discrete_law_and_its_multiples(scale: float, factor: float) -> None:
    values = np.arange(5000)
    beyond = 2 * np.exp(-(values + 1) / scale) / (1 + math.exp(-1 / scale))  # Pr[|noise| > value]
    for doubt in (0.9, 0.5, 0.3, 0.1, 0.05, 1e-3, 1e-9):
        deviation = factor * scale * math.sqrt(2)
        width = sum_half_width(deviation, deviation, 1 - doubt, gaussian=False)
        assert beyond[math.floor(width / factor * (1 + 1e-12))] <= doubt


@pytest.mark.parametrize("pieces", [2, 3, 10])
def test_the_tail_of_one_noise_holds_for_several_of_its_variance(pieces: int) -> None:
    """Evidence may say that one noise value makes up all of a deviation where it does not know better."""
    rng, runs = np.random.default_rng(pieces), 200_000
    for shares in (np.full(pieces, 1 / pieces), 0.5 ** np.arange(1, pieces + 1)):
        sums = rng.laplace(size=(runs, pieces)) @ np.sqrt(shares / shares.sum())
        for doubt in (0.9, 0.5, 0.3, 0.1, 0.01):
            missed = int((np.abs(sums) > sum_half_width(math.sqrt(2), math.sqrt(2), 1 - doubt, gaussian=False)).sum())
            assert scipy.stats.binom.sf(missed - 1, runs, doubt) > 1e-6


GROUPS = [
    [(1.0, 1.0)],  # of several noises or pieces
    [(1.0, 0.25)],
    [(1.0, 1.0), (1.0, 1.0)],
    [(4.0, 1.0), (1.0, 0.01)],
    [(1.0, 1.0), (0.0, 0.0)],
    [(9.0, 0.5), (2.0, 2.0), (3.0, 0.1)],
]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("groups", GROUPS, ids=str)
@pytest.mark.parametrize("size", [0.3, 5.0])
def test_a_sum_of_groups_of_laplace_noise_stays_within_its_width(
    groups: list[tuple[float, float]], size: float
) -> None:
    """Discrete noises, as many of the largest in every group as its total has room for, and one for the rest."""
    rng, runs = np.random.default_rng(11), 200_000
    sums = np.zeros(runs)
    for total, largest in groups:
        count = int(total / largest) if largest else 0
        for variance in [largest] * count + [total - count * largest]:
            decay = math.exp(-1 / size)  # noise of this scale, times what gives it the variance
            noise = rng.geometric(1 - decay, size=runs) - rng.geometric(1 - decay, size=runs)
            sums += math.sqrt(max(0.0, variance) / 2) / size * noise
    for doubt in (0.9, 0.5, 0.3, 0.1, 0.01, 1e-4):
        missed = int((np.abs(sums) > laplace_sum(groups, math.log(doubt))).sum())
        assert scipy.stats.binom.sf(missed - 1, runs, doubt) > 1e-6


@given(
    st.lists(st.tuples(st.floats(0.01, 100.0), st.floats(0.01, 1.0)), min_size=1, max_size=6), st.floats(1e-12, 0.95)
)
def test_groups_are_never_wider_than_a_deviation_and_its_largest_part(
    groups: list[tuple[float, float]], doubt: float
) -> None:
    noises = [(total, total * share) for total, share in groups]
    deviation, largest = math.sqrt(sum(n[0] for n in noises)), math.sqrt(max(n[1] for n in noises))
    width = laplace_sum(noises, math.log(doubt))
    assert width <= laplace_half_width(deviation, largest, math.log(doubt)) * (1 + 1e-12)
    # A group split in two, as more pieces would split it, is no wider, and a group without noise adds nothing.
    halves = [(total / 2, largest / 2) for total, largest in noises for _ in range(2)]
    assert laplace_sum(halves, math.log(doubt)) <= width * 1.02  # the grid is as fine
    assert laplace_sum([*noises, (0.0, 0.0)], math.log(doubt)) == width


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 7.0])
def test_the_moments_of_discrete_laplace_noise_are_no_larger_than_those_of_its_scale(scale: float) -> None:
    decay = math.exp(-1 / scale)
    for share in np.linspace(0.01, 0.99, 50):
        s = share / scale
        discrete = (1 - decay) ** 2 / ((1 - decay * math.exp(s)) * (1 - decay * math.exp(-s)))
        assert discrete <= 1 / (1 - share**2) * (1 + 1e-12)


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_the_number_of_rows_in_several_pieces_has_the_width_of_a_sum(pieces: int) -> None:
    of, widths = view("TRUE"), Widths(0.5, False, gaussian=False)
    own = math.log(2 / 0.5) / math.sqrt(2)
    assert widths.of(of, known(of)) == pytest.approx(own)
    assert widths.of(of, known(of, pieces=pieces)) >= own * (1 - 1e-12)


def test_laplace_widths_stay_finite_for_questions_with_very_long_names() -> None:
    schema = Schema([mq.Integer(f"x{i}", 0, 63) for i in range(3)])
    text = " AND ".join(f"x{i} IN (1, 3, 7, 20, 40, 41)" for i in range(3))
    of = view_of(Marginal(schema, (), mq.where(schema, text)))
    assert of.description.bits > 190
    assert 0 < Widths(0.05, True, gaussian=False).of(of, known(of)) < math.inf
    nameless = view_of(Marginal(schema, (), LinearQuery.product(schema, {"x0": np.linspace(0, 1, 64) ** 2})))
    assert Widths(0.05, True, gaussian=False).of(nameless, known(nameless)) == math.inf


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("simultaneous", [True, False])
def test_widths_rise_with_every_variance_and_with_certainty(gaussian: bool, simultaneous: bool) -> None:
    of = view("age IN (1, 4, 7) AND smoker AND town <> 'a'")
    base = known(of)
    width = Widths(0.05, simultaneous, gaussian).of(of, base)
    for part in of.gains:
        assert Widths(0.05, simultaneous, gaussian).of(of, {**base, part: Known(1.5, 1)}) > width
        more = Widths(0.05, simultaneous, gaussian).of(of, {**base, part: Known(1.0, 2)})
        assert more > width if simultaneous else more == width
    assert Widths(0.01, simultaneous, gaussian).of(of, base) > width


def test_each_uses_the_normal_quantile_and_all_at_once_the_better_of_two_bounds() -> None:
    each, together = Widths(0.05, False, gaussian=True), Widths(0.05, True, gaussian=True)
    cell, odd = view("age = 3 AND smoker"), view("age IN (1, 4, 7)")
    assert each.multiplier(cell, known(cell)) == pytest.approx(1.959964, rel=1e-6)
    assert 4 < together.multiplier(cell, known(cell)) < together.multiplier(odd, known(odd)) < 12
    assert together.multiplier(odd, known(odd)) < together.multiplier(odd, known(odd), per=view("TRUE"))
    assert together.multiplier(cell, known(cell)) < together.multiplier(cell, known(cell), per=cell)
    # All pieces of all parts count, and whatever names the question.
    uneven = {part: Known(1.0, 1 + i) for i, part in enumerate(cell.gains)}
    doubt = math.log(0.05 * DERIVED) - cell.description.bits * math.log(2)
    assert together.multiplier(cell, uneven) == pytest.approx(_chi(doubt, 1 + 2 + 3 + 4))
    rented = {part: Known(1.0, 1, lumped=True) for part in odd.gains}
    doubt = math.log(0.05 * DERIVED) - (odd.description.bits + KIND) * math.log(2)  # a rented question says so
    assert together.multiplier(odd, rented) == pytest.approx(_chi(doubt, len(rented)))
    assert together.multiplier(odd, rented) >= together.multiplier(odd, known(odd))
    # Weights without a name fall back on all directions of their columns, 10 here.
    nameless = view_of(Marginal(SCHEMA, (), LinearQuery.product(SCHEMA, {"age": np.linspace(0, 1, 10) ** 2})))
    log_doubt = math.log(0.05 * DERIVED) - (nameless.description.set_bits + KIND) * math.log(2)
    assert together.multiplier(nameless, known(nameless)) == pytest.approx(_chi(log_doubt, 10))
    owned = {part: Known(1.0, 1, lumped=part != ()) for part in nameless.gains}
    assert together.multiplier(nameless, owned) == math.inf  # noise of its own is shared by no other direction

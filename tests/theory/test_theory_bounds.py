"""Bounds against what they bound: exact tails, exact counts, closed forms, fixed points, monotonicity."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.special import ndtr

from maquette.audit.reference import exponential_law, permute_and_flip_law, reference_scales
from maquette.privacy.conversion import zcdp_epsilon, zcdp_rho
from maquette.theory import composition, net, noise, offline, online, selection, updates
from maquette.theory.solve import fixed_point, is_vacuous

DELTA, BETA = 1e-9, 0.05
epsilons = st.floats(0.01, 1.0)
sizes = st.sampled_from([16, 2**10, 2**20, 2**60])
counts = st.sampled_from([1, 1000, 10**6])
tables = st.sampled_from([10**3, 10**5, 10**7])


@given(queries=st.integers(1, 10**6), beta=st.floats(1e-6, 0.5), epsilon=epsilons)
def test_laplace_accuracy_covers_all_answers(queries: int, beta: float, epsilon: float) -> None:
    scale = queries / (1000 * epsilon)
    bound = noise.laplace_accuracy(queries=queries, epsilon=epsilon, rows=1000, beta=beta)
    exact = noise.laplace_quantile(queries=queries, epsilon=epsilon, rows=1000, beta=beta)
    assert exact <= bound * (1 + 1e-12)
    assert queries * math.log1p(-math.exp(-exact / scale)) == pytest.approx(math.log1p(-beta))


@given(queries=st.integers(1, 10**6), beta=st.floats(1e-6, 0.5))
def test_gaussian_accuracy_covers_all_answers(queries: int, beta: float) -> None:
    facts: dict[str, Any] = {"queries": queries, "rho": 0.02, "rows": 1000}
    deviations = noise.gaussian_accuracy(**facts, beta=beta) / noise.gaussian_deviation(**facts)
    assert 1 - (1 - 2 * ndtr(-deviations)) ** queries <= beta


def test_histogram_accuracy_is_the_norm_of_the_worst_query() -> None:
    universe, rows, rho = 8, 100, 0.5
    signs = np.array(np.meshgrid(*[[0.0, 1.0]] * universe)).reshape(universe, -1).T
    relation: Any
    for relation, shift, moved in (("replace", 0.5, math.sqrt(2)), ("add-remove", 0.0, 1.0)):
        worst = np.linalg.norm(signs - shift, axis=1).max() * moved / (rows * math.sqrt(2 * rho))
        error = noise.histogram_accuracy(universe=universe, queries=1, rho=rho, rows=rows, beta=BETA, relation=relation)
        assert error == pytest.approx(worst * noise.gaussian_tail(1, BETA))


@pytest.mark.parametrize(
    ("law", "bound"),
    [
        (exponential_law, selection.exponential_error),
        (permute_and_flip_law, selection.permute_and_flip_error),
    ],
)
@pytest.mark.parametrize("scores", [[0, 5, 9, 12], [0] * 7 + [30], [3, 3, 3]])
def test_selection_utility_holds_under_the_exact_law(law: Any, bound: Any, scores: Any) -> None:
    epsilon = 0.7
    for gamma in (0.3, 0.05, 1e-3):
        allowed = bound(candidates=len(scores), epsilon=epsilon, gamma=gamma, rows=1)
        probabilities = law(scores, scale=2 / epsilon)
        assert probabilities[max(scores) - np.array(scores) > allowed].sum() <= gamma


def test_noisy_max_error_is_two_tails() -> None:
    # Every one of R noises Lap(2/epsilon) is within half of it, but for gamma.
    half = selection.noisy_max_error(candidates=50, epsilon=0.5, gamma=0.01, rows=1) / 2
    assert 50 * math.exp(-half * 0.5 / 2) == pytest.approx(0.01)


@given(universe=st.integers(1, 3000), size=st.integers(1, 3000))
def test_log_multisets_is_the_logarithm_of_the_count(universe: int, size: int) -> None:
    assert net.log_multisets(universe, size) == pytest.approx(
        math.log(math.comb(universe + size - 1, size)), rel=1e-11, abs=1e-9
    )


@pytest.mark.parametrize(("universe", "size"), [(3, 10**7), (10**7, 40), (2**99, 200), (2**101, 200), (10**400, 50)])
def test_log_multisets_of_large_universes(universe: int, size: int) -> None:
    assert net.log_multisets(universe, size) == pytest.approx(math.log(math.comb(universe + size - 1, size)), rel=1e-13)


@given(queries=st.integers(1, 10**9), alpha0=st.floats(1e-4, 0.9))
def test_small_databases_are_just_large_enough(queries: int, alpha0: float) -> None:
    size = net.small_database_size(queries=queries, alpha0=alpha0)
    assert math.log(2 * queries) - 2 * size * alpha0**2 < 0
    assert size == 1 or math.log(2 * queries) - 2 * (size - 1) * alpha0**2 >= -1e-9


@given(universe=sizes, queries=counts, rows=tables, epsilon=epsilons)
@settings(max_examples=40)
def test_small_db_is_no_worse_than_its_closed_form(universe: int, queries: int, rows: int, epsilon: float) -> None:
    facts: dict[str, Any] = {"universe": universe, "queries": queries, "rows": rows, "epsilon": epsilon, "beta": BETA}
    closed = net.small_db_closed_form(**facts)
    one_more_row = 2 * math.log(universe) / (epsilon * rows)
    if closed < 1:  # beyond, the best alpha0 is no fraction
        assert net.small_db(**facts).alpha <= 1.001 * closed + one_more_row


def test_update_bounds_agree_where_they_meet() -> None:
    alpha, universe = 0.1, 2**10
    tight = updates.multiplicative_weights(universe, alpha)
    assert updates.multiplicative_weights_book(universe, alpha) == pytest.approx(8 * tight)
    assert updates.multiplicative_weights_prior(math.log(universe), alpha) == pytest.approx(tight)
    assert updates.multiplicative_weights_range(universe, alpha, 1.0) == pytest.approx(tight)
    assert updates.separable(universe, alpha) == pytest.approx(tight)
    assert updates.p_norm(universe, alpha, 2.0) == pytest.approx(updates.perceptron(universe, alpha))
    p = 1 + 1 / math.log(universe)
    assert updates.p_norm(universe, alpha, p) <= math.e**2 * math.log(universe) / alpha**2
    # A simple graph: |x|_2 / |x|_1 = edges^(-1/2) over |V|^2 cells.
    cut = updates.frieze_kannan(40, 800, alpha)
    assert cut == pytest.approx(updates.perceptron(40**2, alpha, norm=800**-0.5))
    assert updates.frieze_kannan(40, 800, 0.05) == pytest.approx(800)
    assert round(updates.separable(20, 0.05)) == 599


@given(support=st.integers(1, 10**6), alpha=st.floats(0.001, 0.9))
def test_sparse_updates_are_the_least_that_close_the_circle(support: int, alpha: float) -> None:
    def slots(count: int) -> float:
        return math.log(support * count + 1) / (2 * alpha**2)

    least = updates.sparse(support, alpha)
    assert least >= slots(least)
    assert least == 1 or least - 1 < slots(least - 1)


def test_median_halves_a_net_of_a_power_of_two() -> None:
    assert [updates.median(math.log(2**k)) for k in range(1, 60)] == list(range(1, 60))
    assert updates.median(net.log_multisets(3, 6)) == 4  # 28 databases
    alpha, universe, queries = 0.05, 2**10, 1000
    rough = (math.log(2 * queries) / (2 * alpha**2) + 1) * math.log2(universe)
    assert updates.median_small_databases(universe, queries, alpha) <= rough


@given(universe=sizes, queries=counts, rows=tables, epsilon=epsilons, delta=st.sampled_from([0.0, DELTA]))
@settings(max_examples=40)
def test_fixed_points_are_the_closed_forms(
    universe: int, queries: int, rows: int, epsilon: float, delta: float
) -> None:
    facts: dict[str, Any] = {"queries": queries, "rows": rows, "epsilon": epsilon, "delta": delta, "beta": BETA}
    rule = partial(updates.multiplicative_weights_book, universe)
    alpha = offline.book(updates=rule, **facts)
    rounds = rule(alpha / 2)
    if rounds > 1:
        log_term = math.log(2 * rounds * queries / BETA)
        if delta == 0:
            closed = 8 * (math.log(universe) * log_term / (rows * epsilon)) ** (1 / 3)
        else:
            closed = 16 * (math.log(universe) * math.log(1 / delta)) ** 0.25 * math.sqrt(log_term / (rows * epsilon))
        assert alpha == pytest.approx(closed, rel=1e-9)
    online_alpha = online.book(updates=rule, **facts) / 3
    hits = rule(online_alpha)
    if hits > 1 and delta == 0:
        log_term = math.log(2 * queries) + math.log(4 * hits / BETA)
        closed = (36 * math.log(universe) * log_term / (epsilon * rows)) ** (1 / 3)
        assert online_alpha == pytest.approx(closed, rel=1e-9)


def test_theorems_5_10_and_5_12_with_corrected_constants() -> None:
    universe, queries, rows, epsilon = 2**10, 1000, 10**7, 0.5
    facts: dict[str, Any] = {"queries": queries, "rows": rows, "epsilon": epsilon, "delta": DELTA, "beta": BETA}
    bits = math.log2(universe)
    printed = 64 * math.sqrt(bits * math.log(1 / DELTA)) / (math.sqrt(rows) * epsilon)
    printed *= math.log(2 * queries * rows * bits / BETA)
    assert offline.book(updates=lambda _: rows * bits, **facts) == pytest.approx(printed)
    norm = 0.1
    alpha = offline.book(updates=lambda a: updates.perceptron(universe, a, norm), **facts)
    log_term = math.log(2 * updates.perceptron(universe, alpha / 2, norm) * queries / BETA)
    closed = math.sqrt(128 * norm) * (universe * math.log(1 / DELTA)) ** 0.25 * math.sqrt(log_term / (epsilon * rows))
    assert alpha == pytest.approx(closed)


@given(scale=st.floats(1e-6, 1e6), power=st.floats(0.0, 4.0))
def test_fixed_point_solves_to_the_last_digits(scale: float, power: float) -> None:
    def rhs(alpha: float) -> float:
        return scale / alpha**power

    alpha = fixed_point(rhs)
    assert alpha == pytest.approx(rhs(alpha), rel=1e-12)
    assert rhs(alpha * 0.999) > alpha * 0.999  # and nothing below satisfies alpha >= rhs(alpha)


SOLVERS = {
    "offline book": lambda n, e, d: offline.book(
        updates=partial(updates.multiplicative_weights_book, 1024), queries=1000, epsilon=e, delta=d, rows=n, beta=BETA
    ),
    "offline tight": lambda n, e, d: (
        offline.tight(
            updates=partial(updates.multiplicative_weights, 1024), queries=1000, epsilon=e, delta=d, rows=n, beta=BETA
        ).alpha
    ),
    "averaged": lambda n, e, d: (
        offline.averaged(universe=1024, queries=1000, epsilon=e, delta=d, rows=n, beta=BETA).alpha
    ),
    "online book": lambda n, e, d: online.book(
        updates=partial(updates.multiplicative_weights_book, 1024), queries=1000, epsilon=e, delta=d, rows=n, beta=BETA
    ),
    "online tight": lambda n, e, d: (
        online.tight(
            updates=partial(updates.multiplicative_weights, 1024),
            queries=1000,
            epsilon=e,
            delta=DELTA,
            rows=n,
            beta=BETA,
        ).alpha
    ),
    "online lazy": lambda n, e, d: (
        online.lazy(
            updates=partial(updates.multiplicative_weights, 1024),
            queries=1000,
            epsilon=e,
            delta=DELTA,
            rows=n,
            beta=BETA,
        ).alpha
    ),
    "small db": lambda n, e, d: net.small_db(universe=1024, queries=1000, epsilon=e, rows=n, beta=BETA).alpha,
}


@pytest.mark.thorough(fast=8)
@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("delta", [0.0, DELTA])
def test_errors_fall_with_rows_and_epsilon(name: str, delta: float) -> None:
    solver = SOLVERS[name]
    by_rows = [solver(rows, 0.5, delta) for rows in (10**5, 10**6, 10**7, 10**8)]
    by_epsilon = [solver(10**7, epsilon, delta) for epsilon in (0.1, 0.2, 0.5, 1.0)]
    for errors in (by_rows, by_epsilon):
        assert all(later < earlier for earlier, later in pairwise(errors))
    assert not is_vacuous(by_rows[-1])


@given(universe=sizes, queries=counts, rows=st.sampled_from([10**6, 10**8]), delta=st.sampled_from([0.0, DELTA]))
@settings(max_examples=30)
def test_averaged_minimum_is_its_closed_form(universe: int, queries: int, rows: int, delta: float) -> None:
    facts: dict[str, Any] = {
        "universe": universe,
        "queries": queries,
        "rows": rows,
        "epsilon": 1.0,
        "delta": delta,
        "beta": BETA,
    }
    best = offline.averaged(**facts)
    closed = offline.averaged_closed_form(**facts, rounds=best.rounds)
    assert closed * (1 - 1e-12) <= best.alpha <= 1.02 * closed


def test_tight_construction_keeps_its_own_conditions() -> None:
    rows, rho = 10**6, zcdp_rho(1.0, DELTA)
    rule = partial(updates.multiplicative_weights, 1024)
    best = offline.tight(updates=rule, queries=1000, epsilon=1.0, delta=DELTA, rows=rows, beta=BETA)
    assert best.rounds <= rule(best.resolution)
    selection_epsilon = math.sqrt(8 * best.share * rho / best.rounds)
    deviation = math.sqrt(best.rounds / (2 * (1 - best.share) * rho)) / rows
    spent = best.rounds * (selection_epsilon**2 / 8 + 1 / (2 * rows**2 * deviation**2))
    assert spent == pytest.approx(rho)
    noise_bound = deviation * noise.gaussian_tail(best.rounds, BETA / 2)
    gamma = BETA / (2 * best.rounds)
    chosen = selection.exponential_error(candidates=1000, epsilon=selection_epsilon, gamma=gamma, rows=rows)
    assert noise_bound < best.resolution
    assert best.alpha == pytest.approx(best.resolution + 2 * noise_bound + chosen)


@pytest.mark.parametrize("rows", [10**5, 10**6, 10**7])
def test_online_construction_keeps_its_own_conditions(rows: int) -> None:
    rule = partial(updates.multiplicative_weights, 1024)
    best = online.tight(updates=rule, queries=1, epsilon=1.0, delta=DELTA, rows=rows, beta=0.9)
    assert best.rounds <= rule(best.resolution)
    scales = online.concentrated(hits=best.rounds, rho=zcdp_rho(1.0, DELTA), test_share=best.share)
    an_answer_misses = 2 * best.rounds * math.exp(-((best.resolution * rows / scales.answer) ** 2) / 2)
    assert an_answer_misses <= 0.9 / 4
    width = scales.query * math.log(2 / 0.9) + scales.threshold * math.log(4 * best.rounds / 0.9)
    assert best.alpha == pytest.approx(best.resolution + 2 * width / rows)


@pytest.mark.parametrize("hits", [1, 7, 1000])
def test_sparse_vector_scales_spend_the_budget(hits: int) -> None:
    epsilon, rho = 0.8, 0.02
    fresh = online.resampled(hits=hits, epsilon=epsilon)
    assert hits * (1 / fresh.threshold + 2 / fresh.query + 1 / fresh.answer) == pytest.approx(epsilon)
    kept = online.unresampled(hits=hits, epsilon=epsilon)
    assert 1 / kept.threshold + hits * (2 / kept.query + 1 / kept.answer) == pytest.approx(epsilon)
    zcdp = online.concentrated(hits=hits, rho=rho)
    each = 1 / zcdp.threshold + 2 / zcdp.query
    assert hits * (each**2 / 2 + 1 / (2 * zcdp.answer**2)) == pytest.approx(rho)
    strong = online.resampled_approximate(hits=hits, epsilon=epsilon, delta=DELTA)
    tests = 1 / strong.threshold + 2 / strong.query
    spent = [composition.advanced(accesses=hits, epsilon=e, delta=DELTA / 2) for e in (tests, 1 / strong.answer)]
    assert sum(spent) <= epsilon


@pytest.mark.parametrize("form", ["resampled", "unresampled", "zcdp"])
def test_sparse_vector_scales_are_those_of_the_audits(form: str) -> None:
    reference = reference_scales(form, 0.5, 12, 1, numeric=True)
    if form == "zcdp":
        ours = online.concentrated(hits=12, rho=0.5)
        assert ours.answer**2 == pytest.approx(reference["answer"])
    else:
        ours = getattr(online, form)(hits=12, epsilon=0.5)
        assert ours.answer == pytest.approx(reference["answer"])
    assert (ours.threshold, ours.query) == pytest.approx((reference["threshold"], reference["query"]))


@given(accesses=st.integers(1, 2000), epsilon=st.floats(0.001, 1.0), exponent=st.integers(2, 12))
@settings(max_examples=60)
def test_optimal_composition_is_below_every_other_rule(accesses: int, epsilon: float, exponent: int) -> None:
    each: dict[str, Any] = {"accesses": accesses, "epsilon": epsilon}
    delta = 10.0**-exponent
    best = composition.optimal(**each, delta=delta)
    others = [
        composition.basic(**each),
        composition.advanced(**each, delta=delta),
        composition.advanced_tight(**each, delta=delta),
        composition.concentrated(**each, delta=delta),
    ]
    assert best <= min(others) * (1 + 1e-9)
    assert composition.optimal_delta(**each, total_epsilon=best) <= delta * (1 + 1e-9)


def test_composition_grows_with_accesses_and_epsilon() -> None:
    for rule in (composition.advanced, composition.advanced_tight, composition.optimal, composition.concentrated):
        longer = [rule(accesses=k, epsilon=0.1, delta=DELTA) for k in (1, 10, 100, 1000)]
        stronger = [rule(accesses=100, epsilon=e, delta=DELTA) for e in (0.01, 0.1, 0.5, 1.0)]
        assert sorted(longer) == longer
        assert sorted(stronger) == stronger
    assert zcdp_epsilon(zcdp_rho(1.0, DELTA), DELTA) == pytest.approx(1.0)


def test_one_access_composes_to_itself() -> None:
    exact = composition.optimal_delta(accesses=1, epsilon=1.0, total_epsilon=0.4)
    response = math.e / (1 + math.e)
    assert exact == pytest.approx(response - math.exp(0.4) * (1 - response))


@pytest.mark.parametrize("rate", [0.001, 0.05, 0.5, 2.0])
def test_lazy_rounds_satisfy_their_inequality(rate: float) -> None:
    """E exp(s loss - m [hit]) <= 1 for the extremal law of one round at every (p, p'), with equality at a vertex."""
    up, down = math.exp(rate), math.exp(-rate)
    share = 1 / (1 + up)
    for order in (1e-3, 0.05, 0.3, 0.6):
        shift = math.expm1(order) * math.expm1(order + rate)
        if shift >= 1:
            continue
        s = order / rate

        def moment(p: float, others: Any, s: float = s, shift: float = shift) -> Any:
            hit = (p * math.sinh((1 + s) * rate) - others * math.sinh(s * rate)) / math.sinh(rate)
            return (1 - p) * ((1 - p) / (1 - others)) ** s + (1 - shift) * hit

        assert moment(share, up * share) == pytest.approx(1.0, abs=1e-12)
        for p in (1e-9, 1e-4, 0.01, 0.2, 0.45, share, 0.5, 1 - share, 0.55, 0.8, 0.99, 1 - 1e-9):
            others = np.linspace(max(p * down, 1 - (1 - p) * up), min(p * up, 1 - (1 - p) * down), 401)
            assert moment(p, others).max() <= 1 + 1e-9


def test_lazy_epsilon_is_never_below_its_formula() -> None:
    """The grid's own formula in fifty digits: rounding only ever raises the charge."""
    with mpmath.workdps(50):
        for hits, rate, delta in [
            (1, 0.03, 1e-9),
            (100, 0.01, 1e-9),
            (10**6, 1e-4, 1e-12),
            (3, 0.5, 1e-3),
            (7, 1e-7, 1e-9),
        ]:
            exact = mpmath.inf
            for order in np.geomspace(1e-6, math.log(2.0), 400):
                x, lam = mpmath.mpf(float(order)), mpmath.mpf(rate)
                shift = mpmath.expm1(x) * mpmath.expm1(x + lam)
                if shift < 1:
                    s = x / lam
                    tail = -mpmath.log(delta) + s * mpmath.log(s) - (1 + s) * mpmath.log(1 + s)
                    exact = min(exact, (-hits * mpmath.log(1 - shift) + tail) / s)
            charged = online.lazy_epsilon(hits=hits, rate=rate, delta=delta)
            assert exact <= charged <= exact * (1 + 2e-9) + 1e-9


def test_lazy_rounds_cost_less_than_the_sum_of_hit_probabilities_says() -> None:
    """The bound of Mechanisms §6.3, by a supermartingale on the sum of hit probabilities, is another valid one."""

    def psi(u: Any) -> Any:
        return (np.expm1(u) - u) / u**2

    for hits in (1, 10, 1000):
        rate = online.lazy_rate(hits=hits, epsilon=1.0, delta=DELTA)
        spread = 1 + math.exp(rate) * math.expm1(rate) / rate
        s = np.geomspace(1.0, 20 / rate, 600)
        older = min(
            float((spread * rate**2 * visits * (s * psi(s * rate) + psi(rate)) - math.log(DELTA / 2) / s).min())
            for theta in (0.1, 0.2, 0.4, 0.7, 1.0, 1.5)
            for visits in [(theta * hits - math.log(DELTA / 2)) / -math.expm1(-theta)]
        )
        assert older > 1.15


@given(hits=st.sampled_from([1, 30, 1000, 10**6]), epsilon=st.floats(0.05, 20.0))
@settings(max_examples=30)
def test_lazy_rate_spends_what_it_may(hits: int, epsilon: float) -> None:
    rate = online.lazy_rate(hits=hits, epsilon=epsilon, delta=DELTA)
    spent = online.lazy_epsilon(hits=hits, rate=rate, delta=DELTA)
    assert spent <= epsilon * (1 + 1e-12)
    assert rate == 0.5 or spent >= epsilon * (1 - 1e-9)

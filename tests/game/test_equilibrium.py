"""The game in the open: its value, its equilibria, the regrets of its players, and the bounds of the theory."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from maquette.audit.reference import exponential_law
from maquette.errors import QueryError
from maquette.privacy.conversion import zcdp_rho
from maquette.releases import Game, Hedge, mixed_answer
from maquette.theory import game as theory, offline


def value_by_linear_program(gains: np.ndarray) -> tuple[float, np.ndarray]:
    """min over D of max over moves of gains @ D."""
    moves, records = gains.shape
    from scipy.optimize import linprog

    solved = linprog(
        np.append(np.zeros(records), 1.0),
        A_ub=np.hstack([gains, -np.ones((moves, 1))]),
        b_ub=np.zeros(moves),
        A_eq=np.append(np.ones(records), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[*((0, None) for _ in range(records)), (None, None)],
    )
    return float(solved.fun), solved.x[:-1]


@pytest.mark.parametrize("seed", range(8))
def test_the_value_is_zero_and_averaged_play_is_an_equilibrium_of_both_regrets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    queries, records = int(rng.integers(2, 12)), int(rng.integers(2, 12))
    data = rng.dirichlet(np.ones(records) * 0.4)
    game = Game.of_queries(rng.random((queries, records)), data)
    value, optimal = value_by_linear_program(game.gains)
    assert value == pytest.approx(0.0, abs=1e-8)
    assert game.worst(optimal) <= 1e-7
    even = np.full(2 * queries, 0.5 / queries)
    assert game.distance(data, even) == pytest.approx(0.0, abs=1e-12)
    for rounds in (1, 30, 400):
        played = game.play(rounds)
        bound = played.data_regret + played.query_regret
        assert game.distance(played.data, played.queries) <= bound + 1e-9
        assert abs(game.gain(played.queries, played.data)) <= bound + 1e-9
        assert played.data_regret <= theory.hedge_regret(
            log_actions=math.log(max(2, records)),
            eta=math.sqrt(8 * math.log(max(2, records)) / rounds) / np.ptp(game.gains),
            rounds=rounds,
            width=float(np.ptp(game.gains)),
        )


def test_hedge_keeps_its_regret_against_an_adversary() -> None:
    for actions, rounds in ((2, 50), (20, 300)):
        eta = math.sqrt(8 * math.log(actions) / rounds)
        hedge = Hedge(actions, eta)
        for _ in range(rounds):
            hedge.learn(1.0 * (np.arange(actions) == int(np.argmin(hedge.strategy))))
        bound = float(theory.hedge_regret(log_actions=math.log(actions), eta=eta, rounds=rounds, width=1.0))
        assert 0 <= hedge.regret <= bound == pytest.approx(math.sqrt(math.log(actions) / (2 * rounds)))


def test_nonlinear_queries_are_answered_by_the_mixture_and_not_by_one_database() -> None:
    """f(x) = 1/2 while every database answers 0 or 1: an even mixture has no error, each database has 1/2
    (erratum A13).
    """
    values = np.array([[0.0, 1.0, 0.5, 0.5], [0.5, 0.5, 0.0, 1.0], [0.45, 0.55, 0.5, 0.52]])
    truth = np.array([0.5, 0.5, 0.5])
    game = Game.of_databases(values, truth)
    played = game.play(2000)
    value, _ = value_by_linear_program(game.gains)
    loss = game.worst(played.data)
    assert loss <= value + played.data_regret + played.query_regret + 1e-9
    assert min(game.gains.max(axis=0)) == 0.5
    for row, true in zip(values, truth, strict=True):
        assert abs(mixed_answer(row, played.data, "mean") - true) <= loss + 1e-9
        assert abs(mixed_answer(row, played.data) - true) <= 2 * loss + 1e-9
    assert abs(mixed_answer(values[0], played.data, "mean") - 0.5) < 0.02


def test_bad_games_are_refused() -> None:
    with pytest.raises(QueryError, match="expected queries x records"):
        Game.of_queries(np.ones((2, 3)), np.array([0.5, 0.5]))
    with pytest.raises(QueryError, match="rounds is 0"):
        Game(np.ones((2, 3))).play(0)
    with pytest.raises(QueryError, match="how is"):
        mixed_answer(np.ones(2), np.ones(2) / 2, "mode")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="finite table"):
        Game(np.array([[math.nan]]))


@pytest.mark.parametrize(
    ("eta", "draws", "rounds", "rows"), [(0.3, 7, 12, 900.0), (2.0, 1, 2, 50.0), (1.1, 40, 150, 1e5)]
)
def test_the_price_of_all_draws_is_the_sum_over_rounds(eta: float, draws: int, rounds: int, rows: float) -> None:
    each = [theory.draw_epsilon(eta=eta, turn=t, rows=rows) for t in range(1, rounds + 1)]
    facts: dict[str, Any] = {"eta": eta, "draws": draws, "rounds": rounds, "rows": rows}
    assert each[0] == 0
    assert theory.draws_epsilon(**facts) == pytest.approx(draws * sum(each), rel=1e-12)
    assert theory.draws_rho(**facts) == pytest.approx(draws * sum(e**2 / 8 for e in each), rel=1e-12)
    for pure, amount in ((True, theory.draws_epsilon(**facts)), (False, theory.draws_rho(**facts))):
        again = theory.affordable_eta(draws=draws, rounds=rounds, rows=rows, amount=amount, pure=pure)
        assert float(again) == pytest.approx(eta, rel=1e-12)


@pytest.mark.parametrize("pure", [True, False])
def test_more_rows_or_budget_promise_less_error(pure: bool) -> None:
    facts: dict[str, Any] = {"log_universe": 40.0, "queries": 1e4, "pure": pure, "beta": 0.05}
    for play in (theory.dual_query, theory.both_learn):
        alphas = [
            play(rows=rows, amount=amount, **facts).alpha for rows, amount in ((1e5, 0.1), (1e6, 0.1), (1e6, 1.0))
        ]
        assert alphas == sorted(alphas, reverse=True)
        best = play(rows=1e6, amount=0.1, **facts)
        paid = theory.draws_epsilon if pure else theory.draws_rho
        assert paid(eta=best.eta, draws=best.draws, rounds=best.rounds, rows=1e6) <= 0.1 * (1 + 1e-9)
    paper = theory.dual_query_paper(alpha=0.2, log_universe=40.0, queries=1e4, beta=0.05)
    ours = theory.dual_query_error(
        log_universe=40.0, queries=1e4, eta=paper.eta, draws=paper.draws, rounds=paper.rounds, beta=0.05
    )
    assert float(ours) <= paper.alpha


def test_learning_on_both_sides_promises_less_than_best_responses_do() -> None:
    """No union over queries and rounds: the bound of both players learning is below the averaged construction's."""
    for rows, universe, queries in ((20_000, 2**10, 960), (10**6, 2**16, 10**4)):
        averaged = offline.averaged(universe=universe, queries=queries, epsilon=1.0, delta=1e-9, rows=rows, beta=0.05)
        both = theory.both_learn(
            log_universe=math.log(universe),
            queries=queries,
            rows=rows,
            amount=zcdp_rho(1.0, 1e-9),
            pure=False,
            beta=0.05,
        )
        assert both.alpha < averaged.alpha


@pytest.mark.thorough
def test_a_round_reveals_of_a_query_what_the_bound_says() -> None:
    """The exact law of the response, over all s draws, for two families that differ in one signed pair."""
    rng = np.random.default_rng(7)
    tightest = 0.0
    for _ in range(30):
        pairs, points, draws = int(rng.integers(3, 6)), 3, int(rng.integers(1, 4))
        cap, strength = int(rng.integers(2, 2 * pairs)), float(rng.choice([0.5, 2.0, 6.0]))
        laws = []
        weights, values = rng.normal(0, 2, 2 * pairs), rng.random((pairs, points))
        for changed in (False, True):
            if changed:
                weights[[0, pairs]], values[0] = rng.normal(0, 4, 2), rng.integers(0, 2, points)
            signed = np.concatenate([values, 1 - values])
            drawn = water(np.exp(weights), cap)
            law = np.zeros(points)
            for picks in itertools.product(range(2 * pairs), repeat=draws):
                law += drawn[list(picks)].prod() * exponential_law(signed[list(picks)].mean(axis=0), 2 / strength)
            laws.append(law)
        bound = theory.analyst_round_epsilon(cap=cap, draws=draws, strength=strength)
        lost = float(np.abs(np.log(laws[0]) - np.log(laws[1])).max())
        assert lost <= bound
        tightest = max(tightest, lost / bound)
    assert tightest > 0.1  # the bound is not idle


def water(weights: np.ndarray, limit: int) -> np.ndarray:
    """Water-filling by bisection on the level: P_i = min(1/limit, theta w_i)."""
    low, high = 0.0, 1e12 / weights.sum()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1 / limit, middle * weights).sum() < 1 else (low, middle)
    return np.minimum(1 / limit, high * weights)


def test_the_median_of_structures_that_are_weakly_good_is_good_everywhere() -> None:
    """Boosting's theorem, with a base that is good on exactly the heaviest 1/2 + margin of the weights."""
    queries, margin = 200, 0.2
    rounds = theory.boosting_rounds(queries=queries, margin=margin)
    hedge, bad = Hedge(queries, 2 * margin), np.zeros(queries)
    for _ in range(rounds):
        order = np.argsort(hedge.strategy)  # the adversary is good on the heaviest few queries
        mass = np.cumsum(hedge.strategy[order])
        fails = order[mass <= 0.5 - margin]
        gains = -np.ones(queries)
        gains[fails] = 1.0
        bad[fails] += 1
        hedge.learn(gains)
    assert bad.max() < rounds / 2

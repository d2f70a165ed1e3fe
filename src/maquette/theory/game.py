"""The query-release game: prices of its private draws, regrets of its players, and the errors they add up to.

A data player picks records (or a distribution D), a query player signed queries f; the cost is f(x) - f(D), and the
value of the game is 0. If both play with average regrets R_A and R_B, the average D errs by at most R_A + R_B on every
query. Errors are fractions of rows and hold with probability 1 - beta; `rows` is the number of rows divided by the
maximum rows of one unit. Under add-remove it is a public estimate; the price is exact for any number that is used.
Mechanisms §7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.theory.arguments import checked

Floats = NDArray[np.float64]

_ROUNDS = np.unique(np.floor(np.geomspace(1, 1e7, 400)))[:, None]
_DRAWS = np.unique(np.floor(np.geomspace(1, 1e6, 300)))[None, :]


@dataclass(frozen=True, kw_only=True)
class Play:
    """Settings of a game: rounds, draws of the query player per round, its rate eta, and the error they promise."""

    alpha: float
    rounds: int
    draws: int
    eta: float


@checked()
def draw_epsilon(*, eta: float, turn: int, rows: float) -> float:
    """Epsilon of one draw in round t: 2 eta (t - 1) / n.

    The weight of a query is exp(eta times the sum over t - 1 rounds of f(x) - f(chi)), of sensitivity (t - 1) / n: an
    exponential mechanism. The first round draws uniformly and is free.
    """
    return 2 * eta * (turn - 1) / rows


@checked()
def draws_epsilon(*, eta: float, draws: int, rounds: int, rows: float) -> float:
    """Pure epsilon of all draws: eta s T (T - 1) / n."""
    return eta * draws * rounds * (rounds - 1) / rows


@checked()
def draws_rho(*, eta: float, draws: int, rounds: int, rows: float) -> float:
    """Rho of all draws: s eta^2 (T - 1) T (2T - 1) / (12 n^2), the sum of epsilon_t^2 / 8 over rounds and draws."""
    return draws * eta**2 * (rounds - 1) * rounds * (2 * rounds - 1) / (12 * rows**2)


@checked()
def affordable_eta(*, draws: float | Floats, rounds: float | Floats, rows: float, amount: float, pure: bool) -> Floats:
    """The rate at which all draws together cost `amount` of epsilon (pure) or rho; infinite for a single round."""
    t = np.asarray(rounds, dtype=np.float64)
    with np.errstate(divide="ignore"):
        if pure:
            return np.asarray(amount * rows / (draws * t * (t - 1)))
        return np.asarray(rows * np.sqrt(12 * amount / (draws * (t - 1) * t * (2 * t - 1))))


@checked()
def hedge_regret(*, log_actions: float, eta: float | Floats, rounds: float | Floats, width: float) -> Floats:
    """Average regret of multiplicative weights at rate eta on gains of this width: ln A / (eta T) + eta width^2 / 8.

    At the best eta = sqrt(8 ln A / T) / width this is width sqrt(ln A / (2T)). Hoeffding's lemma.
    """
    return np.asarray(log_actions / (eta * np.asarray(rounds)) + eta * width**2 / 8)


@checked()
def dual_query_error(
    *,
    log_universe: float,
    queries: float,
    eta: float | Floats,
    draws: float | Floats,
    rounds: float | Floats,
    beta: float,
    stretch: float = 1.0,
) -> Floats:
    """DualQuery with exact best responses: R_B + sqrt(ln(2NT/beta) / (2s)) + sqrt(ln(2/beta) / (2sT)).

    R_B is the regret of 2|Q| signed queries on gains in [-1, 1]. The second term: in every round the s draws represent
    the weights on every record at once, among them the best response to them. The third: on the table itself, which is
    fixed, the errors of the draws average over rounds (Azuma). Add the average gap of inexact responses. Mechanisms
    §7.2 takes the second term twice. `stretch` widens the gains where the number of rows is only estimated.
    """
    t, s = np.asarray(rounds), np.asarray(draws)
    regret = hedge_regret(log_actions=math.log(2 * queries), eta=eta, rounds=t, width=2 * stretch)
    everywhere = np.sqrt((log_universe + np.log(2 * t / beta)) / (2 * s))
    return np.asarray(regret + everywhere + np.sqrt(math.log(2 / beta) / (2 * s * t)))


@checked()
def dual_query(*, log_universe: float, queries: float, rows: float, amount: float, pure: bool, beta: float) -> Play:
    """The rounds and draws with the least promised error that `amount` of epsilon (pure) or rho can pay for."""
    best = np.sqrt(2 * math.log(2 * queries) / _ROUNDS)
    eta = np.minimum(best, affordable_eta(draws=_DRAWS, rounds=_ROUNDS, rows=rows, amount=amount, pure=pure))
    alpha = dual_query_error(
        log_universe=log_universe, queries=queries, eta=eta, draws=_DRAWS, rounds=_ROUNDS, beta=beta
    )
    return _least(alpha, eta)


@checked()
def dual_query_paper(*, alpha: float, log_universe: float, queries: float, beta: float) -> Play:
    """Sufficient settings of the paper: T = 16 ln|Q| / alpha^2, eta = alpha / 4, s = 48 ln(2NT/beta) / alpha^2.

    Gaboardi, Gallego Arias, Hsu, Roth and Wu 2014; they promise alpha for their own (pure) price.
    """
    rounds = math.ceil(16 * math.log(queries) / alpha**2)
    draws = math.ceil(48 * (log_universe + math.log(2 * rounds / beta)) / alpha**2)
    return Play(alpha=alpha, rounds=rounds, draws=draws, eta=alpha / 4)


@checked()
def both_learn_error(
    *,
    log_universe: float,
    queries: float,
    eta: float | Floats,
    draws: float | Floats,
    rounds: float | Floats,
    beta: float,
    stretch: float = 1.0,
) -> Floats:
    """Both players learn: sqrt(ln N / (2T)) + R_B + sqrt(2 ln(1/beta) / (sT)), for the average of the models.

    The data player's distribution is fixed before the draws of its round, so that the errors of all s T draws form a
    martingale and average out: one draw per round is enough, and no union bound over the universe is needed.
    """
    t, s = np.asarray(rounds), np.asarray(draws)
    data = np.sqrt(log_universe / (2 * t))
    regret = hedge_regret(log_actions=math.log(2 * queries), eta=eta, rounds=t, width=2 * stretch)
    return np.asarray(data + regret + np.sqrt(2 * math.log(1 / beta) / (s * t)))


@checked()
def both_learn(*, log_universe: float, queries: float, rows: float, amount: float, pure: bool, beta: float) -> Play:
    """The rounds and draws with the least promised error that `amount` of epsilon (pure) or rho can pay for."""
    best = np.sqrt(2 * math.log(2 * queries) / _ROUNDS)
    draws = _DRAWS[:, _DRAWS[0] <= 64]
    eta = np.minimum(best, affordable_eta(draws=draws, rounds=_ROUNDS, rows=rows, amount=amount, pure=pure))
    alpha = both_learn_error(
        log_universe=log_universe, queries=queries, eta=eta, draws=draws, rounds=_ROUNDS, beta=beta
    )
    return _least(alpha, eta)


@checked()
def analyst_round_epsilon(*, cap: float, draws: int, strength: float) -> float:
    """What one round reveals about a single query: s ln(1 + kappa (exp(strength / s) - 1)), kappa = 2 / cap.

    Valid if the draws are secret: to someone who knows them a round reveals up to strength / s per draw of the query.
    Replacing a query moves its two signed candidates, of probability at most 1/cap each, and all others together by no
    more, so the laws of a draw share a part of mass 1 - kappa. Exchanging one of s draws moves the response's law by at
    most strength / s in logarithm, so the response's probabilities given any two values of that draw are within that
    factor; the worst ratio of (1 - kappa) m + kappa r to (1 - kappa) m + kappa r' is then 1 - kappa + kappa
    exp(strength / s), draw by draw. Mechanisms §7.4 lets r and r' differ twice as much, which doubles the bound.
    """
    kappa = min(1.0, 2 / cap)
    return draws * math.log1p(kappa * math.expm1(strength / draws))


@checked()
def capped_error(
    *,
    log_universe: float,
    queries: float,
    cap: float,
    eta: float,
    draws: int,
    rounds: int,
    strength: float,
    beta: float,
    stretch: float = 1.0,
) -> float:
    """Error of capped play on all but fewer than `cap` signed queries.

    ln(2|Q|/cap) / (eta T) + eta / 2 + sqrt(ln(3NT/beta) / (2s)) + sqrt(ln(3/beta) / (2sT)) + (2/strength) ln(3NT/beta).
    Water-filling is follow-the-regularised-leader with entropy on the capped simplex, which contains the uniform
    distribution on any `cap` queries: if `cap` queries were worse, the regret would show it. The last term is the data
    player's exponential mechanism. Mechanisms §7.4.
    """
    log_records = log_universe + math.log(3 * rounds / beta)
    log_actions = math.log(max(2 * queries / cap, 1.0))
    regret = float(hedge_regret(log_actions=log_actions, eta=eta, rounds=rounds, width=2 * stretch))
    drawn = math.sqrt(log_records / (2 * draws)) + math.sqrt(math.log(3 / beta) / (2 * draws * rounds))
    return regret + drawn + 2 / strength * log_records


@checked()
def boosting_rounds(*, queries: float, margin: float) -> int:
    """Rounds after which the median of all structures is accurate on every query: floor(ln|Q| / (2 margin^2)) + 1.

    Each structure is good on a 1/2 + margin share of its round's weights, which rise at rate 2 margin where it is bad
    (gain +1) and fall where it is good (-1): the gains of every query add up to less than zero, so more than half of
    the structures are not bad on it. Mechanisms §7.3.
    """
    return math.floor(math.log(queries) / (2 * margin**2)) + 1


@checked()
def tested_share(*, passed: int, tests: int, beta: float) -> float:
    """A share that the average of the structures' good shares exceeds, but for beta: passed / tests - sqrt(ln(1/beta) /
    2m).

    m tests in all, each a query drawn by its round's weights after the structure was made from other draws: given the
    past it passes with probability at most that share, and the differences form a martingale (Azuma). The gains of
    every query, +1 where a structure is bad on it and -1 where it is good, then average at most 1 - 2 share plus the
    regret ln|Q| / (a T) + a / 2; below zero, fewer than half of the structures are bad on it. Mechanisms §7.3.
    """
    return passed / tests - math.sqrt(math.log(1 / beta) / (2 * tests))


def _least(alpha: Floats, eta: Floats) -> Play:
    i, j = np.unravel_index(int(np.nanargmin(alpha)), alpha.shape)
    return Play(alpha=float(alpha[i, j]), rounds=int(_ROUNDS[i, 0]), draws=int(_DRAWS[0, j]), eta=float(eta[i, j]))

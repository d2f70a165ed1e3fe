"""Lazy construction: Hardt and Rothblum's private multiplicative weights, stated as a theorem for any update rule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.hypothesis import NEVER, AnyRule, MultiplicativeWeights, Rule, rule_of
from maquette.privacy import lazy_epsilon, lazy_rate
from maquette.schema import Schema
from maquette.session.textbook.guarded import GuardedModel, check_promised
from maquette.session.textbook.plan import GRID, WEIGHTS, Setting, setting_of
from maquette.theory import online as theory

COARSER = 1 + 2.0**-20  # a guard rounds its noise scale up by at most this factor


@dataclass(frozen=True, kw_only=True)
class Lazy:
    """The parameters of a session; `threshold` and `width`, which bounds the noise of all tests, are in rows."""

    alpha: float
    resolution: float
    hits: int
    threshold: float
    width: float
    epsilon: float


class LazyConstruction(GuardedModel):
    """Answers from a public model, and corrects it where a guard without threshold noise finds it wrong.

    Each question has one test: a noisy count against the model's answer f(D). Within the threshold the answer is f(D).
    Beyond it, the answer is the noisy count itself, and the model takes one step of its update rule *towards* it: up
    where the model was too low, down where it was too high (erratum D1). After c = floor(T(a')) updates the guard is
    sealed (erratum D4) and the model answers alone, without a guarantee.

    Privacy: (epsilon, delta)-DP under the curator's relation; it uses the whole delta of the budget (erratum D2).
    Charged once, when the session opens. The theorem is that of `LazyGuard`; where the number of rows is private, a
    hundredth of epsilon estimates it first. A ledger can have one lazy guard in its life, so a table can have one such
    session. `curator` needs a budget with accounting="basic".

    Accuracy: with probability 1 - `beta` the first `queries` answers are all within `alpha` of the table, as fractions
    of rows: alpha = a' + 2 Nb, Nb = ln(queries / beta) / (rate * rows) < a', at the best resolution a'. A budget that
    allows no useful promise is refused before the guard is opened. Mechanisms §6.4-6.5.

    `hypothesis` is an update rule, given by its name, its class or as a `Rule`; or a fresh model with a bound on its
    updates, which is updated in place.
    """

    def __init__(
        self,
        curator: Curator,
        hypothesis: AnyRule = "multiplicative-weights",
        *,
        epsilon: float,
        queries: int,
        beta: float = 0.05,
    ) -> None:
        self._open(curator, rule_of(curator.schema, hypothesis), "tight", epsilon=epsilon, queries=queries, beta=beta)

    def _open(
        self,
        curator: Curator,
        rule: Rule,
        calibration: Literal["tight", "lecture"],
        *,
        epsilon: float,
        queries: int,
        beta: float,
    ) -> None:
        check_promised(queries, beta)
        if curator.budget.accounting != "basic":
            raise QueryError(
                f"a lazy construction cannot be paid under {curator.budget.accounting} accounting",
                advice='open the table with Budget(epsilon=..., delta=..., accounting="basic")',
            )
        with curator.account("lazy construction") as account:
            setting = setting_of(curator, units_for(curator, epsilon, None), queries=queries, beta=beta)
            chosen = parameters(rule, setting) if calibration == "tight" else lecture(curator.schema, setting)
            _check_promise(chosen, setting)
            model = rule.start(chosen.resolution)  # before the guard is charged
            guard = curator.lazy_guard(chosen.threshold, hits=chosen.hits, epsilon=chosen.epsilon)
        super().__init__(
            curator,
            model,
            guard,
            account,
            rows=setting.rows,
            queries=queries,
            alpha=chosen.alpha,
            beta=beta,
            answer_error=(chosen.width + setting.slack) / setting.rows,
        )


class PrivateMultiplicativeWeights(LazyConstruction):
    """The lecture's algorithm 2 with its own parameters: eta = (ln N / n)^(1/3), noise sigma, threshold tau.

    c = ln N / eta^2 updates (corollary 7), sigma = c ln(1/delta) / (epsilon n) = (ln N)^(1/3) ln(1/delta) /
    (epsilon n^(1/3)), tau = max(4 eta, 2 sigma ln(queries / beta)). Corrected: sealed after c updates (erratum D4),
    updated in the direction of the released number (erratum D1), and (epsilon, delta) instead of pure (erratum D2).

    Privacy: that of `LazyConstruction`. What this noise costs by the theorem is charged: usually much less than the
    `epsilon` it is made for, since the lecture adds up the c numbers one by one; where it would cost more (few
    updates), sigma is raised until it does not. Accuracy: with probability 1 - `beta` the first `queries` answers are
    within alpha = 3 tau / 2: noise within tau / 2 leaves every updated question wrong by tau / 2 >= 2 eta, so that each
    update lowers the potential by eta^2. Its alpha is never below that of `LazyConstruction` at the same epsilon; it is
    here because the lecture states it. Mechanisms §6.5.
    """

    def __init__(self, curator: Curator, *, epsilon: float, queries: int, beta: float = 0.05) -> None:
        schema = curator.schema
        rule = Rule(
            lambda alpha: math.log(schema.size) / min(4 * alpha, 4.0) ** 2,
            lambda alpha: MultiplicativeWeights(schema, alpha=alpha),  # a step of eta = 4 alpha
            name=MultiplicativeWeights.kind,
        )
        self._open(curator, rule, "lecture", epsilon=epsilon, queries=queries, beta=beta)


def parameters(rule: Rule, setting: Setting) -> Lazy:
    """The resolution with the least alpha, from the noise that the guard really adds; infinite if none is feasible.

    With n rows, an estimate n^ of them off by at most w, and noise within N in all tests: a hit means an error of at
    least (threshold - N - w) / n >= a', as threshold = a' (n^ + w) + N + w; the noisy count lies on the same side of
    the model's answer as the true one, as threshold > N + w; and no hit means an error of at most
    (threshold + N + w) / (n^ - w) = alpha.
    """
    epsilon = setting.epsilon
    best = Lazy(alpha=math.inf, resolution=1.0, hits=1, threshold=1.0, width=math.inf, epsilon=epsilon)
    rows, slack = setting.rows, setting.slack
    for resolution in rule.resolutions:
        updates = rule.updates(resolution)
        hits = max(1, math.floor(min(updates, NEVER)))
        width = _width(setting, lazy_rate(hits=hits, epsilon=epsilon, delta=setting.delta))
        if updates >= NEVER or width + slack >= resolution * rows or slack >= rows:
            break  # a finer resolution needs more hits, hence more noise: it is infeasible too
        threshold = resolution * (rows + slack) + width + slack
        alpha = (threshold + width + slack) / (rows - slack)
        if alpha < best.alpha:
            best = Lazy(
                alpha=alpha, resolution=resolution, hits=hits, threshold=threshold, width=width, epsilon=epsilon
            )
    return best


def lecture(schema: Schema, setting: Setting) -> Lazy:
    """The lecture's eta, c, sigma and tau for this setting, from the noise that the guard really adds.

    tau = max(4 eta (n^ + w), 2 (N + w)) rows: a hit is then an error of at least tau / 2 >= 2 eta n rows.
    """
    rows, slack = setting.rows, setting.slack
    eta, hits, rate = theory.lecture_settings(
        universe=schema.size, epsilon=setting.epsilon, delta=setting.delta, rows=max(1.0, rows / setting.moves)
    )
    width = _width(setting, rate)
    threshold = max(4 * eta * (rows + slack), 2 * (width + slack))
    alpha = (threshold + width + slack) / (rows - slack) if slack < rows else math.inf
    cost = min(setting.epsilon, lazy_epsilon(hits=hits, rate=rate, delta=setting.delta) * (1 + 1e-9))
    return Lazy(alpha=alpha, resolution=min(1.0, eta / 4), hits=hits, threshold=threshold, width=width, epsilon=cost)


def _width(setting: Setting, rate: float) -> float:
    """A bound, in rows, on the noise of all tests at this rate.

    Each of k discrete noises exceeds scale * ln(k / beta) plus one grid step with probability at most beta / k.
    """
    noise = setting.moves / rate * COARSER * math.log(setting.queries / setting.beta)
    return noise + GRID + WEIGHTS * setting.rows


def _check_promise(chosen: Lazy, setting: Setting) -> None:
    if chosen.alpha >= 1:
        raise QueryError(
            f"with about {setting.rows:.3g} rows, epsilon {setting.epsilon:.3g} and delta {setting.delta:g} the "
            f"theorem promises an error of {chosen.alpha:.3g}, which says nothing",
            advice="it takes more rows or a larger epsilon (see "
            "plan), and measured marginals answer far better at this size",
        )

"""What the online iterative construction promises for a budget: resolution, threshold, hits and noise, before it runs.

Everything here is computed from public numbers. A rule is an update algorithm with its bound T(a'); a guard with
c = floor(T(a')) hits tests |count - n f(D)| once per question. If the test noise stays within W, the answer noise
within Na < a' n, and the row estimate within `slack` (zero where rows are public), then every hit is an error of at
least a' and every other answer errs by at most alpha:

    threshold = a' (n + slack) + W + slack,    alpha = (threshold + W + slack) / (n - slack)    (= a' + 2 W / n)

Mechanisms §6.4, errata A10 and A11.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from maquette.curator import Curator
from maquette.errors import BudgetError, QueryError
from maquette.hypothesis import NEVER, Calibration, Rule
from maquette.privacy import UNITS_PER_ONE, Accountant, DiscreteGaussian, Pure
from maquette.session.baselines.known_rows import SHARE, known_rows
from maquette.theory import online as theory

ROWS_DOUBT = 0.1  # share of beta: probability that a row estimate is off by more than its share of the error bound
TESTS = 0.9  # share of rho that a guard gives to its tests; its Gaussian answers take the rest
GRID = 2.0**-17  # rows: total effect of rounding thresholds, answers and noise to the guard's grid of 2^-20
WEIGHTS = 2.0**-20  # share of the rows: effect of rounding a query's weights to that grid


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Inputs of a session's plan; one unit moves a count by `moves`; `slack` bounds the error of the row count."""

    accountant: Accountant
    delta: float
    units: float
    rows: float
    slack: float
    moves: int
    queries: int
    beta: float

    @property
    def epsilon(self) -> float:
        """The epsilon of the units at the budget's delta."""
        return self.accountant.loss(int(self.units), self.delta).epsilon


def setting_of(curator: Curator, units: int, *, queries: int, beta: float, rows: int | None = None) -> Setting:
    """The setting for `units`; where the number of rows is private, a hundredth of them buys an estimate first."""
    known = known_rows(curator, SHARE * units, rows=rows)
    exact = known.measured is None
    return Setting(
        accountant=curator.budget.accountant,
        delta=curator.budget.delta,
        units=units if exact else (1 - SHARE) * units,
        rows=known.size,
        slack=known.slack(ROWS_DOUBT * beta),
        moves=curator.relation.max_contributions,
        queries=queries,
        beta=beta if exact else (1 - ROWS_DOUBT) * beta,
    )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The parameters of a session. `threshold` is in rows; `answer_error` bounds a measured answer, as a fraction."""

    alpha: float
    resolution: float
    threshold: float
    hits: int
    units: float
    refreshed: bool | None
    answer_error: float


NOTHING = Plan(alpha=math.inf, resolution=1.0, threshold=1.0, hits=1, units=1.0, refreshed=None, answer_error=math.inf)


def plan(rule: Rule, setting: Setting, calibration: Calibration) -> Plan:
    """The best promise for this budget; alpha is infinite where there is none."""
    if calibration == "book":
        return _book(rule, setting)
    best = NOTHING
    for resolution in rule.resolutions:
        updates = rule.updates(resolution)
        if updates >= NEVER:
            break
        hits = max(1, math.floor(updates))
        forms: tuple[bool | None, ...] = (True, False) if setting.accountant.currency == "pure" else (None,)
        found = min((_promise(setting, resolution, hits, form) for form in forms), key=lambda made: made.alpha)
        best = min(best, found, key=lambda made: made.alpha)
        if math.isinf(found.alpha):
            break  # a finer resolution needs more hits, hence more noise: it is infeasible too
    return best


def check_promise(rule: Rule, setting: Setting, calibration: Calibration, found: Plan) -> None:
    """Refuse an error bound of 1 or more, and say what would improve it."""
    if found.alpha < 1:
        return

    def reaches(changed: Setting) -> bool:
        return plan(rule, changed, calibration).alpha < 1

    rows = _least_factor(lambda factor: reaches(replace(setting, rows=setting.rows * factor)))
    units = _least_factor(lambda factor: reaches(replace(setting, units=setting.units * factor)))
    ways = [] if rows is None else [f"about {float(f'{1.05 * setting.rows * rows:.2g}'):,.0f} rows"]
    if units is not None:
        ways.append(f"epsilon {setting.accountant.loss(int(1.1 * setting.units * units), setting.delta).epsilon:.2g}")
    advice = f"it takes {' or '.join(ways)} to promise anything" if ways else "no rows are enough; take a coarser model"
    raise QueryError(
        f"with {setting.rows:,.0f} rows and epsilon {setting.epsilon:.3g} the theorem promises an error of "
        f"{found.alpha:.3g}, which says nothing: {advice}",
        advice="Measured marginals answer far better at this size",
    )


def _book(rule: Rule, setting: Setting) -> Plan:
    """Threshold 2a, error 3a, with the noise of theorems 5.14 (pure) and 5.15; a as `theory.book` solves for it."""
    pure = setting.accountant.currency == "pure"
    if not pure and setting.delta == 0:
        raise BudgetError("the book's (epsilon, delta) noise needs a delta above 0", advice="give the budget one")
    size = max(1, int((setting.rows - setting.slack) / setting.moves))
    facts = {"queries": setting.queries, "epsilon": setting.epsilon, "delta": 0.0 if pure else setting.delta}
    needed = theory.book(
        updates=lambda alpha: rule.updates(min(alpha, 1.0)),
        rows=size,
        beta=setting.beta,
        **facts,  # type: ignore[arg-type]
    )
    resolution = needed / 3
    if len(rule.resolutions) == 1:
        resolution = rule.resolutions[0] if resolution <= rule.resolutions[0] else math.inf
    if resolution >= 1:
        return replace(NOTHING, alpha=3 * resolution)
    hits = max(1, math.floor(rule.updates(resolution)))
    if pure:
        return _promise(setting, resolution, hits, refreshed=True, book=True)
    noise = theory.resampled_approximate(hits=hits, epsilon=setting.epsilon, delta=setting.delta)
    # The guard's own accounting charges less for this noise than strong composition does.
    size_each = (2 / noise.threshold) ** 2 / (2 * TESTS)
    units = min(setting.units, hits * (_hit_units(setting.accountant, size_each) + 2))
    return _promise(replace(setting, units=units), resolution, hits, None, book=True)


def _promise(setting: Setting, resolution: float, hits: int, refreshed: bool | None, *, book: bool = False) -> Plan:
    """What a guard with `hits` hits promises at this resolution, from the noise it really adds."""
    tests, answers = _widths(setting, hits, refreshed)
    rounding = GRID + WEIGHTS * setting.rows
    width, slack, rows = tests + rounding, setting.slack, setting.rows
    threshold = 2 * resolution * rows if book else resolution * (rows + slack) + width + slack
    hits_are_errors = threshold - width - slack >= resolution * (rows + slack) * (1 - 1e-12)
    answer_error = (answers + rounding + slack) / rows
    if not hits_are_errors or answer_error >= resolution or slack >= rows:
        return NOTHING
    alpha = (threshold + width + slack) / (rows - slack)
    return Plan(
        alpha=max(alpha, 3 * resolution) if book else alpha,
        resolution=resolution,
        threshold=threshold,
        hits=hits,
        units=setting.units,
        refreshed=refreshed,
        answer_error=answer_error,
    )


def _widths(setting: Setting, hits: int, refreshed: bool | None) -> tuple[float, float]:
    """Bounds, in rows, on the noise of a test with its threshold and of an answer; all hold with probability 1 - beta.

    Half of beta for all tests, a quarter for all thresholds, a quarter for all answers.
    """
    pure, beta = setting.accountant.currency == "pure", setting.beta
    epsilon = setting.units / UNITS_PER_ONE
    if not pure:
        noise = theory.concentrated(hits=hits, rho=hits * _hit_size(setting, hits), test_share=TESTS)
    elif refreshed:
        noise = theory.resampled(hits=hits, epsilon=epsilon)
    else:
        noise = theory.unresampled(hits=hits, epsilon=epsilon)
    thresholds = 1 if refreshed is False else hits
    tests = noise.query * math.log(2 * setting.queries / beta) + noise.threshold * math.log(4 * thresholds / beta)
    tail = math.log(4 * hits / beta) if pure else math.sqrt(2 * math.log(8 * hits / beta))
    exceed = setting.moves * (1 + 1e-5)  # a guard rounds its noise up
    return tests * exceed, noise.answer * tail * exceed


def _hit_size(setting: Setting, hits: int) -> float:
    """The guard's rho per hit that the units buy: equal to them, or less where the ledger's unit is not rho."""
    each = setting.units / hits
    if setting.accountant.currency == "zcdp":
        return each / UNITS_PER_ONE
    size = each / UNITS_PER_ONE
    for _ in range(60):  # the cost grows about as fast as the size, and never faster
        ratio = each / _hit_units(setting.accountant, size)
        size *= ratio
        if abs(ratio - 1) < 1e-9:
            break
    return size * (1 - 1e-6)


def _hit_units(accountant: Accountant, size: float) -> int:
    """The ledger units of one hit: an AboveThreshold of e' = sqrt(2 share rho), and a Gaussian answer."""
    tests = accountant.units(Pure(math.sqrt(2 * TESTS * size)))
    variance = 1 / (2 * (1 - TESTS) * size)
    return tests + accountant.units(DiscreteGaussian(variance * 4.0**20, 4**20))  # type: ignore[arg-type]


def _least_factor(enough: Callable[[float], bool]) -> float | None:
    """About the least multiple that is enough, by doubling and then bisection; None if none below 2^40 is."""
    high = 1.0
    while not enough(high):
        high *= 4
        if high > 2.0**40:
            return None
    low = high / 4
    for _ in range(5):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

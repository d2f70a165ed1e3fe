"""Iterative construction as the theory states it: a distinguisher, a measurement, an update, until nothing is wrong.

Algorithm 8 of Dwork and Roth with any hypothesis, in the book's constants (corrected) or tight ones, under a pure or an
approximate budget; and the direction-only averaged form. At practical sizes their promises are weak and `everything` or
`adaptive` answer better; these are here because their error is a theorem.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator, ScopedAccount
from maquette.distinguisher import Distinguisher, distinguisher_of
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, Step, check_dense, rule_out, step_of, units_for
from maquette.hypothesis import (
    NEVER,
    AnyRule,
    Hypothesis,
    MultiplicativeWeights,
    Rule,
    check_query,
    rule_of,
)
from maquette.privacy import Pure, Selection
from maquette.query import Marginal, Workload
from maquette.releases.artifact import Model, Release, certified
from maquette.releases.opening import Opening, check_promise_of, opening
from maquette.theory import offline as theory


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The setting of a construction: its queries (all cells of `tables`), units, rows, and the remaining beta.

    `slack` bounds the error of the row estimate, `moves` how far one unit moves a count, both in rows.
    """

    tables: list[Marginal]
    units: float
    rows: float
    slack: float
    moves: int
    beta: float

    @property
    def queries(self) -> int:
        """How many queries can be selected."""
        return sum(table.cells for table in self.tables)


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Everything a construction needs, from public quantities only."""

    alpha: float
    resolution: float
    threshold: float
    rounds: int
    select_units: int
    measure_units: int


def iterative_construction(
    curator: Curator,
    workload: Workload,
    *,
    hypothesis: AnyRule = "multiplicative-weights",
    distinguisher: str | Distinguisher = "exponential",
    constants: Literal["tight", "book"] = "tight",
    norm: float | None = None,
    query_norm: float | None = None,
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """Algorithm 8: select the worst query, measure it, stop if it is close, else update.

    Privacy: at most T rounds of one `select_worst` and one `measure`, charged as they happen. Accuracy: with
    probability 1 - beta every cell of the workload's marginals is within `alpha` of the table (certificate.accuracy),
    alpha = a' + 2 Nb + F with tight constants; with constants="book" it is theorem 5.7, corrected, and weights and the
    perceptron take the book's own steps and bounds, as in `plan` and `OnlineIC`. The stopping test reads released
    numbers only. Where the number of rows is private, an estimate is bought and its error is part of Nb; `rows` gives
    the number if it is public. Mechanisms §5.1-5.2.

    `hypothesis` is an update rule, by its name, its class or as a `Rule`; or a fresh model with a bound on its updates,
    which is updated in place. `norm` and `query_norm` are public bounds on the norms of the table and of every query,
    for mirror descent and the perceptron: fewer rounds, hence less noise. `distinguisher` is a name or an object.
    """
    if constants not in ("tight", "book"):
        raise QueryError(f"constants is {constants!r}", expected="one of tight, book")
    rule = rule_of(curator.schema, hypothesis, constants, norm=norm, query_norm=query_norm)
    pointer = distinguisher_of(distinguisher)
    _check_cells(rule, workload)
    with curator.account("iterative-construction") as account:
        setting = _prepare(curator, workload, rows, beta, units_for(curator, epsilon, rho, units))
        chosen = parameters(curator, rule, setting, distinguisher=pointer, constants=constants)
        model = rule.start(chosen.resolution)
        rule_out(model)
        trace: list[Step] = []
        for done in range(chosen.rounds):
            answers, cost = _answers(model, setting), chosen.select_units
            query = pointer.point(curator, setting.tables, answers, units=cost).query
            check_query(model, query)
            measured = curator.measure(query, units=chosen.measure_units)
            trace.append(step_of(done + 1, measured, model.answer(query) * setting.rows, setting.rows))
            value = float(measured.values) / setting.rows
            if abs(value - model.answer(query)) < chosen.threshold:
                break
            model.update(query, value)
            rule_out(model)
    method = f"iterative-construction ({rule.name}, {constants})"
    made = _released(curator, model, setting.rows, account, method=method, alpha=chosen.alpha, beta=beta)
    made.trace = tuple(trace)
    return made


def parameters(
    curator: Curator, rule: Rule, setting: Setting, *, distinguisher: Distinguisher, constants: str
) -> Parameters:
    """The theorem's parameters for this budget; refused if they promise nothing.

    The promise is computed from the noise that the doors will really add: an update needs |v - f(D)| >= threshold, so
    its error is at least threshold - Nb >= a'; a stop leaves at most threshold + Nb + F.
    """
    accountant, delta = curator.budget.accountant, curator.budget.delta
    loss = accountant.loss(int(setting.units), delta)
    size = max(1, int(setting.rows / setting.moves))

    def updates(alpha: float) -> float:
        # A given model has its own resolution: it learns from larger errors too, not from smaller ones.
        fits = len(rule.resolutions) > 1 or alpha >= rule.resolutions[0]
        return rule.updates(alpha) if fits else NEVER

    facts = {"queries": setting.queries, "epsilon": loss.epsilon, "delta": loss.delta, "rows": size}
    if constants == "tight":
        found = theory.tight(updates=updates, beta=setting.beta, **facts)  # type: ignore[arg-type]
        _check_promise(found.alpha, setting.rows, loss.epsilon)
        rounds, resolution, each = found.rounds, found.resolution, setting.units / found.rounds
        select, measure = found.share * each, (1 - found.share) * each
        noise = _noise_bound(curator, setting, measure, rounds)
        # Rounded up, so that the threshold exceeds the resolution by at least the noise also where the noise is tiny.
        alpha, threshold, margin = resolution, math.nextafter(resolution + noise, math.inf), noise
    else:
        alpha = theory.book(updates=updates, beta=setting.beta, **facts)  # type: ignore[arg-type]
        _check_promise(alpha, setting.rows, loss.epsilon)
        rounds, resolution = max(1, int(updates(alpha / 2))), alpha / 2
        threshold, margin = 3 * alpha / 4, alpha / 4
        epsilon0 = theory.book_round_epsilon(rounds=rounds, epsilon=loss.epsilon, delta=loss.delta)
        most = setting.units / (2 * rounds)
        select, measure = (min(most, accountant.units(event)) for event in (Selection(epsilon0), Pure(epsilon0)))
        noise = _noise_bound(curator, setting, measure, rounds)
    choice = _selection_error(curator, setting, distinguisher, select, 2 * rounds)
    valid = noise <= margin and noise < resolution
    alpha = max(alpha, threshold + noise + choice) if valid else math.inf
    _check_promise(alpha, setting.rows, loss.epsilon)
    return Parameters(
        alpha=alpha,
        resolution=resolution,
        threshold=threshold,
        rounds=rounds,
        select_units=int(select),
        measure_units=int(measure),
    )


def averaged_construction(
    curator: Curator,
    workload: Workload,
    *,
    beta: float = 0.05,
    rows: int | None = None,
    rounds: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
    units: int | None = None,
) -> Release:
    """Direction only: multiplicative weights on signed selections, and the average of all its models.

    Privacy: T selections. Accuracy: with probability 1 - beta every cell of the workload's marginals is within
    sqrt(ln N / (2T)) + (2 / (n epsilon_s)) ln(2 |Q| T / beta), the best proven offline bound here, plus twice the error
    of the row estimate where the number of rows is private. `rounds` replaces the best T. Mechanisms §5.3.
    """
    with curator.account("averaged-construction") as account:
        setting = _prepare(curator, workload, rows, beta, units_for(curator, epsilon, rho, units))
        log_cells = math.log(curator.schema.size)
        count = rounds or _best_rounds(curator, setting)
        eta = min(4.0, math.sqrt(8 * max(log_cells, 1e-12) / count))
        signed = distinguisher_of("signed")
        choice = _selection_error(curator, setting, signed, setting.units / count, count)
        alpha = log_cells / (eta * count) + eta / 8 + choice + 2 * setting.slack / setting.rows
        if rounds is None:
            _check_promise(alpha, setting.rows, curator.budget.epsilon)
        model = MultiplicativeWeights(curator.schema, alpha=eta / 4)  # a theory step moves by 4 alpha
        rule_out(model)
        average = np.zeros(curator.schema.shape(curator.schema.names))
        for _ in range(count):
            average += model.marginal(curator.schema.names) / count
            answers, cost = _answers(model, setting), int(setting.units / count)
            worst = signed.point(curator, setting.tables, answers, units=cost)
            model.update(worst.query, 1.0 if worst.sign == 1 else 0.0)
            rule_out(model)
    mean = DenseModel(curator.schema, average / average.sum())
    return _released(curator, mean, setting.rows, account, method="averaged-construction", alpha=alpha, beta=beta)


def _best_rounds(curator: Curator, setting: Setting) -> int:
    loss = curator.budget.accountant.loss(int(setting.units), curator.budget.delta)
    found = theory.averaged(
        universe=curator.schema.size,
        queries=setting.queries,
        epsilon=loss.epsilon,
        delta=loss.delta,
        rows=max(1, int(setting.rows / setting.moves)),
        beta=setting.beta,
    )
    _check_promise(found.alpha, setting.rows, loss.epsilon)
    return found.rounds


def _prepare(curator: Curator, workload: Workload, rows: int | None, beta: float, units: int) -> Setting:
    """Check the public arguments, and buy the row estimate if one is needed."""
    check_dense(curator.schema)
    check_promise_of(beta, rows)
    tables = [Marginal(curator.schema, columns) for columns in workload.tables]
    moves = max(curator.relation.one_cell(table) for table in tables)
    return setting_of(tables, moves, opening(curator, units, rows=rows, beta=beta))


def setting_of(tables: list[Marginal], moves: int, begun: Opening) -> Setting:
    """The setting of a construction over these tables after its opening."""
    return Setting(
        tables=tables, units=float(begun.units), rows=begun.rows, slack=begun.slack, moves=moves, beta=begun.beta
    )


def _check_cells(rule: Rule, workload: Workload) -> None:
    """Refuse tables whose cells the rule cannot learn from, before anything is charged."""
    fresh = rule.start(rule.resolutions[0])
    if hasattr(fresh, "check"):
        for table in workload.marginals:
            check_query(fresh, next(iter(table.queries()))[1])


def _answers(model: Hypothesis, setting: Setting) -> list[NDArray[np.float64]]:
    return [model.marginal(table.names) * setting.rows for table in setting.tables]


def _noise_bound(curator: Curator, setting: Setting, units: float, rounds: int) -> float:
    """A bound on the noise of all measured fractions together, with probability 1 - beta / 2.

    Laplace: the discrete law exceeds t + 1 rows no more often than the continuous law exceeds t. Gaussian: the discrete
    law is sub-Gaussian at its own variance.
    """
    accountant, failure = curator.budget.accountant, setting.beta / (2 * rounds)
    if accountant.currency == "pure":
        width = float(accountant.laplace_scale(int(units), Fraction(setting.moves))) * math.log(1 / failure) + 1
    else:
        variance = accountant.gaussian_variance(int(units), Fraction(setting.moves**2))
        width = math.sqrt(2 * variance * math.log(2 / failure))
    return (width + setting.slack) / setting.rows


def _selection_error(
    curator: Curator, setting: Setting, distinguisher: Distinguisher, units: float, parts: int
) -> float:
    """F: every selection is within F of the largest error; each fails with probability beta / parts."""
    accountant, gamma = curator.budget.accountant, setting.beta / parts
    cells = distinguisher.error(accountant, units=int(units), queries=setting.queries, moves=setting.moves, gamma=gamma)
    return cells / setting.rows


def _check_promise(alpha: float, size: float, epsilon: float) -> None:
    if alpha >= 1:
        raise QueryError(
            f"with about {size:.3g} rows and epsilon {epsilon:.3g} the theorem promises an error of {alpha:.3g}, which "
            "says nothing",
            advice="the smallest alpha it can promise shrinks with more rows or budget (see plan), and "
            'method="everything" answers well without it',
        )


def _released(
    curator: Curator, model: Model, size: float, account: ScopedAccount, *, method: str, alpha: float, beta: float
) -> Release:
    promise = f"every cell of the workload within {alpha:.4g} of the rows with probability {1 - beta:.3g}"
    if curator.schema.impossible and isinstance(model, MultiplicativeWeights | DenseModel):
        promise += ", if no row holds an impossible combination"
    certificate = certified(curator, method, account, accuracy=promise if alpha < 1 else None)
    return Release(curator.schema, model, NoEvidence(size), certificate)

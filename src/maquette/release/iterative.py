"""Iterative construction as the theory states it: a distinguisher, a measurement, an update, until nothing is wrong.

Algorithm 8 of Dwork and Roth with any hypothesis, in the book's constants (corrected) or tight ones, under a pure or an
approximate budget; and the direction-only averaged form. At practical sizes their promises are weak and `everything` or
`adaptive` answer better; these are here because their error is a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS
from maquette.errors import QueryError
from maquette.hypothesis import HYPOTHESES, Hypothesis, MultiplicativeWeights
from maquette.privacy import UNITS_PER_ONE, Selection
from maquette.query import Marginal, Workload
from maquette.release.artifact import Release, certified
from maquette.release.dense import check_dense
from maquette.release.evidence import NoEvidence
from maquette.release.shares import price, tables_of, units_for
from maquette.theory import offline as theory

ROWS = 0.01  # of the budget buys a row estimate where the number of rows is private


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Everything a construction needs, from public quantities only."""

    alpha: float
    resolution: float
    threshold: float
    rounds: int
    select_units: float
    measure_units: float


def iterative_construction(
    curator: Curator,
    workload: Workload,
    *,
    hypothesis: str = "multiplicative-weights",
    distinguisher: str = "exponential",
    constants: Literal["tight", "book"] = "tight",
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """Algorithm 8: select the worst query, measure it, stop if it is close, else update.

    Privacy: at most T rounds of one `select_worst` and one `measure`, charged as they happen. Accuracy: with
    probability 1 - beta every query of the workload is within `alpha` of the table (certificate.accuracy), alpha = a' +
    2 Nb + F with tight constants. The stopping test reads released numbers only. MECHANISMS §5.1-5.2.
    """
    if hypothesis not in HYPOTHESES:
        raise QueryError(f"there is no hypothesis {hypothesis!r}; expected one of {', '.join(HYPOTHESES)}")
    if distinguisher not in DISTINGUISHERS:
        raise QueryError(f"there is no distinguisher {distinguisher!r}; expected one of {', '.join(DISTINGUISHERS)}")
    tables, units, size = _prepare(curator, workload, rows, epsilon, rho)
    kind, pointer = HYPOTHESES[hypothesis], DISTINGUISHERS[distinguisher]
    chosen = parameters(curator, kind, tables, units, size, constants=constants, beta=beta)
    model: Hypothesis = kind(curator.schema, alpha=chosen.resolution)  # type: ignore[call-arg]
    before = curator.ledger.spent()
    for _ in range(chosen.rounds):
        answers = _answers(model, tables, size)
        query = pointer.point(curator, tables, answers, **price(curator, chosen.select_units)).query
        value = float(curator.measure(query, **price(curator, chosen.measure_units)).values) / size
        if abs(value - model.answer(query)) < chosen.threshold:
            break
        model.update(query, value)
    method = f"iterative-construction ({hypothesis}, {constants})"
    return _released(curator, model, size, before, method=method, alpha=chosen.alpha, beta=beta)


def parameters(
    curator: Curator,
    kind: type[Hypothesis],
    tables: Sequence[Marginal],
    units: float,
    size: float,
    *,
    constants: str,
    beta: float,
) -> Parameters:
    """The theorem's parameters for this budget, refused where they promise nothing."""
    budget = curator.budget
    loss = budget.accountant.loss(int(units), budget.delta)
    delta = 0.0 if budget.accounting == "pure" else budget.delta
    queries = sum(table.cells for table in tables)
    facts = {"queries": queries, "epsilon": loss.epsilon, "delta": delta, "rows": int(size), "beta": beta}

    def updates(alpha: float) -> float:
        return kind.max_updates(curator.schema, alpha)

    if constants == "tight":
        found = theory.tight(updates=updates, **facts)  # type: ignore[arg-type]
        _check_promise(found.alpha, size, loss.epsilon)
        each = units / found.rounds
        noise = _noise_bound(curator, (1 - found.share) * each, found.rounds, beta) / size
        return Parameters(
            alpha=found.alpha,
            resolution=found.resolution,
            threshold=found.resolution + noise,
            rounds=found.rounds,
            select_units=found.share * each,
            measure_units=(1 - found.share) * each,
        )
    alpha = theory.book(updates=updates, **facts)  # type: ignore[arg-type]
    _check_promise(alpha, size, loss.epsilon)
    rounds = max(1, int(updates(alpha / 2)))
    each = theory.book_round_epsilon(rounds=rounds, epsilon=loss.epsilon, delta=delta)
    select = budget.accountant.units(Selection(each))
    measure = budget.accountant.units(Selection(each)) * (1 if delta == 0 else 4)
    return Parameters(
        alpha=alpha,
        resolution=alpha / 2,
        threshold=3 * alpha / 4,
        rounds=rounds,
        select_units=select,
        measure_units=measure,
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
) -> Release:
    """Direction only: multiplicative weights on signed selections, and the average of all its models.

    Privacy: T selections. Accuracy: with probability 1 - beta every query is within sqrt(ln N / (2T)) +
    (2 / (n epsilon_s)) ln(2 |Q| T / beta), the best proven offline bound here. MECHANISMS §5.3.
    """
    check_dense(curator.schema)
    tables, units, size = _prepare(curator, workload, rows, epsilon, rho)
    loss = curator.budget.accountant.loss(int(units), curator.budget.delta)
    delta = 0.0 if curator.budget.accounting == "pure" else curator.budget.delta
    queries = sum(table.cells for table in tables)
    found = theory.averaged(
        universe=curator.schema.size, queries=queries, epsilon=loss.epsilon, delta=delta, rows=int(size), beta=beta
    )
    if rounds is None:
        _check_promise(found.alpha, size, loss.epsilon)
    count = rounds or found.rounds
    eta = math.sqrt(8 * math.log(curator.schema.size) / count)
    model = MultiplicativeWeights(curator.schema, alpha=eta / 4)  # a theory step moves by 4 alpha
    average = np.zeros(curator.schema.shape(curator.schema.names))
    pointer, before = DISTINGUISHERS["signed"], curator.ledger.spent()
    for _ in range(count):
        average += model.marginal(curator.schema.names) / count
        worst = pointer.point(curator, tables, _answers(model, tables, size), **price(curator, units / count))
        model.update(worst.query, 1.0 if worst.sign == 1 else 0.0)
    mean = MultiplicativeWeights(curator.schema, step="exact", prior=average / average.sum())
    alpha = found.alpha if rounds is None else math.inf
    return _released(curator, mean, size, before, method="averaged-construction", alpha=alpha, beta=beta)


def _prepare(
    curator: Curator, workload: Workload, rows: int | None, epsilon: float | None, rho: float | None
) -> tuple[list[Marginal], float, float]:
    """The tables whose cells are the queries, the units to spend, and the number of rows to scale by."""
    tables = [Marginal(curator.schema, columns) for columns in tables_of(curator.schema, list(workload.marginals))]
    units = float(units_for(curator, epsilon, rho))
    if rows is not None:
        return tables, units, float(rows)
    before = curator.ledger.spent()
    size = max(1.0, curator.count_rows(**price(curator, ROWS * units)))
    return tables, units - (curator.ledger.spent() - before), size


def _answers(model: Hypothesis, tables: Sequence[Marginal], size: float) -> list[NDArray[np.float64]]:
    return [model.marginal(table.names) * size for table in tables]


def _noise_bound(curator: Curator, units: float, rounds: int, beta: float) -> float:
    """A bound in counts that all measurement noises keep with probability 1 - beta / 2."""
    amount = units / UNITS_PER_ONE
    match curator.budget.accounting:
        case "pure":
            return math.log(2 * rounds / beta) / amount
        case "gdp":
            return math.sqrt(2 * math.log(4 * rounds / beta) / amount)
        case _:
            return math.sqrt(math.log(4 * rounds / beta) / amount)


def _check_promise(alpha: float, size: float, epsilon: float) -> None:
    if alpha >= 1:
        raise QueryError(
            f"with about {size:.3g} rows and epsilon {epsilon:.3g} the theorem promises an error of {alpha:.3g}, which "
            "is nothing; the smallest alpha it can promise shrinks with more rows or budget (see plan), and "
            'method="everything" answers well without it'
        )


def _released(
    curator: Curator, model: Hypothesis, size: float, before: int, *, method: str, alpha: float, beta: float
) -> Release:
    promise = f"every query of the workload within {alpha:.4g} of the rows with probability {1 - beta:.3g}"
    certificate = certified(curator, method, curator.ledger.spent() - before, accuracy=promise if alpha < 1 else None)
    return Release(curator.schema, model, NoEvidence(size), certificate)

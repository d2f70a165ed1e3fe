"""`release`: a workload and a budget in, a release out."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.estimates import MAX_CELLS, Allocation, tables_of, units_for
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Workload, residual
from maquette.releases.artifact import Release, certified
from maquette.releases.game.both_learn import both_learn
from maquette.releases.game.dual_query import dual_query
from maquette.releases.methods.adaptive import adaptive
from maquette.releases.methods.baseline import gaussian, laplace
from maquette.releases.methods.everything import everything
from maquette.releases.methods.graphical import graphical
from maquette.releases.methods.iterative import averaged_construction, iterative_construction
from maquette.releases.methods.mwem import mwem
from maquette.releases.nets.net import small_db

METHODS: dict[str, Callable[..., Release]] = {
    "everything": everything,
    "adaptive": adaptive,
    "graphical": graphical,
    "iterative-construction": iterative_construction,
    "averaged-construction": averaged_construction,
    "mwem": mwem,
    "small-db": small_db,
    "dual-query": dual_query,
    "both-learn": both_learn,
    "laplace": laplace,
    "gaussian": gaussian,
}
ROWS = 0.01  # of the budget buys the row estimate that the choice of method needs
SMALL = 2**16  # cells: rounds of fitting all of more take minutes, and come to no less error than a graphical model
NOISY = 0.3  # expected error, before any fit, above which choosing what to measure pays


def release(
    curator: Curator,
    workload: Workload,
    *,
    method: str = "auto",
    epsilon: float | None = None,
    rho: float | None = None,
    **settings: Any,
) -> Release:
    """Answer a whole workload at once, for `epsilon` or `rho` (default: all that remains).

    method="auto" takes "everything" where the universe can be enumerated and its expected error, computed from
    public and paid-for quantities, is small; where it is large, "adaptive" in a small universe and "graphical" in any
    other.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [3, 7], "smoker": [True, False]}, schema)
    >>> made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=2))
    >>> made.marginal("smoker", "age").shape
    (2, 10)
    """
    if not isinstance(workload, Workload):
        raise QueryError(
            f"the workload is of type {type(workload).__name__}", expected="a workload, such as marginals(schema, k=2)"
        )
    if workload.schema != curator.schema:
        raise QueryError("the workload was built for another schema", advice="build it from curator.schema")
    _check(method, settings)
    with curator.account("release") as account:
        units = units_for(curator, epsilon, rho)
        if method != "auto":
            return METHODS[method](curator, workload, epsilon=epsilon, rho=rho, **settings)
        method, units = _choose(curator, workload, units)
        fitting = {name: value for name, value in settings.items() if name in _settings(method)}
        made = METHODS[method](curator, workload, units=units, **fitting)
    made.certificate = certified(curator, method, account)
    return made


def _check(method: str, settings: dict[str, Any]) -> None:
    """Refuse an unknown method or setting before anything is charged."""
    if method != "auto" and method not in METHODS:
        raise QueryError(f"there is no method {method!r}", expected=f"auto, {', '.join(METHODS)}")
    known = ["progress"] if method == "auto" else _settings(method)
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise QueryError(
            f"method {method!r} has no setting {', '.join(unknown)}", advice=f"it has {', '.join(known) or 'none'}"
        )


def _settings(method: str) -> list[str]:
    """The keywords of a method beside its price."""
    names = inspect.signature(METHODS[method]).parameters
    return [name for name in names if name not in ("curator", "workload", "epsilon", "rho", "units")]


def _choose(curator: Curator, workload: Workload, units: int) -> tuple[str, int]:
    """The method that promises the least error, and the units left for it.

    The expected error of measuring everything follows from the schema, the workload, the budget and the number of
    rows; where the latter is private, a small share of the budget buys an estimate of it.
    """
    pure = curator.budget.accountant.currency == "pure"
    if curator.schema.size > MAX_CELLS:
        return "graphical", units
    allocation = Allocation(curator.schema, tables_of(curator.schema, list(workload.marginals)), linear=pure)
    contrasts = residual(curator.schema, next(iter(part for part in allocation.sets if part), ()))
    moves = curator.relation.l1(contrasts) / contrasts.gains[1]
    with curator.account("number of rows") as account:
        rows = max(1.0, curator.count_rows(units=int(ROWS * units)))
    units -= account.units
    amount = units / UNITS_PER_ONE
    error = allocation.expected_error(curator.budget.accountant.currency, amount, rows / moves)
    # Contrasts move more in L1 than whole tables do, so under a pure budget plain tables may have less noise.
    plain = sum(table.cells for table in workload.marginals) / (2 * amount * rows / moves) if pure else math.inf
    if error <= min(NOISY, plain):
        return "everything", units
    return ("adaptive" if curator.schema.size <= SMALL else "graphical"), units

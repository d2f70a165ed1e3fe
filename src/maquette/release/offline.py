"""`release`: a workload and a budget in, a release out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Workload
from maquette.release.adaptive import adaptive
from maquette.release.artifact import Release
from maquette.release.baseline import gaussian, laplace
from maquette.release.dense import MAX_CELLS
from maquette.release.everything import everything
from maquette.release.iterative import averaged_construction, iterative_construction
from maquette.release.shares import Allocation, price, tables_of, units_for

METHODS: dict[str, Callable[..., Release]] = {
    "everything": everything,
    "adaptive": adaptive,
    "iterative-construction": iterative_construction,
    "averaged-construction": averaged_construction,
    "laplace": laplace,
    "gaussian": gaussian,
}
ROWS = 0.01  # of the budget buys the row estimate that the choice of method needs
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
    public and paid-for quantities, is small; "adaptive" where it is large; independent noise where no dense model fits.

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [3, 7], "smoker": [True, False]}, schema)
    >>> made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=2))
    >>> made.marginal("smoker", "age").shape
    (2, 10)
    """
    if workload.schema != curator.schema:
        raise QueryError("the workload was built for another schema; build it from curator.schema")
    units = units_for(curator, epsilon, rho)
    if method == "auto":
        method, units = _choose(curator, workload, units)
    if method not in METHODS:
        raise QueryError(f"there is no method {method!r}; expected auto, {', '.join(METHODS)}")
    return METHODS[method](curator, workload, **price(curator, units), **settings)


def _choose(curator: Curator, workload: Workload, units: int) -> tuple[str, int]:
    """The method that promises the least error, and the units left for it.

    The expected error of measuring everything follows from the schema, the workload, the budget and the number of
    rows; where the latter is private, a small share of the budget buys an estimate of it.
    """
    pure = curator.budget.accounting == "pure"
    if curator.schema.size > MAX_CELLS:
        return ("laplace" if pure else "gaussian"), units
    allocation = Allocation(curator.schema, tables_of(curator.schema, list(workload.marginals)), linear=pure)
    before = curator.ledger.spent()
    rows = max(1.0, curator.count_rows(**price(curator, ROWS * units)))
    units -= curator.ledger.spent() - before
    error = allocation.expected_error(curator.budget.accounting, units / UNITS_PER_ONE, rows)
    return ("everything" if error <= NOISY else "adaptive"), units

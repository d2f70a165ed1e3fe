"""`release`: a workload and a budget in, a release out."""

from __future__ import annotations

from collections.abc import Callable

from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.query import Workload
from maquette.release import baseline
from maquette.release.artifact import Release

METHODS: dict[str, Callable[..., Release]] = {"laplace": baseline.laplace, "gaussian": baseline.gaussian}


def release(
    curator: Curator,
    workload: Workload,
    *,
    method: str = "auto",
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """Answer a whole workload at once, for `epsilon` or `rho` (default: all that remains).

    >>> import maquette as mq
    >>> schema = mq.Schema([mq.Integer("age", 0, 9), mq.Boolean("smoker")])
    >>> table = mq.open_table({"age": [3, 7], "smoker": [True, False]}, schema)
    >>> made = mq.release(mq.Curator(table, mq.Budget(epsilon=1.0)), mq.marginals(schema, k=2))
    >>> made.marginal("smoker", "age").shape
    (2, 10)
    """
    if method == "auto":
        method = "laplace" if curator.budget.accounting == "pure" else "gaussian"
    if method not in METHODS:
        raise QueryError(f"there is no method {method!r}; expected auto, {', '.join(METHODS)}")
    return METHODS[method](curator, workload, epsilon=epsilon, rho=rho)

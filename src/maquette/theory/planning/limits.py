"""What no mechanism can do, for the question of a plan: lower bounds, hardness, and open questions."""

from __future__ import annotations

from dataclasses import dataclass

from maquette.theory import lower
from maquette.theory.planning.question import Question

OPEN = (  # what nobody knows, as the sources say it
    "the smallest basis of small weight for k-way disjunctions: a fast mechanism with few rows for them (the slides)",
    "time polylogarithmic in the universe, with accuracy, for natural classes of queries (lecture on many queries)",
)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One line: no mechanism can promise less than `error`, and none reaches alpha with fewer rows than `rows(alpha)`.

    `proved` limits hold with their constants, for every mechanism. The others are theorems that hide constants: a
    scale. `fast` ones bind only mechanisms whose time is polynomial in rows, columns and queries.
    """

    name: str
    title: str
    short: str  # for a chart
    error: float | None
    proved: bool
    fast: bool
    reference: str


def limits(q: Question) -> tuple[Limit, ...]:
    """The lower bounds that apply under this budget and relation."""
    facts = {"epsilon": q.epsilon, "rows": q.rows}
    found = [
        Limit(
            name="single",
            title="no mechanism can do better than, on one query",
            short="one query",
            error=lower.single(delta=q.delta, beta=q.beta, **facts),  # type: ignore[arg-type]
            proved=True,
            fast=False,
            reference="group privacy; theory.lower.single",
        )
    ]
    if q.relation == "replace":
        error = lower.reconstruction(
            universe=q.universe,
            queries=q.queries,
            delta=q.delta,
            beta=q.beta,
            **facts,  # type: ignore[arg-type]
        )
        found.append(
            Limit(
                name="reconstruction",
                title="no mechanism can do better than, for subset counts, or rows could be reconstructed",
                short="reconstruction",
                error=error,
                proved=True,
                fast=False,
                reference="Dinur and Nissim 2003; theory.lower.reconstruction",
            )
        )
    if q.delta == 0 and q.relation == "replace":
        error = lower.packing(universe=q.universe, queries=q.queries, beta=q.beta, **facts)  # type: ignore[arg-type]
        found.append(
            Limit(
                name="packing",
                title="no mechanism can do better than, for the hardest queries",
                short="packing",
                error=error,
                proved=True,
                fast=False,
                reference="Hardt and Talwar 2010; theory.lower.packing",
            )
        )
    fewest = lower.efficient_rows(queries=q.queries)
    scale = lower.fingerprinting(universe=q.universe, queries=q.queries, **facts)  # type: ignore[arg-type]
    found += [
        Limit(
            name="fingerprinting",
            title="no mechanism can do better than, for the hardest queries, up to a constant",
            short="fingerprinting, up to a constant",
            error=scale,
            proved=False,
            fast=False,
            reference="Bun, Ullman and Vadhan 2014",
        ),
        Limit(
            name="efficient",
            title=f"no fast mechanism can answer the hardest queries below about {fewest:,.0f} rows",
            short="nothing fast",
            error=None,
            proved=False,
            fast=True,
            reference="Ullman 2013, if secure cryptography exists",
        ),
    ]
    return tuple(found)


def least_rows_for(limit: Limit, q: Question, alpha: float) -> float:
    """The rows below which this limit says that alpha is out of reach; errors fall as 1 / n, or 1 / sqrt(n)."""
    if limit.error is None:
        return lower.efficient_rows(queries=q.queries)
    ratio = limit.error / alpha
    return q.rows * (ratio if limit.proved else ratio**2)

"""Distance construction: select the site with the largest error in its distance, measure it, update."""

from __future__ import annotations

import numpy as np

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS
from maquette.errors import QueryError
from maquette.estimates import NoEvidence, units_for
from maquette.hypothesis import AnyRule, Rule, Separable, rule_of
from maquette.query import Box, Distances, Marginal
from maquette.releases.artifact import Release, certified
from maquette.releases.classes.histograms import independent
from maquette.releases.methods.iterative import Setting, parameters, setting_of
from maquette.releases.opening import check_promise_of, opening
from maquette.theory import distance as theory

MAX_SITES = 2**14  # maximum number of sites: each is scored in every round


def distance_rule_of(box: Box) -> Rule:
    """Separable weights with the shares of a box: sum_j share_j ln s_j / (2 alpha^2) updates, for any columns."""
    columns = [(share, box.schema[name].size) for name, share in box.shares.items()]
    return Rule(
        lambda alpha: theory.updates(columns, min(alpha, 1.0)),
        lambda alpha: Separable(box.schema, alpha=alpha, shares=box.shares),
        name=Separable.kind,
    )


def distance_construction(
    curator: Curator,
    sites: Distances,
    *,
    hypothesis: AnyRule = "separable",
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """Release separable weights that answer the listed distances, with a theorem.

    `hypothesis` may be another update rule, by its name, its class or as a `Rule`: alpha then follows from its bound.

    Privacy: at most T rounds of one `select_worst` among the sites and one `measure` of the worst, charged as they
    happen; where the number of rows is private, an estimate of it costs a hundredth of the budget. One row moves one
    total by at most one (a diameter). Accuracy: with probability 1 - `beta` every listed distance is within alpha of
    the diameter, alpha = a' + 2 Nb + F with T = sum_j share_j ln s_j / (2 a'^2), for any number of columns
    (certificate). At practical sizes the `histograms` of the columns answer far better. Mechanisms §4.8, §5.1.
    """
    _check(curator, sites, beta, rows)
    separable = hypothesis == "separable" or hypothesis is Separable
    rule = distance_rule_of(sites.box) if separable else rule_of(curator.schema, hypothesis)
    with curator.account("distance-construction") as account:
        setting = _prepare(curator, sites, rows, beta, units_for(curator, epsilon, rho))
        found = parameters(curator, rule, setting, distinguisher=DISTINGUISHERS["exponential"], constants="tight")
        model = rule.start(found.resolution)
        for _ in range(found.rounds):
            answers = [np.array(model.answer(query) * setting.rows) for query in sites]
            cost = found.select_units
            query = DISTINGUISHERS["exponential"].point(curator, setting.tables, answers, units=cost).query
            value = float(curator.measure(query, units=found.measure_units).values) / setting.rows
            if abs(value - model.answer(query)) < found.threshold:
                break
            model.update(query, value)
    method = "distance-construction" + ("" if separable else f" ({rule.name})")
    promise = f"every listed distance within {found.alpha:.4g} of the diameter with probability {1 - beta:.3g}"
    certificate = certified(curator, method, account, accuracy=promise)
    columns = {name: model.marginal([name]) for name in sites.box.columns}
    finished = independent(curator.schema, columns) if separable else model
    return Release(curator.schema, finished, NoEvidence(setting.rows), certificate)


def _check(curator: Curator, sites: object, beta: float, rows: int | None) -> None:
    """Refuse invalid arguments before anything is charged."""
    if not isinstance(sites, Distances):
        raise QueryError(f"got {type(sites).__name__}", expected="distances made by Box.distances")
    if sites.schema != curator.schema:
        raise QueryError("the distances were built for another schema", advice="build them from curator.schema")
    if sites.size > MAX_SITES:
        raise QueryError(
            f"{sites.size:,} sites are more than the {MAX_SITES:,} that can be compared", advice="list fewer"
        )
    check_promise_of(beta, rows)


def _prepare(curator: Curator, sites: Distances, rows: int | None, beta: float, units: int) -> Setting:
    """The sites in the form that the doors take, and the number of rows, bought where it is private."""
    tables = [Marginal(curator.schema, (), query) for query in sites]
    begun = opening(curator, units, rows=rows, beta=beta)
    return setting_of(tables, curator.relation.max_contributions, begun)

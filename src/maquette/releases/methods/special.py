"""Releases for special classes of questions, or with settings that only the caller can give, as methods of `release`.

Each takes what `release` was asked for and its own settings, and returns a `Release`; a setting without a default must
be given. What a class cannot answer is refused before anything is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.curator import Curator, Mechanism
from maquette.errors import QueryError
from maquette.estimates import NoEvidence
from maquette.query import Cuts, Distances, Lookup, LowSensitivityQuery, Workload
from maquette.releases.artifact import Release
from maquette.releases.classes.coefficients import coefficients
from maquette.releases.classes.cuts import cut_construction
from maquette.releases.classes.distances import distance_construction
from maquette.releases.classes.histograms import histograms
from maquette.releases.classes.lookups import keys_release
from maquette.releases.classes.projection import MOST_K, projection
from maquette.releases.game.analyst_private import analyst_private
from maquette.releases.nets.candidates import Net
from maquette.releases.nets.functions import construct_functions, net_of_functions
from maquette.releases.nets.net import local_search, net_mechanism
from maquette.releases.starting import Start

Asked = Any  # a workload, or a list of functions or look-ups


def searched(
    curator: Curator,
    workload: Workload,
    *,
    start: Start,
    steps: int,
    sample: int = 50,
    neighbours: int | None = None,
    rng: np.random.Generator | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """`local_search` from `sample` public rows of a start; see there. Privacy: `steps` selections. No bound."""
    coins = np.random.default_rng() if rng is None else rng
    records = start.model.sample(sample, coins)
    return local_search(curator, workload, records, steps, neighbours=neighbours, rng=rng, epsilon=epsilon, rho=rho)


def projected(
    curator: Curator, workload: Workload, *, beta: float = 0.05, epsilon: float | None = None, rho: float | None = None
) -> Release:
    """`projection` of the two-level columns of a workload's tables, of at most four columns each; see there."""
    tables = [table.names for table in workload.marginals]
    widest = max((len(names) for names in tables), default=0)
    if widest > MOST_K:
        raise QueryError(
            f"a table of the workload has {widest} columns", expected=f"at most {MOST_K}, which a projection can answer"
        )
    columns = {name for names in tables for name in names}
    return projection(curator, sorted(columns), k=max(2, widest), beta=beta, epsilon=epsilon, rho=rho)


def halved(
    curator: Curator,
    functions: Sequence[LowSensitivityQuery],
    *,
    net: Net,
    tolerance: float = 0.0,
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """`construct_functions`; its model, the median of what is left of the net, answers the functions. See there."""
    made = construct_functions(curator, functions, net, tolerance=tolerance, beta=beta, epsilon=epsilon, rho=rho)
    return Release(curator.schema, made.model, NoEvidence(made.rows), made.certificate)


def chosen_for_functions(
    curator: Curator,
    functions: Sequence[LowSensitivityQuery],
    *,
    net: Net,
    mechanism: Mechanism = "auto",
    beta: float = 0.05,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """`net_of_functions`; see there."""
    return net_of_functions(curator, functions, net, mechanism=mechanism, beta=beta, epsilon=epsilon, rho=rho)


def discreet(
    curator: Curator,
    workload: Workload,
    *,
    analyst_epsilon: float,
    rounds: int = 50,
    draws: int = 20,
    strength: float | None = None,
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Release:
    """`analyst_private`; the certificate says what it reveals about one query. See there."""
    made, _ = analyst_private(
        curator,
        workload,
        analyst_epsilon=analyst_epsilon,
        rounds=rounds,
        draws=draws,
        strength=strength,
        beta=beta,
        rows=rows,
        epsilon=epsilon,
        rho=rho,
    )
    return made


def _listed(kind: type) -> Callable[[object], bool]:
    def fits(asked: object) -> bool:
        return isinstance(asked, Sequence) and bool(asked) and all(isinstance(each, kind) for each in asked)

    return fits


def _workload(asked: object) -> bool:
    return isinstance(asked, Workload)


SPECIAL: dict[str, Callable[..., Release]] = {
    "net": net_mechanism,
    "local-search": searched,
    "cuts": cut_construction,
    "distances": distance_construction,
    "histograms": histograms,
    "lookups": keys_release,
    "coefficients": coefficients,
    "projection": projected,
    "functions": halved,
    "functions-net": chosen_for_functions,
    "analyst-private": discreet,
}
ASKED: dict[str, tuple[Callable[[object], bool], str]] = {  # what a method answers, where that is no plain workload
    "cuts": (lambda asked: isinstance(asked, Cuts), "cuts made by cuts, bipartitions or degrees"),
    "distances": (lambda asked: isinstance(asked, Distances), "distances made by Box.distances"),
    "lookups": (_listed(Lookup), "a list of look-ups made by lookup(schema, keys), at least one"),
    "functions": (_listed(LowSensitivityQuery), "a list of LowSensitivityQuery, at least one"),
    "functions-net": (_listed(LowSensitivityQuery), "a list of LowSensitivityQuery, at least one"),
}
WORKLOAD = (_workload, "a workload, such as marginals(schema, k=2)")

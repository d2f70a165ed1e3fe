"""Releases for special classes of questions, or with settings that only the caller can give, as methods of `release`.

Each takes what `release` was asked for and its own settings, and returns a `Release`; a setting without a default must
be given. What a class cannot answer is refused before anything is charged.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maquette.curator import Curator
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
from maquette.releases.nets.functions import FunctionRelease, construct_functions, net_of_functions
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


def released(method: Callable[..., Any], take: Callable[[Curator, Any], Release]) -> Callable[..., Release]:
    """A method whose result holds more than a release, with the same settings, as one of `release`."""

    @functools.wraps(method)
    def run(curator: Curator, asked: Asked, **settings: Any) -> Release:
        return take(curator, method(curator, asked, **settings))

    return run


def _median(curator: Curator, made: FunctionRelease) -> Release:
    """The median of what is left of the net answers the functions."""
    return Release(curator.schema, made.model, NoEvidence(made.rows), made.certificate)


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
    "functions": released(construct_functions, _median),
    "functions-net": net_of_functions,
    "analyst-private": released(analyst_private, lambda _, made: made[0]),  # the certificate says what it reveals
}
ASKED: dict[str, tuple[Callable[[object], bool], str]] = {  # what a method answers, where that is no plain workload
    "cuts": (lambda asked: isinstance(asked, Cuts), "cuts made by cuts, bipartitions or degrees"),
    "distances": (lambda asked: isinstance(asked, Distances), "distances made by Box.distances"),
    "lookups": (_listed(Lookup), "a list of look-ups made by lookup(schema, keys), at least one"),
    "functions": (_listed(LowSensitivityQuery), "a list of LowSensitivityQuery, at least one"),
    "functions-net": (_listed(LowSensitivityQuery), "a list of LowSensitivityQuery, at least one"),
}
WORKLOAD = (_workload, "a workload, such as marginals(schema, k=2)")

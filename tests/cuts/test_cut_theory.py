"""Bounds on cuts: where they cross, and that noise on every pair keeps its own."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cut_checks import Seeded

from maquette.hypothesis import CutDecomposition, MultiplicativeWeights
from maquette.query import Cuts, edge_schema
from maquette.theory import cuts, updates


@pytest.mark.parametrize("vertices", [10, 100, 1000])
def test_the_decomposition_needs_fewer_updates_on_dense_graphs_only(vertices: int) -> None:
    for centred, rule in ((False, cuts.frieze_kannan), (True, cuts.frieze_kannan_centred)):
        edge = cuts.dense_from(vertices, centred=centred)
        assert edge == pytest.approx(
            vertices**2 / (1 + 2 * math.log(vertices**2)) if centred else 2 * vertices**2 / math.log(vertices**2)
        )
        for edges, fewer in ((math.ceil(edge * 1.01), True), (math.floor(edge * 0.99), False)):
            assert (rule(vertices, edges, 0.1) < cuts.multiplicative_weights(vertices, 0.1)) == fewer


def test_bounds_are_those_of_the_rules() -> None:
    schema = edge_schema(12)
    assert cuts.multiplicative_weights(12, 0.1) == MultiplicativeWeights.max_updates(schema, 0.1)
    assert cuts.frieze_kannan(12, 100, 0.1) == updates.frieze_kannan(12, 100, 0.1) == pytest.approx(144)
    for rule, step in ((cuts.frieze_kannan, "theory"), (cuts.frieze_kannan_centred, "centred")):
        for largest in (0.1, 0.25, 0.6, 1.0):
            area = largest * 144
            model = CutDecomposition(schema, alpha=0.1, step=step, norm=cuts.graph_norm(100), area=area)  # type: ignore[arg-type]
            assert model.update_bound == pytest.approx(rule(12, 100, 0.1, largest=largest))
    assert cuts.frieze_kannan_centred(12, 100, 0.1) <= cuts.frieze_kannan(12, 100, 0.1) / 4
    assert cuts.frieze_kannan_centred(12, 144, 0.1) == 0.0  # a complete graph is the uniform start
    assert cuts.graph_norm(100, multiplicity=4) == 2 * cuts.graph_norm(100) == pytest.approx(0.2)


def test_rates_say_that_every_pair_wins_where_the_decomposition_does() -> None:
    for vertices in (50, 200, 1000):
        sparse, dense = cuts.rates(vertices, vertices), cuts.rates(vertices, vertices**2)
        assert sparse.multiplicative_weights < min(sparse.frieze_kannan, sparse.every_pair)
        assert dense.every_pair <= min(dense.frieze_kannan, dense.multiplicative_weights)
        assert dense.frieze_kannan < dense.multiplicative_weights
    assert cuts.log_cuts(20) == 2 * cuts.log_cuts(20, bipartitions=True) == pytest.approx(20 * math.log(4))


def test_noise_on_every_pair_keeps_its_bound() -> None:
    """All 4^6 cuts of 6 vertices, 400 runs: no run is expected beyond, as the union bound is loose."""
    vertices, rho_of = 6, cuts.every_pair(vertices=6, epsilon=1.0, delta=1e-9, beta=0.05)
    numbers = np.arange(2**vertices)
    sets = (numbers[:, None] >> np.arange(vertices)) % 2 == 1
    one, two = (np.repeat(sets, 64, axis=0), np.tile(sets, (64, 1)))
    schema = edge_schema(vertices)
    family = Cuts(schema, one, two)
    from maquette.privacy.conversion import zcdp_rho

    variance, noise = 1 / (2 * zcdp_rho(1.0, 1e-9)), Seeded(0)

    class Noise:
        def __init__(self) -> None:
            self.schema = schema

        def marginal(self, columns: object) -> np.ndarray:
            return noise.rng.normal(0, math.sqrt(variance), (vertices, vertices))

    worst = [float(np.abs(family.answers(Noise())).max()) for _ in range(400)]
    assert np.mean(np.array(worst) > rho_of) <= 0.05
    assert max(worst) > rho_of / 4, "the bound is not absurdly loose"
    assert cuts.every_pair(vertices=6, epsilon=1.0, delta=1e-9, beta=0.05, largest=0.25) == pytest.approx(rho_of / 2)

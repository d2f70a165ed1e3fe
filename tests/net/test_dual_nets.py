"""Dual nets: all transcripts replayed by brute force, every table covered, sizes, and the mechanism on them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from net_checks import QUERIES, observe, replaced, tables

import maquette as mq
from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights
from maquette.query import LinearQuery
from maquette.releases import Net
from maquette.releases.nets.net import net_mechanism
from maquette.releases.nets.transcripts import vc_dimension
from maquette.theory import net as theory

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
ASKED = [mq.where(SCHEMA, text) for text in ("a", "b", "a AND b")]


def replayed(asked: list[LinearQuery], alpha: float, updates: int) -> set[bytes]:
    """Every transcript from scratch, without sharing anything between them."""
    moves, found = list(itertools.product(asked, (1.0, 0.0))), set()
    for length in range(updates + 1):
        for transcript in itertools.product(moves, repeat=length):
            model = MultiplicativeWeights(SCHEMA, alpha=alpha)
            for query, value in transcript:
                model.update(query, value)
            found.add(np.round(model.marginal(SCHEMA.names), 9).tobytes())
    return found


def test_the_net_is_all_that_transcripts_reach() -> None:
    """Two queries and three updates: 85 transcripts, and exactly the distinct tables of a brute-force replay."""
    alpha = math.sqrt(math.log(4) / 2 / 3.5)
    net = Net.transcripts("multiplicative-weights", ASKED[:2], alpha)
    assert "85 transcripts of 3 updates" in repr(net)
    brute = replayed(ASKED[:2], alpha, 3)
    listed = {np.round(row.reshape(2, 2), 9).tobytes() for row in net.weights.toarray()}
    assert listed == brute
    assert len(net) == len(brute) == round(math.exp(theory.dual_net(queries=2, steps=3, commuting=True))) == 25


@pytest.mark.thorough
def test_multiplicative_updates_commute() -> None:
    net = Net.transcripts("multiplicative-weights", ASKED, 0.3)
    assert len(net) == 575
    assert "335,923 transcripts of 7 updates" in repr(net)


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["multiplicative-weights", MultiplicativeWeights])
def test_every_table_has_a_candidate_within_alpha(rule: type | str) -> None:
    """All tables of ten rows over four points: OPT is below alpha, as the bound on updates says."""
    alpha = 0.3
    net = Net.transcripts(rule, ASKED, alpha)
    answers = net.answers(ASKED)
    points = np.stack([query.evaluate(net.points) for query in ASKED])
    worst = 0.0
    for table in itertools.combinations_with_replacement(range(4), 10):
        truth = points @ np.bincount(table, minlength=4) / 10
        worst = max(worst, float(np.abs(answers - truth).max(axis=1).min()))
    assert 0.05 < worst < alpha
    assert net.opt_for(ASKED) == net.opt_for(ASKED[:1]) == alpha
    assert net.opt_for([mq.where(SCHEMA, "a OR b")]) is None, "the bound is for the queries of the transcripts"


def test_a_shallower_net_does_not_cover() -> None:
    """Mutant: one update short of T, some table has no candidate within alpha on its own queries."""
    asked, alpha = [mq.where(SCHEMA, "a AND b")], 0.44
    net = Net.transcripts("multiplicative-weights", asked, alpha)
    truth = np.array([1.0])
    assert np.abs(net.answers(asked) - truth).max(axis=1).min() < alpha
    first = MultiplicativeWeights(SCHEMA, alpha=alpha)
    assert abs(first.answer(asked[0]) - 1.0) > alpha, "without any update it does not"


@pytest.mark.thorough
def test_the_mechanism_on_a_dual_net_certifies_its_alpha() -> None:
    table = mq.open_table({"a": [True, False] * 500, "b": [True, True, False, False] * 250}, SCHEMA)
    net = Net.transcripts("multiplicative-weights", ASKED, 0.3)
    with mq.Curator(table, mq.Budget(epsilon=4.0), relation="replace") as curator:
        made = net_mechanism(curator, ASKED, net, mechanism="exponential")
    expected = 0.3 + (2 * math.log(575 / 0.05) / 4 + 1) / 1000
    assert f"within {expected:.4g} of the rows" in (made.certificate.accuracy or "")


def test_loss_of_the_mechanism_on_a_dual_net() -> None:
    """On every table of four rows over three points, exactly."""
    net, epsilon = Net.transcripts("multiplicative-weights", QUERIES[:2], 0.45), 1.0
    seen = {x: observe(x, lambda c: net_mechanism(c, QUERIES[:2], net, epsilon=epsilon)) for x in tables(4)}
    worst = max(
        float(np.abs(np.log(seen[x].laws[0]) - np.log(seen[y].laws[0])).max()) for x in seen for y in replaced(x)
    )
    assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("queries", "updates"), [(1, 1), (3, 7), (5, 2), (2, 9)])
def test_the_number_of_tables_counts_lattice_points(queries: int, updates: int) -> None:
    grid = itertools.product(range(-updates, updates + 1), repeat=queries)
    points = sum(1 for point in grid if sum(map(abs, point)) <= updates)
    assert round(math.exp(theory.dual_net(queries=queries, steps=updates, commuting=True))) == points
    transcripts = sum((2 * queries) ** t for t in range(updates + 1))
    assert round(math.exp(theory.dual_net(queries=queries, steps=updates))) == transcripts


def test_the_bound_on_large_counts_is_above_the_exact_sum() -> None:
    for queries, updates in ((300, 400), (250, 10_000), (5000, 260)):
        exact = math.log(
            sum(2**k * math.comb(queries, k) * math.comb(updates, k) for k in range(min(queries, updates) + 1))
        )
        bound = theory.dual_net(queries=queries, steps=updates, commuting=True)
        assert exact <= bound <= exact + 8


def test_too_many_tables_are_refused_with_their_number() -> None:
    with pytest.raises(QueryError, match=r"make 10\^\d+ tables"):
        Net.transcripts("multiplicative-weights", ASKED, 0.01)
    with pytest.raises(QueryError, match="something else than a distribution"):
        Net.transcripts("perceptron", ASKED, 0.9)


LINE = mq.Schema([mq.Integer("x", 0, 5)])
PREFIXES = [mq.where(LINE, f"x <= {i}") for i in range(5)]
INTERVALS = [mq.where(LINE, f"x >= {i} AND x <= {j}") for i in range(6) for j in range(i, 6)]


@pytest.mark.parametrize(("asked", "dimension"), [(PREFIXES, 1), (INTERVALS, 2), (PREFIXES[:1], 0)])
def test_vc_dimension_of_known_classes(asked: list[LinearQuery], dimension: int) -> None:
    points = np.arange(LINE.size)[:, None]
    assert vc_dimension(LINE, asked, points) == dimension


@pytest.mark.parametrize(("dimension", "alpha"), [(1, 0.5), (2, 0.3), (5, 0.1)])
def test_vc_size_is_the_least_that_its_formula_allows(dimension: int, alpha: float) -> None:
    def left(rows: int) -> float:
        return math.log(4) + dimension * math.log(2 * math.e * rows / dimension) - rows * alpha**2 / 8

    rows = theory.vc_database_size(dimension=dimension, alpha0=alpha)
    assert left(rows) < 0 <= left(rows - 1)


def test_samples_of_the_vc_size_are_within_alpha() -> None:
    """1,000 samples from a uniform line of a million points, all intervals at once: the formula is valid and loose."""
    alpha, rng = 0.5, np.random.default_rng(7)
    rows = theory.vc_database_size(dimension=2, alpha0=alpha)
    worst = 0.0
    for _ in range(1000):
        drawn = np.sort(rng.random(rows))
        above = np.arange(1, rows + 1) / rows - drawn
        below = np.arange(rows) / rows - drawn
        worst = max(worst, above.max() - below.min())  # the largest error over all intervals (Kuiper)
    assert 0.05 < worst < alpha


def test_a_net_of_dimension_lists_and_bounds() -> None:
    schema = mq.Schema([mq.Boolean("a")])
    net = Net.of_dimension([mq.where(schema, "a")], 0.5)
    assert len(net) == theory.vc_database_size(dimension=1, alpha0=0.5) + 1
    assert (net.opt_for([mq.where(schema, "a")]) or 1) <= 0.5

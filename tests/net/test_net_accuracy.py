"""The Net mechanism's accuracy theorems, exactly from the law, and its limits and symmetries."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from net_checks import QUERIES, SCHEMA, ZCDP, Counts, fractions, observe, open_counts, tables

import maquette as mq
from maquette.errors import QueryError
from maquette.query import LinearQuery
from maquette.releases.nets.net import Net, error_bound, local_search, net_mechanism, rows_for, small_db
from maquette.schema import Boolean, Schema

GRID = 2**-20  # half of the queries' fixed point, twice: how far rounding at the wall can move an error


@pytest.mark.thorough
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_error_exceeds_the_proposition_with_probability_beta_at_most(rows: int, currency: str) -> None:
    net, n, reached = Net.small_databases(SCHEMA, rows), 12, 0.0
    answers = net.answers(QUERIES)
    for epsilon, x in itertools.product((2.0, 6.0), tables(n)[::3]):
        price = {"epsilon": epsilon} if currency == "pure" else {"rho": epsilon**2 / 8}
        budget = mq.Budget(epsilon=9e3) if currency == "pure" else ZCDP
        seen = observe(x, lambda c, price=price: net_mechanism(c, QUERIES, net, **price), budget=budget)  # type: ignore[misc]
        errors = np.abs(answers - fractions(x)).max(axis=1)
        for beta in (0.5, 0.1, 0.01):
            allowed = errors.min() + 2 * math.log(len(net) / beta) / (epsilon * n)
            failing = seen.laws[0][errors > allowed + GRID].sum()
            assert failing <= beta
            reached = max(reached, failing / beta)
    assert reached > 0.01, "no error ever came near the bound: the test says nothing"


def test_scores_are_minus_the_largest_error_in_rows() -> None:
    net = Net.small_databases(SCHEMA, 3)
    seen = observe((3, 1, 1), lambda c: net_mechanism(c, QUERIES, net, epsilon=1.0))
    expected = -5 * np.abs(net.answers(QUERIES) - fractions((3, 1, 1))).max(axis=1)
    assert np.abs(seen.scores[0] / 2**20 - expected).max() <= GRID
    assert float(seen.calls[0].scale) == 2 * 2**20


def test_some_multiset_of_m_rows_is_within_the_net_bound() -> None:
    rng = np.random.default_rng(5)
    schema = Schema([Boolean("a"), Boolean("b"), Boolean("c")])
    every = np.array(list(itertools.product((0.0, 1.0), repeat=8)))[1:-1]
    for rows in (1, 2, 3, 4, 5):
        net = Net.small_databases(schema, rows)
        histograms = np.zeros((len(net), 8))
        for i in range(len(net)):
            records, shares = net[i]
            np.add.at(histograms[i], (records @ [4, 2, 1]).astype(np.int64), shares)
        assert len(np.unique(histograms.round(9), axis=0)) == len(net) == math.comb(8 + rows - 1, rows)
        candidates = histograms @ every.T
        bound = net.opt(len(every))
        assert bound is not None
        for x in rng.dirichlet(np.full(8, 0.3), size=50):
            assert np.abs(candidates - every @ x).max(axis=1).min() <= bound


@pytest.mark.parametrize(("size", "alpha"), [(1, 0.5), (7, 0.31), (1000, 0.1), (10**6, 0.02)])
def test_rows_for_is_the_fewest_rows_that_hoeffding_allows(size: int, alpha: float) -> None:
    rows = rows_for(size, alpha)
    assert 2 * size * math.exp(-2 * rows * alpha**2) < 1
    assert 2 * size * math.exp(-2 * (rows - 1) * alpha**2) >= 1


def test_error_bound_gives_the_published_table() -> None:
    """Mechanisms §14.10, epsilon 1, beta 0.05, with the number of rows optimised."""
    tried = np.unique(np.geomspace(1, 4e6, 4000).astype(int))
    table = {
        (2**10, 10**3, 1e4): 0.25,
        (2**10, 10**3, 1e5): 0.081,
        (2**10, 10**3, 1e6): 0.017,
        (2**20, 10**6, 1e5): 0.21,
        (2**20, 10**6, 1e6): 0.089,
        (2**20, 10**6, 1e7): 0.038,
    }
    for (points, size, n), expected in table.items():
        bounds = error_bound(points, size, tried, table_rows=n, epsilon=1.0, beta=0.05)
        assert bounds.min() == pytest.approx(expected, rel=0.025)


def test_small_db_takes_the_rows_asked_for_or_the_best_ones() -> None:
    x: Counts = (4, 1, 1)
    assert (
        "multisets of 3 rows"
        in observe(x, lambda c: small_db(c, QUERIES, rows=3, epsilon=1.0)).result.certificate.method
    )
    by_alpha = observe(x, lambda c: small_db(c, QUERIES, alpha=0.5, epsilon=1.0)).result
    assert f"multisets of {rows_for(4, 0.5)} rows" in by_alpha.certificate.method
    for n, epsilon in ((20, 1.5), (60, 1.0)):
        bounds = error_bound(3, 4, np.arange(1, 500), table_rows=n, epsilon=epsilon, beta=0.05)
        best = int(np.argmin(bounds)) + 1
        assert 1 < best < 100
        chosen = observe((n - 2, 1, 1), lambda c, e=epsilon: small_db(c, QUERIES, rho=e**2 / 8), budget=ZCDP).result  # type: ignore[misc]
        assert f"multisets of {best} rows" in chosen.certificate.method


def test_relabelled_universe_permuted_duplicated_and_complemented_queries_give_the_same_scores() -> None:
    net = Net.small_databases(SCHEMA, 2)
    base = observe((3, 0, 1), lambda c: net_mechanism(c, QUERIES, net, epsilon=1.0)).scores[0]
    order = np.array([2, 0, 1])  # level i is called order[i]
    relabelled = [LinearQuery.product(SCHEMA, {"x": q.weights(["x"])[np.argsort(order)]}) for q in QUERIES]
    moved = Net.of(SCHEMA, [order[net[i][0]] for i in range(len(net))])
    counts = (0, 1, 3)  # order sends (3, 0, 1) here
    assert (
        observe(counts, lambda c: net_mechanism(c, relabelled, moved, epsilon=1.0)).scores[0].tolist() == base.tolist()
    )
    for same in (QUERIES[::-1], [*QUERIES, QUERIES[2]], [QUERIES[0], ~QUERIES[1], QUERIES[2], ~QUERIES[3]]):
        again = observe((3, 0, 1), lambda c, same=same: net_mechanism(c, same, net, epsilon=1.0)).scores[0]  # type: ignore[misc]
        assert again.tolist() == base.tolist()


@pytest.mark.thorough
def test_without_noise_the_trivial_net_returns_the_table() -> None:
    net = Net.small_databases(SCHEMA, 4)
    for x in tables(4):
        with mq.Curator(open_counts(x), mq.Budget(epsilon=9e3), relation="replace") as curator:
            model = net_mechanism(curator, QUERIES, net)
        assert [model.answer(q).value for q in QUERIES] == pytest.approx(fractions(x).tolist())
        assert model.marginal("x").tolist() == (np.array(x) / 4).tolist()


def test_with_noise_only_the_choice_is_nearly_uniform() -> None:
    net = Net.small_databases(SCHEMA, 3)
    for x in ((4, 0, 0), (0, 1, 3)):
        law = observe(x, lambda c: net_mechanism(c, QUERIES, net, epsilon=1e-6)).laws[0]
        assert np.abs(law * len(net) - 1).max() < 1e-5


def test_local_search_without_noise_walks_to_the_table() -> None:
    points = [LinearQuery.product(SCHEMA, {"x": w}) for w in np.eye(3)]
    start = np.zeros((6, 1), dtype=int)
    for neighbours in (None, 40):
        with mq.Curator(open_counts((1, 2, 3)), mq.Budget(epsilon=9e3), relation="replace") as curator:
            rng = np.random.default_rng(3)
            model = local_search(curator, points, start, 12, neighbours=neighbours, rng=rng)
        assert model.marginal("x").tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert start.tolist() == [[0]] * 6


def test_random_net_and_histograms_are_judged_by_the_same_scores() -> None:
    schema = Schema([Boolean("a"), Boolean("b")])
    net = Net.random(schema, 5, 30, np.random.default_rng(2))
    again = Net.random(schema, 5, 30, np.random.default_rng(2))
    assert net.points.tolist() == again.points.tolist()
    assert net.opt(3) is None
    asked = list(mq.marginals(schema, k=2))
    histograms = np.array(
        [
            [shares[(records == point).all(axis=1)].sum() for point in np.ndindex(2, 2)]
            for records, shares in (net[i] for i in range(30))
        ]
    )
    assert np.allclose(Net.histograms(schema, histograms).answers(asked), net.answers(asked))
    assert np.allclose(net.answers(asked), histograms)


def promised(made: mq.Release) -> float:
    found = re.search(r"(?:within|at most) ([\d.e-]+) (?:of the rows|beyond)", made.certificate.accuracy or "")
    assert found, "a promise is stated"
    return float(found[1])


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("mechanism", ["auto", "exponential", "permute-and-flip"])
@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_certificate_fails_with_probability_beta_at_most(relation: Any, mechanism: Any) -> None:
    """Exactly, from the law: the share of candidates beyond the certificate, at every row estimate within its slack."""
    net, reached = Net.small_databases(SCHEMA, 3), 0.0
    answers, private = net.answers(QUERIES), relation == "add-remove"
    many: list[Counts] = [(48, 0, 0), (20, 16, 12), (8, 36, 4)]
    few: list[Counts] = [(12, 0, 0), (5, 4, 3), (2, 9, 1)]
    price = 40.0 if private else 14.0
    for x, beta in itertools.product(many if private else few, (0.5, 0.2)):
        errors = np.abs(answers - fractions(x)).max(axis=1)
        for estimated in (-1, 0, 1) if private else (0,):
            seen = observe(
                x,
                lambda c, beta=beta: net_mechanism(c, QUERIES, net, mechanism=mechanism, beta=beta, epsilon=price),  # type: ignore[misc]
                relation=relation,
                script=[estimated, 0] if private else [0],
            )
            assert seen.laws[0][errors > promised(seen.result)].sum() <= beta
            if not private:
                choice = 2 * math.log(len(net) / beta) / (price * sum(x))
                stated = promised(seen.result) - (net.opt_for(QUERIES) or 0.0)
                assert stated == pytest.approx(choice + 1 / sum(x), rel=1e-3)
                reached = max(reached, seen.laws[0][errors > errors.min() + choice].sum() / beta)
    assert private or reached > 1e-3, "no error ever came near the bound: the test says nothing"


def test_a_net_without_a_bound_promises_the_distance_to_its_best_candidate() -> None:
    net = Net.random(SCHEMA, 3, 20, np.random.default_rng(1))
    seen = observe((5, 4, 3), lambda c: net_mechanism(c, QUERIES, net, epsilon=14.0))
    assert "beyond the best candidate with probability 0.95" in (seen.result.certificate.accuracy or "")
    weak = observe((5, 4, 3), lambda c: net_mechanism(c, QUERIES, net, epsilon=0.1))
    assert weak.result.certificate.accuracy is None, "nothing is promised that needs no data"


def test_small_db_certifies_its_theorem() -> None:
    table = open_counts((40, 40, 20))
    for mechanism in ("auto", "exponential"):
        with mq.Curator(table, mq.Budget(epsilon=30.0), relation="replace") as curator:
            made = small_db(curator, QUERIES, rows=40, mechanism=mechanism)
        size = math.comb(42, 40)
        expected = math.sqrt(math.log(8) / 80) + (2 * math.log(size / 0.05) / 30 + 1) / 100
        assert promised(made) == pytest.approx(expected, rel=1e-3)
    with mq.Curator(table, mq.Budget(epsilon=3.0)) as curator, pytest.raises(QueryError, match="mechanism"):
        small_db(curator, QUERIES, mechanism="softmax")  # type: ignore[arg-type]

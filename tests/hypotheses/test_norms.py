"""Mirror descent with norms: the bound is kept, reaches rounds, noise and plan, and a false query norm is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis_checks import ADVERSARIES, Adversary, instance, line, updates

import maquette as mq
from maquette.curator import Curator
from maquette.hypothesis import MirrorDescent, Perceptron, norm_rule, rule_of
from maquette.session import OnlineIC
from maquette.theory import updates as theory

CELLS = 32


def size_of(vector: Any, p: float) -> float:
    return float((np.abs(vector) ** p).sum() ** (1 / p))


@pytest.mark.parametrize("p", [1.3, 2.0])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_updates_stay_within_the_bound_of_their_norms(adversary: Adversary, p: float) -> None:
    rng, alpha, longest = np.random.default_rng(2), 0.1, 0.0
    for kind in ("sets", "weights"):
        _, queries = instance(CELLS, kind, rng)
        table = rng.dirichlet(np.full(CELLS, 5.0))  # nearly uniform: its norm is small
        norm, q = size_of(table, p), p / (p - 1)
        most = max(size_of(query, q) for query in queries)
        model = MirrorDescent(line(CELLS), alpha=alpha, p=p, norm=norm, query_norm=most)
        assert model.update_bound == pytest.approx((norm * most) ** 2 / ((p - 1) * alpha**2))
        made = sum(1 for _ in updates(model, table, queries, alpha, adversary, rng, model.update_bound))
        assert made <= model.update_bound
        longest = max(longest, made / model.update_bound)
    assert longest > 0.01


def test_a_norm_that_the_table_exceeds_breaks_the_bound() -> None:
    """A mutant of the promise: with a norm far below the table's own, T is exceeded."""
    rng, alpha = np.random.default_rng(3), 0.1
    table = np.zeros(CELLS)
    table[5] = 1.0
    queries = np.eye(CELLS)
    honest = MirrorDescent(line(CELLS), alpha=alpha, p=2.0)
    made = sum(1 for _ in updates(honest, table, queries, alpha, ADVERSARIES[0], rng, honest.update_bound))
    assert made > MirrorDescent(line(CELLS), alpha=alpha, p=2.0, norm=0.05).update_bound


def test_the_bound_is_the_theorys_everywhere() -> None:
    schema = line(13_000)
    assert norm_rule(schema, p=2.0).updates(0.1) == pytest.approx(1.3e6)
    assert norm_rule(schema, p=2.0, norm=0.05).updates(0.1) == pytest.approx(3250)
    for norm, most, p in ((1.0, None, 2.0), (0.2, None, 1.4), (0.2, 7.0, 1.4), (1.0, 3.0, 2.0)):
        stated = theory.p_norm(13_000, 0.1, p, norm, most)
        model = MirrorDescent(schema, alpha=0.1, p=p, norm=norm, query_norm=most)
        assert norm_rule(schema, p=p, norm=norm, query_norm=most).updates(0.1) == pytest.approx(stated)
        assert model.update_bound == pytest.approx(stated)
    assert Perceptron(schema, alpha=0.1, norm=0.05, query_norm=10.0).update_bound == pytest.approx(25.0)
    assert theory.perceptron(13_000, 0.1, 0.05, 10.0) == pytest.approx(25.0)
    assert MirrorDescent(schema, alpha=0.1).update_bound == MirrorDescent.max_updates(schema, 0.1)


SCHEMA = mq.Schema([mq.Integer("x", 0, 63)])


@pytest.fixture(scope="module")
def table() -> mq.PrivateTable:
    return mq.open_table({"x": np.repeat(np.arange(64), 5000).tolist()}, SCHEMA)


def test_norms_reach_rounds_noise_and_the_promise(table: mq.PrivateTable) -> None:
    """A uniform table of 64 cells has norm 1/8, and a cell norm 1: fewer rounds and a smaller promised error."""
    workload, found = mq.marginals(SCHEMA, k=1), {}
    for norms in ({}, {"norm": 0.125}, {"norm": 0.125, "query_norm": 1.0}):
        with Curator(table, mq.Budget(epsilon=1.0, delta=1e-9), relation="replace") as curator:
            settings: dict[str, Any] = {"hypothesis": "perceptron", "check": False, **norms}
            made = mq.release(curator, workload, method="iterative-construction", epsilon=0.5, **settings)
            session = OnlineIC(curator, "perceptron", queries=10, epsilon=0.5, **norms)  # type: ignore[arg-type]
            assert made.certificate.accuracy is not None
            found[len(norms)] = (float(made.certificate.accuracy.split()[6]), session.alpha, session.hits_left)
            errors = np.abs(made.marginal("x") - 1 / 64)
            assert errors.max() <= found[len(norms)][0]
    for worse, better in ((0, 1), (1, 2)):
        assert all(a > b for a, b in zip(found[worse][:2], found[better][:2], strict=True))


def test_a_query_beyond_its_norm_is_refused_before_it_is_paid_for(table: mq.PrivateTable) -> None:
    wide = mq.Schema([mq.Integer("x", 0, 63), mq.Boolean("y")])
    rows = mq.open_table({"x": [1, 2] * 100, "y": [True, False] * 100}, wide)
    with Curator(rows, mq.Budget(epsilon=1.0), relation="replace") as curator:
        with pytest.raises(mq.QueryError, match=r"a norm of 1\.414, more than query_norm=1"):
            mq.release(curator, mq.marginals(wide, k=1), method="iterative-construction",
                       hypothesis="perceptron", query_norm=1.0)  # fmt: skip
        assert curator.ledger.spent() == 0
    with Curator(table, mq.Budget(epsilon=1.0, delta=1e-9), relation="replace") as curator:
        session = OnlineIC(curator, "perceptron", queries=10, norm=0.125, query_norm=1.0)
        before = session.hits_left
        with pytest.raises(mq.QueryError, match="more than query_norm=1"):
            session.ask("x < 32")
        assert session.hits_left == before


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"norm": 0.0}, "norm is 0.0"),
        ({"norm": 1.5}, "norm is 1.5"),
        ({"query_norm": -1.0}, "query_norm is -1.0"),
        ({"psi": "entropy", "norm": 0.5}, "norms are for psi"),
    ],
)
def test_norms_that_make_no_sense_are_refused(named: Any, message: str) -> None:
    with pytest.raises(mq.QueryError, match=message):
        MirrorDescent(SCHEMA, alpha=0.1, **named)


def test_other_rules_have_no_norms() -> None:
    with pytest.raises(mq.QueryError, match="multiplicative-weights, tight; expected"):
        rule_of(SCHEMA, "multiplicative-weights", norm=0.5)
    with pytest.raises(mq.QueryError, match="perceptron, book"):
        rule_of(SCHEMA, "perceptron", "book", query_norm=0.5)
    with pytest.raises(mq.QueryError, match="it is for step"):
        Perceptron(SCHEMA, alpha=0.1, step="book", query_norm=2.0)


def test_a_model_with_norms_is_saved_with_them() -> None:
    for model in (
        MirrorDescent(SCHEMA, alpha=0.1, norm=0.5, query_norm=8.0),
        Perceptron(SCHEMA, alpha=0.1, query_norm=3.0),
    ):
        again = type(model).restore(SCHEMA, model.facts(), model.arrays())
        assert (again.norm, again.query_norm, again.update_bound) == (model.norm, model.query_norm, model.update_bound)

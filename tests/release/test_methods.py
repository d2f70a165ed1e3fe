"""Methods, rules and models of one's own: given as objects, they run everywhere, and the ledger says what they cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from release_checks import SCHEMA, table_of

import maquette as mq
from maquette.errors import QueryError
from maquette.estimates import DenseModel, NoEvidence, Residuals
from maquette.hypothesis import MultiplicativeWeights, Perceptron, Rule
from maquette.query import Box, Workload, cuts, edge_schema
from maquette.releases import (
    Draft,
    cut_construction,
    distance_construction,
    everything,
    iterative_construction,
    laplace,
    method_of,
    mwem,
)
from maquette.session import OnlineIC, cut_rule

WORKLOAD = mq.marginals(SCHEMA, k=1)


def opened(epsilon: float = 40.0, delta: float = 0.0) -> mq.Curator:
    return mq.Curator(table_of(SCHEMA, 2000), mq.Budget(epsilon=epsilon, delta=delta))


def thrifty(curator: mq.Curator, workload: Workload, *, units: int, share: float = 0.5) -> Draft:
    """Spends a share of what it may."""
    amount = share * curator.budget.accountant.loss(units, 0.0).epsilon
    evidence = Residuals(curator.schema)
    evidence.add(curator.measure(["smoker"], epsilon=amount))
    model = DenseModel(curator.schema, np.full(SCHEMA.shape(SCHEMA.names), 1 / SCHEMA.size))
    return Draft(model=model, evidence=evidence, accuracy="none")


def test_a_function_is_a_method_and_its_certificate_is_what_was_charged() -> None:
    with opened() as curator:
        _ = curator.measure(["age"], epsilon=1.0)
        made = mq.release(curator, WORKLOAD, method=thrifty, epsilon=4.0, share=0.25, check=False)
        assert made.certificate.method == "thrifty"
        assert made.certificate.epsilon == pytest.approx(1.0)
        assert (made.certificate.accuracy, len(made.certificate.charges)) == ("none", 1)
        assert curator.spent.epsilon == pytest.approx(2.0)
        assert made.answer("smoker").guarantee is not None


def test_a_method_cannot_say_less_than_it_spent() -> None:
    """It returns the release of a part of what it did; the certificate counts all of it."""

    def twice(curator: mq.Curator, workload: Workload, *, epsilon: float = 0.0, rho: float | None = None) -> Any:
        _ = curator.measure(["age"], epsilon=epsilon)
        return laplace(curator, workload, epsilon=epsilon)

    with opened() as curator:
        made = mq.release(curator, WORKLOAD, method=twice, epsilon=1.0, check=False)
        assert made.certificate.epsilon == pytest.approx(2.0) == curator.spent.epsilon


def test_settings_and_results_that_are_none_are_refused() -> None:
    with opened() as curator:
        with pytest.raises(QueryError, match="method 'thrifty' has no setting loud; it has share"):
            mq.release(curator, WORKLOAD, method=thrifty, loud=True)
        with pytest.raises(QueryError, match="method is 7; expected a name, or a function"):
            mq.release(curator, WORKLOAD, method=7)  # type: ignore[arg-type]
        with pytest.raises(QueryError, match="method 'auto' has no setting share; it has progress"):
            mq.release(curator, WORKLOAD, share=0.5)
        assert curator.ledger.spent() == 0
        with pytest.raises(QueryError, match="returned a int; expected a Release or a Draft"):
            mq.release(curator, WORKLOAD, method=lambda curator, workload, **_: 5)  # type: ignore[arg-type]


def test_a_function_of_ours_is_the_method_of_its_name() -> None:
    assert method_of(everything) == method_of("everything")
    assert method_of(everything).trusted
    assert not method_of(thrifty).trusted


def test_a_method_without_evidence_answers_without_intervals() -> None:
    def uniform(curator: mq.Curator, workload: Workload, **_: Any) -> Draft:
        model = DenseModel(SCHEMA, np.full(SCHEMA.shape(SCHEMA.names), 1 / SCHEMA.size))
        return Draft(model=model, evidence=NoEvidence(10.0))

    with opened() as curator:
        made = mq.release(curator, WORKLOAD, method=uniform, whatever=3)
    assert (made.certificate.units, made.certificate.charges) == (0, ())
    answer = made.answer("smoker")
    assert (answer.low, answer.high, answer.bound) == (0.0, 1.0, "logical")


def test_rules_are_names_classes_objects_or_models() -> None:
    rule = Rule(lambda a: Perceptron.max_updates(SCHEMA, a), lambda a: Perceptron(SCHEMA, alpha=a), name="mine")
    model = Perceptron(SCHEMA, alpha=0.3)
    given: dict[str, Any] = {"perceptron": "perceptron", "mine": rule}
    for name, hypothesis in given.items():
        with opened() as curator:
            made = iterative_construction(curator, WORKLOAD, hypothesis=hypothesis, rows=10**9)
        assert made.certificate.method == f"iterative-construction ({name}, tight)"
    with opened() as curator:
        made = iterative_construction(curator, WORKLOAD, hypothesis=model, rows=10**9)
        assert made.model is model
        assert made.certificate.accuracy is not None
    for hypothesis in (Perceptron, rule):
        with opened() as curator:
            assert isinstance(mwem(curator, WORKLOAD, model=hypothesis, rounds=2).model, Perceptron)
        with opened() as curator:
            assert isinstance(OnlineIC(curator, hypothesis, queries=4, rows=10**6).hypothesis, Perceptron)


def test_a_model_learns_from_its_own_resolution_up() -> None:
    """The promise of a given model is never finer than its alpha."""
    with opened() as curator:
        made = iterative_construction(curator, WORKLOAD, hypothesis=Perceptron(SCHEMA, alpha=0.4), rows=10**6)
    assert made.certificate.accuracy is not None
    assert float(made.certificate.accuracy.split("within ")[1].split()[0]) >= 0.4


def test_classes_run_on_cuts_and_distances() -> None:
    graph = edge_schema(4)
    edges = np.random.default_rng(0).integers(0, 4, (300, 2)).astype(np.int32)
    listed = cuts(graph, [(range(i), range(i, 4)) for i in range(1, 4)])
    with mq.Curator(mq.open_table(graph.decode(edges), graph), mq.Budget(epsilon=40.0)) as curator:
        made = cut_construction(curator, listed, hypothesis=MultiplicativeWeights, rounds=3)
    assert made.certificate.method == "cut-construction (multiplicative-weights, practical)"
    assert cut_rule(graph, Perceptron, norm=0.5).name == "perceptron"
    box = Box(mq.Schema([mq.Number("east", 0, 10, bins=4), mq.Number("north", 0, 10, bins=4)]))
    rows = {"east": [1.0, 9.0] * 50, "north": [2.0, 3.0] * 50}
    sites = box.distances([{"east": 0, "north": 0}, {"east": 10, "north": 10}])
    with mq.Curator(mq.open_table(rows, box.schema), mq.Budget(epsilon=40.0)) as curator:
        told = distance_construction(curator, sites, hypothesis=Perceptron, rows=10**9)
    assert told.certificate.method == "distance-construction (perceptron)"

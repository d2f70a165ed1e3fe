"""Release and learning, both ways: reductions, the barrier of statistical queries, marginals by learning f_D."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.releases import (
    ExponentialLearner,
    LearnedDistinguisher,
    ReleaseLearner,
    agreement,
    learn_from_release,
    learn_privately,
    learned_conjunctions,
)
from maquette.releases.learning import distinguishing as module
from maquette.theory import learning

SCHEMA = mq.Schema([mq.Boolean(name) for name in "abcy"])
RNG = np.random.default_rng(0)
ROWS = 20_000
X = RNG.random((ROWS, 3)) < 0.5
Y = (X[:, 0] & X[:, 1]) ^ (RNG.random(ROWS) < 0.1)  # a AND b, with a tenth of the labels turned
RECORDS = np.column_stack([X, Y])


@functools.cache
def opened_table() -> mq.PrivateTable:
    return mq.open_table({name: RECORDS[:, i].tolist() for i, name in enumerate(SCHEMA.names)}, SCHEMA)


CONCEPTS = ["a", "b", "c", "a AND b", "a AND c", "b AND c", "a AND b AND c", "a OR b"]
BUDGET = mq.Budget(epsilon=2.0, delta=1e-9)


def risks() -> dict[str, float]:
    a, b, c = X.T
    made = [a, b, c, a & b, a & c, b & c, a & b & c, a | b]
    return {concept: float((value != Y).mean()) for concept, value in zip(CONCEPTS, made, strict=True)}


def test_an_agreement_counts_the_rows_on_which_concept_and_label_are_equal() -> None:
    for concept, risk in risks().items():
        weights = agreement(SCHEMA, concept, "y").evaluate(RECORDS.astype(np.int32))
        assert 1 - weights.mean() == pytest.approx(risk)


def test_a_learner_from_a_release_has_twice_its_error() -> None:
    with Curator(opened_table(), BUDGET) as curator:
        release = mq.release(curator, mq.marginals(SCHEMA, k=4), epsilon=1.0)
        before = curator.ledger.spent()
        found = learn_from_release(release, CONCEPTS, "y")
        assert curator.ledger.spent() == before, "learning is free"
    truth = risks()
    error = max(abs(1 - release.answer(agreement(SCHEMA, c, "y")).value - truth[c]) for c in CONCEPTS)
    assert truth[found.concept] <= min(truth.values()) + learning.excess_from_release(alpha=error)
    assert found.concept == "a AND b"


def test_the_private_learner_is_one_selection_and_keeps_its_excess() -> None:
    with Curator(opened_table(), BUDGET, relation="replace") as curator:
        found = learn_privately(curator, CONCEPTS, "y", epsilon=1.0)
        assert curator.spent.epsilon <= 1.0 * (1 + 1e-9)
        assert found.concept == "a AND b"
        assert found.excess is not None
        strength = curator.budget.accountant.selection_epsilon(curator.ledger.spent())
        stated = learning.learner_excess(concepts=8, epsilon=strength, rows=ROWS, beta=0.05)
        assert float(found.excess.split()[1]) == pytest.approx(stated + 1 / ROWS, rel=0.01)


def test_the_excess_is_exceeded_no_more_often_than_beta() -> None:
    """2,000 draws on these risks with 300 rows: at beta 0.05 more than 152 failures have chance 1e-6."""
    rng, rows, epsilon = np.random.default_rng(1), 300, 0.5
    risk = np.array(list(risks().values()))
    gumbel = rng.gumbel(size=(2000, len(risk)))
    chosen = risk[np.argmax(-epsilon * rows * risk / 2 + gumbel, axis=1)]
    bound = learning.learner_excess(concepts=len(risk), epsilon=epsilon, rows=rows, beta=0.05)
    assert (chosen - risk.min() > bound).sum() <= 152
    assert (chosen > risk.min()).any(), "it does err, within the bound"


def test_the_risk_of_a_query_is_half_minus_half_of_its_error() -> None:
    """The identity of the reduction, on all 0/1 queries over four points."""
    table, model = np.array([0.1, 0.2, 0.3, 0.4]), np.full(4, 0.25)
    for query in itertools.product((0, 1), repeat=4):
        f = np.array(query)
        risk = 0.5 * (1 - f @ table) + 0.5 * (f @ model)
        assert risk == pytest.approx(0.5 - (f @ table - f @ model) / 2)


def built(learner: Any, relation: Any = "replace", seed: int | None = None) -> tuple[float, float]:
    """The largest error of a release built from a learner, and what it promises."""
    pairs = mq.marginals(SCHEMA, k=2)
    with Curator(opened_table(), mq.Budget(epsilon=60.0), relation=relation) as curator:
        made = mq.release(curator, pairs, method="iterative-construction", check=False,
                          distinguisher=LearnedDistinguisher(learner))  # fmt: skip
    worst = 0.0
    for i, j in itertools.combinations(range(4), 2):
        counts = np.zeros((2, 2))
        np.add.at(counts, (RECORDS[:, i].astype(int), RECORDS[:, j].astype(int)), 1 / ROWS)
        worst = max(worst, float(np.abs(made.marginal(SCHEMA.names[i], SCHEMA.names[j]) - counts).max()))
    assert made.certificate.accuracy is not None
    return worst, float(made.certificate.accuracy.split("within ")[1].split(" of")[0])


@pytest.mark.parametrize("learner", [ExponentialLearner(), ReleaseLearner()], ids=["exponential", "from a release"])
def test_a_release_from_a_learner_keeps_its_promise(learner: Any) -> None:
    worst, promised = built(learner)
    assert worst <= promised < 1


class Stubborn(ExponentialLearner):
    """A learner that always gives the first cell: it promises an excess that it does not have."""

    def learn(self, curator: Any, tables: Any, negatives: Any, *, units: int) -> Any:
        found = super().learn(curator, tables, negatives, units=units)
        return module.Classifier(tables[0].query((0, 0)), 1, found.cost)


def test_a_learner_without_its_excess_breaks_the_promise() -> None:
    """A mutant: the release from it errs by more than it says."""
    worst, promised = built(Stubborn())
    assert worst > promised


def test_noise_off_a_learner_from_a_release_finds_the_worst_cell() -> None:
    table = mq.marginals(SCHEMA, k=1)
    with Curator(opened_table(), BUDGET, noise=ScriptedNoise([0] * 100)) as curator:
        tables = list(table.marginals)
        answers = [np.full(2, ROWS / 2)] * 4
        found = ReleaseLearner().learn(curator, tables, answers, units=10**12)
        assert found.query == tables[3].query((0,)) or found.query == tables[3].query((1,))


def test_no_statistical_query_rules_out_many_parities() -> None:
    """Bessel's inequality, exactly: of 2^8 - 1 parities at most 1 / tau^2 are further than tau from a fixed answer."""
    d, tau = 8, 0.25
    points = np.array(list(itertools.product((0, 1), repeat=d)))
    parities = np.where(points @ points.T % 2 == 0, 1.0, -1.0)[1:]  # one row for each parity but the empty one
    rng = np.random.default_rng(2)
    for query in (rng.uniform(-1, 1, (300, 2, 2**d)), np.stack([np.ones_like(parities), parities], axis=1)):
        half = (query[:, 1] - query[:, 0]) / 2
        off = np.abs(half @ parities.T) / 2**d
        assert (off > tau).sum(axis=1).max() <= 1 / tau**2
    needed = learning.parity_queries(attributes=d, tolerance=tau)
    assert needed == pytest.approx(255 / 16)
    assert learning.parity_queries(attributes=40, tolerance=0.01) > 10**8
    assert learning.parity_rows(attributes=40, epsilon=1.0, alpha=0.1, beta=0.05) < 1000


def test_one_selection_learns_a_parity() -> None:
    """What averages cannot do: 4,000 rows, 32 parities, one exponential mechanism."""
    schema = mq.Schema([mq.Boolean(name) for name in "abcdey"])
    bits = np.random.default_rng(3).random((4000, 5)) < 0.5
    label = bits[:, 0] ^ bits[:, 2] ^ bits[:, 3]
    rows = {name: bits[:, i].tolist() for i, name in enumerate("abcde")} | {"y": label.tolist()}
    concepts = [
        " OR ".join(
            "(" + " AND ".join(n if v else f"NOT {n}" for n, v in zip(held, values, strict=True)) + ")"
            for values in itertools.product((0, 1), repeat=len(held))
            if sum(values) % 2
        )
        for size in (1, 2, 3)
        for held in itertools.combinations("abcde", size)
    ]
    with Curator(mq.open_table(rows, schema), mq.Budget(epsilon=1.0), relation="replace") as curator:
        found = learn_privately(curator, concepts, "y")
    sets = [held for size in (1, 2, 3) for held in itertools.combinations("abcde", size)]
    assert found.concept == concepts[sets.index(("a", "c", "d"))]


WIDE = mq.Schema([mq.Boolean(f"c{i}") for i in range(8)])


def conjunctions() -> tuple[Any, dict[tuple[str, ...], float]]:
    rng = np.random.default_rng(4)
    kind = rng.random(5000) < 0.5
    bits = rng.random((5000, 8)) < np.where(kind[:, None], 0.85, 0.35)
    truth = {
        tuple(WIDE.names[i] for i in held): float(bits[:, list(held)].all(axis=1).mean())
        for held in itertools.combinations(range(8), 3)
    }
    return mq.open_table({name: bits[:, i].tolist() for i, name in enumerate(WIDE.names)}, WIDE), truth


def test_without_noise_and_with_all_features_every_example_is_within_a_level() -> None:
    table, truth = conjunctions()
    with Curator(
        table, mq.Budget(epsilon=1.0, delta=1e-9), relation="replace", noise=ScriptedNoise([0] * 500)
    ) as curator:
        made = learned_conjunctions(curator, 3, degree=3, levels=25, examples=1000)
    errors = [abs(made.answer(names) - value) for names, value in truth.items()]
    assert max(errors) <= 1 / 25


def test_examples_generalise_to_other_queries() -> None:
    table, truth = conjunctions()
    with Curator(table, mq.Budget(epsilon=4.0, delta=1e-9), relation="replace") as curator:
        made = learned_conjunctions(curator, 3, degree=1, levels=20, examples=30, rng=np.random.default_rng(5))
        assert made.examples == 30 < len(truth) == 56
    errors = np.array([abs(made.answer(names) - value) for names, value in truth.items()])
    spread = np.array(list(truth.values()))
    assert errors.mean() < 0.5 * np.abs(spread - 0.5).mean(), "far better than a constant"
    nothing = mock.patch.object(np.linalg, "solve", lambda gram, right: np.zeros_like(right))  # a mutant
    with nothing, Curator(table, mq.Budget(epsilon=4.0, delta=1e-9), relation="replace") as curator:
        lazy = learned_conjunctions(curator, 3, degree=1, levels=20, examples=30)
    assert np.mean([abs(lazy.answer(names) - value) for names, value in truth.items()]) > 2 * errors.mean()


def test_refusals() -> None:
    table, _ = conjunctions()
    with Curator(table, mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(mq.QueryError, match="k=2, degree=3"):
            learned_conjunctions(curator, 2, degree=3)
        with pytest.raises(mq.QueryError, match="a list of predicates"):
            learn_privately(curator, [], "c0")
        with pytest.raises(mq.QueryError, match="a list of predicates"):
            learn_privately(curator, "c1", "c0")
        assert curator.ledger.spent() == 0
    assert math.isinf(learning.parity_queries(attributes=2000, tolerance=0.1))

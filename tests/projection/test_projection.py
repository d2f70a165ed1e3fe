"""The projection baseline through the curator: what it asks for, what it costs, what its model answers."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.errors import QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.releases.classes.projection import ParityModel, projection
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["no", "yes"]), Boolean("c"), Category("wide", ["x", "y", "z"])])
BINARY = Schema(SCHEMA.columns[:3])
ZCDP = mq.Budget(rho=10.0, delta=1e-9)
PAIRS = [*itertools.permutations("abc", 2)]


def codes(rows: int = 40) -> np.ndarray:
    rng = np.random.default_rng(8)
    shared = rng.random(rows) < 0.4
    return np.stack([np.where(rng.random(rows) < 0.5, shared, rng.random(rows) < 0.3) for _ in "abc"], axis=1).astype(
        int
    )


def opened(schema: Schema, records: np.ndarray) -> mq.PrivateTable:
    columns: dict[str, Any] = {
        "a": records[:, 0] == 1,
        "b": np.where(records[:, 1] == 1, "yes", "no"),
        "c": records[:, 2] == 1,
        "wide": ["y"] * len(records),
    }
    return mq.open_table({name: columns[name] for name in schema.names}, schema)


def exact(records: np.ndarray, *columns: str) -> np.ndarray:
    table = np.zeros((2,) * len(columns))
    np.add.at(table, tuple(records[:, "abc".index(name)] for name in columns), 1 / len(records))
    return table


def test_without_noise_it_returns_the_exact_marginals() -> None:
    records = codes()
    for relation, columns in itertools.product(("add-remove", "replace"), (["a", "b", "c"], ["c", "a", "b"])):
        noise = ScriptedNoise([0] * 7)
        with mq.Curator(opened(SCHEMA, records), ZCDP, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
            model = projection(curator, columns, rho=0.5)
        assert model.rows == 40
        for pair in PAIRS:
            assert model.marginal(*pair) == pytest.approx(exact(records, *pair))
        assert model.marginal("b") == pytest.approx(exact(records, "b"))
        assert model.marginal() == pytest.approx(1.0)
        assert model.answer("a AND b = 'no'").value == pytest.approx(exact(records, "a", "b")[1, 0])


@pytest.mark.parametrize(("relation", "moved"), [("add-remove", 1), ("replace", 2)])
def test_one_measurement_is_charged_with_one_number_for_every_mean_and_parity(relation: Any, moved: int) -> None:
    noise = ScriptedNoise([0] * 7)
    with mq.Curator(opened(BINARY, codes()), ZCDP, relation=relation, noise=noise) as curator:
        model = projection(curator, rho=0.5)
        charges = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
    assert charges == pytest.approx([0.5])
    assert model.cost.rho == pytest.approx(0.5)
    assert {(call.kind, call.size) for call in noise.calls} == {("gaussian", 1)}
    variances = [float(call.scale) for call in noise.calls]
    if relation == "add-remove":
        assert variances.pop(0) == pytest.approx(1 / (2 * 0.05))  # a tenth for the number of rows
    share = 0.45 / 6 if relation == "add-remove" else 0.5 / 6
    assert variances == pytest.approx([moved**2 / (2 * share)] * 6)


def test_noise_enters_rows_means_and_parities() -> None:
    """Around a uniform table, whose moment matrix lies inside the elliptope, the projection changes nothing."""
    every = np.array([*itertools.product((0, 1), repeat=3)] * 50)
    script = [5, -2, 0, 0, 7, 0, 3]  # of the rows, of a, b, c (false minus true), of (a, b), (a, c), (b, c)
    with mq.Curator(opened(BINARY, every), ZCDP, noise=ScriptedNoise(script)) as curator:
        model = projection(curator, rho=0.5)
    assert model.rows == 405
    expected = np.array([[405, 2, 0, 0], [2, 405, 7, 0], [0, 7, 405, 3], [0, 0, 3, 405]]) / 405
    assert isinstance(model.model, ParityModel)
    assert model.model.moments == pytest.approx(expected)


@pytest.mark.thorough
def test_marginals_are_consistent_probabilities_whatever_the_noise() -> None:
    rng = np.random.default_rng(9)
    for _ in range(12):
        noise = ScriptedNoise(rng.integers(-300, 300, size=7).tolist())
        with mq.Curator(opened(BINARY, codes()), ZCDP, noise=noise) as curator:
            model = projection(curator)
        for pair in PAIRS:
            table = model.marginal(*pair)
            assert table.min() >= -1e-12
            assert table.sum() == pytest.approx(1.0)
            assert table.sum(axis=1) == pytest.approx(model.marginal(*pair[:1]))
            assert model.marginal(*pair[::-1]) == pytest.approx(table.T)


def test_sampled_records_have_the_parities_of_the_model() -> None:
    correlations = np.array([[1, 0.3, -0.2, 0.5], [0.3, 1, 0.4, 0.1], [-0.2, 0.4, 1, -0.3], [0.5, 0.1, -0.3, 1]])
    moments = 2 / np.pi * np.arcsin(correlations)
    model = ParityModel(BINARY, ("b", "c", "a"), moments)
    rows = 40_000
    sampled = model.sample(rows, np.random.default_rng(10))
    signs = np.column_stack([np.ones(rows), 2 * sampled[:, [1, 2, 0]] - 1])
    # Hoeffding at 1e-7 for each of six numbers in [-1, 1].
    assert np.abs(signs.T @ signs / rows - moments).max() <= math.sqrt(2 * math.log(2e7) / rows)
    assert sampled.shape == (rows, 3)


def test_real_noise_on_a_generous_budget_stays_near_the_table() -> None:
    records = codes(400)
    with mq.Curator(opened(BINARY, records), mq.Budget(epsilon=600.0)) as curator:
        model = projection(curator)
        assert curator.remaining.epsilon < 1e-6
    for pair in PAIRS:
        assert np.abs(model.marginal(*pair) - exact(records, *pair)).max() < 0.01


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_columns_in_any_order_give_the_same_release_and_a_file_that_opens(relation: Any, tmp_path: Path) -> None:
    made = []
    for columns in (["a", "c"], ["c", "a"]):
        noise = ScriptedNoise(range(1, 8))
        with mq.Curator(opened(SCHEMA, codes()), ZCDP, relation=relation, noise=noise) as curator:
            made.append(projection(curator, columns, rho=0.5))
    made[1].save(tmp_path / "pairs.maq")
    made.append(mq.Release.load(tmp_path / "pairs.maq"))
    for columns in (["c"], ["a", "c"], ["c", "a"]):
        first, *others = (release.marginal(*columns).tolist() for release in made)
        assert others == [first, first]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, "not of two levels: wide"),
        (["a"], "at least two"),
        (["a", "a"], "different"),
        (["a", "zz"], "no column 'zz'"),
    ],
)
def test_bad_columns_are_refused_before_any_charge(columns: list[str] | None, message: str) -> None:
    with mq.Curator(opened(SCHEMA, codes()), ZCDP) as curator:
        with pytest.raises(QueryError, match=message):
            projection(curator, columns, rho=0.5)
        assert curator.ledger.spent() == 0


def test_questions_beyond_two_measured_columns_are_refused() -> None:
    with mq.Curator(opened(SCHEMA, codes()), ZCDP, noise=ScriptedNoise([0] * 4)) as curator:
        model = projection(curator, ["a", "b"], rho=0.5)
    with pytest.raises(QueryError, match="'c' was not measured"):
        model.marginal("a", "c")
    with pytest.raises(QueryError, match="c, wide was not measured"):
        model.sample(5, rng=np.random.default_rng(0))
    three = ParityModel(BINARY, ("a", "b", "c"), np.eye(4))
    with pytest.raises(QueryError, match="about 3 columns; expected at most two, whose marginals"):
        three.answer(mq.where(BINARY, "a AND b = 'yes' AND c"))
    with pytest.raises(QueryError, match="another schema"):
        three.answer(mq.where(SCHEMA, "a"))

"""Sharp pairs of a mixture: the wanted table is met, and no other table changes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.estimates import paired
from maquette.estimates.pairing import FAR
from maquette.hypothesis import Mixture

Values = NDArray[np.float64]
Tables = dict[tuple[str, ...], Values]

SIZES = {"a": 5, "b": 4, "c": 3, "d": 2}
SCHEMA = mq.Schema([mq.Integer(name, 0, size - 1) for name, size in SIZES.items()])


def mixture(spread: float, seed: int = 0, components: int = 30) -> Mixture:
    """Columns that vary over components by so much; without any, they are independent."""
    rng = np.random.default_rng(seed)
    blocks = []
    for name, size in SIZES.items():
        logits = rng.normal(size=size) + spread * rng.normal(size=(components, size))
        table = np.exp(logits)
        blocks.append(((name,), table / table.sum(axis=1, keepdims=True)))
    return Mixture(SCHEMA, rng.dirichlet(np.ones(components)), blocks)


def sharp(model: Mixture, seed: int = 1) -> Values:
    """A table of a and b with the columns of the model, in which they depend on each other sharply."""
    rng = np.random.default_rng(seed)
    table = np.exp(3 * rng.normal(size=(5, 4)))
    for _ in range(500):
        table *= (model.marginal(["a"]) / table.sum(axis=1))[:, None]
        table *= model.marginal(["b"]) / table.sum(axis=0)
    made: Values = table / table.sum()
    return made


@pytest.mark.parametrize(("spread", "close"), [(0.0, 0.001), (0.3, 0.01), (1.0, 0.1)])
def test_the_pair_gets_the_wanted_table_and_no_other_table_changes(spread: float, close: float) -> None:
    before = mixture(spread)
    wanted = sharp(before)
    assert np.abs(before.marginal(["a", "b"]) - wanted).sum() / 2 > 0.15
    after, chosen = paired(before, {("a", "b"): wanted})
    assert chosen == [("a", "b")]
    assert np.abs(after.marginal(["a", "b"]) - wanted).sum() / 2 < close
    for columns in (["a"], ["b"], ["a", "c"], ["b", "d"], ["a", "c", "d"], ["c", "d"]):
        assert after.marginal(columns) == pytest.approx(before.marginal(columns), abs=1e-3)
    assert after.marginal(["c", "a", "b"]).sum(axis=0) == pytest.approx(after.marginal(["a", "b"]))


def test_a_pair_that_the_components_explain_stays_as_it_is() -> None:
    model = mixture(1.0)
    near = model.marginal(["a", "b"]) * (1 - FAR / 4) + FAR / 4 / 20
    assert paired(model, {("a", "b"): near}) == (model, [])


def test_a_column_is_in_one_pair_the_farther_one() -> None:
    model = mixture(0.0)
    wanted: Tables = {("a", "b"): sharp(model), ("b", "c"): model.marginal(["b", "c"]) + FAR / 3 * np.array([1, -1, 0])}
    assert np.abs(model.marginal(["b", "c"]) - wanted["b", "c"]).sum() / 2 >= FAR
    after, chosen = paired(model, wanted)
    assert chosen == [("a", "b")]
    assert sorted(block.columns for block in after.blocks) == [("a", "b"), ("c",), ("d",)]


def test_columns_of_impossible_combinations_keep_their_block() -> None:
    schema = mq.Schema(list(SCHEMA), impossible=[{"a": "0", "c": "1"}])
    model = mixture(0.0)
    joint = np.multiply.outer(model.marginal(["a"]), model.marginal(["c"]))
    joint[0, 1] = 0.0
    blocks: list[tuple[tuple[str, ...], Values]] = [(("a", "c"), np.tile(joint.reshape(-1) / joint.sum(), (30, 1)))]
    blocks += [((name,), table) for (name, *_), table in model.tables.items() if name in "bd"]
    closed = Mixture(schema, model.weights, blocks)
    assert paired(closed, {("a", "b"): sharp(model)}) == (closed, [])
    after, chosen = paired(closed, {("b", "d"): np.diag([0.5, 0.5, 0.0, 0.0])[:, :2]})
    assert chosen == [("b", "d")]
    assert after.marginal(["a", "c"])[0, 1] == 0.0

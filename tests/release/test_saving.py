"""Every model restores itself: it goes on from where it was, and refuses files that do not fit."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from release_checks import SCHEMA, Seeded, table_of

import maquette as mq
from maquette.errors import DataError, MaquetteError
from maquette.estimates import NoEvidence
from maquette.hypothesis import (
    HYPOTHESES,
    CutDecomposition,
    GraphicalModel,
    Hypothesis,
    LinearWeights,
    Median,
    MirrorDescent,
    Mixture,
    MultiplicativeWeights,
    Perceptron,
    Separable,
    SparseWeights,
    WeightedRecords,
    saving,
)
from maquette.query import LinearQuery, additive, cut, cuts, edge_schema
from maquette.releases import boosted, cut_construction
from maquette.releases.archive import MANIFEST, pack
from maquette.releases.artifact import Release, certified

GENEROUS = mq.Budget(epsilon=40.0, delta=1e-9)
NET = np.random.default_rng(5).dirichlet(np.full(SCHEMA.size, 0.5), 40)
RECORDS = np.indices(SCHEMA.shape(SCHEMA.names)).reshape(3, -1).T.astype(np.int32)


def tables_of(blocks: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], np.ndarray]]:
    rng = np.random.default_rng(6)
    return [(columns, rng.dirichlet(np.full(SCHEMA.cells(columns), 0.7), 4)) for columns in blocks]


MODELS: dict[str, Callable[[], Hypothesis]] = {
    "cut-decomposition": lambda: CutDecomposition(SCHEMA, alpha=0.1),
    "cut-decomposition, centred": lambda: CutDecomposition(SCHEMA, alpha=0.1, step="centred", norm=0.5, area=12.0),
    "graphical": lambda: GraphicalModel(SCHEMA, [("smoker", "age")], alpha=0.1),
    "graphical, exact": lambda: GraphicalModel(SCHEMA, step="exact", floor=0.01),
    "linear-weights": lambda: LinearWeights(SCHEMA, alpha=0.1),
    "median": lambda: Median(SCHEMA, NET, alpha=0.1, tolerance=0.05),
    "mirror-descent": lambda: MirrorDescent(SCHEMA, alpha=0.1),
    "mirror-descent, entropy": lambda: MirrorDescent(SCHEMA, alpha=0.1, psi="entropy"),
    "mixture": lambda: Mixture(SCHEMA, np.full(4, 0.25), tables_of([(name,) for name in SCHEMA.names])),
    "mixture, blocks": lambda: Mixture(SCHEMA, np.full(4, 0.25), tables_of([SCHEMA.names]), floor=0.01),
    "mixture, short": lambda: Mixture(
        SCHEMA,
        np.full(4, 0.25, np.float32),
        [(columns, table.astype(np.float32)) for columns, table in tables_of([(name,) for name in SCHEMA.names])],
    ),
    "multiplicative-weights": lambda: MultiplicativeWeights(SCHEMA, alpha=0.1),
    "multiplicative-weights, exact": lambda: MultiplicativeWeights(SCHEMA, step="exact", floor=0.01),
    "perceptron": lambda: Perceptron(SCHEMA, alpha=0.1, norm=0.5),
    "perceptron, kaczmarz": lambda: Perceptron(SCHEMA, alpha=0.1, step="kaczmarz"),
    "separable": lambda: Separable(SCHEMA, alpha=0.1, shares={"smoker": 1.0, "age": 3.0}),
    "sparse-weights": lambda: SparseWeights(SCHEMA, support=6, alpha=0.1, columns=["smoker", "region"]),
    "weighted-records": lambda: WeightedRecords(SCHEMA, RECORDS[::2], alpha=0.1),
    "weighted-records, exact": lambda: WeightedRecords(SCHEMA, RECORDS[::-1], step="exact"),
}
ROUNDING = 1e-12


def asked(model: Hypothesis, rng: np.random.Generator) -> LinearQuery:
    if isinstance(model, Separable):
        return additive(SCHEMA, {n: rng.random(SCHEMA[n].size) * s for n, s in model.shares.items()})
    names = ("smoker", "region") if isinstance(model, SparseWeights) else SCHEMA.names
    factors = {n: (rng.random(SCHEMA[n].size) < 0.7).astype(float) for n in names}
    return LinearQuery.product(SCHEMA, factors | {"smoker": np.array([0.0, 1.0])})


def trained(name: str, steps: int = 8) -> Hypothesis:
    model, rng = MODELS[name](), np.random.default_rng(3)
    for _ in range(steps):
        model.update(asked(model, rng), float(rng.uniform(0.1, 0.6)))
    return model


def restored(model: Hypothesis) -> Hypothesis:
    facts = json.loads(json.dumps(saving.described(model)))
    return type(model).restore(SCHEMA, facts, {name: values.copy() for name, values in model.arrays().items()})


def publish(model: Any) -> Release:
    with mq.Curator(table_of(SCHEMA, 500), GENEROUS) as curator, curator.account("test") as account:
        return Release(SCHEMA, model, NoEvidence(500.0), certified(curator, "test", account))


def test_every_hypothesis_is_here() -> None:
    assert {name.partition(",")[0] for name in MODELS} == set(HYPOTHESES)
    assert len({each.kind for each in HYPOTHESES.values()}) == len(HYPOTHESES)


@pytest.mark.thorough(fast=13)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("steps", [0, 8, 60])
def test_a_restored_hypothesis_goes_on_from_where_it_was(name: str, steps: int) -> None:
    model = trained(name, steps)
    again = restored(model)
    rng = np.random.default_rng(8)
    for _ in range(6):
        query = asked(model, rng)
        assert abs(again.answer(query) - model.answer(query)) <= ROUNDING
        value = float(rng.uniform(0.1, 0.6))
        model.update(query, value)
        again.update(query, value)
    assert np.allclose(again.marginal(SCHEMA.names), model.marginal(SCHEMA.names), rtol=0, atol=ROUNDING)
    assert getattr(again, "update_bound", None) == getattr(model, "update_bound", None)
    assert getattr(again, "alpha", None) == getattr(model, "alpha", None)


@pytest.mark.thorough(fast=12)
@pytest.mark.parametrize("name", MODELS)
def test_a_release_of_any_hypothesis_is_saved_loaded_and_asked(name: str, tmp_path: Path) -> None:
    release = publish(trained(name))
    digest = release.save(tmp_path / "it.maq")
    again = mq.Release.load(tmp_path / "it.maq", digest=digest)
    assert type(again.model) is type(release.model)
    assert np.allclose(again.marginal("smoker"), release.marginal("smoker"), rtol=0, atol=1e-12)
    query = mq.where(SCHEMA, "smoker AND region = 'e'")
    assert again.model.answer(query) == pytest.approx(release.model.answer(query), abs=1e-12)
    first, second = (r.sample(20, rng=np.random.default_rng(1)) for r in (release, again))
    assert first.equals(second)
    assert again.save(tmp_path / "again.maq") == digest


@pytest.mark.parametrize("hypothesis", ["mirror-descent", "perceptron"])
def test_constructions_of_the_theory_are_saved(hypothesis: str, tmp_path: Path) -> None:
    with mq.Curator(table_of(SCHEMA, 5000), GENEROUS, noise=Seeded(1)) as curator:
        workload = mq.marginals(SCHEMA, k=1)
        made = mq.release(curator, workload, method="iterative-construction", hypothesis=hypothesis, rows=10**9)
    made.save(tmp_path / "it.maq")
    again = mq.Release.load(tmp_path / "it.maq")
    assert type(again.model) is HYPOTHESES[hypothesis]
    assert again.answer("smoker") == made.answer("smoker")
    assert again.certificate.accuracy == made.certificate.accuracy is not None


@pytest.mark.parametrize("hypothesis", ["cut-decomposition", "perceptron"])
def test_a_graph_of_frieze_and_kannan_is_saved(hypothesis: str, tmp_path: Path) -> None:
    graph = edge_schema(6)
    rng = np.random.default_rng(0)
    table = mq.open_table(graph.decode(rng.integers(0, 6, (400, 2)).astype(np.int32)), graph)
    listed = cuts(graph, [(range(i), range(i, 6)) for i in range(1, 6)])
    with mq.Curator(table, GENEROUS, noise=Seeded(1)) as curator:
        made = cut_construction(curator, listed, hypothesis=hypothesis, rounds=4)
    made.save(tmp_path / "it.maq")
    again = mq.Release.load(tmp_path / "it.maq")
    assert type(again.model) is HYPOTHESES[hypothesis]
    assert again.model.answer(cut(graph, range(3))) == made.model.answer(cut(graph, range(3)))


def test_a_boosted_release_is_saved(tmp_path: Path) -> None:
    with mq.Curator(table_of(SCHEMA, 5000), GENEROUS, noise=Seeded(1)) as curator:
        made = boosted(curator, mq.marginals(SCHEMA, k=2), rounds=3, draws=5, rng=np.random.default_rng(0))
    digest = made.save(tmp_path / "it.maq")
    again = mq.Release.load(tmp_path / "it.maq")
    assert repr(again.model) == "MedianModel(3 models)"
    assert again.answer("smoker AND region = 'e'") == made.answer("smoker AND region = 'e'")
    assert again.marginal("age", "smoker").tobytes() == made.marginal("age", "smoker").tobytes()
    first, second = (r.sample(20, rng=np.random.default_rng(1)) for r in (made, again))
    assert first.equals(second)
    assert again.save(tmp_path / "again.maq") == digest


ODD: list[Any] = [None, -1, 2**40, 1e308, float("nan"), float("inf"), "", "x", [], {}, [[]], True]


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", MODELS)
def test_what_does_not_fit_is_refused_as_an_error_of_ours(name: str, tmp_path: Path) -> None:
    """Every fact and every array replaced by something odd; what still loads answers or refuses."""
    path = tmp_path / "it.maq"
    publish(trained(name)).save(path)
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as file:
        manifest = json.loads(file.read(MANIFEST))
        arrays = {i.filename[:-4]: np.load(io.BytesIO(file.read(i))) for i in file.infolist() if i.filename != MANIFEST}
    forged: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for fact in manifest["model"]:
        changed = [manifest | {"model": manifest["model"] | {fact: odd}} for odd in ODD]
        forged += [(one, arrays) for one in [*changed, manifest | {"model": _without(manifest["model"], fact)}]]
    for array, held in arrays.items():
        odd_arrays: list[np.ndarray] = [np.zeros(0), np.ones((2, 2)), np.ones(10**4), held * np.nan]
        odd_arrays += [held + 0.5, held * -(10.0**9), held[..., :1], held[None]]
        forged += [(manifest, arrays | {array: odd}) for odd in odd_arrays]
        forged.append((manifest, _without(arrays, array)))
    refused = 0
    for facts, numbers in forged:
        path.write_bytes(pack(facts, numbers))
        with np.errstate(all="ignore"):
            try:
                release = mq.Release.load(path)
            except DataError:
                refused += 1
                continue
            try:
                release.answer("smoker")
                release.sample(3, rng=np.random.default_rng(0))
            except MaquetteError:
                pass
    assert refused > len(forged) / 3


def _without(facts: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != name}


class Renamed(Perceptron):
    """A class of someone else's, by a name of its own."""

    kind: ClassVar[str] = "renamed"


class Impostor(Perceptron):
    """One that takes the name of another."""


def test_a_class_of_your_own_is_loaded_where_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "it.maq"
    publish(Renamed(SCHEMA, alpha=0.1)).save(path)
    with pytest.raises(DataError, match="there is no model of kind 'renamed' here"):
        mq.Release.load(path)
    assert type(mq.Release.load(path, models=[Renamed]).model) is Renamed


def test_a_class_cannot_pass_for_another(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="kind 'perceptron', which is not its own"):
        publish(Impostor(SCHEMA, alpha=0.1)).save(tmp_path / "it.maq")
    publish(Perceptron(SCHEMA, alpha=0.1)).save(tmp_path / "it.maq")
    assert type(mq.Release.load(tmp_path / "it.maq", models=[Impostor]).model) is Perceptron


class Wordy(Renamed):
    """One whose facts are no plain values."""

    def facts(self) -> dict[str, Any]:
        return {"schema": self.schema}


def test_facts_that_are_not_plain_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Wordy cannot be saved"):
        publish(Wordy(SCHEMA, alpha=0.1)).save(tmp_path / "it.maq")
    assert not (tmp_path / "it.maq").exists()

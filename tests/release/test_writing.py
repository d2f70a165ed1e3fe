"""Synthetic rows in batches: the whole number of rows, the model's tables, one file that appears when complete."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import csv, parquet
from release_checks import table_of

import maquette as mq
from maquette.errors import DataError, QueryError
from maquette.estimates import DenseModel, MergedModel, Merging, NoEvidence
from maquette.hypothesis import GraphicalModel, Mixture, WeightedRecords
from maquette.releases import writing
from maquette.releases.artifact import Release, certified

SCHEMA = mq.Schema(
    [
        mq.Category("region", ["n", "e", "s", "w"], nullable=True),
        mq.Integer("age", 0, 99, width=10),
        mq.Boolean("smoker"),
        mq.Category("job", ["a", "b, c", 'd "e"']),
        mq.Integer("x", 0, 4),
    ],
    impossible=[{"age": "0-9", "smoker": "true"}],
)
GROUPS = {"region": np.array([0, 0, 1, 1, 2])}


def released(model: Any) -> Release:
    plain = mq.Schema([mq.Boolean("a"), mq.Boolean("b"), mq.Boolean("c")])
    with mq.Curator(table_of(plain, 100), mq.Budget(epsilon=1.0)) as curator, curator.account("test") as account:
        return Release(SCHEMA, model, NoEvidence(100.0), certified(curator, "test", account))


def graphical(schema: mq.Schema) -> GraphicalModel:
    rng, cliques = np.random.default_rng(0), [("region", "age", "smoker"), ("smoker", "job"), ("job", "x")]
    model = GraphicalModel(schema, cliques, zeros=schema.zeros)
    return model.with_potentials({clique: rng.normal(0.0, 1.0, schema.shape(clique)) for clique in model.cliques})


def mixture() -> Mixture:
    rng, blocks = np.random.default_rng(1), []
    for columns in mq.hypothesis.blocks_of(SCHEMA):
        table = rng.dirichlet(np.full(SCHEMA.cells(columns), 0.7), 8)
        if columns == ("age", "smoker"):
            table[:, SCHEMA.zeros[0][1].reshape(-1)] = 0.0
        blocks.append((columns, table / table.sum(axis=1, keepdims=True)))
    return Mixture(SCHEMA, rng.dirichlet(np.ones(8)), blocks)


def merged() -> MergedModel:
    merging, shares = Merging(SCHEMA, GROUPS), np.array([0.3, 0.7, 0.5, 0.5, 1.0])
    return MergedModel(merging, graphical(merging.merged), {"region": shares})


MODELS = {
    "dense": lambda: DenseModel(SCHEMA, graphical(SCHEMA).marginal(SCHEMA.names)),
    "graphical": lambda: graphical(SCHEMA),
    "merged": merged,
    "mixture": mixture,
    "records": lambda: WeightedRecords(SCHEMA, graphical(SCHEMA).draw(50, np.random.default_rng(0)), step="exact"),
}


def read(path: Path) -> Any:
    return parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", MODELS)
def test_batches_together_have_the_tables_of_the_model(name: str) -> None:
    release, rows = released(MODELS[name]()), 20_001
    tables = list(release.stream(rows, rng=np.random.default_rng(0), batch=3000))
    assert [len(table) for table in tables] == [3000] * 6 + [2001]
    records = np.concatenate([SCHEMA.encode(table) for table in tables])
    assert len(records) == rows
    assert not SCHEMA.zeros[0][1][records[:, 1], records[:, 2]].any()
    for columns in (("region", "smoker"), ("job", "x"), ("age",), ("region", "x")):
        counts = np.zeros(SCHEMA.shape(columns))
        np.add.at(counts, tuple(records[:, [SCHEMA.position(n) for n in columns]].T), 1)
        expected = release.model.marginal(columns)
        # Independent draws would stay within six deviations but for one cell in a billion.
        assert (np.abs(counts / rows - expected) < 6 * np.sqrt(expected / rows) + 7 / rows).all()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["dense", "graphical", "mixture"])
def test_full_batches_together_have_what_a_model_allocates_first_rounded(name: str) -> None:
    release, rows = released(MODELS[name]()), 12_000
    columns = graphical(SCHEMA).tree.nodes[0] if name == "graphical" else SCHEMA.names
    counts = np.zeros(SCHEMA.shape(columns))
    for table in release.stream(rows, rng=np.random.default_rng(0), batch=1000):
        np.add.at(counts, tuple(SCHEMA.encode(table)[:, [SCHEMA.position(n) for n in columns]].T), 1)
    assert np.abs(counts - rows * release.model.marginal(columns)).max() < 1 + 1e-6


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("batch", [None, 700])
def test_a_file_holds_the_rows_of_the_stream(suffix: str, batch: int | None, tmp_path: Path) -> None:
    release, path = released(graphical(SCHEMA)), tmp_path / f"rows{suffix}"
    release.write(path, 2000, rng=np.random.default_rng(5), batch=batch)
    made = list(release.stream(2000, rng=np.random.default_rng(5), batch=batch))
    assert np.array_equal(SCHEMA.encode(read(path)), np.concatenate([SCHEMA.encode(each) for each in made]))
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    if suffix == ".parquet":
        assert read(path).schema.equals(release.sample(1).schema)


def test_a_short_stream_is_a_sample() -> None:
    release = released(graphical(SCHEMA))
    (table,) = release.stream(300, rng=np.random.default_rng(2))
    assert table.equals(release.sample(300, rng=np.random.default_rng(2)))
    assert [len(each) for each in release.stream(0)] == [0]


def test_a_batch_is_smaller_for_more_columns_and_larger_for_more_cells() -> None:
    release = released(graphical(SCHEMA))
    assert writing._batch(release) == writing.LEAST
    wide = mq.Schema([mq.Boolean(f"c{i}") for i in range(500)])
    release.schema = wide
    assert writing._batch(release) == writing.MOST // 500
    release.schema, release.model = wide, DenseModel.__new__(DenseModel)
    assert writing._batch(release) == writing.MOST // 500


def test_nothing_is_left_of_a_file_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release, path = released(graphical(SCHEMA)), tmp_path / "rows.csv"
    path.write_text("earlier")
    draws = iter([True, True, False])

    def failing(rows: int, rng: np.random.Generator, start: float | None) -> Any:
        if not next(draws):
            raise KeyboardInterrupt
        return graphical(SCHEMA).draw(rows, rng, start)

    monkeypatch.setattr(release.model, "draw", failing)
    with pytest.raises(KeyboardInterrupt):
        release.write(path, 2000, batch=500)
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["rows.csv"]


@pytest.mark.parametrize(
    ("name", "asked", "error", "said"),
    [
        ("rows.txt", (10, None), QueryError, "ends in '.txt'; expected .parquet or .csv"),
        ("rows.csv", (-1, None), QueryError, "cannot sample -1 rows"),
        ("rows.csv", (10, 0), QueryError, "batch is 0"),
        ("missing/rows.csv", (10, None), DataError, "could not be written"),
    ],
)
def test_what_cannot_be_written_is_refused(
    name: str, asked: tuple[int, int | None], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        released(graphical(SCHEMA)).write(tmp_path / name, asked[0], batch=asked[1])
    assert not list(tmp_path.rglob("*.part"))


def test_progress_counts_the_rows_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[int] = []
    monkeypatch.setattr(writing.Progress, "update", lambda self, done: told.append(done))
    released(graphical(SCHEMA)).write(tmp_path / "rows.csv", 500, batch=100)
    assert told == [100, 200, 300, 400, 500]
    assert capfd.readouterr().err == ""  # a pipe is told nothing

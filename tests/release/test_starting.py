"""Starts of releases and sessions: what they may be, what they gain and cost, what is said of them, refusals."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from release_checks import Seeded, counts, open_records, records
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import DataError, MaquetteError, QueryError, UnreadableSource
from maquette.estimates import BlendedModel, raked, towards
from maquette.hypothesis import WeightedRecords
from maquette.releases import Start, start_of
from maquette.schema import Schema

SCHEMA = mq.Schema([mq.Integer(f"c{i}", 0, 2 + i % 3) for i in range(6)])
SMALL = mq.Budget(rho=1e-3, delta=1e-9)
ROWS = 4000

Rows = NDArray[np.int64]


def related(rows: int, seed: int) -> Rows:
    """Rows whose columns lean on the first, drawn again with every seed."""
    rng = np.random.default_rng(seed)
    made = records(SCHEMA, rows, seed=seed).astype(np.int64)
    for i, column in enumerate(SCHEMA):
        copied = rng.random(rows) < 0.7
        made[copied, i] = (made[copied, 0] + i) % column.size
    return made


def unrelated(rows: int) -> Rows:
    rng = np.random.default_rng(5)
    return np.stack([rng.choice(c.size, rows, p=rng.dirichlet(np.ones(c.size))) for c in SCHEMA], axis=1)


PRIVATE, PUBLIC = related(ROWS, 1), related(ROWS, 2)


def released(start: object, seed: int, budget: mq.Budget = SMALL, **settings: Any) -> mq.Release:
    with mq.Curator(open_records(SCHEMA, PRIVATE), budget, noise=Seeded(seed)) as curator:
        given: dict[str, Any] = {} if start is None else {"start": start}
        return mq.release(curator, mq.marginals(SCHEMA, k=3), **given, **settings)


def error(made: mq.Release) -> float:
    sets = itertools.combinations(SCHEMA.names, 3)
    return float(np.mean([np.abs(made.marginal(*c) - counts(SCHEMA, PRIVATE, c) / ROWS).sum() / 2 for c in sets]))


def frame(rows: Rows) -> Any:
    return SCHEMA.decode(rows.astype(np.int32))


@pytest.mark.thorough
def test_a_right_start_halves_the_error_and_its_hash_is_certified(tmp_path: Path) -> None:
    without, made = released(None, 0), released(frame(PUBLIC), 0)
    assert error(made) < 0.5 * error(without)
    start = start_of(frame(PUBLIC), SCHEMA)
    assert made.certificate.start == start.told
    assert start.digest in start.told
    assert "same people" in start.told
    assert "pairs are taken from it" in made.explain()
    assert without.certificate.start is None
    digest = made.save(tmp_path / "one.maq")
    again = mq.Release.load(tmp_path / "one.maq", digest=digest)
    assert again.certificate == made.certificate
    assert again.marginal("c0", "c1") == pytest.approx(made.marginal("c0", "c1"))


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [4e-4, 4e-3])
def test_an_unrelated_start_costs_almost_nothing(rho: float) -> None:
    """Means of six releases each, with the same seeds: 3%, and three standard errors of the difference."""
    budget, table = mq.Budget(rho=rho, delta=1e-9), frame(unrelated(2000))
    pairs = np.array([[error(released(start, s, budget)) for start in (None, table)] for s in range(6)])
    apart = pairs[:, 1] - pairs[:, 0]
    assert apart.mean() <= 0.03 * pairs[:, 0].mean() + 3 * apart.std() / np.sqrt(len(apart))


@pytest.mark.thorough
def test_the_price_is_the_same_with_a_start() -> None:
    units = {name: released(start, 1).certificate.units for name, start in (("none", None), ("start", frame(PUBLIC)))}
    assert units["start"] <= SMALL.limit
    assert units["start"] >= 0.95 * units["none"]


@pytest.mark.thorough
def test_a_start_is_a_table_a_file_a_release_or_a_model(tmp_path: Path) -> None:
    from pyarrow import csv, parquet

    table = frame(PUBLIC)
    csv.write_csv(table, tmp_path / "public.csv")
    parquet.write_table(table, tmp_path / "public.parquet")
    mapping = {name: table[name].to_pylist() for name in SCHEMA.names}
    tables = [table, table.to_pandas(), mapping, tmp_path / "public.csv", str(tmp_path / "public.parquet")]
    found = [start_of(each, SCHEMA) for each in tables]
    assert len({start.digest for start in found}) == 1
    assert found[0].records.shape == (ROWS, len(SCHEMA))
    made = released(None, 0)
    digest = made.save(tmp_path / "earlier.maq")
    for given in (made, tmp_path / "earlier.maq", made.model):
        start = start_of(given, SCHEMA)
        assert start.model.marginal(("c0",)) == pytest.approx(made.marginal("c0"))
        assert len(start.records) == len(start.weights)
    file = start_of(tmp_path / "earlier.maq", SCHEMA)
    assert file.digest == digest
    assert f"it cost {made.cost}" in file.told
    assert start_of(file, SCHEMA) is file


@pytest.mark.thorough
def test_an_earlier_release_is_improved_on() -> None:
    first = released(None, 0)
    assert error(released(first, 1)) < error(released(None, 1))


@pytest.mark.parametrize(
    ("given", "refusal", "words"),
    [
        ("nowhere.csv", UnreadableSource, "there is no file"),
        ({"c0": [1]}, MaquetteError, "lacks"),
        (WeightedRecords(mq.Schema([mq.Boolean("b")]), np.zeros((2, 1), np.int32)), QueryError, "another schema"),
        ({name: [] for name in SCHEMA.names}, DataError, "no rows"),
    ],
)
def test_starts_that_do_not_fit_are_refused_before_any_charge(given: Any, refusal: type[Exception], words: str) -> None:
    with mq.Curator(open_records(SCHEMA, PRIVATE), SMALL) as curator:
        with pytest.raises(refusal, match=words):
            mq.release(curator, mq.marginals(SCHEMA, k=2), start=given)
        with pytest.raises(refusal, match=words):
            mq.online(curator, alpha=0.1, start=given)
        assert curator.ledger.spent() == 0


def test_a_pure_budget_and_another_method_take_no_start() -> None:
    with mq.Curator(open_records(SCHEMA, PRIVATE), mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(QueryError, match="start needs the method 'combined'"):
            mq.release(curator, mq.marginals(SCHEMA, k=2), start=frame(PUBLIC))
        with pytest.raises(QueryError, match="'everything' has no setting start"):
            mq.release(curator, mq.marginals(SCHEMA, k=2), start=frame(PUBLIC), method="everything")
        assert curator.ledger.spent() == 0


def test_impossible_rows_of_a_start_are_left_out() -> None:
    schema = Schema([mq.Boolean("a"), mq.Boolean("b")], impossible=[{"a": [True], "b": [True]}])
    table = {"a": [True, True, False], "b": [True, False, True]}
    start = start_of(table, schema)
    assert len(start.records) == 2
    with pytest.raises(DataError, match="impossible by the schema"):
        start_of({"a": [True], "b": [True]}, schema)


def test_counts_move_towards_what_is_expected_as_far_as_noise_explains() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([400.0, 300.0, 200.0, 100.0, 50.0, 30.0])
    noisy = truth + rng.normal(0, 40, truth.shape)
    near, kept = towards(noisy, 40.0, truth, ordered=False)
    assert kept < 0.5
    assert np.abs(near - truth).sum() < np.abs(noisy - truth).sum()
    far, whole = towards(noisy, 40.0, truth[::-1], ordered=False)
    assert whole == 1.0
    assert (far == noisy).all()
    assert towards(noisy, 0.0, truth, ordered=False)[1] == 1.0


def test_raked_records_have_the_wanted_tables() -> None:
    wanted: dict[tuple[str, ...], Any] = {
        pair: counts(SCHEMA, PRIVATE, pair) / ROWS for pair in (("c0", "c1"), ("c1", "c2"), ("c3",), ("c0", "c5"))
    }
    start = start_of(frame(PUBLIC), SCHEMA)
    made = raked(SCHEMA, start.records, start.weights, wanted, {})
    for columns, table in wanted.items():
        assert made.marginal(columns) == pytest.approx(table, abs=1e-3)


@pytest.mark.thorough
def test_an_average_with_records_is_saved_and_drawn(tmp_path: Path) -> None:
    made = released(frame(PUBLIC), 0)
    assert isinstance(made.model, BlendedModel | WeightedRecords)
    made.save(tmp_path / "one.maq")
    again = mq.Release.load(tmp_path / "one.maq")
    assert again.sample(100, rng=np.random.default_rng(0)) == made.sample(100, rng=np.random.default_rng(0))
    assert sum(batch.num_rows for batch in again.stream(300, batch=100)) == 300


def test_a_session_begins_with_its_start_and_corrects_it() -> None:
    budget = mq.Budget(rho=0.5, delta=1e-9)
    with mq.Curator(open_records(SCHEMA, PRIVATE), budget, noise=Seeded(0)) as curator:
        session = mq.online(curator, alpha=0.05, start=frame(PUBLIC))
        start = start_of(frame(PUBLIC), SCHEMA)
        assert session.start == start.told
        assert session.model.marginal(("c0", "c1")) == pytest.approx(start.model.marginal(("c0", "c1")))
        session.prepare(1)
        for columns, most in ((("c0",), 0.02), (("c0", "c1"), 0.03)):  # the second is the start's, reweighted
            exact = counts(SCHEMA, PRIVATE, columns) / ROWS
            assert session.model.marginal(columns) == pytest.approx(exact, abs=most)
        assert isinstance(session.model, WeightedRecords)
        assert mq.online(curator, alpha=0.05, name="other").start is None


def test_a_session_does_not_keep_a_start_that_measurements_refute() -> None:
    with mq.Curator(open_records(SCHEMA, PRIVATE), mq.Budget(rho=0.5, delta=1e-9), noise=Seeded(0)) as curator:
        wrong = np.zeros((50, len(SCHEMA)), dtype=np.int64)
        wrong[:, 0] = 2
        session = mq.online(curator, alpha=0.05, start=frame(wrong))
        session.prepare(1)
        exact = counts(SCHEMA, PRIVATE, ("c0",)) / ROWS
        assert session.model.marginal(("c0",)) == pytest.approx(exact, abs=0.05)


@pytest.mark.thorough
def test_the_command_line_takes_a_start(tmp_path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(frame(PRIVATE), tmp_path / "private.csv")
    csv.write_csv(frame(PUBLIC), tmp_path / "public.csv")
    SCHEMA.save(tmp_path / "schema.toml")
    names = {name: str(tmp_path / name) for name in ("private.csv", "public.csv", "schema.toml", "out.maq")}
    arguments = ["release", names["private.csv"], "--schema", names["schema.toml"], "--epsilon", "1"]
    arguments += ["--delta", "1e-9", "--ways", "2", "--out", names["out.maq"], "--start", names["public.csv"]]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "started from a public table of 4,000 rows, sha256 " in done.output
    assert isinstance(start_of(tmp_path / "out.maq", SCHEMA), Start)

"""What executors do, run in this process: the counts of one machine, bounded by unit, refused once rows change."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import spark_frames
from spark_frames import changing, frame
from test_planes import SCHEMA, rows

import maquette as mq
from gate_tools import patched
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Amount, ValueEngine, executors, spark
from maquette.curator.engines import spark as spark_engine
from maquette.curator.engines.spark import SparkEngine
from maquette.curator.table import engine_of
from maquette.errors import DataError, MaquetteError, OutOfDomain, UnreadableSource

UNIT: dict[str, Any] = {"privacy_unit": "who", "max_contributions": 2}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("unit", [{}, UNIT], ids=["rows", "units"])
@pytest.mark.parametrize("parts", [1, 18], ids=["one part", "a tree"])
def test_executors_count_and_add_what_memory_does(unit: dict[str, Any], parts: int) -> None:
    table = mq.open_table(frame(rows(), parts), SCHEMA, **unit)
    held = mq.open_table(rows(), SCHEMA, **unit)
    spread, memory = engine_of(table), engine_of(held)
    assert isinstance(spread, SparkEngine)
    assert isinstance(spread, ValueEngine)
    assert isinstance(memory, ValueEngine)
    assert (spread.rows, spread.fingerprint) == (memory.rows, memory.fingerprint)
    for names in [(), ("a", "b"), ("d", "a", "c")]:
        assert np.array_equal(spread.counts(names), memory.counts(names))
    amount = Amount("c", 5, 60, 7)
    assert np.array_equal(spread.sums(["d", "a"], amount), memory.sums(["d", "a"], amount))


@pytest.mark.thorough
def test_a_curator_answers_under_the_ledger_of_the_rows(tmp_path: Path) -> None:
    table = mq.open_table(mq.SparkTable(frame(rows())), SCHEMA, **UNIT)
    with mq.Curator(table, mq.Budget(epsilon=1000.0), ledger=tmp_path / "ledger") as curator:
        answer = mq.answer(curator, "SELECT count(*) FROM t WHERE a", epsilon=200.0)
        true = int(engine_of(table).counts(["a"])[1])
        assert answer.count == pytest.approx(true, abs=5)
    with mq.Curator(
        mq.open_table(rows(), SCHEMA, **UNIT), mq.Budget(epsilon=1000.0), ledger=tmp_path / "ledger"
    ) as again:
        assert again.spent.epsilon > 0  # the ledger recognises the rows behind another engine


@pytest.mark.thorough
def test_planes_that_are_lost_are_encoded_again_and_a_changed_source_is_refused() -> None:
    table = rows()
    source = [table]
    opened = mq.open_table(changing(source), SCHEMA)
    engine: Any = engine_of(opened)
    first = engine.counts(["a"])
    engine._planes.lose()
    engine._tables.clear()
    assert np.array_equal(engine.counts(["a"]), first)
    source.append(table.set_column(0, "a", pa.array(table["a"].to_pylist()[::-1])))  # equal totals
    assert engine.counts(["d"]).sum() == table.num_rows  # from the planes that are kept
    engine._planes.lose()
    with mq.Curator(opened, mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(UnreadableSource, match="no longer holds the rows"):
            mq.answer(curator, "SELECT count(*) FROM t WHERE b > 7", epsilon=0.5)
        assert curator.spent.epsilon == pytest.approx(0.5)  # charged before rows are read, as ever


@pytest.mark.thorough
def test_rows_that_must_be_refused_are_counted_over_all_parts() -> None:
    wrong = {"a": [7, 1, 8] * 5, "b": [1] * 15, "c": [1] * 15, "d": ["x"] * 14 + ["q"], "who": ["", "1", "2"] * 5}
    with pytest.raises(OutOfDomain) as caught:
        mq.open_table(frame(pa.table(wrong)), SCHEMA)
    assert caught.value.counts == {"a": 10, "d": 1}
    with pytest.raises(OutOfDomain) as caught:
        mq.open_table(frame(pa.table(wrong)), SCHEMA, **UNIT)
    assert caught.value.counts == {"who": 5}


def test_no_text_of_an_executor_or_of_spark_reaches_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise ValueError("SECRET")

    monkeypatch.setattr(executors, "encoded", fails)
    for unit in ({}, UNIT):
        with pytest.raises(UnreadableSource, match="an executor failed") as caught:
            mq.open_table(frame(rows()), SCHEMA, **unit)
        assert "SECRET" not in str(caught.value)
        assert "ValueError" not in str(caught.value)  # its kind may depend on the rows
        assert caught.value.__cause__ is caught.value.__context__ is None
    monkeypatch.undo()
    monkeypatch.setattr(spark_frames.DataFrame, "toArrow", fails)
    with pytest.raises(UnreadableSource, match=r"did not finish encoding \(ValueError\)") as caught:
        mq.open_table(frame(rows()), SCHEMA)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_executors_with_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    told = iter([("0", "0")])
    actual = executors.versions()
    monkeypatch.setattr(executors, "versions", lambda: next(told, actual))
    with pytest.raises(UnreadableSource, match="another version"):
        mq.open_table(frame(rows()), SCHEMA)


@pytest.mark.thorough
def test_records_do_not_come_to_the_driver_and_planes_are_forgotten() -> None:
    table = mq.open_table(frame(rows()), SCHEMA)
    engine: Any = engine_of(table)
    with pytest.raises(AssertionError, match="stay with its executors"):
        engine.blocks()
    with pytest.raises(AssertionError, match="stay with its executors"):
        engine.amounts(Amount("c", 0, 1))
    planes = engine._planes
    assert planes._kept is not None
    del table, engine
    gc.collect()
    assert planes._kept is None


def test_what_is_not_for_spark_is_refused() -> None:
    for options in ({"planes": "x"}, {"memory_limit": 0}, {"query": "SELECT 1"}, {"delimiter": ";"}):
        with pytest.raises(DataError, match="does not apply to rows in Spark"):
            mq.open_table(frame(rows()), SCHEMA, **options)
    with pytest.raises(UnreadableSource, match="a SparkTable is of type int"):
        mq.open_table(mq.SparkTable(3), SCHEMA)
    with pytest.raises(UnreadableSource, match="lacks 'd'"):
        mq.open_table(frame(rows().drop_columns(["d"])), SCHEMA)
    assert repr(mq.SparkTable(frame(rows()))) == "SparkTable(DataFrame)"


def _scattered_units() -> Any:
    """Spark sends the rows of one unit to several places, and nobody looks."""
    checked = spark._checked

    def unchecked(told: pa.Table, declared: Any) -> Any:
        none = pa.array([b""] * told.num_rows, pa.binary())
        return checked(told.set_column(told.schema.get_field_index("buckets"), "buckets", none), declared)

    return patched(spark, "_checked", unchecked)


def _not_bounded() -> Any:
    return patched(executors, "bounded", lambda codes, schema, most: codes.project("* EXCLUDE u, 0::TINYINT AS lost"))


def _counted_twice() -> Any:
    """A partition whose task is run twice adds both results."""
    added = SparkEngine._added
    return patched(
        SparkEngine, "_added", lambda self, results, size: added(self, pa.concat_tables([results, results]), size)
    )


def _not_clamped() -> Any:
    return patched(
        spark_engine, "_sums", lambda columns, amount, part: part.sums(columns, amount._replace(low=-(2**20)))
    )


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "the places of units are not checked": _scattered_units,
    "executors do not bound": _not_bounded,
    "a partition is added twice": _counted_twice,
    "executors add values that are not clamped": _not_clamped,
}


def judged() -> None:
    """No unit keeps more rows than it may, wherever Spark sends them; every record is counted once, and clamped."""
    turn = iter(range(10**9))
    table = pa.table({"a": [1] * 60, "b": [0] * 60, "c": [0] * 60, "d": ["x"] * 60, "who": [i % 3 for i in range(60)]})
    for send in (lambda v, n: v % n, lambda v, n: next(turn) % n):
        try:
            opened = mq.open_table(frame(table, send=send), SCHEMA, **UNIT)
        except MaquetteError:
            continue
        engine: Any = engine_of(opened)
        assert engine.counts(["a"])[1] <= 6, "a unit kept more rows than its bound"
        assert engine.counts(["a"])[1] == engine.rows, "a record was counted twice, or not at all"
        assert engine.sums(["a"], Amount("c", 1, 9))[1] == 6, "a value was added outside its range"


def test_the_judgement_passes_what_is_right() -> None:
    judged()
    turn = iter(range(10**9))
    with pytest.raises(UnreadableSource, match="to two places"):
        mq.open_table(frame(rows(), send=lambda v, n: next(turn) % n), SCHEMA, **UNIT)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", MUTANTS)
def test_engine_mutant_is_killed(name: str) -> None:
    with MUTANTS[name](), pytest.raises((AssertionError, MaquetteError)):
        judged()


AUTO = mq.Schema(
    [mq.Number("income", 0, 100_000, precision=0, bins="auto", nullable=True), mq.Boolean("a"), mq.Integer("b", 0, 9)]
)


def incomes() -> pa.Table:
    rng = np.random.default_rng(4)
    income = np.exp(rng.normal(9, 1, 3_000)).round().clip(0, 99_999)
    shown = [None if i % 40 == 0 else value for i, value in enumerate(income.tolist())]
    return pa.table({"income": shown, "a": rng.random(3_000) < 0.3, "b": rng.integers(0, 10, 3_000)})


def drawn_alike(parts: int = 3) -> None:
    """Spark and memory cut the same bins from the same noise, and count and add up the same records in them."""
    found = []
    for source in (incomes(), frame(incomes(), parts)):
        noise = ScriptedNoise([0] * 9_999)
        with mq.Curator(mq.open_table(source, AUTO), mq.Budget(epsilon=100.0), noise=noise) as curator:
            assert curator.undrawn == ("income",)
            schema = curator.draw_bins(epsilon=1.0)
            counted = [curator.measure(names, epsilon=1.0).values for names in (["income"], ["b", "income"], ["a"])]
            added = mq.answer(curator, "SELECT sum(income) FROM t WHERE a", epsilon=1.0).value
            found.append((schema, counted, added, curator.spent))
    (schema, counted, added, spent), (same, again, summed, charged) = found
    assert schema == same
    assert all(np.array_equal(one, other) for one, other in zip(counted, again, strict=True))
    assert (added, spent) == (summed, charged)


@pytest.mark.thorough
@pytest.mark.parametrize("parts", [1, 18], ids=["one part", "a tree"])
def test_bins_are_drawn_over_rows_in_spark(parts: int) -> None:
    drawn_alike(parts)


@pytest.mark.thorough
def test_bins_of_spark_are_found_in_the_ledger_and_planes_live_on(tmp_path: Path) -> None:
    ledger, budget = tmp_path / "ledger", mq.Budget(epsilon=100.0)
    with mq.Curator(mq.open_table(frame(incomes()), AUTO), budget, ledger=ledger) as curator:
        schema = curator.draw_bins(epsilon=20.0)
        gc.collect()  # the engine in which the table was opened is still held
        assert curator.measure(["income"], epsilon=1.0).values.shape == (schema["income"].size,)
    with mq.Curator(mq.open_table(incomes(), AUTO), budget, ledger=ledger) as again:
        assert again.schema == schema


@pytest.mark.thorough
def test_executors_that_forget_the_bins_are_killed() -> None:
    def forgetting(job: executors.Visit, *others: Any) -> Any:
        return real(replace(job, schema=job.stored) if job.codes else job, *others)

    real = executors._part
    with patched(executors, "_part", forgetting), pytest.raises((AssertionError, MaquetteError, ValueError)):
        drawn_alike()

"""Tables of 1e10 rows and more, up to the most that is allowed: an engine that only says so, since none fits here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import table_of
from maquette.curator.engines.api import MAX_ROWS
from maquette.curator.engines.kernels import Layout, histograms
from maquette.curator.engines.reading import check_rows
from maquette.errors import DataError
from maquette.query import Amounts, Contrasts, Marginal
from maquette.query.moves import LARGEST

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Integer("age", 0, 2)])
BUDGET = mq.Budget(epsilon=100.0, delta=1e-9)


class Told:
    """Every row is the same: no smoker, of age 2."""

    schema = SCHEMA
    fingerprint = "told"

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        table = np.zeros(SCHEMA.shape(columns), dtype=np.int64)
        table[tuple({"smoker": 0, "age": 2}[name] for name in columns)] = self.rows
        return table

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        raise AssertionError("no question here visits records")

    def prefetch(self, column_sets: Iterable[Sequence[str]]) -> None:
        """Nothing to do."""


def curator(rows: int) -> mq.Curator:
    return mq.Curator(table_of(Told(rows)), BUDGET, noise=ScriptedNoise([0] * 99))


@pytest.mark.parametrize("rows", [2**32 + 1, 10**10, MAX_ROWS])
def test_counts_sums_and_contrasts_of_many_rows_are_exact(rows: int) -> None:
    with curator(rows) as asked:
        assert asked.measure(Marginal(SCHEMA, ["smoker"]), epsilon=1.0).values.tolist() == [rows, 0]
        for most in (LARGEST, -LARGEST):
            amounts = np.array([0, 0, most])
            total = asked.measure(
                Amounts(SCHEMA, "age", amounts, low=min(most, 0), high=max(most, 0)), epsilon=1.0
            ).values
            assert int(total) == rows * most
        ends = Contrasts(Marginal(SCHEMA, ["age"]), [np.array([[-LARGEST, 0, LARGEST]])])
        assert asked.measure(ends, epsilon=1.0).values.tolist() == [float(rows * LARGEST)]


@pytest.mark.parametrize("rows", [10**10, MAX_ROWS])
def test_errors_and_choices_among_many_rows_are_exact(rows: int) -> None:
    table = Marginal(SCHEMA, ["smoker", "age"])
    with curator(rows) as asked:
        errors = asked.measure_error([table], [np.zeros((2, 3))], epsilon=1.0)
        assert errors.values.tolist() == [float(rows)]


def test_one_row_more_than_the_most_is_refused() -> None:
    check_rows(MAX_ROWS)
    for refused in (lambda: check_rows(MAX_ROWS + 1), lambda: table_of(Told(MAX_ROWS + 1))):
        with pytest.raises(DataError, match="12,884,901,888"):
            refused()


class Same:
    """A chunk of so many records without memory: every byte is 1."""

    def __init__(self, records: int) -> None:
        self.shape = (1, records)

    def load(self, planes: Sequence[int], first: int, last: int) -> NDArray[np.uint8]:
        return np.broadcast_to(np.uint8(1), (len(planes), last - first))


@pytest.mark.parametrize("records", [2**31 - 1, 2**31, 10**10])
def test_the_kernel_counts_in_64_bits_once_a_cell_might_need_them(
    records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[type[Any]] = []

    def count(pieces: Sequence[object], layouts: Sequence[Layout], dtype: type[Any]) -> list[NDArray[np.int64]]:
        chosen.append(dtype)
        return [np.zeros(layout.cells, dtype=dtype) for layout in layouts]

    monkeypatch.setattr("maquette.curator.engines.kernels._compiled_counts", count)
    monkeypatch.setattr("maquette.curator.engines.kernels._compiled_pays", lambda work: True)
    monkeypatch.setattr("maquette.curator.engines.kernels._READ", 2**40)
    histograms([Same(records)], [Layout((0,), (1,), 2)], threads=1)
    assert chosen == [np.int32 if records < 2**31 else np.int64]

"""Parts measured as waves or as sums lose no more on any neighbour than they are charged; and broken variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import lose_no_more_than_charged, one_contribution, patched, wrapped
from maquette.curator import compile as compile_module
from maquette.curator.compiled import Contrasted
from maquette.privacy import Relation
from maquette.query import Contrasts, waves_of
from maquette.session.precision.bases import question_of, sums_key, waves_key, whole_key

SCHEMA = mq.Schema([mq.Integer("age", 0, 8), mq.Boolean("a")])
WHOLES = [whole_key("steps", ("age",)), whole_key("steps", ("age", "a")), whole_key("waves", ("age", "a"))]
WHOLES += [whole_key("bare steps", ("age",)), whole_key("bare waves", ("age",))]
POINTS = [(0, True), (4, False), (8, True)]
BASE = ((POINTS[1],),)
SETTINGS = [("add-remove", 1), ("replace", 1), ("add-remove", 2), ("replace", 3)]


def asked() -> list[Contrasts]:
    """Waves of one column and of a table, sums of a column within the other, and whole tables of both kinds."""
    keys = [waves_key(("age",)), waves_key(("age", "a")), sums_key(("age",), "age"), sums_key(("age", "a"), "age")]
    return [question_of(SCHEMA, key) for key in [*keys, *WHOLES]]


def gate(settings: Sequence[tuple[str, int]] = tuple(SETTINGS)) -> None:
    lose_no_more_than_charged(SCHEMA, asked(), BASE, POINTS, settings)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_bases_lose_no_more_than_they_are_charged(setting: tuple[str, int]) -> None:
    gate([setting])


def test_a_basis_is_what_its_rows_say() -> None:
    """The whole-number rows of waves sum to zero, so that no smaller part enters."""
    for question in asked()[: -len(WHOLES)]:
        assert all((np.asarray(matrix).sum(axis=1) == 0).all() for matrix in question.matrices)
    assert waves_of(SCHEMA, ("age",)).key == asked()[0].key


def _typical_column() -> Any:
    """The sensitivity of a typical level instead of the worst one."""

    def typical(matrix: Any) -> tuple[int, int, int]:
        sizes = np.abs(np.asarray(matrix))
        sums, squares = sizes.sum(axis=0), (sizes.astype(float) ** 2).sum(axis=0)
        return int(np.median(sizes)) or 1, int(np.median(sums)) or 1, int(np.median(squares)) or 1

    return patched(compile_module, "gains_of", typical)


def _half_the_rows_are_free() -> Any:
    def half(original: Any, matrix: Any) -> Any:
        return original(np.asarray(matrix)[: len(matrix) // 2])

    return wrapped(compile_module, "gains_of", half)


def _largest_entry_is_all() -> Any:
    """A row of the table is priced as if it moved one contrast alone."""

    def entry(original: Any, matrix: Any) -> tuple[int, int, int]:
        largest = original(matrix)[0]
        return largest, largest, largest**2

    return wrapped(compile_module, "gains_of", entry)


def _first_axis_only() -> Any:
    return patched(compile_module, "together", lambda gains: gains[0])


def _root_of_the_squares() -> Any:
    """The squared length is passed on as a length."""

    def rooted(original: Any, matrix: Any) -> tuple[int, int, int]:
        largest, total, squared = original(matrix)
        return largest, total, math.isqrt(squared)

    return wrapped(compile_module, "gains_of", rooted)


def _finer_than_priced() -> Any:
    """Evaluated with matrices of twice the scale that was priced."""

    def contrasted(original: Any, inner: Any, matrices: Any, gains: Any) -> Contrasted:
        priced: Contrasted = original(inner, matrices, gains)
        return replace(priced, matrices=(2 * priced.matrices[0], *priced.matrices[1:]))

    return wrapped(compile_module, "_contrasted", contrasted)


def _replace_as_add_remove() -> Any:
    return patched(Relation, "_ends", property(lambda self: 1))


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "a basis is priced by a typical level": _typical_column,
    "half the rows of a basis are free": _half_the_rows_are_free,
    "a basis is priced by its largest entry": _largest_entry_is_all,
    "a basis is priced by its first column": _first_axis_only,
    "the squared length of a basis is taken for a length": _root_of_the_squares,
    "a basis is evaluated at twice its scale": _finer_than_priced,
    "a basis ignores contributions": one_contribution,
    "a basis under replace costs one row": _replace_as_add_remove,
}
EVERYWHERE = [name for name in MUTANTS if "contributions" not in name and "replace" not in name]
CASES = [
    *((name, setting) for name in EVERYWHERE for setting in SETTINGS),
    *(("a basis ignores contributions", setting) for setting in SETTINGS if setting[1] > 1),
    *(("a basis under replace costs one row", setting) for setting in SETTINGS if setting[0] == "replace"),
]


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize(("mutant", "setting"), CASES, ids=str)
def test_basis_mutant_is_killed(mutant: str, setting: tuple[str, int]) -> None:
    with MUTANTS[mutant](), pytest.raises(AssertionError):
        gate([setting])

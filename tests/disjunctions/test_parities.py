"""Parities as a question: exact values by every path, sensitivities on tiny universes, and mutants to catch."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import maquette as mq
from gate_tools import compiled, exact, exact_by_records, patched
from maquette.audit.reference import ScriptedNoise
from maquette.errors import QueryError
from maquette.estimates.residuals import Residuals
from maquette.privacy import Relation
from maquette.query import Contrasts, Marginal, Parities, residual
from maquette.schema import Boolean, Category, Integer, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["no", "yes"]), Boolean("c"), Boolean("d")])
EVERY_ROW = np.array([*itertools.product((0, 1), repeat=4)], dtype=np.int32)
LEVELS = (1, 2, 3, 4)


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (count, 4)).astype(np.int32)


def reference(records: np.ndarray, columns: tuple[str, ...], level: int) -> list[int]:
    places = [SCHEMA.position(name) for name in columns]
    return [
        int((1 - 2 * records[:, list(chosen)]).prod(axis=1).sum()) for chosen in itertools.combinations(places, level)
    ]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("columns", [SCHEMA.names, ("d", "a", "c", "b")])
def test_counts_records_and_contrasts_agree(level: int, columns: tuple[str, ...]) -> None:
    question = Parities(SCHEMA, columns, level)
    for count in (0, 1, 63, 64, 65, 1000):
        records = rows(count)
        counts = np.zeros((2,) * 4, dtype=np.int64)
        np.add.at(counts, tuple(records[:, SCHEMA.position(name)] for name in columns), 1)
        expected = reference(records, columns, level)
        assert exact_by_records(question, records).tolist() == expected
        assert exact(question, records).tolist() == expected
        assert exact(question, records).dtype == np.int64
        single = [exact(residual(SCHEMA, chosen), records).item() for chosen in itertools.combinations(columns, level)]
        assert single == expected
    assert question.shape == (math.comb(4, level),)


def test_more_columns_than_a_table_can_have_are_read_from_records() -> None:
    schema = Schema([Boolean(f"s{i}") for i in range(40)])
    data = np.random.default_rng(1).random((500, 40)) < 0.3
    table = mq.open_table({name: data[:, i] for i, name in enumerate(schema.names)}, schema)
    cells = math.comb(40, 2)
    with mq.Curator(table, mq.Budget(rho=1.0, delta=1e-9), noise=ScriptedNoise([0] * cells)) as curator:
        measured = curator.measure(Parities(schema, schema.names, 2), rho=0.5)
    signs = 1 - 2 * data.astype(int)
    assert measured.values.tolist() == (signs.T @ signs)[np.triu_indices(40, 1)].tolist()


def violations(question: Contrasts, relation: Relation) -> list[str]:
    """Where a pair of neighbouring tables (over every row a unit can have) moves further than the relation says."""
    moved, priced = [exact_by_records(question, row[None, :]) for row in EVERY_ROW], compiled(question)
    if relation.kind == "replace":
        moved = [new - old for new, old in itertools.product(moved, repeat=2)]
    moved = [relation.max_contributions * each for each in moved]  # a unit of m equal rows moves furthest
    claims = {
        "one cell": (relation.one_cell(priced), max(int(np.abs(each).max()) for each in moved)),
        "l1": (relation.l1(priced), max(int(np.abs(each).sum()) for each in moved)),
        "l2": (relation.l2_squared(priced), max(int((each**2).sum()) for each in moved)),
    }
    return [name for name, (claimed, found) in claims.items() if found > claimed]


RELATIONS = [Relation("add-remove"), Relation("replace"), Relation("add-remove", 3), Relation("replace", 2)]


@pytest.mark.parametrize("relation", RELATIONS, ids=str)
@pytest.mark.parametrize("level", LEVELS)
def test_no_neighbours_are_further_apart_than_the_stated_sensitivities(level: int, relation: Relation) -> None:
    question = Parities(SCHEMA, SCHEMA.names, level)
    assert violations(question, relation) == []
    if relation.kind == "add-remove":  # exactly attained
        assert relation.l1(question) == relation.max_contributions * question.cells
        assert relation.l2_squared(question) == relation.max_contributions**2 * question.cells


def _one_gain(self: Parities) -> tuple[int, int, int]:
    """One row is thought to move one value only."""
    return 1, 1, 1


def _root_gain(self: Parities) -> tuple[int, int, int]:
    """The L2 norm where its square belongs."""
    return 1, self.cells, math.isqrt(self.cells)


def _doubled(self: Parities, records: np.ndarray[Any, Any], sound: Any = Parities.of_records) -> Any:
    """Values twice as large as stated."""
    return 2 * sound(self, records)


MUTANTS = {
    "one gain": ("gains", property(_one_gain)),
    "root of the gain": ("gains", property(_root_gain)),
    "values doubled": ("of_records", _doubled),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_caught(mutant: str) -> None:
    with patched(Parities, *MUTANTS[mutant]):
        assert all(violations(Parities(SCHEMA, SCHEMA.names, 2), relation) for relation in RELATIONS)


@pytest.mark.parametrize(("relation", "moved"), [("add-remove", 1), ("replace", 2)])
def test_the_door_calibrates_noise_to_all_parities_together(relation: Any, moved: int) -> None:
    names = dict(zip(SCHEMA.names, rows(50).T, strict=True))
    columns: dict[str, Any] = {name: codes == 1 for name, codes in names.items()}
    columns["b"] = np.where(columns["b"], "yes", "no")
    noise = ScriptedNoise([0] * 6)
    table = mq.open_table(columns, SCHEMA)
    with mq.Curator(table, mq.Budget(rho=1.0, delta=1e-9), relation=relation, noise=noise) as curator:
        curator.measure(Parities(SCHEMA, SCHEMA.names, 2), rho=0.5)
    (call,) = noise.calls
    assert (call.kind, call.size) == ("gaussian", 6)
    assert float(call.scale) == pytest.approx(6 * moved**2 / (2 * 0.5), rel=1e-5)


def test_questions_have_their_own_keys_and_do_not_mix_with_residuals() -> None:
    keys = {Parities(SCHEMA, names, level).key for names in (SCHEMA.names, SCHEMA.names[::-1]) for level in LEVELS}
    assert len(keys) == 8
    assert repr(Parities(SCHEMA, SCHEMA.names, 2)) == "Parities(6 of 2 of 4 columns)"
    table = mq.open_table({"a": [True], "b": ["no"], "c": [True], "d": [False]}, SCHEMA)
    with mq.Curator(table, mq.Budget(rho=1.0, delta=1e-9)) as curator:
        measured = curator.measure(Parities(SCHEMA, SCHEMA.names, 2), rho=0.5)
    with pytest.raises(QueryError, match="only the contrasts made by `residual`"):
        Residuals(SCHEMA).add(measured)


@pytest.mark.parametrize(
    ("columns", "level", "message"),
    [
        (("a", "b"), 3, "level is 3; .* the number of columns, 2"),
        (("a",), 0, "level is 0"),
        (("a", "n"), 1, r"n \(5\)"),
    ],
)
def test_bad_parities_are_explained(columns: tuple[str, ...], level: int, message: str) -> None:
    schema = Schema([*SCHEMA.columns, Integer("n", 0, 4)])
    with pytest.raises(QueryError, match=message):
        Parities(schema, columns, level)
    wide = Schema([Boolean(f"s{i}") for i in range(400)])
    with pytest.raises(QueryError, match="more than"):
        Parities(wide, wide.names, 4)
    assert Marginal(schema).cells == 1

"""Distances against brute force, their names, and what a grid and an embedding cost in accuracy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from distance_checks import brute_force, cube, curator_of, exact, opened, points

import maquette as mq
from gate_tools import compiled, tallied
from maquette.curator.table import engine_of
from maquette.errors import QueryError
from maquette.query import Box, Distances, Embedding, LinearQuery, Marginal, additive, average_distance
from maquette.query.diagram import Diagram, Drawn
from maquette.query.linear import FINE
from maquette.query.sums import DRAWN, Sum
from maquette.schema import Boolean, Integer, Number, Schema
from maquette.session.question import as_json, from_json
from maquette.theory import distance as theory


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize(("columns", "levels"), [(1, 7), (2, 30), (3, 100), (50, 100)])
def test_a_distance_is_the_average_over_rows_up_to_half_a_cell(columns: int, levels: int) -> None:
    schema, rows = cube(columns, levels), points(500, columns)
    box, table, rng = Box(schema), opened(schema, rows), np.random.default_rng(1)
    for place in rng.random((5, columns)):
        query = box.distance(place)
        middles = (np.floor(rows * levels) + 0.5) / levels
        binned = np.abs(middles - place).sum(axis=1).mean()
        value = int(tallied(engine_of(table), Marginal(schema, (), query))) / query.grid / 500
        assert abs(box.in_units(value) - binned) <= box.diameter * columns * 2.0**-20
        assert abs(box.in_units(value) - brute_force(box, rows, place)) <= box.grid_error + columns**2 * 2.0**-20
        assert box.grid_error == pytest.approx(columns / (2 * levels))
        assert exact(table, query) == pytest.approx(value, abs=1e-12)


def test_units_scales_and_columns_are_those_declared() -> None:
    schema = Schema(
        [
            Boolean("smoker"),
            Integer("age", 20, 80, width=7),
            Number("north", edges=[0.0, 1.0, 5.0, 20.0]),
            Number("east", -5, 5, bins=40),
        ]
    )
    box = Box(schema, ["east", "age", "north"], scales={"east": 1.5, "age": 0.1})
    assert box.diameter == pytest.approx(15 + 6 + 20)
    assert sum(box.shares.values()) == pytest.approx(1.0)
    assert box.grid_error == pytest.approx(1.5 * 0.125 + 0.1 * 3 + 7.5)
    rng = np.random.default_rng(2)
    raw = np.stack([rng.uniform(-9, 9, 400), rng.integers(0, 100, 400), rng.uniform(-3, 30, 400)], axis=1)
    columns = {"smoker": raw[:, 0] > 0, "east": raw[:, 0], "age": raw[:, 1].astype(int), "north": raw[:, 2]}
    table = mq.open_table(columns, schema)  # points outside the box are clamped to it
    for place in ([-5.0, 20, 0], [5.0, 80, 20], [0.3, 33, 7]):
        value = box.in_units(exact(table, box.distance(place)))
        assert abs(value - brute_force(box, raw, np.array(place))) <= box.grid_error + 1e-4
    named = average_distance(schema, {"east": 0.3, "age": 33, "north": 7}, ["east", "age", "north"], scales=box.scales)
    assert named == box.distance([0.3, 33, 7])


def test_no_row_weighs_more_than_one_nor_a_column_more_than_its_share() -> None:
    rng = np.random.default_rng(3)
    for columns in (2, 3, 7, 50):
        lengths = rng.uniform(0.1, 10, columns)
        schema = Schema([Number(f"x{i}", 0, float(length), bins=9) for i, length in enumerate(lengths)])
        box = Box(schema)
        for place in itertools.chain([np.zeros(columns), lengths], rng.random((20, columns)) * lengths):
            query = box.distance(place)
            assert query.sum is not None
            whole = query.sum.whole(FINE)
            assert whole is not None
            assert whole[0] + sum(int(part.max()) for part in whole[1].values()) <= FINE
            for name, part in query.sum.parts.items():
                assert part.max() <= box.shares[schema.names[name]]
            assert 0.0 <= query.bounds[0] <= query.bounds[1] <= 1.0


def test_a_sum_has_one_name_however_it_is_put() -> None:
    schema = cube(3, 40)
    weights = np.random.default_rng(4).integers(0, 1024, (3, 40)) / 1024 / 4
    names = list(schema.names)
    one = additive(schema, dict(zip(names, weights * 3, strict=True)))
    other = ~~additive(schema, dict(zip(names[::-1], (weights * 3)[::-1], strict=True)))
    assert isinstance(one._diagram, Sum)
    assert one == other
    assert one.columns == schema.names
    assert not one.is_predicate
    assert one != ~one
    moved = weights.copy()
    moved[2, 5] += 2.0**-10
    assert additive(schema, dict(zip(names, moved * 3, strict=True))) != one
    again = from_json(schema, as_json(Marginal(schema, (), one)))
    assert again.key == Marginal(schema, (), one).key


def test_small_sums_keep_the_name_that_a_diagram_gives() -> None:
    schema = Schema([Integer("a", 0, 3), Integer("b", 0, 3)])
    half = additive(schema, {"a": [0, 1, 1, 0], "b": [0, 0, 1, 1]})
    assert isinstance(half._diagram, Drawn)
    direct = LinearQuery(schema, half.terms)
    assert half == direct
    assert additive(schema, {"a": [0, 1, 1, 0]}) == mq.where(schema, "a BETWEEN 1 AND 2")
    assert additive(schema, {"a": [0, 1, 1, 0]}).grid == 1
    assert schema.size < DRAWN


def test_a_sum_and_a_diagram_agree_on_what_they_both_know() -> None:
    rng = np.random.default_rng(5)
    for _ in range(30):
        schema = Schema([Integer(f"c{i}", 0, int(rng.integers(1, 5))) for i in range(3)])
        query = additive(schema, {c.name: rng.integers(0, 3, c.size) / 2 for c in schema})
        drawn, summed = Diagram(schema, query.terms).drawn, Sum.of(schema, query.terms)
        assert summed is not None
        assert drawn.columns == summed.columns
        assert (min(drawn.values), max(drawn.values)) == (min(summed.values), max(summed.values))
        assert summed.values <= drawn.values


def test_fifty_columns_of_a_hundred_levels_have_a_name_at_once() -> None:
    schema = cube(50, 100)
    queries = [Box(schema).distance(place) for place in np.random.default_rng(6).random((50, 50))]
    assert len({query.key for query in queries}) == 50
    assert list(compiled(Marginal(schema, (), queries[0])).reads) == [(name,) for name in schema.names]


def test_a_product_with_a_wide_sum_is_refused_rather_than_drawn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maquette.query.diagram.MAX_STEPS", 2**16)
    schema = cube(20, 50)
    product = Box(schema).distance(np.full(20, 0.4)) & mq.where(schema, "x0 < 0.5")
    with pytest.raises(QueryError, match="ask it in parts"):
        _ = product.key


def test_a_total_by_group_reads_the_records() -> None:
    schema = Schema([Boolean("smoker"), *cube(6, 30).columns])
    raw = points(300, 6)
    columns = {"smoker": raw[:, 0] > 0.3, **{f"x{i}": raw[:, i] for i in range(6)}}
    query = Box(schema, [f"x{i}" for i in range(6)]).distance(np.full(6, 0.5))
    table = mq.open_table(columns, schema)
    by_group = tallied(engine_of(table), Marginal(schema, ["smoker"], query))
    assert by_group.sum() == tallied(engine_of(table), Marginal(schema, (), query))


@pytest.mark.parametrize("directions", [3, 8, 32])
def test_a_fan_of_directions_in_the_plane_is_never_off_by_more_than_it_says(directions: int) -> None:
    plane = Box(Schema([Number("east", 0, 30, bins=30), Number("north", 0, 10, bins=40)]), scales={"north": 2.0})
    euclid = Embedding(plane, directions, bins=1000)
    assert euclid.distortion == pytest.approx(theory.fan_distortion(directions))
    rng, worst = np.random.default_rng(7), 0.0
    for _ in range(300):
        a, b = rng.uniform([0, 0], [30, 10], (2, 2))
        along = euclid.transform({"east": [a[0], b[0]], "north": [a[1], b[1]]})
        l1 = sum(scale * abs(along[name][0] - along[name][1]) for name, scale in euclid.box.scales.items())
        true = math.hypot(a[0] - b[0], 2 * (a[1] - b[1]))
        worst = max(worst, abs(l1 - true) / true)
    assert 0.8 * euclid.distortion < worst <= euclid.distortion * (1 + 1e-9)


@pytest.mark.thorough
def test_average_euclidean_distances_come_through_the_embedding() -> None:
    plane = Box(Schema([Number("east", 0, 30, bins=30), Number("north", 0, 40, bins=40)]))
    euclid, rng = Embedding(plane, 8, bins=200), np.random.default_rng(8)
    raw = rng.uniform([-5, 0], [30, 45], (400, 2))
    table = mq.open_table(euclid.transform({"east": raw[:, 0], "north": raw[:, 1]}), euclid.schema)
    inside = np.clip(raw, [0, 0], [30, 40])
    for place in ([0, 0], [30, 40], [12, 31]):
        true = np.hypot(*(inside - place).T).mean()
        value = euclid.box.in_units(exact(table, euclid.distance(place)))
        assert abs(value - true) <= euclid.distortion * true + euclid.box.grid_error


@pytest.mark.thorough
def test_random_directions_have_the_relative_deviation_they_say() -> None:
    solid = Box(cube(5, 10))
    rng, ratios = np.random.default_rng(9), []
    a, b = rng.random((2, 5))
    for seed in range(150):
        euclid = Embedding(solid, 60, bins=10, rng=np.random.default_rng(seed))
        along = euclid.transform({f"x{i}": [a[i], b[i]] for i in range(5)})
        l1 = sum(scale * abs(along[name][0] - along[name][1]) for name, scale in euclid.box.scales.items())
        ratios.append(l1 / np.linalg.norm(a - b))
    deviation = theory.gaussian_distortion(60)
    assert np.mean(ratios) == pytest.approx(1.0, abs=6 * deviation / math.sqrt(150))
    assert np.std(ratios) == pytest.approx(deviation, rel=0.3)


MIXED = Schema(
    [Boolean("smoker"), Number("east", 0, 10, bins=10), Integer("age", 0, 9, nullable=True), Integer("one", 4, 4)]
)
EAST = Box(MIXED, ["east"])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Box(MIXED), "'smoker' .* has no distances.*columns="),
        (lambda: Box(MIXED, ["age"]), "may be missing"),
        (lambda: Box(MIXED, ["one"]), "single value"),
        (lambda: Box(MIXED, "east"), "write .'east'."),
        (lambda: Box(MIXED, []), "the columns are none; expected different columns, at least one"),
        (lambda: Box(MIXED, ["east", "east"]), "different columns"),
        (lambda: Box(MIXED, ["west"]), "no column 'west'"),
        (lambda: Box(MIXED, ["east"], scales={"age": 2.0}), "positive numbers for some of east"),
        (lambda: Box(MIXED, ["east"], scales={"east": -1.0}), "positive numbers"),
        (lambda: EAST.distance([11.0]), "outside the box, where it runs from 0 to 10"),
        (lambda: EAST.distance({"east": math.nan}), "outside the box"),
        (lambda: EAST.distance({"north": 1.0}), "one number for each of east, by name"),
        (lambda: EAST.distance([1.0, 2.0]), "the point is .*; expected one number for each of east"),
        (lambda: EAST.distance("here"), "one number for each of east"),  # type: ignore[arg-type]
        (lambda: EAST.distances([]), "list of points is empty"),
        (lambda: EAST.lattice(0), "steps is 0"),
        (lambda: Embedding(EAST, 0), "directions is 0"),
        (lambda: Embedding(Box(cube(3, 4)), 5), "give rng="),
        (lambda: Embedding(Box(cube(2, 4)), 5).transform({"x0": [1.0]}), "the rows lack x1"),
        (lambda: Embedding(Box(cube(2, 4)), 5).distance([0.5, 2.0]), "outside the box"),
        (lambda: additive(MIXED, {}), "at least one column"),
        (
            lambda: additive(MIXED, {"smoker": [0, 0.5, 1]}),
            "got weights of shape .*; expected one for each of its 2 levels",
        ),
        (lambda: additive(MIXED, {"smoker": [0, 1.5]}), r"weights must lie in \[0, 1\]"),
        (lambda: additive(MIXED, {"smoker": [0, 1]}, shares={"smoker": 1.5}), "shares sum to 1.5; expected at most 1"),
        (lambda: additive(MIXED, {"smoker": [0, 1]}, shares={"east": 0.5}), "a share for each of smoker"),
        (lambda: additive(MIXED, {"smoker": [0, 1]}, shares={"smoker": 0.0}), "positive"),
    ],
)
def test_refusals_say_what_to_do(build: object, says: str) -> None:
    with pytest.raises(QueryError, match=says):
        build()  # type: ignore[operator]


def test_a_sum_outside_the_unit_interval_is_refused_before_any_charge() -> None:
    schema = cube(3, 40)
    curator = curator_of(schema, points(100, 3))
    half = LinearQuery.product(schema, {"x0": np.linspace(0, 1, 40)})
    wide = LinearQuery(
        schema,
        [
            *half.terms,
            *LinearQuery.product(schema, {"x1": np.ones(40) * 0.9}).terms,
            *Box(schema).distance([0, 0, 0]).terms,
        ],
    )
    with pytest.raises(QueryError, match="outside"):
        curator.measure(wide, epsilon=0.1)
    assert curator.ledger.spent() == 0


def test_a_workload_of_sites_is_answered_by_one_histogram_a_column() -> None:
    box = Box(cube(2, 20))
    sites = box.distances(box.lattice(4))
    assert isinstance(sites, Distances)
    assert (sites.size, [m.columns for m in sites.marginals]) == (16, [("x0",), ("x1",)])
    assert sites[3] == box.distance(box.lattice(4)[3])
    assert repr(sites) == "distances over x0, x1: 16 queries"

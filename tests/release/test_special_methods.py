"""`release(method=...)` reaches every release there is; what is missing or does not fit is said before any charge."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.curator import Curator
from maquette.query import Box, LowSensitivityQuery, cuts, disjunctions, edge_schema, lookup
from maquette.releases import METHODS, Net
from maquette.releases.methods.special import ASKED, SPECIAL

SCHEMA = mq.Schema([mq.Boolean(name) for name in "abcd"])
RECORDS = np.random.default_rng(0).random((4000, 4)) < [0.2, 0.5, 0.7, 0.4]


@functools.cache
def opened_table() -> mq.PrivateTable:
    return mq.open_table({name: RECORDS[:, i].tolist() for i, name in enumerate(SCHEMA.names)}, SCHEMA)


PAIRS = mq.marginals(SCHEMA, k=2)
BUDGET = mq.Budget(epsilon=20.0, delta=1e-9)
LINE = mq.Schema([mq.Integer("x", 0, 9), mq.Integer("y", 0, 9)])


@functools.cache
def places() -> mq.PrivateTable:
    return mq.open_table({"x": [1, 2, 3, 8] * 5000, "y": [4, 4, 5, 9] * 5000}, LINE)


GRAPH = edge_schema(list("uvw"))


@functools.cache
def edges() -> mq.PrivateTable:
    return mq.open_table({"from": ["u", "v", "u"] * 5000, "to": ["v", "w", "w"] * 5000}, GRAPH)


TINY = mq.Schema([mq.Boolean("a")])


@functools.cache
def bits() -> mq.PrivateTable:
    return mq.open_table({"a": [True] * 30 + [False] * 10}, TINY)


SHARE = LowSensitivityQuery("share", lambda histogram: float(histogram[1]), sensitivity=1 / 40)


def cases() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """The table, the questions and the settings of each special method."""
    sites = Box(LINE, ["x", "y"]).distances(np.array([[1, 4], [8, 9], [0, 0]]))
    listed = [lookup(LINE, {"x": x, "y": y}) for x, y in ((1, 4), (8, 9), (0, 0))]
    net = Net.small_databases(TINY, 8)
    return {
        "net": (opened_table(), PAIRS, {"net": Net.small_databases(SCHEMA, 2)}),
        "local-search": (
            opened_table(),
            PAIRS,
            {"start": {name: [True, False] for name in SCHEMA.names}, "steps": 3, "sample": 4},
        ),
        "cuts": (edges(), cuts(GRAPH, [(["u"], ["v", "w"]), (["u", "v"], ["w"])]), {"rounds": 3}),
        "distances": (places(), sites, {}),
        "histograms": (places(), sites, {}),
        "lookups": (places(), listed, {}),
        "coefficients": (opened_table(), disjunctions(SCHEMA, k=3), {}),
        "projection": (opened_table(), PAIRS, {}),
        "functions": (bits(), [SHARE], {"net": net}),
        "functions-net": (bits(), [SHARE], {"net": net}),
        "analyst-private": (
            opened_table(),
            mq.marginals(SCHEMA, k=3),
            {"analyst_epsilon": 200.0, "rounds": 5, "draws": 5, "strength": 5.0},
        ),
    }


def test_every_special_method_has_a_case() -> None:
    assert set(cases()) == set(SPECIAL)
    assert set(ASKED) <= set(SPECIAL)
    assert not set(SPECIAL) & set(METHODS)


@pytest.mark.thorough(fast=6)
@pytest.mark.parametrize("name", SPECIAL)
def test_a_special_release_is_reached_by_its_name(name: str) -> None:
    table, asked, settings = cases()[name]
    with Curator(table, BUDGET) as curator:
        made = mq.release(curator, asked, method=name, epsilon=15.0, **settings)
        assert 0 < made.cost.epsilon <= 15.0 * (1 + 1e-9)
        assert curator.spent.epsilon <= 15.0 * (1 + 1e-9)
        assert f"method {name!r} was asked for" in made.explain()
        assert made.certificate.units == curator.ledger.spent()


def test_lookups_are_near_the_table() -> None:
    table, asked, _ = cases()["lookups"]
    for relation, far in (("replace", 200.0), ("add-remove", 400.0)):
        with Curator(table, BUDGET, relation=relation) as curator:  # type: ignore[arg-type]
            made = mq.release(curator, asked, method="lookups", epsilon=10.0)
            for one, truth in zip(asked, (5000, 5000, 0), strict=True):
                assert abs(made.model.answer(one) * made.rows - truth) < far


@pytest.mark.parametrize(
    ("name", "asked", "settings", "message"),
    [
        ("net", PAIRS, {}, "method 'net' needs net"),
        ("local-search", PAIRS, {}, "needs start and steps"),
        ("functions", [SHARE], {}, "method 'functions' needs net"),
        ("functions", PAIRS, {"net": None}, "a list of LowSensitivityQuery, at least one"),
        ("cuts", PAIRS, {}, "cuts made by cuts, bipartitions or degrees"),
        ("distances", PAIRS, {}, "distances made by Box.distances"),
        ("lookups", [], {}, "a list of look-ups made by lookup"),
        ("coefficients", PAIRS, {}, "disjunctions or conjunctions"),
        ("everything", [SHARE], {}, "a workload, such as marginals"),
        ("projection", PAIRS, {"rounds": 3}, "method 'projection' has no setting rounds"),
        ("nothing", PAIRS, {}, "there is no method 'nothing'"),
    ],
)
def test_what_is_missing_or_does_not_fit_is_said_before_any_charge(
    name: str, asked: Any, settings: Any, message: str
) -> None:
    with Curator(opened_table(), BUDGET) as curator:
        with pytest.raises(mq.QueryError, match=message):
            mq.release(curator, asked, method=name, **settings)
        assert curator.ledger.spent() == 0


def test_the_list_of_methods_names_the_special_ones() -> None:
    with Curator(opened_table(), BUDGET) as curator, pytest.raises(mq.QueryError, match="projection"):
        mq.release(curator, PAIRS, method="nothing")


def test_the_questions_of_analysts_stay_out_of_the_certificate() -> None:
    table, asked, settings = cases()["analyst-private"]
    with Curator(table, BUDGET) as curator:
        made = mq.release(curator, asked, method="analyst-private", epsilon=5.0, **settings)
        told = made.certificate.described
        assert made.certificate.charges == tuple(each.discreet.text for each in told)
        assert tuple(charge.description for charge in curator.ledger.charges()) != made.certificate.charges

"""Look-ups: the same numbers as any other way to ask, over columns that no other way can bear."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest

import maquette as mq
from maquette.audit.reference import ScriptedNoise
from maquette.curator import Curator
from maquette.errors import QueryError
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Keys, LinearQuery, Lookup, Marginal, lookup, where
from maquette.releases.classes.lookups import look_up
from maquette.schema import Boolean, Category, Integer, Schema
from maquette.session import OnlineIC

SMALL = Schema([Integer("a", 0, 4, nullable=True), Category("b", ["x", "y", "z"]), Boolean("c")])
WIDE = Schema([Integer("code", 0, 10**6 - 1), Integer("site", 0, 10**9), *(Boolean(f"b{i}") for i in range(90))])
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)
ROWS = {"a": [0, 1, 1, None, 4, 1], "b": ["x", "y", "y", "z", "x", "y"], "c": [True, True, False, True, False, True]}


def records(schema: Schema) -> np.ndarray:
    return np.indices(schema.shape(schema.names)).reshape(len(schema), -1).T.astype(np.int32)


def random_keys(rng: np.random.Generator) -> list[dict[str, object]]:
    columns = rng.choice(3, int(rng.integers(1, 4)), replace=False)
    names = [SMALL.names[i] for i in columns]
    choices: dict[str, list[Any]] = {"a": [0, 1, 2, 3, 4, None], "b": ["x", "y", "z"], "c": [False, True]}
    every = list(itertools.product(*(choices[name] for name in names)))
    picked = rng.choice(len(every), int(rng.integers(1, min(6, len(every)) + 1)), replace=False)
    return [dict(zip(names, every[i], strict=True)) for i in picked]


def test_a_lookup_is_the_linear_query_of_its_keys() -> None:
    rng, points = np.random.default_rng(2), records(SMALL)
    for _ in range(40):
        keys = random_keys(rng)
        weights = rng.choice([0.25, 1.0], len(keys)).tolist()
        query = lookup(SMALL, keys, weights=weights)
        plain = LinearQuery(SMALL, query.terms)
        assert query == plain
        assert hash(query) == hash(plain)
        assert (query.bounds, query.is_predicate, query.grid) == (plain.bounds, plain.is_predicate, plain.grid)
        assert np.array_equal(query.evaluate(points), plain.evaluate(points))
        assert np.array_equal(query.weights(SMALL.names), plain.weights(SMALL.names))
        assert np.array_equal((~query).weights(SMALL.names), (~plain).weights(SMALL.names))


def test_the_same_question_in_words_is_the_same_question() -> None:
    assert lookup(SMALL, [{"b": "x", "c": True}, {"c": False, "b": "y"}]) == where(
        SMALL, "b = 'x' AND c OR b = 'y' AND NOT c"
    )
    assert lookup(SMALL, {"a": None}) == where(SMALL, "a IS NULL")
    binned = Schema([Integer("age", 0, 99, width=10)])
    assert lookup(binned, {"age": "30-39"}) == where(binned, "age BETWEEN 30 AND 39")


@pytest.mark.thorough
def test_doors_give_the_same_numbers_by_counts_and_by_records(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    table = mq.open_table(ROWS, SMALL)
    asked = [random_keys(rng) for _ in range(6)]
    seen = []
    for cells in (2**22, 0):
        monkeypatch.setattr("maquette.curator.compile.FEW_CELLS", cells)
        with Curator(table, PURE, noise=ScriptedNoise([0] * 999)) as curator:
            for keys in asked:
                query = lookup(SMALL, keys)
                exact = float(sum(query.evaluate(SMALL.encode(ROWS))))
                values = [curator.measure(q, epsilon=1.0).values for q in (query, Marginal(SMALL, (), query))]
                assert [float(value) for value in values] == [exact] * 2
                whole = curator.measure(Keys(SMALL, keys), epsilon=1.0).values
                assert whole.sum() == exact
                seen.append(whole.tolist())
                cells_of = [
                    float(curator.measure(Keys(SMALL, keys).query((i,)), epsilon=1.0).values) for i in range(len(whole))
                ]
                assert cells_of == whole.tolist()
    assert seen[:6] == seen[6:]


@pytest.mark.thorough
def test_lookups_over_columns_too_large_to_list() -> None:
    rng = np.random.default_rng(5)
    assert WIDE.size > 10**40
    n = 20_000
    data: dict[str, Any] = {"code": rng.integers(0, 50, n) * 19_997, "site": rng.integers(0, 4, n) * 300_000_000}
    data |= {f"b{i}": rng.random(n) < 0.5 for i in range(90)}
    keys = [{"code": 19_997 * i, "site": 300_000_000 * j} for i in range(50) for j in range(3)]
    truth = [int(((data["code"] == k["code"]) & (data["site"] == k["site"])).sum()) for k in keys]
    with Curator(mq.open_table(data, WIDE), PURE, noise=ScriptedNoise([0] * 9999)) as curator:
        table = curator.measure(Keys(WIDE, keys), epsilon=1.0).values
        assert table.tolist() == truth  # keys are sorted as they were listed
        assert float(curator.measure(lookup(WIDE, keys), epsilon=1.0).values) == sum(truth)
        full = {name: values[0].item() for name, values in data.items()}
        assert float(curator.measure(lookup(WIDE, full), epsilon=1.0).values) == 1.0
    other = lookup(WIDE, keys[:-1])
    assert other != lookup(WIDE, keys)
    assert lookup(WIDE, keys[::-1]) == lookup(WIDE, keys)
    with pytest.raises(QueryError, match="too many to be joined"):
        _ = ~other


@pytest.mark.parametrize("method", ["each", "keys"])
@pytest.mark.parametrize("budget", [PURE, ZCDP], ids=["pure", "zcdp"])
def test_listed_lookups_are_exact_without_noise_and_charged_once(method: str, budget: mq.Budget) -> None:
    lookups = [lookup(SMALL, random_keys(np.random.default_rng(i))) for i in range(60)]
    lookups = [one for one in lookups if one.columns == ("a", "b")]
    assert len(lookups) > 2
    points = SMALL.encode(ROWS)
    with Curator(mq.open_table(ROWS, SMALL), budget, noise=ScriptedNoise([0] * 99)) as curator:
        price = {"epsilon": 1.0} if budget is PURE else {"rho": 1.0}
        answers = look_up(curator, lookups, method=method, **price)  # type: ignore[arg-type]
        assert len(list(curator.ledger.charges())) == 1
        spent = curator.ledger.spent()
    assert [a.unbiased for a in answers] == [float(one.evaluate(points).sum()) for one in lookups]
    assert 0.999 * UNITS_PER_ONE <= spent <= UNITS_PER_ONE
    assert all(a.low <= a.value <= a.high for a in answers)


def test_the_cheaper_method_is_taken_and_its_intervals_hold() -> None:
    rng = np.random.default_rng(8)
    schema = Schema([Integer("code", 0, 10**6 - 1)])
    data = rng.zipf(1.5, 50_000) % 10**6
    table = mq.open_table({"code": data}, schema)
    many = [lookup(schema, {"code": i}) for i in range(300)]
    few = [lookup(schema, [{"code": i} for i in range(100 * j, 100 * j + 100)]) for j in range(3)]
    missed = 0
    for lookups in (many, few):
        for budget in (mq.Budget(rho=0.5, delta=1e-9), mq.Budget(epsilon=1.0)):
            with Curator(table, budget) as curator:
                answers = look_up(curator, lookups, confidence=0.999)
                door = next(iter(curator.ledger.charges())).description
            # A hundred keys add up to ten times the noise of one; three look-ups share it among three.
            assert len(json.loads(door)["questions"]) == (1 if lookups is many else 3)
            missed += sum(
                not a.low <= int(np.isin(data, q.points[:, 0]).sum()) <= a.high
                for a, q in zip(answers, lookups, strict=True)
            )
    assert missed <= 8  # 606 intervals at 0.999; more than eight has probability below 1e-6


def test_online_construction_with_sparse_weights_keeps_its_promise() -> None:
    rng = np.random.default_rng(9)
    schema = Schema([Integer("code", 0, 10**6 - 1), Integer("site", 0, 10**6 - 1)])
    n = 400_000
    code, site = rng.choice([11, 999_983, 500_000, 77], n, p=[0.6, 0.25, 0.1, 0.05]), rng.integers(0, 3, n)
    from maquette.hypothesis import SparseWeights

    with Curator(mq.open_table({"code": code, "site": site}, schema), mq.Budget(epsilon=20.0, delta=1e-9)) as curator:
        model = SparseWeights(schema, support=4, alpha=0.12)
        session = OnlineIC(curator, model, queries=200, rows=n, beta=1e-6)
        spent = curator.ledger.spent()
        for _ in range(12):
            keys = [
                {"code": int(c), "site": int(s)}
                for c, s in zip(rng.choice(code, 3), rng.integers(0, 3, 3), strict=True)
            ]
            query = lookup(schema, keys)
            truth = sum(((code == c) & (site == s)).mean() for c, s in query.points.tolist())
            answer = session.ask(query)
            assert abs(answer.value - truth) <= session.alpha
            assert session.ask(query) is answer
        before = session._tests
        with pytest.raises(QueryError, match="touches"):
            session.ask(lookup(schema, [{"code": i, "site": 0} for i in range(5)]))
        assert session._tests == before
        assert 0 < session.updates <= model.update_bound
        assert curator.ledger.spent() == spent


BAD = {
    "no keys": (lambda: lookup(SMALL, []), "at least one"),
    "not a key": (lambda: lookup(SMALL, ["x"]), "expected keys such as"),  # type: ignore[list-item]
    "unknown column": (lambda: lookup(SMALL, {"aa": 1}), "there is no column 'aa'"),
    "outside the range": (lambda: lookup(SMALL, {"a": 5}), "5 is out of range; declared values run from 0 to 4"),
    "undeclared level": (lambda: lookup(SMALL, {"b": "w"}), "not a declared level"),
    "missing value": (lambda: lookup(SMALL, {"b": None}), "no missing values"),
    "not a truth value": (lambda: lookup(SMALL, {"c": 3}), "not a truth value"),
    "different columns": (lambda: lookup(SMALL, [{"a": 1}, {"b": "x"}]), "the same columns"),
    "weights": (lambda: lookup(SMALL, [{"a": 1}], weights=[0.5, 1]), "expected one for each"),
    "zero weight": (lambda: lookup(SMALL, [{"a": 1}], weights=[0.0]), "in \\(0, 1\\]"),
    "two weights": (lambda: lookup(SMALL, [{"a": 1}, {"a": 1}], weights=[0.5, 1]), "listed twice"),
}


@pytest.mark.parametrize("case", BAD)
def test_keys_outside_the_schema_are_refused(case: str) -> None:
    act, message = BAD[case]
    with pytest.raises(QueryError, match=message):
        act()


def test_bad_lists_of_lookups_charge_nothing() -> None:
    one, other = lookup(SMALL, {"a": 1}), lookup(SMALL, {"b": "x"})
    with Curator(mq.open_table(ROWS, SMALL), PURE) as curator:
        for lookups, method, message in (
            ([], "auto", "at least one"),
            ([where(SMALL, "c")], "auto", "list of look-ups"),
            (one, "auto", "list of look-ups"),
            ([one, other], "keys", "different key columns"),
            ([one], "best", "expected one of"),
            ([lookup(WIDE, {"b1": True})], "each", "another schema"),
            ([lookup(WIDE, {"b1": True})], "keys", "another schema"),
        ):
            with pytest.raises(QueryError, match=message):
                look_up(curator, lookups, method=method, epsilon=1.0)  # type: ignore[arg-type]
        assert curator.ledger.spent() == 0
        assert len(look_up(curator, [one, other], epsilon=1.0)) == 2


def test_lookups_of_the_whole_universe_are_constant() -> None:
    every = lookup(SMALL, [{"c": False}, {"c": True}])
    assert every.bounds == (1.0, 1.0)
    assert isinstance(every, Lookup)

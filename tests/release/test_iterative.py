"""Iterative construction: its theorem over seeded runs, its exact loss on toys, and its bookkeeping."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from release_checks import Integers, Seeded, counts, open_records, records

import maquette as mq
from maquette.audit.reference import ScriptedNoise, discrete_laplace, exponential_law
from maquette.distinguisher import distinguisher_of
from maquette.hypothesis import RULES, MultiplicativeWeights, rule_of
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LinearQuery
from maquette.releases.methods.iterative import Parameters
from maquette.schema import Schema

iterative: Any = importlib.import_module("maquette.releases.methods.iterative")

TINY = Schema([mq.Boolean("a"), mq.Category("b", ["x", "y", "z"])])
WORKLOAD = mq.marginals(TINY, k=2, up_to=True)
BUDGETS = {
    "pure": mq.Budget(epsilon=1.0),
    "zcdp": mq.Budget(epsilon=1.0, delta=1e-9),
    "gdp": mq.Budget(epsilon=1.0, delta=1e-9, accounting="gdp"),
}


@functools.cache
def replicated(rows: int) -> tuple[mq.PrivateTable, dict[tuple[str, ...], np.ndarray]]:
    """A lopsided small table, each row many times over, and its exact fractions."""
    small = np.array([[0, 0]] * 12 + [[1, 0]] * 2 + [[1, 2]] * 5 + [[0, 1]])
    many = np.repeat(small, rows // len(small), axis=0)
    tables: list[tuple[str, ...]] = [("a",), ("b",), ("a", "b")]
    truth = {names: counts(TINY, many, names) / len(many) for names in tables}
    return open_records(TINY, many), truth


def promised(made: mq.Release) -> float:
    found = re.search(r"within ([\d.e-]+) of the rows", made.certificate.accuracy or "")
    assert found, "a promise is stated"
    return float(found[1])


def worst(made: mq.Release, truth: dict[tuple[str, ...], np.ndarray]) -> float:
    return max(float(np.abs(made.marginal(*names) - exact).max()) for names, exact in truth.items())


def build(method: str, currency: str, noise: Any, relation: Any = "replace", **settings: Any) -> mq.Release:
    with mq.Curator(replicated(200_000)[0], BUDGETS[currency], relation=relation, noise=noise) as curator:
        made = mq.release(curator, WORKLOAD, method=method, **settings)
        assert made.certificate.units == curator.ledger.spent() <= curator.budget.limit
    return made


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("currency", BUDGETS)
def test_the_promise_is_kept_in_every_run(currency: str, relation: Any) -> None:
    """Failure frequency at most beta, over 120 runs, and none is expected to fail: the theorem is loose."""
    truth = replicated(200_000)[1]
    runs = _runs("iterative-construction", currency, relation, 40 if relation == "replace" else 20)
    assert all(worst(made, truth) <= promised(made) < 0.5 for made in runs)


def _runs(method: str, currency: str, relation: Any, count: int, **settings: Any) -> Any:
    return (build(method, currency, Seeded(seed), relation, **settings) for seed in range(count))


@pytest.mark.thorough
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("currency", BUDGETS)
def test_the_average_keeps_its_promise(currency: str, relation: Any) -> None:
    """Fewer rounds than the best number promise less and run in time; the theorem holds for any number."""
    truth = replicated(200_000)[1]
    for made in _runs("averaged-construction", currency, relation, 10, rounds=60):
        assert worst(made, truth) <= promised(made) < 0.2


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("constants", ["tight", "book"])
@pytest.mark.parametrize("hypothesis", RULES)
def test_every_rule_keeps_its_promise(hypothesis: str, constants: str) -> None:
    table, truth = replicated(200_000)
    for seed in range(3):
        with mq.Curator(table, mq.Budget(epsilon=50.0), relation="replace", noise=Seeded(seed)) as curator:
            made = mq.release(
                curator, WORKLOAD, method="iterative-construction", hypothesis=hypothesis, constants=constants
            )
        assert worst(made, truth) <= promised(made) < 1


@pytest.mark.thorough
@pytest.mark.parametrize("distinguisher", ["exponential", "permute-and-flip", "signed"])
def test_every_distinguisher_keeps_its_promise(distinguisher: str) -> None:
    truth = replicated(200_000)[1]
    for made in _runs("iterative-construction", "zcdp", "replace", 5, distinguisher=distinguisher):
        assert worst(made, truth) <= promised(made)


class Adversary(Seeded):
    """Points at the worst query and adds no noise, or noise of one sign: the most updates there can be."""

    def __init__(self, push: int) -> None:
        super().__init__(0)
        self.push = push

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        return int(np.argmax(scores))

    def gaussian(self, variance: Fraction, size: int) -> Integers:
        return np.full(size, int(self.push * math.sqrt(variance)), dtype=np.int64)


@pytest.mark.thorough(fast=2)
@pytest.mark.parametrize("push", [-2, 0, 2])
def test_updates_never_exceed_the_bound(push: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[Parameters] = []
    updates: list[float] = []
    original, step = iterative.parameters, MultiplicativeWeights.update

    def spy(*facts: Any, **settings: Any) -> Parameters:
        chosen.append(original(*facts, **settings))
        return chosen[0]

    def counted(model: MultiplicativeWeights, query: LinearQuery, value: float) -> None:
        updates.append(value)
        step(model, query, value)

    monkeypatch.setattr(iterative, "parameters", spy)
    monkeypatch.setattr(MultiplicativeWeights, "update", counted)
    made = build("iterative-construction", "zcdp", Adversary(push))
    rounds = chosen[0].rounds
    assert rounds == math.floor(math.log(TINY.size) / (2 * chosen[0].resolution ** 2))
    assert 1 <= len(updates) < rounds
    assert worst(made, replicated(200_000)[1]) <= chosen[0].resolution + 0.01, "without noise, the resolution is met"


@pytest.mark.thorough
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_relabelling_the_universe_relabels_the_model(currency: str) -> None:
    """With the worst query always chosen and no noise, no tie is broken by the order of levels."""
    small = records(TINY, 997, 3)
    moved = np.stack([1 - small[:, 0], np.array([2, 0, 1])[small[:, 1]]], axis=1)
    models = []
    for rows in (small, moved):
        table = open_records(TINY, np.repeat(rows, 300, axis=0))
        with mq.Curator(table, mq.Budget(epsilon=9.0, delta=1e-9), relation="replace", noise=Adversary(0)) as curator:
            models.append(mq.release(curator, mq.marginals(TINY, k=2), method="iterative-construction"))
    first, second = (made.marginal("a", "b") for made in models)
    assert np.allclose(first, second[::-1][:, [2, 0, 1]], atol=1e-12)


class Recorded(ScriptedNoise):
    """A script, and the exact probability of what it made happen."""

    def __init__(self, values: list[int]) -> None:
        super().__init__(values)
        self.log_probability = 0.0

    def laplace(self, scale: Fraction, size: int) -> Integers:
        values = super().laplace(scale, size)
        self.log_probability += float(np.log(discrete_laplace(values, float(scale))).sum())
        return values

    def exponential(self, scores: Integers, scale: Fraction) -> int:
        index = super().exponential(scores, scale)
        self.log_probability += float(np.log(exponential_law(scores, float(scale))[index]))
        return index


@functools.cache
def _counted(counted: tuple[int, ...]) -> mq.PrivateTable:
    schema = Schema([mq.Category("x", [f"l{i}" for i in range(len(counted))])])
    return open_records(schema, np.repeat(np.arange(len(counted)), counted)[:, None])


def _toy(counted: tuple[int, ...], transcript: tuple[tuple[int, int], ...]) -> tuple[float, float, int]:
    """Log-probability that a table makes a transcript of (chosen query, released count), its price, its length."""
    table = _counted(counted)
    script = [part for chosen, value in transcript for part in (chosen, value - counted[chosen])]
    noise = Recorded(script)
    with mq.Curator(table, mq.Budget(epsilon=9.0), relation="replace", noise=noise) as curator:
        made = mq.release(curator, mq.marginals(table.schema, k=1), method="iterative-construction")
        return noise.log_probability, made.certificate.epsilon, noise.used // 2


@pytest.mark.thorough
@pytest.mark.parametrize(("levels", "rounds", "values"), [(3, 1, range(-2, 6)), (2, 2, range(-1, 5))])
def test_the_exact_loss_of_every_transcript_is_within_the_charge(
    levels: int, rounds: int, values: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three rows, epsilon 0.4 for each selection and measurement; Mechanisms §5.6: at most 1.6 for two rounds, and not
    idle.
    """
    units = 4 * UNITS_PER_ONE // 10
    fixed = Parameters(
        alpha=0.99, resolution=0.3, threshold=0.45, rounds=rounds, select_units=units, measure_units=units
    )
    monkeypatch.setattr(iterative, "parameters", lambda *a, **k: fixed)
    tables = [t for t in itertools.product(range(4), repeat=levels) if sum(t) == 3]
    loss = 0.0
    for transcript in itertools.product(itertools.product(range(levels), values), repeat=rounds):
        seen = {table: _toy(table, transcript) for table in tables}
        price, length = seen[tables[0]][1:]
        assert all(one[1:] == (price, length) for one in seen.values()), "what is charged does not depend on rows"
        for one, other in itertools.permutations(tables, 2):
            if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 2:
                difference = seen[one][0] - seen[other][0]
                assert difference <= price * (1 + 1e-9)
                loss = max(loss, difference)
    assert 0.4 * rounds < loss <= 0.8 * rounds


def test_the_row_estimate_is_part_of_the_price_and_of_the_promise() -> None:
    """Private rows cost a hundredth and widen alpha; rows that all know cost nothing."""
    private = build("iterative-construction", "zcdp", Seeded(0), "add-remove")
    known = build("iterative-construction", "zcdp", Seeded(0), "add-remove", rows=200_000)
    assert promised(known) < promised(private) < promised(known) + 0.02
    assert json.loads(private.certificate.charges[0])["door"] == "measure"
    assert json.loads(known.certificate.charges[0])["door"] == "select_worst"
    assert private.answer("a").bound == "certified"


@pytest.mark.thorough
def test_more_rows_of_one_person_weaken_the_promise() -> None:
    small = np.repeat(records(TINY, 40, 1), 5000, axis=0)
    people = {name: TINY.decode(small)[name].to_pylist() for name in TINY.names} | {"id": list(range(200_000))}
    found = []
    for most in (1, 4):
        table = mq.open_table(people, TINY, privacy_unit="id", max_contributions=most)
        with mq.Curator(table, BUDGETS["zcdp"], noise=Seeded(0)) as curator:
            made = mq.release(curator, WORKLOAD, method="iterative-construction", rows=200_000)
        found.append(promised(made))
        assert worst(made, {("a", "b"): counts(TINY, small, ("a", "b")) / 200_000}) <= found[-1]
    assert found[1] > 1.5 * found[0]


@pytest.mark.parametrize("rows", [10**6, 10**8, 10**9, 10**10])
@pytest.mark.parametrize("currency", ["pure", "zcdp"])
def test_a_promise_is_not_lost_to_rounding_where_the_noise_is_tiny(currency: str, rows: int) -> None:
    """A given model has a coarse resolution, and at many rows the noise is below the last digits of the threshold."""
    tables = list(WORKLOAD.marginals)
    with mq.Curator(replicated(20)[0], BUDGETS[currency]) as curator:
        for alpha in (0.1, 0.2, 0.3, 0.4):
            setting = iterative.Setting(tables=tables, units=1e18, rows=float(rows), slack=0.0, moves=1, beta=0.05)
            rule = rule_of(TINY, MultiplicativeWeights(TINY, alpha=alpha))
            pointer = distinguisher_of("exponential")
            found = iterative.parameters(curator, rule, setting, distinguisher=pointer, constants="tight")
            noise = Fraction(iterative._noise_bound(curator, setting, found.measure_units, found.rounds))
            assert alpha <= found.alpha < 1.1 * alpha
            assert Fraction(found.threshold) - noise >= Fraction(found.resolution)

"""Gates every door must pass, on a universe of six points: they see outputs, requested noise and charges only."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import maquette as mq
from gate_tools import compiled, neighbours_of, noted_steps, patched, table_of
from maquette.audit.reference import (
    Call,
    GuardNoise,
    ScriptedNoise,
    exponential_law,
    grid,
    pattern_loss,
    patterns,
    permute_and_flip_law,
    reference_scales,
    reference_transcript,
)
from maquette.curator import Curator, guard as guard_module
from maquette.errors import GuardSealed
from maquette.privacy import UNITS_PER_ONE
from maquette.query import Buckets, Contrasts, LinearQuery, Marginal, additive
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["x", "y", "z"])])
POINTS = [(a, b) for a in (False, True) for b in "xyz"]
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)

Rows = tuple[tuple[bool, str], ...]


def where(text: str) -> LinearQuery:
    return mq.where(SCHEMA, text)


THIRDS = LinearQuery.product(SCHEMA, {"b": [0.25, 1 / 3, 0.9]})
QUESTIONS: tuple[Marginal | Contrasts, ...] = (
    Marginal(SCHEMA),
    Marginal(SCHEMA, (), where("a AND b = 'x'")),
    Marginal(SCHEMA, ["b", "a"]),
    Marginal(SCHEMA, ["a"], THIRDS),
    Marginal(SCHEMA, (), THIRDS),
    Marginal(SCHEMA, [Buckets("k", ("one", "two"), (where("a"), where("NOT a AND b IN ('x', 'y')")))]),
    Marginal(SCHEMA, [Buckets("k", ("one",), (where("a"),))]),
    Contrasts(Marginal(SCHEMA, ["a", "b"]), [np.array([[1, -1]]), np.array([[2, -1, -1], [0, 3, -3]])]),
    Contrasts(Marginal(SCHEMA, ["b"], THIRDS), [np.array([[-2, 1, 2]])]),
)
ASKED = (QUESTIONS[2], QUESTIONS[1], QUESTIONS[3])
PUBLIC = (np.full((3, 2), 0.4), 1.0, np.array([0.3, 0.6]))


def table(units: Sequence[Rows], contributions: int) -> mq.PrivateTable:
    """A table of units (people), each with its rows."""
    return table_of(SCHEMA, tuple(units), contributions)


def neighbours(relation: str, contributions: int) -> Iterator[tuple[Sequence[Rows], Sequence[Rows]]]:
    """Pairs of tables over two fixed others."""
    return neighbours_of([((False, "x"),), ((True, "z"),)], POINTS, relation, contributions)


class Recording(ScriptedNoise):
    """Scripted noise that also keeps the scores of every selection."""

    def __init__(self, values: Sequence[int]) -> None:
        super().__init__(values)
        self.scores: list[np.ndarray] = []

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        self.scores.append(scores.copy())
        return super().exponential(scores, scale)

    def permute_and_flip(self, scores: np.ndarray, scale: Fraction) -> int:
        self.scores.append(scores.copy())
        return super().permute_and_flip(scores, scale)


Ask = Callable[[Curator], Any]


def observe(units: Sequence[Rows], relation: str, contributions: int, budget: mq.Budget, ask: Ask) -> Observed:
    """Run one question with noise of zero (or index zero) and keep what the door did."""
    noise = Recording([0] * 64)
    with Curator(table(units, contributions), budget, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
        result = ask(curator)
        charged = list(curator.ledger.charges())
    return Observed(result, noise.calls, noise.scores, charged)


class Observed:
    """What a door released, the noise it asked for, the scores it selected on, and what it charged."""

    def __init__(self, result: Any, calls: list[Call], scores: list[np.ndarray], charges: list[Any]) -> None:
        self.result = result
        self.calls = calls
        self.scores = scores
        self.amounts = [charge.units / UNITS_PER_ONE for charge in charges]

    @functools.cached_property
    def laws(self) -> list[np.ndarray]:
        """The logarithm of the exact law of every selection."""
        assert all(scores.dtype == np.int64 for scores in self.scores), "scores must be integers"
        of = {"permute_and_flip": permute_and_flip_law, "exponential": exponential_law}
        return [
            np.log(of[call.kind](scores, float(call.scale)))
            for call, scores in zip(self.calls, self.scores, strict=True)
        ]


class Memo:
    """Observations by table, so that each of the few tables is opened once."""

    def __init__(self, relation: str, contributions: int, budget: mq.Budget, ask: Ask) -> None:
        self._run = lambda units: observe(units, relation, contributions, budget, ask)
        self._known: dict[Any, Observed] = {}

    def __call__(self, units: Sequence[Rows]) -> Observed:
        key = tuple(units)
        if key not in self._known:
            self._known[key] = self._run(units)
        return self._known[key]


SETTINGS = [("add-remove", 1), ("replace", 1), ("add-remove", 2), ("replace", 2)]
TOLERANCE = 1 + 1e-9


Asks = Callable[[Curator, str], list[list[np.ndarray]]]


def gate_noise(ask: Asks, settings: Sequence[tuple[str, int]]) -> None:
    """L2 for doors that add noise: exact loss over all neighbours is within the charge, and scales are public.

    `ask` puts several questions and returns, for each, released integers (values times grid); with noise of zero these
    are the centres of the laws.
    """
    for (relation, m), (law, budget) in itertools.product(settings, (("laplace", PURE), ("gaussian", ZCDP))):
        memo = Memo(relation, m, budget, lambda curator, law=law: ask(curator, law))  # type: ignore[misc]
        for one, other in neighbours(relation, m):
            first, second = memo(one), memo(other)
            assert first.calls == second.calls, "the noise asked for depends on the rows"
            assert first.amounts == second.amounts, "the charge depends on the rows"
            calls = iter(first.calls)
            for released, moved, charged in zip(first.result, second.result, first.amounts, strict=True):
                lost = _loss(law, released, moved, [next(calls) for _ in released])
                assert 0 < charged >= lost / TOLERANCE, f"{relation}, m={m}, {law}: lost {lost}, charged {charged}"


def _loss(law: str, released: Sequence[np.ndarray], moved: Sequence[np.ndarray], calls: Sequence[Call]) -> float:
    """The exact loss between two centres under the noise that was asked for."""
    total = 0.0
    for one, other, call in zip(released, moved, calls, strict=True):
        shift = np.ravel(one) - np.ravel(other)
        assert np.array_equal(shift, np.rint(shift)), "a released value is off the grid"
        assert call.kind == law
        assert call.size == len(shift), "cells do not have noise of their own"
        spread = float(call.scale)
        total += float(np.abs(shift).sum() / spread if law == "laplace" else (shift**2).sum() / (2 * spread))
    return total


def integers(measured: Sequence[Any]) -> list[np.ndarray]:
    return [np.asarray(m.values) * m.question.grid for m in measured]


def gate_measure() -> None:
    def ask(c: Curator, law: Any) -> list[list[np.ndarray]]:
        single = [integers([c.measure(q, **_price(c, 0.7), noise=law)]) for q in QUESTIONS]
        return [*single, integers(c.measure_many(ASKED, **_price(c, 0.7), noise=law, shares=[1, 2, 0.5]))]

    gate_noise(ask, SETTINGS)


SUMS = (
    additive(SCHEMA, {"a": [0.2, 1], "b": [0.5, 1, 0.1]}),
    additive(SCHEMA, {"a": [1 / 3, 1], "b": [1, 1 / 7, 0.2]}, shares={"a": 0.3, "b": 0.6}),
)


def gate_sums() -> None:
    """`measure` of sums over columns, which are counted column by column."""

    def ask(c: Curator, law: Any) -> list[list[np.ndarray]]:
        return [integers([c.measure(query, **_price(c, 0.7), noise=law)]) for query in SUMS]

    assert all(len(compiled(Marginal(SCHEMA, (), query)).reads) == 2 for query in SUMS)
    gate_noise(ask, SETTINGS)


def gate_measure_error() -> None:
    far = np.array([[5.0, 0.4], [0.4, 0.4], [0.4, 0.4]])  # a row that moves into the first cell helps twice

    def ask(c: Curator, law: Any) -> list[list[np.ndarray]]:
        several = c.measure_error(ASKED, PUBLIC, **_price(c, 0.7), noise=law)
        return [[_on_grid(several)], [_on_grid(c.measure_error(ASKED[:1], [far], **_price(c, 0.7), noise=law))]]

    gate_noise(ask, SETTINGS)


def _on_grid(errors: Any) -> np.ndarray:
    return np.asarray(errors.values * errors.grid)


def _price(curator: Curator, amount: float) -> dict[str, Any]:
    return {"epsilon": amount} if curator.budget.accounting == "pure" else {"rho": amount}


def gate_selection(ask: Ask) -> None:
    """L2 for selections: the exact law on all neighbours stays within the charge. `ask` makes several selections."""
    for (relation, m), budget in itertools.product(SETTINGS, (PURE, ZCDP)):
        memo = Memo(relation, m, budget, ask)
        for one, other in neighbours(relation, m):
            first, second = memo(one), memo(other)
            assert first.calls == second.calls, "the selection's scale depends on the rows"
            for law, moved, charged in zip(first.laws, second.laws, first.amounts, strict=True):
                ratio = law - moved
                if budget is PURE:
                    assert np.abs(ratio).max() <= charged * TOLERANCE
                else:  # charged rho = epsilon^2 / 8 for a range of epsilon
                    assert np.ptp(ratio) <= math.sqrt(8 * charged) * TOLERANCE


def gate_select_worst() -> None:
    def ask(c: Curator) -> None:
        price = _price(c, 0.9)
        c.select_worst(ASKED, PUBLIC, **price)
        c.select_worst(ASKED, PUBLIC, **price, signed=True)
        c.select_worst(ASKED, PUBLIC, **price, mechanism="exponential")
        c.select_worst(ASKED, PUBLIC, **price, over="marginals", weights=[0.3, 1.0, 2.5], penalties=[1, 0.25, 0])

    gate_selection(ask)


def gate_select_best() -> None:
    candidates = np.array([[0, 1, 2, 0, 1, 0, 1.0, 0.2, 0.5], [3, 0, 0, 1, 0, 0, 0.0, 1.0, 1.5], np.zeros(9)])

    def ask(c: Curator) -> None:
        c.select_best(ASKED, candidates, **_price(c, 0.9))
        c.select_best(ASKED, candidates, **_price(c, 0.9), mechanism="exponential")

    gate_selection(ask)


def gate_lottery() -> None:
    answers = np.linspace(0.2, 1.7, 9)

    def ask(c: Curator) -> None:
        for between, cap in itertools.product((None, (0.5, 1.5)), (None, 4)):
            c.lottery(ASKED, between=between).draw(answers, draws=1, cap=cap, **_price(c, 0.9))

    gate_selection(ask)


def gate_selection_scores() -> None:
    """L1 for selections: scores and scale equal a short reference, and the index is read back correctly."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),), ((True, "z"),)]
    counts = np.array([[1, 0], [0, 0], [0, 2]])
    public = np.full((3, 2), 0.6)
    errors = counts - np.rint(public)
    seen = observe(people, "add-remove", 1, ZCDP, lambda c: c.select_worst([QUESTIONS[2]], [public], rho=0.5))
    assert seen.scores[0].tolist() == np.abs(errors).ravel().tolist()
    assert seen.calls[0].kind == "exponential"
    assert float(seen.calls[0].scale) * (1 + 1e-6) >= 2 / math.sqrt(8 * 0.5)
    assert (seen.result.index, seen.result.cell) == (0, (0, 0))
    noise = Recording([3, 10])
    with Curator(table(people, 1), ZCDP, noise=noise) as curator:
        absolute = curator.select_worst([QUESTIONS[1], QUESTIONS[2]], [0.0, public], rho=0.5)
        signed = curator.select_worst([QUESTIONS[2]], [public], rho=0.5, signed=True)
    assert (absolute.index, absolute.cell) == (1, (1, 0))
    assert noise.scores[1].tolist() == [*errors.ravel(), *(-errors.ravel())]
    assert (signed.index, signed.cell, signed.sign) == (0, (2, 0), -1)


def gate_exhaustive_noise() -> None:
    """L1 for `measure`: for every noise vector of a grid the output is the count plus that noise, cell by cell."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),), ((True, "z"),)]
    question = Marginal(SCHEMA, ["b"], where("a"))
    script = [value for vector in grid((-3, 0, 2), 3) for value in vector]
    noise = ScriptedNoise(script)
    with Curator(table(people, 1), PURE, noise=noise) as curator:
        for vector in grid((-3, 0, 2), 3):
            released = curator.measure(question, epsilon=0.5).values
            assert released.tolist() == [0 + vector[0], 0 + vector[1], 2 + vector[2]]
    assert set(noise.calls) == {Call("laplace", Fraction(2), 3)}


def gate_guard() -> None:
    """L1 for `guard`: every noise vector of a grid gives the reference's transcript and asks for its noise."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),), ((True, "z"),)]
    queries = [(where("a"), 0.2, 2), (where("b = 'x'"), 1.4, 1), (where("a"), 5.0, 2)]
    stream = [(abs(count - round(public)), count) for _, public, count in queries]
    forms = {"resampled": (PURE, True), "unresampled": (PURE, False), "zcdp": (ZCDP, None)}
    for (form, (budget, refreshed)), hits, numeric in itertools.product(forms.items(), (1, 2), (False, True)):
        scales = reference_scales(form, 2.0, hits, 1, numeric=numeric)
        for vector in itertools.product((-3, 0, 2), repeat=3):
            script = [*vector, 7, -5, 11, 4, 9]
            noise, seen = ScriptedNoise(script), []
            with patched(guard_module, "GRID", 1), Curator(table(people, 1), budget, noise=noise) as curator:
                guard = curator.guard(1.5, hits=hits, numeric=numeric, refreshed=refreshed, **_price(curator, 2.0))
                for query, public, _ in queries:
                    try:
                        seen.append(guard.test(query, public))
                    except GuardSealed:
                        break
            expected, asked = reference_transcript(form, hits, 2, stream, script, numeric=numeric)
            assert [(t.above, t.count) for t in seen] == expected, f"{form}, hits={hits}, noise {vector}"
            assert [call.kind for call in noise.calls] == [law for law, _ in asked]
            for call, (_, role) in zip(noise.calls, asked, strict=True):
                assert abs(float(call.scale) / scales[role] - 1) < 1e-5, f"{form}: {role} noise {call.scale}"


def gate_guard_cost() -> None:
    """L2 for `guard`: exact pattern probabilities on all neighbouring statistics stay within the charge."""
    for m, hits in ((1, 1), (1, 2), (2, 1)):
        units: list[Rows] = [((False, "x"),) * m, ((True, "z"),)]
        with patched(guard_module, "GRID", 1):
            seen = observe(
                units,
                "add-remove",
                m,
                PURE,
                lambda c, hits=hits: c.guard(2.0, hits=hits, epsilon=1.0, numeric=False, refreshed=True).test(  # type: ignore[misc]
                    where("a"), 0.0
                ),
            )
        (threshold, query) = (float(call.scale) for call in seen.calls[:2])
        guard = GuardNoise(hits, threshold, query, refreshed=True)
        worst = max(pattern_loss(guard, p, (-6, -2, 0, 2, 6), sensitivity=m) for p in patterns(3, hits))
        assert worst <= seen.amounts[0] * TOLERANCE, f"m={m}, hits={hits}: lost {worst}, charged {seen.amounts[0]}"


def gate_order() -> None:
    """Charge, then read and draw, then record, then answer."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),)]
    steps: list[str] = []

    class Watched(ScriptedNoise):
        def laplace(self, scale: Fraction, size: int) -> Any:
            steps.append("draw")
            return super().laplace(scale, size)

    with Curator(table(people, 1), PURE, noise=Watched([0] * 99)) as curator:
        ledger = curator.ledger
        with noted_steps(ledger, steps):
            curator.measure(["a"], epsilon=0.5)
        assert steps == ["reserve", "draw", "commit"], steps
        assert ledger.spent() == UNITS_PER_ONE // 2


def gate_replay() -> None:
    """A repeated request returns the recorded numbers, draws nothing and charges nothing."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),)]
    noise = ScriptedNoise([5, -4, 99, 98])
    with Curator(table(people, 1), PURE, noise=noise) as curator:
        first = curator.measure(["a"], epsilon=0.5, request="one")
        again = curator.measure(["a"], epsilon=0.5, request="one")
        assert first.values.tolist() == again.values.tolist() == [6.0, -3.0]
        assert curator.spent.epsilon == 0.5
        description = json.loads(next(curator.ledger.charges()).description)
        assert description["door"] == "measure"
        assert description["events"][0]["times"] == 1


def gate_rows() -> None:
    """Under add-remove the row count is noisy and paid for; under replace it is public."""
    people: list[Rows] = [((False, "x"),), ((True, "z"),)]
    with Curator(table(people, 1), PURE, noise=ScriptedNoise([7])) as curator:
        assert curator.count_rows(epsilon=0.5) == 9.0
        assert curator.spent.epsilon == 0.5
    with Curator(table(people, 1), PURE, relation="replace", noise=ScriptedNoise([])) as curator:
        assert curator.count_rows() == 2.0
        assert curator.spent.epsilon == 0.0


GATES = {
    gate.__name__.removeprefix("gate_"): gate
    for gate in (
        gate_measure,
        gate_sums,
        gate_measure_error,
        gate_select_worst,
        gate_select_best,
        gate_lottery,
        gate_selection_scores,
        gate_exhaustive_noise,
        gate_guard,
        gate_guard_cost,
        gate_order,
        gate_replay,
        gate_rows,
    )
}

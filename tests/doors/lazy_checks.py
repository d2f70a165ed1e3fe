"""Gates of the lazy guard: a reference transcript, exact (epsilon, delta) on small instances, samples, bookkeeping."""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
from door_checks import POINTS, Rows, neighbours, table, where

import maquette as mq
from gate_tools import patched
from maquette.audit.reference import ScriptedNoise, clopper_pearson, discrete_laplace, goodness_of_fit, grid
from maquette.curator import Curator, LazyGuard, lazy_guard as lazy_module
from maquette.errors import BudgetError, GuardSealed, LedgerError
from maquette.query import LinearQuery

EPSILON, DELTA = 1.0, 1e-2
BASIC = mq.Budget(epsilon=9.0, delta=DELTA, accounting="basic")
PEOPLE: list[Rows] = [((False, "x"),), ((True, "z"),), ((True, "z"),)]
COUNTED = ((where("a"), 2), (where("b = 'x'"), 1), (where("a AND b = 'y'"), 0))


def opened(curator: Curator, hits: int, threshold: float = 1.5) -> LazyGuard:
    return curator.lazy_guard(threshold, hits=hits, epsilon=EPSILON)


# L1: every noise vector of a grid, against a reference.


def reference(stream: Sequence[tuple[int, float]], threshold: int, hits: int, noise: Sequence[int]) -> list[Any]:
    """What a lazy guard says to (count, public answer) pairs: a noisy count, nothing, or that it is sealed."""
    said: list[Any] = []
    for (count, public), drawn in zip(stream, noise, strict=False):
        used = sum(isinstance(each, int) for each in said)
        if used == hits:
            said.append("sealed")
            continue
        noisy = count + drawn
        said.append(noisy if abs(noisy - round(public)) > threshold else None)
    return said


def gate_grid() -> None:
    """Transcript, recorded bytes, number of draws and their scale, for all noise vectors of a grid."""
    stream = [(COUNTED[0], 0.2), (COUNTED[1], 1.4), (COUNTED[2], 1.0), (COUNTED[0], 5.0)]
    pairs = [(count, public) for (_, count), public in stream]
    for hits, vector in itertools.product((1, 2), grid((-7, -2, 0, 3), len(stream))):
        noise = ScriptedNoise(vector)
        said: list[Any] = []
        with patched(lazy_module, "GRID", 1), Curator(table(PEOPLE, 1), BASIC, noise=noise) as curator:
            guard = opened(curator, hits)
            for i, ((query, _), public) in enumerate(stream):
                try:
                    tested = guard.test(query, public, request=str(i))
                except GuardSealed:
                    said.append("sealed")
                    continue
                said.append(None if tested.count is None else int(tested.count))
                assert tested.above == (tested.count is not None)
                recorded = curator.recall(str(i))
                assert recorded is not None
                assert recorded[0].tolist() == [int(tested.above), int(tested.count or 0)], "more is kept than is told"
            charged = curator.spent.epsilon
        expected = reference(pairs, 2, hits, vector)
        assert said == expected, f"hits={hits}, noise {vector}"
        assert len(noise.calls) == len(vector) - expected.count("sealed"), "a draw for each test, none once sealed"
        for call in noise.calls:
            assert (call.kind, call.size) == ("laplace", 1)
            assert charged <= EPSILON
            assert renyi_epsilon(hits, 1 / float(call.scale)) <= charged * (1 + 1e-9)


def renyi_epsilon(hits: int, rate: float) -> float:
    """The theorem's epsilon at DELTA, written out plainly."""
    best = math.inf
    for x in np.geomspace(1e-6, math.log(2), 400):
        s, shift = x / rate, (math.exp(x) - 1) * (math.exp(x + rate) - 1)
        if shift < 1:
            tail = math.log(1 / DELTA) + s * math.log(s) - (1 + s) * math.log(1 + s)
            best = min(best, (-hits * math.log(1 - shift) + tail) / s)
    return best


# L2: exact (epsilon, delta).


class Class(NamedTuple):
    """Outputs of one round with the same likelihood ratio, and their probabilities on two neighbours."""

    hit: bool
    here: float
    there: float


Round = tuple[Class, ...]


def exact_round(here: int, there: int, public: int, threshold: int, scale: float) -> Round:
    """The law of one round on two counts, over every value the noise can take (45 scales each way)."""
    reach = int(45 * scale) + abs(here - there) + abs(public) + threshold
    values = np.arange(here - reach, here + reach + 1)
    laws = [discrete_laplace(values - count, scale) for count in (here, there)]
    off = np.abs(values - public) > threshold
    shifts = np.abs(values - there) - np.abs(values - here)
    classes = [
        Class(True, float(laws[0][chosen].sum()), float(laws[1][chosen].sum()))
        for shift in np.unique(shifts)
        for chosen in [off & (shifts == shift)]
        if chosen.any()
    ]
    return (*classes, Class(False, float(laws[0][~off].sum()), float(laws[1][~off].sum())))


def transcript_delta(rounds: Sequence[Round], hits: int, epsilon: float) -> float:
    """The exact hockey-stick divergence at epsilon: a sum over all transcripts of a fixed stream."""
    total = 0.0
    stack = [(0, hits, 1.0, 1.0)]
    while stack:
        i, left, here, there = stack.pop()
        if i == len(rounds) or left == 0:
            total += max(here - math.exp(epsilon) * there, 0.0)
            continue
        stack += [(i + 1, left - part.hit, here * part.here, there * part.there) for part in rounds[i]]
    return total


def adaptive_delta(choices: Sequence[Round], length: int, hits: int, epsilon: float) -> float:
    """The same for the best adaptive adversary that chooses each round among `choices`, or stops."""

    def value(left: int, rest: int, ratio: float) -> float:
        best = max(1.0 - math.exp(epsilon) * ratio, 0.0)
        if left == 0 or rest == 0:
            return best
        for each in choices:
            parts = (part for part in each if part.here > 0)
            outcome = (p.here * value(left - p.hit, rest - 1, ratio * p.there / p.here) for p in parts)
            best = max(best, sum(outcome))
        return best

    return value(hits, length, 1.0)


@functools.cache
def worst_delta(hits: int, rate: float, length: int, epsilon: float) -> float:
    """The same over *all* adaptive adversaries and all laws of a round, by dynamic programming.

    The divergence is convex in the probabilities of a round, so the worst rounds are three: a hit that speaks against
    the first neighbour with silence for it, the reverse, and a certain hit. All their losses are plus or minus `rate`,
    so states are whole numbers.
    """
    strong = 1 / (1 + math.exp(-rate))
    losses = np.arange(-length - 1, length + 2)
    stop = np.maximum(1 - np.exp(epsilon - losses * rate), 0.0)
    values = np.tile(stop, (hits + 1, 1))
    for _ in range(length):
        up, down = np.roll(values, -1, axis=1), np.roll(values, 1, axis=1)
        new = values.copy()
        against = strong * up[1:] + (1 - strong) * down[:-1]
        towards = (1 - strong) * down[1:] + strong * up[:-1]
        certain = strong * up[:-1] + (1 - strong) * down[:-1]
        new[1:] = np.maximum.reduce([np.broadcast_to(stop, against.shape), against, towards, certain])
        values = new
    return float(values[hits, length + 1])


def constant_delta(*, hits: int, rate: float, chance: float, sign: int, length: int, epsilon: float) -> float:
    """The same for the adversary whose every round hits with this chance, e^(sign * rate) times as often next door.

    Transcripts are counted by how often they are silent before they end.
    """
    other = chance * math.exp(sign * rate)
    silent = np.arange(length)
    ways = np.array([math.lgamma(n + hits) - math.lgamma(n + 1) - math.lgamma(hits) for n in silent])
    logs = [ways + hits * math.log(p) + silent * math.log1p(-p) for p in (chance, other)]
    return float(np.maximum(np.exp(logs[0]) - np.exp(epsilon + logs[1]), 0.0).sum())


class Instance(NamedTuple):
    """A guard on tables of a few rows: what it counted, the noise it asked for, what it charged, what it allows."""

    counts: tuple[int, ...]
    scale: Fraction
    charged: float
    hits: int


def instance(units: tuple[Rows, ...], relation: str, contributions: int, hits: int) -> Instance:
    """Open a guard on a table and read its counts off answers that are far from the truth."""
    queries = [where(f"{'' if a else 'NOT '}a AND b = '{b}'") for a, b in POINTS] + [where("a")]
    counts: list[int] = []
    with patched(lazy_module, "GRID", 1):
        for start in range(0, len(queries), hits):
            noise = ScriptedNoise([0] * hits)
            with Curator(table(units, contributions), BASIC, relation=relation, noise=noise) as curator:  # type: ignore[arg-type]
                guard = opened(curator, hits)
                allowed, charged = guard.hits_left, curator.spent.epsilon
                counts += [int(guard.test(query, -99.0).count or 0) for query in queries[start : start + hits]]
                scale = noise.calls[0].scale
                assert {call.scale for call in noise.calls} == {scale}
    return Instance(tuple(counts), scale, charged, allowed)


def gate_cost() -> None:
    """Exact (epsilon, delta) for all neighbours: transcripts of six rounds, adaptive ones, and 200 of the worst."""
    for relation, m, hits in (("add-remove", 1, 2), ("replace", 1, 3), ("add-remove", 2, 1), ("replace", 2, 2)):
        seen: dict[Any, Instance] = {}
        shifts: set[tuple[int, int]] = set()
        for pair in neighbours(relation, m):
            for units in map(tuple, pair):
                if units not in seen:
                    seen[units] = instance(units, relation, m, hits)
            here, there = (seen[tuple(units)] for units in pair)
            assert here[1:] == there[1:], "noise, charge or hits depend on the rows"
            shifts |= set(zip(here.counts, there.counts, strict=True)) | set(
                zip(there.counts, here.counts, strict=True)
            )
        known = next(iter(seen.values()))
        moved = max(abs(here - there) for here, there in shifts)
        assert moved == m
        audit(known, {here - there for here, there in shifts}, moved)


def audit(known: Instance, shifts: Iterable[int], moved: int) -> None:
    """Compare the exact divergences of an instance with its charge."""
    scale, charged, hits = float(known.scale), known.charged, known.hits
    for shift in shifts:
        choices = [
            exact_round(0, shift, public, threshold, scale)
            for public, threshold in ((-5, 5), (5 + shift, 4), (0, int(scale)), (shift, int(3 * scale)))
        ]
        for each in choices:
            assert transcript_delta([each] * 6, hits, charged) <= DELTA
        mixed = [choices[i % len(choices)] for i in range(6)]
        assert transcript_delta(mixed, hits, charged) <= DELTA
        assert adaptive_delta(choices[:3], 4, hits, charged) <= DELTA
    for length in (6, 80, 200):
        worst = worst_delta(hits, moved / scale, length, charged)
        assert worst <= DELTA, f"hits={hits}: delta {worst} at the charged epsilon {charged}"


# L3: the production noise.


def gate_samples() -> None:
    """How often tests hit, and what they release, at the law that the audit computes with."""
    tests, threshold, public = 2000, 40.0, 20.0
    with patched(lazy_module, "GRID", 1), Curator(table(PEOPLE, 1), BASIC) as curator:
        guard = opened(curator, tests, threshold)
        scale = guard.scale
        seen = [guard.test(where("a"), public).count for _ in range(tests)]
    hit = [int(value) for value in seen if value is not None]
    values = np.arange(-int(45 * scale), int(45 * scale) + 1)
    law = discrete_laplace(values - 2, scale)
    off = np.abs(values - public) > threshold
    low, high = clopper_pearson(len(hit), tests, 1e-7)
    assert low <= law[off].sum() <= high, f"{len(hit)} of {tests} hits"
    assert len(hit) > tests / 2, "most tests must release something for the next check"
    edges = np.quantile(values, np.linspace(0, 1, 4000))
    cells = np.searchsorted(edges, values[off])
    observed = np.bincount(np.searchsorted(edges, hit), minlength=len(edges) + 1)
    expected = np.bincount(cells, weights=law[off], minlength=len(edges) + 1)
    assert goodness_of_fit(observed, expected / expected.sum()) > 1e-6


# Bookkeeping.


def gate_order() -> None:
    """The guard is charged and recorded before it exists; each test reserves a hit, draws, records, answers."""
    steps: list[str] = []

    class Watched(ScriptedNoise):
        def laplace(self, scale: Fraction, size: int) -> Any:
            steps.append("draw")
            return super().laplace(scale, size)

    with Curator(table(PEOPLE, 1), BASIC, noise=Watched([0] * 9)) as curator:
        ledger = curator.ledger
        names = ("reserve", "commit", "open_guard")
        originals = {name: getattr(ledger, name) for name in names}

        def spy(name: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                done = originals[name](*args, **kwargs)
                steps.append(name)
                return done

            return call

        spies: dict[str, Any] = {name: spy(name) for name in names}
        with mock.patch.multiple(ledger, **spies):
            guard = opened(curator, 2)
            assert ledger.spent() > 0
            guard.test(where("a"), 2.0)
            guard.test(where("a"), 50.0)
    assert steps == ["reserve", "commit", "open_guard", *["reserve", "draw", "commit"] * 2], steps


def gate_once() -> None:
    """A ledger opens one lazy guard: not a second, not with other parameters, not after a restart."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        with Curator(table(PEOPLE, 1), BASIC, ledger=path, noise=ScriptedNoise([])) as curator:
            guard = opened(curator, 2)
            spent = curator.ledger.spent()
            for again in (
                lambda: opened(curator, 2),
                lambda: opened(curator, 3),
                lambda: opened(curator, 2, threshold=9.0),
                lambda: curator.lazy_guard(1.5, hits=2, epsilon=1.0, analyst="other"),
            ):
                with pytest.raises(BudgetError, match="took all of the delta"):
                    again()
            assert curator.ledger.spent() == spent
            assert guard.hits_left == 2
        with Curator(table(PEOPLE, 1), BASIC, ledger=path, noise=ScriptedNoise([])) as curator:
            for hits in (2, 3):
                with pytest.raises(BudgetError, match="took all of the delta"):
                    opened(curator, hits)
            assert curator.ledger.spent() == spent


def gate_interrupted() -> None:
    """A crash between the charge and the guard wastes nothing and opens nothing twice."""
    with Curator(table(PEOPLE, 1), BASIC, noise=ScriptedNoise([9])) as curator:
        failing = mock.Mock(side_effect=LedgerError("power"))
        with mock.patch.object(curator.ledger, "open_guard", failing), pytest.raises(LedgerError, match="power"):
            opened(curator, 1)
        spent = curator.ledger.spent()
        guard = opened(curator, 1)
        assert curator.ledger.spent() == spent > 0
        assert guard.test(where("a"), -99.0).above
        with pytest.raises(GuardSealed):
            guard.test(where("a"), -99.0)


def gate_replay() -> None:
    """A repeated test returns what it said, draws nothing and takes no further hit."""
    noise = ScriptedNoise([5, 99, 98])
    with patched(lazy_module, "GRID", 1), Curator(table(PEOPLE, 1), BASIC, noise=noise) as curator:
        guard = opened(curator, 2)
        first = guard.test(where("a"), 40.0, request="one")
        assert guard.test(where("a"), 40.0, request="one") == first
        assert (first.count, guard.hits_left, noise.used) == (7.0, 1, 1)


def gate_weights() -> None:
    """Weights in [0, 1] are counted on the guard's grid, whatever the question's own."""
    half = LinearQuery.product(table(PEOPLE, 1).schema, {"b": [0.25, 1 / 3, 0.5]})
    with Curator(table(PEOPLE, 1), BASIC, noise=ScriptedNoise([0, 0])) as curator:
        guard = opened(curator, 2)
        assert guard.test(half, 100.0).count == 1.25
        assert guard.test(where("a"), 100.0).count == 2.0


LAZY_GATES = {
    gate.__name__.removeprefix("gate_"): gate
    for gate in (
        gate_grid,
        gate_cost,
        gate_samples,
        gate_order,
        gate_once,
        gate_interrupted,
        gate_replay,
        gate_weights,
    )
}

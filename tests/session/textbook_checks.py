"""Gates that OnlineIC as a whole must pass, on a universe of three points with three rows."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

import maquette as mq
from maquette.answers.result import Answer
from maquette.audit.reference import (
    GuardNoise,
    ScriptedNoise,
    discrete_laplace,
    pattern_probabilities,
    reference_scales,
)
from maquette.hypothesis import MultiplicativeWeights
from maquette.privacy import UNITS_PER_ONE
from maquette.query import LinearQuery
from maquette.schema import Schema
from maquette.session.textbook.plan import Plan

# Modules by name: mutants patch what these look up.
textbook: Any = importlib.import_module("maquette.session.textbook.online_ic")
plans: Any = importlib.import_module("maquette.session.textbook.plan")
guards: Any = importlib.import_module("maquette.curator.guard")

TINY = Schema([mq.Category("x", ["a", "b", "c"])])
ASKED = tuple(mq.where(TINY, text) for text in ("x = 'a'", "x IN ('a', 'b')", "x = 'c'"))
EVERY = LinearQuery.constant(TINY)
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=9e3, delta=1e-9)
ROWS = 3
PRICE = 2.0
HITS = 2
THRESHOLD = 1
RESOLUTION = 0.2
BIG = 10**6
TOLERANCE = 1 + 1e-9

CALIBRATED: dict[Any, Any] = {}

Counts = tuple[int, ...]


def total(counts: Counts, query: LinearQuery) -> int:
    return int((query.weights() * np.array(counts)).sum())


@functools.cache
def table(counts: Counts) -> mq.PrivateTable:
    return mq.open_table({"x": [level for level, many in zip("abc", counts, strict=True) for _ in range(many)]}, TINY)


def tables(rows: int) -> list[Counts]:
    return [c for c in itertools.product(range(rows + 1), repeat=3) if sum(c) == rows]


class Script(ScriptedNoise):
    """Scripted noise that can be given another script."""

    def load(self, values: Sequence[int]) -> None:
        self._values, self.used, self.calls = list(values), 0, []


def calibrated_once(calibrated: Any) -> Any:
    """The same calibration, remembered: thousands of sessions ask for the same guard."""

    def once(transaction: Any, *facts: Any, **settings: Any) -> Any:
        key = (calibrated, transaction.budget, facts, tuple(settings.items()))
        if key not in CALIBRATED:
            CALIBRATED[key] = calibrated(transaction, *facts, **settings)
        return CALIBRATED[key]

    return once


@contextmanager
def fixed(refreshed: bool | None, *, hits: int = HITS) -> Iterator[None]:
    """Sessions with the same small parameters, whatever their budget, on a grid of whole rows."""
    made = Plan(
        alpha=0.9,
        resolution=RESOLUTION,
        threshold=THRESHOLD,
        hits=hits,
        units=PRICE * UNITS_PER_ONE,
        refreshed=refreshed,
        answer_error=0.5,
    )
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(textbook, "plan", return_value=made))
        stack.enter_context(mock.patch.object(guards, "GRID", 1))
        stack.enter_context(mock.patch.object(guards, "_calibrated", calibrated_once(guards._calibrated)))
        yield


FORMS: dict[str, tuple[mq.Budget, bool | None]] = {
    "resampled": (PURE, True),
    "unresampled": (PURE, False),
    "zcdp": (ZCDP, None),
}


def reference(
    form: str, counts: Counts, stream: Sequence[LinearQuery], script: Sequence[int]
) -> tuple[list[Any], list[str]]:
    """Algorithm 11, corrected, on floats and lists: answers with their source, and the noise asked for by role."""
    noise, model, hits, seen = iter(script), np.full(3, 1 / 3), 0, {}
    roles, rows = ["threshold"], sum(counts)
    noisy = THRESHOLD + next(noise)
    answers = []
    for query in stream:
        if query not in seen:
            f, count = query.weights(), total(counts, query)
            public = float(f @ model)
            seen[query] = ("hypothesis", public, hits < HITS)
            if hits < HITS:
                roles.append("query")
                if abs(count - round(public * rows)) + next(noise) >= noisy:
                    value = (count + next(noise)) / rows
                    seen[query], hits = ("measured", min(1.0, max(0.0, value)), True), hits + 1
                    roles.append("answer")
                    if form != "unresampled":
                        noisy = THRESHOLD + next(noise)
                        roles.append("threshold")
                    model = model * np.exp(np.sign(value - public) * 4 * RESOLUTION * f)
                    model = model / model.sum()
        answers.append(seen[query])
    return answers, roles


def gate_reference() -> None:
    """L1: for every noise vector of a grid, answers and requested noise are those of the reference."""
    stream = (ASKED[0], ASKED[1], ASKED[0], ASKED[2], mq.where(TINY, "x = 'b'"))
    for (form, (budget, refreshed)), counts in zip(FORMS.items(), ((2, 1, 0), (0, 0, 3), (1, 0, 2)), strict=True):
        scales = reference_scales(form, PRICE, HITS, 1, numeric=True)
        noise = Script([])
        with fixed(refreshed), mq.Curator(table(counts), budget, relation="replace", noise=noise) as curator:
            for vector in itertools.product((-2, 0, 1), repeat=5):
                script = [*vector, 1, -1, 2, 0, 1]
                noise.load(script)
                session = textbook.OnlineIC(curator, queries=9)
                seen = [session.ask(query) for query in stream]
                expected, roles = reference(form, counts, stream, script)
                where = f"{form}, {counts}, noise {vector}"
                assert [a.source for a in seen] == [source for source, _, _ in expected], where
                assert np.allclose([a.value for a in seen], [value for _, value, _ in expected], atol=1e-12), where
                assert [a.guarantee is not None for a in seen] == [kept for _, _, kept in expected], where
                hits = len({id(a) for a in seen if a.source == "measured"})
                assert (session.updates, session.hits_left) == (hits, HITS - hits), where
                assert session.status == ("exhausted" if hits == HITS else "open"), where
                assert len(noise.calls) == len(roles), where
                for call, role in zip(noise.calls, roles, strict=True):
                    assert abs(float(call.scale) / scales[role] - 1) < 1e-5, f"{where}: {role} noise {call.scale}"


Event = int | None  # nothing, or a released count


class Run:
    """A transcript on one table: its log-probability, what the session said, its price, the noise it asked for."""

    def __init__(self, log_probability: float, answers: list[Answer], charged: float, scales: list[float]) -> None:
        self.log_probability = log_probability
        self.answers = [(a.value, a.low, a.high, a.count, a.source, a.guarantee) for a in answers]
        self.charged = charged
        self.scales = scales


class Toy:
    """A table that can be made to say any transcript, by noise that leaves no choice; rows, where private, are ROWS."""

    def __init__(self, counts: Counts, relation: Any, *, refreshed: bool) -> None:
        self.counts = counts
        self.refreshed = refreshed
        self.estimated = relation == "add-remove"
        self.noise = Script([])
        self._open = lambda: mq.Curator(table(counts), PURE, relation=relation, noise=self.noise)
        self._curator = self._open()

    def run(self, transcript: Sequence[Event]) -> Run:
        """Force a transcript, and sum the exact law over all noise that would have made it."""
        drawn = [("rows", ROWS - sum(self.counts))] if self.estimated else []
        drawn.append(("threshold", 0))
        for query, event in zip(ASKED, transcript, strict=False):
            drawn.append(("query", -BIG if event is None else BIG))
            if event is not None:
                drawn.append(("answer", event - total(self.counts, query)))
                drawn += [("threshold", 0)] if self.refreshed else []
        self.noise.load([*(value for _, value in drawn), *[0] * 8])
        answers, statistics, charged = self._session()
        for answer, event in zip(answers, transcript, strict=False):
            assert event is None or answer.unbiased == event / ROWS, "a released count is not what its noise made it"
        scales = [float(call.scale) for call in self.noise.calls]
        assert len(scales) >= len(drawn), "less noise was drawn than the transcript takes"
        law = GuardNoise(HITS, scales[self.estimated], scales[self.estimated + 1], refreshed=self.refreshed)
        pattern = [event is not None for event in transcript][: len(statistics)]
        logs = _pattern(law, tuple(pattern), tuple(s - THRESHOLD for s in statistics[: len(pattern)]))
        for (role, value), scale in zip(drawn, scales, strict=False):
            logs += math.log(float(discrete_laplace(value, scale))) if role in ("rows", "answer") else 0.0
        return Run(logs, answers, charged, scales)

    def _session(self) -> tuple[list[Answer], list[int], float]:
        statistics: list[int] = []
        original = guards.SparseVector.test

        def spy(vector: Any, private: int, **settings: Any) -> Any:
            statistics.append(private)
            return original(vector, private, **settings)

        if self.estimated:  # a second session would be given the recorded estimate
            self._curator.close()
            self._curator = self._open()
        with mock.patch.object(guards.SparseVector, "test", spy):
            before = self._curator.ledger.spent()
            session = textbook.OnlineIC(self._curator, queries=9, epsilon=PRICE)
            answers = [session.ask(query) for query in ASKED]
            return answers, statistics, (self._curator.ledger.spent() - before) / UNITS_PER_ONE


@functools.cache
def _pattern(law: GuardNoise, pattern: tuple[bool, ...], statistics: tuple[int, ...]) -> float:
    return math.log(float(pattern_probabilities(law, pattern, [[s] for s in statistics])[0]))


def transcripts(values: Sequence[int]) -> list[tuple[Event, ...]]:
    """All that three questions can bring, cut after the last hit; the rest is the model's, whatever the rows."""
    found = set()
    for full in itertools.product((None, *values), repeat=len(ASKED)):
        hits = list(itertools.accumulate(int(event is not None) for event in full))
        found.add(full[: hits.index(HITS) + 1] if HITS in hits else full)
    return sorted(found, key=repr)


def gate_exact_loss() -> None:
    """L2: over all transcripts and neighbours, the exact loss is within the charge, and answers owe rows nothing more.

    A transcript is what tests and numeric answers release. Given it, everything a session says must be the same on
    neighbours, to the bit.
    """
    for relation, refreshed in (("add-remove", True), ("replace", True), ("replace", False)):
        with fixed(refreshed):
            _audit(relation, refreshed)


def _audit(relation: str, refreshed: bool) -> None:
    moved = 1 if relation == "add-remove" else 2
    sizes = (ROWS - 1, ROWS) if relation == "add-remove" else (ROWS,)
    near = [Toy(c, relation, refreshed=refreshed) for n in sizes for c in tables(n)]
    worst = 0.0
    for transcript in transcripts((-1, 4)):
        runs = [(toy.counts, toy.run(transcript)) for toy in near]
        for (one, first), (other, second) in itertools.combinations(runs, 2):
            if sum(abs(a - b) for a, b in zip(one, other, strict=True)) == moved:
                where = f"{relation}, refreshed={refreshed}, {transcript} on {one} and {other}"
                assert first.scales == second.scales, f"the noise asked for depends on the rows: {where}"
                assert first.answers == second.answers, f"an answer depends on the rows: {where}"
                assert first.charged == second.charged, f"the charge depends on the rows: {where}"
                lost = abs(first.log_probability - second.log_probability)
                assert lost <= first.charged * TOLERANCE, f"lost {lost}, charged {first.charged}: {where}"
                worst = max(worst, lost)
    assert worst > 0.25 * PRICE, f"the audit is idle: {relation}, {refreshed}, {worst}"


def gate_noise_ignores_the_number_of_queries() -> None:
    """Privacy never depends on k: at one resolution the noise is the same for ten questions and for a million."""
    asked = []
    many = mq.open_table({"x": ["a"] * 150_000 + ["b"] * 50_000}, TINY)
    for queries in (10, 10**6):
        noise = Script([0] * 64)
        with mq.Curator(many, mq.Budget(epsilon=1.0), relation="replace", noise=noise) as curator:
            session = textbook.OnlineIC(curator, MultiplicativeWeights(TINY, alpha=0.2), queries=queries)
            for query in ASKED:
                session.ask(query)
            asked.append(([call.scale for call in noise.calls[:2]], curator.ledger.spent()))
    assert asked[0] == asked[1]


def gate_constants_change_nothing() -> None:
    """Questions that all rows weigh alike in are answered exactly, draw no noise and leave everything as it was."""
    runs = []
    for stream in (ASKED, (mq.where(TINY, "x IN ('a', 'b', 'c')"), ASKED[0], EVERY, ASKED[1], ~EVERY, ASKED[2])):
        noise = Script([0, -1, 2, 1, 0, 1, 1, 0, 2])
        with fixed(True), mq.Curator(table((2, 1, 0)), PURE, relation="replace", noise=noise) as curator:
            session = textbook.OnlineIC(curator, queries=9)
            answers = {query: session.ask(query) for query in stream}
            runs.append(([answers[query] for query in ASKED], noise.calls, session.updates, session.hits_left))
    assert runs[0] == runs[1]
    assert (answers[EVERY].value, answers[~EVERY].value) == (1.0, 0.0)
    assert (answers[EVERY].low, answers[EVERY].high) == (1.0, 1.0)


GATES = {
    gate.__name__.removeprefix("gate_"): gate
    for gate in (
        gate_reference,
        gate_exact_loss,
        gate_noise_ignores_the_number_of_queries,
        gate_constants_change_nothing,
    )
}

"""Gates every session must pass, on a universe of four points: they see answers, requested noise and charges only."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy.special import ndtri

import maquette as mq
from gate_tools import Rows as Engine, noted_steps, tallied
from maquette.audit.reference import (
    GuardNoise,
    ScriptedNoise,
    ScriptExhausted,
    discrete_gaussian,
    discrete_laplace,
    epsilon_lower_bound,
    grid,
    pattern_loss,
    patterns,
    renyi,
)
from maquette.curator import Curator, curator as doors, guard as guards
from maquette.errors import BudgetExceeded, MaquetteError
from maquette.privacy import UNITS_PER_ONE
from maquette.privacy.relation import Kind
from maquette.query import Contrasts, Marginal
from maquette.session import Session

SCHEMA = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
POINTS = [(a, b) for a in (0, 1) for b in (0, 1)]
PURE = mq.Budget(epsilon=9e3)
ZCDP = mq.Budget(rho=1e3, delta=1e-9)
BASE = ((0, 0), (1, 1), (1, 0), (1, 1))
TOLERANCE = 1 + 1e-9

Rows = tuple[tuple[int, int], ...]
Units = tuple[Rows, ...]
Adversary = Callable[[Session], list[str]]


def table(units: Units, contributions: int = 1) -> mq.PrivateTable:
    """A table of units (people), each with its rows; opened once."""
    return _table(units, contributions)


@functools.cache
def _table(units: Units, contributions: int) -> mq.PrivateTable:
    rows = [(name, *row) for name, unit in enumerate(units) for row in unit]
    columns = {
        "person": [row[0] for row in rows],
        "a": [bool(row[1]) for row in rows],
        "b": [bool(row[2]) for row in rows],
    }
    if contributions == 1:
        return mq.open_table(columns, SCHEMA)
    return mq.open_table(columns, SCHEMA, privacy_unit="person", max_contributions=contributions)


def single(rows: Rows) -> Units:
    return tuple((row,) for row in rows)


def neighbours(relation: str, contributions: int) -> list[tuple[Units, Units]]:
    """Pairs of tables over a fixed rest; by linearity of counts these are all the differences there are."""
    rest = single(BASE)
    every = [
        unit for size in range(1, contributions + 1) for unit in itertools.combinations_with_replacement(POINTS, size)
    ]
    if relation == "add-remove":
        return [(rest, (*rest, unit)) for unit in every]
    return [((*rest, one), (*rest, other)) for one, other in itertools.combinations(every, 2)]


def exact(question: Marginal | Contrasts, units: Units) -> np.ndarray:
    """What a question is on a table, without the engine: the centre of the law of what is released."""
    records = np.array([row for unit in units for row in unit], dtype=np.int64)
    return np.ravel(tallied(Engine(SCHEMA, records), question))


def replaced(question: Marginal | Contrasts) -> int:
    """How far the replacement of a row moves a question, at most: one for a count, two for a contrast."""
    each = [exact(question, (((a, b),),)) for a, b in POINTS]
    return max(int(np.abs(one - other).sum()) for one, other in itertools.combinations(each, 2))


class Draw(NamedTuple):
    """One request for noise at a door: for what, of which law, and what was released (None: nothing yet)."""

    question: Marginal | Contrasts | None
    kind: str
    scale: Fraction
    released: tuple[int, ...] | None


class Steered:
    """Noise that makes the doors release `centre + script` whatever the rows are, for `centre` on a table of its own.

    So two runs with one script release the same integers on any two tables, and a session that only post-processes what
    is released must not tell the tables apart. A test of a guard is steered likewise.
    """

    def __init__(self, script: Sequence[int], centre: Units) -> None:
        self._script = list(script)
        self._centre = centre
        self._pending: tuple[Marginal | Contrasts | None, np.ndarray, np.ndarray] | None = None
        self.draws: list[Draw] = []

    def expect(self, question: Marginal | Contrasts | None, true: np.ndarray, steered: np.ndarray) -> None:
        """Say what the next noise will be added to, here and on the table in the centre."""
        self._pending = question, np.ravel(true), np.ravel(steered)

    def laplace(self, scale: Fraction, size: int) -> np.ndarray:
        return self._next("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> np.ndarray:
        return self._next("gaussian", variance, size)

    def exponential(self, scores: np.ndarray, scale: Fraction) -> int:
        raise AssertionError("a session makes no selections")

    permute_and_flip = exponential

    def centre_of(self, question: Marginal | Contrasts) -> np.ndarray:
        return exact(question, self._centre)

    def _next(self, kind: str, scale: Fraction, size: int) -> np.ndarray:
        question, true, centre = self._pending or (None, np.zeros(size), np.zeros(size))
        self._pending = None
        assert len(true) == size, "cells do not have noise of their own"
        if len(self._script) < size:
            self.draws.append(Draw(question, kind, scale, None))
            raise ScriptExhausted(f"{size} values wanted, {len(self._script)} left")
        noise = np.array(self._script[:size], dtype=np.int64)
        if question is None:
            noise *= guards.GRID  # the noise of a guard is in these units
        del self._script[:size]
        self.draws.append(Draw(question, kind, scale, tuple(int(value) for value in centre + noise)))
        return (centre + noise - true).astype(np.int64)


@contextmanager
def steered(script: Sequence[int], centre: Units) -> Iterator[Steered]:
    """Steer the doors: the noise learns what it is added to just before it is asked for."""
    noise = Steered(script, centre)
    tally, test = doors.tally, guards.SparseVector.test

    def seen(engine: Any, question: Any) -> Any:
        counts = tally(engine, question)
        noise.expect(question, counts, noise.centre_of(question))
        return counts

    def tested(self: Any, private: int, *, answer_of: int | None = None) -> Any:
        # A statistic is the largest distance of a cell from the public answer; on the centre it is taken to be zero.
        noise.expect(None, np.array([private]), np.array([0]))
        return test(self, private, answer_of=answer_of)

    with (
        mock.patch.object(doors, "tally", seen),
        mock.patch.object(guards.SparseVector, "test", tested),
    ):
        yield noise


class Setting(NamedTuple):
    """How a session is opened."""

    budget: mq.Budget
    relation: Kind
    alpha: float = 0.25
    beta: float = 0.5
    contributions: int = 1
    rows: int | None = None
    simultaneous: bool = False
    warm_start: Any = "none"

    def opened(self, curator: Curator, **named: Any) -> Session:
        options = {
            "alpha": self.alpha,
            "beta": self.beta,
            "simultaneous": self.simultaneous,
            "rows": self.rows,
            "warm_start": self.warm_start,
        }
        return mq.online(curator, **{**options, **named})


def told(answer: Any) -> str:
    """Everything an answer says, as text."""
    if isinstance(answer, mq.Answer):
        return repr(dataclasses.astuple(answer))
    return repr((answer.group_titles, [(row.groups, [told(row[title]) for title in answer.titles]) for row in answer]))


def numbers(answer: Any) -> Any:
    """What must never change about an answer, whenever it is asked again."""
    if isinstance(answer, mq.Answer):
        return answer.value, answer.low, answer.high, answer.count, answer.confidence, answer.guarantee
    return [(row.groups, [numbers(row[title]) for title in answer.titles]) for row in answer]


class Run(NamedTuple):
    """One session from opening to end: all that anybody sees of it."""

    transcript: tuple[str, ...]
    draws: tuple[Draw, ...]
    spent: int
    finished: bool


def run(
    setting: Setting, units: Units, adversary: Adversary, script: Sequence[int], centre: Units | None = None
) -> Run:
    """Play an adversary on a table with scripted noise, and write down everything public."""
    lines: list[str] = []
    finished = True
    with (
        steered(script, centre or units) as noise,
        Curator(table(units, setting.contributions), setting.budget, relation=setting.relation, noise=noise) as curator,
    ):
        try:
            session = setting.opened(curator)
            lines += adversary(session)
            lines += [repr(session), repr(session.tolerance), repr(session.rows)]
        except ScriptExhausted:
            finished = False
        except MaquetteError as refusal:
            lines.append(f"{type(refusal).__name__}: {refusal}")
        charges = [(c.id, c.analyst, c.units, c.state, c.description) for c in curator.ledger.charges()]
        lines += [repr(charge) for charge in charges]
        return Run(tuple(lines), tuple(noise.draws), curator.ledger.spent(), finished)


def branching(session: Session) -> list[str]:
    """Ask, look at the answer, and ask accordingly."""
    first = session.ask("a")
    assert isinstance(first, mq.Answer)
    second = session.ask("b" if first.value > 0.7 else "NOT a AND b")
    return [told(first), told(second)]


def bisecting(session: Session) -> list[str]:
    """Choose every question by the size of the answer before it."""
    questions = {0: "a AND b", 1: "b", 2: "a OR b"}
    first = session.ask("b")
    assert isinstance(first, mq.Answer)
    second = session.ask(questions[min(2, int(3 * first.value))])
    return [told(first), told(second)]


def curious(session: Session) -> list[str]:
    """All ways to ask, and all that a session says beside its answers."""
    lines = [str(session.explain("a")), told(session.ask("a")), told(session.ask("a"))]
    lines += [told(one) for one in session.ask_many(["b", "SELECT a, count(*) FROM t GROUP BY a"])]
    lines += [str(session.explain("a AND b")), told(session.ask("a AND b", analyst="ann")), told(session.ask("NOT a"))]
    lines += [str(session.spent_by("ann")), str(session.remaining), session.outlook(2), session._repr_html_()]
    return lines


def thrifty(session: Session) -> list[str]:
    """Go on when the budget is gone: the public model answers, without a promise."""
    questions = ("a", "b", "a AND b", "a OR b", "a AND NOT b", "SELECT a, b, count(*) FROM t GROUP BY a, b")
    lines = [told(session.ask(question)) for question in questions]
    for question in questions:
        try:
            lines.append(told(session.ask(question, strict=True)))
        except BudgetExceeded as refusal:
            lines.append(str(refusal))
    return lines


def guarded(session: Session) -> list[str]:
    """Let a guard test the public model, whatever the account of regret says."""
    first = told(session.ask("a"))
    session._policy._arm()
    return [first, *(told(session.ask(question)) for question in ("b", "a AND b", "a OR b"))]


SETTINGS = {
    "pure": (Setting(PURE, "add-remove", rows=4), curious),
    "pure, replace": (Setting(PURE, "replace"), curious),
    "concentrated": (Setting(ZCDP, "add-remove", rows=4), curious),
    "Gaussian": (Setting(mq.Budget(epsilon=50.0, delta=1e-9, accounting="gdp"), "add-remove", rows=40), curious),
    "rows unknown": (Setting(PURE, "add-remove", alpha=0.5), branching),
    "together": (Setting(PURE, "add-remove", rows=4, simultaneous=True, beta=0.9), branching),
    "histogram": (Setting(PURE, "add-remove", rows=4, warm_start="histogram"), branching),
    "auto": (Setting(PURE, "add-remove", rows=4, warm_start="auto"), branching),
    "exhausted": (Setting(mq.Budget(epsilon=3.0), "add-remove", rows=4), thrifty),
    "exhausted, replace": (Setting(mq.Budget(epsilon=3.0), "replace"), thrifty),
    "guarded": (Setting(PURE, "add-remove", rows=4), guarded),
}


def gate_public_only(name: str) -> None:
    """Perfect simulation: whatever is released being equal, nothing public differs between any two tables.

    The tables differ in everything, their number of rows too where it is private. Together with `gate_exact_epsilon`
    (what is released is private) this is the proof by post-processing, run on the whole session.
    """
    setting, adversary = SETTINGS[name]
    others = [single(((0, 0), (0, 1), (0, 1), (0, 0))), single(((1, 1), (1, 1), (1, 1), (1, 0)))]
    if setting.relation == "add-remove":
        others.append(single(tuple(POINTS * 4)))
    for shift in (2, -1):
        script = [shift, 1, 0, -1, 0, 2, 0, 1] * 30
        seen = run(setting, single(BASE), adversary, script)
        assert seen.finished
        assert adversary is not guarded or any('"guard.test"' in line for line in seen.transcript)
        assert adversary is not thrifty or any("Nothing was charged" in line for line in seen.transcript)
        for other in others:
            there = run(setting, other, adversary, script, single(BASE))
            assert seen.transcript == there.transcript, "the tables can be told apart"
            assert [d[1:] for d in seen.draws] == [d[1:] for d in there.draws], "the noise depends on the rows"
            assert seen.spent == there.spent, "the charge depends on the rows"


def _unit_width(law: str, beta: float) -> float:
    """The half-width that noise of deviation one (Gaussian) or scale one (Laplace) has at doubt beta."""
    if law == "gaussian":
        return float(ndtri(1 - beta / 2))
    return math.log(2 / beta)


def reference(rows: Rows, law: str, alpha: float, beta: float, noise: Sequence[int]) -> tuple[list[Any], list[float]]:
    """A session on two yes/no columns under replace, from its definition: answers and noise scales, in order.

    A contrast (those without less those with) of noise scale s gives a count half of its noise; the price is the least
    at which that half stays within alpha of the rows.
    """
    n, source = len(rows), iter(noise)
    tolerance = alpha * n - (0.5 if law == "gaussian" else 0.0)
    scale = 2 * tolerance / _unit_width(law, beta)
    counts: dict[int, float] = {}
    answers, scales = [], []
    for column, negated in ((0, False), (0, True), (1, False), (0, False), (1, True)):
        source_of = "derived"
        if column not in counts:
            source_of = "measured"
            difference = sum(1 - 2 * row[column] for row in rows)
            counts[column] = (n - difference - next(source)) / 2
            scales.append(scale**2 if law == "gaussian" else scale)
        elif (column, negated) == (0, False):
            source_of = "cache"
        share = counts[column] / n
        answers.append((min(1.0, max(0.0, 1 - share if negated else share)), source_of))
    return answers, scales


def gate_reference() -> None:
    """L1: every noise vector of a grid gives the reference's answers, and asks for the reference's noise."""
    asked = ("a", "NOT a", "b", "a", "NOT b")
    tables: list[Rows] = [BASE, ((0, 0), (0, 1), (0, 1), (0, 0)), ((1, 0), (0, 1), (1, 1))]
    for (budget, law), rows in itertools.product(((PURE, "laplace"), (ZCDP, "gaussian")), tables):
        setting = Setting(budget, "replace", alpha=0.5, beta=0.3)
        for vector in grid((-4, 0, 1), 2):
            noise = ScriptedNoise(vector)
            with Curator(table(single(rows)), budget, relation="replace", noise=noise) as curator:
                session = setting.opened(curator)
                answers = [session.ask(question) for question in asked]
                charged = [charge.units / UNITS_PER_ONE for charge in curator.ledger.charges()]
            expected, scales = reference(rows, law, 0.5, 0.3, vector)
            assert [one.source for one in answers] == [source for _, source in expected], f"{law}, noise {vector}"
            assert np.allclose([one.value for one in answers], [value for value, _ in expected], atol=1e-9)
            assert [(call.kind, call.size) for call in noise.calls] == [(law, 1)] * 2
            assert np.allclose([float(call.scale) for call in noise.calls], scales, rtol=6e-3)
            # Replacing a row moves a contrast by two.
            prices = [2 / float(c.scale) if law == "laplace" else 4 / (2 * float(c.scale)) for c in noise.calls]
            assert np.allclose(charged, prices, rtol=1e-9)


def tree(setting: Setting, adversary: Adversary, support: Sequence[int], centre: Units) -> Iterator[Run]:
    """Every run of a session with noise from the support: all its transcripts, however they branch."""
    frontier: list[tuple[int, ...]] = [()]
    while frontier:
        script = frontier.pop()
        seen = run(setting, centre, adversary, script)
        if seen.finished:
            yield seen
        else:
            frontier += [(*script, value) for value in support]


def log_probability(draws: Sequence[Draw], units: Units) -> float:
    """The log-probability of what was released, on a table."""
    total = 0.0
    for draw in draws:
        assert draw.released is not None
        assert draw.question is not None
        noise = np.array(draw.released) - exact(draw.question, units)
        law = discrete_laplace if draw.kind == "laplace" else discrete_gaussian
        total += float(np.log(law(noise, float(draw.scale))).sum())
    return total


EXACT = [
    (Setting(PURE, "add-remove", rows=4), branching),
    (Setting(PURE, "replace", alpha=0.5, beta=0.3), branching),
    (Setting(PURE, "replace"), bisecting),
    (Setting(PURE, "add-remove", rows=4, contributions=2, alpha=0.5), branching),
    (Setting(PURE, "add-remove", rows=4, warm_start="histogram", alpha=0.5), lambda session: [told(session.ask("a"))]),
]


def gate_exact_epsilon() -> None:
    """L2: over all transcripts of adaptive sessions and all neighbours, the exact loss is at most what was charged.

    The ratio of two Laplace laws is extreme, and constant, beyond both centres, so a small support sees the largest.
    """
    for setting, adversary in EXACT:
        support = (-setting.contributions, setting.contributions)
        runs = list(tree(setting, adversary, support, single(BASE)))
        worst = 0.0
        for one, other in neighbours(setting.relation, setting.contributions):
            for seen in runs:
                lost = abs(log_probability(seen.draws, one) - log_probability(seen.draws, other))
                charged = seen.spent / UNITS_PER_ONE
                assert lost <= charged * TOLERANCE, f"{setting}: lost {lost}, charged {charged}"
                worst = max(worst, lost / charged)
        assert worst > 0.45, f"{setting}: noise for {worst} of the charge: the audit misses what is released"
        if adversary is branching:
            last = {seen.draws[-1].question.key for seen in runs if seen.draws[-1].question is not None}
            assert len(last) > 1, "the adversary never branched"


def gate_whole_law() -> None:
    """L2: probabilities of the transcripts of an adaptive session sum to one, and so do those of any event.

    Events are collapsed to what an analyst sees, the last answer: P(event) is compared on neighbours by its sum.
    """
    setting = Setting(PURE, "replace", alpha=0.25, beta=0.1)
    runs = list(tree(setting, branching, range(-9, 10), single(BASE)))
    compared = 0
    for one, other in neighbours("replace", 1):
        events: dict[str, list[float]] = {}
        for seen in runs:
            sums = events.setdefault(seen.transcript[1], [0.0, 0.0])
            for i, units in enumerate((one, other)):
                sums[i] += math.exp(log_probability(seen.draws, units))
        totals = np.array(list(events.values()))
        assert np.allclose(totals.sum(axis=0), 1.0, atol=1e-4)
        seen_often = totals[totals.min(axis=1) > 1e-3]  # what the support cuts off is far below
        charged = max(seen.spent for seen in runs) / UNITS_PER_ONE
        assert np.abs(np.log(seen_often[:, 0] / seen_often[:, 1])).max(initial=0.0) <= charged + 0.02
        compared += len(seen_often)
    assert compared > 10


def gate_renyi() -> None:
    """L2: Renyi divergences of the whole adaptive session are at most order times the rho it spent.

    The last noise of a session is asked for before it is drawn, so its law is known where it is still missing.
    """
    setting, support = Setting(ZCDP, "replace", alpha=0.25, beta=0.5), np.arange(-18, 19)
    leaves = [run(setting, single(BASE), branching, (int(value),)) for value in support]
    assert not any(leaf.finished for leaf in leaves)
    spent = max(run(setting, single(BASE), branching, (value, 0)).spent for value in (-3, 3)) / UNITS_PER_ONE
    for one, other in neighbours("replace", 1):
        laws = [np.concatenate([_law(leaf, units, support) for leaf in leaves]) for units in (one, other)]
        assert min(law.sum() for law in laws) > 1 - 1e-9
        for order in (1.5, 2.0, 3.0):
            for p, q in (laws, laws[::-1]):
                assert renyi(p, q, order) <= order * spent * TOLERANCE
    assert renyi(laws[0], laws[1], 2.0) > 0.2 * spent
    assert len({leaf.draws[-1].question.key for leaf in leaves}) == 2  # type: ignore[union-attr]


def _law(leaf: Run, units: Units, support: np.ndarray) -> np.ndarray:
    """The joint law of a known first and an unknown second release."""
    *known, last = leaf.draws
    assert last.question is not None
    released = exact(last.question, single(BASE)) + support
    law = discrete_gaussian(released - exact(last.question, units), float(last.scale))
    return math.exp(log_probability(known, units)) * law


def gate_guard_charged() -> None:
    """L2 for an armed guard: it is paid for at once, and no pattern of its tests loses more than that."""
    noise = ScriptedNoise([0] * 99)
    with Curator(table(single(BASE)), PURE, relation="replace", noise=noise) as curator:
        session = Setting(PURE, "replace").opened(curator)
        session.ask("a")
        spent, drawn = curator.ledger.spent(), len(noise.calls)
        session._policy._arm()
        paid = (curator.ledger.spent() - spent) / UNITS_PER_ONE
        (threshold,) = noise.calls[drawn:]
        session.ask("b")
        query = noise.calls[drawn + 1]
        scales = [float(call.scale) / guards.GRID for call in (threshold, query)]
        law = GuardNoise(1, scales[0], scales[1], refreshed=True)
        worst = max(pattern_loss(law, pattern, (-6, -2, 0, 2, 6)) for pattern in patterns(3, 1))
        assert 0.5 * paid < worst <= paid * TOLERANCE, f"lost {worst}, charged {paid}"


def gate_order() -> None:
    """Charge, then draw, then record, then answer; a batch is one charge."""
    steps: list[str] = []

    class Watched(ScriptedNoise):
        def laplace(self, scale: Fraction, size: int) -> Any:
            steps.append("draw")
            return super().laplace(scale, size)

    with Curator(table(single(BASE)), PURE, relation="replace", noise=Watched([0] * 99)) as curator:
        ledger = curator.ledger
        session = Setting(PURE, "replace").opened(curator)
        with noted_steps(ledger, steps):
            first = session.ask("a")
            assert steps == ["reserve", "draw", "commit"], steps
            assert first.cost.units == ledger.spent() > 0
            steps.clear()
            session.ask_many(["b", "a AND b"])
            assert steps[0] == "reserve"
            assert steps[-1] == "commit"
            assert set(steps[1:-1]) == {"draw"}


def gate_asked_again() -> None:
    """The same question, however it is put and whoever asks, draws nothing, charges nothing and says the same."""
    noise = ScriptedNoise([1, -1, 0, 2, 1, 0, 0, 0])
    with Curator(table(single(BASE)), PURE, relation="replace", noise=noise) as curator:
        session = Setting(PURE, "replace").opened(curator)
        first = session.ask("a AND b")
        used, spent = noise.used, curator.ledger.spent()
        for again in ("a AND b", "b AND a", "NOT (NOT a OR NOT b)", mq.col("a") & mq.col("b")):
            second = session.ask(again, analyst="ann")
            assert numbers(second) == numbers(first), again
            assert (second.source, second.cost.units) == ("cache", 0)
        assert (noise.used, curator.ledger.spent(), session.spent_by("ann").units) == (used, spent, 0)


def gate_restart() -> None:
    """Opened again in any order, a session draws nothing, charges nothing and repeats its numbers."""
    questions = ["a", "b", "a AND b", "NOT b", "a OR b", "SELECT a, count(*) FROM t GROUP BY a"]
    settings = [Setting(PURE, "add-remove", rows=4), Setting(ZCDP, "replace"), Setting(PURE, "add-remove", alpha=0.5)]
    for setting in settings:
        with tempfile.TemporaryDirectory() as directory:
            known: tuple[Any, ...] = ()
            for order in (questions, questions, questions[::-1]):
                noise = ScriptedNoise([1, -2, 0, 3, 1, -1, 2, 0] * 30)
                with Curator(
                    table(single(BASE)),
                    setting.budget,
                    relation=setting.relation,
                    ledger=Path(directory) / "ledger",
                    noise=noise,
                ) as curator:
                    session = setting.opened(curator)
                    answers = {question: numbers(session.ask(question)) for question in order}
                    state = session._record.transcript.digest, session.tolerance, curator.ledger.spent(), answers
                    assert noise.used == 0 or not known, f"{setting}: a restart drew noise"
                known = known or state
                assert state == known, f"{setting}: a restart comes to another state"


def gate_analysts() -> None:
    """An analyst's own limit holds, what they ask is charged to them, and others are not stopped by it."""
    with Curator(table(single(BASE)), PURE, relation="replace", noise=ScriptedNoise([0] * 40)) as curator:
        session = Setting(PURE, "replace").opened(curator)
        session.limit("ann", epsilon=2.0)
        session.ask("a", analyst="ann")
        assert session.spent_by("ann").units == curator.ledger.spent() > 0
        refused = session.ask("b", analyst="ann")
        assert refused.guarantee is None
        assert session.spent_by("ann").units == curator.ledger.spent() <= 2.0 * UNITS_PER_ONE
        assert session.ask("b", analyst="bob").guarantee is not None
        assert session.spent_by("bob").units == curator.ledger.spent() - session.spent_by("ann").units > 0
        assert session.ask("b", analyst="ann").guarantee is not None


def gate_limit() -> None:
    """The table's limit holds to the last unit: then nothing is drawn and nothing is promised."""
    budget = mq.Budget(epsilon=3.0)
    with (
        steered([0] * 40, single(BASE)) as noise,
        Curator(table(single(BASE)), budget, relation="replace", noise=noise) as curator,
    ):
        session = Setting(budget, "replace").opened(curator)
        answers = [session.ask(question) for question in ("a", "b", "a AND b", "a OR b", "NOT a AND b")]
        promised = sum(one.guarantee is not None for one in answers)
        assert 0 < promised < len(answers)
        assert all(one.cost.units == 0 for one in answers if one.guarantee is None)
        assert curator.ledger.spent() == sum(one.cost.units for one in answers) <= budget.limit
        # Everything drawn was charged.
        lost = sum(replaced(draw.question) / draw.scale for draw in noise.draws if draw.question is not None)
        assert 0.99 * curator.ledger.spent() <= lost * UNITS_PER_ONE <= curator.ledger.spent()


def gate_statistical(trials: int = 90) -> None:
    """L3, production noise: how often an answer is high, on two neighbours; the claim is what the session spent."""
    setting = Setting(mq.Budget(epsilon=9.0), "replace", alpha=0.9, beta=0.9)
    often = []
    for rows in (BASE, ((0, 0), (1, 1), (1, 0), (0, 0))):
        hits = 0
        for _ in range(trials):
            with Curator(table(single(rows)), setting.budget, relation="replace") as curator:
                assert curator.private
                answer = setting.opened(curator).ask("a AND b")
                assert isinstance(answer, mq.Answer)
                hits += answer.value >= 0.5
                spent = curator.ledger.spent() / UNITS_PER_ONE
        often.append(hits)
    assert epsilon_lower_bound(often[0], often[1], trials) <= spent, f"{often} of {trials}: more than {spent}"


GATES = {
    gate.__name__.removeprefix("gate_"): gate
    for gate in (
        gate_reference,
        gate_exact_epsilon,
        gate_whole_law,
        gate_renyi,
        gate_guard_charged,
        gate_order,
        gate_asked_again,
        gate_restart,
        gate_analysts,
        gate_limit,
        gate_statistical,
    )
} | {f"public only: {name}": functools.partial(gate_public_only, name) for name in SETTINGS}

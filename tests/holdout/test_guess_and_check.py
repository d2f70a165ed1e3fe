"""Guess and check at any time: exact coverage on tiny samples, the union bound node by node, and what is told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy
from holdout_checks import Subset, chance, compositions, greedy_analyst, sample_of, seen

from maquette.holdout import Certified, Holdout
from maquette.holdout.guess_and_check import GuessAndCheck
from maquette.theory.holdout import hoeffding_width, node_log_failure

ROWS, POINTS, QUESTIONS = 28, 3, 6
SAMPLES = list(compositions(POINTS, ROWS))


def _transcripts(**settings: Any) -> dict[tuple[int, ...], list[tuple[Subset, float | None, Certified]]]:
    return {counts: greedy_analyst(Holdout(sample_of(counts), **settings), POINTS, QUESTIONS) for counts in SAMPLES}


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [{}, {"tolerance": 0.3}, {"queries": QUESTIONS}], ids=str)
def test_all_intervals_cover_together_exactly(settings: dict[str, Any]) -> None:
    confidence = 0.6  # a large share of failure, so that intervals of 28 rows say something
    told = _transcripts(confidence=confidence, **settings)
    for population in ([0.2, 0.3, 0.5], [0.05, 0.05, 0.9], [1 / 3, 1 / 3, 1 / 3]):
        missed = sum(
            chance(counts, population)
            for counts, answers in told.items()
            if any(not a.low - 1e-9 <= s.mean(population) <= a.high + 1e-9 for s, _, a in answers)
        )
        assert missed <= 1 - confidence
    widths = [a.half_width for answers in told.values() for _, _, a in answers]
    assert min(widths) < 0.35  # not by saying nothing


@pytest.mark.thorough
def test_the_nodes_of_the_transcript_tree_have_beta_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The union bound itself, over every node that some sample of the toy reaches, guessed and unguessed."""
    shares: list[float] = []

    def noted(**node: Any) -> float:
        shares.append(math.exp(node_log_failure(**node)))
        return node_log_failure(**node)

    monkeypatch.setattr("maquette.holdout.guess_and_check.node_log_failure", noted)
    nodes: dict[tuple[Any, ...], float] = {}
    for counts in SAMPLES:
        shares.clear()
        told = greedy_analyst(Holdout(sample_of(counts), confidence=0.6), POINTS, QUESTIONS)
        assert len(shares) == QUESTIONS
        for turn, share in enumerate(shares):
            nodes[seen(told[:turn])] = share
    assert len(nodes) > 3 * QUESTIONS  # the tree does branch
    assert sum(nodes.values()) <= 0.4


@pytest.mark.thorough
def test_a_guess_is_returned_iff_the_interval_of_the_sample_lies_within_its_tolerance() -> None:
    rng = np.random.default_rng(5)
    accepted = narrowly = 0
    for _ in range(150):
        rows, share = int(rng.integers(200, 3000)), rng.random()
        count = int(rng.binomial(rows, share))
        guess = min(1.0, max(0.0, count / rows + float(rng.uniform(-0.25, 0.25))))  # often near the edge
        answer = Holdout(np.arange(rows) < count, tolerance=0.2).ask(lambda sample: sample, guess=guess)
        beta = 0.05 * (6 / math.pi**2) ** 2
        low, high = scipy.stats.binomtest(count, rows).proportion_ci(1 - beta, "exact")
        within = guess - 0.2 <= low and high <= guess + 0.2
        if hoeffding_width(rows=rows, log_failure=math.log(beta)) < 0.18:
            assert (answer.source == "guess") == within
            assert (answer.value == guess) == within  # bit for bit
            assert answer.half_width == 0.2 if within else answer.half_width <= 0.2
            assert answer.status == "ok"
            accepted += within
            narrowly += not within and abs(count / rows - guess) <= 0.2  # only the sampling width says no
    assert accepted > 30
    assert narrowly > 5


def test_the_holdout_answers_with_midpoints_of_its_bins_only() -> None:
    for rows in (997, 1000):
        for predicate in (True, False):
            seen_values = set()
            for count in range(0, rows + 1, 7):
                values = np.arange(rows) < count
                sample = values if predicate else values.astype(float)
                answer = Holdout(sample).ask(lambda rows: rows)
                seen_values.add(answer.value)
                assert answer.source == "holdout"
                assert abs(answer.value - count / rows) < answer.half_width
            log_failure = node_log_failure(asked=0, failures=0, log_answers=0.0, beta=1 - 0.95)
            bins = math.ceil(1 / hoeffding_width(rows=rows, log_failure=log_failure))
            assert seen_values == {(i + 0.5) / bins for i in range(bins)}


def test_half_widths_of_equal_answers_are_equal() -> None:
    """A half-width that followed the sample inside its bin would tell where in the bin it is."""
    widths: dict[float, set[float]] = {}
    for count in range(0, 1001, 3):
        answer = Holdout(np.arange(1000) < count).ask(lambda rows: rows)
        widths.setdefault(answer.value, set()).add(answer.half_width)
        guessed = Holdout(np.arange(1000) < count).ask(lambda rows: rows, guess=0.5)
        if guessed.source == "guess":
            widths.setdefault(-1.0, set()).add(guessed.half_width)
    assert all(len(found) == 1 for found in widths.values())
    assert -1.0 in widths


def test_certificates_widen_with_questions_and_failures() -> None:
    rows = np.arange(10_000) % 10 < 3

    def width(asked: int, missed: int, unguessed: int = 0) -> float:
        method = GuessAndCheck(rows=10_000, beta=0.05, tolerance=None, widen=True)
        for i in range(asked):
            failed = i < missed + unguessed
            method.apply({"failed": failed, "guessed": i >= unguessed, "bins": 50})
        return method._node.hoeffding

    assert Holdout(rows).ask(lambda r: r, guess=0.3).half_width < 0.06
    assert width(10, 0) < width(100, 0) < width(1000, 0)
    assert width(100, 0) < width(100, 0, unguessed=1) < width(100, 1) < width(100, 5)
    # Mechanisms §10.4: n = 10^4, i = 10^4, G = 50.
    assert width(10_000, 0) == pytest.approx(0.034, abs=5e-4)
    assert width(10_000, 10) == pytest.approx(0.085, abs=5e-4)
    assert width(10_000, 50) == pytest.approx(0.164, abs=5e-4)


def test_never_narrower_than_a_fresh_sample() -> None:
    holdout = Holdout(np.arange(2_000) % 2 == 0)
    for _ in range(30):
        answer = holdout.ask(lambda rows: rows, guess=0.5)
        assert answer.half_width >= math.sqrt(math.log(2 / 0.05) / (2 * 2_000))


def test_predicates_near_zero_have_narrower_intervals() -> None:
    rare = Holdout(np.arange(5_000) < 10)
    even = Holdout(np.arange(5_000) < 2_500)
    assert rare.ask(lambda rows: rows, guess=0.002).half_width < even.ask(lambda rows: rows, guess=0.5).half_width / 3


def test_real_statistics_use_an_interval_that_holds_for_any_law() -> None:
    """A statistic of 0 and 1 given as numbers is no predicate: its law may have other values off the sample."""
    rows = np.arange(5_000) < 1_000
    exact = Holdout(rows).ask(lambda sample: sample, guess=0.2)
    general = Holdout(rows).ask(lambda sample: sample.astype(float), guess=0.2)
    assert exact.half_width < general.half_width < 1.4 * exact.half_width


def test_a_tolerance_widens_or_is_exhausted() -> None:
    rows = np.arange(2_000) < 1_000
    held, wide, ended = (
        Holdout(rows, tolerance=0.12),
        Holdout(rows, tolerance=0.025),
        Holdout(rows, tolerance=0.12, widen=False),
    )
    assert held.ask(lambda r: r, guess=0.52).status == "ok"
    assert wide.ask(lambda r: r, guess=0.5).half_width > 0.025
    assert wide.answers[-1].status == "widened"
    statuses: Sequence[str] = [ended.ask(lambda r: r, guess=0.9).status for _ in range(40)]
    first = statuses.index("exhausted")
    assert first > 0
    assert set(statuses[first:]) == {"exhausted"}
    assert set(statuses[:first]) == {"ok"}
    last = ended.answers[-1]
    assert (last.value, last.half_width, last.certificate) == (0.9, 1.0, "none")
    assert last.failures == first  # nothing is read any more, so nothing fails


def test_queries_end_where_they_were_to() -> None:
    holdout = Holdout(np.arange(2_000) < 1_000, queries=3)
    lefts = [holdout.ask(lambda r: r, guess=0.5).left for _ in range(3)]
    assert lefts == [2, 1, 0]
    assert holdout.ask(lambda r: r, guess=0.5).status == "exhausted"

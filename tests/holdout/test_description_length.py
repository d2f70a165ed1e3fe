"""Guess and check with everything fixed: transcripts are counted, guessers fail as rarely as they must."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from holdout_checks import Subset, chance, compositions, greedy_analyst, sample_of, seen

import maquette as mq
from maquette.errors import GuardSealed, QueryError
from maquette.holdout import Holdout, MedianGuesser, WeightsGuesser
from maquette.holdout.description_length import DescriptionLength
from maquette.holdout.statistic import Asked
from maquette.theory.holdout import guess_and_check_width, log_transcripts


@pytest.mark.parametrize(("points", "rows", "queries", "failures", "tolerance"), [(2, 9, 6, 2, 0.3), (3, 7, 5, 1, 0.5)])
def test_transcripts_of_all_samples_are_no_more_than_counted(
    points: int, rows: int, queries: int, failures: int, tolerance: float
) -> None:
    transcripts = set()
    for sample in itertools.product(range(points), repeat=rows):
        if list(sample) != sorted(sample):
            continue  # statistics do not see the order
        holdout = Holdout(np.array(sample), queries=queries, tolerance=tolerance, failures=failures)
        told: list[Any] = []
        try:
            told = greedy_analyst(holdout, points, queries)
        except GuardSealed:  # an unguessed question when no failure was left
            told = [(None, None, answer) for answer in holdout.answers]
        certain = itertools.takewhile(lambda entry: entry[2].status == "ok", told)
        transcripts.add(tuple(a.value for _, _, a in certain))
    grid = math.ceil(2 / tolerance)
    assert 1 < len(transcripts) <= math.exp(log_transcripts(queries=queries, failures=failures, grid=grid))


def test_every_answer_is_the_guess_iff_it_is_within_the_tolerance_and_else_a_grid_point() -> None:
    eta, bins = 0.15, math.ceil(2 / 0.15)
    for count in range(101):
        holdout = Holdout(np.arange(100) < count, queries=20, tolerance=eta, failures=20)
        for guess in (0.0, 0.31, 0.5, 1.0):
            answer = holdout.ask(lambda rows: rows, guess=guess)
            near = abs(count / 100 - guess) <= eta
            assert (answer.value == guess and answer.source == "guess") == near
            if not near:
                assert answer.value in [(i + 0.5) / bins for i in range(bins)]
                assert abs(answer.value - count / 100) <= eta / 4 + 1e-12


def test_coverage_is_exact_on_a_toy() -> None:
    rows, points, beta = 60, 2, 0.5
    settings: dict[str, Any] = {"queries": 4, "tolerance": 0.1, "failures": 1, "confidence": 1 - beta}
    for population in ([0.5, 0.5], [0.1, 0.9]):
        missed = 0.0
        for counts in compositions(points, rows):
            holdout = Holdout(sample_of(counts), **settings)
            answers = [holdout.ask(Subset(frozenset({0})), guess=g) for g in (0.2, 0.5, 0.9, 0.1)]
            certain = [a for a in answers if a.certificate == "transcript"]
            missed += chance(counts, population) * any(not a.low <= population[0] <= a.high for a in certain)
        assert missed <= beta


def test_the_half_width_is_the_theorems() -> None:
    holdout = Holdout(np.arange(50_000) % 2 == 0, queries=1000, tolerance=0.05, failures=5)
    expected = guess_and_check_width(
        rows=50_000, queries=1000, failures=5, tolerance=0.05, beta=1 - 0.95, grid=math.ceil(2 / 0.05) + 1
    )
    assert holdout.ask(lambda rows: rows, guess=0.5).half_width == expected
    assert holdout.ask(lambda rows: rows, guess=0.9).half_width == expected
    assert holdout.answers[-1].left == 4


def test_it_halts_after_its_failures_and_its_queries() -> None:
    rows = np.arange(1000) < 300
    holdout = Holdout(rows, queries=10, tolerance=0.1, failures=2)
    statuses = [holdout.ask(lambda r: r, guess=g).status for g in (0.9, 0.3, 0.9, 0.3, 0.9, 0.3)]
    assert statuses == ["ok", "ok", "ok", "ok", "exhausted", "exhausted"]
    with pytest.raises(GuardSealed, match="10 queries and 2 failed guesses"):
        holdout.ask(lambda r: r)
    few = Holdout(rows, queries=1, tolerance=0.1, failures=0)
    assert [few.ask(lambda r: r, guess=0.3).status for _ in range(2)] == ["ok", "exhausted"]


UNIVERSE = np.arange(2)


def _games(eta: float, net_rows: int, questions: int) -> int:
    """Play the median mechanism on every sample against questions of all kinds; the most failures seen."""
    rows, worst = 16, 0
    weights = [(0.0, 1.0), (1.0, 0.0), (0.3, 0.9), (0.5, 0.5), (1.0, 0.2)]
    for count in range(rows + 1):
        sample = (np.arange(rows) < count).astype(int)
        guesser = MedianGuesser(UNIVERSE, rows=net_rows, tolerance=eta)
        limit = guesser.max_failures(queries=questions, tolerance=eta)
        method = DescriptionLength(rows=rows, beta=0.05, queries=questions, tolerance=eta, failures=questions)
        holdout = Holdout(sample, queries=questions, tolerance=eta, failures=questions, guesser=guesser)
        for turn in range(questions):
            table = np.array(weights[(turn * 3 + count) % len(weights)])
            before, failed = guesser.alive, len([a for a in holdout.answers if a.source == "holdout"])
            answer = holdout.ask(lambda r, table=table: table[r])  # type: ignore[misc]
            if answer.source == "holdout":
                assert guesser.alive <= before / 2  # halving
                assert answer.failures == failed + 1
            else:
                assert guesser.alive == before
            truth = float(table[sample].mean())
            mine = Asked.of(lambda r, table=table: table[r], None, clip=False)  # type: ignore[misc]
            answers = guesser._net @ mine.on(guesser._universe).numbers
            nearest = np.abs(guesser._net[:, 1] - count / rows).argmin()
            assert guesser._alive[nearest]  # the survivor
            assert abs(answers[nearest] - truth) <= eta / 4
        worst = max(worst, holdout.answers[-1].failures)
        assert worst <= limit <= method.terms["queries"]
    return worst


def test_the_median_mechanism_fails_at_most_log2_of_its_candidates_times() -> None:
    eta = 1.0
    proxies = math.ceil(8 * math.log(4 * 20) / eta**2)
    assert _games(eta, proxies, 20) == 0  # at a tolerance of 1 nothing can fail: 37 candidates, 5 allowed
    assert 1 <= _games(0.25, 16, 20) <= math.log2(17)
    assert 1 <= _games(0.3, 8, 12) <= math.log2(9)


def test_multiplicative_weights_fail_at_most_as_the_theorem_says() -> None:
    schema = mq.Schema([mq.Boolean(f"q{i}") for i in range(4)])
    rng = np.random.default_rng(3)
    biased = {f"q{i}": rng.random(400) < (0.05 if i % 2 else 0.95) for i in range(4)}
    eta = 0.1
    guesser = WeightsGuesser(schema, tolerance=eta)
    bound = math.floor(math.log(16) / (2 * eta**2))
    holdout = Holdout(biased, schema=schema, guesser=guesser, queries=150, tolerance=eta)
    for turn in range(150):
        names = [f"q{i}" for i in range(4) if (turn >> i) & 1]
        text = " AND ".join(name if rng.random() < 0.5 else f"NOT {name}" for name in names) or "q0 OR q1"
        answer = holdout.ask(text)
        assert answer.source in ("hypothesis", "holdout")
    assert 1 <= holdout.answers[-1].failures <= bound
    assert holdout.answers[0].left is not None
    assert holdout._method.terms["failures"] == bound


def test_guessers_refuse_what_they_were_not_made_for() -> None:
    schema = mq.Schema([mq.Boolean("a")])
    data = {"a": [True, False]}
    with pytest.raises(QueryError, match=r"tolerance=0\.2"):
        Holdout(data, schema=schema, guesser=WeightsGuesser(schema), queries=5, tolerance=0.2)
    with pytest.raises(QueryError, match=r"holdout's is 0\.2"):
        Holdout(np.array([0, 1]), guesser=MedianGuesser(UNIVERSE, rows=3, tolerance=0.5), queries=5, tolerance=0.2)
    with pytest.raises(QueryError, match="Take fewer rows"):
        MedianGuesser(np.arange(100), rows=30, tolerance=0.5)
    with pytest.raises(QueryError, match="failures="):
        Holdout(np.array([0, 1]), queries=5, tolerance=0.2)


def test_seen_tells_transcripts_apart() -> None:
    """The tool of the other tests: two samples that are told the same are one transcript."""
    first = greedy_analyst(Holdout(sample_of((5, 5, 5))), 3, 4)
    second = greedy_analyst(Holdout(sample_of((5, 5, 5))), 3, 4)
    third = greedy_analyst(Holdout(sample_of((15, 0, 0))), 3, 4)
    assert seen(first) == seen(second) != seen(third)

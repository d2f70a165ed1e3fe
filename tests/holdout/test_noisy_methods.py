"""Thresholdout is NumericSparse on the sample, noisy answers have the promised noise, splitting never reuses a row."""

from __future__ import annotations

import functools
import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maquette.audit.reference import ScriptedNoise
from maquette.errors import GuardSealed, QueryError
from maquette.holdout import Holdout
from maquette.holdout.fixed_point import FINE, SLACK
from maquette.holdout.noisy import Noisy
from maquette.holdout.thresholdout import Thresholdout
from maquette.theory import transfer
from maquette.theory.holdout import refusal_beta

ROWS = 50


def _numeric_sparse(
    truths: list[int], publics: list[int], script: list[int], *, hits: int, threshold: int
) -> list[tuple[str, int]]:
    """Dwork and Roth, algorithm 3, in twenty lines: |f(x) - g| against a noisy threshold, fresh after every hit."""
    draws = iter(script)
    noisy_threshold = threshold + next(draws)
    used, told = 0, []
    for truth, public in zip(truths, publics, strict=True):
        if used == hits:
            told.append(("sealed", public))
        elif abs(truth - public) + next(draws) >= noisy_threshold:
            told.append(("hit", truth + next(draws)))
            used += 1
            noisy_threshold = threshold + next(draws)
        else:
            told.append(("kept", public))
    return told


@pytest.mark.thorough
def test_thresholdout_is_numeric_sparse_on_every_noise_of_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "thresholdout", functools.cache(transfer.thresholdout))
    unit = ROWS * FINE
    share = refusal_beta(queries=3, refusals=0, beta=1 - 0.95)
    promise = transfer.thresholdout(rows=ROWS, queries=3, hits=2, beta=share, threshold=0.2)
    threshold = round(Fraction(promise.threshold) * unit)
    counts, guesses = [30, 10, 25], [0.5, 0.25, 0.5]
    for script in itertools.product((-unit // 4, 0, unit // 3), repeat=7):
        noise = ScriptedNoise([*script, *[0] * 9])
        holdout = Holdout(np.arange(ROWS), method="thresholdout", queries=3, hits=2, tolerance=0.2, noise=noise)
        told = [holdout.ask(lambda rows, c=c: rows < c, guess=g) for c, g in zip(counts, guesses, strict=True)]  # type: ignore[misc]
        truths, publics = [c * FINE for c in counts], [round(Fraction(g) * unit) for g in guesses]
        expected = _numeric_sparse(truths, publics, [*script, *[0] * 9], hits=2, threshold=threshold)
        for answer, (kind, value), guess in zip(told, expected, guesses, strict=True):
            if kind == "hit":
                assert (answer.source, answer.value) == ("holdout", min(1.0, max(0.0, value / unit)))
            else:
                assert (answer.source, answer.value) == ("guess", guess)
            assert (answer.status == "exhausted") == (kind == "sealed")


def test_thresholdouts_noise_is_that_of_its_promise() -> None:
    share = refusal_beta(queries=100, refusals=0, beta=0.05)
    promise = transfer.thresholdout(rows=10_000, queries=100, hits=5, beta=share)
    method = Thresholdout(rows=10_000, beta=0.05, queries=100, hits=5, tolerance=None, noise=ScriptedNoise([]))
    assert method.settings.sensitivity == FINE
    assert method.settings.rho <= Fraction(promise.rho)
    assert float(method.settings.rho) == pytest.approx(promise.rho, rel=1e-5)
    assert method.half_width == promise.alpha + SLACK
    noise = ScriptedNoise([0, 0, 0, 0])
    holdout = Holdout(np.arange(10_000), method="thresholdout", queries=100, hits=5, noise=noise)
    assert holdout.ask(lambda rows: rows < 5_000, guess=0.0).source == "holdout"
    scales = method.settings.scales()
    expected = [("laplace", "threshold"), ("laplace", "query"), ("gaussian", "answer"), ("laplace", "threshold")]
    assert [call.kind for call in noise.calls] == [kind for kind, _ in expected]
    assert [float(call.scale) for call in noise.calls] == pytest.approx([float(scales[name]) for _, name in expected])


def test_thresholdout_needs_a_guess_and_says_so() -> None:
    holdout = Holdout(np.arange(10), method="thresholdout", queries=5, hits=2)
    with pytest.raises(QueryError, match="train="):
        holdout.ask(lambda rows: rows < 5)
    assert holdout.answers == ()


def _thresholdout(path: Path, **more: Any) -> Holdout:
    return Holdout(np.arange(1000), method="thresholdout", queries=50, hits=3, state=path, **more)


def test_a_restart_of_thresholdout_pays_a_hit_for_its_new_threshold(tmp_path: Path) -> None:
    def low(rows: Any) -> Any:
        return rows < 500

    with _thresholdout(tmp_path / "s", noise=ScriptedNoise([0] * 9)) as first:
        assert first.ask(low, guess=0.5).left == 3
    with _thresholdout(tmp_path / "s", noise=ScriptedNoise([0] * 9)) as second:
        assert second.ask(low, guess=0.5).left == 2
    with _thresholdout(tmp_path / "s", noise=ScriptedNoise([0] * 9)):
        pass  # compares nothing, so the next restart loses nothing
    with _thresholdout(tmp_path / "s", noise=ScriptedNoise([0] * 9)) as fourth:
        assert fourth.ask(low, guess=0.5).left == 1
    with _thresholdout(tmp_path / "s", noise=ScriptedNoise([0] * 9)) as fifth:
        assert fifth.ask(low, guess=0.5).status == "exhausted"


@pytest.mark.parametrize("theorem", ["jung", "bassily", "pure", "max-information"])
def test_noisy_answers_are_the_sample_plus_the_promised_noise(theorem: Any) -> None:
    rows, queries = 20_000, 5
    shift = 777 * FINE
    noise = ScriptedNoise([shift, -(10**15)])
    method = Noisy(rows=rows, beta=0.05, queries=queries, theorem=theorem, noise=noise)
    holdout = Holdout(np.arange(rows), method="gaussian", queries=queries, transfer=theorem, noise=noise)
    answer = holdout.ask(lambda r: r < 5_000)
    assert answer.value == (5_000 + 777) / rows
    assert answer.half_width == pytest.approx(method.half_width)
    assert holdout.ask(lambda r: r < 5_000).value == 0.0  # clipped
    call, share = noise.calls[0], refusal_beta(queries=queries, refusals=0, beta=0.05)
    assert call.scale == pytest.approx(float(method.scale))
    if theorem in ("jung", "bassily"):
        assert call.kind == "gaussian"
        rho = queries * FINE**2 / (2 * call.scale)
        promise = (transfer.gaussian if theorem == "jung" else transfer.bassily)(
            rows=rows, queries=queries, beta=share, accounting="zcdp"
        )
        assert promise is not None
        assert rho <= queries / (2 * rows**2 * Fraction(promise.scale) ** 2)
    else:
        assert call.kind == "laplace"
        law = transfer.laplace if theorem == "pure" else transfer.max_information
        assert queries * FINE / call.scale <= Fraction(law(rows=rows, queries=queries, beta=share).epsilon) * (
            1 + 1e-12
        )


def test_real_numbers_meet_noise_as_whole_numbers() -> None:
    noise = ScriptedNoise([0] * 3)
    holdout = Holdout(np.linspace(0, 1, 101), method="gaussian", queries=3, noise=noise)
    expected = int(np.rint(np.linspace(0, 1, 101) * FINE).sum()) / (101 * FINE)
    assert holdout.ask(lambda rows: rows).value == expected


def test_production_noise_varies() -> None:
    holdout = Holdout(np.arange(1_000), method="gaussian", queries=20)
    values = {holdout.ask(lambda rows: rows < 500).value for _ in range(20)}
    assert len(values) > 15
    assert holdout.ask(lambda rows: rows < 500, guess=0.4).status == "exhausted"
    with pytest.raises(GuardSealed):
        holdout.ask(lambda rows: rows < 500)


def test_splitting_gives_every_question_rows_of_its_own(tmp_path: Path) -> None:
    rows = np.arange(103)
    used: list[int] = []

    def ask(holdout: Holdout) -> None:
        own = holdout._method._order[len(holdout.answers) * 10 : (len(holdout.answers) + 1) * 10]  # type: ignore[attr-defined]
        answer = holdout.ask(lambda r: np.isin(r, own))
        assert answer.value == 1.0
        assert answer.certificate == "fresh"
        used.extend(own.tolist())

    with Holdout(rows, method="splitting", queries=10, state=tmp_path / "s") as first:
        for _ in range(4):
            ask(first)
    with Holdout(rows, method="splitting", queries=10, state=tmp_path / "s") as second:
        for _ in range(6):
            ask(second)
        assert second.ask(lambda r: r < 50, guess=0.5).status == "exhausted"
    assert len(used) == len(set(used)) == 100
    with pytest.raises(QueryError, match="cannot be split"):
        Holdout(rows, method="splitting", queries=104)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"queries": 9},
        {"queries": 9, "tolerance": 0.1, "failures": 2},
        {"method": "thresholdout", "queries": 9, "hits": 3},
        {"method": "gaussian", "queries": 9},
        {"method": "splitting", "queries": 9},
    ],
    ids=str,
)
def test_a_refusal_because_of_the_rows_counts_in_every_method_and_after_a_restart(
    settings: Any, tmp_path: Path
) -> None:
    """Free refusals would be an oracle: whether any row of the holdout has a property, as often as one likes."""
    rows = np.arange(90_000) / 90_000

    def opened() -> Holdout:
        return Holdout(rows, state=tmp_path / "s", **settings)

    with opened() as holdout:
        first = holdout.ask(lambda r: r, guess=0.5)
        with pytest.raises(QueryError, match="it counts"):
            holdout.ask(lambda r: r * 2, guess=0.5)
        second = holdout.ask(lambda r: r, guess=0.5)
    assert second.queries == first.queries + 2
    if "failures" in settings:
        assert second.left == 1  # its intervals are all the same; what is left tells
    else:
        assert second.half_width > first.half_width
    with Holdout(rows, **settings) as fresh, opened() as again:
        third, other = again.ask(lambda r: r, guess=0.5), fresh.ask(lambda r: r, guess=0.5)
    assert third.queries == second.queries + 1
    assert third.half_width > other.half_width or "failures" in settings

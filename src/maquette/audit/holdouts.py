"""The holdout: wrong guesses widen later intervals, noise has the scale of its theorem, refusals are counted."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from maquette.audit.reference.quiet import QuietNoise
from maquette.errors import MaquetteError
from maquette.holdout import Holdout

ROWS = np.random.default_rng(7).random((2_000, 4)) < 0.3


def _column(index: int) -> Any:
    return lambda rows: rows[:, index]


def check_guesses() -> None:
    """A good guess is returned unchanged; a wrong one is answered by the sample, counted, and widens later ones."""
    holdout = Holdout(ROWS)
    good = holdout.ask(_column(0), guess=0.3)
    assert (good.source, good.value, good.failures) == ("guess", 0.3, 0), f"a good guess gave {good}"
    wrong = [holdout.ask(_column(i % 4), guess=0.9) for i in range(6)]
    assert [answer.source for answer in wrong] == ["holdout"] * 6, "a guess that is 0.6 off was kept"
    assert [answer.failures for answer in wrong] == [1, 2, 3, 4, 5, 6], "failed guesses are not counted"
    after = holdout.ask(_column(0), guess=0.3)
    assert after.half_width > good.half_width, "failures do not widen later intervals"
    hoeffding = float(np.sqrt(np.log(2 / 0.05) / (2 * len(ROWS))))
    assert good.half_width > hoeffding * 0.8, f"an interval of {good.half_width} is narrower than one question's"
    for index, answer in enumerate(wrong):
        mean = float(ROWS[:, index % 4].mean())
        assert abs(answer.value - mean) <= answer.half_width, "an interval misses the sample's own mean"
        assert answer.value != mean or mean * len(ROWS) % 1 == 0.5, "the exact mean of the sample was released"


def check_noise() -> None:
    """The noisy methods request noise at the scale of their theorem, and draw fresh noise for every question."""
    for method, settings, least in (
        ("gaussian", {"queries": 50}, "gaussian"),
        ("thresholdout", {"queries": 50, "hits": 5}, "laplace"),
    ):
        noise = QuietNoise()
        holdout = Holdout(ROWS, method=method, noise=noise, **settings)  # type: ignore[arg-type]
        for i in range(4):
            holdout.ask(_column(i), guess=0.3)
        kinds = [call.kind for call in noise.calls]
        assert kinds.count(least) >= 4, f"{method}: four questions drew {kinds}"
        fewer = Holdout(ROWS, method=method, noise=(other := QuietNoise()), **{**settings, "queries": 5_000})  # type: ignore[arg-type]
        fewer.ask(_column(0), guess=0.3)
        if method == "gaussian":
            assert other.calls[0].scale > noise.calls[0].scale, "noise does not grow with the number of questions"


def check_refusals() -> None:
    """A statistic that fails on the rows is counted, with one message whatever it raised."""

    def failing(error: BaseException) -> Any:
        def statistic(rows: Any) -> Any:
            raise error

        return statistic

    holdout, texts = Holdout(ROWS), []
    before = holdout.ask(_column(0), guess=0.3)
    for error in (ValueError("12"), KeyError("34"), type("Leak56", (Exception,), {})("x")):
        try:
            holdout.ask(failing(error))
        except MaquetteError as refused:
            texts.append(str(refused))
            continue
        raise AssertionError("a statistic that raises was answered")
    assert len(set(texts)) == 1, "the text of a refusal depends on what was raised"
    assert not any(secret in texts[0] for secret in ("12", "34", "Leak56")), "a refusal passes on what was raised"
    after = holdout.ask(_column(1), guess=0.3)
    assert after.half_width > before.half_width, "refusals do not count"


def check_state() -> None:
    """With a state file, a restart continues where it stopped."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        with Holdout(ROWS, state=path) as holdout:
            first = holdout.ask(_column(0), guess=0.9, name="one")
        with Holdout(ROWS, state=path) as holdout:
            second = holdout.ask(_column(1), guess=0.9)
            again = holdout.ask(_column(0), guess=0.9, name="one")
        assert again == first, "a restart forgot an answer"
        assert second.failures == 2, "a restart forgot a failed guess"


def check_answers() -> None:
    """All checks of this file except refusals."""
    for check in (check_guesses, check_noise, check_state):
        check()

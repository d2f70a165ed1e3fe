"""What a holdout says when a statistic fails on its rows: one thing, recorded before it is told."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maquette.errors import QueryError
from maquette.holdout import Holdout, MedianGuesser, accuracy_of
from maquette.holdout.models import Misused, Unfit

ROWS = np.random.default_rng(5).integers(0, 2**40, 400)
SETTINGS: dict[str, dict[str, Any]] = {
    "guess-and-check": {},
    "description length": {"queries": 40, "tolerance": 0.2, "failures": 30},
    "thresholdout": {"method": "thresholdout", "queries": 40, "hits": 20},
    "gaussian": {"method": "gaussian", "queries": 40},
    "splitting": {"method": "splitting", "queries": 40},
}


class Hostile:
    """Raises whatever it was made with as soon as anything is done to it."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise self._error


def _raiser(make: Callable[[str], BaseException]) -> Callable[[Any], Any]:
    """A statistic that tells its rows by what it raises, once it sees any."""

    def statistic(rows: Any) -> Any:
        if len(rows) == 0:
            return np.zeros(0, dtype=bool)
        raise make(" ".join(map(str, rows.tolist())))

    return statistic


def _returner(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: np.zeros(0, dtype=bool) if len(rows) == 0 else make(rows)


def _chained(text: str) -> BaseException:
    error = ValueError("outer")
    error.__cause__ = ValueError(text)
    error.add_note(text)
    return error


FAILURES: dict[str, Callable[[Any], Any]] = {
    "class name": _raiser(lambda text: type(text, (Exception,), {})()),
    "Misused": _raiser(Misused),
    "Unfit": _raiser(Unfit),
    "QueryError": _raiser(QueryError),
    "SystemExit": _raiser(SystemExit),
    "KeyboardInterrupt": _raiser(KeyboardInterrupt),
    "GeneratorExit": _raiser(GeneratorExit),
    "StopIteration": _raiser(StopIteration),
    "RecursionError": _raiser(RecursionError),
    "chained": _raiser(_chained),
    "a group": _raiser(lambda text: BaseExceptionGroup(text, [SystemExit(text)])),
    "when converted": _returner(lambda rows: Hostile(SystemExit(str(rows)))),
    "NaN": _returner(lambda rows: np.full(len(rows), np.nan)),
    "infinite": _returner(lambda rows: np.full(len(rows), np.inf)),
    "below": _returner(lambda rows: np.full(len(rows), -0.1)),
    "long double": _returner(lambda rows: np.full(len(rows), np.longdouble("1e4000"))),
    "text": _returner(lambda rows: rows.astype(str)),
    "complex": _returner(lambda rows: rows * 1j),
    "objects": _returner(lambda rows: np.array([10**40] * len(rows))),
    "nothing": _returner(lambda rows: None),
    "a mean": _returner(lambda rows: 0.5),
    "too few": _returner(lambda rows: np.zeros(len(rows) - 1, dtype=bool)),
    "too many dimensions": _returner(lambda rows: np.zeros((len(rows), 1), dtype=bool)),
    "numbers after promising booleans": _returner(lambda rows: np.full(len(rows), 0.5)),
    "writing": _returner(lambda rows: rows.fill(0)),
}


def _told(holdout: Holdout, statistic: Any) -> QueryError:
    with pytest.raises(QueryError) as refusal:
        holdout.ask(statistic, guess=0.5)
    return refusal.value


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("method", SETTINGS)
def test_every_failure_is_the_same_outcome_recorded_before_it_is_told(method: str, tmp_path: Path) -> None:
    seen = set()
    for number, (name, statistic) in enumerate(FAILURES.items()):
        path = tmp_path / f"{number}"
        with Holdout(ROWS, state=path, **SETTINGS[method]) as holdout:
            before = path.read_bytes()
            error = _told(holdout, statistic)
            note = [json.loads(line.split(b" ", 2)[2]) for line in path.read_bytes()[len(before) :].splitlines()]
            after = holdout.ask(lambda rows: rows >= 0, guess=1.0)
        assert len(note) == 1, name
        assert error.__cause__ is None, name
        assert error.__context__ is None, name
        assert not getattr(error, "__notes__", []), name
        assert after.queries == 2, name
        text = "".join(traceback.format_exception(error))
        seen.add((type(error), str(error), json.dumps(note), after.failures, after.left, after.half_width))
        assert not any(str(row) in text for row in ROWS[:20]), name
    assert len(seen) == 1


@pytest.mark.parametrize("how", ["class name", "Misused", "Unfit", "SystemExit", "KeyboardInterrupt", "when converted"])
def test_intervals_cover_whatever_a_refusal_was_made_to_say(how: str) -> None:
    """The sample, told by one refusal, would make the next certified interval false in every run."""
    covered = 0
    for seed in range(20):
        rows = np.random.default_rng(seed).integers(0, 2**40, 400)
        holdout = Holdout(rows)
        try:
            holdout.ask(FAILURES[how], guess=0.5)
            told = ""
        except BaseException as error:
            told = f"{error} {error!r} {error.args} {error.__cause__!r} {error.__context__!r}"
        words = {int(word) for word in "".join(c if c.isdigit() else " " for c in told).split()}
        learnt = sorted(words & set(rows.tolist()))
        answer = holdout.ask(lambda rows, learnt=learnt: np.isin(rows, learnt), guess=float(len(learnt) > 0))  # type: ignore[misc]
        covered += answer.low <= len(learnt) / 2**40 <= answer.high
    assert covered == 20


def test_the_kind_of_the_values_tells_nothing() -> None:
    """Booleans have narrower intervals than numbers, so which of both comes is settled before the rows are read."""
    frame = {"x": ROWS}

    def numbers(rows: Any) -> Any:
        return np.asarray(rows["x"] if isinstance(rows, dict) else rows) % 2 / 1.0

    def either(rows: Any) -> Any:
        values = numbers(rows)
        return values if len(values) == 0 else values > 0.5

    for data in (ROWS, frame):
        for method in ("guess-and-check", "splitting"):
            widths = {Holdout(data, **SETTINGS[method]).ask(s, guess=0.5).half_width for s in (numbers, either)}
            narrow = Holdout(data, **SETTINGS[method]).ask(lambda rows: numbers(rows) > 0.5, guess=0.5).half_width
            if method == "guess-and-check":
                assert len(widths) == 1
                assert narrow < min(widths)
    with pytest.raises(QueryError, match="failed on the rows of the holdout"):
        Holdout(ROWS, train=ROWS[:0:-1]).ask(lambda rows: rows % 2 == 0 if len(rows) < 400 else rows % 2 / 1.0)


def test_a_question_that_needs_a_guess_is_turned_away_before_the_rows_are_read() -> None:
    """A statistic that failed or not, in a question that is refused free, would be an oracle."""
    seen = []

    def looks(rows: Any) -> Any:
        seen.append(len(rows))
        return rows % 2 == 0

    holdout = Holdout(ROWS, **SETTINGS["thresholdout"])
    with pytest.raises(QueryError, match="there is none"):
        holdout.ask(looks)
    assert len(ROWS) not in seen


def test_an_exhausted_holdout_does_not_read_its_rows() -> None:
    seen = []

    def looks(rows: Any) -> Any:
        seen.append(len(rows))
        raise ValueError

    holdout = Holdout(ROWS, method="gaussian", queries=1)
    holdout.ask(lambda rows: rows % 2 == 0)
    assert holdout.ask(looks, guess=0.25).status == "exhausted"
    assert len(ROWS) not in seen


def test_a_statistic_is_not_called_again_once_it_has_seen_the_rows() -> None:
    seen = []

    def looks(rows: Any) -> Any:
        seen.append(len(rows))
        return rows < 1

    halves = np.arange(1_000) % 2
    train = np.arange(30) % 2
    holdout = Holdout(halves, train=train, guesser=MedianGuesser(np.arange(2), rows=4, tolerance=0.5))
    assert holdout.ask(looks, guess=0.0).source == "holdout"
    assert seen[-1] == 1_000
    assert sorted(seen) == [2, 30, 1_000]


def test_models_that_do_not_fit_the_form_of_the_rows_are_free_but_only_ours_say_so() -> None:
    holdout = Holdout((ROWS[:, None], ROWS % 2))
    for wrong in (accuracy_of(len, features=[7]), accuracy_of(len, features=["x"])):
        with pytest.raises(QueryError, match="no column"):
            holdout.ask(wrong, guess=0.5)
    assert holdout.ask(lambda rows: rows[1] == 1, guess=0.5).queries == 1


def test_settings_of_numpy_that_a_statistic_changes_are_put_back() -> None:
    before = np.geterr()

    def changes(rows: Any) -> Any:
        np.seterr(all="raise")
        return rows % 2 == 0

    Holdout(ROWS).ask(changes, guess=0.5)
    assert np.geterr() == before


def test_an_interrupt_while_a_statistic_runs_counts_and_the_holdout_goes_on(tmp_path: Path) -> None:
    """A statistic can raise KeyboardInterrupt itself: passed on, it would be a second, uncounted kind of refusal."""
    with Holdout(ROWS, state=tmp_path / "s") as holdout:
        error = _told(holdout, FAILURES["KeyboardInterrupt"])
        assert "Ctrl-C" in str(error)
    with Holdout(ROWS, state=tmp_path / "s") as holdout:
        assert holdout.ask(lambda rows: rows % 2 == 0, guess=0.5).failures == 1

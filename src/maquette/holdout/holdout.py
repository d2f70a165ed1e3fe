"""Holdout: one sample, any number of adaptive questions, intervals that hold together."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, get_args

from maquette.curator import ExactNoise, NoiseSource
from maquette.errors import MaquetteError, QueryError
from maquette.holdout.api import Decision, Guess, Guesser, Method, Note
from maquette.holdout.certified import HEAD, Certified
from maquette.holdout.description_length import DescriptionLength
from maquette.holdout.guess_and_check import GuessAndCheck
from maquette.holdout.noisy import Noisy, Theorem
from maquette.holdout.sample import Sample
from maquette.holdout.splitting import Splitting
from maquette.holdout.state import State
from maquette.holdout.statistic import Asked, Statistic, Values, refusal
from maquette.holdout.thresholdout import Thresholdout
from maquette.privacy import check_confidence
from maquette.schema import Schema
from maquette.theory import html_table

MethodName = Literal["guess-and-check", "thresholdout", "gaussian", "splitting"]


SHOWN = 20  # latest answers, in a notebook


class Holdout:
    """A sample that can be asked many times, by an analyst who adapts to its answers.

    `data` are rows drawn independently from the population and not used for anything else: a numpy array, a tuple
    (X, y), a mapping of columns, an Arrow table, a pandas or polars frame. Every answer is about the population, and
    with probability `confidence` all intervals hold together. Guesses make it last: an answer that was guessed well
    costs almost nothing. They come from `ask(..., guess=)`, from a public model (`guesser`), or from `train`, a sample
    that may be looked at freely.

    Methods: "guess-and-check" (default) needs no limit. With `queries` and `tolerance` all its intervals have the same
    width, for at most `queries` questions and `failures` failed guesses (default: the guesser's maximum).
    "thresholdout" (`queries`, `hits`) and "gaussian" (`queries`, `transfer`) add noise and rely on privacy; "splitting"
    (`queries`) is the baseline. In guess-and-check and thresholdout `tolerance` is the largest distance at which a
    guess is kept; in guess-and-check without `queries` it is the desired half-width, which widens when it cannot be met
    (with `widen=False` the holdout is then exhausted).

    With `state`, a file, everything is on disk before an answer is returned, and a restart continues from there. A
    question with a `name`, and a condition over the `schema`, is answered once: a repeat returns the same answer, free.
    Other questions are new each time, but earlier answers serve as guesses; equal statistics are recognised by their
    values on `train`. Several threads may ask.

    It never reveals: the exact mean on the holdout, how far a guess was off, why a statistic failed on it. It cannot
    prevent misuse: a statistic is the analyst's code and sees the rows. A statistic that prints, warns, keeps or
    combines rows, or ends the process because of them, voids the guarantee; so does computing on the same rows
    elsewhere. Small differences in running time may reveal something about the rows. So does a statistic that fails on
    the holdout; such a failure therefore counts, always once and with the same message: as a failed guess, or as wider
    intervals. Ctrl-C while it runs is such a failure. A failure on `train` is found first, explained, and free.

    >>> import numpy as np
    >>> rows = np.random.default_rng(1).random((20_000, 3)) < 0.3
    >>> holdout = Holdout(rows[:10_000], train=rows[10_000:])
    >>> answer = holdout.ask(lambda rows: rows[:, 0] & rows[:, 1])
    >>> answer.source, answer.low <= 0.09 <= answer.high
    ('guess', True)
    """

    def __init__(
        self,
        data: Any,
        *,
        confidence: float = 0.95,
        method: MethodName = "guess-and-check",
        train: Any = None,
        schema: Schema | None = None,
        guesser: Guesser | None = None,
        queries: int | None = None,
        tolerance: float | None = None,
        failures: int | None = None,
        hits: int | None = None,
        transfer: Theorem = "jung",
        widen: bool = True,
        clip: bool = False,
        state: str | Path | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        check_confidence(confidence)
        _check_settings(method, queries=queries, tolerance=tolerance, failures=failures, hits=hits)
        self.confidence, self.method, self.schema = confidence, method, schema
        self._sample = Sample(data)
        self._train = None if train is None else Sample(train, what="train")
        if schema is not None:
            for sample in filter(None, (self._sample, self._train)):
                sample.records(schema)
        self._guesser, self._clip = guesser, clip
        self._lock = threading.RLock()
        self._answers: list[Certified] = []
        self._named: dict[str, tuple[Certified, str | None]] = {}
        self._remembered: dict[str, float] = {}
        settings: dict[str, Any] = {
            "rows": self._sample.size,
            "beta": 1 - confidence,
            "queries": queries,
            "tolerance": tolerance,
            "failures": failures,
            "hits": hits,
            "transfer": transfer,
            "widen": widen,
            "guesser": guesser,
            "noise": ExactNoise() if noise is None else noise,
        }
        # Public random choices, kept with the state: the splits must stay disjoint after a restart.
        coins = {"seed": secrets.randbits(64)} if method == "splitting" else {}
        self._method = _method(method, settings, coins)
        self._state = State(state, self._terms() if state is not None else {}, coins)
        if self._state.coins != coins:
            self._method = _method(method, settings, self._state.coins)
        self._resume()

    def ask(self, statistic: Statistic, guess: float | None = None, *, name: str | None = None) -> Certified:
        """The population's mean of a statistic, a number in [0, 1] for every row, with its interval.

        `statistic` is a function from the rows to booleans or numbers, one per row; `accuracy_of(model, ...)` or
        `mean_loss(model, ...)`; or, with a schema, a condition such as "age >= 65 AND smoker". An invalid question is
        refused and nothing is recorded, unless the statistic fails on the holdout's own rows. With a `name` the first
        answer is kept and returned whenever the name is used. Only `train` is used to check that the name still means
        the same statistic, because a check on the holdout would reveal something.

        A function is called on `train` and on the guesser's points first, and on the holdout last. Without `train` it
        is also called on zero rows, to find out whether it returns booleans, which have narrower intervals than
        numbers. Frames have no such empty form, so without `train` functions of frames count as numbers.
        """
        asked = Asked.of(statistic, self.schema, clip=self._clip)
        _check_guess(guess)
        _check_name(name)
        key = name if asked.query is None or name is not None else f"condition {asked.query.key}"
        asked.check_form(self._sample)
        trained = None if self._train is None else asked.on(self._train)
        mark = None if trained is None else trained.digest
        with self._lock:
            if (known := self._known(key, mark)) is not None:
                return known
            guessed = self._guess(asked, guess, trained, mark)
            if self._method.exhausted:
                return self._answer(self._method.sealed(guessed), asked, key, mark)
        # All public checks come before this point, so that only an answer or a recorded refusal can follow. Outside the
        # lock, because the statistic is the analyst's code and may take long.
        values = asked.on_holdout(self._sample, predicate=asked.promises_booleans(self._sample, trained))
        with self._lock:
            if (known := self._known(key, mark)) is not None:
                return known
            if self._method.exhausted:  # while the statistic was evaluated
                return self._answer(self._method.sealed(guessed), asked, key, mark)
            if values is None:
                raise self._refused()
            return self._answer(self._decide(values, guessed), asked, key, mark)

    def _refused(self) -> QueryError:
        """Count a question that fails on the rows: free failures would reveal any number of bits about them."""
        record = {"note": self._method.refused()}
        try:
            self._state.append(record)
            self._take(record)
        except BaseException:
            self._state.give_up()
            raise
        return refusal(self._sample.size)

    def _known(self, key: str | None, mark: str | None) -> Certified | None:
        """The recorded answer under a name. Uses public information only: the name, and values on the training rows."""
        self._state.check()
        if key is None or key not in self._named:
            return None
        answer, known_mark = self._named[key]
        if mark is not None and known_mark is not None and mark != known_mark:
            raise QueryError(
                f"the name {key!r} was used for another statistic: their values on the training sample differ",
                advice="Nothing was recorded. Use a fresh name for each statistic",
            )
        return answer

    def _guess(self, asked: Asked, given: float | None, trained: Values | None, mark: str | None) -> Guess | None:
        """The analyst's guess, else an earlier answer to an equal statistic, else the model's, else training's."""
        # A model that cannot evaluate the statistic must fail now, before the rows are read.
        model = None if self._guesser is None else self._guesser.guess(asked)
        if given is not None:
            return Guess(float(given), "guess")
        if mark is not None and mark in self._remembered:
            return Guess(self._remembered[mark], "guess")
        if model is not None:
            return Guess(float(model), "hypothesis")  # a number, not an object that would see what it is compared with
        if trained is None and self._method.needs_guess:
            raise QueryError(
                f"{self.method} compares the holdout with a guess, and there is none: pass guess=, or "
                "Holdout(..., train=...)",
                advice="Nothing was recorded",
            )
        return None if trained is None else Guess(trained.mean, "guess")

    def _answer(self, decision: Decision, asked: Asked, key: str | None, mark: str | None) -> Certified:
        answer = decision.certified
        try:
            record = {
                "name": key,
                "mark": mark,
                "answer": answer.as_dict(),
                "note": decision.note,
                "lesson": self._lesson(asked, answer),
            }
            self._state.append(record)
            self._take(record)
        except BaseException:
            self._state.give_up()
            raise
        return answer

    def _decide(self, values: Values, guess: Guess | None) -> Decision:
        try:
            return self._method.decide(values, guess)
        except MaquetteError:
            raise
        except BaseException:
            self._state.give_up()  # noise may have been drawn
            raise

    def _lesson(self, asked: Asked, answer: Certified) -> Note | None:
        if self._guesser is None or answer.source != "holdout":
            return None
        return self._guesser.lesson(asked, answer.value)

    def _take(self, record: Mapping[str, Any]) -> None:
        """Move to the state after a record."""
        self._method.apply(record["note"])
        if "answer" not in record:
            return
        answer = Certified.from_dict(record["answer"])
        self._answers.append(answer)
        if record["name"] is not None:
            self._named[record["name"]] = answer, record["mark"]
        if record["mark"] is not None and answer.certificate != "none":
            self._remembered[record["mark"]] = answer.value
        if record["lesson"] is not None and self._guesser is not None:
            self._guesser.learn(record["lesson"])

    def _resume(self) -> None:
        for record in self._state.records:
            self._take(record)
        self._state.records.clear()
        if (note := self._method.reopened()) is not None:
            self._state.append({"note": note})
            self._method.apply(note)

    def _terms(self) -> dict[str, Any]:
        return {
            "rows": self._sample.size,
            "fingerprint": self._sample.fingerprint,
            "train": None if self._train is None else self._train.fingerprint,
            "schema": None if self.schema is None else self.schema.digest,
            "method": self.method,
            "confidence": self.confidence,
            "clip": self._clip,
            **self._method.terms,
            **({} if self._guesser is None else {f"guesser {k}": v for k, v in self._guesser.terms.items()}),
        }

    @property
    def answers(self) -> tuple[Certified, ...]:
        """All answers until now, in order: everything ever released about the rows."""
        with self._lock:
            return tuple(self._answers)

    def close(self) -> None:
        """Release the state for another process."""
        with self._lock:
            self._state.close()

    def __enter__(self) -> Holdout:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Holdout cannot be copied or sent to another process: the copy would not know what the original is "
            "asked. Ask from one process, with threads if need be (in scikit-learn n_jobs=1, or the threading backend)"
        )

    def __repr__(self) -> str:
        with self._lock:
            asked, failed = len(self._answers), self._answers[-1].failures if self._answers else 0
        return (
            f"Holdout({self._sample.size:,} rows, {self.method}, confidence {self.confidence:g}, {asked:,} asked, "
            f"{failed:,} answered by the holdout)"
        )

    def _repr_html_(self) -> str:
        with self._lock:
            last = [answer.cells for answer in self._answers[-SHOWN:]]
        return html_table(repr(self), [HEAD, *last])


def _method(name: MethodName, settings: Mapping[str, Any], coins: Mapping[str, Any]) -> Method:
    """Build a method from the settings that concern it."""

    def chosen(*names: str) -> dict[str, Any]:
        return {setting: settings[setting] for setting in ("rows", "beta", *names)}

    if name == "thresholdout":
        return Thresholdout(**chosen("queries", "tolerance", "noise"), hits=settings["hits"])
    if name == "gaussian":
        return Noisy(**chosen("queries", "noise"), theorem=settings["transfer"])
    if name == "splitting":
        return Splitting(**chosen("queries"), seed=coins["seed"])
    queries, tolerance, guesser = settings["queries"], settings["tolerance"], settings["guesser"]
    if queries is None or tolerance is None:
        return GuessAndCheck(**chosen("queries", "tolerance", "widen"))
    failures = settings["failures"]
    if failures is None:
        if guesser is None:
            raise QueryError(
                "with queries= and tolerance= also give failures=, the number of wrong guesses allowed, or a guesser",
                advice="or leave queries= out, and any number may fail",
            )
        failures = guesser.max_failures(queries=queries, tolerance=tolerance)
    return DescriptionLength(**chosen("queries", "tolerance"), failures=failures)


def _check_settings(
    method: str, *, queries: int | None, tolerance: float | None, failures: int | None, hits: int | None
) -> None:
    if method not in get_args(MethodName):
        raise QueryError(f"there is no method {method!r}", expected=f"one of {', '.join(get_args(MethodName))}")
    for name, number in (("queries", queries), ("failures", failures), ("hits", hits)):
        least = 0 if name == "failures" else 1
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            raise QueryError(f"{name} is {number!r}", expected=f"a whole number of at least {least}")
    if tolerance is not None and not 0 < tolerance <= 1:
        raise QueryError(f"tolerance is {tolerance!r}", expected="a fraction between 0 and 1, such as 0.02")
    if method != "guess-and-check" and queries is None:
        raise QueryError(
            f"{method} must know how many queries will come", advice="say queries=, or use guess-and-check"
        )
    if method == "thresholdout" and hits is None:
        raise QueryError("thresholdout must know how many guesses may fail", advice="say hits=, often a few dozen")
    unused = {
        "failures": failures is not None and (method != "guess-and-check" or queries is None or tolerance is None),
        "hits": hits is not None and method != "thresholdout",
        "tolerance": tolerance is not None and method in ("gaussian", "splitting"),
    }
    if wrong := [name for name, is_wrong in unused.items() if is_wrong]:
        raise QueryError(f"{method} with these settings does not use {', '.join(wrong)}", advice="leave it out")


def _check_guess(guess: float | None) -> None:
    if guess is not None and not (isinstance(guess, Real) and math.isfinite(guess) and 0 <= guess <= 1):
        advice = "; a name goes into name=" if isinstance(guess, str) else ""
        raise QueryError(
            f"the guess is {guess!r}", expected=f"a fraction between 0 and 1{advice}", advice="Nothing was recorded"
        )


def _check_name(name: str | None) -> None:
    if name is not None and not (isinstance(name, str) and name):
        raise QueryError(f"the name is {name!r}", expected="text", advice="Nothing was recorded")

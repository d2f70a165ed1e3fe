"""What a holdout takes and refuses: rows, statistics, models, scorers; and what it never tells."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import maquette as mq
from maquette.errors import (
    DataError,
    EmptyTable,
    LedgerError,
    MaquetteError,
    QueryError,
    SchemaError,
    UnreadableSource,
)
from maquette.holdout import Holdout, MedianGuesser, accuracy_of, mean_loss, reusable_score

X = np.random.default_rng(2).normal(size=(3_000, 4))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
NAMES = ["a", "b", "c", "d"]
FRAME = {**{name: X[:, i] for i, name in enumerate(NAMES)}, "y": Y}
CANARY = "canary-8674"


def in_pandas() -> Any:
    import pandas as pd

    return pd.DataFrame(FRAME)


def in_polars() -> Any:
    import polars as pl

    return pl.DataFrame(FRAME)


ROWS: dict[str, Callable[[], Any]] = {
    "tuple": lambda: (X, Y),
    "array": lambda: np.column_stack([X, Y]),
    "array-first": lambda: np.column_stack([Y, X]),
    "mapping": lambda: FRAME,
    "pandas": in_pandas,
    "polars": in_polars,
    "arrow": lambda: pa.table(FRAME),
}


class Sign:
    """A model with a predict method that takes arrays and frames."""

    def predict(self, inputs: Any) -> Any:
        first = inputs[:, 0] if isinstance(inputs, np.ndarray) else np.asarray(inputs["a"])
        return (first > 0).astype(int)


TRUE_COUNT = int(((X[:, 0] > 0) == Y).sum())


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("tuple", {}),
        ("array", {}),
        ("array-first", {"target": 0}),
        ("mapping", {"target": "y"}),
        ("pandas", {"target": "y"}),
        ("polars", {"target": "y"}),
        ("arrow", {"target": "y"}),
        ("pandas", {"target": "y", "features": ["a", "c"]}),
        ("tuple", {"features": [0, 2]}),
    ],
    ids=["tuple", "array", "array-first", "mapping", "pandas", "polars", "arrow", "pandas-some", "tuple-some"],
)
def test_the_accuracy_of_a_model_in_rows_of_every_kind(kind: str, where: Any) -> None:
    data: Any = ROWS[kind]()
    statistic = accuracy_of(Sign(), **where)
    answer = Holdout(data).ask(statistic, guess=TRUE_COUNT / 3_000)
    assert answer.value == TRUE_COUNT / 3_000
    assert answer.source == "guess"
    assert Holdout(data).ask(statistic, guess=0.1).source == "holdout"


def test_losses_are_bounded() -> None:
    def predicted(inputs: Any) -> Any:
        return inputs[:, 0]

    holdout = Holdout((X, Y))
    for loss, exact in {
        "absolute": np.abs(Y - X[:, 0]),
        "squared": np.square(Y - X[:, 0]),
    }.items():
        expected = float(np.clip(exact / 4, 0, 1).mean())
        assert holdout.ask(mean_loss(predicted, loss, bound=4.0), guess=expected).source == "guess"
    probabilities = mean_loss(lambda inputs: np.full(len(inputs), 0.25), "log", bound=2.0)
    expected = float(-np.log(np.where(Y > 0, 0.25, 0.75)).mean() / 2)
    assert holdout.ask(probabilities, guess=expected).source == "guess"
    mine = mean_loss(predicted, lambda truth, guess: (truth - guess) ** 4, bound=10.0)
    assert 0 <= holdout.ask(mine).value <= 1
    with pytest.raises(QueryError, match="no loss 'hinge'"):
        mean_loss(predicted, "hinge")
    with pytest.raises(QueryError, match="bound"):
        mean_loss(predicted, bound=0.0)
    with pytest.raises(QueryError, match="predict"):
        accuracy_of(3)


def test_misused_models_say_what_is_missing() -> None:
    with pytest.raises(QueryError, match="target="):
        Holdout(in_polars()).ask(accuracy_of(Sign()))
    with pytest.raises(QueryError, match=r"\(X, y\)"):
        Holdout((X, Y, Y)).ask(accuracy_of(Sign()))
    with pytest.raises(QueryError, match="not a name"):
        Holdout(X).ask(accuracy_of(Sign(), target="y"))


def _raises(rows: Any) -> Any:
    raise ValueError(f"bad row {rows[0]}: {CANARY}")


BAD: list[tuple[Any, str]] = [
    (lambda rows: rows[:, 0], r"outside \[0, 1\]"),
    (lambda rows: np.full(len(rows), np.nan), "NaN"),
    (lambda rows: np.full(len(rows), np.inf), "outside"),
    (lambda rows: (rows[:, 0] > 0)[:-1], "one number for each"),
    (lambda rows: rows[rows[:, 0] > 0, 0] * 0, "one number for each"),
    (lambda rows: 0.5, "not their mean"),
    (lambda rows: np.zeros((len(rows), 1)), "one number for each"),
    (lambda rows: np.array(["x"] * len(rows)), "booleans or numbers"),
    (lambda rows: np.array([None] * len(rows)), "booleans or numbers"),
    (lambda rows: None, "one number for each"),
    (_raises, "raised ValueError"),
    (lambda rows: rows.__setitem__((0, 0), 5.0), "raised ValueError"),  # the rows are read-only
    (17, "cannot ask int"),
    ("a > 3", "schema"),
]


@pytest.mark.thorough(fast=27)
@pytest.mark.parametrize(
    "settings", [{}, {"train": X}, {"method": "gaussian", "queries": 5}], ids=["plain", "train", "gaussian"]
)
@pytest.mark.parametrize(("statistic", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_statistics_are_refused_without_a_trace(statistic: Any, message: str, settings: Any, tmp_path: Any) -> None:
    path = tmp_path / "s"
    with Holdout(X, state=path, **settings) as holdout:
        holdout.ask(lambda rows: rows[:, 1] > 0, guess=0.5)
        before, content = holdout.answers, path.read_bytes()
        # Without training rows to fail on first, a refusal is news about the holdout: counted, and never explained.
        counted = callable(statistic) and "train" not in settings
        with pytest.raises(QueryError, match="failed on the rows" if counted else message) as refusal:
            holdout.ask(statistic, name="bad")
        text = "".join(traceback.format_exception(refusal.value))
        assert CANARY not in text
        assert refusal.value.__cause__ is None
        assert refusal.value.__context__ is None  # not even hidden in the chain
        assert not any(str(len(X[X[:, 0] > 0])) in line for line in str(refusal.value).split())
        added = path.read_bytes().removeprefix(content)
        assert holdout.answers == before
        assert (added.count(b"\n"), "it counts" in str(refusal.value)) == (counted, counted)
        assert b'answer":' not in added
        answer = holdout.ask(lambda rows: rows[:, 2] > 0, name="bad", guess=0.5)  # the name is still free
        assert answer.queries == 2 + counted


@pytest.mark.parametrize("guess", [-0.1, 1.5, float("nan"), float("inf")])
def test_bad_guesses_and_names_are_refused(guess: float) -> None:
    holdout = Holdout(X)
    with pytest.raises(QueryError, match="between 0 and 1"):
        holdout.ask(lambda rows: rows[:, 0] > 0, guess=guess)
    with pytest.raises(QueryError, match="name"):
        holdout.ask(lambda rows: rows[:, 0] > 0, name="")
    assert holdout.answers == ()


def test_clipping_is_on_request() -> None:
    holdout = Holdout(X, clip=True, train=X[::-1])
    expected = float(np.clip(X[:, 0], 0, 1).mean())
    assert holdout.ask(lambda rows: rows[:, 0], guess=expected).source == "guess"
    with pytest.raises(QueryError, match="NaN"):
        holdout.ask(lambda rows: rows[:, 0] * np.nan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"confidence": 1.0}, "confidence"),
        ({"method": "magic"}, "no method 'magic'"),
        ({"queries": 0}, "at least 1"),
        ({"queries": 2.5}, "whole number"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"method": "gaussian"}, "queries="),
        ({"method": "gaussian", "queries": 5, "transfer": "magic"}, "no transfer theorem"),
        ({"method": "thresholdout", "queries": 5}, "hits="),
        ({"method": "gaussian", "queries": 5, "hits": 3}, "does not use hits"),
        ({"failures": 3}, "does not use failures"),
        ({"method": "splitting", "queries": 5, "tolerance": 0.1}, "does not use tolerance"),
        ({"method": "gaussian", "queries": 10**7, "transfer": "bassily"}, "Bassily"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense(settings: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        Holdout(X, **settings)


def test_rows_that_cannot_be_used() -> None:
    with pytest.raises(EmptyTable):
        Holdout(np.zeros((0, 3)))
    with pytest.raises(UnreadableSource, match="expected a numpy array"):
        Holdout(42)
    with pytest.raises(DataError, match="one row for each row"):
        Holdout((X, Y[:-1]))
    with pytest.raises(UnreadableSource, match="single number"):
        Holdout(np.array(3))
    with pytest.raises(SchemaError, match="names"):
        Holdout(X, schema=mq.Schema([mq.Boolean("a")]))


def test_later_changes_to_the_callers_rows_do_not_matter() -> None:
    for data in (X.copy(), in_pandas()):
        holdout = Holdout(data)
        if isinstance(data, np.ndarray):
            data[:] = 0
        else:
            data.loc[:, "a"] = 0.0

        def positive(rows: Any) -> Any:
            return np.asarray(rows[:, 0] if isinstance(rows, np.ndarray) else rows["a"]) > 0

        share = float((X[:, 0] > 0).mean())
        assert holdout.ask(positive, guess=share).source == "guess"

    def adds(rows: Any) -> Any:
        rows["new"] = 1
        return rows["a"] > 0

    frame = Holdout(in_pandas())
    frame.ask(adds)
    assert frame.ask(lambda rows: np.full(len(rows), "new" in rows.columns), guess=0.0).source == "guess"


def test_nothing_that_is_printed_holds_a_row() -> None:
    import pandas as pd

    data = pd.DataFrame({"who": [CANARY] * 50, "x": np.linspace(0, 1, 50)})
    holdout = Holdout(data, train=data)
    answer = holdout.ask(lambda rows: rows["x"].to_numpy())
    texts = [repr(holdout), str(holdout), repr(answer), repr(holdout._sample), repr(holdout.answers)]
    assert not any(CANARY in text for text in texts)
    assert repr(holdout).startswith("Holdout(50 rows, guess-and-check, confidence 0.95, 1 asked")
    assert "array" not in repr(accuracy_of(Sign()))


def test_the_exact_mean_is_never_told() -> None:
    """Neither on a hit nor on a miss; the guess is whatever was given, the answer a grid point or noisy."""
    for seed in range(20):
        values = np.random.default_rng(seed).random(997)
        for settings in ({}, {"method": "thresholdout", "queries": 9, "hits": 3}, {"method": "gaussian", "queries": 9}):
            for guess in (0.5, 0.05):
                answer = Holdout(values, **settings).ask(lambda rows: rows, guess=guess)  # type: ignore[arg-type]
                assert answer.value != float(values.mean())


def test_conditions_over_a_schema() -> None:
    schema = mq.Schema([mq.Integer("age", 0, 99, width=10), mq.Boolean("smoker")])
    rng = np.random.default_rng(1)
    data = {"age": rng.integers(0, 100, 2_000), "smoker": rng.random(2_000) < 0.2}
    holdout = Holdout(data, schema=schema)
    first = holdout.ask("smoker AND age >= 50", guess=0.1)
    assert holdout.ask((mq.col("age") >= 50) & mq.col("smoker")) == first
    assert len(holdout.answers) == 1
    assert holdout.ask(lambda rows: rows["smoker"], guess=0.2).source == "guess"
    other = mq.Schema([mq.Boolean("smoker")])
    with pytest.raises(QueryError, match="another schema"):
        holdout.ask(mq.where(other, "smoker"))


def test_many_threads_make_one_transcript() -> None:
    holdout = Holdout(X, train=X[::-1])
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(15):
                holdout.ask(lambda rows, i=i: rows[:, i % 4] > i / 10, name=f"{i % 5} {seed % 2}" if i < 5 else None)  # type: ignore[misc]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    answers = holdout.answers
    assert [answer.queries for answer in answers] == list(range(1, len(answers) + 1))
    assert len(answers) == 6 * 10 + 2 * 5


def test_a_scorer_for_searches() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, ShuffleSplit

    holdout = Holdout((X[:1_500], Y[:1_500]))
    scorer = reusable_score(holdout)
    search = GridSearchCV(
        LogisticRegression(),
        {"C": [0.01, 1.0]},
        scoring=scorer,
        cv=ShuffleSplit(n_splits=2, test_size=0.5, random_state=0),
        refit=False,
    )
    search.fit(X[1_500:], Y[1_500:])
    assert len(scorer.answers) == len(holdout.answers) == 4
    assert sorted(a.value for a in holdout.answers) == pytest.approx(
        sorted(np.concatenate([search.cv_results_[f"split{i}_test_score"] for i in range(2)]))
    )
    assert all(answer.source == "guess" for answer in holdout.answers)
    model = LogisticRegression().fit(X[1_500:], Y[1_500:])
    loss = reusable_score(holdout, loss="absolute", bound=1.0)
    assert loss(model, X[1_500:], Y[1_500:]) == -holdout.answers[-1].value
    assert "accuracy on Holdout" in repr(scorer)
    frame = Holdout(in_pandas())
    named = LogisticRegression().fit(in_pandas()[NAMES], Y)
    assert reusable_score(frame, target="y")(named, in_pandas()[NAMES], Y) > 0.8
    assert reusable_score(frame, target="y")(named) > 0.8  # no guess at all


def test_errors_are_ours() -> None:
    with pytest.raises(MaquetteError):
        Holdout(X).ask(lambda rows: 1 / 0)


class Forgetful(MedianGuesser):
    """Fails while it works out what an answer teaches."""

    def lesson(self, asked: Any, value: float) -> Any:
        raise ZeroDivisionError


def test_a_guesser_that_fails_while_an_answer_is_recorded_ends_the_holdout() -> None:
    """Noise may have been drawn: going on could tell two answers from one draw."""
    holdout = Holdout(np.arange(1_000) % 2, guesser=Forgetful(np.arange(2), rows=4, tolerance=0.5))
    with pytest.raises(ZeroDivisionError):
        holdout.ask(lambda rows: rows < 1, guess=0.0)
    assert holdout.answers == ()
    with pytest.raises(LedgerError, match="interrupted"):
        holdout.ask(lambda rows: rows < 1, guess=0.5)

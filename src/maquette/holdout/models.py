"""Statistics of predictive models: accuracy and bounded losses of anything with a `predict` method."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.schema import nearest

Target = str | int
Features = Sequence[str] | Sequence[int]
Loss = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


class Misused(QueryError):
    """A model statistic that does not fit the form of the rows: raised by our code only, so it never quotes a row."""


class Unfit(QueryError):
    """A model statistic that does not fit the content of the rows: quotes no row, but raising it reveals something."""


LOSSES: dict[str, Loss] = {
    "absolute": lambda truth, predicted: np.abs(truth - predicted),
    "squared": lambda truth, predicted: np.square(truth - predicted),
    # Binary cross-entropy of a predicted probability; wrong predictions of exactly 0 or 1 lose the bound.
    "log": lambda truth, predicted: -np.log(np.where(truth > 0.5, predicted, 1.0 - predicted).clip(1e-300, 1.0)),
}


@dataclass(frozen=True)
class Accuracy:
    """Whether a model's prediction is right, for every row."""

    model: Any
    target: Target | None
    features: Features | None

    def __call__(self, rows: Any) -> NDArray[np.bool_]:
        """One boolean per row."""
        inputs, truth = split(rows, self.target, self.features)
        predicted = np.asarray(predict(self.model, inputs))
        _one_each(truth, predicted)
        right = np.asarray(predicted == truth, dtype=np.bool_)
        if _numeric(predicted) != _numeric(truth) and not right.any():
            raise Unfit(
                "no prediction is right, and of the predictions and the target one is numbers and the other is not",
                advice="fit the model to the labels that the rows have",
            )
        return right


@dataclass(frozen=True)
class MeanLoss:
    """A model's loss for every row, clipped at a bound and divided by it."""

    model: Any
    loss: Loss
    bound: float
    target: Target | None
    features: Features | None

    def __call__(self, rows: Any) -> NDArray[np.float64]:
        """One number in [0, 1] per row."""
        inputs, truth = split(rows, self.target, self.features)
        predicted = np.asarray(predict(self.model, inputs))
        if self.loss in LOSSES.values():
            truth = _suited(truth, predicted, probability=self.loss is LOSSES["log"])
        losses = np.asarray(self.loss(truth, predicted), dtype=np.float64)
        return np.asarray(np.clip(losses / self.bound, 0.0, 1.0))


def accuracy_of(model: Any, *, target: Target | None = None, features: Features | None = None) -> Accuracy:
    """The accuracy of a model with a `predict` method, or of a function from inputs to predictions.

    In a frame or a mapping, `target` names the column to predict; in a two-dimensional array it is a column index
    (default the last); a tuple (X, y) needs no target. `features` default to all other columns.
    """
    return Accuracy(_checked(model), target, features)


def mean_loss(
    model: Any,
    loss: str | Loss = "squared",
    *,
    bound: float = 1.0,
    target: Target | None = None,
    features: Features | None = None,
) -> MeanLoss:
    """The mean of a loss, clipped at `bound` for every row; answers are fractions of the bound.

    `loss` is "absolute", "squared", "log" (of a predicted probability of class 1), or a function from (truth,
    predictions) to one number per row. The bound must be public: chosen without looking at the holdout.
    """
    if isinstance(loss, str) and loss not in LOSSES:
        raise QueryError(f"there is no loss {loss!r}", expected=f"one of {', '.join(LOSSES)}, or a function")
    if not isinstance(bound, Real) or not 0.0 < bound < float("inf"):
        raise QueryError(f"bound is {bound!r}", expected="a positive finite number; larger losses count as this bound")
    return MeanLoss(_checked(model), LOSSES[loss] if isinstance(loss, str) else loss, bound, target, features)


def _checked(model: Any) -> Any:
    if not (hasattr(model, "predict") or callable(model)):
        raise QueryError(
            f"{type(model).__name__} has no predict method and cannot be called", expected="a fitted model"
        )
    return model


def _numeric(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "biuf"


def _one_each(truth: NDArray[Any], predicted: NDArray[Any]) -> None:
    # Checked here, because numpy would compare every prediction with every label if one of them is a column.
    if truth.ndim != 1 or predicted.shape != truth.shape:
        raise Unfit(
            "the predictions or the labels are not one for each row",
            expected="one prediction and one label for each row, each in one dimension",
            advice="of predict_proba take a column, as in [:, 1], and give y as one column without a second dimension",
        )


def _suited(truth: NDArray[Any], predicted: NDArray[Any], *, probability: bool) -> NDArray[np.float64]:
    """The truth as numbers, if a loss can be computed from it and the predictions."""
    _one_each(truth, predicted)
    if not (_numeric(truth) and _numeric(predicted)):
        raise Unfit(
            "a loss needs numbers, and the target or the predictions are something else",
            advice="say 0 and 1 for two classes, or ask for accuracy_of(model)",
        )
    if probability and (predicted.min(initial=0.0) < 0.0 or predicted.max(initial=1.0) > 1.0):
        raise Unfit(
            'a prediction is outside [0, 1], and the loss "log" needs the probability of class 1',
            advice="pass a function such as lambda inputs: model.predict_proba(inputs)[:, 1]",
        )
    return truth.astype(np.float64)


def predict(model: Any, inputs: Any) -> Any:
    """A model's predictions for inputs."""
    return model.predict(inputs) if hasattr(model, "predict") else model(inputs)


def check_form(rows: Any, target: Target | None, features: Features | None) -> None:
    """Refuse columns that rows of this form do not have. The form is public, so no row is read."""
    if isinstance(rows, tuple):
        if len(rows) != 2:
            raise Misused(f"the rows are a tuple of {len(rows)} arrays", expected="two, as in (X, y)")
        if features is not None:
            if not isinstance(rows[0], np.ndarray) or rows[0].ndim != 2:
                raise Misused("features= chooses columns, and X is no array with two dimensions", advice="leave it out")
            _numbers(features, rows[0].shape[1])
    elif isinstance(rows, np.ndarray):
        if rows.ndim != 2 or isinstance(target, str):
            raise Misused(
                f"the rows are an array of {rows.ndim} dimensions and the target is {target!r}",
                expected="two dimensions, and the number of a column, not a name",
            )
        _numbers([*([] if target is None else [target]), *(features or ())], rows.shape[1])
    elif target is None:
        raise Misused("the target is not named", advice="say target=, the name of the column to predict")
    elif isinstance(rows, Mapping):
        _known(rows, target, features)
    else:
        import narwhals as nw

        _known(nw.from_native(rows, eager_only=True).columns, target, features)


def split(rows: Any, target: Target | None, features: Features | None) -> tuple[Any, NDArray[Any]]:
    """The inputs and the truth: the inputs keep the form of the rows."""
    check_form(rows, target, features)
    if isinstance(rows, tuple):
        inputs, truth = rows
        return inputs if features is None else inputs[:, _numbers(features, inputs.shape[1])], np.asarray(truth)
    if isinstance(rows, np.ndarray):
        width = rows.shape[1]
        column = width - 1 if target is None else _numbers([target], width)[0] % width
        chosen = [i for i in range(width) if i != column] if features is None else _numbers(features, width)
        return rows[:, chosen], rows[:, column]
    if isinstance(rows, Mapping):
        names = [name for name in rows if name != target] if features is None else list(features)
        return np.column_stack([rows[str(name)] for name in names]), np.asarray(rows[str(target)])
    import narwhals as nw

    frame = nw.from_native(rows, eager_only=True)
    names = [name for name in frame.columns if name != target] if features is None else list(features)
    return frame.select(*map(str, names)).to_native(), frame.get_column(str(target)).to_numpy()


def _known(columns: Iterable[str], target: Target, features: Features | None) -> None:
    """Refuse an unknown column name: names are public, unlike the message of a failed look-up in the rows."""
    names = list(map(str, columns))
    for name in map(str, (target, *(features or ()))):
        if name not in names:
            close = nearest(name, names)
            hint = f"did you mean {' or '.join(close)}?" if close else f"columns are {', '.join(names)}"
            raise Misused(f"the rows have no column {name!r}", advice=hint)


def _numbers(columns: Sequence[Target], width: int) -> list[int]:
    """Column indices, in an array of `width` columns."""
    for column in columns:
        if isinstance(column, str) or not -width <= column < width:
            raise Misused(
                f"the array has no column {column!r}",
                expected=f"a number from 0 to {width - 1}",
                advice="Nothing was recorded",
            )
    return [int(column) for column in columns]

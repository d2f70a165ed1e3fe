"""Statistics of predictive models: accuracy and bounded losses of anything with a `predict` method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError

Target = str | int
Features = Sequence[str] | Sequence[int]
Loss = Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]


class Misused(QueryError):
    """A model statistic that does not fit the form of the rows: ours alone, so its message never quotes a row."""


LOSSES: dict[str, Loss] = {
    "absolute": lambda truth, predicted: np.abs(truth - predicted),
    "squared": lambda truth, predicted: np.square(truth - predicted),
    # Binary cross-entropy of a predicted probability; predictions of 0 and 1 lose as much as the bound when wrong.
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
        return np.asarray(np.asarray(predict(self.model, inputs)) == truth, dtype=np.bool_)


@dataclass(frozen=True)
class MeanLoss:
    """A loss of a model, cut off at a bound and divided by it, for every row."""

    model: Any
    loss: Loss
    bound: float
    target: Target | None
    features: Features | None

    def __call__(self, rows: Any) -> NDArray[np.float64]:
        """One number in [0, 1] per row."""
        inputs, truth = split(rows, self.target, self.features)
        losses = np.asarray(self.loss(truth, np.asarray(predict(self.model, inputs))), dtype=np.float64)
        return np.asarray(np.clip(losses / self.bound, 0.0, 1.0))


def accuracy_of(model: Any, *, target: Target | None = None, features: Features | None = None) -> Accuracy:
    """The accuracy of a model with a `predict` method, or of a function from inputs to predictions.

    In a frame or a mapping `target` names the column to predict; in a two-dimensional array it is the number of the
    column (default the last); a tuple (X, y) needs neither. `features` default to all other columns.
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
    """The mean of a loss, every row's cut off at `bound`; answers are fractions of the bound.

    `loss` is "absolute", "squared", "log" (of a predicted probability of class 1), or a function from (truth,
    predictions) to one number per row. The bound must be public: chosen without looking at the holdout.
    """
    if isinstance(loss, str) and loss not in LOSSES:
        raise QueryError(f"there is no loss {loss!r}; expected one of {', '.join(LOSSES)}, or a function")
    if not 0.0 < bound < float("inf"):
        raise QueryError(f"bound is {bound}; expected a positive finite number, the largest loss that is told apart")
    return MeanLoss(_checked(model), LOSSES[loss] if isinstance(loss, str) else loss, bound, target, features)


def _checked(model: Any) -> Any:
    if not (hasattr(model, "predict") or callable(model)):
        raise QueryError(f"{type(model).__name__} has no predict method and cannot be called; expected a fitted model")
    return model


def predict(model: Any, inputs: Any) -> Any:
    """What a model says of inputs."""
    return model.predict(inputs) if hasattr(model, "predict") else model(inputs)


def split(rows: Any, target: Target | None, features: Features | None) -> tuple[Any, NDArray[Any]]:
    """The inputs and the truth: the inputs keep the form of the rows."""
    if isinstance(rows, tuple):
        if len(rows) != 2:
            raise Misused(f"the rows are a tuple of {len(rows)} arrays; expected two, as in (X, y)")
        inputs, truth = rows
        return (inputs if features is None else inputs[:, list(features)]), np.asarray(truth)
    if isinstance(rows, np.ndarray):
        if rows.ndim != 2 or isinstance(target, str):
            raise Misused("an array of rows has a number for each column, not a name; expected two dimensions")
        column = rows.shape[1] - 1 if target is None else int(target) % rows.shape[1]
        chosen = [i for i in range(rows.shape[1]) if i != column] if features is None else list(map(int, features))
        return rows[:, chosen], rows[:, column]
    if target is None:
        raise Misused("say target=, the name of the column to predict")
    if isinstance(rows, Mapping):
        names = [name for name in rows if name != target] if features is None else list(features)
        return np.column_stack([rows[str(name)] for name in names]), np.asarray(rows[str(target)])
    import narwhals as nw

    frame = nw.from_native(rows, eager_only=True)
    names = [name for name in frame.columns if name != target] if features is None else list(features)
    return frame.select(*map(str, names)).to_native(), frame.get_column(str(target)).to_numpy()

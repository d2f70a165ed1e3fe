"""A bridge to scikit-learn: a scorer whose scores hold for the population, however many models it has scored."""

from __future__ import annotations

from typing import Any

from maquette.errors import QueryError
from maquette.holdout.certified import Certified
from maquette.holdout.holdout import Holdout
from maquette.holdout.models import Features, Loss, Target, accuracy_of, mean_loss
from maquette.holdout.sample import Sample
from maquette.holdout.statistic import Asked


class ReusableScore:
    """Scores a fitted model on the holdout; the score on the rows passed to it is the guess.

    `answers` has the certified answer of every call. Higher is better: a loss is returned with a minus sign.
    """

    def __init__(
        self,
        holdout: Holdout,
        *,
        target: Target | None,
        features: Features | None,
        loss: str | Loss | None,
        bound: float,
    ) -> None:
        self._holdout, self._target, self._features = holdout, target, features
        self._loss, self._bound = loss, bound
        self.answers: list[Certified] = []

    def __call__(self, estimator: Any, X: Any = None, y: Any = None) -> float:  # noqa: N803
        """The certified score of a model; without X and y the holdout looks for another guess."""
        guess = None
        if X is not None and y is not None:
            shown = self._statistic(estimator, None, None)
            guess = Asked.of(lambda _: shown((X, y)), None, clip=False).on(Sample((y,), what="y")).mean
        answer = self._holdout.ask(self._statistic(estimator, self._target, self._features), guess=guess)
        self.answers.append(answer)
        return answer.value if self._loss is None else -answer.value * self._bound

    def _statistic(self, estimator: Any, target: Target | None, features: Features | None) -> Any:
        if self._loss is None:
            return accuracy_of(estimator, target=target, features=features)
        return mean_loss(estimator, self._loss, bound=self._bound, target=target, features=features)

    def __repr__(self) -> str:
        what = "accuracy" if self._loss is None else "mean loss"
        return f"ReusableScore({what} on {self._holdout!r})"


def reusable_score(
    holdout: Holdout,
    *,
    target: Target | None = None,
    features: Features | None = None,
    loss: str | Loss | None = None,
    bound: float = 1.0,
) -> ReusableScore:
    """A scorer (estimator, X, y) -> float for searches over features and parameters, such as GridSearchCV(scoring=...).

    The score is the certified accuracy, or minus the mean `loss` (see `mean_loss`), on the holdout's rows; `target` and
    `features` name their columns as in `accuracy_of`. The score on the X and y passed to it is the guess. So pass rows
    to which the model was not fitted, as cross-validation does: an overfitted guess costs a failure. Use n_jobs=1: a
    holdout cannot be copied to other processes.
    """
    if not isinstance(holdout, Holdout):
        raise QueryError(
            f"the holdout is of type {type(holdout).__name__}",
            expected="a Holdout",
            advice="write reusable_score(Holdout(rows, ...))",
        )
    return ReusableScore(holdout, target=target, features=features, loss=loss, bound=bound)

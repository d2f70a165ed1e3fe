"""What can be asked of a sample: a number in [0, 1] for every row, by a function, a condition or a scored model.

A statistic must treat every row by itself: its value for a row depends on that row and on what the analyst knew
before, not on the other rows. Only then is its mean over the sample an estimate of its mean over the population.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.holdout.models import Accuracy, MeanLoss, Misused, Unfit, check_form
from maquette.holdout.sample import Sample
from maquette.query import Expression, LinearQuery, where
from maquette.schema import Schema

_UNRECORDED = "Nothing was recorded"

Statistic: TypeAlias = Callable[[Any], Any] | str | Expression | LinearQuery


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """One number in [0, 1] per row; `predicate` if the type of the statistic makes it 0 or 1, whatever the rows."""

    numbers: NDArray[np.float64] | NDArray[np.bool_]
    predicate: bool

    @property
    def count(self) -> int:
        """How many rows satisfy a predicate."""
        return int(np.count_nonzero(self.numbers))

    @property
    def mean(self) -> float:
        """The empirical answer."""
        return float(self.numbers.mean())

    @property
    def digest(self) -> str:
        """Equal for equal values; used on public rows only, because it distinguishes sets of values."""
        return hashlib.sha256(self.numbers.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Asked:
    """A statistic that can be evaluated on any sample; `query` if it is a condition over the schema.

    A function is the analyst's code. On public rows (`on`) it is called once for each sample and its mistakes are
    explained. On the holdout (`on_holdout`) it is called last, and all its failures look the same.
    """

    function: Callable[[Any], Any] | None
    query: LinearQuery | None
    clip: bool
    _public: dict[Sample, Values] = field(default_factory=dict)

    @classmethod
    def of(cls, statistic: Statistic, schema: Schema | None, *, clip: bool) -> Asked:
        """Take a function as it is, or parse a condition; nothing is evaluated."""
        if isinstance(statistic, str | Expression | LinearQuery):
            if schema is None:
                raise QueryError(
                    "a condition needs a schema to be read by",
                    advice="pass Holdout(..., schema=...), or ask with a function from the rows to one number per row",
                )
            query = statistic if isinstance(statistic, LinearQuery) else where(schema, statistic)
            if query.schema != schema:
                raise QueryError(
                    "the query is over another schema than the holdout's", advice="build it from the same one"
                )
            return cls(None, query, clip)
        if not callable(statistic):
            raise QueryError(
                f"cannot ask {type(statistic).__name__}",
                expected="a function from the rows to one number in [0, 1] per "
                "row, accuracy_of(model, ...), mean_loss(model, ...), or a condition over the schema",
            )
        return cls(statistic, None, clip)

    def on(self, sample: Sample) -> Values:
        """Evaluate it on every row of a public sample, checked and cached; no error quotes a row."""
        if self.query is not None:
            return self._condition(sample)
        if sample not in self._public:
            self._public[sample] = _checked(self._outcome(sample), sample.size, clip=self.clip)
        return self._public[sample]

    def on_holdout(self, sample: Sample, *, predicate: bool) -> Values | None:
        """Evaluate it on the holdout; None if it fails, for any reason, because a reason would reveal something.

        What it raises is dropped with its chain, SystemExit and KeyboardInterrupt included. `predicate` says whether
        booleans are expected (`promises_booleans`): booleans count as numbers where numbers are expected, never the
        reverse.
        """
        if self.query is not None:
            return self._condition(sample)
        assert self.function is not None
        try:
            with np.errstate(all="ignore"):  # also restores what the statistic sets
                values = _checked(np.asarray(self.function(sample.rows)), sample.size, clip=self.clip)
        except BaseException:
            return None
        if predicate:
            return values if values.predicate else None
        return Values(values.numbers.astype(np.float64), False)

    def promises_booleans(self, sample: Sample, trained: Values | None) -> bool:
        """Whether the values on the holdout will be booleans, which have narrower intervals; from public facts only.

        The kind of a condition and of `accuracy_of` is known. A function is judged by its values on the training rows,
        else on zero rows in the sample's form; where that is unclear it counts as numbers, which is always valid.
        """
        if self.query is not None:
            return self.query.is_predicate
        if type(self.function) in (Accuracy, MeanLoss):
            return type(self.function) is Accuracy
        if trained is not None:
            return trained.predicate
        nothing = sample.nothing
        if nothing is None:
            return False
        assert self.function is not None
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcome = np.asarray(self.function(nothing))
        except Exception:
            return False
        return outcome.shape == (0,) and outcome.dtype == np.bool_

    def check_form(self, sample: Sample) -> None:
        """Refuse one of our statistics that does not fit the form of the rows, which is public."""
        if type(self.function) in (Accuracy, MeanLoss):
            check_form(sample.rows, self.function.target, self.function.features)  # type: ignore[union-attr]

    def _condition(self, sample: Sample) -> Values:
        assert self.query is not None
        weights = self.query.evaluate(sample.records(self.query.schema))
        return Values(weights > 0.5, True) if self.query.is_predicate else Values(weights, False)

    def _outcome(self, sample: Sample) -> NDArray[Any]:
        assert self.function is not None
        try:
            return np.asarray(self.function(sample.rows))
        except Misused:
            raise
        except Unfit as error:
            problem = QueryError(error.happened, expected=error.expected, advice=f"{error.advice}. {_UNRECORDED}")
        except Exception as error:
            problem = QueryError(
                f"the statistic raised {type(error).__name__}; its message is withheld, as it may quote rows",
                advice=f"Try the statistic by itself on rows that may be looked at. {_UNRECORDED}",
            )
        # Raised here, outside the handler, so that no exception in the chain holds the statistic's own message.
        raise problem


def refusal(size: int) -> QueryError:
    """The only message about a statistic that failed on the holdout's rows, whatever happened."""
    return QueryError(
        "the statistic failed on the rows of the holdout: it raised an error, was interrupted (Ctrl-C), or did not "
        f"return one boolean, or one number in [0, 1], for each of the {size:,} rows",
        advice="Which of these is withheld, as "
        "it depends on the rows. The failure itself reveals something too, so it counts: intervals become wider. "
        "Pass train=, rows that may be looked at: mistakes are found and explained there first, free",
    )


def _checked(outcome: NDArray[Any], size: int, *, clip: bool) -> Values:
    # Neither the length nor the values are shown: both may depend on the rows.
    if outcome.shape != (size,):
        raise QueryError(
            "the statistic did not return one number for each row",
            expected=f"one number for each of the {size:,} rows, in their order, not their mean and not a selection",
            advice=_UNRECORDED,
        )
    if outcome.dtype == np.bool_:
        return Values(outcome.copy(), True)
    if outcome.dtype.kind not in "iuf":
        raise QueryError(
            "the statistic returned something else than numbers",
            expected="booleans or numbers without missing values",
            advice=_UNRECORDED,
        )
    numbers = outcome.astype(np.float64)
    if np.isnan(numbers).any():
        raise QueryError(
            "the statistic returned NaN for some row", advice="give such rows a number. Nothing was recorded"
        )
    if clip:
        return Values(np.clip(numbers, 0.0, 1.0), False)
    if numbers.min() < 0.0 or numbers.max() > 1.0:
        raise QueryError(
            "the statistic returned a number outside [0, 1]",
            advice="rescale it, or pass clip=True to clip every number. Nothing was recorded",
        )
    return Values(numbers, False)

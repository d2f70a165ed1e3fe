"""What can be asked of a sample: a number in [0, 1] for every row, by a function, a condition or a scored model.

A statistic must treat every row by itself: its value for a row depends on that row and on what the analyst knew
before, not on the other rows. Only then is its mean over the sample an estimate of its mean over the population.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.holdout.models import Misused, Unfit
from maquette.holdout.sample import Sample
from maquette.query import Expression, LinearQuery, where
from maquette.schema import Schema

Statistic: TypeAlias = Callable[[Any], Any] | str | Expression | LinearQuery


@dataclass(frozen=True, eq=False, repr=False)
class Values:
    """One number in [0, 1] per row; `predicate` when the statistic is 0 or 1 by its type, whatever the rows hold."""

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
        """Equal for equal values; of public rows only, as it tells one set of values from another."""
        return hashlib.sha256(self.numbers.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class Asked:
    """A statistic that can be evaluated on any sample; `query` when it is a condition over the schema."""

    function: Callable[[Any], Any] | None
    query: LinearQuery | None
    clip: bool

    @classmethod
    def of(cls, statistic: Statistic, schema: Schema | None, *, clip: bool) -> Asked:
        """Take a function as it is, and parse a condition; nothing is evaluated."""
        if isinstance(statistic, str | Expression | LinearQuery):
            if schema is None:
                raise QueryError(
                    "a condition needs a schema to be read by: pass Holdout(..., schema=...), or ask with a function "
                    "from the rows to one number per row"
                )
            query = statistic if isinstance(statistic, LinearQuery) else where(schema, statistic)
            if query.schema != schema:
                raise QueryError("the query is over another schema than the holdout's; build it from the same one")
            return cls(None, query, clip)
        if not callable(statistic):
            raise QueryError(
                f"cannot ask {type(statistic).__name__}; expected a function from the rows to one number in [0, 1] per "
                "row, accuracy_of(model, ...), mean_loss(model, ...), or a condition over the schema"
            )
        return cls(statistic, None, clip)

    def on(self, sample: Sample) -> Values:
        """Evaluate it on every row of a sample, checked; no error says anything about the rows."""
        if self.query is not None:
            weights = self.query.evaluate(sample.records(self.query.schema))
            return Values(weights > 0.5, True) if self.query.is_predicate else Values(weights, False)
        return _checked(self._outcome(sample), sample.size, clip=self.clip)

    def _outcome(self, sample: Sample) -> NDArray[Any]:
        assert self.function is not None
        try:
            return np.asarray(self.function(sample.rows))
        except Misused:
            raise
        except Unfit as error:
            problem = str(error)
        except Exception as error:
            problem = (
                f"the statistic raised {type(error).__name__}; its message is withheld, as it may quote rows. Try the "
                "statistic on other rows of the same form, such as the training sample"
            )
        # Raised here, out of the handler, so that no exception in the chain holds the statistic's own message.
        raise QueryError(f"{problem}. Nothing was recorded")


def _checked(outcome: NDArray[Any], size: int, *, clip: bool) -> Values:
    # Neither the length nor the values found are told: both may depend on the rows.
    if outcome.shape != (size,):
        raise QueryError(
            f"the statistic must return one number for each of the {size:,} rows, in their order, not their mean and "
            "not a selection of them. Nothing was recorded"
        )
    if outcome.dtype == np.bool_:
        return Values(np.ascontiguousarray(outcome), True)
    if outcome.dtype.kind not in "iuf":
        raise QueryError("the statistic must return booleans or numbers without missing values. Nothing was recorded")
    numbers = np.ascontiguousarray(outcome, dtype=np.float64)
    if np.isnan(numbers).any():
        raise QueryError("the statistic returned NaN for some row; give such rows a number. Nothing was recorded")
    if clip:
        return Values(np.clip(numbers, 0.0, 1.0), False)
    if numbers.min() < 0.0 or numbers.max() > 1.0:
        raise QueryError(
            "the statistic returned a number outside [0, 1]; rescale it, or pass clip=True to clip every number. "
            "Nothing was recorded"
        )
    return Values(numbers, False)

"""Events: public descriptions of an access to the rows, which an accountant turns into a cost.

An event says what was done (kind of noise, noise scale, sensitivity), not how it is accounted for; its meaning never
changes. Sensitivities are under the neighbouring relation of the table. Modelled on dp-accounting's events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias

from maquette.errors import BudgetError


@dataclass(frozen=True)
class _Description:
    """Base of all events: a JSON form that `from_dict` reads back."""

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description; fractions are text such as "10/3"."""
        body = {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}
        return {"kind": _NAMES[type(self)], **body}


@dataclass(frozen=True)
class DiscreteLaplace(_Description):
    """Integers plus independent noise with probabilities proportional to exp(-|z| / scale).

    Pure epsilon = sensitivity / scale, where sensitivity bounds the L1 change between neighbours. Mechanisms §1.2.
    """

    scale: Fraction
    sensitivity: Fraction

    def __post_init__(self) -> None:
        _set_fraction(self, "scale", positive=True)
        _set_fraction(self, "sensitivity", positive=False)


@dataclass(frozen=True)
class DiscreteGaussian(_Description):
    """Integers plus independent noise with probabilities proportional to exp(-z**2 / (2 variance)).

    zCDP rho = sensitivity_squared / (2 variance), where sensitivity_squared bounds the squared L2 change between
    neighbours. Not pure. Canonne, Kamath and Steinke 2020; Mechanisms §1.2.
    """

    variance: Fraction
    sensitivity_squared: Fraction

    def __post_init__(self) -> None:
        _set_fraction(self, "variance", positive=True)
        _set_fraction(self, "sensitivity_squared", positive=False)


@dataclass(frozen=True)
class Selection(_Description):
    """An exponential mechanism: epsilon bounds the *range* of its log-likelihood ratio, so it is also pure epsilon.

    Durfee and Rogers 2019 (bounded range); Mechanisms §2.1.
    """

    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self)


@dataclass(frozen=True)
class Pure(_Description):
    """Any other access whose log-likelihood ratio stays within epsilon: AboveThreshold, permute-and-flip."""

    epsilon: float

    def __post_init__(self) -> None:
        _check_epsilon(self)


@dataclass(frozen=True)
class LazyRounds(_Description):
    """A guard without threshold noise, sealed after `hits`, that uses all of `delta`; see `privacy.lazy`.

    Any number of rounds. Each adds noise with probabilities proportional to exp(-|z| / scale) to an integer statistic
    and releases the sum if it falls into a public set. `sensitivity` bounds the change of a statistic between
    neighbours.
    """

    hits: int
    scale: Fraction
    sensitivity: Fraction
    delta: float

    def __post_init__(self) -> None:
        _set_fraction(self, "scale", positive=True)
        _set_fraction(self, "sensitivity", positive=True)
        if type(self.hits) is not int or self.hits < 1:
            raise BudgetError(f"A lazy guard's hits are {self.hits!r}", expected="a whole number of at least 1.")
        if not 0 < self.delta < 1:
            raise BudgetError(f"A lazy guard's delta is {self.delta!r}", expected="a number between 0 and 1.")


@dataclass(frozen=True)
class Composed(_Description):
    """Several accesses, chosen adaptively or not; costs add."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))


Event: TypeAlias = DiscreteLaplace | DiscreteGaussian | Selection | Pure | LazyRounds | Composed

_KINDS: dict[str, type[Event]] = {
    "discrete-laplace": DiscreteLaplace,
    "discrete-gaussian": DiscreteGaussian,
    "selection": Selection,
    "pure": Pure,
    "lazy-rounds": LazyRounds,
    "composed": Composed,
}
_NAMES: dict[type[_Description], str] = {kind: name for name, kind in _KINDS.items()}


def from_dict(description: Mapping[str, Any]) -> Event:
    """Read back what `as_dict` wrote."""
    body = dict(description)
    name = body.pop("kind", None)
    if name not in _KINDS:
        raise BudgetError(f"An event of kind {name!r} is unknown", expected=f"one of {', '.join(_KINDS)}.")
    if name == "composed" and "events" in body:
        body["events"] = tuple(from_dict(event) for event in body["events"])
    try:
        return _KINDS[name](**body)
    except (TypeError, ValueError) as error:
        expected = ", ".join(field.name for field in fields(_KINDS[name]))
        raise BudgetError(f"A {name} event could not be read ({error})", expected=f"the fields {expected}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [event.as_dict() for event in value]
    return str(value) if isinstance(value, Fraction) else value


def _set_fraction(event: _Description, name: str, *, positive: bool) -> None:
    try:
        given = getattr(event, name)
        if isinstance(given, str) and "e" in given.lower():  # 1e999999999 would take hours to expand
            raise ValueError("an exponent")
        value = Fraction(given)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise BudgetError(f"{name} is {getattr(event, name)!r}", expected="a finite number.") from error
    if value < 0 or (positive and value == 0):
        expected = "above 0" if positive else "of at least 0"
        raise BudgetError(f"{name} is {float(value):g}", expected=f"a number {expected}.")
    object.__setattr__(event, name, value)


def _check_epsilon(event: Selection | Pure) -> None:
    value = event.epsilon
    if isinstance(value, bool | str) or not (math.isfinite(value) and value >= 0):
        raise BudgetError(f"An event's epsilon is {value!r}", expected="a finite number of at least 0.")
    object.__setattr__(event, "epsilon", float(value))

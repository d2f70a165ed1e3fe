from __future__ import annotations

import json
from fractions import Fraction

import pytest

from maquette.errors import BudgetError
from maquette.privacy import Composed, DiscreteGaussian, DiscreteLaplace, Event, Pure, Selection, from_dict

EVENTS: list[Event] = [
    DiscreteLaplace(Fraction(10, 3), Fraction(2)),
    DiscreteGaussian(Fraction(1, 3), Fraction(5)),
    Selection(0.1),
    Pure(1e-17),
    Composed((Pure(0.5), Composed((Selection(0.25),)))),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_survive_json(event: Event) -> None:
    assert from_dict(json.loads(json.dumps(event.as_dict()))) == event
    assert hash(event) == hash(from_dict(event.as_dict()))


def test_a_description_is_readable() -> None:
    assert EVENTS[0].as_dict() == {"kind": "discrete-laplace", "scale": "10/3", "sensitivity": "2"}


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({}, "expected one of discrete-laplace"),
        ({"kind": "laplace", "scale": "1"}, "'laplace' is unknown"),
        ({"kind": "pure"}, "expected the fields epsilon"),
        ({"kind": "pure", "epsilon": 1.0, "delta": 0.1}, "expected the fields epsilon"),
        ({"kind": "pure", "epsilon": "1"}, "epsilon is '1'"),
        ({"kind": "discrete-gaussian", "variance": "a", "sensitivity_squared": "1"}, "variance is 'a'"),
        ({"kind": "composed", "events": [{"kind": "x"}]}, "'x' is unknown"),
    ],
)
def test_unreadable_descriptions_are_refused(description: dict[str, object], message: str) -> None:
    with pytest.raises(BudgetError, match=message):
        from_dict(description)


@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf")])
def test_senseless_epsilons_are_refused(epsilon: float) -> None:
    for kind in (Selection, Pure):
        with pytest.raises(BudgetError, match="at least 0"):
            kind(epsilon)


def test_senseless_noise_is_refused() -> None:
    with pytest.raises(BudgetError, match="scale is 0; expected a number above 0"):
        DiscreteLaplace(Fraction(0), Fraction(1))
    with pytest.raises(BudgetError, match="sensitivity is -1; expected a number of at least 0"):
        DiscreteLaplace(Fraction(1), Fraction(-1))
    with pytest.raises(BudgetError, match="variance is inf"):
        DiscreteGaussian(float("inf"), Fraction(1))  # type: ignore[arg-type]

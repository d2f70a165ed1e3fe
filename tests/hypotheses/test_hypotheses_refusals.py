"""What is refused, and what the message says to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis_checks import SMALL, VARIANTS, Variant, all_records

from maquette.errors import QueryError
from maquette.hypothesis import Median, MirrorDescent, MultiplicativeWeights, Perceptron, WeightedRecords
from maquette.query import LinearQuery, where
from maquette.query.classes.low_sensitivity import LowSensitivityQuery
from maquette.schema import Boolean, Schema

HUGE = Schema([Boolean(f"b{i}") for i in range(200)])
CASES = [pytest.param(variant, id=f"{name} {variant}") for name, made in VARIANTS.items() for variant in made]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: MultiplicativeWeights(HUGE, alpha=0.1), "200 columns, universe about 10.60.2.*WeightedRecords"),
        (lambda: Perceptron(HUGE, alpha=0.1), "more cells than the 67,108,864.*WeightedRecords"),
        (lambda: MirrorDescent(HUGE, alpha=0.1), "more cells than the 67,108,864.*WeightedRecords"),
        (lambda: MultiplicativeWeights(SMALL, alpha=0.0), "alpha is .*; expected a number in"),
        (lambda: MultiplicativeWeights(SMALL, alpha=1.5), "alpha is .*; expected a number in"),
        (
            lambda: MultiplicativeWeights(SMALL, step="Exact"),  # type: ignore[arg-type]
            "no step 'Exact'; expected one of theory, book, exact",
        ),
        (
            lambda: MultiplicativeWeights(SMALL, step="exact", floor=0.7),
            "floor is .*; expected a number between 0 and 1/2",
        ),
        (
            lambda: MultiplicativeWeights(SMALL, prior=np.ones(24)),
            r"got shape \(24,\); expected one mass for each of \(3, 2, 4\)",
        ),
        (lambda: MultiplicativeWeights(SMALL, prior=np.zeros((3, 2, 4))), "not all zero"),
        (lambda: MultiplicativeWeights(SMALL).update(where(SMALL, "b = 1"), 0.5), "needs alpha.*step='exact'"),
        (
            lambda: MultiplicativeWeights(SMALL).scale_marginal(["a"], np.ones(4)),
            r"got shape \(4,\); expected one mass for each of \(3,\)",
        ),
        (lambda: MultiplicativeWeights(SMALL).scale_marginal(["b"], np.array([1.0, np.nan])), "must be finite"),
        (lambda: Perceptron(SMALL, alpha=0.1, step="exact"), "expected one of theory, book, kaczmarz"),  # type: ignore[arg-type]
        (lambda: Perceptron(SMALL, alpha=0.1, norm=2.0), "norm is 2.0; expected a number in .0, 1."),
        (lambda: MirrorDescent(SMALL, alpha=0.1, p=1.0), "p is 1.0; expected a number in"),
        (lambda: MirrorDescent(SMALL, alpha=0.1, psi="l1"), "expected one of norm, entropy"),  # type: ignore[arg-type]
        (lambda: Median(SMALL, np.ones((2, 24)), alpha=0.1, tolerance=0.0), "sum to one"),
        (lambda: Median(SMALL, np.ones((2, 5)), alpha=0.1, tolerance=0.0), "a mass for each of 24 cells"),
        (lambda: Median.multisets(SMALL, 40, alpha=0.1), "candidates; .*Take fewer rows"),
        (lambda: Median.multisets(HUGE, 2, alpha=0.1), "Take fewer rows"),
        (lambda: WeightedRecords(SMALL, np.zeros((0, 3), int)), "at least one encoded record with 3 columns"),
        (lambda: WeightedRecords(SMALL, np.full((2, 3), 3)), "outside its column's levels"),
        (lambda: WeightedRecords(HUGE, np.zeros((1, 200), int)).marginal(HUGE.names), "ask for fewer columns"),
        (
            lambda: LowSensitivityQuery("q", np.max, sensitivity=0.0),
            "sensitivity is .*; expected a positive, finite number",
        ),
        (lambda: LowSensitivityQuery("", np.max, sensitivity=0.1), "needs a name"),
        (lambda: LowSensitivityQuery("q", np.log, sensitivity=0.1)(np.zeros(())), "expected a finite number"),
    ],
)
def test_refusals_say_what_to_do(build: Callable[[], object], says: str) -> None:
    with pytest.raises(QueryError, match=says), np.errstate(all="ignore"):
        build()


@pytest.mark.parametrize("variant", CASES)
def test_every_model_refuses_what_it_cannot_mean(variant: Variant) -> None:
    model = variant.build()
    other = LinearQuery.constant(Schema([Boolean("b")]))
    before = model.marginal(SMALL.names).tobytes()
    for work, says in (
        (lambda: model.answer(other), "another schema"),
        (lambda: model.update(other, 0.5), "another schema"),
        (lambda: model.update(where(SMALL, "b = 1"), float("nan")), "is nan; expected a finite fraction of rows"),
        (lambda: model.update(where(SMALL, "b = 1"), float("inf")), "is inf; expected a finite fraction of rows"),
        (lambda: model.marginal(["a", "a"]), "named twice"),
        (lambda: model.marginal(["z"]), "no column 'z'"),
        (lambda: model.sample(-1, np.random.default_rng(0)), "cannot sample -1 rows"),
    ):
        with pytest.raises(QueryError, match=says):
            work()
    assert model.marginal(SMALL.names).tobytes() == before


def test_a_model_without_alpha_can_be_asked_and_sampled() -> None:
    model = MultiplicativeWeights(SMALL, prior=np.zeros((3, 2, 4)) + np.array([1.0, 0.0, 2.0, 1.0]))
    assert model.answer(where(SMALL, "c = 1")) < 1e-100
    assert model.answer(where(SMALL, "c = 2")) == pytest.approx(0.5)
    assert not (model.sample(1000, np.random.default_rng(0))[:, 2] == 1).any()
    assert all_records(SMALL).shape == (24, 3)

"""Fit of a mixture: its gradient, the sets it can hold, impossible combinations, and a planted mixture found again."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import maquette as mq
from maquette.estimates import KnownColumn, Residuals, components, forward, mixture_holds
from maquette.estimates.mixture_evidence import MixtureEvidence
from maquette.estimates.mixture_fit import EACH, FITS, POLISH, ROUNDS, WORK, Planned, _Descent
from maquette.hypothesis import Mixture, blocks_of
from maquette.schema import Schema

Values = NDArray[np.float64]
Columns = tuple[str, ...]

ROWS = 5000.0
PLAIN = mq.Schema([mq.Integer(f"c{i}", 0, size - 1) for i, size in enumerate((2, 3, 4, 2, 3))])
BARRED = mq.Schema(PLAIN.columns, impossible=[{"c0": "1", "c1": ["0", "2"]}, {"c1": "1", "c3": "0"}])


def planted(schema: Schema, parts: int = 3, seed: int = 0) -> Mixture:
    """A random mixture; impossible cells have nothing."""
    rng, blocks = np.random.default_rng(seed), []
    for columns in blocks_of(schema):
        table = rng.dirichlet(np.full(schema.cells(columns), 0.8), parts)
        for names, mask in schema.zeros:
            if set(names) <= set(columns):
                shape = [schema[name].size if name in names else 1 for name in columns]
                table[:, np.broadcast_to(mask.reshape(shape), schema.shape(columns)).reshape(-1)] = 0.0
        blocks.append((columns, table / table.sum(axis=1, keepdims=True)))
    return Mixture(schema, rng.dirichlet(np.full(parts, 3.0)), blocks)


def coefficients(cells: Values) -> Values:
    """What a table says beyond its smaller tables."""
    return np.asarray(forward(cells)[tuple(slice(1, None) for _ in cells.shape)])


def evidence(truth: Mixture, sets: list[Columns], variance: float, noise: float = 0.0, seed: int = 1) -> Residuals:
    rng = np.random.default_rng(seed)
    found = Residuals(truth.schema)
    found.combine((), np.array(ROWS), np.array(1e-6))
    for columns in sets:
        values = ROWS * coefficients(truth.marginal(columns))
        found.combine(columns, values + noise * rng.standard_normal(values.shape), np.full(values.shape, variance))
    return found


def columns_of(truth: Mixture, variance: float) -> dict[str, KnownColumn]:
    found = {}
    for name in truth.schema.names:
        share = truth.marginal((name,))
        found[name] = KnownColumn(ROWS * share, np.full(len(share), variance), share)
    return found


def sets_of(schema: Schema, size: int) -> list[Columns]:
    return list(itertools.combinations(schema.names, size))


class Recorder(_Descent):
    """Keeps the gradient instead of moving."""

    def _adapt(self, target: Any, slope: Any, mean: Any, power: Any, rate: float) -> None:
        if target.ndim == 2:
            self.gradient = np.array(slope)
        else:
            self.slopes = np.array(slope)


def objective(problem: MixtureEvidence, logits: Values, scores: Values, penalty: float, found: Residuals) -> float:
    """The docstring's sum in double precision, the slow way: from whole tables of the mixture."""
    weights = np.exp(scores - scores.max())
    weights /= weights.sum()
    blocks, divergence = [], np.zeros(len(weights))
    for block in problem.blocks:
        own = np.exp(logits[:, block.place])
        own[:, problem.closed[block.place]] = 0.0
        own /= own.sum(axis=1, keepdims=True)
        start = problem.logs[block.place].astype(np.float64)
        logs = np.log(np.where(own > 0, own, 1.0))
        divergence += (own * (logs - np.where(own > 0, start, 0.0))).sum(axis=1)
        blocks.append((block.columns, own))
    model = Mixture(found.schema, weights, blocks)
    squares = 0.0
    for columns, values, variances in found:
        if len(columns) > 1:
            squares += float(((ROWS * coefficients(model.marginal(columns)) - values) ** 2 / variances).sum())
    for name, column in problem.known.items():
        apart = ROWS * model.marginal((name,)) - column.counts
        squares += float(((apart - apart.mean()) ** 2 / column.variances).sum())
    return squares / 2 + penalty * ROWS * float(weights @ divergence)


SETS: dict[str, tuple[Schema, list[Columns]]] = {
    "pairs": (PLAIN, sets_of(PLAIN, 2)),
    "triples": (PLAIN, [("c0", "c2"), *sets_of(PLAIN, 3)]),
    "one part": (BARRED, [("c0", "c1"), ("c0", "c1", "c3")]),
    "two parts": (BARRED, [("c0", "c2"), ("c0", "c1", "c4"), ("c2", "c4"), ("c0", "c1", "c2", "c3")]),
    "three parts": (BARRED, [("c1", "c2", "c4"), ("c0", "c2", "c3", "c4")]),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("name", SETS)
def test_the_gradient_is_that_of_the_sum_it_makes_small(name: str) -> None:
    """Central differences in double precision, in every logit and score; the fit itself counts in single precision."""
    schema, sets = SETS[name]
    truth = planted(schema)
    found = evidence(truth, sets, 40.0, noise=30.0)
    problem = MixtureEvidence(found, columns_of(truth, 70.0))
    descent = Recorder(problem, 3)
    descent._scores += np.array([0.3, -0.2, 0.1], np.float32)
    descent._step(0.05, 0.1)
    logits, scores = descent._logits.astype(np.float64), descent._scores.astype(np.float64)

    def slope(place: Any, target: Values) -> float:
        ends = []
        for step in (1e-4, -1e-4):
            kept = target[place]
            target[place] = kept + step
            ends.append(objective(problem, logits, scores, 0.05, found))
            target[place] = kept
        return (ends[0] - ends[1]) / 2e-4

    wanted = np.array([[slope((k, i), logits) for i in range(logits.shape[1])] for k in range(3)])
    shut = np.broadcast_to(problem.closed, wanted.shape)
    assert (wanted[shut] == 0.0).all()
    assert (descent.gradient[shut] == 0.0).all()
    size = np.abs(wanted).max()
    assert size > 1.0
    assert descent.gradient == pytest.approx(wanted, rel=1e-3, abs=1e-4 * size)
    scored = np.array([slope(k, scores) for k in range(3)])
    assert descent.slopes == pytest.approx(scored, rel=1e-3, abs=1e-4 * np.abs(scored).max())


@pytest.mark.parametrize("name", SETS)
def test_the_residual_is_the_mean_square_over_the_variance_of_all_tables(name: str) -> None:
    schema, sets = SETS[name]
    truth = planted(schema)
    found = evidence(truth, sets, 40.0, noise=30.0)
    problem = MixtureEvidence(found, columns_of(truth, 70.0))
    descent = Recorder(problem, 3)
    residual = descent._step(0.05, 0.1)
    tables = descent._tables.astype(np.float64)
    model = Mixture(schema, np.full(3, 1 / 3), [(block.columns, tables[:, block.place]) for block in problem.blocks])
    squares = [(ROWS * coefficients(model.marginal(c)) - values) ** 2 / v for c, values, v in found if len(c) > 1]
    assert residual == pytest.approx(np.mean(np.concatenate([each.ravel() for each in squares])), rel=1e-3)


def fitted(found: Residuals, known: dict[str, KnownColumn], **settings: Any) -> tuple[Mixture, float]:
    made = components(found, known, **settings)
    return Mixture(found.schema, made.weights, made.tables), made.residual


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("schema", [PLAIN, BARRED], ids=["plain", "impossible"])
def test_a_planted_mixture_is_found_from_exact_coefficients(schema: Schema) -> None:
    """Pairs and triples are met, and so is the whole table that nobody measured."""
    truth = planted(schema)
    found = evidence(truth, [*sets_of(schema, 2), *sets_of(schema, 3)], 4.0)
    model, residual = fitted(found, columns_of(truth, 4.0), count=64)
    assert residual < 1.0
    for size, most in ((1, 0.004), (2, 0.006), (3, 0.01), (5, 0.04)):
        far = [np.abs(model.marginal(c) - truth.marginal(c)).sum() / 2 for c in sets_of(schema, size)]
        assert max(far) < most, (size, max(far))


def test_noise_is_not_followed_and_the_fit_stops_at_its_level() -> None:
    """Independent columns and noisy pairs: the fit is nearer to the truth than what was measured."""
    truth = planted(PLAIN, parts=1)
    found = evidence(truth, sets_of(PLAIN, 2), 100.0**2, noise=100.0)
    model, residual = fitted(found, columns_of(truth, 4.0), count=64)
    assert 0.4 < residual < 1.4
    far = [np.abs(model.marginal(c) - truth.marginal(c)).sum() for c in sets_of(PLAIN, 2)]
    noisy = [np.abs(found.schema.cells(c) * 100.0 / ROWS) for c in sets_of(PLAIN, 2)]
    assert np.mean(far) < 0.4 * np.mean(noisy)


@pytest.mark.thorough
def test_impossible_combinations_have_exactly_nothing() -> None:
    """Also where the evidence gives them half of the rows."""
    sets = [*sets_of(PLAIN, 2), *sets_of(PLAIN, 3)]
    plain = evidence(planted(PLAIN), sets, 25.0)
    told = Residuals(BARRED)
    for columns, values, variances in plain:
        told.combine(columns, values, variances)
    model, _ = fitted(told, columns_of(planted(PLAIN), 25.0), count=64)
    for names, mask in BARRED.zeros:
        assert (model.marginal(names)[mask] == 0.0).all()
    everything = model.marginal(BARRED.names)
    assert everything.sum() == pytest.approx(1.0)
    assert everything.min() >= 0.0


def test_without_tables_it_has_the_columns() -> None:
    truth = planted(PLAIN)
    model, residual = fitted(evidence(truth, [], 1.0), columns_of(truth, 1.0), count=32)
    assert residual == 0.0
    for name in PLAIN.names:
        assert model.marginal((name,)) == pytest.approx(truth.marginal((name,)), abs=0.01)


def test_a_column_of_which_nothing_is_known_is_even() -> None:
    truth = planted(PLAIN)
    known = {name: column for name, column in columns_of(truth, 4.0).items() if name != "c2"}
    model, _ = fitted(evidence(truth, [("c0", "c1")], 4.0), known, count=32)
    assert model.marginal(("c2",)) == pytest.approx([0.25] * 4, abs=0.02)


def test_columns_can_share_a_block_that_no_impossible_combination_asks_for() -> None:
    truth = planted(PLAIN)
    found = evidence(truth, sets_of(PLAIN, 2), 4.0)
    made = components(found, columns_of(truth, 4.0), count=32, joined=[("c0", "c4")])
    assert ("c0", "c4") in [columns for columns, _ in made.tables]
    model = Mixture(PLAIN, made.weights, made.tables)
    assert np.abs(model.marginal(("c0", "c4")) - truth.marginal(("c0", "c4"))).sum() / 2 < 0.01


def test_the_same_evidence_gives_the_same_numbers() -> None:
    truth = planted(PLAIN)
    found = evidence(truth, sets_of(PLAIN, 2), 4.0, noise=2.0)
    one, other = (components(found, columns_of(truth, 4.0), count=16, stages=3) for _ in range(2))
    assert one.weights.tobytes() == other.weights.tobytes()
    for (names, table), (others, again) in zip(one.tables, other.tables, strict=True):
        assert names == others
        assert table.tobytes() == again.tobytes()


def test_several_fits_are_averaged_and_err_less_than_each(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = planted(PLAIN, parts=8)
    found, known = evidence(truth, sets_of(PLAIN, 2), 40.0**2, noise=40.0), columns_of(truth, 20.0)
    monkeypatch.setattr("maquette.estimates.mixture_fit.COMPONENTS", 32)
    runs, run = list[tuple[Any, Any]](), _Descent.run

    def kept(self: _Descent, *given: Any) -> Any:
        runs.append(run(self, *given))
        return runs[-1]

    monkeypatch.setattr(_Descent, "run", kept)
    told: list[float] = []
    made = components(found, known, progress=lambda part, _: told.append(part))
    assert len(runs) == FITS
    assert len(made.weights) == FITS * 32
    assert made.weights.sum() == pytest.approx(1.0)
    assert told == sorted(told)
    assert told[-1] <= 1.0
    whole = Mixture(PLAIN, made.weights, made.tables)
    places = [block.place for block in MixtureEvidence(found, known).blocks]
    names = [columns for columns, _ in made.tables]
    each = [
        Mixture(PLAIN, weights, [(name, tables[:, place]) for name, place in zip(names, places, strict=True)])
        for weights, tables in runs
    ]

    def error(model: Mixture) -> float:
        return float(np.mean([np.abs(model.marginal(c) - truth.marginal(c)).sum() for c in sets_of(PLAIN, 3)]))

    for columns in sets_of(PLAIN, 3):
        assert whole.marginal(columns) == pytest.approx(np.mean([one.marginal(columns) for one in each], axis=0))
    assert error(whole) < np.mean([error(one) for one in each])
    assert len({one.weights.tobytes() for one in each}) == FITS


def test_wide_tables_have_one_fit_and_a_step_has_bounded_work() -> None:
    for width, columns in ((40, 5), (700, 20), (1100, 20), (2000, 63), (400, 64), (3000, 500)):
        planned = Planned.of(width, columns)
        assert planned.fits == 1 or planned.fits * planned.components * width**2 <= WORK
    assert [Planned.of(width, 20).fits for width in (100, 1000, 1100, 2000)] == [3, 3, 2, 1]
    assert Planned.of(100, 64).fits == 1


def test_progress_is_told_stage_by_stage() -> None:
    told: list[tuple[float, float]] = []
    truth = planted(PLAIN)
    found = evidence(truth, sets_of(PLAIN, 2), 1e-3)
    components(found, columns_of(truth, 4.0), count=16, stages=4, progress=lambda *step: told.append(step))
    whole = 4 * EACH + (1 + ROUNDS) * POLISH
    assert [part for part, _ in told] == [stage * EACH / whole for stage in (1, 2, 3, 4)]
    assert told[-1][1] < told[0][1]


def test_blocks_that_are_too_large_are_known_beforehand() -> None:
    wide = [mq.Integer(name, 0, 79) for name in "ab"]
    assert mixture_holds(mq.Schema(wide))
    assert not mixture_holds(mq.Schema(wide, impossible=[{"a": "0", "b": "0"}]))
    assert mixture_holds(BARRED)


def test_pairs_that_were_not_measured_stay_as_independent_as_they_are_expected_to_be() -> None:
    """Two columns lean on a third; what is expected of the pair that was not measured decides how far they agree."""
    schema = mq.Schema([mq.Integer(name, 0, 4) for name in "abc"])
    even = np.full(5, 0.2)
    residuals = Residuals(schema)
    residuals.combine((), np.array(ROWS), np.array(1.0))
    leaning = ROWS * (0.5 * np.eye(5) / 5 + 0.5 / 25)
    for pair in (("a", "b"), ("b", "c")):
        residuals.combine(pair, coefficients(leaning), np.full((4, 4), 100.0))
    known = {name: KnownColumn(even * ROWS, np.full(5, 25.0), even) for name in schema.names}

    def apart(expected: dict[Columns, float]) -> float:
        fitted = components(residuals, known, count=30, apart=expected)
        tables = {columns[0]: table for columns, table in fitted.tables}
        cells = np.einsum("k,ki,kj->ij", fitted.weights, tables["a"], tables["c"])
        return float(np.abs(cells - 1 / 25).sum() / 2)

    assert apart({("a", "c"): 10.0}) < 0.5 * apart({})


def test_a_look_at_a_pair_says_less_than_the_measured_pairs_around_it() -> None:
    """Hidden classes: one distance was seen of the pair that was not measured, and the other pairs imply its cells."""
    schema = mq.Schema([mq.Integer(f"c{i}", 0, 5) for i in range(6)])
    truth, pair = planted(schema, parts=4, seed=5), ("c0", "c1")
    exact = truth.marginal(pair)
    alone = np.multiply.outer(exact.sum(axis=1), exact.sum(axis=0))
    distance = float(np.abs(exact - alone).sum()) / 2
    found = evidence(truth, [each for each in sets_of(schema, 2) if each != pair], 900.0, noise=30.0)

    def error(expected: dict[Columns, float]) -> float:
        fitted = components(found, columns_of(truth, 100.0), count=40, apart=expected)
        tables = {columns[0]: table for columns, table in fitted.tables}
        cells = np.einsum("k,ki,kj->ij", fitted.weights, tables["c0"], tables["c1"])
        return float(np.abs(cells - exact).sum()) / 2

    assert error({}) < distance / 2
    assert error({pair: ROWS * distance / 2}) < 1.1 * error({})


def test_many_columns_do_not_depend_because_a_few_pairs_cannot_be_held() -> None:
    """Pairs that no component can hold keep the mean residual high; the fit must not follow the noise of others."""
    rng, schema = np.random.default_rng(5), mq.Schema([mq.Integer(f"c{i}", 0, 3) for i in range(80)])
    parts, blocks = 3, []
    for i, name in enumerate(schema.names):
        own = rng.dirichlet(np.ones(4), parts if i < 30 else 1)
        blocks.append(((name,), np.repeat(own, parts // len(own), axis=0)))
    truth = Mixture(schema, np.full(parts, 1 / parts), blocks)
    sets = sets_of(schema, 2)
    measured = [sets[i] for i in rng.choice(len(sets), 500, replace=False)]
    found = evidence(truth, measured, 1e4, noise=100.0)
    for one, other in zip(schema.names[30:70:2], schema.names[31:70:2], strict=True):
        sharp = 0.3 * ROWS * coefficients(np.diag(truth.marginal((one,))))
        found.combine((one, other), sharp, np.full(sharp.shape, 1e4))
    looked = {pair: 0.02 * ROWS for pair in sets[::6] if pair not in measured}
    made = components(found, columns_of(truth, 400.0), apart=looked)
    fitted = Mixture(schema, made.weights, [*made.tables])
    apart = [np.abs(fitted.marginal(pair) - truth.marginal(pair)).sum() / 2 for pair in sets[::7]]
    assert np.mean(apart) < 0.03, "penalties that fall from 1 to 0.003 leave 0.040"

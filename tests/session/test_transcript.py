"""Transcripts: pieces of a part add up with one weight each, and every moment can be read again."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from session_checks import FREE, SeededNoise

import maquette as mq
from gate_tools import Counts, tallied
from maquette.curator import Measurement
from maquette.estimates.residuals import Residuals
from maquette.privacy import DiscreteGaussian
from maquette.query import Marginal
from maquette.schema import Schema
from maquette.session.precision.view import CELLS
from maquette.session.precision.view_of import cell_view_of, view_of
from maquette.session.transcript import Transcript, part_question

SCHEMA = Schema([mq.Integer("age", 0, 99), mq.Boolean("smoker")])
COUNTS = np.random.default_rng(1).integers(0, 40, (100, 2))
NOISE = SeededNoise(2)


def measured(columns: tuple[str, ...], variance: float, *, whole: bool = False) -> Measurement:
    question = Marginal(SCHEMA, columns) if whole else part_question(SCHEMA, columns)
    event = DiscreteGaussian(Fraction(variance), Fraction(1))
    drawn = NOISE.gaussian(event.variance, question.cells).reshape(question.shape)
    values = (tallied(Counts(SCHEMA, COUNTS), question) + drawn).astype(np.float64)
    return Measurement(question, values, event, FREE)


def alone(measurement: Measurement, part: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    gathered = Residuals(SCHEMA)
    gathered.add(measurement)
    ((values, variances),) = ((v, s) for columns, v, s in gathered if columns == part)
    return values, variances


def test_every_piece_has_one_weight_for_all_its_coefficients() -> None:
    """Contrasts are of nearly equal norm, tables of exactly equal: weighing each coefficient would turn the noise."""
    pieces = [measured(("age",), 9e6), measured(("age",), 30.0, whole=True), measured(("age",), 4e6)]
    transcript = Transcript(SCHEMA)
    for piece in pieces:
        transcript.add([piece])
    found = [alone(piece, ("age",)) for piece in pieces]
    weights = [1 / variances.max() for _, variances in found]
    total = sum(weights)
    values, variances = transcript.reader()(("age",))
    expected = sum(w * v for w, (v, _) in zip(weights, found, strict=True)) / total
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    noise = sum(w**2 * s for w, (_, s) in zip(weights, found, strict=True)) / total**2
    np.testing.assert_allclose(variances, noise, rtol=1e-12)
    known = transcript.known([("age",)])[("age",)]
    assert known.pieces == 3
    assert known.variance == pytest.approx(1 / total)
    assert known.variance >= variances.max() * (1 - 1e-12)
    # Little is lost: the best weights of each coefficient would do no better than a percent.
    best = 1 / sum(1 / s for _, s in found)
    assert (variances <= best * 1.01).all()


def test_every_moment_can_be_read_again() -> None:
    transcript = Transcript(SCHEMA)
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, "age < 50 AND smoker")))
    assert transcript.complete(view) is None
    transcript.add([measured((), 50.0), measured(("age",), 9e6)])
    transcript.add([measured(("smoker",), 50.0), measured(("age", "smoker"), 9e6)])
    before = view.look(transcript.reader())
    transcript.add([measured(("age",), 1e6), measured(("age",), 2e6)])
    assert (transcript.complete(view), transcript.changes(view, 2)) == (2, [3])
    assert view.look(transcript.reader(2)) == before
    after = view.look(transcript.reader())
    assert after != before
    assert after[1] < before[1]
    assert transcript.known([("age",)])[("age",)].pieces == 3


def test_one_histogram_answers_as_its_cells_do() -> None:
    transcript = Transcript(SCHEMA)
    histogram = measured(SCHEMA.names, 30.0, whole=True)
    transcript.add([measured((), 2.0), histogram], cells=True)
    view = cell_view_of(Marginal(SCHEMA, ["smoker"]))
    values, variances = view.look(transcript.reader())
    rows = float(transcript.reader()(())[0])
    cells = histogram.values - histogram.values.mean() + rows / 200
    np.testing.assert_allclose(values, cells.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(variances, 30.0 * 100 * 0.5 + 2.0 / 4, rtol=1e-9)
    assert set(transcript.known([(), CELLS])) == {(), CELLS}


def test_public_rows_are_exact() -> None:
    transcript = Transcript(SCHEMA)
    transcript.fix_rows(4321)
    value, variance = transcript.reader()(())
    assert float(value) == 4321.0
    assert float(variance) < 1e-20

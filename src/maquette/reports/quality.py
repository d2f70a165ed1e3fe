"""Quality of synthetic rows: how close they are to the measurements, and how well a model trained on them performs.

`similarity` needs synthetic rows only: it compares them with the release's own noisy measurements and says how
much of the difference noise explains. `train_on_synthetic` needs rows declared as `test_data`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.estimates import MEAN, Evidence, MergedEvidence, NoEvidence
from maquette.releases import Release
from maquette.reports.truth import TestRows
from maquette.schema import Schema

ROWS = 10_000
MAX_CELLS = 256  # of a compared table
MAX_TABLES = 60  # of each size
MAX_TRIED = 2_000

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Similarity:
    """One table of synthetic rows beside its noisy measurement.

    `distance` is their total variation distance. `noise` is its expectation if only measurement noise and the sampling
    of synthetic rows contribute. `ratio` is the root mean square difference in standard deviations of that noise: up to
    about 1, no measurement taken can distinguish the synthetic rows from the private ones. The model was fitted to
    these measurements, so a ratio below 1 shows fit and says nothing about tables that were not measured.
    """

    columns: tuple[str, ...]
    distance: float
    noise: float
    ratio: float


def similarity(
    release: Release, synthetic: object = ROWS, *, k: int = 3, rng: np.random.Generator | None = None
) -> tuple[Similarity, ...]:
    """Compare synthetic rows (a table, or how many to draw) with each measured table of up to `k` columns, worst first.

    Privacy: reads released numbers and synthetic rows only; free. Tables of more than 256 cells, and those that the
    evidence does not cover, are left out; of each size the first 60 are compared. Levels that were measured as one
    group are compared as one.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise QueryError(f"k is {k!r}", expected="a number of columns, 1 or more")
    if isinstance(release.evidence, NoEvidence):
        raise QueryError(
            f"a release by {release.certificate.method} keeps no measurements to compare rows with: its promise is a "
            "theorem about the model",
            advice='Release with method="auto" to compare',
        )
    if isinstance(synthetic, int):
        synthetic = release.sample(synthetic, rng=rng)
    codes = release.schema.encode(synthetic)
    if not len(codes):
        raise QueryError("there are no synthetic rows to compare", advice="draw at least one")
    names = [column.name for column in release.schema if column.size > 1]
    forms = _forms(release, codes)
    found: list[Similarity] = []
    for size in range(1, min(k, len(names)) + 1):
        sets = itertools.islice(itertools.combinations(names, size), MAX_TRIED)
        fitting = ((form, columns) for columns in sets for form in forms if form.fits(columns))
        # The first form that fits a table is the finest in which it was measured.
        finest = {columns: form for form, columns in reversed(list(fitting))}
        chosen = itertools.islice(reversed(finest.items()), MAX_TABLES)
        found += [_compare(form, columns, release.rows) for columns, form in chosen]
    return tuple(sorted(found, key=lambda one: -one.ratio))


@dataclass(frozen=True)
class _Form:
    """Rows and measurements in the same levels: those of the schema, or groups that were measured together."""

    schema: Schema
    codes: Codes
    evidence: Evidence

    def fits(self, columns: tuple[str, ...]) -> bool:
        """Whether a table was measured in this form and is small enough to compare."""
        return self.schema.cells(columns) <= MAX_CELLS and self.evidence.covers(columns)


def _forms(release: Release, codes: Codes) -> list[_Form]:
    """All forms, the finest first."""
    schema, evidence = release.schema, release.evidence
    if not isinstance(evidence, MergedEvidence):
        return [_Form(schema, codes, evidence)]
    merging, merged = evidence.merging, codes.copy()
    for name in merging.changed:
        place = schema.position(name)
        merged[:, place] = merging.groups[name][codes[:, place]]
    return [_Form(schema, codes, evidence.fine), _Form(merging.merged, merged, evidence.coarse)]


def shares_of(schema: Schema, codes: Codes, columns: tuple[str, ...]) -> NDArray[np.float64]:
    """The share of rows in every cell."""
    shape = schema.shape(columns)
    index = np.ravel_multi_index(tuple(codes[:, schema.position(name)] for name in columns), shape)
    return (np.bincount(index, minlength=math.prod(shape)) / len(codes)).reshape(shape)


def _compare(form: _Form, columns: tuple[str, ...], rows: float) -> Similarity:
    codes, rows = form.codes, max(1.0, rows)  # a noisy number of rows can be 0
    shares = shares_of(form.schema, codes, columns)
    differences, deviations = np.zeros(shares.shape), np.zeros(shares.shape)
    for cell in np.ndindex(shares.shape):
        weights = np.zeros(shares.shape)
        weights[cell] = 1.0
        estimate = form.evidence.estimate(weights, columns)
        share = estimate.total / rows
        drawn = max(0.0, share * (1 - share)) / len(codes)
        differences[cell] = shares[cell] - share
        deviations[cell] = math.sqrt((estimate.deviation / rows) ** 2 + drawn)
    told = np.maximum(deviations, 1e-12)
    return Similarity(
        columns,
        0.5 * float(np.abs(differences).sum()),
        0.5 * MEAN * float(deviations.sum()),
        math.sqrt(float(((differences / told) ** 2).mean())),
    )


@dataclass(frozen=True)
class TrainTest:
    """Accuracy on test rows of one classifier, trained on synthetic rows and on other test rows.

    `majority` is the accuracy of always predicting the most common class of the training rows.
    """

    target: str
    synthetic: float
    real: float
    majority: float
    tested: int

    def __str__(self) -> str:
        return (
            f"{self.target}: {self.synthetic:.1%} trained on synthetic rows, {self.real:.1%} on real ones, "
            f"{self.majority:.1%} by the most common class ({self.tested:,} test rows)"
        )


def train_on_synthetic(release: Release, truth: TestRows, target: str, *, seed: int = 0) -> TrainTest:
    """Train a random forest on synthetic rows and test it on real ones, which must be declared `test_data`.

    Half of the test data is for testing; the other half trains the reference classifier, on as many rows as are
    drawn from the release. The result is exact, not private.
    """
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ImportError:
        raise QueryError(
            "training on synthetic rows needs scikit-learn, which is not installed", advice="pip install scikit-learn"
        ) from None
    if not isinstance(truth, TestRows):
        raise QueryError(
            f"truth is a {type(truth).__name__}", expected="mq.test_data(rows), for invented or public rows"
        )
    schema, place = release.schema, release.schema.position(target)
    codes, rng = truth.encoded(schema), np.random.default_rng(seed)
    if len(codes) < 4 or len(schema) < 2:
        raise QueryError(
            f"got {len(codes)} test rows of {len(schema)} columns", expected="at least 4 rows and 2 columns"
        )
    codes = codes[rng.permutation(len(codes))]
    real, held = codes[: len(codes) // 2], codes[len(codes) // 2 :]
    synthetic = schema.encode(release.sample(len(real), rng=rng))

    def accuracy(rows: Codes) -> float:
        forest = RandomForestClassifier(n_estimators=50, min_samples_leaf=5, random_state=seed, n_jobs=1)
        forest.fit(np.delete(rows, place, axis=1), rows[:, place])
        return float((forest.predict(np.delete(held, place, axis=1)) == held[:, place]).mean())

    commonest = int(np.bincount(real[:, place]).argmax())
    return TrainTest(
        target, accuracy(synthetic), accuracy(real), float((held[:, place] == commonest).mean()), len(held)
    )

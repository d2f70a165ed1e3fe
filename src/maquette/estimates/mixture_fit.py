"""Fit of a mixture of products: the components that explain noisy coefficients of all measured sets at once.

Minimises

    1/2 sum of squared residuals over their variances + penalty * rows * sum_k w_k KL(p_k, independent columns)

over weights and component tables (softmax of logits), by Adam. Penalties fall from large to small until the mean
squared residual is at the level of the noise, so that the model stays near independence where the evidence says
nothing; then the shrinkage of pairs that stand out of their noise is undone (`lengths`).

The sum has many minima, and which is found depends on where the fit starts. What they have in common is in the
evidence; what they have not errs in different ways, so the average of a few fits errs less than each. It is a mixture
again: all their components together. Public computation: it sees released numbers only, and starts from fixed seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from maquette.estimates.lengths import Lengths
from maquette.estimates.mixture_evidence import KnownColumn, MixtureEvidence, Table
from maquette.estimates.residuals import Columns, Residuals
from maquette.hypothesis import blocks_of
from maquette.schema import Schema

COMPONENTS = 400
FEWEST = 64
FITS = 3  # from different starts: a fourth and a fifth would gain a fifth of what these do
WORK = 1.2e9  # multiplications of one step of all fits, above which there are fewer fits, then fewer components
MANY, MANY_WORK = 64, 4e8  # columns from which on there is less work
START, MANY_START = 1.0, 0.03  # the first penalty; many columns stay independent above theirs
FALL = 0.8  # the penalty falls by this factor after each stage
LEAST, MANY_LEAST = 0.003, 0.012  # the last penalty: below it the model would follow noise, of cells or of many pairs
MIXING = 27  # maximum number of penalties
EACH = 30  # steps of a stage
POLISH = 40  # steps at the last penalty, ever smaller
ROUNDS = 2  # of lengthened targets and polishing
TARGET = 0.9  # mean squared residual over variance at which penalties stop falling: noise alone would leave 1
RATE, SLOWER, SLOWEST = 0.3, 0.97, 0.05
SPREAD = 0.5  # of the first logits
LARGEST_BLOCK = 4096  # cells of a block of several columns
LOWEST = -46.0  # logarithm of a probability below which it no longer counts in the penalty
SHUT = -1e4  # logarithm of the probability of impossible cells: its exponential is zero
CACHED = 2**16  # numbers of components that are worked on at a time, so that they stay in the cache


@dataclass(frozen=True)
class Components:
    """A fitted mixture: the weights of its components, a table for each block, and the mean squared residual."""

    weights: Table
    tables: tuple[tuple[Columns, Table], ...]
    residual: float


def mixture_holds(schema: Schema) -> bool:
    """Whether the blocks that impossible combinations need are small enough."""
    return all(len(block) == 1 or schema.cells(block) <= LARGEST_BLOCK for block in blocks_of(schema))


@dataclass(frozen=True)
class Planned:
    """The size of a fit: components, the first penalty, how often it falls, how often targets are lengthened.

    And how many such fits there are.
    """

    components: int
    start: float
    stages: int
    rounds: int
    fits: int

    @classmethod
    def of(cls, width: int, columns: int) -> Planned:
        """For `width` features of `columns` columns; the work of a step is bounded."""
        many = columns >= MANY
        number = int(min(COMPONENTS, max(FEWEST, (MANY_WORK if many else WORK) / max(width**2, 1))))
        start, least = (MANY_START, MANY_LEAST) if many else (START, LEAST)
        stages = 1 + int(math.log(least / start) / math.log(FALL))
        fits = 1 if many else max(1, min(FITS, int(WORK / (number * max(width**2, 1)))))
        return cls(number, start, stages, 0 if many else ROUNDS, fits)

    @property
    def steps(self) -> int:
        """Steps of all stages of one fit."""
        return self.stages * EACH + (1 + self.rounds) * POLISH


def components(
    residuals: Residuals,
    columns: Mapping[str, KnownColumn],
    *,
    count: int | None = None,
    joined: Iterable[Sequence[str]] = (),
    apart: Mapping[Columns, float] | None = None,
    stages: int = MIXING,
    progress: Callable[[float, float], None] | None = None,
) -> Components:
    """Fit a mixture to everything measured; `columns` has the single columns, `joined` sets that share a block.

    `count` is the number of components of a single fit (default: 400 in each of three, fewer where a step would take
    too long). `apart` has pairs that were not measured and how far they are expected to be from independent columns, in
    rows.
    """
    problem = MixtureEvidence(residuals, columns, joined)
    for pair, error in (apart or {}).items():
        problem.expect(pair, error)
    planned = Planned.of(problem.width, len(columns))
    planned = replace(planned, stages=min(stages, planned.stages))
    if count is not None:
        planned = replace(planned, components=count, fits=1)
    fits = []
    for seed in range(planned.fits):
        told = None if progress is None else partial(_told, progress, seed, planned.fits)
        fits.append(_Descent(problem, planned.components, seed).run(planned, told))
    return _averaged(problem, fits)


def _told(progress: Callable[[float, float], None], done: int, fits: int, part: float, residual: float) -> None:
    """Tell which part of all fits is done."""
    progress((done + part) / fits, residual)


def _averaged(problem: MixtureEvidence, fits: Sequence[tuple[Table, Table]]) -> Components:
    """The mean of fits, of which each has the weights and tables of its components; and its residual."""
    weights: Table = np.concatenate([weights for weights, _ in fits]) * np.float32(1 / len(fits))
    tables = np.concatenate([tables for _, tables in fits])
    features: Table = np.empty((len(weights), problem.width), np.float32)
    problem.features(tables, features)
    residual = problem.misfit(features, weights)[2] / max(problem.numbers, 1)
    return Components(weights, tuple((block.columns, tables[:, block.place]) for block in problem.blocks), residual)


class _Descent:
    """Adam over logits of tables and weights.

    Logits are kept as logarithms of probabilities: softmax and its gradient do not change if a number is added to all
    logits of a block. Everything but the misfit is done for a few components at a time, in memory that is used again:
    asking for new memory takes longer than most of the arithmetic.
    """

    def __init__(self, problem: MixtureEvidence, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._problem = problem
        self._logits = problem.logs + SPREAD * rng.standard_normal((count, len(problem.logs)), dtype=np.float32)
        self._logits[:, problem.closed] = SHUT
        self._scores = np.zeros(count, np.float32)
        self._means, self._powers = np.zeros_like(self._logits), np.zeros_like(self._logits)
        self._score_moments = np.zeros_like(self._scores), np.zeros_like(self._scores)
        self._steps = 0
        size = max(1, CACHED // max(1, len(problem.logs)))
        self._chunks = [slice(start, min(count, start + size)) for start in range(0, count, size)]
        self._tables: Table = np.empty_like(self._logits)
        self._features: Table = np.empty((count, problem.width), np.float32)
        self._spare = [np.empty((min(size, count), len(problem.logs)), np.float32) for _ in range(2)]

    def run(self, planned: Planned, progress: Callable[[float, float], None] | None) -> tuple[Table, Table]:
        """Lower the penalty stage by stage until residuals are at noise level; then polish. Returns weights and tables.

        `progress` hears the part that is done, if every stage is needed, and the residual.
        """
        penalty, rate = planned.start, RATE
        for stage in range(1, planned.stages + 1):
            for _ in range(EACH):
                residual = self._step(penalty, rate)
            if progress is not None:
                progress(stage * EACH / planned.steps, residual)
            if residual <= TARGET or stage == planned.stages or not self._problem.numbers:
                break
            penalty, rate = penalty * FALL, max(SLOWEST, rate * SLOWER)
        self._polish(penalty)
        lengths = Lengths()
        for _ in range(planned.rounds if self._problem.pairs else 0):
            self._lengthen(lengths)
            self._polish(penalty)
        for pair in self._problem.pairs:
            self._problem.aim(pair.places, pair.measured, pair.precision)
        return self._normalised(), self._tables

    def _polish(self, penalty: float) -> None:
        """Ever smaller steps at the last penalty."""
        for step in range(POLISH):
            self._step(penalty, SLOWEST * (1 - step / POLISH))

    def _lengthen(self, lengths: Lengths) -> None:
        """Aim beyond the measured pairs by what the penalty is estimated to take off them."""
        weights = self._normalised()
        for pair in self._problem.pairs:
            one, other = (self._features[:, place] for place in pair.places)
            fitted: Table = np.matmul((weights[:, None] * one).T, other, dtype=np.float32)
            tables = pair.measured, fitted, pair.independent
            target = lengths.target(pair.columns, tables, pair.precision, pair.numbers)
            self._problem.aim(pair.places, target, pair.precision)

    def _normalised(self) -> Table:
        """Compute tables and features of all components; returns their weights."""
        for chunk in self._chunks:
            self._normalise(chunk)
            self._problem.features(self._tables[chunk], self._features[chunk])
        return _softmax(self._scores)

    def _normalise(self, chunk: slice) -> None:
        """Compute the probabilities of these components; their logits become the logarithms of them."""
        runs, logits, tables = self._problem.runs, self._logits[chunk], self._tables[chunk]
        np.exp(logits, out=tables)
        sums = runs.summed(tables)
        runs.multiply(tables, np.reciprocal(sums))
        runs.subtract(logits, np.log(sums))

    def _step(self, penalty: float, rate: float) -> float:
        """One step of Adam; returns the mean squared residual over variance before it."""
        weights, strength = self._normalised(), np.float32(penalty * self._problem.rows)
        pull, scores, squares = self._problem.misfit(self._features, weights)
        self._steps += 1
        for chunk in self._chunks:
            scores[chunk] += self._descend(chunk, pull[chunk], strength * weights[chunk], strength, rate)
        slope: Table = weights * (scores - weights @ scores)
        self._adapt(self._scores, slope, *self._score_moments, rate)
        return squares / max(self._problem.numbers, 1)

    def _descend(self, chunk: slice, pull: Table, pressed: Table, strength: np.float32, rate: float) -> Table:
        """Move the logits of some components, which the penalty presses by so much; returns what it adds to scores."""
        problem, tables = self._problem, self._tables[chunk]
        logs, gradient = (spare[: len(tables)] for spare in self._spare)
        np.maximum(self._logits[chunk], np.float32(LOWEST), out=logs)
        logs -= problem.logs
        scores: Table = strength * np.einsum("kd,kd->k", tables, logs)
        logs += 1
        logs *= pressed[:, None]
        problem.pull_back(pull, gradient)
        gradient += logs
        problem.runs.subtract(gradient, problem.runs.summed(np.multiply(tables, gradient, out=logs)))
        gradient *= tables
        self._adapt(self._logits[chunk], gradient, self._means[chunk], self._powers[chunk], rate)
        return scores

    def _adapt(self, target: Table, slope: Table, mean: Table, power: Table, rate: float) -> None:
        """Move `target` against its slope, each number by about `rate`; `slope` is overwritten."""
        mean *= np.float32(0.9)
        mean += np.float32(0.1) * slope
        power *= np.float32(0.99)
        np.multiply(slope, slope, out=slope)
        slope *= np.float32(0.01)
        power += slope
        scale = np.multiply(power, np.float32(1 / (1 - 0.99**self._steps)), out=slope)
        np.sqrt(scale, out=scale)
        scale += np.float32(1e-8) * scale.max() + np.float32(1e-30)
        moved = np.divide(mean, scale, out=scale)
        moved *= np.float32(rate / (1 - 0.9**self._steps))
        target -= moved


def _softmax(scores: Table) -> Table:
    found = np.exp(scores - scores.max())
    shares: Table = found / found.sum()
    return shares

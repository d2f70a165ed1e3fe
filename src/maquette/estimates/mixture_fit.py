"""Fit of a mixture of products: the components that explain noisy coefficients of all measured sets at once.

Minimises

    1/2 sum of squared residuals over their variances + penalty * rows * sum_k w_k KL(p_k, independent columns)

over weights and component tables (softmax of logits), by Adam. Penalties fall from large to small until the mean
squared residual is at the level of the noise, so that the model stays near independence where the evidence says
nothing; then the shrinkage of pairs that stand out of their noise is undone (`lengths`). With F the components' tables,
centred within each set of columns, the coefficients of all pairs are the blocks of F^T diag(w) F: one matrix product,
and no tree decides which pairs can be held. Public computation: it sees released numbers only, and starts from a fixed
seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.block_runs import BlockRuns
from maquette.estimates.block_sums import BlockSums
from maquette.estimates.column_features import ColumnFeatures, narrowed, width_of
from maquette.estimates.lengths import Lengths
from maquette.estimates.residuals import Columns, Residuals, backward
from maquette.hypothesis import Block, blocks_of, laid_out
from maquette.schema import Schema

COMPONENTS = 400
FEWEST = 64
WORK = 1.2e9  # multiplications of one step, above which there are fewer components
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
SEEN = 0.05  # weight of a pair of which one distance was seen, for that of one whose every cell was
HALF = 0.4  # half the mean of |x|, in standard deviations of a normal x
LARGEST_BLOCK = 4096  # cells of a block of several columns
LOWEST = -46.0  # logarithm of a probability below which it no longer counts in the penalty
SHUT = -1e4  # logarithm of the probability of impossible cells: its exponential is zero
CACHED = 2**16  # numbers of components that are worked on at a time, so that they stay in the cache

Table = NDArray[np.float32]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class KnownColumn:
    """What is known about one column: counts, the variance of each, and smoothed probabilities."""

    counts: Values
    variances: Values
    probabilities: Values


@dataclass(frozen=True)
class Components:
    """A fitted mixture: the weights of its components, a table for each block, and the mean squared residual."""

    weights: Table
    tables: tuple[tuple[Columns, Table], ...]
    residual: float
    penalty: float


def mixture_holds(schema: Schema) -> bool:
    """Whether the blocks that impossible combinations need are small enough."""
    return all(len(block) == 1 or schema.cells(block) <= LARGEST_BLOCK for block in blocks_of(schema))


@dataclass(frozen=True)
class Planned:
    """The size of a fit: components, the first penalty, how often it falls, and how often targets are lengthened."""

    components: int
    start: float
    stages: int
    rounds: int

    @classmethod
    def of(cls, width: int, columns: int) -> Planned:
        """For `width` features of `columns` columns; the work of a step is bounded."""
        many = columns >= MANY
        number = int(min(COMPONENTS, max(FEWEST, (MANY_WORK if many else WORK) / max(width**2, 1))))
        start, least = (MANY_START, MANY_LEAST) if many else (START, LEAST)
        stages = 1 + int(math.log(least / start) / math.log(FALL))
        return cls(number, start, stages, 0 if many else ROUNDS)

    @property
    def steps(self) -> int:
        """Steps of all stages together."""
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

    `count` is the number of components (default: 400, fewer where a step would take too long). `apart` has pairs that
    were not measured and how far they are expected to be from independent columns, in rows.
    """
    problem = _Problem(residuals, columns, joined)
    for pair, error in (apart or {}).items():
        problem.expect(pair, error)
    planned = Planned.of(problem.width, len(columns))
    planned = replace(planned, stages=min(stages, planned.stages))
    return _Descent(problem, count or planned.components).run(planned, progress)


@dataclass(frozen=True)
class _Part:
    """The cells of some columns of one block, centred along each: their place among all features."""

    columns: Columns
    block: Block
    place: slice


@dataclass(frozen=True)
class _Span:
    """The features of one block of several columns, side by side, and how they are made of its cells."""

    block: Block
    place: slice
    sums: BlockSums


@dataclass(frozen=True)
class _Triples:
    """Measured triples that share two columns: targets by the cells of these and the features of all third columns."""

    places: tuple[slice, slice]
    others: NDArray[np.intp]
    target: Table
    precision: Table


@dataclass(frozen=True)
class _Pair:
    """A measured pair of columns, and what independent columns would give."""

    columns: Columns
    places: tuple[slice, slice]
    measured: Table
    independent: Table
    precision: float
    numbers: int


class _Problem:
    """The evidence, arranged for matrix products."""

    def __init__(
        self, residuals: Residuals, columns: Mapping[str, KnownColumn], joined: Iterable[Sequence[str]] = ()
    ) -> None:
        self.schema, self.rows = residuals.schema, residuals.rows
        self.blocks = laid_out(self.schema, sorted(blocks_of(self.schema, joined), key=self.schema.cells))
        self._block_of = {name: block for block in self.blocks for name in block.columns}
        self.known = columns
        evidence = [(names, values, variances) for names, values, variances in residuals if len(names) > 1]
        self._lay_features(names for names, _, _ in evidence)
        self.first, self.first_precision = np.zeros(self.width, np.float32), np.zeros(self.width, np.float32)
        self.joint = np.zeros(self.width, np.bool_)  # cells of tables inside one block
        self.target = np.zeros((self.width, self.width), np.float32)
        self.precision = np.zeros((self.width, self.width), np.float32)
        self.pairs: list[_Pair] = []
        self._shared: dict[tuple[Columns, Columns], list[tuple[slice, Table, float]]] = {}
        self.numbers = self.column_numbers = 0
        for name, column in columns.items():
            self._add_column(name, column)
        for names, values, variances in evidence:
            self._add(names, values, variances)
        self.triples = [self._joined_triples(pair) for pair in self._shared]
        self._lay_start()

    def _parts_of(self, names: Columns) -> list[Columns]:
        """The columns of a set, block by block."""
        found: dict[Columns, list[str]] = {}
        for name in names:
            found.setdefault(self._block_of[name].columns, []).append(name)
        return [tuple(part) for part in found.values()]

    def _lay_features(self, sets: Iterable[Columns]) -> None:
        wanted: dict[Columns, None] = dict.fromkeys((name,) for name in self.schema.names)
        wanted.update(dict.fromkeys(part for names in sets for part in self._parts_of(names)))
        self.parts: dict[Columns, _Part] = {}
        start = 0
        for columns in sorted(wanted, key=lambda each: self._block_of[each[0]].place.start):
            block, cells = self._block_of[columns[0]], self.schema.cells(columns)
            place = slice(start, start + (width_of(cells) if len(block.columns) == 1 else cells))
            self.parts[columns] = _Part(columns, block, place)
            start = place.stop
        self.width = start
        self.spans = [self._span(block) for block in self.blocks if len(block.columns) > 1]
        single = [(part.block.place, part.place) for part in self.parts.values() if len(part.block.columns) == 1]
        self._single = ColumnFeatures(single, self.blocks[-1].place.stop, self.width)

    def _span(self, block: Block) -> _Span:
        """All features of a block, which are neighbours."""
        own = [part for part in self.parts.values() if part.block is block]
        sums = BlockSums(block, [part.columns for part in own])
        return _Span(block, slice(own[0].place.start, own[-1].place.stop), sums)

    def _narrowed(self, table: Table, parts: Sequence[Columns]) -> Table:
        """Centred cells over parts of blocks, one along each axis, as features."""
        alone = [len(self._block_of[part[0]].columns) == 1 for part in parts]
        return narrowed(table, [axis for axis, own in enumerate(alone) if own])

    def _add_column(self, name: str, column: KnownColumn) -> None:
        place = self.parts[(name,)].place
        fractions = column.counts / self.rows
        self.first[place] = self._narrowed((fractions - fractions.mean()).astype(np.float32), [(name,)])
        precisions = self.rows**2 / np.maximum(column.variances, 1e-12)
        self.first_precision[place] = precisions if place.stop - place.start > 1 else precisions.mean()
        self.column_numbers += len(fractions) - 1

    def _add(self, names: Columns, values: Values, variances: Values) -> None:
        cells = _padded(values) / self.rows
        precision = float(self.rows**2 / variances.mean())
        parts = self._parts_of(names)
        order = [names.index(name) for part in parts for name in part]
        shaped = np.transpose(cells, order).reshape([self.schema.cells(part) for part in parts]).astype(np.float32)
        shaped = self._narrowed(shaped, parts)
        places = [self.parts[part].place for part in parts]
        if len(parts) == 1:
            self.first[places[0]], self.first_precision[places[0]], self.joint[places[0]] = shaped, precision, True
        elif len(parts) == 2:
            self.aim((places[0], places[1]), shaped, precision)
            if (independent := self._independent(parts)) is not None:
                tables = shaped, self._narrowed(independent, parts)
                self.pairs.append(_Pair(names, (places[0], places[1]), *tables, precision, values.size))
        elif len(parts) == 3:
            one, two, three = np.argsort(shaped.shape, kind="stable")  # the fewer cells of two columns, the less work
            table = np.transpose(shaped, (one, two, three)).reshape(-1, shaped.shape[three])
            self._shared.setdefault((parts[one], parts[two]), []).append((places[three], table, precision))
        else:
            return  # tables of four and more blocks are not fitted
        self.numbers += values.size

    def _joined_triples(self, pair: tuple[Columns, Columns]) -> _Triples:
        """All triples that share these two parts."""
        places, tables, precisions = zip(*self._shared[pair], strict=True)
        others = np.concatenate([np.arange(place.start, place.stop) for place in places])
        each = np.repeat(np.asarray(precisions, np.float32), [table.shape[1] for table in tables])
        return _Triples((self.parts[pair[0]].place, self.parts[pair[1]].place), others, np.hstack(tables), each)

    def expect(self, pair: Columns, error: float) -> None:
        """Take a pair of blocks that was not measured for independent, give or take this error; no residual counts."""
        parts = self._parts_of(pair)
        table = self._independent(parts)
        if table is not None:
            places = self.parts[parts[0]].place, self.parts[parts[1]].place
            precision = SEEN * (HALF * table.size * self.rows / max(error, 1e-3)) ** 2
            self.aim(places, self._narrowed(table, parts), precision)

    def _independent(self, parts: Sequence[Columns]) -> Table | None:
        """The centred cells of two independent columns; None if these are not two known columns, each in a block."""
        if len(parts) != 2 or any(len(part) > 1 or part[0] not in self.known for part in parts):
            return None
        first, second = (self.known[part[0]].probabilities for part in parts)
        table: Table = np.multiply.outer(first - first.mean(), second - second.mean()).astype(np.float32)
        return table

    def aim(self, places: tuple[slice, slice], table: Table, precision: float) -> None:
        """Take features as the target of two parts."""
        one, other = places
        self.target[one, other], self.target[other, one] = table, table.T
        self.precision[one, other] = self.precision[other, one] = precision

    def _lay_start(self) -> None:
        """Log-probabilities of independent columns in every block; impossible cells have none."""
        logs = []
        closed = []
        for block in self.blocks:
            table = np.ones(())
            for name in block.columns:
                size = self.schema[name].size
                known = self.known.get(name)
                table = np.multiply.outer(table, np.full(size, 1 / size) if known is None else known.probabilities)
            shut = self._closed(block)
            flat = np.where(shut, 0.0, table.reshape(-1))
            logs.append(np.log(np.maximum(flat / flat.sum(), 1e-12)))
            closed.append(shut)
        self.logs = np.concatenate(logs).astype(np.float32)
        self.closed = np.concatenate(closed)
        self.runs = BlockRuns([block.cells for block in self.blocks])

    def _closed(self, block: Block) -> NDArray[np.bool_]:
        """Which cells of a block are impossible."""
        shut = np.zeros(block.shape, np.bool_)
        for columns, mask in self.schema.zeros:
            if set(columns) <= set(block.columns):
                sizes = zip(block.columns, block.shape, strict=True)
                shut |= mask.reshape([size if name in columns else 1 for name, size in sizes])
        return shut.reshape(-1)

    def features(self, tables: Table, made: Table) -> None:
        """Write the centred cells of all parts, component by component."""
        self._single.forward(tables, made)
        for span in self.spans:
            span.sums.forward(tables[:, span.block.place], made[:, span.place])

    def pull_back(self, gradient: Table, pulled: Table) -> None:
        """Write the gradient with respect to tables, from that with respect to features: the transpose of it."""
        self._single.backward(gradient, pulled)
        for span in self.spans:
            span.sums.backward(gradient[:, span.place], pulled[:, span.block.place])


def _padded(values: Values) -> Values:
    """The centred cells of these coefficients: the constant along each axis is zero."""
    whole = np.zeros([size + 1 for size in values.shape])
    whole[tuple(slice(1, None) for _ in values.shape)] = values
    return backward(whole)


class _Descent:
    """Adam over logits of tables and weights.

    Logits are kept as logarithms of probabilities: softmax and its gradient do not change if a number is added to all
    logits of a block. Everything but the misfit is done for a few components at a time, in memory that is used again:
    asking for new memory takes longer than most of the arithmetic.
    """

    def __init__(self, problem: _Problem, count: int) -> None:
        rng = np.random.default_rng(0)
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

    def run(self, planned: Planned, progress: Callable[[float, float], None] | None) -> Components:
        """Lower the penalty stage by stage until residuals are at noise level; then polish.

        `progress` hears the part that is done, if every stage is needed, and the residual.
        """
        penalty, rate, residual = planned.start, RATE, 0.0
        for stage in range(1, planned.stages + 1):
            for _ in range(EACH):
                residual = self._step(penalty, rate)
            if progress is not None:
                progress(stage * EACH / planned.steps, residual)
            if residual <= TARGET or stage == planned.stages or not self._problem.numbers:
                break
            penalty, rate = penalty * FALL, max(SLOWEST, rate * SLOWER)
        residual = self._polish(penalty)
        lengths = Lengths()
        for _ in range(planned.rounds if self._problem.pairs else 0):
            self._lengthen(lengths)
            self._polish(penalty)
        weights = self._normalised()
        if planned.rounds and self._problem.pairs:
            for pair in self._problem.pairs:
                self._problem.aim(pair.places, pair.measured, pair.precision)
            residual = self._misfit(self._features, weights)[2] / self._problem.numbers
        listed = tuple((block.columns, self._tables[:, block.place]) for block in self._problem.blocks)
        return Components(weights, listed, residual, penalty)

    def _polish(self, penalty: float) -> float:
        """Ever smaller steps at the last penalty; returns the mean squared residual over variance."""
        return [self._step(penalty, SLOWEST * (1 - step / POLISH)) for step in range(POLISH)][-1]

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
        pull, scores, squares = self._misfit(self._features, weights)
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

    def _misfit(self, features: Table, weights: Table) -> tuple[Table, Table, float]:
        """The gradients of the squared residuals with respect to features and weights, and their sum beyond columns."""
        problem = self._problem
        weighted = weights[:, None] * features
        apart = weighted.T @ features - problem.target
        pulled = problem.precision * apart
        squares = float(np.vdot(pulled, apart)) / 2
        towards = features @ pulled
        scores: Table = np.einsum("kd,kd->k", features, towards) / 2
        gradient: Table = np.multiply(weights[:, None], towards, dtype=np.float32)
        single = weights @ features - problem.first
        slope = problem.first_precision * single
        squares += float(np.vdot(slope[problem.joint], single[problem.joint]))
        gradient += weights[:, None] * slope
        scores += features @ slope
        for triples in problem.triples:
            squares += self._misfit_of(triples, features, weights, gradient, scores)
        return gradient, scores, squares

    @staticmethod
    def _misfit_of(triples: _Triples, features: Table, weights: Table, gradient: Table, scores: Table) -> float:
        """Add the gradients of some triples; returns their squared residuals."""
        one, two = triples.places
        first, second, others = features[:, one], features[:, two], features[:, triples.others]
        both = (first[:, :, None] * second[:, None, :]).reshape(len(features), -1)
        weighted = weights[:, None] * others
        apart = both.T @ weighted - triples.target
        pulled = triples.precision * apart
        towards = both @ pulled
        scores += np.einsum("kc,kc->k", towards, others)
        back = (weighted @ pulled.T).reshape(len(features), first.shape[1], second.shape[1])
        gradient[:, triples.others] += weights[:, None] * towards
        gradient[:, one] += np.matmul(back, second[:, :, None])[:, :, 0]
        gradient[:, two] += np.matmul(first[:, None, :], back)[:, 0]
        return float(np.vdot(pulled, apart))

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

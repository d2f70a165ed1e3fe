"""The evidence of a mixture's fit: what was measured, arranged for matrix products with the features of its components.

The features of a component are the cells of its tables, centred within each set of columns. With F those of all
components, the coefficients of all pairs are the blocks of F^T diag(w) F: one matrix product. Triples that share two
columns are products of three slices, together. Public computation: it sees released numbers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maquette.estimates.block_runs import BlockRuns
from maquette.estimates.block_sums import BlockSums
from maquette.estimates.column_features import ColumnFeatures, narrowed, width_of
from maquette.estimates.residuals import Columns, Residuals, backward
from maquette.hypothesis import Block, blocks_of, laid_out

SEEN = 0.05  # weight of a pair of which one distance was seen, for that of one whose every cell was
HALF = 0.4  # half the mean of |x|, in standard deviations of a normal x

Table = NDArray[np.float32]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class KnownColumn:
    """What is known about one column: counts, the variance of each, and smoothed probabilities."""

    counts: Values
    variances: Values
    probabilities: Values


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
class MeasuredPair:
    """A measured pair of columns, and what independent columns would give."""

    columns: Columns
    places: tuple[slice, slice]
    measured: Table
    independent: Table
    precision: float
    numbers: int


class MixtureEvidence:
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
        self.pairs: list[MeasuredPair] = []
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
                self.pairs.append(MeasuredPair(names, (places[0], places[1]), *tables, precision, values.size))
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

    def misfit(self, features: Table, weights: Table) -> tuple[Table, Table, float]:
        """The gradients of the squared residuals with respect to features and weights, and their sum beyond columns."""
        weighted = weights[:, None] * features
        apart = weighted.T @ features - self.target
        pulled = self.precision * apart
        squares = float(np.vdot(pulled, apart)) / 2
        towards = features @ pulled
        scores: Table = np.einsum("kd,kd->k", features, towards) / 2
        gradient: Table = np.multiply(weights[:, None], towards, dtype=np.float32)
        single = weights @ features - self.first
        slope = self.first_precision * single
        squares += float(np.vdot(slope[self.joint], single[self.joint]))
        gradient += weights[:, None] * slope
        scores += features @ slope
        for triples in self.triples:
            squares += self._add_triples(triples, features, weights, gradient, scores)
        return gradient, scores, squares

    @staticmethod
    def _add_triples(triples: _Triples, features: Table, weights: Table, gradient: Table, scores: Table) -> float:
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


def _padded(values: Values) -> Values:
    """The centred cells of these coefficients: the constant along each axis is zero."""
    whole = np.zeros([size + 1 for size in values.shape])
    whole[tuple(slice(1, None) for _ in values.shape)] = values
    return backward(whole)

"""Mixture of products: p(x) = sum_k w_k prod_B p_kB(x_B), over blocks B of columns that partition the schema.

Most blocks are one column. A block of several columns is a joint table in every component: that is how impossible
combinations are respected, and where sharp dependencies are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.blocks import Block, Columns, check_zeros, laid_out
from maquette.hypothesis.kernels import Values, check_schema, positions_of
from maquette.hypothesis.mixture_sampling import sample_mixture
from maquette.hypothesis.mixture_step import Tilt
from maquette.hypothesis.multiplicative_weights import StepRule, gap
from maquette.hypothesis.refining import refined
from maquette.query import MAX_OUTPUT, LinearQuery
from maquette.schema import Schema

_WORK = 2**22  # numbers held at a time while a table is added up over components
_SUM = 1e-4  # how far from one given probabilities may sum: float32 numbers are rounded

Table = NDArray[np.floating[Any]]


class Mixture:
    """A weighted sum of products of independent blocks of columns: any table over any columns in milliseconds.

    `weights` holds the share of each of K components. `blocks` lists columns, in schema order, with a table of K rows:
    the probability of each cell of these columns in each component. Every column is in one block. Columns that an
    impossible combination names are in one block, which gives impossible cells exactly zero: `blocks_of` makes such
    blocks. Probabilities sum to one up to rounding; float32 tables are kept, and saved, as they are given.

    Privacy: post-processing of released values; it never sees a row. Accuracy: it has no bound on updates. An update is
    a heuristic: it reweights components and the blocks that the query is about, and keeps blocks independent within a
    component. `max_updates` is that of multiplicative weights, which this family of models does not attain. Memory: K
    times the cells of all blocks. Time: K times the cells of the table asked for; the number of columns does not
    matter. Kin: latent class models; relaxed projection (Aydore et al. 2021), whose components have equal weights.

    >>> from maquette import Boolean, Schema, where
    >>> schema = Schema([Boolean("smoker"), Boolean("coughs")])
    >>> ill = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> model = Mixture(schema, np.array([0.75, 0.25]), [(("smoker",), ill), (("coughs",), ill)])
    >>> round(model.answer(where(schema, "smoker AND coughs")), 6)
    0.1675
    """

    kind: ClassVar[str] = "mixture"

    def __init__(
        self, schema: Schema, weights: Table, blocks: Iterable[tuple[Sequence[str], Table]], *, floor: float = 1e-6
    ) -> None:
        listed = [(tuple(columns), np.asarray(table)) for columns, table in blocks]
        self.schema = schema
        self.blocks = laid_out(schema, [columns for columns, _ in listed])
        self._rule = StepRule(step="exact", floor=floor)
        given = np.atleast_1d(np.asarray(weights))
        tables = [_checked(f"the block {', '.join(c)}", t, (len(given), schema.cells(c))) for c, t in listed]
        joined = tables[0] if len(tables) == 1 else np.concatenate(tables, axis=1)
        self._set(_checked("weights", given[None, :], (1, len(given)))[0], joined)

    def _set(self, weights: Table, tables: Table) -> None:
        """Keep these numbers, and use them scaled to sum to one."""
        self._given = weights, tables
        self._weights = np.asarray(weights / weights.sum(dtype=np.float64), dtype=np.float64)
        self._tables = np.array(tables, dtype=np.float64)
        for block in self.blocks:
            part = self._tables[:, block.place]
            part /= part.sum(axis=1, keepdims=True)
            check_zeros(self.schema, block, part)
        self.__dict__.pop("_columns", None)

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """ln N / (2 alpha^2), as for multiplicative weights; a mixture promises none, so `update_bound` is infinite."""
        return StepRule(alpha=alpha).max_updates(math.log(schema.size))

    @property
    def update_bound(self) -> float:
        """Infinite: a step of a mixture has no theorem."""
        return math.inf

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self._weights)

    @property
    def weights(self) -> Values:
        """The share of each component (a copy)."""
        return self._weights.copy()

    @property
    def tables(self) -> dict[Columns, Values]:
        """For each block, the probability of its cells in each component (copies)."""
        return {block.columns: self._tables[:, block.place].copy() for block in self.blocks}

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows."""
        check_schema(query, self.schema)
        numbers = sum(len(factor) for term in query.terms for factor in term.factors.values())
        touched = {position for term in query.terms for position in term.factors}
        if math.prod(self.schema.columns[position].size for position in touched) <= min(numbers, MAX_OUTPUT):
            return float((self.marginal(query.columns) * query.weights()).sum())
        return min(max(Tilt(self._weights, self._parts, query).answer(0.0), 0.0), 1.0)

    def update(self, query: LinearQuery, value: float) -> None:
        """One multiplicative step towards a released value: as close to it as the heuristic comes (see `Tilt`)."""
        check_schema(query, self.schema)
        tilt = Tilt(self._weights, self._parts, query)
        low, high = query.bounds
        if gap(value, tilt.answer(0.0)) == 0.0 or low == high:
            return
        inside = self._rule.floor * (high - low)
        strength = tilt.strength(min(max(value, low + inside), high - inside))
        if strength == 0.0:
            return
        weights, changed = tilt.moved(strength)
        tables = self._tables.copy()
        for index, table in changed.items():
            tables[:, self.blocks[index].place] = table
        self._set(weights, tables)

    def marginal(self, columns: Sequence[str]) -> Values:
        """The model's answers to all cells of these columns, axes in the order asked."""
        positions = positions_of(self.schema, columns)
        if self.schema.cells(columns) > MAX_OUTPUT:
            raise QueryError(
                f"{self.schema.cells(columns):,} cells over {len(columns)} columns are more than {MAX_OUTPUT:,}",
                advice="ask for fewer columns",
            )
        wanted = set(positions)
        used = [(i, tuple(p for p in b.positions if p in wanted)) for i, b in enumerate(self.blocks)]
        used = [(i, kept) for i, kept in used if kept]
        cells = self._added_up([self._within(i, kept) for i, kept in used])
        order = [position for _, kept in used for position in kept]
        shaped = cells.reshape([self.schema.columns[position].size for position in order])
        return np.asarray(np.transpose(shaped, [order.index(position) for position in positions]), order="C")

    def _within(self, index: int, kept: tuple[int, ...]) -> Values:
        """The tables of a block over some of its columns, one row per component."""
        block = self.blocks[index]
        part = self._tables[:, block.place]
        if kept == block.positions:
            return part
        if len(kept) == 1:
            return self._columns[kept[0]]
        gone = tuple(axis + 1 for axis, position in enumerate(block.positions) if position not in kept)
        return np.asarray(part.reshape(-1, *block.shape).sum(axis=gone)).reshape(len(part), -1)

    @cached_property
    def _columns(self) -> dict[int, Values]:
        """The table of every single column of a block of several."""
        found: dict[int, Values] = {}
        for block in self.blocks:
            shaped = self._tables[:, block.place].reshape(-1, *block.shape)
            for axis, position in enumerate(block.positions if len(block.positions) > 1 else ()):
                found[position] = shaped.sum(axis=tuple(i for i in range(1, shaped.ndim) if i != axis + 1))
        return found

    def _added_up(self, parts: Sequence[Values]) -> Values:
        """The products of the parts' rows, weighted and summed over components: one matrix product per few of them."""
        if not parts:
            return np.ones(1)
        sizes = [part.shape[1] for part in parts]
        cut = min(range(len(sizes) + 1), key=lambda i: math.prod(sizes[:i]) + math.prod(sizes[i:]))
        left, right = math.prod(sizes[:cut]), math.prod(sizes[cut:])
        total = np.zeros((left, right))
        step = max(1, _WORK // (left + right))
        for start in range(0, self.components, step):
            some = slice(start, start + step)
            first = _products([self._weights[some, None], *(part[some] for part in parts[:cut])])
            total += first.T @ _products([np.ones((len(first), 1)), *(part[some] for part in parts[cut:])])
        return total.reshape(-1)

    @property
    def _parts(self) -> list[tuple[Block, Values]]:
        return [(block, self._tables[:, block.place]) for block in self.blocks]

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records, drawn and then refined: tables of two and three columns are close to the model's."""
        return refined(self, self.draw(rows, rng))

    def draw(self, rows: int, rng: np.random.Generator, start: float | None = None) -> NDArray[np.int32]:
        """Encoded records: each component and each cell of its blocks has its share of `rows`, rounded.

        In a small universe so does each cell of the universe.
        """
        return sample_mixture(self, rows, rng, start)

    def facts(self) -> dict[str, Any]:
        """The blocks, and how close to an extreme a step may go."""
        return {"blocks": [list(block.columns) for block in self.blocks], "floor": self._rule.floor}

    def arrays(self) -> Arrays:
        """The weights, and the tables of all blocks side by side."""
        weights, tables = self._given
        return {"weights": weights, "tables": tables}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        listed = facts.get("blocks")
        if not isinstance(listed, list):
            raise saving.unfit("blocks are not a list")
        try:
            blocks = laid_out(schema, [saving.columns(schema, columns) for columns in listed])
            tables = saving.array(arrays, "tables", [saving.ANY, blocks[-1].place.stop], _kind(arrays, "tables"))
            weights = saving.array(arrays, "weights", [len(tables)], _kind(arrays, "weights"))
            parts = [(block.columns, tables[:, block.place]) for block in blocks]
            return cls(schema, weights, parts, floor=saving.number(facts, "floor"))
        except QueryError as error:
            raise saving.unfit(f"mixture does not fit ({error.happened})") from None

    def __repr__(self) -> str:
        return f"Mixture({self.components:,} components, {len(self.blocks)} blocks of {len(self.schema)} columns)"


def _products(parts: Sequence[Values]) -> Values:
    """For each row, the outer product of the parts' rows, flat."""
    total = parts[0]
    for part in parts[1:]:
        total = (total[:, :, None] * part[:, None, :]).reshape(len(total), -1)
    return total


def _kind(arrays: Arrays, name: str) -> type[np.generic]:
    """float32 for an array of such numbers, else float64."""
    return np.float32 if name in arrays and arrays[name].dtype == np.float32 else np.float64


def _checked(what: str, table: Table, shape: tuple[int, int]) -> Table:
    """Rows of probabilities as float32, if they are given so, or else float64."""
    if table.shape != shape or 0 in shape:
        raise QueryError(f"{what}: the table has shape {table.shape}", expected=f"shape {shape}, one row per component")
    found = table if table.dtype in (np.float32, np.float64) else table.astype(np.float64)
    if not np.isfinite(found).all() or found.min() < 0.0:
        raise QueryError(f"{what}: probabilities must be finite and not negative")
    far = float(np.abs(found.sum(axis=1, dtype=np.float64) - 1.0).max())
    if far > _SUM:
        raise QueryError(f"{what}: probabilities sum to one only within {far:.3g}", expected=f"at most {_SUM:g}")
    return found

"""Net: public candidate datasets, fixed without looking at the rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from maquette.errors import QueryError
from maquette.hypothesis import AnyRule
from maquette.query import LinearQuery, Workload
from maquette.releases.nets.transcripts import tables_of_transcripts, vc_dimension
from maquette.schema import Schema
from maquette.theory import net as theory

MAX_CANDIDATES = 10**6
MAX_ENTRIES = 2**26  # maximum rows of all candidates together, and maximum answers of all candidates together

Records = NDArray[np.int32]
Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Net:
    """Public candidate datasets: row i of `weights` holds the share of each of `points` in candidate i.

    OPT, the error of the best candidate, is known for two kinds of nets. `covers` is m when every multiset of m rows is
    a candidate. `within` bounds OPT for any table on the queries `built_for`, or on every query if that is None.

    >>> from maquette import Boolean, Schema
    >>> net = Net.small_databases(Schema([Boolean("a"), Boolean("b")]), rows=3)
    >>> net, round(net.opt(queries=4), 3)
    (Net(20 candidates: all multisets of 3 rows over 4 points), 0.589)
    """

    schema: Schema
    points: Records
    weights: sparse.csr_array[np.float64]
    made: str
    covers: int | None = None
    within: float | None = None
    built_for: frozenset[LinearQuery] | None = None

    @classmethod
    def small_databases(cls, schema: Schema, rows: int) -> Net:
        """Every multiset of `rows` points of the universe; more than a million are refused, with their number."""
        refuse_large(schema, rows)
        size = multisets(schema, rows)
        members = itertools.combinations_with_replacement(range(schema.size), rows)
        flat = np.fromiter(itertools.chain.from_iterable(members), dtype=np.int32, count=size * rows)
        made = f"all multisets of {rows} rows over {schema.size:,} points"
        return cls(schema, universe(schema), _even(flat.reshape(size, rows), schema.size), made, covers=rows)

    @classmethod
    def random(cls, schema: Schema, rows: int, size: int, rng: np.random.Generator) -> Net:
        """`size` candidates of `rows` uniform points each, by public coins: `rng` must not depend on the data."""
        check_counts(rows=rows, size=size)
        refuse_entries(size, rows, "rows")
        members = np.arange(size * rows, dtype=np.int32).reshape(size, rows)
        records = random_records(schema, size * rows, rng)
        return cls(schema, records, _even(members, size * rows), f"random draws of {rows} rows")

    @classmethod
    def of(cls, schema: Schema, datasets: Sequence[NDArray[np.integer[Any]]]) -> Net:
        """Public datasets of encoded records (`Schema.encode`), such as an earlier census, of any length each.

        None of them may come from the rows.
        """
        if not len(datasets):
            raise QueryError("the net is empty", expected="at least one public dataset of encoded records")
        checked = [check_records(schema, records) for records in datasets]
        lengths = np.array([len(records) for records in checked])
        refuse_entries(1, int(lengths.sum()), "rows")
        ends = np.concatenate([[0], np.cumsum(lengths)])
        shares = np.repeat(1 / lengths, lengths)
        weights = sparse.csr_array((shares, np.arange(ends[-1]), ends), shape=(len(checked), int(ends[-1])))
        return cls(schema, np.concatenate(checked), weights, "given datasets")

    @classmethod
    def histograms(cls, schema: Schema, tables: ArrayLike) -> Net:
        """Public distributions over the whole universe: one candidate per row, one cell per point in schema order."""
        table = np.asarray(tables, dtype=np.float64)
        if table.ndim != 2 or not len(table) or table.shape[1] != schema.size:
            raise QueryError(f"got shape {table.shape}", expected=f"candidates x {schema.size:,} cells, one per point")
        totals = table.sum(axis=1, keepdims=True)
        if not (table >= 0).all() or not (np.abs(totals - 1) < 1e-6).all():
            raise QueryError("every histogram must hold probabilities that sum to 1", advice="divide each by its total")
        refuse_entries(len(table), schema.size, "cells")
        return cls(schema, universe(schema), sparse.csr_array(table / totals), "given histograms")

    @classmethod
    def transcripts(cls, rule: AnyRule, queries: Workload | Sequence[LinearQuery], alpha: float) -> Net:
        """The dual net: every table that an update rule reaches by T(alpha) signed questions of `queries`.

        For every table some candidate errs by less than alpha on all of `queries`, by the bound on updates. `made`
        tells how many transcripts there are and how many distinct tables they reach. Mechanisms §3.2.4.
        """
        asked = list(dict.fromkeys(queries))
        if not asked:
            raise QueryError("there are no queries", expected="a workload, or a list of linear queries")
        schema = asked[0].schema
        tables, updates = tables_of_transcripts(schema, rule, asked, alpha, MAX_CANDIDATES)
        refuse_entries(len(tables), schema.size, "cells")
        log_size = theory.dual_net(queries=len(asked), steps=updates)
        size = f"{math.exp(log_size):,.0f}" if log_size < 27 else f"10^{log_size / math.log(10):.0f}"
        made = f"{size} transcripts of {updates:,} updates"
        weights = sparse.csr_array(tables)
        return cls(schema, universe(schema), weights, made, within=float(alpha), built_for=frozenset(asked))

    @classmethod
    def of_dimension(cls, queries: Workload | Sequence[LinearQuery], alpha: float) -> Net:
        """Small databases of a size that depends on the VC dimension of 0/1 queries, not on their number.

        Every multiset of m = `theory.net.vc_database_size` rows: m rows drawn from any table are within alpha on all of
        `queries` with positive probability. The dimension is found by trying all sets of points. Mechanisms §3.2.2.
        """
        asked = list(queries)
        if not asked:
            raise QueryError("there are no queries", expected="a workload, or a list of linear queries")
        schema = asked[0].schema
        dimension = vc_dimension(schema, asked, universe(schema))
        rows = theory.vc_database_size(dimension=max(1, dimension), alpha0=alpha)
        made = cls.small_databases(schema, rows)
        return cls(schema, made.points, made.weights, made.made, rows, float(alpha), frozenset(asked))

    def __len__(self) -> int:
        return int(self.weights.shape[0])

    def opt(self, queries: int) -> float | None:
        """A bound on OPT for any table and any `queries` linear queries; None if the net has no bound.

        m rows drawn from the table miss one query by a or more with probability at most 2 exp(-2 m a^2), so some
        multiset of m rows is within sqrt(ln(2 queries) / (2 m)) on all of them. Mechanisms §3.2.
        """
        return None if self.covers is None else math.sqrt(math.log(2 * queries) / (2 * self.covers))

    def opt_for(self, asked: Sequence[LinearQuery]) -> float | None:
        """The best known bound on OPT for these queries; None if there is none."""
        known = [] if self.covers is None else [math.sqrt(math.log(2 * len(set(asked))) / (2 * self.covers))]
        if self.within is not None and (self.built_for is None or self.built_for.issuperset(asked)):
            known.append(self.within)
        return min(known, default=None)

    def answers(self, asked: Sequence[LinearQuery]) -> Values:
        """Every candidate's answer to every query, as fractions of rows."""
        refuse_entries(len(self), len(asked), "answers")
        table = np.empty((len(self), len(asked)))
        for column, query in enumerate(asked):
            table[:, column] = np.asarray(self.weights @ query.evaluate(self.points))
        return table

    def __getitem__(self, index: int) -> tuple[Records, Values]:
        """The records of one candidate and their probabilities."""
        start, end = self.weights.indptr[index : index + 2]
        return self.points[self.weights.indices[start:end]], self.weights.data[start:end]

    def __repr__(self) -> str:
        return f"Net({len(self):,} candidates: {self.made})"


def universe(schema: Schema) -> Records:
    """Every point as an encoded record, in schema order."""
    return np.stack(np.unravel_index(np.arange(schema.size), schema.shape(schema.names)), axis=1).astype(np.int32)


def random_records(schema: Schema, count: int, rng: np.random.Generator) -> Records:
    """Uniform points by public coins."""
    return rng.integers(schema.shape(schema.names), size=(count, len(schema)), dtype=np.int32)


def multisets(schema: Schema, rows: int) -> int:
    """The number of multisets of `rows` points; beyond 10^600 only a lower bound."""
    return math.comb(schema.size + rows - 1, min(rows, schema.size - 1, 1000))


def enumerable(schema: Schema, rows: int, queries: int = 1) -> bool:
    """Whether all multisets of `rows` rows, and their answers to `queries` queries, can be listed."""
    size = multisets(schema, rows)
    return size <= MAX_CANDIDATES and size * max(rows, queries) <= MAX_ENTRIES


def refuse_large(schema: Schema, rows: int, queries: int = 1) -> None:
    """Refuse what is not `enumerable`, and say how many multisets there are."""
    check_counts(rows=rows)
    if not enumerable(schema, rows, queries):
        size = multisets(schema, rows)
        shown = f"{size:,}" if size < 10**12 else f"about 10^{math.log10(size):.0f}"
        raise QueryError(
            f"there are {shown} multisets of {rows:,} rows over {schema!r}, each with {queries:,} answers",
            advice="at most "
            f"{MAX_CANDIDATES:,} candidates and {MAX_ENTRIES:,} rows or answers can be listed. Ask for fewer rows, "
            "draw a Net.random, or use local_search",
        )


def refuse_entries(size: int, each: int, what: str) -> None:
    """Refuse a table of more than `MAX_ENTRIES` numbers."""
    if size * each > MAX_ENTRIES:
        raise QueryError(
            f"{size:,} candidates x {each:,} {what} are {size * each:,} numbers, more than {MAX_ENTRIES:,}",
            advice="use a smaller net or a smaller workload",
        )


def check_counts(**counts: int) -> None:
    """Refuse anything but whole numbers of at least 1."""
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise QueryError(f"{name} is {count!r}", expected="a whole number, at least 1")


def check_records(schema: Schema, records: NDArray[np.integer[Any]]) -> Records:
    """Encoded records; refused if they do not fit this schema."""
    array = np.asarray(records)
    if array.ndim != 2 or not len(array) or array.shape[1] != len(schema) or array.dtype.kind not in "iu":
        raise QueryError(
            f"got {array.dtype} of shape {array.shape}",
            expected=f"encoded records, rows x {len(schema)} columns of whole numbers (`Schema.encode` makes them)",
        )
    if (array < 0).any() or (array >= np.array(schema.shape(schema.names))).any():
        raise QueryError("a record has a level outside its column", advice="encode public rows with `Schema.encode`")
    return array.astype(np.int32)


def _even(members: NDArray[np.int32], points: int) -> sparse.csr_array[np.float64]:
    """Candidates in which each listed point has the same share."""
    size, rows = members.shape
    shares = np.full(size * rows, 1 / rows)
    return sparse.csr_array((shares, members.reshape(-1), np.arange(size + 1) * rows), shape=(size, points))

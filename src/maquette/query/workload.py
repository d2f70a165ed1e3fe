"""Workloads: families of linear queries, counted exactly and listed only on request.

A family knows its size, any member by its index, and the marginals whose cells answer it. This is how a million
conjunctions become a few hundred questions.
"""

from __future__ import annotations

import bisect
import itertools
import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from maquette.errors import QueryError
from maquette.query.classes.boolean import two_level_columns
from maquette.query.expression import Expression, where
from maquette.query.linear import LinearQuery
from maquette.query.marginal import MAX_OUTPUT, Marginal
from maquette.schema import Ordered, Schema


class Workload(ABC):
    """A family of linear queries over one schema."""

    schema: Schema
    sums: tuple[str, ...] = ()
    """Columns whose sums a release buys beside the counts."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The exact number of queries; it may exceed 64 bits."""

    @property
    @abstractmethod
    def marginals(self) -> Iterator[Marginal]:
        """Marginals whose cells answer every query, one at a time."""

    @property
    def sets(self) -> Iterator[tuple[str, ...]]:
        """The columns of each marginal."""
        return (marginal.columns for marginal in self.marginals)

    @cached_property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The sets of columns of all marginals, each in schema order, without repeats, the smallest first."""
        names, place = self.schema.names, {name: i for i, name in enumerate(self.schema.names)}
        found = {tuple(sorted(place[name] for name in columns)) for columns in self.sets}
        return tuple(tuple(names[i] for i in columns) for columns in sorted(found, key=lambda each: (len(each), each)))

    @abstractmethod
    def _query(self, index: int) -> LinearQuery: ...

    @abstractmethod
    def _title(self) -> str: ...

    def __getitem__(self, index: int) -> LinearQuery:
        index = operator.index(index)
        if not -self.size <= index < self.size:
            raise IndexError(f"there is no query {index:,} among {self.size:,}")
        return self._query(index % self.size)

    def __iter__(self) -> Iterator[LinearQuery]:
        index = 0
        while index < self.size:
            yield self._query(index)
            index += 1

    def sample(self, count: int, rng: np.random.Generator) -> list[LinearQuery]:
        """Members drawn uniformly and independently."""
        return [self._query(_below(self.size, rng)) for _ in range(count)]

    def __repr__(self) -> str:
        return f"{self._title()}: {self.size:,} queries"


def marginals(
    schema: Schema,
    k: int | None = None,
    *,
    columns: Iterable[Sequence[str]] | None = None,
    up_to: bool = False,
    sums: Sequence[str] = (),
) -> Workload:
    """Every cell of every k-way marginal (default k = 3; `up_to`: of 1 to k columns), or of the listed marginals.

    `sums` names numeric columns whose values a release also adds up, over all rows and by each column that a table
    of the workload pairs it with, where noise does not hide them: sums and averages are then those of the values, not
    of the middles of bins.

    >>> from maquette import Boolean, Integer, Schema
    >>> schema = Schema([Integer("age", 0, 99), Boolean("smoker"), Boolean("married")])
    >>> marginals(schema, 2)
    2-way marginals of 3 columns: 404 queries
    """
    if sums:
        made = marginals(schema, k, columns=columns, up_to=up_to)
        made.sums = _summed(schema, sums)
        return made
    if columns is None:
        k = 3 if k is None else k
        return _Cells(schema, _choices(schema, schema.names, k, up_to), f"{'up to ' * up_to}{k}-way marginals")
    if k is not None or up_to:
        raise QueryError("give either k or a list of columns for each marginal, not both")
    listed = [_names(schema, names) for names in columns]
    if not listed:
        raise QueryError("the list of marginals is empty", expected="at least one tuple of columns")
    return _Cells(schema, [_Choice(schema, names, len(names)) for names in listed], f"{len(listed)} marginals")


def _summed(schema: Schema, names: Sequence[str]) -> tuple[str, ...]:
    """The columns to add up; refused unless each has values beside its levels."""
    if isinstance(names, str):
        raise QueryError(f"sums is the text {names!r}", expected='a list of columns, such as sums=["income"]')
    for name in names:
        if schema[name].value_grid is None:
            why = "no numbers" if schema[name].midpoints is None else "one value in each level: its counts are enough"
            raise QueryError(f"column {name!r} ({schema[name].kind}) has {why}", advice="leave it out of sums")
    return tuple(dict.fromkeys(names))


def conjunctions(
    schema: Schema, k: int, columns: Sequence[str] | None = None, *, monotone: bool = False, up_to: bool = False
) -> Combinations:
    """Every `a AND b AND ...` of k literals column = level on different columns (null levels included).

    `monotone`: of two-level columns that hold (their second level, "true"), no literal negated. `up_to`: of 1 to k.
    """
    return Combinations(schema, k, columns, title="conjunctions", monotone=monotone, up_to=up_to)


def disjunctions(
    schema: Schema, k: int, columns: Sequence[str] | None = None, *, monotone: bool = False, up_to: bool = False
) -> Combinations:
    """Every `a OR b OR ...` of k literals column = level on different columns (null levels included).

    `monotone`: of two-level columns that hold (their second level, "true"), no literal negated. `up_to`: of 1 to k.

    >>> from maquette import Boolean, Schema
    >>> schema = Schema([Boolean(f"symptom_{i}") for i in range(200)])
    >>> disjunctions(schema, 4, monotone=True)
    monotone disjunctions of 4 of 200 columns: 64,684,950 queries
    """
    return _Disjunctions(schema, k, columns, title="disjunctions", monotone=monotone, up_to=up_to)


def ranges(schema: Schema, column: str) -> Workload:
    """Every run of consecutive levels of an ordered column."""
    return _Ranges(schema, column)


def prefixes(schema: Schema, column: str) -> Workload:
    """Every run of levels of an ordered column that begins at the lowest."""
    return _Prefixes(schema, column)


def queries(schema: Schema, questions: Iterable[Expression | str | LinearQuery]) -> Workload:
    """The listed questions, in order."""
    return _Listed(schema, questions)


class _Choice:
    """All k-subsets of some columns, in lexicographic order, and the cells of each.

    rest[i][j] is the number of cells over all j-subsets of the columns from i on (an elementary symmetric polynomial of
    their sizes). It locates a cell without listing the subsets before it.
    """

    def __init__(self, schema: Schema, names: tuple[str, ...], k: int, first: int = 0) -> None:
        """Levels below `first` of every column are left out."""
        self.names = names
        self.k = k
        self.first = first
        self.sizes = [size - first for size in schema.shape(names)]
        rest = [[1, *[0] * k]]
        for size in reversed(self.sizes):
            after = rest[-1]
            rest.append([1, *(after[j] + size * after[j - 1] for j in range(1, k + 1))])
        self.rest = rest[::-1]

    @property
    def cells(self) -> int:
        return self.rest[0][self.k]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return itertools.combinations(self.names, self.k)

    def locate(self, index: int) -> dict[str, int]:
        """The columns of a cell and its level in each."""
        chosen: list[int] = []
        scale = 1
        for i, size in enumerate(self.sizes):
            if len(chosen) == self.k:
                break
            block = scale * size * self.rest[i + 1][self.k - len(chosen) - 1]
            if index < block:
                chosen.append(i)
                scale *= size
            else:
                index -= block
        levels: dict[str, int] = {}
        for i in reversed(chosen):
            index, level = divmod(index, self.sizes[i])
            levels[self.names[i]] = self.first + level
        return levels


class _Cells(Workload):
    """Cells of marginals: each is a conjunction of literals."""

    def __init__(self, schema: Schema, choices: Sequence[_Choice], title: str) -> None:
        self.schema = schema
        self._choices = choices
        self._ends = list(itertools.accumulate(choice.cells for choice in choices))
        self._named = title

    @property
    def size(self) -> int:
        return self._ends[-1]

    @property
    def marginals(self) -> Iterator[Marginal]:
        return (Marginal(self.schema, names) for choice in self._choices for names in choice)

    @property
    def sets(self) -> Iterator[tuple[str, ...]]:
        largest = (sorted(self.schema.shape(choice.names))[-choice.k :] for choice in self._choices)
        if max(map(math.prod, largest)) > MAX_OUTPUT:
            return super().sets  # which refuses a table that is too large
        return itertools.chain.from_iterable(self._choices)

    def _query(self, index: int) -> LinearQuery:
        return LinearQuery.product(self.schema, self._literals(index))

    def _literals(self, index: int) -> dict[str, np.ndarray]:
        which = bisect.bisect_right(self._ends, index)
        levels = self._choices[which].locate(index - (self._ends[which - 1] if which else 0))
        return {name: np.arange(self.schema[name].size) == level for name, level in levels.items()}

    def _title(self) -> str:
        return f"{self._named} of {len({name for choice in self._choices for name in choice.names})} columns"


class Combinations(_Cells):
    """Conjunctions or disjunctions of 1 to `k` literals on different columns out of `columns`."""

    def __init__(
        self, schema: Schema, k: int, columns: Sequence[str] | None, *, title: str, monotone: bool, up_to: bool
    ) -> None:
        names = schema.names if columns is None else columns
        self.columns = two_level_columns(schema, names) if monotone else _names(schema, names)
        self.k = k
        self.monotone = monotone
        choices = _choices(schema, self.columns, k, up_to, first=1 if monotone else 0)
        super().__init__(schema, choices, f"{'monotone ' * monotone}{title} of {'up to ' * up_to}{k}")


class _Disjunctions(Combinations):
    def _query(self, index: int) -> LinearQuery:
        opposites = {name: ~holds for name, holds in self._literals(index).items()}
        return ~LinearQuery.product(self.schema, opposites)


class _Intervals(Workload):
    """Runs of levels of one ordered column."""

    def __init__(self, schema: Schema, column: str) -> None:
        self.schema = schema
        self._column = schema[column]
        if not isinstance(self._column, Ordered):
            raise QueryError(
                f"column {column!r} ({self._column.kind}) has no order", expected="an integer, number or date column"
            )

    @property
    def marginals(self) -> Iterator[Marginal]:
        yield Marginal(self.schema, [self._column.name])

    def _run(self, first: int, last: int) -> LinearQuery:
        levels = np.arange(self._column.size)
        return LinearQuery.product(self.schema, {self._column.name: (first <= levels) & (levels <= last)})


class _Ranges(_Intervals):
    @property
    def size(self) -> int:
        return math.comb(self._column.known + 1, 2)

    def _query(self, index: int) -> LinearQuery:
        # Sorted by last level: b (b + 1) / 2 runs end before level b.
        last = (math.isqrt(8 * index + 1) - 1) // 2
        return self._run(index - math.comb(last + 1, 2), last)

    def _title(self) -> str:
        return f"ranges of {self._column.name}"


class _Prefixes(_Intervals):
    @property
    def size(self) -> int:
        return self._column.known

    def _query(self, index: int) -> LinearQuery:
        return self._run(0, index)

    def _title(self) -> str:
        return f"prefixes of {self._column.name}"


class _Listed(Workload):
    def __init__(self, schema: Schema, questions: Iterable[Expression | str | LinearQuery]) -> None:
        if isinstance(questions, str | Expression | LinearQuery):
            raise QueryError("got one question", expected="a list of questions", advice="put it in a list")
        self.schema = schema
        self._queries = [where(schema, question) for question in questions]
        if not self._queries:
            raise QueryError("the list of questions is empty", expected="at least one")

    @property
    def size(self) -> int:
        return len(self._queries)

    @property
    def marginals(self) -> Iterator[Marginal]:
        """One marginal over the columns of each query, or the query itself if that table would be too large."""
        return iter(dict.fromkeys(self._table(query) for query in self._queries))

    def _table(self, query: LinearQuery) -> Marginal:
        fits = self.schema.cells(query.columns) <= MAX_OUTPUT
        return Marginal(self.schema, query.columns) if fits else Marginal(self.schema, (), query)

    def _query(self, index: int) -> LinearQuery:
        return self._queries[index]

    def _title(self) -> str:
        return "listed questions"


def _choices(
    schema: Schema, columns: Sequence[str] | None, k: int, up_to: bool = False, first: int = 0
) -> list[_Choice]:
    names = schema.names if columns is None else _names(schema, columns)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= len(names):
        raise QueryError(f"k is {k!r}", expected=f"a whole number from 1 to the number of columns, {len(names)}")
    return [_Choice(schema, names, j, first) for j in range(1 if up_to else k, k + 1)]


def _names(schema: Schema, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise QueryError(f"got the text {columns!r}", expected="a list of column names", advice=f"write [{columns!r}]")
    names = tuple(columns)
    for name in names:
        schema.position(name)
    if not names or len(set(names)) < len(names):
        raise QueryError(f"the columns are {', '.join(names) or 'none'}", expected="different columns, at least one")
    return names


def _below(bound: int, rng: np.random.Generator) -> int:
    """A uniform whole number in 0..bound-1 of any size."""
    bits = (bound - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") & ((1 << bits) - 1)
        if drawn < bound:
            return drawn

"""LinearQuery: a weight in [0, 1] for every point of the universe, held as a short sum of per-column products.

    q(x) = sum over terms of  coefficient * product over columns of factor[level of x in that column]

The answer of a table is the sum of q over its rows (a count), or that sum divided by the number of rows (a value). The
same query can be evaluated on the cells of the columns it touches, on encoded records, and as SQL on raw rows; the
universe is never enumerated. Weights are fixed point at the wall: `grid` is 1 for predicates and 2^20 otherwise, and
`grid * q` is rounded to whole numbers, so that private sums are exact integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, reduce
from operator import xor
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.query.diagram import Diagram, Drawn
from maquette.query.forms import Products, Weight
from maquette.query.sums import DRAWN, Sum
from maquette.schema import Schema

FINE = 2**20
MAX_TERMS = 4096
MAX_CELLS = 2**26
_ZEROS = b"\0\x80"  # the bytes of zeros; a number that consists of them may still be another one
_SMALL = 2**10  # maximum levels of a column whose factor of ones is cached
_REMEMBERED = 2**16  # maximum bytes of the factors of a question whose diagram is cached

Weights = NDArray[np.float64]
Content = tuple[tuple[float, tuple[tuple[int, bytes], ...]], ...]  # of terms: coefficients, and the bytes of factors


class Term:
    """A coefficient times one factor for each of a few columns (keyed by position, in schema order).

    Factors of all ones are left out, and a factor of all zeros makes the coefficient zero.
    """

    __slots__ = ("_mark", "coefficient", "factors", "key", "names")

    def __init__(
        self, coefficient: float, factors: Mapping[int, Weights], known: Mapping[int, bytes] = MappingProxyType({})
    ) -> None:
        """`known` gives the bytes of factors that were already checked."""
        named, empty = dict(known), False
        for position, factor in factors.items():
            if position in known:
                continue
            name = factor.tobytes()
            empty = empty or not (name.strip(_ZEROS) or factor.any())
            if not _is_ones(factor, name):
                named[position] = name
        self._set(0.0 if empty else float(coefficient), factors, {place: named[place] for place in sorted(named)})

    def _set(self, coefficient: float, factors: Mapping[int, Weights], names: Mapping[int, bytes]) -> None:
        self.coefficient = coefficient
        self.names = names
        self.factors = {position: factors[position] for position in names}
        self.key = tuple(names.items())  # the product without its coefficient
        self._mark: int | None = None

    @classmethod
    def of(cls, coefficient: float, factors: Mapping[int, Weights], names: Mapping[int, bytes]) -> Term:
        """A term whose factors were all checked, and are in order."""
        made = cls.__new__(cls)
        made._set(coefficient, factors, names)
        return made

    def scaled(self, by: float) -> Term:
        """The same product with another coefficient."""
        return Term.of(self.coefficient * by, self.factors, self.names)

    def times(self, other: Term) -> Term:
        """The product of two terms."""
        shared = self.factors.keys() & other.factors.keys()
        factors = {**self.factors, **other.factors, **{p: self.factors[p] * other.factors[p] for p in shared}}
        known = {p: name for p, name in (*self.names.items(), *other.names.items()) if p not in shared}
        return Term(self.coefficient * other.coefficient, factors, known)

    def but(self, position: int) -> int:
        """A hash of the term without one of its factors."""
        if self._mark is None:
            self._mark = reduce(xor, map(hash, self.key), 0)
        return self._mark ^ hash((position, self.names[position]))


class LinearQuery:
    """A linear query; build one with `where`, expressions, SQL, or `LinearQuery.product`.

    Equal questions compare equal: the canonical form is a reduced decision diagram over the columns that matter. If
    every term is about one column and there are too many combinations of levels for a diagram, it is a `Sum`.

    >>> from maquette import Boolean, Integer, Schema, where
    >>> schema = Schema([Integer("age", 0, 99), Boolean("smoker")])
    >>> query = where(schema, "age >= 65 AND smoker")
    >>> query == ~(where(schema, "age < 65") | ~where(schema, "smoker")), query.columns
    (True, ('age', 'smoker'))
    """

    def __init__(self, schema: Schema, terms: Iterable[Term]) -> None:
        self.schema = schema
        self.terms = _simplified(terms)
        _refuse_large(len(self.terms))

    @classmethod
    def constant(cls, schema: Schema, value: float = 1.0) -> LinearQuery:
        """The same weight for every row; 1 counts rows. Cached, because its digest takes time to compute."""
        return _constant(schema, value)

    @classmethod
    def product(cls, schema: Schema, factors: Mapping[str, Sequence[float] | NDArray[Any]]) -> LinearQuery:
        """The product of one weight vector (a weight in [0, 1] per level) for each named column."""
        checked: dict[int, Weights] = {}
        for name, factor in factors.items():
            weights = np.array(factor, dtype=np.float64)
            if weights.shape != (schema[name].size,):
                raise QueryError(
                    f"column {name!r}: got weights of shape {weights.shape}",
                    expected=f"one for each of its {schema[name].size} levels",
                )
            if not ((weights >= 0) & (weights <= 1)).all():
                raise QueryError(f"column {name!r}: weights must lie in [0, 1]")
            checked[schema.position(name)] = weights
        return cls(schema, [Term(1.0, checked)])

    @classmethod
    def table(cls, schema: Schema, names: Sequence[str], weights: NDArray[Any]) -> LinearQuery:
        """The weights, each in [0, 1], of every combination of levels of some columns: one axis for each column."""
        weights = np.asarray(weights, dtype=np.float64)
        if len(names) < 2:
            return cls.product(schema, {names[0]: weights}) if names else cls.constant(schema, float(weights))
        longest = int(np.argmax(weights.shape))
        last, others = names[longest], [name for i, name in enumerate(names) if i != longest]
        rows = np.moveaxis(weights, longest, -1)
        groups: dict[bytes, list[tuple[int, ...]]] = {}
        for place in np.ndindex(rows.shape[:-1]):
            if rows[place].any():
                groups.setdefault(rows[place].tobytes(), []).append(place)
        _refuse_large(sum(map(len, groups.values())))
        terms: list[Term] = []
        for places in groups.values():
            for place in places:
                factors = {name: np.arange(schema[name].size) == i for name, i in zip(others, place, strict=True)}
                terms += cls.product(schema, {**factors, last: rows[places[0]]}).terms
        return cls(schema, terms)

    def __and__(self, other: LinearQuery) -> LinearQuery:
        """The product: for predicates, both hold."""
        self._same_universe(other)
        _refuse_large(len(self.terms) * len(other.terms))
        return LinearQuery(self.schema, [a.times(b) for a in self.terms for b in other.terms])

    def __invert__(self) -> LinearQuery:
        """One minus the weight: for predicates, the complement (null levels included)."""
        if len(self.terms) == 1 and len(self.terms[0].factors) == 1 and self.terms[0].coefficient == 1.0:
            ((position, factor),) = self.terms[0].factors.items()
            return LinearQuery(self.schema, [Term(1.0, {position: 1.0 - factor})])
        opposite = [term.scaled(-1.0) for term in self.terms]
        return LinearQuery(self.schema, [Term(1.0, {}), *opposite])

    def __or__(self, other: LinearQuery) -> LinearQuery:
        """For predicates, at least one holds."""
        return ~(~self & ~other)

    def _same_universe(self, other: LinearQuery) -> None:
        if self.schema != other.schema:
            raise QueryError("the two queries are over different schemas", advice="build both from one schema")

    @property
    def form(self) -> Weight:
        """The weight as data, for the wall."""
        names = self.schema.names
        return Products(tuple((t.coefficient, {names[p]: f for p, f in t.factors.items()}) for t in self.terms))

    @cached_property
    def sum(self) -> Sum | None:
        """The query as a sum of one function for each column, if it is written as one."""
        return Sum.of(self.schema, self.terms)

    @cached_property
    def _diagram(self) -> Drawn | Sum:
        if self._combinations > DRAWN and self.sum is not None and self.sum.cells > DRAWN:
            return self.sum
        content = self._content
        if sum([len(name) for _, key in content for _, name in key]) > _REMEMBERED:
            return Diagram(self.schema, self.terms).drawn
        return _drawn(self.schema, content)

    @property
    def _content(self) -> Content:
        return tuple([(term.coefficient, term.key) for term in self.terms])

    def negates(self, other: LinearQuery) -> bool:
        """Whether it is written as one minus another query."""
        if len(other.terms) == 1 and len(other.terms[0].factors) > 1:  # as most are: what it leaves out has two terms
            (term,) = other.terms
            return self._content == ((1.0, ()), (-term.coefficient, term.key))
        return self._content == (~other)._content

    @property
    def _combinations(self) -> int:
        """The number of combinations of the levels of all columns that are written; a sum has as many at most."""
        touched = {position for term in self.terms for position in term.factors}
        return math.prod([self.schema.columns[position].size for position in touched])

    @property
    def key(self) -> str:
        """The canonical digest: equal for equal questions, in whatever form they were written."""
        return self._diagram.digest

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns on which the weight really depends, in schema order."""
        return self._diagram.columns

    @property
    def is_predicate(self) -> bool:
        """Whether every weight is 0 or 1."""
        return self._diagram.is_predicate

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight."""
        return self._diagram.bounds

    @property
    def grid(self) -> int:
        """Weights are whole multiples of 1/grid at the wall."""
        return 1 if self.is_predicate else FINE

    @cached_property
    def rounding(self) -> float:
        """How far the grid moves the weight of one row, at most."""
        if self.is_predicate:
            return 0.0
        if isinstance(self._diagram, Sum) and not self._diagram.listed:
            return 0.0 if self._diagram.whole(self.grid) is not None else 0.5 / self.grid
        return max(abs(value - round(value * self.grid) / self.grid) for value in self._diagram.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearQuery) and self.schema == other.schema and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def weights(self, columns: Sequence[str] | None = None) -> Weights:
        """The weight of every cell over `columns` (default: those it touches), one axis per column."""
        columns = self.columns if columns is None else tuple(columns)
        missing = set(self.columns) - set(columns)
        if missing:
            raise QueryError(f"the query depends on {', '.join(sorted(missing))}, which is not among {columns}")
        if self.schema.cells(columns) > MAX_CELLS:
            raise QueryError(f"{self.schema.cells(columns):,} cells over {len(columns)} columns are too many to list")
        positions = [self.schema.position(name) for name in columns]
        total = np.zeros(self.schema.shape(columns))
        for term in self._lean:
            cells: Any = term.coefficient
            for position, factor in term.factors.items():
                axis = positions.index(position)
                cells = cells * factor.reshape([-1 if i == axis else 1 for i in range(len(columns))])
            total += cells
        return np.minimum(np.maximum(total, 0.0), 1.0)

    def evaluate(self, records: NDArray[np.integer[Any]]) -> Weights:
        """The weight of each encoded record (one column of `records` per schema column)."""
        total = np.zeros(len(records))
        for term in self._lean:
            weight = np.full(len(records), term.coefficient)
            for position, factor in term.factors.items():
                weight *= factor[records[:, position]]
            total += weight
        return np.clip(total, 0.0, 1.0)

    @cached_property
    def whole_bounds(self) -> tuple[int, int]:
        """The smallest and the largest weight in whole numbers of 1/grid: rows are priced by and clamped to them."""
        low, high = self.bounds
        return round(low * self.grid), round(high * self.grid)

    @cached_property
    def _lean(self) -> tuple[Term, ...]:
        """The terms without the factors of columns that do not matter."""
        relevant = {self.schema.position(name) for name in self.columns}
        if all(relevant.issuperset(term.factors) for term in self.terms):
            return self.terms
        # The sum does not depend on the irrelevant columns: evaluate them at level 0.
        fixed = []
        for term in self.terms:
            gone = [factor[0] for position, factor in term.factors.items() if position not in relevant]
            kept = {position: factor for position, factor in term.factors.items() if position in relevant}
            fixed.append(Term(term.coefficient * float(np.prod(gone)), kept))
        return _simplified(fixed)

    def sql(self) -> str:
        """The weight of a raw row as a SQL expression (DuckDB) over the table's own columns."""
        if not self._lean:
            return "0"
        return " + ".join(_term_sql(self.schema, term) for term in self._lean)

    def __repr__(self) -> str:
        return f"LinearQuery({' and '.join(self.columns) or 'every row'}, {self.key[:8]})"


def _refuse_large(terms: int) -> None:
    if terms > MAX_TERMS:
        raise QueryError(
            f"the question expands to {terms:,} products, more than {MAX_TERMS:,}",
            advice="ask it in parts, or use IN lists instead of long chains of OR over several columns",
        )


def _simplified(terms: Iterable[Term]) -> tuple[Term, ...]:
    """Drop empty products, then add up terms that differ in one column at most."""
    terms = list(terms)
    if len(terms) == 1:
        return tuple(terms) if terms[0].coefficient else ()
    sums: dict[tuple[tuple[int, bytes], ...], Term] = {}
    for term in terms:
        if term.coefficient != 0.0:
            known = sums.get(term.key)
            total = term.coefficient + (0.0 if known is None else known.coefficient)
            sums[term.key] = term if known is None else Term.of(total, term.factors, term.names)
    kept = [term for term in sums.values() if term.coefficient != 0.0]
    return tuple(sorted(_merged(kept), key=lambda term: (len(term.factors), term.key)))


def _merged(terms: list[Term]) -> list[Term]:
    """Replace c*P*a + c*P*b by c*P*(a+b) when a and b are disjoint factors of one column."""
    before = -1
    while len(terms) != before:
        before = len(terms)
        for position in sorted(_several(terms)):
            groups: dict[tuple[float, int], list[Term]] = {}
            for term in terms:
                if position in term.factors:
                    groups.setdefault((term.coefficient, term.but(position)), []).append(term)
            alike = [group for group in groups.values() if len(group) > 1]
            if alike:
                gone = {id(term) for group in alike for term in group}
                terms = [term for term in terms if id(term) not in gone]
                terms += [term for group in alike for term in _joined(group, position)]
    return terms


def _several(terms: list[Term]) -> set[int]:
    """The columns that several terms are about: no others can differ in one column only."""
    seen, found = set[int](), set[int]()
    for term in terms:
        found |= seen & term.factors.keys()
        seen |= term.factors.keys()
    return found


def _joined(group: list[Term], position: int) -> list[Term]:
    """One term for a group that differs in one column only, if its factors there are disjoint."""
    rest = {p: name for p, name in group[0].names.items() if p != position}
    total = np.sum([term.factors[position] for term in group], axis=0)
    if total.max() > 1.0 or any({**term.names, position: b""} != {**rest, position: b""} for term in group):
        return group
    return [Term(group[0].coefficient, {**group[0].factors, position: total}, rest)]


def _term_sql(schema: Schema, term: Term) -> str:
    parts = [repr(term.coefficient) if term.coefficient != int(term.coefficient) else str(int(term.coefficient))]
    for position, factor in term.factors.items():
        column = schema.columns[position]
        code = column.code_sql('"' + column.name.replace('"', '""') + '"')
        cases = [
            f"WHEN {code} IN ({', '.join(map(str, np.flatnonzero(factor == value)))}) THEN {float(value)!r}::DOUBLE"
            for value in np.unique(factor)
            if value != 0.0
        ]
        parts.append(f"CASE {' '.join(cases)} ELSE 0 END")
    return "(" + " * ".join(parts) + ")"


def _is_ones(factor: Weights, name: bytes) -> bool:
    """Whether all numbers of a factor are 1; `name` is its bytes."""
    if factor.dtype == np.float64 and factor.size <= _SMALL:  # a double that is 1 has the bytes of 1
        return name == _ones(factor.size)
    return bool((factor == 1.0).all())


@lru_cache(2**8)
def _ones(size: int) -> bytes:
    return np.ones(size).tobytes()


@lru_cache(2**10)
def _drawn(schema: Schema, content: Content) -> Drawn:
    """The cached diagram of some terms; it depends on their content only."""
    terms = [Term.of(c, {position: np.frombuffer(name) for position, name in key}, dict(key)) for c, key in content]
    return Diagram(schema, terms).drawn


@lru_cache(2**8)
def _constant(schema: Schema, value: float) -> LinearQuery:
    return LinearQuery(schema, [Term(value, {})])

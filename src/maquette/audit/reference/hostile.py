"""Questions of a malicious analyst: objects changed after they were built, and subclasses with false properties.

Their values are not checked. A door may refuse them, or answer within its charge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maquette.audit.reference.forms import Unchecked
from maquette.audit.reference.leaves import keys_of
from maquette.audit.reference.universes import Record
from maquette.audit.reference.weighing import Levels
from maquette.query import Contrasts, Keys, LinearQuery, Marginal, additive, forms, lookup
from maquette.schema import Schema

_MANY = 40  # keys, cells or columns that one row is made to change


@dataclass(frozen=True, eq=False)
class Hostile(Unchecked):
    """A question that tries to change more than it pays for when the record `target` is added or removed."""

    schema: Schema = field(repr=False)
    target: Record
    trick: str

    def build(self) -> Any:
        """See `Form`."""
        return TRICKS[self.trick](self.schema, self.target)

    @property
    def kind(self) -> str:
        """The trick."""
        return f"hostile: {self.trick}"

    def levels(self) -> Levels:
        """Those of its target."""
        return {position: [level] for position, level in enumerate(self.target)}


def hostile(schema: Schema, target: Record, rng: np.random.Generator) -> Hostile:
    """One of the tricks."""
    return Hostile(schema, target, list(TRICKS)[rng.integers(len(TRICKS))])


def _first(schema: Schema) -> tuple[int, str]:
    """The longest column."""
    position = int(np.argmax([column.size for column in schema]))
    return position, schema.names[position]


def _written(array: Any, value: Any) -> None:
    """Try to write into an array; a frozen one stays unchanged."""
    try:
        array[...] = value
    except (ValueError, TypeError):
        return


def _replaced(owner: Any, name: str, value: Any) -> None:
    try:
        setattr(owner, name, value)
    except (AttributeError, TypeError):
        return


def _keys_rewritten(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    codes = [(i,) for i in range(min(_MANY, schema[name].size))]
    keys = Keys(schema, keys_of(schema, [name], codes))
    _written(getattr(keys, "points", None), target[position])
    return keys


def _keys_replaced(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    keys = Keys(schema, keys_of(schema, [name], [(0,)]))
    _replaced(keys, "points", np.full((1, 1), target[position], dtype=np.int32))
    return keys


def _weights_of_keys_rewritten(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    found = lookup(schema, keys_of(schema, [name], [(target[position],)]), weights=[0.5])
    _ = found.key, found.bounds, found.grid
    _written(getattr(found, "values", None), 2.0**30)
    return found


def _factors_rewritten(schema: Schema, target: Record) -> Any:
    _, name = _first(schema)
    query = LinearQuery.product(schema, {name: np.full(schema[name].size, 2.0**-20)})
    _ = query.key, query.bounds, query.grid
    for term in getattr(query, "terms", ()):
        for factor in getattr(term, "factors", {}).values():
            _written(factor, 1.0)
        _replaced(term, "coefficient", 2.0**30)
    return query


def _matrices_rewritten(schema: Schema, target: Record) -> Any:
    _, name = _first(schema)
    contrasts = Contrasts(Marginal(schema, [name]), [np.ones((1, schema[name].size), dtype=np.int64)])
    _ = contrasts.gains
    for matrix in contrasts.matrices:
        _written(matrix, 1000)
        try:
            matrix.flags.writeable = True
        except ValueError:
            continue
        _written(matrix, 1000)
    return contrasts


def _parts_rewritten(schema: Schema, target: Record) -> Any:
    query = additive(schema, {name: np.full(schema[name].size, 2.0**-10) for name in schema.names})
    _ = query.key, query.bounds, query.grid
    found = getattr(query, "sum", None)
    if found is not None:
        whole = found.whole(query.grid)
        for part in [*getattr(found, "parts", {}).values(), *(whole[1].values() if whole else ())]:
            _written(part, 2**30)
    return query


def _terms_replaced(schema: Schema, target: Record) -> Any:
    query = LinearQuery.constant(schema, 0.5) & LinearQuery.constant(schema, 0.5)
    _ = query.key, query.bounds, query.grid
    _replaced(query, "terms", tuple(term.scaled(2.0**30) for term in query.terms))
    return query


def _axes_replaced(schema: Schema, target: Record) -> Any:
    _, name = _first(schema)
    marginal = Marginal(schema)
    _ = marginal.key, marginal.columns
    _replaced(marginal, "axes", (name,))
    return marginal


class _LyingBounds(LinearQuery):
    @property
    def bounds(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def whole_bounds(self) -> tuple[int, int]:
        return 0, 2**40

    @property
    def is_predicate(self) -> bool:
        return False


class _HeavyWeights(LinearQuery):
    def weights(self, columns: Any = None) -> Any:
        return super().weights(columns) * 2.0**20

    def evaluate(self, records: Any) -> Any:
        return super().evaluate(records) * 2.0**20

    def fixed(self, weights: Any) -> Any:
        return np.full(np.shape(weights), 2**40, dtype=np.int64)


class _HeavyTally(Marginal):
    def tally(self, counts: Any) -> Any:
        return np.asarray(counts) * 1000

    values = tally_records = tally


class _Changing:
    """Becomes another question, with other numbers, every time it is read."""

    def __init__(self, schema: Schema, name: str) -> None:
        self._name, self._size, self._looks = name, schema[name].size, 0

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._looks += 1
        return np.full(self._size, 2.0**-20 if self._looks == 1 else 1.0, dtype=dtype)

    @property
    def form(self) -> Any:
        self._looks = 0
        return forms.Cells((), forms.Products([(1.0, {self._name: self})]))


class _LightGains(Contrasts):
    @property
    def gains(self) -> tuple[int, int, int]:
        return 1, 1, 1


class _ChangingShape(Marginal):
    """Reports one cell when the price is computed and many when it is tallied."""

    @property
    def cells(self) -> int:
        return 1


class _ChangingFactor(forms.ValueSteps):
    """Has another centre, far from all values, every time but the first that it is read."""

    def __getattribute__(self, name: str) -> Any:
        if name != "centre":
            return super().__getattribute__(name)
        facts = self.__dict__
        facts["looks"] = facts.get("looks", 0) + 1
        return facts["centre"] if facts["looks"] == 1 else -(2**24)


class _Little(int):
    """A whole number that passes for a small one wherever it is compared."""

    def __abs__(self) -> int:
        return 1

    __neg__ = __abs__

    def __lt__(self, other: object) -> bool:
        return True

    __le__ = __ge__ = __lt__

    def __gt__(self, other: object) -> bool:
        return False


class _Multiplied:
    """Products of factors that are made anew whenever the question is asked."""

    def __init__(self, make: Callable[[], Sequence[forms.Factor]]) -> None:
        self._make = make

    @property
    def form(self) -> Any:
        return forms.ValueProducts(self._make(), (), forms.Products([(1.0, {})]))


def _lying_bounds(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    plain = LinearQuery.product(schema, {name: np.arange(schema[name].size) == target[position]})
    return _LyingBounds(schema, plain.terms)


def _heavy_weights(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    plain = LinearQuery.product(schema, {name: np.arange(schema[name].size) == target[position]})
    return _HeavyWeights(schema, plain.terms)


def _heavy_tally(schema: Schema, target: Record) -> Any:
    return _HeavyTally(schema, [_first(schema)[1]])


def _light_gains(schema: Schema, target: Record) -> Any:
    name = _first(schema)[1]
    return _LightGains(Marginal(schema, [name]), [np.full((3, schema[name].size), 500, dtype=np.int64)])


def _changing_numbers(schema: Schema, target: Record) -> Any:
    return _Changing(schema, _first(schema)[1])


def _changing_shape(schema: Schema, target: Record) -> Any:
    return _ChangingShape(schema, [_first(schema)[1]])


def _valued(schema: Schema) -> forms.ValueSteps:
    """A factor of the first column that has values beside its levels; of the first one, to be refused, if none has."""
    column = next((column for column in schema if column.value_grid is not None), schema.columns[0])
    grid = column.value_grid
    return forms.ValueSteps(column.name, *((grid.low, grid.high, grid.low, 1) if grid else (0, 1, 0, 1)))


def _changing_factors(schema: Schema, target: Record) -> Any:
    plain = _valued(schema)
    step = max(1, (plain.high - plain.low) >> 10) | 1
    facts = plain.column, plain.low, plain.high, plain.centre, step
    return _Multiplied(lambda: [_ChangingFactor(*facts) for _ in range(2)])


def _little_numbers(schema: Schema, target: Record) -> Any:
    position, name = _first(schema)
    numbers = tuple(_Little(2**40 * (level == target[position])) for level in range(schema[name].size))
    return _Multiplied(lambda: [_valued(schema), forms.LevelNumbers(name, numbers)])


def _little_steps(schema: Schema, target: Record) -> Any:
    plain = _valued(schema)
    steps = forms.ValueSteps(plain.column, *map(_Little, (-(2**30), 2**30, 0, 1)))
    return _Multiplied(lambda: [steps, steps])


TRICKS: dict[str, Callable[[Schema, Record], Any]] = {
    "keys rewritten": _keys_rewritten,
    "keys replaced": _keys_replaced,
    "weights of keys rewritten": _weights_of_keys_rewritten,
    "factors rewritten": _factors_rewritten,
    "matrices rewritten": _matrices_rewritten,
    "parts rewritten": _parts_rewritten,
    "terms replaced": _terms_replaced,
    "axes replaced": _axes_replaced,
    "lying bounds": _lying_bounds,
    "heavy weights": _heavy_weights,
    "heavy tally": _heavy_tally,
    "light gains": _light_gains,
    "changing shape": _changing_shape,
    "changing numbers": _changing_numbers,
    "changing factors": _changing_factors,
    "little numbers": _little_numbers,
    "little steps": _little_steps,
}

"""A reduced decision diagram: the canonical form of a linear query.

Columns are read in schema order. Two prefixes of a record that lead to the same remaining function share a node, and a
column whose level does not matter gets no node. Two queries are the same function exactly when their diagrams are the
same, so the digest of the root identifies the question itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.schema import Schema

if TYPE_CHECKING:
    from maquette.query.linear import Term

MAX_NODES = 200_000
MAX_STEPS = 2**24  # maximum products followed from level to level: about ten seconds
RESOLUTION = 2**40  # weights are rounded to multiples of 1 / RESOLUTION; equal then means the same weight

State = tuple[tuple[int, float], ...]  # sorted pairs (rest of a term, product of its factors up to here)
Split = tuple[list[State], list[int]]
_ONE: State = ((-1, 1.0),)  # the end of a record whose weight is one; that of a record without weight is empty


class Drawn(NamedTuple):
    """The stored summary of a diagram: its digest, the columns that matter, and the weights that occur."""

    digest: str
    columns: tuple[str, ...]
    values: frozenset[float]

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest weight."""
        return min(self.values), max(self.values)

    @property
    def is_predicate(self) -> bool:
        """Whether every weight is 0 or 1."""
        return self.values <= {0.0, 1.0}


class Diagram:
    """The diagram of a sum of products: its digest, the columns that matter and the weights that occur.

    Built without recursion, so that a question may touch any number of columns. The forward pass finds the states that
    a record's prefix can reach, one layer per column; the backward pass makes one node of all equivalent states.
    """

    def __init__(self, schema: Schema, terms: Sequence[Term]) -> None:
        self._schema = schema
        self._positions = sorted({position for term in terms for position in term.factors})
        self._names: dict[tuple[int, ...], int] = {}
        self._digests: list[bytes] = []
        self._used: set[int] = set()
        self.values: set[float] = set()
        if (root := self._conditions(terms)) is not None:
            self.drawn = self._summary(root)
            return
        self._tails = _Tails(self._positions, terms)
        start: dict[int, float] = {}
        for index, term in enumerate(terms):
            tail = self._tails.first[index]
            start[tail] = start.get(tail, 0.0) + term.coefficient
        self.drawn = self._summary(self._root(_state(start)))

    def _summary(self, root: int) -> Drawn:
        # Diagrams are cached across equal schemas, whose names may be a subclass of str: keep plain text only.
        columns = tuple(str.__str__(self._schema.columns[position].name) for position in sorted(self._used))
        return Drawn(self._digests[root].hex(), columns, frozenset(self.values))

    def _conditions(self, terms: Sequence[Term]) -> int | None:
        """The root for one condition on each column, as almost all questions are, or for the rows that this leaves out.

        It is a chain of nodes; None for any other question.
        """
        negated = len(terms) == 2 and not terms[0].factors and terms[0].coefficient == 1.0
        if len(terms) != 1 + negated or terms[-1].coefficient != (-1.0 if negated else 1.0):
            return None
        factors = {position: factor.tolist() for position, factor in terms[-1].factors.items()}
        if not all({0.0, 1.0}.issuperset(factor) for factor in factors.values()):
            return None
        inside, outside = ((), _ONE) if negated else (_ONE, ())
        holds = [any(factor) for factor in factors.values()]
        node = nowhere = self._terminal(outside) if not all(map(all, factors.values())) else -1
        if all(holds):
            node = self._terminal(inside)
            for position in reversed(self._positions):
                if not all(factors[position]):
                    node = self._condition(position, factors[position], node, nowhere)
        return node

    def _condition(self, position: int, factor: list[float], inside: int, outside: int) -> int:
        """A new node from which levels with a weight lead inside, and others outside, which is another node."""
        self._used.add(position)
        there, elsewhere = self._digests[inside], self._digests[outside]
        name = self._schema.columns[position].name.encode()
        body = b"".join([name, b"\0", *[there if weight else elsewhere for weight in factor]])
        self._digests.append(hashlib.sha256(body).digest())
        return len(self._digests) - 1

    def _root(self, start: State) -> int:
        layers: list[dict[State, Split]] = []
        states, seen, steps = [start], 1, 0
        for position in self._positions:
            layer: dict[State, Split] = {}
            reached: dict[State, None] = {}
            for state in states:
                layer[state] = self._split(position, state)
                reached.update(dict.fromkeys(layer[state][0]))
                steps += len(state) * len(layer[state][0])
                if seen + len(reached) > MAX_NODES or steps > MAX_STEPS:
                    raise QueryError(
                        f"the question needs a diagram of more than {MAX_NODES:,} nodes, or {MAX_STEPS:,} steps to "
                        "draw it",
                        advice="ask it in parts",
                    )
            layers.append(layer)
            states = list(reached)
            seen += len(states)
        nodes = {state: self._terminal(state) for state in states}
        for position, layer in zip(reversed(self._positions), reversed(layers), strict=True):
            nodes = {
                state: self._branch(position, [nodes[child] for child in children], level_of)
                for state, (children, level_of) in layer.items()
            }
        return nodes[start]

    def _terminal(self, state: State) -> int:
        total = sum(collected for _, collected in state)
        weight = round(total * RESOLUTION) if -1.0 < total < 2.0 else -1
        if not 0 <= weight <= RESOLUTION:
            raise QueryError(f"a weight of {total} is outside [0, 1]", advice="a linear query weighs rows in [0, 1]")
        self.values.add(weight / RESOLUTION)
        return self._intern((-1, weight), str(weight).encode())

    def _split(self, position: int, state: State) -> Split:
        """The states after a column, and for each level the state it leads to."""
        size = self._schema.columns[position].size
        factors = [self._tails.factors[tail] for tail, _ in state]
        if all(factor is None for factor in factors):
            return [self._step(state, [1.0] * len(state))], [0] * size
        ones = np.ones(size)
        levels = np.array([ones if factor is None else factor for factor in factors]).T.copy()
        distinct: dict[bytes, int] = {}
        names: list[bytes] = levels.view(f"V{levels.itemsize * len(factors)}")[:, 0].tolist()
        level_of = [distinct.setdefault(name, len(distinct)) for name in names]
        return [self._step(state, np.frombuffer(level).tolist()) for level in distinct], level_of

    def _branch(self, position: int, children: list[int], level_of: list[int]) -> int:
        if len(set(children)) == 1:
            return children[0]
        self._used.add(position)
        by_level, digests = [children[i] for i in level_of], [self._digests[child] for child in children]
        name = self._schema.columns[position].name.encode()
        body = b"".join([name, b"\0", *[digests[i] for i in level_of]])
        return self._intern((position, *by_level), body)

    def _step(self, state: State, multipliers: list[float]) -> State:
        collected: dict[int, float] = {}
        for (tail, amount), multiplier in zip(state, multipliers, strict=True):
            if multiplier != 0.0:
                after = self._tails.after[tail]
                collected[after] = collected.get(after, 0.0) + amount * multiplier
        return _state(collected)

    def _intern(self, node: tuple[int, ...], body: bytes) -> int:
        if node not in self._names:
            self._names[node] = len(self._digests)
            self._digests.append(hashlib.sha256(body).digest())
        return self._names[node]


class _Tails:
    """The rest of each term at each depth; terms with the same rest share it.

    A tail at depth i is (factor of column i or none, tail at depth i + 1).
    """

    def __init__(self, positions: list[int], terms: Sequence[Term]) -> None:
        ids: dict[tuple[int, bytes | None, int], int] = {}
        self.after: dict[int, int] = {}
        self.factors: dict[int, NDArray[np.float64] | None] = {}
        self.first: list[int] = []
        for term in terms:
            tail = -1
            for depth in range(len(positions) - 1, -1, -1):
                factor = term.factors.get(positions[depth])
                key = (depth, None if factor is None else factor.tobytes(), tail)
                tail_id = ids.setdefault(key, len(ids))
                self.after[tail_id] = tail
                self.factors[tail_id] = factor
                tail = tail_id
            self.first.append(tail)


def _state(collected: dict[int, float]) -> State:
    return tuple(sorted((tail, amount) for tail, amount in collected.items() if amount != 0.0))

"""Block polynomial: disjunctions of few attributes, learnt as a low-weight sum over blocks of attributes.

A row answers "any of these attributes"; seen the other way, the asked set y is the input and the row a function of it.
Split the attributes into b blocks. For a row with attributes x, OR_x(y) = [sum_j u_j > 0], where u_j says whether x and
y meet in block j; and a polynomial r that is near [t > 0] on t = 0..min(b, k) makes it a sum of products of the u_j, of
total weight W = sum_j |a_j| C(b, j). So the table is, up to gamma, a combination of weight W of the public functions

    h(y) = product over a set J of blocks of [y meets S_j],    S_j a non-empty set of attributes of block j,

and multiplicative weights over these functions, each with either sign, learn the combination.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.hypothesis import saving
from maquette.hypothesis.api import Arrays
from maquette.hypothesis.multiplicative_weights import check_alpha, gap
from maquette.query import LinearQuery, Literals, literal_query, literals_of, table_of_disjunctions, two_level_columns
from maquette.schema import Schema

MAX_ATTRIBUTES = 20
MAX_K = 3
BLOCKS = 2

Values = NDArray[np.float64]


class BlockPolynomial:
    """Multiplicative weights over signed products of block disjunctions; answers disjunctions of at most k attributes.

    `coefficients` are a_1..a_D of r(t) = sum_j a_j C(t, j) (default: exact OR of the blocks); a polynomial of less
    weight, such as `theory.polynomial.least_weight` finds, errs by gamma and updates less often. `answer` and `update`
    take monotone disjunctions and their complements, "none of these".

    Privacy: post-processing of released values. Accuracy: if every question that causes an update is off by alpha or
    more and its value by less, there are at most T(alpha) = 2 W^2 ln(2|F|) / (alpha - gamma)^2 updates, |F| the number
    of products (Mechanisms §8.5). A demonstrator: W makes it need far more rows than plain multiplicative weights, and
    |F| grows as 2^attributes.

    >>> from maquette import Boolean, Schema, where
    >>> schema = Schema([Boolean("cough"), Boolean("fever"), Boolean("rash")])
    >>> model = BlockPolynomial(schema, k=2, alpha=0.1)
    >>> for _ in range(100):
    ...     model.update(where(schema, "cough OR rash"), 0.4)
    >>> abs(model.answer(where(schema, "cough OR rash")) - 0.4) < 0.1
    True
    """

    kind: ClassVar[str] = "block-polynomial"

    def __init__(
        self,
        schema: Schema,
        *,
        k: int,
        alpha: float,
        blocks: int = BLOCKS,
        coefficients: Sequence[float] | None = None,
    ) -> None:
        self.schema = schema
        self.alpha = check_alpha(alpha)
        self.k = _check_sizes(schema, k, blocks)
        self.blocks = tuple(_split(schema.names, blocks))
        given = _exact(k, blocks) if coefficients is None else [float(a) for a in coefficients]
        self.coefficients = tuple(given[:blocks])  # no product uses more blocks than there are
        self.gamma = _error(self.coefficients, min(k, blocks))
        if not self.gamma < alpha:
            raise QueryError(
                f"alpha is {alpha}, and these coefficients err by {self.gamma:.3g} on {k} attributes in "
                f"{blocks} blocks",
                expected="an alpha larger than that error",
            )
        self.weight = _weight(self.coefficients, blocks)
        degree = len(self.coefficients)
        self._products = [chosen for j in range(1, degree + 1) for chosen in itertools.combinations(range(blocks), j)]
        sizes = [2 ** len(block) - 1 for block in self.blocks]
        # ln of the weight of h with sign + over that with sign -, halved: the two have opposite losses.
        self._logs = [np.zeros([sizes[j] for j in chosen]) for chosen in self._products]

    @property
    def features(self) -> int:
        """|F|: the number of products."""
        return sum(logs.size for logs in self._logs)

    @classmethod
    def max_updates(cls, schema: Schema, alpha: float) -> float:
        """T(alpha) for disjunctions of up to three attributes, in two blocks, with exact OR of the blocks."""
        k = min(MAX_K, len(schema))
        _check_sizes(schema, k, BLOCKS)
        coefficients = _exact(k, BLOCKS)
        features = _features([len(block) for block in _split(schema.names, BLOCKS)], len(coefficients))
        return 2 * _weight(coefficients, BLOCKS) ** 2 * math.log(2 * features) / check_alpha(alpha) ** 2

    @property
    def update_bound(self) -> float:
        """T at this model's own alpha, blocks and coefficients."""
        return 2 * self.weight**2 * math.log(2 * self.features) / (self.alpha - self.gamma) ** 2

    def answer(self, query: LinearQuery) -> float:
        """The model's answer, as a fraction of rows, clipped to [0, 1]."""
        asked, complement = self._asked(query)
        value = min(1.0, max(0.0, self._value(asked)))
        return 1.0 - value if complement else value

    def update(self, query: LinearQuery, value: float) -> None:
        """A step of (alpha - gamma) / W times the sign of the gap, on every product that the asked attributes meet."""
        asked, complement = self._asked(query)
        if (distance := gap(value, self.answer(query))) != 0.0:
            step = math.copysign((self.alpha - self.gamma) / self.weight, -distance if complement else distance)
            for logs, met in self._met(asked):
                logs[met] += step

    def marginal(self, columns: Sequence[str]) -> Values:
        """All cells of at most k columns, from the model's disjunctions of them; they sum to one, some may be negative.

        A cell is a sum of up to 2^(number of columns) disjunctions; its error may be larger than theirs by that factor.
        """
        names = tuple(columns)
        if len(set(names)) < len(names) or len(names) > self.k:
            raise QueryError(f"got {len(names)} columns", expected=f"at most {self.k} different ones")
        values = np.ones((2,) * len(names))
        for chosen in itertools.product((0, 1), repeat=len(names)):
            if any(chosen):
                asked = [name for name, taken in zip(names, chosen, strict=True) if taken]
                values[chosen] = self.answer(self._disjunction(asked))
        return table_of_disjunctions(values)

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Not possible: answers to disjunctions of few attributes are not a distribution over records."""
        raise QueryError(
            "a polynomial over sets of attributes has no records to sample",
            advice="use MultiplicativeWeights or a graphical release for synthetic rows",
        )

    def facts(self) -> dict[str, Any]:
        """The settings."""
        return {"k": self.k, "alpha": self.alpha, "blocks": len(self.blocks), "coefficients": list(self.coefficients)}

    def arrays(self) -> Arrays:
        """The log weights of all products."""
        return {f"logs-{i}": logs for i, logs in enumerate(self._logs)}

    @classmethod
    def restore(cls, schema: Schema, facts: Mapping[str, Any], arrays: Arrays) -> Self:
        """The model that `facts` and `arrays` describe."""
        given = facts.get("coefficients")
        if not isinstance(given, list):
            raise saving.unfit("'coefficients' is not a list")
        coefficients = [saving.number({"coefficient": each}, "coefficient", most=saving.LARGEST) for each in given]
        k, blocks = (saving.number(facts, name, most=MAX_ATTRIBUTES) for name in ("k", "blocks"))
        if not (k.is_integer() and blocks.is_integer()):
            raise saving.unfit("'k' or 'blocks' is not a whole number")
        alpha = saving.number(facts, "alpha")
        model = cls(schema, k=int(k), alpha=alpha, blocks=int(blocks), coefficients=coefficients)
        for i, logs in enumerate(model._logs):
            logs[...] = saving.array(arrays, f"logs-{i}", logs.shape, most=saving.LARGEST)
        return model

    def _disjunction(self, columns: Sequence[str]) -> LinearQuery:
        return literal_query(self.schema, Literals("any", tuple(columns), (1,) * len(columns)))

    def _asked(self, query: LinearQuery) -> tuple[frozenset[str], bool]:
        """The attributes of a disjunction, and whether the query is its complement."""
        if query.schema != self.schema:
            raise QueryError("the query was built for another schema", advice="build it from the model's schema")
        found = literals_of(query) if len(query.columns) <= self.k else None
        if found is not None:
            complement = found.join == "all" or found.levels == (0,)
            levels = found.dual.levels if complement else found.levels
            if all(levels):
                return frozenset(found.columns), complement
        raise QueryError(
            f"this model cannot answer {query!r}",
            expected=f"`a OR b OR ...` of at most {self.k} columns that hold, or the complement of one",
            advice="For other questions use MultiplicativeWeights",
        )

    def _met(self, asked: frozenset[str]) -> Iterator[tuple[Values, tuple[NDArray[np.intp], ...]]]:
        """For each set of blocks, its log weights and the indices of its products that the asked attributes meet."""
        met = [_meeting(block, asked) for block in self.blocks]
        for chosen, logs in zip(self._products, self._logs, strict=True):
            yield logs, np.ix_(*(met[j] for j in chosen))

    def _value(self, asked: frozenset[str]) -> float:
        """W times the mean of h over the signed weights; scaled by the largest weight to avoid overflow."""
        largest = max(float(np.abs(logs).max()) for logs in self._logs)
        total = sum(float(np.exp(logs - largest).sum() + np.exp(-logs - largest).sum()) for logs in self._logs)
        signed = (np.exp(logs[met] - largest) - np.exp(-logs[met] - largest) for logs, met in self._met(asked))
        return self.weight * sum(float(part.sum()) for part in signed) / total

    def __repr__(self) -> str:
        return (
            f"BlockPolynomial({len(self.schema)} attributes in {len(self.blocks)} blocks, k = {self.k}, "
            f"{self.features:,} products, weight {self.weight:.3g})"
        )


def _check_sizes(schema: Schema, k: int, blocks: int) -> int:
    names = two_level_columns(schema)
    if len(names) > MAX_ATTRIBUTES:
        raise QueryError(
            f"{len(names)} attributes are more than the {MAX_ATTRIBUTES} whose products this model can list",
            advice="use coefficients or graphical releases",
        )
    for title, given, most in (("k", k, min(MAX_K, len(names))), ("blocks", blocks, len(names))):
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= most:
            raise QueryError(f"{title} is {given!r}", expected=f"a whole number from 1 to {most}")
    largest = math.ceil(len(names) / blocks)
    if (features := _features([largest] * blocks, min(k, blocks))) > 2**24:
        raise QueryError(f"{blocks} blocks make {features:,} products, more than {2**24:,}", advice="use fewer blocks")
    return k


def _split(names: Sequence[str], blocks: int) -> list[tuple[str, ...]]:
    cuts = [len(names) * j // blocks for j in range(blocks + 1)]
    return [tuple(names[a:b]) for a, b in itertools.pairwise(cuts)]


def _exact(k: int, blocks: int) -> list[float]:
    return [(-1.0) ** (j + 1) for j in range(1, min(k, blocks) + 1)]


def _error(coefficients: Sequence[float], most: int) -> float:
    values = [sum(a * math.comb(t, j) for j, a in enumerate(coefficients, 1)) for t in range(1, most + 1)]
    return max(abs(value - 1.0) for value in values)


def _weight(coefficients: Sequence[float], blocks: int) -> float:
    return sum(abs(a) * math.comb(blocks, j) for j, a in enumerate(coefficients, 1))


def _features(sizes: Sequence[int], degree: int) -> int:
    return sum(
        math.prod(2**size - 1 for size in chosen)
        for j in range(1, degree + 1)
        for chosen in itertools.combinations(sizes, j)
    )


def _meeting(block: Sequence[str], asked: frozenset[str]) -> NDArray[np.intp]:
    """The non-empty subsets of a block (as bit masks less one) that hold an asked attribute."""
    mask = sum(1 << i for i, name in enumerate(block) if name in asked)
    return np.flatnonzero(np.arange(1, 2 ** len(block)) & mask)

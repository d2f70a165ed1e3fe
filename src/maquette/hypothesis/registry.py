"""The models by name, and `rule_of`: the update rule of a name, a class, a model or a `Rule`.

Names are resolved only here. A new built-in model is a new file and a line in `HYPOTHESES`, and the protocol tests pick
it up; a class of another package has an entry point under `maquette.hypotheses`.
"""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Literal, cast

from maquette.errors import QueryError
from maquette.extensions import choices, find
from maquette.hypothesis.api import Hypothesis
from maquette.hypothesis.cut_decomposition import CutDecomposition
from maquette.hypothesis.graphical import GraphicalModel
from maquette.hypothesis.linear_weights import LinearWeights
from maquette.hypothesis.median import Median
from maquette.hypothesis.mirror_descent import MirrorDescent, norm_rule
from maquette.hypothesis.mixture import Mixture
from maquette.hypothesis.multiplicative_weights import MultiplicativeWeights
from maquette.hypothesis.perceptron import Perceptron
from maquette.hypothesis.rule import NEVER, Rule
from maquette.hypothesis.separable import Separable
from maquette.hypothesis.sparse_weights import SparseWeights
from maquette.hypothesis.weighted_records import WeightedRecords
from maquette.schema import Schema

Calibration = Literal["tight", "book"]
AnyRule = str | type[Hypothesis] | Hypothesis | Rule

HYPOTHESES: dict[str, type[Hypothesis]] = {
    "cut-decomposition": CutDecomposition,
    "graphical": GraphicalModel,
    "linear-weights": LinearWeights,
    "median": Median,
    "mirror-descent": MirrorDescent,
    "mixture": Mixture,
    "multiplicative-weights": MultiplicativeWeights,
    "perceptron": Perceptron,
    "separable": Separable,
    "sparse-weights": SparseWeights,
    "weighted-records": WeightedRecords,
}
RULES = (  # rules that learn from any question
    "multiplicative-weights",
    "linear-weights",
    "mirror-descent",
    "perceptron",
    "median",
)
GROUP: Literal["maquette.hypotheses"] = "maquette.hypotheses"
MAX_NET = 2**20  # numbers in a net of candidate tables


def hypothesis_named(name: str, known: tuple[str, ...] = tuple(HYPOTHESES)) -> type[Hypothesis]:
    """The class of a name: a built-in one that is in `known`, or one that an installed package offers."""
    if name in known:
        return HYPOTHESES[name]
    found = find(GROUP, name, HYPOTHESES)
    if found is None:
        hint = "; make the model yourself and give it" if name in HYPOTHESES else ""
        raise QueryError(f"hypothesis is {name!r}", expected=f"one of {choices(GROUP, known)}, or a model{hint}")
    return check_class(found)


def check_class(kind: object) -> type[Hypothesis]:
    """Check that a schema and alpha are enough to make this class; others must be given as a model or a `Rule`."""
    if not isinstance(kind, type) or not callable(getattr(kind, "max_updates", None)):
        raise QueryError(f"{kind!r} is not an update rule", expected="a class with max_updates(schema, alpha)")
    try:
        inspect.signature(kind).bind(None, alpha=1.0)
    except TypeError as error:
        raise QueryError(
            f"{kind.__name__}(schema, alpha=...) makes no model ({error})",
            advice="make the model yourself and give it, or a Rule that makes one for every alpha",
        ) from None
    return cast("type[Hypothesis]", kind)


def rule_of(
    schema: Schema,
    given: AnyRule,
    calibration: Calibration = "tight",
    *,
    norm: float | None = None,
    query_norm: float | None = None,
) -> Rule:
    """The rule of a name or a class, for any resolution; or of a fresh model, at its own resolution.

    With calibration="book", multiplicative weights and the Perceptron take the book's steps. `norm` and `query_norm`
    are public bounds on the norms of the table and of every query, for mirror descent and the Perceptron.
    """
    if norm is not None or query_norm is not None:
        return _rule_with_norms(schema, given, calibration, norm=1.0 if norm is None else norm, query_norm=query_norm)
    if isinstance(given, Rule):
        return given
    if isinstance(given, str):
        return _rule_of_class(schema, hypothesis_named(given, RULES), given, calibration)
    if isinstance(given, type):
        kind = given if given is Median else check_class(given)
        return _rule_of_class(schema, kind, getattr(kind, "kind", kind.__name__), calibration)
    return _rule_of_model(schema, given)


def practical_model(
    schema: Schema, given: AnyRule, *, rows: float, alpha: float, known: tuple[str, ...] = RULES
) -> Hypothesis:
    """A fresh model for practical use: by `practical` where a class has it, else with steps for alpha."""
    kind = hypothesis_named(given, known) if isinstance(given, str) else given
    if isinstance(kind, type) and (made := getattr(kind, "practical", None)) is not None:
        return cast("Hypothesis", made(schema, rows))
    return rule_of(schema, kind).start(alpha)


def check_query(model: object, query: object) -> None:
    """If a model has a `check`, ask it whether it can learn from a question, before the answer is paid for."""
    check = getattr(model, "check", None)
    if check is not None:
        check(query)


def _rule_of_class(schema: Schema, kind: type[Hypothesis], name: str, calibration: Calibration) -> Rule:
    if kind is Median:
        return Rule(lambda alpha: _net_updates(schema, alpha), lambda alpha: _net(schema, alpha), name=name)
    if kind is MultiplicativeWeights and calibration == "book":
        return Rule(
            lambda alpha: 8 * kind.max_updates(schema, min(alpha, 1.0)),
            lambda alpha: MultiplicativeWeights(schema, alpha=alpha, step="book"),
            name=name,
        )
    if kind is Perceptron and calibration == "book":
        return Rule(
            lambda alpha: kind.max_updates(schema, min(alpha, 1.0)),
            lambda alpha: Perceptron(schema, alpha=alpha, step="book"),
            name=name,
        )
    return Rule(
        lambda alpha: kind.max_updates(schema, min(alpha, 1.0)),
        lambda alpha: kind(schema, alpha=alpha),  # type: ignore[call-arg]
        name=name,
    )


def _rule_with_norms(
    schema: Schema, given: AnyRule, calibration: Calibration, *, norm: float, query_norm: float | None
) -> Rule:
    order = {"mirror-descent": None, MirrorDescent: None, "perceptron": 2.0, Perceptron: 2.0}
    if not isinstance(given, str | type) or given not in order or calibration == "book":
        raise QueryError(
            f"norm and query_norm were given for {given if isinstance(given, str) else 'another rule'}, {calibration}",
            expected='hypothesis="mirror-descent" or "perceptron" with tight constants',
            advice="leave them out, or give a rule made by norm_rule",
        )
    return replace(
        norm_rule(schema, p=order[given], norm=norm, query_norm=query_norm),
        name=given if isinstance(given, str) else given.kind,
    )


def _rule_of_model(schema: Schema, model: Hypothesis) -> Rule:
    """The rule of a given model: its own alpha, its own bound on updates, and its present state."""
    if model.schema != schema:
        raise QueryError("the model was built for another schema", advice="build it from curator.schema")
    alpha = getattr(model, "alpha", None)
    bound = float(getattr(model, "update_bound", math.inf))
    if alpha is None or math.isinf(bound):
        raise QueryError(
            f"{model!r} has no bound on its updates",
            advice='give it alpha and a step of the theory (step="theory" or "book")',
        )
    return Rule(lambda _: bound, lambda _: model, (float(alpha),), name=getattr(model, "kind", type(model).__name__))


def _net(schema: Schema, alpha: float) -> Median:
    return Median.multisets(schema, _net_rows(schema, alpha), alpha=alpha)


def _net_updates(schema: Schema, alpha: float) -> float:
    """Floor of log2 of the number of multisets; NEVER if they cannot be listed."""
    rows = _net_rows(schema, alpha)
    candidates = math.comb(schema.size + rows - 1, rows) if schema.size * rows <= MAX_NET else MAX_NET
    return float(candidates.bit_length() - 1) if candidates * schema.size <= MAX_NET else NEVER


def _net_rows(schema: Schema, alpha: float) -> int:
    """Rows of the multisets such that one of them is closer than alpha, by more than rounding, to every table."""
    return math.floor(schema.size / (4 * alpha * (1 - 1e-6))) + 1

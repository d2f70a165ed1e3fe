"""The kinds of models and evidence that a saved release can contain, by their names in the file.

A model of another package is found by its entry point under `maquette.hypotheses`, if its `kind` is that name; one that
no package offers is given to `Release.load(models=[...])`. Evidence, from which intervals are computed, must be of a
kind listed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from maquette.errors import DataError, QueryError
from maquette.estimates import (
    BlendedModel,
    Check,
    DenseModel,
    Evidence,
    MergedEvidence,
    MergedModel,
    NoEvidence,
    Residuals,
    Tables,
)
from maquette.extensions import find
from maquette.hypothesis import HYPOTHESES, Arrays, BlockPolynomial, Savable
from maquette.releases.artifact import Model
from maquette.schema import Schema, shown


def _models() -> dict[str, type[Savable]]:
    from maquette.releases.classes.coefficients import ParityAnswers
    from maquette.releases.classes.moments import MomentModel
    from maquette.releases.classes.projection import ParityModel
    from maquette.releases.game.boosting import MedianModel

    finished: list[type[Savable]] = [
        BlendedModel,
        BlockPolynomial,
        DenseModel,
        MedianModel,
        MergedModel,
        MomentModel,
        ParityAnswers,
        ParityModel,
        Tables,
    ]
    return {each.kind: each for each in (*finished, *HYPOTHESES.values())}


def _evidence() -> dict[str, type[Savable]]:
    from maquette.releases.classes.coefficients import ParityAnswers

    return {each.kind: each for each in (NoEvidence, Residuals, MergedEvidence, Tables, ParityAnswers)}


def _checks() -> dict[str, type[Savable]]:
    return {Check.kind: Check}


ROLES: dict[str, Callable[[], dict[str, type[Savable]]]] = {"model": _models, "evidence": _evidence, "check": _checks}


def savable(thing: object, role: str = "model") -> Savable:
    """`thing` itself, if it can describe itself and no other class has its kind."""
    if not isinstance(thing, Savable):
        raise DataError(
            f"a {type(thing).__name__} cannot be saved",
            expected="kind, facts, arrays and restore, as CONTRIBUTING shows",
            advice="sample rows from the release instead",
        )
    known = ROLES[role]().get(thing.kind)
    if (known is None and role == "evidence") or known not in (None, type(thing)):
        raise DataError(
            f"a {type(thing).__name__} cannot be saved as {role} of kind {thing.kind!r}, which is not its own",
            advice="give its class another kind" if role == "model" else "use the evidence of maquette.estimates",
        )
    return thing


def restore_model(facts: Mapping[str, Any], schema: Schema, arrays: Arrays, given: Iterable[type[Any]] = ()) -> Model:
    """The model of a file; its class is built in, among `given`, or offered by an installed package."""
    known, kind = _models(), facts["kind"]
    made = known.get(kind) or next((each for each in given if each.kind == kind), None) or _offered(kind, known)
    if made is None:
        raise DataError(
            f"there is no model of kind {shown(kind)} here",
            advice="it was saved by a newer version, or by a class to install or to give as load(models=[...])",
        )
    return cast("Model", made.restore(schema, facts, arrays))


def restore_evidence(facts: Mapping[str, Any], schema: Schema, arrays: Arrays) -> Evidence:
    """The evidence of a file."""
    made = _evidence().get(facts["kind"])
    if made is None:
        raise DataError(
            f"there is no evidence of kind {shown(facts['kind'])}", advice="it was saved by a newer version"
        )
    return cast("Evidence", made.restore(schema, facts, arrays))


def _offered(kind: object, known: Mapping[str, object]) -> type[Savable] | None:
    try:
        found = find("maquette.hypotheses", kind, known) if isinstance(kind, str) else None
    except QueryError as error:
        raise DataError(error.happened, advice=error.advice) from error
    return found if getattr(found, "kind", None) == kind else None

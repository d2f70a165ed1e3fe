"""Third-party update rules in a plan: what the iterative construction promises with the bound T(alpha) of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from maquette.errors import QueryError
from maquette.extensions import offered
from maquette.hypothesis import HYPOTHESES, NEVER, AnyRule, rule_of
from maquette.schema import Schema
from maquette.theory import online
from maquette.theory.planning.mechanisms import Mechanism, constructed
from maquette.theory.planning.obstacles import selected
from maquette.theory.planning.question import Bound, Question
from maquette.theory.updates import Updates


def rule_mechanisms(schema: Schema | None, rules: Iterable[AnyRule]) -> tuple[Mechanism, ...]:
    """Two lines, offline and online, for each of `rules` and for each rule that an installed package offers.

    T(alpha) depends on the schema: a plan that knows only the size of the universe has no such lines.
    """
    given = tuple(rules)
    if schema is None:
        if given:
            raise QueryError("the bound of an update rule depends on the schema", advice="plan with schema=")
        return ()
    installed = tuple(
        _lines(name, partial(_resolved, schema, name)) for name in offered("maquette.hypotheses", HYPOTHESES)
    )
    own = tuple(_lines(rule.name, partial(_same, rule.updates)) for rule in (rule_of(schema, each) for each in given))
    return tuple(line for lines in (*installed, *own) for line in lines)


def _same(updates: Updates) -> Updates:
    return updates


def _resolved(schema: Schema, name: str) -> Updates:
    return rule_of(schema, name).updates


def _lines(name: str, bound: Callable[[], Updates]) -> tuple[Mechanism, Mechanism]:
    """What the tight constructions promise with this bound on updates."""
    try:
        updates, broken = bound(), None
    except QueryError as error:  # a package that cannot be loaded must not prevent the plan
        updates, broken = (lambda alpha: NEVER), error.happened

    def rule(question: Question) -> Updates:
        return lambda alpha: min(updates(alpha), NEVER)

    def runs(question: Question, promised: Bound) -> str | None:
        return broken

    def chosen(question: Question, promised: Bound) -> str | None:
        return broken or selected(question, promised)

    reference = f"max_updates of {name}"
    return (
        constructed(f"{name}-ic", f"Iterative construction, {name}", rule, obstacle=chosen, reference=reference),
        constructed(f"{name}-online", f"Online, {name}", rule, online.tight, obstacle=runs, reference=reference),
    )

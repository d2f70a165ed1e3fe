"""The update rules of `OnlineIC` for cuts of a graph, at whatever resolution the budget allows."""

from __future__ import annotations

from maquette.errors import QueryError
from maquette.query import vertices_of
from maquette.releases import RULES, CutRule
from maquette.schema import Schema
from maquette.session.textbook.plan import Rule


def cut_rule(
    schema: Schema, hypothesis: str = "cut-decomposition", *, norm: float = 1.0, area: float | None = None
) -> Rule:
    """A rule for `OnlineIC(curator, rule, ...)` on an edge table.

    `norm` is a public bound on ||x||_2 / ||x||_1 of the table, m^(-1/2) for a simple graph of m edges
    (`theory.cuts.graph_norm`); the cut decomposition and the Perceptron promise nothing useful without one.
    `area` bounds the pairs of vertices in every cut that will be asked, such as |V|^2 / 4 for bipartitions; the
    decomposition refuses larger ones. Both are public knowledge: accuracy depends on them, privacy does not.
    """
    vertices_of(schema)
    if hypothesis not in RULES:
        raise QueryError(f"hypothesis is {hypothesis!r}", expected=f"one of {', '.join(RULES)}")
    if area is not None and hypothesis != "cut-decomposition":
        raise QueryError(f"{hypothesis} has no use for area", advice="leave it out, or take the cut-decomposition")
    made = CutRule(schema, hypothesis, norm, float(schema.size) if area is None else area)
    if hypothesis != "multiplicative-weights":
        CutRule(schema, "cut-decomposition", norm, made.area).start(1.0)  # refuses a norm or an area that is none
    return Rule(lambda alpha: made.max_updates(schema, alpha), made.start)

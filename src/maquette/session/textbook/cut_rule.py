"""The update rules of `OnlineIC` for cuts of a graph, at the resolution that the budget allows."""

from __future__ import annotations

from maquette.errors import QueryError
from maquette.hypothesis import AnyRule, CutDecomposition, Perceptron, Rule
from maquette.query import vertices_of
from maquette.releases import cut_rule_of
from maquette.schema import Schema


def cut_rule(
    schema: Schema, hypothesis: AnyRule = "cut-decomposition", *, norm: float = 1.0, area: float | None = None
) -> Rule:
    """A rule for `OnlineIC(curator, rule, ...)` on an edge table.

    `norm` is a public bound on ||x||_2 / ||x||_1 of the table, m^(-1/2) for a simple graph of m edges
    (`theory.cuts.graph_norm`); without it, the cut decomposition and the Perceptron promise nothing useful.
    `area` bounds the number of vertex pairs in every cut that will be asked, such as |V|^2 / 4 for bipartitions; the
    decomposition refuses larger cuts. Both are public knowledge: accuracy depends on them, privacy does not.
    """
    vertices_of(schema)
    largest = float(schema.size) if area is None else area
    made = cut_rule_of(schema, hypothesis, norm=norm, area=largest)
    if area is not None and made.name != CutDecomposition.kind:
        raise QueryError(f"{made.name} does not use area", advice="leave it out, or take the cut-decomposition")
    if made.name in (CutDecomposition.kind, Perceptron.kind):
        CutDecomposition(schema, alpha=1.0, norm=norm, area=largest)  # refuses an invalid norm or area
    return made

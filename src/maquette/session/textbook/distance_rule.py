"""The update rule of `OnlineIC` for distances, at whatever resolution the budget allows."""

from __future__ import annotations

from maquette.hypothesis import Separable
from maquette.query import Box
from maquette.session.textbook.plan import Rule
from maquette.theory import distance as theory


def distance_rule(box: Box) -> Rule:
    """A rule for `OnlineIC(curator, rule, ...)`: separable weights with the shares of a box.

    It takes sum_j share_j ln s_j / (2 alpha^2) updates however many columns there are; queries that weigh columns
    otherwise than the box does are refused before they are tested.
    """
    columns = [(share, box.schema[name].size) for name, share in box.shares.items()]
    return Rule(
        lambda alpha: theory.updates(columns, alpha),
        lambda alpha: Separable(box.schema, alpha=alpha, shares=box.shares),
    )

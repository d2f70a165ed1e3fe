"""The update rule of `OnlineIC` for distances, at whatever resolution the budget allows."""

from __future__ import annotations

from maquette.hypothesis import Rule
from maquette.query import Box
from maquette.releases import distance_rule_of


def distance_rule(box: Box) -> Rule:
    """A rule for `OnlineIC(curator, rule, ...)`: separable weights with the shares of a box.

    It takes sum_j share_j ln s_j / (2 alpha^2) updates however many columns there are; queries that weigh columns
    otherwise than the box does are refused before they are tested.
    """
    return distance_rule_of(box)

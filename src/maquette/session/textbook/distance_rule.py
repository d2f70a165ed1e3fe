"""The update rule of `OnlineIC` for distances, at the resolution that the budget allows."""

from __future__ import annotations

from maquette.hypothesis import Rule
from maquette.query import Box
from maquette.releases import distance_rule_of


def distance_rule(box: Box) -> Rule:
    """A rule for `OnlineIC(curator, rule, ...)`: separable weights with the shares of a box.

    It needs sum_j share_j ln s_j / (2 alpha^2) updates, independent of the number of columns. Queries whose column
    weights differ from the box's are refused before they are tested.
    """
    return distance_rule_of(box)

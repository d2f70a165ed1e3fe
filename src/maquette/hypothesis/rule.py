"""Rule: an update algorithm before its resolution is chosen — how many updates it takes, and how a model starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from maquette.hypothesis.api import Hypothesis

RESOLUTIONS: tuple[float, ...] = tuple(np.geomspace(1.0, 1e-6, 350).tolist())
NEVER = 1e60  # updates of a model too large to store


@dataclass(frozen=True)
class Rule:
    """An update algorithm: T at a resolution, a model in its own initial state, and the resolutions to choose from.

    `updates(alpha)` is T(alpha), the most updates on questions that the model has wrong by alpha or more, and
    `start(alpha)` a fresh model with steps for such errors. The caller chooses alpha from the budget. Both take public
    numbers only: a rule sees no row, so it can cost accuracy but never privacy. `name` appears in certificates.
    """

    updates: Callable[[float], float]
    start: Callable[[float], Hypothesis]
    resolutions: Sequence[float] = RESOLUTIONS
    name: str = field(default="a rule", kw_only=True)

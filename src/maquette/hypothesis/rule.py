"""Rule: an update algorithm before its resolution is chosen — how many updates it takes, and how a model begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from maquette.hypothesis.api import Hypothesis

RESOLUTIONS: tuple[float, ...] = tuple(np.geomspace(1.0, 1e-6, 350).tolist())
NEVER = 1e60  # updates of a model that cannot be held


@dataclass(frozen=True)
class Rule:
    """An update algorithm: T at a resolution, a model in its own initial state, and the resolutions to choose from.

    `updates(alpha)` is T(alpha), the most updates on questions that the model has wrong by alpha or more, and
    `start(alpha)` a fresh model with steps for such errors. Whoever runs it chooses alpha from the budget. Both take
    public numbers alone: a rule sees no row, so it can cost accuracy and never privacy. `name` stands in certificates.
    """

    updates: Callable[[float], float]
    start: Callable[[float], Hypothesis]
    resolutions: Sequence[float] = RESOLUTIONS
    name: str = field(default="a rule", kw_only=True)

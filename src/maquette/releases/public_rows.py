"""The number of rows, where neighbouring tables have as many: it is public, so no interval has to doubt it."""

from __future__ import annotations

import numpy as np

from maquette.curator import Curator
from maquette.estimates import Residuals

EXACT = 1e-12  # variance of a public number of rows


def fix_rows(curator: Curator, residuals: Residuals) -> None:
    """Tell what was measured the exact number of rows, if that is public; it costs nothing."""
    if curator.relation.rows_are_public:
        residuals.combine((), np.array(curator.count_rows()), np.array(EXACT))

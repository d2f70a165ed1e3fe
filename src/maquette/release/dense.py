"""Dense models: when the universe can be enumerated, and the model a fit leaves behind."""

from __future__ import annotations

from maquette.errors import QueryError
from maquette.hypothesis import MultiplicativeWeights
from maquette.release.fit import Fitted
from maquette.schema import Schema

MAX_CELLS = 2**24


def check_dense(schema: Schema) -> None:
    """Refuse a universe that a dense fit cannot hold, before anything is charged."""
    if schema.size > MAX_CELLS:
        raise QueryError(
            f"the universe has {schema.size:.3g} cells, more than the {MAX_CELLS:,} a dense model can hold; release "
            'fewer or coarser columns, or use method="gaussian", which needs no model'
        )


def dense_model(schema: Schema, fitted: Fitted) -> MultiplicativeWeights:
    """The fitted distribution as a hypothesis."""
    return MultiplicativeWeights(schema, step="exact", prior=fitted.probabilities)

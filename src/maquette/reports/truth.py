"""Truth: exact answers, for rows that their custodian has declared to be test data, which protect nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.schema import Schema, as_arrow


@dataclass(frozen=True)
class TestRows:
    """Rows declared to protect nobody; only `test_data` makes them."""

    __test__ = False  # pytest takes every class of such a name for a test

    table: Any = field(repr=False)

    def encoded(self, schema: Schema) -> NDArray[np.int32]:
        """The rows as level codes."""
        return schema.encode(self.table)


def test_data(table: object) -> TestRows:
    """Declare rows to be test data: invented, or already public. Comparisons with them are *not* private.

    A report with `truth=test_data(...)` prints exact distances to these rows, without noise and without charge. That is
    fine for generated rows and a breach for rows of real people: a private table cannot be declared test data.
    """
    from maquette.curator import Curator, PrivateTable

    if isinstance(table, PrivateTable | Curator):
        raise QueryError(
            f"a {type(table).__name__} keeps private rows",
            advice="exact answers about them cannot be released. Give test data as "
            "an Arrow table, a data frame or a mapping of columns, if the rows are invented or public",
        )
    return TestRows(as_arrow(table))


test_data.__test__ = False  # type: ignore[attr-defined]  # as above


def check_truth(truth: object) -> TestRows | None:
    """Refuse rows that were not declared to be test data."""
    if truth is None or isinstance(truth, TestRows):
        return truth
    raise QueryError(
        f"truth is a {type(truth).__name__}",
        advice="a report never reads rows on its own. If these are made up or public, say "
        "so with truth=mq.test_data(rows); exact distances to private rows are not private",
    )

"""What is refused before anything is charged, and how the chosen model reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from net_checks import QUERIES, SCHEMA, open_counts

import maquette as mq
from maquette.errors import BudgetError, BudgetExceeded, MaquetteError, QueryError
from maquette.releases.nets.net import Net, local_search, net_mechanism, small_db
from maquette.schema import Boolean, Schema

OTHER = Schema([Boolean("a")])
WIDE = Schema([Boolean(f"c{i}") for i in range(40)])
START = np.array([[0], [1]])
NET = Net.small_databases(SCHEMA, 2)

Ask = Callable[[mq.Curator], Any]

REFUSED: list[tuple[type[MaquetteError], str, Ask]] = [
    (QueryError, "another schema", lambda c: net_mechanism(c, QUERIES, Net.small_databases(OTHER, 1))),
    (QueryError, "another schema", lambda c: net_mechanism(c, mq.marginals(OTHER, k=1), NET)),
    (QueryError, "list of questions is empty", lambda c: net_mechanism(c, [], NET)),
    (QueryError, "500,001,500,001 multisets", lambda c: small_db(c, QUERIES, rows=1_000_000)),
    (QueryError, "rows is 0", lambda c: small_db(c, QUERIES, rows=0)),
    (QueryError, "rows is 2.5", lambda c: small_db(c, QUERIES, rows=2.5)),  # type: ignore[arg-type]
    (QueryError, "give one of them", lambda c: small_db(c, QUERIES, rows=2, alpha=0.5)),
    (QueryError, "alpha is 0", lambda c: small_db(c, QUERIES, alpha=0.0)),
    (QueryError, "beta is 1", lambda c: small_db(c, QUERIES, beta=1.0)),
    (QueryError, "steps is 0", lambda c: local_search(c, QUERIES, START, 0)),
    (QueryError, "neighbours is -1", lambda c: local_search(c, QUERIES, START, 2, neighbours=-1)),
    (QueryError, "public coins", lambda c: local_search(c, QUERIES, START, 2, neighbours=5)),
    (QueryError, "outside its column", lambda c: local_search(c, QUERIES, START + 2, 2)),
    (QueryError, "float64", lambda c: local_search(c, QUERIES, START / 2, 2)),  # type: ignore[arg-type]
    (QueryError, "1,200,000 swaps", lambda c: local_search(c, QUERIES, np.zeros((400_000, 1), int), 2)),
    (BudgetExceeded, "Nothing was charged", lambda c: net_mechanism(c, QUERIES, NET, epsilon=1.5)),
    (BudgetExceeded, "Nothing was charged", lambda c: local_search(c, QUERIES, START, 3, epsilon=1.5)),
    (BudgetError, "expected exactly one", lambda c: net_mechanism(c, QUERIES, NET, epsilon=0.5, rho=0.5)),
    (BudgetError, "too few", lambda c: local_search(c, QUERIES, START, 30, epsilon=1e-13)),
    (BudgetError, "epsilon is -1", lambda c: net_mechanism(c, QUERIES, NET, epsilon=-1.0)),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_bad_input_is_refused_before_any_charge(case: int) -> None:
    kind, message, ask = REFUSED[case]
    with mq.Curator(open_counts((2, 1, 1)), mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(kind, match=message):
            ask(curator)
        assert curator.ledger.spent() == 0


def test_a_net_too_large_to_list_says_how_large_it_is() -> None:
    with pytest.raises(QueryError, match=r"10,424,128 multisets of 5 rows"):
        Net.small_databases(Schema([Boolean(f"c{i}") for i in range(6)]), 5)
    with pytest.raises(QueryError, match=r"about 10\^\d+ multisets of 3 rows"):
        Net.small_databases(WIDE, 3)
    with pytest.raises(QueryError, match=r"about 10\^\d+ multisets"):
        Net.small_databases(WIDE, 10**9)
    with pytest.raises(QueryError, match="more than"):
        Net.random(WIDE, 1000, 10**6, np.random.default_rng(0))
    with mq.Curator(mq.open_table({n: [True] for n in WIDE.names}, WIDE), mq.Budget(epsilon=1.0)) as curator:
        with pytest.raises(QueryError, match="local_search"):
            small_db(curator, mq.marginals(WIDE, k=2))
        assert curator.ledger.spent() == 0


def test_given_candidates_must_be_public_data_of_the_schema() -> None:
    with pytest.raises(QueryError, match="net is empty"):
        Net.of(SCHEMA, [])
    with pytest.raises(QueryError, match="encoded records"):
        Net.of(SCHEMA, [np.array([0, 1])])
    with pytest.raises(QueryError, match="outside its column"):
        Net.of(SCHEMA, [np.array([[3]])])
    with pytest.raises(QueryError, match="sum to 1"):
        Net.histograms(SCHEMA, [[0.5, 0.2, 0.2]])
    with pytest.raises(QueryError, match="sum to 1"):
        Net.histograms(SCHEMA, [[np.nan, 0.5, 0.5]])
    with pytest.raises(QueryError, match="3 cells"):
        Net.histograms(SCHEMA, [[0.5, 0.5]])

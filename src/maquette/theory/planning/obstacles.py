"""Why a mechanism cannot run at a size: what fits two cores and 16 GB. Mechanisms §15."""

from __future__ import annotations

import math

from maquette.theory.planning.question import Bound, Question, magnitude

MAX_STREAMED = 10**8
MAX_SELECTED = 10**6
MAX_CELLS = 2**24
MAX_AVERAGED_CELLS, MAX_AVERAGED_ROUNDS = 2**20, 10**5
MAX_PERCEPTRON_CELLS = 10**7
MAX_NET, MAX_MEDIAN_NET = 10**7, 10**6
MAX_CUTS, MAX_SITES = 2**16, 2**14
MAX_PARITIES, MAX_MOMENTS, MAX_PAIRS = 5_000_000, 24, 300


def too_many(what: str, size: int, most: int) -> str | None:
    """That there are more of something than can be handled; None if there are not."""
    return f"{what}: {magnitude(size)}, at most {magnitude(most)}" if size > most else None


def streamed(q: Question, bound: Bound) -> str | None:
    """One number for each query."""
    return too_many("queries", q.queries, MAX_STREAMED)


def dense(q: Question, bound: Bound) -> str | None:
    """A number for each cell of the universe."""
    return too_many("cells", q.universe, MAX_CELLS)


def selected(q: Question, bound: Bound) -> str | None:
    """Why the queries cannot all be scored in every round; None if they can."""
    return dense(q, bound) or too_many("queries", q.queries, MAX_SELECTED)


def averaged(q: Question, bound: Bound) -> str | None:
    """Many rounds over a dense model."""
    return (
        too_many("cells", q.universe, MAX_AVERAGED_CELLS)
        or too_many("queries", q.queries, MAX_SELECTED)
        or too_many("rounds", bound.rounds, MAX_AVERAGED_ROUNDS)
    )


def played(q: Question, bound: Bound) -> str | None:
    """Many rounds without a dense model."""
    return too_many("queries", q.queries, MAX_SELECTED) or too_many("rounds", bound.rounds, MAX_AVERAGED_ROUNDS)


def vectors(q: Question, bound: Bound) -> str | None:
    """A signed vector over the cells."""
    cells = too_many("cells", q.universe, MAX_PERCEPTRON_CELLS)
    return cells or too_many("queries", q.queries, MAX_SELECTED)


def cuts(q: Question, bound: Bound) -> str | None:
    """Listed cuts, each scored in every round."""
    return dense(q, bound) or too_many("cuts", q.queries, MAX_CUTS)


def sites(q: Question, bound: Bound) -> str | None:
    """Listed sites, each scored in every round."""
    return too_many("sites", q.queries, MAX_SITES)


def net(q: Question, bound: Bound) -> str | None:
    """Candidates of a net, all listed."""
    if bound.log_members > math.log(MAX_NET):
        return f"candidate tables: 10^{bound.log_members / math.log(10):.0f}, at most {magnitude(MAX_NET)}"
    return None


def median(q: Question, bound: Bound) -> str | None:
    """Candidates of a net that is halved."""
    if bound.rounds >= math.log2(MAX_MEDIAN_NET):
        return f"candidate tables: 2^{magnitude(bound.rounds)}, at most {magnitude(MAX_MEDIAN_NET)}"
    return None


def two_levels(q: Question, bound: Bound) -> str | None:
    """Parities are of columns of two levels."""
    wide = sum(size != 2 for size in q.columns)
    return f"columns of more than two levels: {wide}" if wide else None


def parities(q: Question, bound: Bound) -> str | None:
    """All parities of at most k columns."""
    many = sum(math.comb(len(q.columns), size) for size in range(1, q.order[0] + 1))
    return two_levels(q, bound) or too_many("parities", many, MAX_PARITIES)


def projected(q: Question, bound: Bound) -> str | None:
    """Pairs of some hundred columns, or tables of up to four of a few."""
    k = q.order[0]
    if k > 4:
        return f"columns of a table: {k}, at most 4"
    return two_levels(q, bound) or too_many("columns", len(q.columns), MAX_PAIRS if k <= 2 else MAX_MOMENTS)


def nothing(q: Question, bound: Bound) -> str | None:
    """It runs at any size."""
    return None

"""Agnostic learning of a label: from a release, without further access; or privately, by one selection.

Concepts and the label are predicates. The risk of a concept is the share of rows on which it differs from the label,
one minus the answer to a linear query (`agreement`). Reference: Dwork and Roth, section 5.3.2; Kasiviswanathan et al.
2008.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from maquette.curator import Curator
from maquette.distinguisher import DISTINGUISHERS
from maquette.errors import QueryError
from maquette.estimates import units_for
from maquette.privacy import Loss
from maquette.query import LinearQuery, Marginal, where
from maquette.releases.artifact import Release
from maquette.releases.opening import check_promise_of, opening
from maquette.schema import Schema

MAX_CONCEPTS = 2**16


@dataclass(frozen=True)
class Learned:
    """The concept that was chosen, an estimate of its risk if there is one, the excess that is promised, and the
    cost."""

    concept: str
    risk: float | None
    excess: str | None
    cost: Loss | None


def agreement(schema: Schema, concept: str, label: str) -> LinearQuery:
    """The share of rows on which a concept equals the label.

    >>> from maquette import Boolean
    >>> schema = Schema([Boolean("smoker"), Boolean("ill")])
    >>> agreement(schema, "smoker", "ill").weights(("smoker", "ill")).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return where(schema, f"(({concept}) AND ({label})) OR (NOT ({concept}) AND NOT ({label}))")


def learn_from_release(release: Release, concepts: Sequence[str], label: str) -> Learned:
    """The concept with the least risk according to a release.

    Privacy: none is spent; the release is public. Accuracy: if the release is within alpha of the table on all
    agreements, the risk is within 2 alpha of the least (`theory.learning.excess_from_release`).
    """
    _check(concepts)
    agreed = [release.answer(agreement(release.schema, concept, label)).value for concept in concepts]
    best = max(range(len(concepts)), key=agreed.__getitem__)
    return Learned(concepts[best], 1 - agreed[best], "twice the error of the release", None)


def learn_privately(
    curator: Curator,
    concepts: Sequence[str],
    label: str,
    *,
    beta: float = 0.05,
    rows: int | None = None,
    epsilon: float | None = None,
    rho: float | None = None,
) -> Learned:
    """The generic private agnostic learner: one selection of the concept that agrees most with the label.

    Privacy: one `Curator.select_worst` of counts against zero, each moved by at most one row per row of a unit; where
    the number of rows is private, a hundredth of the price estimates it. Accuracy: with probability 1 - beta the risk
    is within 2 m (ln(|C| / beta)) / (epsilon n), plus rounding, of the least (`theory.learning.learner_excess`).
    """
    _check(concepts)
    check_promise_of(beta, rows)
    tables = [Marginal(curator.schema, (), agreement(curator.schema, concept, label)) for concept in concepts]
    with curator.account("agnostic learner") as account:
        begun = opening(curator, units_for(curator, epsilon, rho), rows=rows, beta=beta)
        chosen = curator.select_worst(tables, [0.0] * len(tables), units=begun.units, mechanism="exponential")
    moves = max(-(-curator.relation.one_cell(table) // table.grid) for table in tables)
    facts = {"units": begun.units, "queries": len(tables), "moves": moves, "gamma": begun.beta}
    excess = DISTINGUISHERS["exponential"].error(curator.budget.accountant, **facts)  # type: ignore[arg-type]
    least = begun.rows - begun.slack
    told = f"within {excess / least:.4g} of the least risk with probability {1 - beta:.3g}" if least > excess else None
    return Learned(concepts[chosen.index], None, told, account.loss)


def _check(concepts: Sequence[str]) -> None:
    if isinstance(concepts, str) or not 1 <= len(concepts) <= MAX_CONCEPTS:
        raise QueryError(
            f"got {'a text' if isinstance(concepts, str) else f'{len(concepts):,} concepts'}",
            expected=f"a list of predicates, 1 to {MAX_CONCEPTS:,}",
        )

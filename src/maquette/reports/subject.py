"""Subject: a release or a session as the report sees it: released numbers, their intervals, and their cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import QueryError
from maquette.estimates import MergedEvidence, NoEvidence, Step
from maquette.privacy import Loss, rows_counted
from maquette.query import LinearQuery
from maquette.releases import Release
from maquette.reports.account import Line, accountant_of, apart, marked, priced
from maquette.schema import Schema
from maquette.session import Asking, Session

Values = NDArray[np.float64]
Factors = Mapping[str, Values]


@dataclass(frozen=True)
class Seen:
    """A fraction of rows as released: its noise interval, and whether it is based on measurements."""

    value: float
    low: float
    high: float
    known: bool


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a report is about; every field is public.

    `groups` has the group of every level, for columns whose levels were measured in groups.
    """

    kind: str
    schema: Schema
    method: str
    relation: str
    unit: str
    private: bool
    loss: Loss
    total: Loss
    limit: Loss | None
    rows: float
    lines: tuple[Line, ...]
    facts: Mapping[str, Any]
    charges: tuple[str, ...]
    promise: str | None
    confidence: float
    marginal: Callable[[Sequence[str]], Values]
    look: Callable[[Factors], Seen]
    covers: Callable[[Sequence[str]], bool]
    groups: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    trace: tuple[Step, ...] = ()
    history: tuple[Asking, ...] = ()
    release: Release | None = None

    @property
    def someone(self) -> str:
        """The unit without the number of its rows."""
        return self.unit.rpartition(" (with ")[0] or self.unit

    @property
    def currency(self) -> str:
        """The unit in which charges add up."""
        return self.loss.currency


def subject_of(thing: object, *, confidence: float = 0.95) -> Subject:
    """The subject of a report; anything but a release or a session is refused."""
    match thing:
        case Release():
            return _release(thing, confidence)
        case Session():
            return _session(thing)
    raise QueryError(
        f"a report was asked about {type(thing).__name__}",
        expected="a Release or a Session",
        advice="make one with mq.release or mq.online, or load one with mq.Release.load",
    )


def protected(relation: str, column: str | None) -> tuple[str, str]:
    """The relation's kind, and who is protected, in words; `column` identifies the units, if rows are not the units."""
    kind, _, unit = relation.partition(" of one ")
    if column is None:
        return kind, f"one {unit}"
    rows = unit.partition("up to ")[2]
    return kind, f"one {column} (with {f'up to {rows}' if rows else 'one row'})"


def _release(release: Release, confidence: float) -> Subject:
    certificate = release.certificate
    lines = priced(certificate.described, certificate.currency)
    if certificate.ledger_units is None:  # a file of version 0.1, which listed the whole ledger
        lines = marked(lines, certificate.units)
    else:
        lines = apart(lines, certificate.units, certificate.ledger_units)
    accountant = accountant_of(certificate.currency)
    kind, unit = protected(certificate.relation, certificate.unit)

    def look(factors: Factors) -> Seen:
        given = release.answer(LinearQuery.product(release.schema, factors), confidence=confidence)
        return Seen(given.value, given.low, given.high, given.bound != "logical")

    facts = {name: getattr(certificate, name) for name in certificate.__dataclass_fields__ if name != "charges"}
    facts["counted"] = certificate.counted
    return Subject(
        kind="release",
        schema=release.schema,
        method=certificate.method,
        relation=kind,
        unit=unit,
        private="NOT PRIVATE" not in certificate.method,
        loss=certificate.cost,
        total=accountant.loss(sum(line.units for line in lines), certificate.delta),
        limit=None,
        rows=release.rows,
        lines=tuple(lines),
        facts=facts,
        charges=certificate.charges,
        promise=certificate.accuracy,
        confidence=confidence,
        marginal=lambda columns: release.marginal(*columns),
        look=look,
        covers=release.evidence.covers,
        groups=_merged(release),
        trace=release.trace,
        release=release,
    )


def _merged(release: Release) -> dict[str, NDArray[np.int64]]:
    if not isinstance(release.evidence, MergedEvidence):
        return {}
    merging = release.evidence.merging
    return {name: merging.groups[name] for name in merging.changed}


def _session(session: Session) -> Subject:
    curator, budget = session.curator, session.curator.budget
    charges = [charge for charge in curator.ledger.charges() if session.owns(charge)]
    lines = priced([charge.described for charge in charges], budget.accountant.currency)
    column = curator.ledger.terms.unit
    kind, unit = protected(str(curator.relation), column)

    def look(factors: Factors) -> Seen:
        given = session.peek(LinearQuery.product(curator.schema, factors))
        return Seen(given.value, given.low, given.high, given.source == "derived" or given.guarantee is not None)

    def covers(columns: Sequence[str]) -> bool:
        corner = {name: np.arange(curator.schema[name].size) == 0 for name in columns}
        return look({name: level.astype(np.float64) for name, level in corner.items()}).known

    how = "all answers together" if session.simultaneous else "for a question chosen independently of earlier noise"
    promise = f"counts within {session.tolerance:,.0f} rows with probability {1 - session.beta:g}, {how}"
    facts = {
        "alpha": session.alpha,
        "beta": session.beta,
        "simultaneous": session.simultaneous,
        "epsilon": curator.spent.epsilon,
        "delta": curator.spent.delta,
        "rho": curator.spent.rho,
        "currency": budget.accountant.currency,
        "units": curator.ledger.spent(),
        "limit": budget.limit,
        "relation": str(curator.relation),
        "unit": column,
        "counted": rows_counted(column, curator.relation.max_contributions),
        "schema": curator.schema.digest,
        "version": version("maquette"),
    }
    return Subject(
        kind="session",
        schema=curator.schema,
        method="online session" if curator.private else "online session, with injected noise: NOT PRIVATE",
        relation=kind,
        unit=unit,
        private=curator.private,
        loss=curator.spent,
        total=curator.spent,
        limit=budget.accountant.loss(budget.limit, budget.delta),
        rows=session.rows,
        lines=tuple(apart(lines, sum(charge.units for charge in charges), curator.ledger.spent())),
        facts=facts,
        charges=tuple(charge.description for charge in charges),
        promise=promise,
        confidence=1 - session.beta,
        marginal=session.model.marginal,
        look=look,
        covers=covers,
        history=tuple(session.history),
    )


def without_evidence(subject: Subject) -> bool:
    """Whether a release rests on a theorem alone."""
    return subject.release is not None and isinstance(subject.release.evidence, NoEvidence)

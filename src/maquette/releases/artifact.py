"""Release: what a custodian publishes — answers, marginals, synthetic rows and a certificate, no way back to rows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.answers import NOISE_ONLY, Answer, Answered, assemble
from maquette.curator import Curator, ScopedAccount
from maquette.estimates import DenseModel, Evidence, Step, estimate_sum
from maquette.hypothesis import MultiplicativeWeights, Savable
from maquette.privacy import ACCOUNTANTS, Loss, check_confidence
from maquette.privacy.ledger import Description
from maquette.query import Expression, LinearQuery, Marginal, Statement, question
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Values = NDArray[np.float64]


class Model(Protocol):
    """What a release needs from a model: to answer and to sample."""

    def answer(self, query: LinearQuery) -> float:
        """A fraction of rows."""

    def marginal(self, columns: Sequence[str]) -> Values:
        """Probabilities over the cells of these columns."""

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Encoded records."""


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was promised, under which relation, for which schema, and at what price.

    `unit` is the column that identifies privacy units; None if each row is a unit (or in a file older than that field,
    in which the relation gives the rows per unit). `charges` are those of this release, as the ledger describes them.
    `ledger_units` is the total of the whole ledger at that time, the only thing that a certificate says about other
    charges (None in a file of version 0.1, whose `charges` are those of the whole ledger).
    """

    epsilon: float
    delta: float
    rho: float | None
    currency: str
    units: int
    relation: str
    method: str
    schema: str
    charges: tuple[str, ...]
    version: str
    accuracy: str | None = None
    unit: str | None = None
    ledger_units: int | None = None

    @property
    def protects(self) -> str:
        """The relation in words, with the name of the unit where it has one."""
        return self.relation if self.unit is None else f"{self.relation}, by {self.unit}"

    @property
    def described(self) -> tuple[Description, ...]:
        """The purpose of each charge."""
        return tuple(map(Description.of, self.charges))

    @property
    def cost(self) -> Loss:
        """The price as a loss."""
        return Loss(epsilon=self.epsilon, delta=self.delta, rho=self.rho, units=self.units, currency=self.currency)

    @property
    def total(self) -> Loss | None:
        """The loss of the whole ledger when this release was made, this release included."""
        if self.ledger_units is None:
            return None
        return ACCOUNTANTS[self.currency.partition(" ")[0]].loss(self.ledger_units, self.delta)


def certified(curator: Curator, method: str, account: ScopedAccount, *, accuracy: str | None = None) -> Certificate:
    """The certificate of a release made within `account`; `accuracy` states a theorem, where one holds.

    It counts and lists everything that the release used, recorded answers too, and nothing that others asked.
    """
    cost = account.loss
    return Certificate(
        epsilon=cost.epsilon,
        delta=cost.delta,
        rho=cost.rho,
        currency=cost.currency,
        units=cost.units,
        relation=str(curator.relation),
        method=method if curator.private else f"{method}, with injected noise: NOT PRIVATE",
        schema=curator.schema.digest,
        charges=tuple(entry.description for entry in account.entries),
        version=version("maquette"),
        accuracy=accuracy,
        unit=curator.ledger.terms.unit,
        ledger_units=curator.ledger.spent(),
    )


class Release:
    """A model of the table, the evidence behind it, and a certificate. Asking it costs nothing.

    Values come from the model. Intervals come from the evidence: an unbiased estimate and the exact law of its noise,
    widened to hold the model's value. A query that the evidence does not cover is answered by the model alone, with
    the trivial interval and `guarantee=None`. Methods that work in rounds leave a public `trace` of them.
    """

    def __init__(
        self,
        schema: Schema,
        model: Model,
        evidence: Evidence,
        certificate: Certificate,
        *,
        trace: Sequence[Step] = (),
    ) -> None:
        self.schema = schema
        # A copy: weights may be updated later, and that must not change what was published.
        dense = isinstance(model, MultiplicativeWeights)
        self.model: Model = DenseModel(schema, model.marginal(schema.names)) if dense else model
        self.evidence = evidence
        self.certificate = certificate
        self.trace = tuple(trace)

    @property
    def cost(self) -> Loss:
        """What the release cost."""
        return self.certificate.cost

    @property
    def rows(self) -> float:
        """The estimated number of rows."""
        return self.evidence.rows

    def marginal(self, *columns: str) -> Values:
        """Probabilities over the cells of these columns, in schema order of levels, axes in the order asked."""
        for name in columns:
            self.schema.position(name)
        return self.model.marginal(columns)

    def answer(self, asked: str | Expression | LinearQuery, *, confidence: float = 0.95) -> Answered:
        """Answer SQL or a predicate, free of charge."""
        check_confidence(confidence)
        parsed = question(self.schema, asked)
        free = Loss(
            epsilon=0.0, delta=0.0, rho=None if self.cost.rho is None else 0.0, units=0, currency=self.cost.currency
        )
        if isinstance(parsed, Statement):
            estimates = {m.key: _Cells(self, m) for m in parsed.marginals}
            unknown = [key for key, cells in estimates.items() if not cells.covered]
            return assemble(parsed, estimates, confidence, free, "hypothesis", unknown=unknown)
        value = min(1.0, max(0.0, self.model.answer(parsed)))
        low, high, guarantee = self._interval(parsed, value, confidence)
        return Answer(
            value=value,
            low=low,
            high=high,
            confidence=confidence,
            count=value * self.rows,
            source="hypothesis",
            cost=free,
            guarantee=guarantee,
        )

    def _interval(self, query: LinearQuery, value: float, confidence: float) -> tuple[float, float, str | None]:
        """Bounds on a fraction: count and rows each within their own interval, with half the failure probability."""
        estimate = estimate_sum(self.evidence, query.sum)
        if estimate is None and not self.evidence.covers(query.columns):
            return 0.0, 1.0, None
        each = (1.0 + confidence) / 2.0
        columns = query.columns
        estimate = estimate or self.evidence.estimate(query.weights(columns), columns)
        width = estimate.half_width(each)
        rows = self.evidence.estimate(np.ones(()), ())
        slack = rows.half_width(each)
        most, fewest = self.rows + slack, max(1.0, self.rows - slack)
        low, high = (estimate.total - width) / most, (estimate.total + width) / fewest
        return max(0.0, min(value, low)), min(1.0, max(value, high)), NOISE_ONLY

    def sample(self, rows: int, *, rng: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows (an Arrow table) whose tables are close to the model's; for millions of rows, `write`."""
        records = self.model.sample(rows, rng or np.random.default_rng())
        return self.schema.decode(records)

    def stream(
        self, rows: int, *, rng: np.random.Generator | None = None, batch: int | None = None
    ) -> Iterator[pa.Table]:
        """Synthetic rows in batches (Arrow tables): any number of rows in bounded memory."""
        from maquette.releases.writing import stream

        return stream(self, rows, rng or np.random.default_rng(), batch)

    def write(
        self,
        path: str | Path,
        rows: int,
        *,
        rng: np.random.Generator | None = None,
        batch: int | None = None,
        progress: bool | None = None,
    ) -> None:
        """Write synthetic rows to a .parquet or .csv file, in batches; it appears when it is complete.

        `progress=None` shows a bar only where standard error is a terminal.
        """
        from maquette.releases.writing import write

        write(self, Path(path), rows, rng=rng or np.random.default_rng(), batch=batch, progress=progress)

    def save(self, path: str | Path) -> str:
        """Write one file that `Release.load` reads; returns the digest to publish beside it."""
        from maquette.releases.storage import save

        return save(self, Path(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        digest: str | None = None,
        limit: int = 2**28,
        models: Iterable[type[Savable]] = (),
    ) -> Release:
        """Read a saved release; with `digest`, refuse any file that is not the one published under it.

        A file that would unpack to more than `limit` bytes and more than 8 times its size is refused before it is
        unpacked: a small but highly compressed file could fill the memory. Raise the limit for files you trust.
        `models` are model classes of your own that the file may contain, besides those of Maquette and of installed
        packages.
        """
        from maquette.releases.storage import load

        return load(Path(path), digest, limit, models)

    def __repr__(self) -> str:
        return f"Release({self.certificate.method}, {len(self.schema)} columns, cost {self.cost})"

    def _repr_html_(self) -> str:
        facts = {
            "method": self.certificate.method,
            "columns": str(len(self.schema)),
            "protects": self.certificate.protects,
            "cost": str(self.cost),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return f"<table><caption>Release</caption>{rows}</table>"


class _Cells:
    """Every cell of a marginal: the model's value, and how far the true value can be from it."""

    def __init__(self, release: Release, marginal: Marginal) -> None:
        self._release = release
        self._marginal = marginal
        self._queries = list(marginal.queries())
        self.values = np.zeros(marginal.shape)
        for cell, query in self._queries:
            self.values[cell] = release.model.answer(query) * release.rows
        self.covered = all(release.evidence.covers(query.columns) for _, query in self._queries)

    def half_width(self, confidence: float) -> Values:
        widths = np.zeros(self._marginal.shape)
        evidence = self._release.evidence
        for cell, query in self._queries:
            if not evidence.covers(query.columns):
                widths[cell] = self._release.rows
                continue
            estimate = evidence.estimate(query.weights(query.columns), query.columns)
            widths[cell] = estimate.half_width(confidence) + abs(estimate.total - self.values[cell])
        return widths

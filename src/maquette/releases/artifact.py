"""Release: what a custodian publishes — answers, marginals, synthetic rows and a certificate, no way back to rows."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from maquette.answers import Answer, Answered, OutputColumn, promise_of, report, tabulate
from maquette.curator import Curator, ScopedAccount
from maquette.errors import QueryError
from maquette.estimates import Check, DenseModel, Departures, Evidence, Step
from maquette.hypothesis import MultiplicativeWeights, Savable
from maquette.privacy import ACCOUNTANTS, Loss, check_confidence, rows_counted
from maquette.privacy.ledger import Description
from maquette.query import (
    Context,
    CutRule,
    Expression,
    LinearQuery,
    Program,
    PublicTable,
    Settings,
    Statement,
    UnitCounts,
    question,
    settings_of,
)
from maquette.releases.asking import column_of, fraction_of
from maquette.releases.bounds import Bounds
from maquette.releases.sums import SumTable
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Values = NDArray[np.float64]
LONGEST_NAME = 255  # characters of a table's name, which is that of a file


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
    charges (None in a file of version 0.1, whose `charges` are those of the whole ledger). `checked` states the typical
    error that the check of the finished model certifies, where one was bought. `start` names the public hypothesis that
    the release started from, where there was one, by its hash, and says when its own loss adds.
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
    checked: str | None = None
    start: str | None = None
    drafted: bool = False
    """Whether the bounds and levels of the schema were read from the rows and trusted without a review."""
    bound_from_rows: bool = False
    """Whether the number of rows counted per unit was chosen by looking at the rows."""
    cut: str | None = None
    """How many units had more rows than are counted, and how many rows are left out, where that was bought."""
    table: str | None = None
    """The table's name in SQL; None (also in a file older than that field) if it has none, and any name means it."""

    @property
    def counted(self) -> str | None:
        """How many rows of one unit are counted, in words; None if each row is a unit."""
        return rows_counted(self.unit, self.rows_of_unit)

    @property
    def protects(self) -> str:
        """The relation in words, with the name of the unit where it has one."""
        return self.relation if self.unit is None else f"{self.relation}, by {self.unit}"

    @property
    def rows_of_unit(self) -> int:
        """The most rows that a privacy unit has."""
        found = re.search(r"up to (\d+) rows", self.relation)
        return 1 if found is None else int(found[1])

    def __repr__(self) -> str:
        return f"Certificate({self.method}, {self.protects}, {self.cost}, {len(self.charges):,} charges)"

    def _repr_html_(self) -> str:
        facts = {
            "table": self.table or "",
            "price": str(self.cost),
            "protects": self.protects,
            "method": self.method,
            "promise": self.accuracy or "",
            "checked": self.checked or "",
            "start": self.start or "",
            "left out": self.cut or "",
            "schema": self.schema[:16] + (", bounds and levels read from the rows" if self.drafted else ""),
            "charges": f"{len(self.charges):,}",
            "whole ledger": "" if self.total is None else str(self.total),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items() if v)
        return f"<table><caption>Certificate</caption>{rows}</table>"

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


def certified(
    curator: Curator,
    method: str,
    account: ScopedAccount,
    *,
    accuracy: str | None = None,
    checked: str | None = None,
    start: str | None = None,
) -> Certificate:
    """The certificate of a release made within `account`; `accuracy` states a theorem, `checked` the check, if any.

    It counts and lists everything that the release used, recorded answers and drawn bins too, and nothing that others
    asked.
    """
    relied = [charge for charge in (curator.bins_charge, curator.cut_charge) if charge is not None]
    listed = {entry.request for entry in account.entries}
    more = [charge for charge in relied if charge.id not in listed]
    cost = curator.budget.accountant.loss(account.units + sum(c.units for c in more), curator.budget.delta)
    return Certificate(
        epsilon=cost.epsilon,
        delta=cost.delta,
        rho=cost.rho,
        currency=cost.currency,
        units=cost.units,
        relation=str(curator.relation),
        method=method if curator.private else f"{method}, with injected noise: NOT PRIVATE",
        schema=curator.schema.digest,
        charges=(*(charge.description for charge in more), *(entry.description for entry in account.entries)),
        version=version("maquette"),
        accuracy=accuracy,
        unit=curator.ledger.terms.unit,
        ledger_units=curator.ledger.spent(),
        checked=checked,
        start=start,
        drafted=curator.schema.guessed,
        bound_from_rows=_bound_from_rows(curator),
        cut=_cut(curator),
        table=None if curator.table_name is None else plain_name(curator.table_name),
    )


def plain_name(table: str) -> str:
    """The name itself, if it can stand in SQL without quotes; refused otherwise."""
    if not named_plainly(table):
        raise QueryError(
            f"table is {table[:40]!r}", expected=f"letters, digits and _, no digit first, at most {LONGEST_NAME}"
        )
    return table


def named_plainly(table: object) -> bool:
    """Whether a table can have this name in a saved release."""
    return isinstance(table, str) and len(table) <= LONGEST_NAME and table.isidentifier()


def _cut(curator: Curator) -> str | None:
    """What the contribution bound left out, where that was bought."""
    known, terms = curator.known_cut, curator.ledger.terms
    return None if known is None or terms.unit is None else known.sentence(terms.unit, terms.max_contributions)


def _bound_from_rows(curator: Curator) -> bool:
    """Whether the schema says that its contribution bound, if that is the one in force, was read from the rows."""
    declared, terms = curator.schema.unit, curator.ledger.terms
    if declared is None or not declared.from_rows:
        return False
    return (declared.column, declared.max_contributions) == (terms.unit, terms.max_contributions)


class Release:
    """A model of the table, the evidence behind it, and a certificate. Asking it costs nothing.

    Values come from the model, drawn to the evidence where that says more than noise explains (`departures`), and moved
    into their intervals at 95%. Intervals come from the evidence (an unbiased estimate and the exact law of its noise),
    from the `check` of the finished model, or from both; what neither covers gets the interval that logic allows.
    `Answer.bound` says which. `marginal` and synthetic rows are those of the model alone. Methods that work in rounds
    leave a public `trace`.
    """

    def __init__(
        self,
        schema: Schema,
        model: Model,
        evidence: Evidence,
        certificate: Certificate,
        *,
        trace: Sequence[Step] = (),
        explanation: Sequence[str] = (),
        check: Check | None = None,
        sums: Sequence[SumTable] = (),
    ) -> None:
        self.schema = schema
        self.sums = tuple(sums)
        # A copy: weights may be updated later, and that must not change what was published.
        dense = isinstance(model, MultiplicativeWeights)
        self.model: Model = DenseModel(schema, model.marginal(schema.names)) if dense else model
        self.evidence = evidence
        self.certificate = certificate
        self.trace = tuple(trace)
        self.explanation = tuple(explanation)
        self.check = check
        self.bounds = Bounds(self.model, evidence, check)
        self.departures = Departures(schema, self.model, evidence)

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

    def answer(
        self,
        asked: str | Expression | LinearQuery,
        *,
        confidence: float = 0.95,
        table: str | None = None,
        public: Mapping[str, PublicTable] | None = None,
        cuts: CutRule | None = None,
    ) -> Answered:
        """Answer SQL or a predicate, free of charge; `public` are lookup tables that SQL may JOIN.

        `table` is the table's name in statements (default: the one the release was made with, `certificate.table`; any
        name if it has none); `t` always works, and any other name is refused.
        `cuts="between"` answers a comparison that cuts through a bin between the two cuts around it; "refuse" is the
        default. A text may set `confidence` and `cuts` itself, as in `/* confidence = 0.99 */ SELECT ...`.
        """
        check_confidence(confidence)
        own = settings_of(asked).over(Settings(confidence=confidence, cuts=cuts))
        if own.alpha is not None:
            raise QueryError("alpha is a setting of a session", advice="a release is free and as precise as it is")
        assert own.confidence is not None
        confidence = own.confidence
        unit, most = self.certificate.unit, self.certificate.rows_of_unit
        context = Context(
            self.certificate.table if table is None else table, unit, most, dict(public or {}), own.cuts or "refuse"
        )
        parsed = question(self.schema, asked, context)
        if not isinstance(parsed, LinearQuery) and any(isinstance(one, UnitCounts) for one in parsed.marginals):
            raise QueryError(
                f"a release does not know which rows belong to one {unit}",
                advice="count rows with count(*), or ask the table itself",
            )
        return self._answered(parsed, confidence).noted(counted=self.certificate.counted)

    def _answered(self, parsed: LinearQuery | Statement | Program, confidence: float) -> Answered:
        free = Loss(
            epsilon=0.0, delta=0.0, rho=None if self.cost.rho is None else 0.0, units=0, currency=self.cost.currency
        )
        if isinstance(parsed, Statement):
            return tabulate(parsed, self._columns(parsed, confidence), confidence, free, "hypothesis")
        if isinstance(parsed, Program):
            each = 1.0 - (1.0 - confidence) / parsed.joint
            return report(parsed, lambda one: self._columns(one, each), confidence, free, "hypothesis")
        value, bound = fraction_of(self, parsed, confidence)
        return Answer(
            value=value,
            low=bound.low,
            high=bound.high,
            confidence=confidence,
            count=value * self.rows,
            source="hypothesis",
            cost=free,
            guarantee=promise_of(bound.kind),
            bound=bound.kind,
        )

    def _columns(self, statement: Statement, confidence: float) -> dict[str, OutputColumn]:
        return {o.title: column_of(self, o, confidence) for o in statement.outputs if o.kind != "group"}

    def explain(self) -> str:
        """What the method expected, decided and why, line by line, in released numbers."""
        return "\n".join(self.explanation or (f"method {self.certificate.method!r} has nothing to explain",))

    def sample(self, rows: int, *, rng: np.random.Generator | None = None) -> pa.Table:
        """Synthetic rows (an Arrow table) whose tables are close to the model's; for millions of rows, `write`.

        A number is drawn evenly from the values of its bin, with the declared precision.
        """
        generator = rng or np.random.default_rng()
        return self.schema.spread(self.model.sample(rows, generator), generator)

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
            **({} if self.certificate.table is None else {"table": self.certificate.table}),
            "method": self.certificate.method,
            "columns": str(len(self.schema)),
            "protects": self.certificate.protects,
            "cost": str(self.cost),
            **({} if self.certificate.checked is None else {"checked": self.certificate.checked}),
            **({} if self.certificate.start is None else {"start": self.certificate.start}),
        }
        rows = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items())
        return f"<table><caption>Release</caption>{rows}</table>"

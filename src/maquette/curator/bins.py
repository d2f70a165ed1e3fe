"""Bins that are drawn: for number columns declared with bins="auto", once for every ledger, and for a price.

The table is opened, encoded and fingerprinted in the cells of the wide grid, which the declaration fixes; the ledger is
bound to that. `draw_bins` measures noisy counts of these cells, and from then on the curator's schema has the bins that
were cut from them. Until then every door refuses.

Privacy. The noisy counts come from the measuring door under one charge: for each column three or four tables (the
cells, and groups of cells), each a Laplace or Gaussian mechanism at the sensitivity that `Relation` states for a
table whose cells a row enters once; they compose. Where bins are cut follows from these noisy counts and the
declaration, so it is post-processing, and so is the table of new codes: a record's bin is a function of its own cell.
Changing one unit therefore still changes at most `max_contributions` records, and every later door is priced as before.

Once per ledger. The counts are recorded under a fixed request. While that record exists, opening the ledger cuts the
same bins from it, free of charge, and `draw_bins` returns them whatever price it is called with; the ledger itself
refuses a second question under the same request. A draw that a crash interrupted after its charge was never seen by
anybody: the ledger never evaluates it again, and the next draw has a request of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from maquette.curator import plain
from maquette.curator.compile import Compiler
from maquette.curator.engines.api import LevelledEngine
from maquette.curator.intake import Intake
from maquette.curator.transaction import unpack
from maquette.errors import DataError, LedgerCorrupted, QueryError, SchemaError
from maquette.privacy.ledger import Charge
from maquette.query import Buckets, LinearQuery, Marginal
from maquette.schema import BINS, BRANCHING, Schema, drawn_cuts, tree_groups

if TYPE_CHECKING:
    from maquette.curator.curator import Curator

REQUEST = "bins"
VERSION = 1  # how bins are cut from the recorded counts
MOST = 1_000  # bins of one column


class DrawnBins(Intake):
    """A curator's schema, and the door that draws the bins still missing from it."""

    _settled: bool = True
    _drawn_as: str | None = None

    def _opened(self) -> None:
        """Use the bins that the ledger recorded, or refuse questions until they are drawn."""
        self._settled = not self._schema.undrawn
        if self._settled:
            return
        if not isinstance(self._engine, LevelledEngine):
            raise DataError(
                f'columns {", ".join(self._schema.undrawn)} are declared with bins = "auto", which this engine, '
                f"{type(self._engine).__name__}, cannot draw",
                expected="an engine with `in_levels_of`, as tables in memory, on disk (planes=...) and in Spark have",
                advice="declare edges for them, or open the table with planes='folder'. Nothing was charged",
            )
        self._wide, self._compile = self._compile, Undrawn(self._schema)
        recorded = next(self._recorded(), None)
        if recorded is not None:
            self._use(*recorded)

    @property
    def undrawn(self) -> tuple[str, ...]:
        """The columns whose bins must be drawn before any question."""
        return self._schema.undrawn

    def draw_bins(
        self,
        *,
        epsilon: float | None = None,
        rho: float | None = None,
        units: int | None = None,
        bins: int = BINS,
    ) -> Schema:
        """Draw the bins of all columns declared with bins="auto", for one charge; returns the schema with them.

        About `bins` bins of equal counts, and narrower ones at the two ends. Drawn once: if this ledger has drawn them
        before, they are used already, and nothing is charged. The price is split equally over the columns. The module
        page has the proof; `bins_error` says beforehand, free of charge, how many rows a cut may be off.
        """
        if self._settled:
            return self.schema
        wanted = plain.whole(bins, "bins")
        if not 2 <= wanted <= MOST:
            raise QueryError(f"bins is {wanted}", expected=f"a whole number from 2 to {MOST:,}")
        request = self._once(REQUEST)
        measured = self._on_wide_grid().measure_many(
            self._tables(),
            epsilon=epsilon,
            rho=rho,
            units=units,
            request=request,
            note={"bins": wanted, "version": VERSION},
        )
        self._use(request, [np.asarray(m.values, dtype=np.float64) for m in measured], wanted)
        return self.schema

    def bins_error(self, *, epsilon: float | None = None, rho: float | None = None, units: int | None = None) -> float:
        """How many rows a cut of `draw_bins` is typically off at this price: a standard deviation.

        Computed from the declaration and the price alone; no row is read and nothing is charged.
        """
        if self._settled:
            raise QueryError("no column lacks bins, so there are none to draw", advice="see curator.schema")
        tables = self._tables()
        expected = self._on_wide_grid().expected(tables, epsilon=epsilon, rho=rho, units=units)
        levels = max(len(tree_groups(self._schema[name].known)) for name in self.undrawn)
        # At every level of the tree a cut adds up the nodes of one group on its nearer side: at most half of them.
        return float(max(m.deviation for m in expected) * np.sqrt(levels * BRANCHING / 2))

    @property
    def bins_charge(self) -> Charge | None:
        """The charge of the bins in use; None if the declaration has them all, or they are still to be drawn."""
        if not self._settled or self._drawn_as is None:
            return None
        return next(charge for charge in self._transaction.ledger.charges() if charge.id == self._drawn_as)

    def _once(self, name: str) -> str:
        """The request under which something is drawn once per ledger; another one if earlier ones were lost."""
        charges = list(self._transaction.ledger.charges())
        lost = {charge.id for charge in charges if charge.state == "lost"}
        return next(request for request in _requests(name, len(charges)) if request not in lost)

    def _units(self, epsilon: float | None, rho: float | None, units: int | None) -> int:
        """Every door computes its price first: none is charged before there are bins."""
        if isinstance(self._compile, Undrawn):
            raise self._compile.refusal
        return super()._units(epsilon, rho, units)

    def _on_wide_grid(self) -> Curator:
        """The same doors, open for questions about the cells of the wide grid."""
        door = copy.copy(self)
        door._compile = self._wide
        return cast("Curator", door)

    def _tables(self) -> list[Marginal]:
        """The questions: for every column all levels of its tree, coarsest first."""
        return [table for name in self._schema.undrawn for table in tree_tables(self._schema, name)]

    def _recorded(self) -> Iterator[tuple[str, list[NDArray[np.float64]], int]]:
        """The draw that this ledger recorded: its request, its noisy counts, and the number of bins."""
        ledger = self._transaction.ledger
        for charge in ledger.charges():
            recorded = ledger.lookup(charge.id) if charge.id.startswith(REQUEST) else None
            note = charge.described.note
            if recorded is None or charge.id not in _requests(REQUEST, charge.seq):
                continue
            if not isinstance(note, dict) or note.get("version") != VERSION:
                raise LedgerCorrupted(
                    "the ledger drew bins in a way that this version does not know",
                    advice="open it with the version that drew them",
                )
            yield charge.id, [counts.astype(np.float64) for counts in unpack(recorded.answer)], int(note["bins"])

    def _use(self, request: str, counts: Sequence[NDArray[np.float64]], bins: int) -> None:
        """From now on the curator has bins, cut from these noisy counts."""
        left, cuts = iter(counts), {}
        for name in self._schema.undrawn:
            cells = self._schema[name].known
            levels = [next(left)[: len(groups)] for groups in tree_groups(cells)]  # without the missing values
            cuts[name] = drawn_cuts(levels, bins)
        schema = self._schema.with_cuts(cuts)
        self._engine = cast(LevelledEngine, self._engine).in_levels_of(schema)
        self._schema, self._drawn_as = schema, request
        self._compile = self._compiler()
        self._settled = True


def settle_bins(curator: Curator, epsilon: float | None, setting: str) -> tuple[str, ...]:
    """Draw the bins that a curator lacks, for the price that `setting` names; returns the columns that were drawn.

    Without a price nothing is charged, and the error says what to write.
    """
    if not (names := curator.undrawn):
        return ()
    if epsilon is None:
        tenth = curator.budget.epsilon / 10
        raise SchemaError(
            f'{", ".join(names)}: declared with bins = "auto", and this ledger has not drawn them',
            advice=f"give a price for drawing them, which is charged once. For example, "
            f"{setting.format(f'{tenth:.2g}')} places each cut within about "
            f"{round(curator.bins_error(epsilon=tenth)):,} rows. Nothing was charged",
        )
    curator.draw_bins(epsilon=epsilon)
    return names


class Undrawn(Compiler):
    """Compiles nothing: the compiler of a curator whose bins are still to be drawn."""

    @property
    def refusal(self) -> SchemaError:
        """The error of every question."""
        return SchemaError(
            f"the bins of {', '.join(self.schema.undrawn)} have not been drawn yet",
            advice="draw them once: curator.draw_bins(epsilon=...), or `maquette schema bins`. Nothing was charged",
        )

    def __call__(self, question: object) -> NoReturn:
        """Refuse."""
        raise self.refusal


def tree_tables(schema: Schema, name: str) -> list[Marginal]:
    """The noisy counts from which the bins of one column are cut: groups of cells, and the cells."""
    *coarse, _ = tree_groups(schema[name].known)
    return [*(Marginal(schema, [_grouped(schema, name, groups)]) for groups in coarse), Marginal(schema, [name])]


def _grouped(schema: Schema, name: str, groups: Sequence[range]) -> Buckets:
    size = schema[name].size
    parts = []
    for group in groups:
        inside = np.zeros(size)
        inside[group.start : group.stop] = 1.0
        parts.append(LinearQuery.product(schema, {name: inside}))
    return Buckets(name, tuple(f"{group.start}-{group.stop - 1}" for group in groups), tuple(parts))


def _requests(name: str, most: int) -> list[str]:
    """The requests under which something may be drawn: a later one is used if earlier ones were lost in a crash."""
    return [name, *(f"{name} {attempt}" for attempt in range(2, most + 2))]

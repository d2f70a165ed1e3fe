"""Rows in a Spark cluster: code planes are a cached frame, and executors count them. Only numbers come to the driver.

Every answer comes with the number of records that were read and with the sums of their fingerprint. Where Spark lost a
part of the cached planes and encoded it again, these tell whether the source still held the same rows.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from maquette.curator import executors
from maquette.curator.engines.api import Amount, Engine
from maquette.curator.engines.counting import CountingEngine, Positions
from maquette.curator.engines.encoding import Fingerprint
from maquette.curator.engines.reading import Declared
from maquette.curator.engines.values import MAX_CELLS, checked, valued
from maquette.errors import MaquetteError, QueryError, UnreadableSource
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

FAN = 16  # results that are added up in one place
T = TypeVar("T")


class SparkEngine(CountingEngine):
    """Counts and sums by executors; `planes` is a frame of chunks, cached for as long as this engine lives."""

    def __init__(self, declared: Declared, fingerprint: Fingerprint, planes: Any, parts: int) -> None:
        super().__init__(declared.schema, fingerprint.rows, declared.digest(fingerprint))
        self._declared, self._planes, self._parts = declared, planes, parts
        weakref.finalize(self, _forget, planes)

    def in_levels_of(self, schema: Schema) -> Engine:
        """The same records in wider levels: executors look the codes of a chunk up whenever they visit it."""
        return _WiderLevels(self, schema)

    def blocks(self) -> Iterator[NDArray[np.int32]]:
        """Refused: records stay with the executors; see `spread`."""
        _refuse()

    def amounts(self, *amounts: Amount) -> Iterator[tuple[NDArray[np.int32], tuple[NDArray[np.int64], ...]]]:
        """Refused: records stay with the executors; see `spread`."""
        _refuse()

    def sums(self, columns: Sequence[str], amount: Amount) -> NDArray[np.int64]:
        """The sum of the records' amounts in every cell of `columns`."""
        checked(self.schema, amount)
        cells = self.schema.cells(columns)
        if cells > MAX_CELLS:
            raise QueryError(f"{cells:,} cells of sums are more than {MAX_CELLS:,}", advice="ask for fewer columns")
        chosen = sorted({self.schema.position(name) for name in [*columns, amount.column]})
        added = self._visited(chosen, partial(_sums, tuple(columns), amount), cells, values=True)
        table = added.reshape(self.schema.shape(columns))
        table.flags.writeable = False
        return table

    def spread(self, values: Callable[[Engine], NDArray[np.int64]], shape: tuple[int, ...]) -> NDArray[np.int64]:
        """The sum of `values` over the chunks, each evaluated by the executor that holds it."""
        chosen = list(range(len(self.schema)))
        return self._visited(chosen, values, math.prod(shape), values=True).reshape(shape)

    def _count(self, sets: Sequence[Positions]) -> list[NDArray[np.int64]]:
        chosen = sorted({position for positions in sets for position in positions})
        place = {position: i for i, position in enumerate(chosen)}
        cells = [self._cells(positions) for positions in sets]
        asked = executors.Histograms(tuple(tuple(place[p] for p in positions) for positions in sets))
        flat = self._visited(chosen, asked, sum(cells), values=False)
        return np.split(flat, np.cumsum(cells)[:-1])

    def _visited(
        self, chosen: Sequence[int], evaluate: Callable[..., NDArray[np.int64]], size: int, *, values: bool
    ) -> NDArray[np.int64]:
        """Evaluated chunk by chunk on the columns at `chosen`, and added up by a tree of executors."""
        own = _chosen(self.schema, chosen)
        codes = tuple(f"k{i}" for i in chosen) if chosen else ()
        kept = tuple(f"v{i}" for i in chosen if i in valued(self.schema)) if values else ()
        job = executors.Visit(own, _chosen(self._declared.schema, chosen), codes, kept, size, evaluate)
        chunks = self._planes.select("rows", "first", "second", "failure", *codes, *kept)
        results = chunks.mapInArrow(partial(executors.visit, job), executors.RESULT)
        parts = self._parts
        while parts > FAN:
            parts = math.ceil(parts / FAN)
            results = results.repartition(parts, "part").mapInArrow(executors.add, executors.RESULT)
        return self._added(asked("counting", results.toArrow), size)

    def _added(self, results: pa.Table, size: int) -> NDArray[np.int64]:
        """The driver's part of the sum, once it is known to be about the rows that were opened."""
        refuse_failures(results)
        seen, total = Fingerprint(), np.zeros(size, dtype=np.int64)
        for row in results.to_pylist():
            seen.merge(row["rows"], (row["first"], row["second"]))
            np.add(total, np.frombuffer(row["total"], dtype=np.int64), out=total)
        if self._declared.digest(seen) != self.fingerprint:
            raise UnreadableSource(
                "the source no longer holds the rows it was opened with",
                advice="restore it and open it again; a part of its planes was lost and had to be encoded again",
            )
        return total


class _WiderLevels(SparkEngine):
    """Another engine's planes; that engine is held, since the planes are cached for as long as it lives."""

    def __init__(self, engine: SparkEngine, schema: Schema) -> None:
        CountingEngine.__init__(self, schema, engine.rows, engine.fingerprint)
        self._engine = engine
        self._declared, self._planes, self._parts = engine._declared, engine._planes, engine._parts


def _chosen(schema: Schema, positions: Sequence[int]) -> Schema:
    """The columns at `positions`; all of them where none is chosen."""
    return Schema([schema.columns[i] for i in positions]) if positions else schema


def asked(what: str, run: Callable[[], T]) -> T:
    """Replace an error of Spark by ours: its texts may quote a row. Its condition is told, or its class."""
    try:
        return run()
    except MaquetteError:
        raise
    except Exception as error:
        name = type(error).__name__
        with suppress(Exception):
            name = str(error.getCondition() or name)  # type: ignore[attr-defined]
    raise UnreadableSource(f"Spark did not finish {what} ({name})", advice="See Spark's own log, and try again")


def refuse_failures(results: pa.Table) -> None:
    """Refuse results of which an executor says that it failed."""
    told = sorted({why for why in results["failure"].to_pylist() if why is not None})
    if told:
        raise UnreadableSource(f"Spark cannot read the rows: {told[0]}", advice="All machines need the same packages")


def _sums(columns: tuple[str, ...], amount: Amount, part: Any) -> NDArray[np.int64]:
    return part.sums(columns, amount)  # type: ignore[no-any-return]


def _refuse() -> NoReturn:
    raise AssertionError("records of a Spark table stay with its executors: evaluate by `spread`")


def _forget(planes: Any) -> None:
    with suppress(Exception):  # the session may have ended before
        planes.unpersist()

"""Starts: what is public before a release or a session: a public table, an earlier release, any saved model.

A start is a hypothesis, not evidence. Whoever uses one looks at its errors through the doors, keeps what is right and
corrects what is not. It is read once, before anything is charged, and named by its hash.

Privacy: nothing here touches the private rows. A start that was itself made from the same people's rows (an earlier
release about them) cost its own epsilon, which adds to that of whatever starts from it; one made from their unprotected
rows voids every promise. `Start.told` says so, for certificates and reports.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from maquette.errors import DataError, QueryError, UnreadableSource
from maquette.hypothesis import Savable, WeightedRecords
from maquette.hypothesis.saving import described
from maquette.releases.artifact import Model, Release
from maquette.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 200_000  # public rows that are kept; from a model a quarter as many are drawn

Records = NDArray[np.int32]


@dataclass(frozen=True)
class Start:
    """A public first hypothesis: a model of the schema, its hash, and what it is in words."""

    schema: Schema
    model: Model
    digest: str
    what: str
    warning: str

    @cached_property
    def records(self) -> Records:
        """Rows of the start: those of a public table, or rows drawn from a model with a fixed seed."""
        if isinstance(self.model, WeightedRecords):
            return self.model.records
        drawn = getattr(self.model, "draw", self.model.sample)  # refining them would take longer than the fit
        return np.asarray(drawn(MOST // 4, np.random.default_rng(0)), dtype=np.int32)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The probability of each of `records`."""
        if isinstance(self.model, WeightedRecords):
            return self.model.weights
        return np.full(len(self.records), 1.0 / len(self.records))

    @property
    def told(self) -> str:
        """What it is, its hash, and when its own loss adds: for certificates and reports."""
        return f"started from {self.what}, sha256 {self.digest}; {self.warning}"


SAME = "if it was made from the same people's rows, its own loss adds to this one"


def start_of(given: object, schema: Schema) -> Start:
    """Read a start: a `Release` or the path of a .maq file; a public table (frame, Arrow, mapping or path); a model."""
    if isinstance(given, Start):
        return _fitting(given, schema)
    if isinstance(given, str | Path):
        return _from_file(Path(given), schema)
    if isinstance(given, Release):
        return _from_release(given, schema, _digest(given.model))
    if callable(getattr(given, "marginal", None)) and hasattr(given, "schema"):
        model = cast("Model", given)
        kind = getattr(model, "kind", type(model).__name__)
        return _fitting(Start(cast("Any", given).schema, model, _digest(model), f"a {kind} model", SAME), schema)
    return _from_rows(schema.encode(given), schema)


def _from_file(path: Path, schema: Schema) -> Start:
    if not path.exists():
        raise UnreadableSource(f"there is no file {str(path)!r} to start from", advice="Nothing was charged")
    if path.suffix == ".maq":
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        return _from_release(Release.load(path), schema, digest)
    return _from_rows(schema.encode(_read(path)), schema)


def _read(path: Path) -> pa.Table:
    """A public CSV or Parquet file."""
    from pyarrow import ArrowException, csv, parquet

    try:
        return parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    except (ArrowException, OSError) as error:
        raise UnreadableSource(
            f"{str(path)!r} could not be read ({type(error).__name__})",
            expected="a .maq release, a .parquet or a .csv file with the columns of the schema",
        ) from None


def _from_release(release: Release, schema: Schema, digest: str) -> Start:
    cost = release.cost
    warning = f"it cost {cost}: if it was made from the same people's rows, that adds to this loss"
    return _fitting(Start(release.schema, release.model, digest, "an earlier release", warning), schema)


def _from_rows(records: Records, schema: Schema) -> Start:
    if not len(records):
        raise DataError("the table to start from has no rows", advice="leave start out. Nothing was charged")
    possible = np.ones(len(records), dtype=np.bool_)
    for columns, closed in schema.zeros:
        codes = [records[:, schema.position(name)] for name in columns]
        possible &= ~closed[tuple(codes)]
    if not possible.any():
        raise DataError("every row of the table to start from is impossible by the schema")
    kept = np.ascontiguousarray(records[possible], dtype=np.int32)
    digest = hashlib.sha256(schema.digest.encode() + kept.tobytes()).hexdigest()
    what = f"a public table of {len(records):,} rows"
    if len(kept) > MOST:
        kept = kept[np.random.default_rng(0).choice(len(kept), MOST, replace=False)]
    return Start(schema, WeightedRecords(schema, kept, step="exact"), digest, what, SAME)


def _fitting(start: Start, schema: Schema) -> Start:
    """Refuse a start of another schema, before anything is charged."""
    if start.schema != schema:
        raise QueryError(
            f"the start ({start.what}) has another schema than the table",
            expected="the same columns and levels",
            advice="make it again with curator.schema, or give its rows as a public table. Nothing was charged",
        )
    return start


def _digest(model: object) -> str:
    """The hash of what a model is saved as."""
    if not isinstance(model, Savable):
        raise QueryError(
            f"a {type(model).__name__} cannot be a start, because it cannot be saved and so has no hash",
            expected="a release, a public table, or a model with kind, facts and arrays",
        )
    made = hashlib.sha256(json.dumps(described(model), sort_keys=True, default=str).encode())
    for name, values in sorted(model.arrays().items()):
        made.update(name.encode() + str(values.dtype).encode() + str(values.shape).encode())
        made.update(np.ascontiguousarray(values).tobytes())
    return made.hexdigest()

"""Schema: the public universe, fixed before the data is seen."""

from __future__ import annotations

import hashlib
import html
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maquette.errors import OutOfDomain, QueryError, SchemaError
from maquette.schema.auto_bins import BINS
from maquette.schema.columns import INVALID, Column, encode_columns, nearest
from maquette.schema.file_format import FileFormat, UnitDeclaration
from maquette.schema.impossible import Entry, Zeros, checked, zeros_of
from maquette.schema.kinds import BUILT_IN
from maquette.schema.numbers import Number
from maquette.schema.raw_values import row_array

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 40  # columns shown in a notebook


class Schema:
    """An ordered list of columns; the universe is the product of their levels.

    >>> from maquette import Boolean, Integer
    >>> schema = Schema([Integer("age", 0, 99, width=10), Boolean("smoker")])
    >>> schema.size
    20

    `impossible` lists combinations that cannot occur. Each entry maps two or more columns to one or several labels; it
    says that no row has one of these labels in each of these columns. Like the levels, it is public knowledge: declare
    it without looking at the data. Models then give such combinations no mass and no synthetic rows. It does not filter
    data: a table that holds such rows anyway is opened, counted and measured unchanged.

    >>> Schema([Integer("age", 0, 99, width=10), Boolean("married")], impossible=[{"age": "0-9", "married": "true"}])
    Schema(2 columns, universe 20, 1 impossible combination: age, married)

    `file` says how the file of rows is written, `unit` whose a row is; `skipped` and `notes` are what a draft tells its
    reader.
    """

    def __init__(
        self,
        columns: Iterable[Column],
        *,
        impossible: Entry | Iterable[Entry] = (),
        guessed: bool = False,
        skipped: Iterable[str] = (),
        notes: Mapping[str, Sequence[str]] | None = None,
        file: FileFormat | None = None,
        unit: UnitDeclaration | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.guessed = guessed
        self.skipped = tuple(skipped)  # what a draft left out and why; information for its reader only
        self.notes = {name: tuple(lines) for name, lines in (notes or {}).items()}  # the same about its columns
        self.file = FileFormat() if file is None else file  # how a file of rows is written; part of no digest
        self.unit = unit  # whose a row is, where the schema file says so; part of no digest
        strangers = [c for c in self.columns if not isinstance(c, Column)]
        if strangers or not self.columns:
            kinds = ", ".join(kind.__name__ for kind in BUILT_IN)
            happened = f"the columns are {strangers}" if strangers else "the schema has no columns"
            raise SchemaError(happened, expected=f"at least one column, each one of {kinds}")
        names = [c.name for c in self.columns]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise SchemaError(f"repeated column names: {', '.join(repeated)}", advice="give each column its own name")
        self._positions = {name: i for i, name in enumerate(names)}
        self.undrawn = tuple(c.name for c in self.columns if isinstance(c, Number) and c.undrawn)  # bins = "auto"
        self.impossible = checked(self.columns, impossible)

    def with_cuts(self, cuts: Mapping[str, Sequence[int]]) -> Schema:
        """The same schema with bins for the columns of `undrawn`: for each, the levels that begin a bin."""
        columns = [c.with_cuts(cuts[c.name]) if isinstance(c, Number) and c.undrawn else c for c in self.columns]
        return Schema(columns, impossible=self.impossible, guessed=self.guessed, file=self.file, unit=self.unit)

    def evenly_cut(self, bins: int = BINS) -> Schema:
        """A stand-in for the bins that are still to be drawn: equal numbers of cells, from no data."""
        cells = {name: self[name].known for name in self.undrawn}
        return self.with_cuts({name: [n * k // bins for k in range(1, bins)] for name, n in cells.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(self._positions)

    @property
    def size(self) -> int:
        """The number of points of the universe, exactly."""
        return self.cells(self.names)

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """The number of levels of each named column."""
        return tuple(self[name].size for name in names)

    def cells(self, names: Sequence[str]) -> int:
        """The number of cells of a table over these columns, exactly."""
        return math.prod(self.shape(names))

    def position(self, name: str) -> int:
        """The index of a column; the error for an unknown name suggests similar names."""
        if not isinstance(name, str):
            raise QueryError(
                f"a column name is of type {type(name).__name__}",
                expected="text",
                advice=f"columns are {preview(self.names)}",
            )
        if name in self._positions:
            return self._positions[name]
        close = nearest(name, self.names)
        hint = f"did you mean {' or '.join(close)}?" if close else f"columns are {', '.join(self.names)}"
        raise QueryError(f"there is no column {name!r}", advice=hint)

    def __getitem__(self, name: str) -> Column:
        position = self._positions.get(name) if isinstance(name, str) else None
        return self.columns[self.position(name) if position is None else position]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and (self.columns, self.impossible) == (other.columns, other.impossible)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """A hash of the whole declaration: equal schemas have equal digests."""
        facts: Any = [column.as_dict() for column in self.columns]
        if self.impossible:  # without any, the digest is that of the columns alone
            facts = {"columns": facts, "impossible": self.impossible}
        text = json.dumps(facts, default=str, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def zeros(self) -> list[Zeros]:
        """Impossible combinations as models use them: columns, and a table that is true where a cell is impossible."""
        return zeros_of(self)

    def encode(self, table: object) -> NDArray[np.int32]:
        """Encode public rows (an Arrow table, a data frame, or a mapping of columns): one row of codes per record.

        Values that no level can hold are refused with a count per column.
        """
        arrow = as_arrow(table)
        missing = [name for name in self.names if name not in arrow.column_names]
        if missing:
            raise SchemaError(f"the table lacks {', '.join(missing)}", advice=f"it has {', '.join(arrow.column_names)}")
        records = np.stack(encode_columns(self.columns, [arrow[name] for name in self.names]), axis=1)
        refuse_invalid(self.columns, (records == INVALID).sum(axis=0))
        return records

    def decode(self, records: NDArray[np.integer[Any]]) -> pa.Table:
        """One representative raw row per encoded record."""
        import pyarrow as pa

        return pa.table({c.name: c.decode(records[:, i]) for i, c in enumerate(self.columns)})

    def spread(self, records: NDArray[np.integer[Any]], rng: np.random.Generator) -> pa.Table:
        """One raw row per encoded record; a number is drawn from the values of its bin."""
        import pyarrow as pa

        return pa.table({c.name: c.spread(records[:, i], rng) for i, c in enumerate(self.columns)})

    def dumps(self) -> str:
        """The schema as TOML text, ready for review and `loads`."""
        from maquette.schema.toml import dumps

        return dumps(self)

    @classmethod
    def loads(cls, text: str) -> Schema:
        """A schema from TOML text."""
        from maquette.schema.toml import loads

        return loads(text)

    def save(self, path: str | Path) -> None:
        """Write the schema as a TOML file."""
        Path(path).write_text(self.dumps(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a TOML schema; `.json` is read as an mbi domain, `.yaml`/`.yml` as SmartNoise metadata."""
        from maquette.schema.importers import from_mbi, from_smartnoise

        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            draft = "draft one with `maquette schema guess FILE`, where FILE holds the rows"
            raise SchemaError(f"there is no schema file {str(path)!r}", advice=draft) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(f"cannot read the schema file {str(path)!r}: {error}") from None
        match Path(path).suffix.lower():
            case ".json":
                return from_mbi(text)
            case ".yaml" | ".yml":
                return from_smartnoise(text)
            case _:
                return cls.loads(text)

    @classmethod
    def guess(cls, source: object, file: FileFormat | None = None) -> Schema:
        """Draft a schema by reading the data. The draft is not private: review every bound and level."""
        from maquette.schema.guess import guess

        return guess(source, file)

    def __repr__(self) -> str:
        size = f"universe {_magnitude(self.size)}"
        return f"Schema({len(self)} columns, {size}{self._ruled_out()}: {preview(self.names)})"

    def _ruled_out(self) -> str:
        number = len(self.impossible)
        return f", {number} impossible combination{'s' * (number > 1)}" if number else ""

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(c.name)}</td><td>{c.kind}</td><td>{c.size}</td>"
            f"<td>{html.escape(preview(c.labels))}</td></tr>"
            for c in self.columns[:SHOWN]
        )
        if len(self) > SHOWN:
            rows += f'<tr><td colspan="4">... {len(self) - SHOWN:,} more columns</td></tr>'
        head = "<tr><th>column</th><th>kind</th><th>levels</th><th></th></tr>"
        table = f"<table><caption>Schema</caption>{head}{rows}</table>"
        return f"{table}<p>universe: {_magnitude(self.size)} points{self._ruled_out()}</p>"


def as_arrow(
    table: object, columns: Sequence[str] | None = None, *, read: Callable[[Any], Any] | None = None
) -> pa.Table:
    """An Arrow table from Arrow, a data frame (pandas, polars, ...) or a mapping of columns.

    `columns`, if given, selects the columns that the table has among them. `read` makes an Arrow array of a column
    (default: `row_array`); a draft of a schema, which reads all rows anyway, infers a type from all of them.
    """
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    series = _series(table)
    kept = [name for name in series if columns is None or name in columns]
    array = read or row_array
    return pa.table({str(name): array(series[name]) for name in kept})


def column_names(table: object) -> list[str]:
    """The column names of a table that `as_arrow` accepts."""
    import pyarrow as pa

    return list(table.column_names) if isinstance(table, pa.Table) else list(map(str, _series(table)))


def _series(table: object) -> dict[str, Any]:
    if isinstance(table, Mapping):
        return dict(table)
    import narwhals as nw

    try:
        frame = nw.from_native(table, eager_only=True)  # type: ignore[call-overload]
    except TypeError:
        raise SchemaError(
            f"got {type(table).__name__}", expected="an Arrow table, a data frame or a mapping of columns"
        ) from None
    return {name: frame.get_column(name) for name in frame.columns}


def refuse_invalid(columns: Iterable[Column], invalid: Iterable[int]) -> None:
    """Refuse a table with values outside the declared universe; the error gives the count per column and the remedy."""
    bad = [(column, int(count)) for column, count in zip(columns, invalid, strict=True) if count]
    if not bad:
        return
    remedies: dict[str, list[str]] = {}
    for column, _ in bad:
        for remedy in column.remedies:
            remedies.setdefault(remedy, []).append(column.name)
    advice = ". ".join(f"{', '.join(names)}: {remedy}" for remedy, names in remedies.items())
    counts = {column.name: count for column, count in bad}
    listed = ", ".join(f"{name}: {count}" for name, count in counts.items())
    raise OutOfDomain(f"values outside the declared universe ({listed}). {advice}", counts)


def _magnitude(size: int) -> str:
    return f"{size:,}" if size < 10**12 else f"about 10^{math.log10(size):.1f}"


def preview(labels: Sequence[str]) -> str:
    """The first few labels and the last, on one line."""
    return ", ".join(labels) if len(labels) <= 6 else f"{', '.join(labels[:3])}, ..., {labels[-1]}"

"""Context: what a text may refer to besides the columns of the schema: the table's name, the unit, public tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maquette.query.sql.public import PublicTable
from maquette.query.sql.settings import CutRule

ALWAYS = "t"  # a short name that every table has


@dataclass(frozen=True)
class Context:
    """The names of a question. Without `table`, any name is the private table.

    `unit` is the column that names the privacy unit, and `unit_rows` how many rows of it are kept at most. `cuts` says
    what happens to a comparison that cuts through a bin. With `values`, the table keeps values beside its levels.
    """

    table: str | None = None
    unit: str | None = None
    unit_rows: int = 1
    public: Mapping[str, PublicTable] = field(default_factory=dict)
    cuts: CutRule = "refuse"
    values: bool = False

    def knows(self, name: str) -> bool:
        """Whether a name is the private table's."""
        return self.table is None or name.casefold() in (self.table.casefold(), ALWAYS)

    @property
    def key(self) -> tuple[object, ...]:
        """What a parsed question depends on, besides its text and the schema."""
        tables = tuple(sorted((name, table.digest) for name, table in self.public.items()))
        return (self.table, self.unit, self.unit_rows, self.cuts, self.values, tables)


NOTHING = Context()

"""Origins: the rows that each table of a service reads, so that no two tables have a budget each for the same rows.

Two ledgers know nothing of each other: over the same rows their epsilons add up, and nobody declared the sum.
"""

from __future__ import annotations

import filecmp
import itertools
import os
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote, urlsplit

from maquette.schema import files_of

if TYPE_CHECKING:
    from maquette.service.config import HoldoutConfig, TableConfig

_HERE = ("", "localhost", "127.0.0.1", "::1")  # names of this machine in an address
_POSTGRES = ("postgresql", "postgres")


def shared_rows(tables: Sequence[TableConfig], holdouts: Sequence[HoldoutConfig] = ()) -> Iterator[str]:
    """Every two tables that read the same rows, and every holdout with rows of another, as problems.

    The same are: the same file by any path or link, files with the same bytes, a file of another table's glob or
    directory, and the same table of the same database. What only the database knows (a view of another table, a second
    name of a server, a copy written in another format) is not seen.
    """
    kept = [(f"table {table.name!r}", table.source) for table in tables]
    kept += [(f"holdout {holdout.name!r}", holdout.source) for holdout in holdouts]
    origins = [(name, source, _Origin(source)) for name, source in kept]
    for (one, _, first), (other, source, second) in itertools.combinations(origins, 2):
        if one != other and first.meets(second):
            yield (
                f"{one} and {other} read the same rows ({_named(source)}): {_why(other)}. Give each rows of its own, "
                "or serve them once: limits of analysts and groups divide the budget of a table"
            )


def _why(name: str) -> str:
    if name.startswith("holdout"):
        return "a holdout's rows are used for nothing else, and its scores are charged to no table's budget"
    return "each has a budget of its own, and for a person in these rows the epsilons add up"


def shared_files(tables: Sequence[TableConfig], directory: Path) -> Iterator[str]:
    """Every two tables that would write the same ledger, the same anchor or the same planes."""
    for setting in ("ledger", "anchor", "planes"):
        places = [(table, _written(table, setting, directory)) for table in tables]
        for (one, first), (other, second) in itertools.combinations(places, 2):
            if one.name != other.name and first is not None and first == second:
                yield f"tables {one.name!r} and {other.name!r} have the same {setting} {second!r}; each needs its own"


class _Origin:
    """What an address of rows stands for: files, or a table of a database."""

    def __init__(self, source: str) -> None:
        self.files: list[str] = []
        if "://" in source:
            self.keys = {_database(source)}
        else:
            self.files = files_of(source)
            self.keys = {_file(path) for path in self.files} or {source}

    def meets(self, other: _Origin) -> bool:
        """Whether some rows are those of the other."""
        if not self.keys.isdisjoint(other.keys):
            return True
        return any(_same_bytes(one, two) for one in self.files for two in other.files)


def _file(path: str) -> Hashable:
    """A file by its place on the disk, so that links and other spellings of the path are the same."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def _same_bytes(one: str, other: str) -> bool:
    try:
        return os.path.getsize(one) == os.path.getsize(other) > 0 and filecmp.cmp(one, other, shallow=False)
    except OSError:  # a file that cannot be read is refused when its table opens
        return False


def _database(source: str) -> Hashable:
    """A table of a database; users, passwords and settings of the connection do not change its rows."""
    try:
        parts = urlsplit(source)
        port = parts.port
    except ValueError:
        return source
    settings = {name.lower(): value for name, value in parse_qsl(parts.query)}
    table = settings.get("table", "").casefold()
    if parts.scheme not in _POSTGRES:
        return parts.scheme, _file(unquote(parts.netloc + parts.path)), table
    host = (settings.get("host") or settings.get("hostaddr") or unquote(parts.hostname or "")).casefold()
    database = settings.get("dbname") or unquote(parts.path.lstrip("/")) or settings.get("user") or parts.username
    place = "" if host in _HERE or host.startswith("/") else host.rstrip(".")
    return "postgresql", place, str(settings.get("port") or port or 5432), database, table.removeprefix("public.")


def _written(table: TableConfig, setting: str, directory: Path) -> str | None:
    """The file that a setting names; None if there is none, or it is in a database, which keeps tables by name."""
    named: str | None = getattr(table, setting)
    if named is None and setting == "ledger":
        named = str(directory / f"{table.name}.ledger")
    return None if named is None or named.startswith("postgresql") else os.path.realpath(named)


def _named(source: str) -> str:
    """An address as a message may show it: without a user or a password."""
    if "://" not in source:
        return repr(source)
    scheme, _, rest = source.partition("://")
    return repr(f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}")

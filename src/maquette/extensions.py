"""Extensions: names that other installed packages add to Maquette's registries, by entry points.

A package names its class or function in its `pyproject.toml`:

    [project.entry-points."maquette.hypotheses"]
    nearest = "acme.nearest:Nearest"

and `hypothesis="nearest"` finds it. A package is imported only when a name is requested that Maquette does not define
itself. So a package can neither slow down `import maquette` nor replace one of Maquette's own names.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from maquette.errors import MaquetteError, QueryError

Group = Literal["maquette.hypotheses", "maquette.methods", "maquette.distinguishers", "maquette.columns"]


def installed(group: Group) -> tuple[EntryPoint, ...]:
    """What packages offer. All are read again only after one was installed or removed: it takes many milliseconds."""
    changed = []
    for place in sys.path:
        with suppress(OSError):
            changed.append((place, os.stat(place or os.curdir).st_mtime_ns))
    return _read(group, tuple(changed))


@lru_cache(maxsize=16)
def _read(group: Group, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(dict.fromkeys(entry_points(group=group)))


def offered(group: Group, known: Collection[str]) -> tuple[str, ...]:
    """The names that installed packages add to the `known` names; nothing is imported."""
    return tuple(sorted({entry.name for entry in installed(group)} - set(known)))


def find(group: Group, name: str, known: Collection[str], error: type[MaquetteError] = QueryError) -> Any:
    """The object that an installed package offers under a name that is not in `known`; None if no package does.

    Two packages with the same name, or one that cannot be loaded, raise an `error`.
    """
    entries = [] if name in known else [entry for entry in installed(group) if entry.name == name]
    if not entries:
        return None
    if len(entries) > 1:
        raise error(
            f"{name!r} is offered under {group!r} by {_packages(entries)}", advice="uninstall all of them but one"
        )
    try:
        return entries[0].load()
    except Exception as broken:  # importing another package may raise anything
        raise error(
            f"{name!r} of {_packages(entries)} cannot be loaded from {entries[0].value!r} "
            f"({type(broken).__name__}: {broken})",
            advice="repair or uninstall that package",
        ) from broken


def choices(group: Group, known: Iterable[str]) -> str:
    """All available names, for an error message."""
    own = list(known)
    return ", ".join([*own, *offered(group, own)])


def _packages(entries: Iterable[EntryPoint]) -> str:
    names = [entry.value if entry.dist is None else f"{entry.dist.name} {entry.dist.version}" for entry in entries]
    return f"the package{'s' if len(names) > 1 else ''} {' and '.join(sorted(names))}"

"""The column kinds by name: those of the library, those registered by `column_kind`, those of installed packages.

A package offers a kind by an entry point of the group `maquette.columns`, whose name is the kind; it is imported when
a schema first names that kind.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Literal, TypeVar

from maquette.errors import SchemaError
from maquette.schema.columns import Boolean, Category, Column
from maquette.schema.dates import Date
from maquette.schema.integers import Integer
from maquette.schema.numbers import Number

GROUP: Literal["maquette.columns"] = "maquette.columns"
BUILT_IN: tuple[type[Column], ...] = (Boolean, Category, Integer, Number, Date)

_KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in BUILT_IN}

Kind = TypeVar("Kind", bound=type[Column])


def column_kind(kind: Kind) -> Kind:
    """Register a column class under its `kind`, so that schema files and saved releases can name it; a decorator.

    Privacy: a column decides how raw values are encoded, so a third-party kind is trusted code inside the wall. Its
    levels must follow from its declaration alone.
    """
    if not (isinstance(kind, type) and issubclass(kind, Column) and is_dataclass(kind)):
        raise SchemaError(f"a column kind is a dataclass that extends Column, got {kind!r}")
    name = getattr(kind, "kind", None)
    if not isinstance(name, str) or not name:
        raise SchemaError(f"{kind.__name__} has no kind", advice='add a line kind: ClassVar[str] = "..." to the class')
    known = _KINDS.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise SchemaError(
            f"the kind {name!r} of {kind.__name__} is already that of {known.__module__}.{known.__qualname__}",
            advice="Choose another",
        )
    _KINDS[name] = kind
    return kind


def kind_named(name: object) -> type[Column] | None:
    """The column class of this kind; None if there is none."""
    if not isinstance(name, str):
        return None
    if name not in _KINDS:
        from maquette.extensions import find  # needed only for third-party kinds

        found = find(GROUP, name, _KINDS, SchemaError)
        if found is not None and getattr(found, "kind", None) != name:
            raise SchemaError(f"the entry point {name!r} of {GROUP} is not a column of that kind: {found!r}")
        if found is not None:
            column_kind(found)
    return _KINDS.get(name)


def kind_names() -> list[str]:
    """Every kind that a schema can name."""
    from maquette.extensions import offered

    return [*_KINDS, *offered(GROUP, _KINDS)]

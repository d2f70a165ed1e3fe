"""The rooms of the house: what each one offers can be had, by one name, and no name hides a module."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections import defaultdict
from pathlib import Path

import pytest

import maquette

ROOT = Path(maquette.__file__).parent
ROOMS = ["maquette", *(found.name for found in pkgutil.walk_packages(maquette.__path__, "maquette.") if found.ispkg)]
MODULES = [found.name for found in pkgutil.walk_packages(maquette.__path__, "maquette.") if not found.ispkg]
MODULES = [name for name in MODULES if not name.endswith("__main__")]


def folder(room: str) -> Path:
    return ROOT.joinpath(*room.split(".")[1:])


def offered(room: str) -> dict[str, str | None]:
    """The names of a room's stub and the module each is from; None where the name is a module itself."""
    stub = folder(room) / "__init__.pyi"
    names: dict[str, str | None] = {}
    for line in ast.parse(stub.read_text()).body if stub.exists() else []:
        if isinstance(line, ast.ImportFrom):
            names |= {alias.asname or alias.name: line.module for alias in line.names}
    return names


STUBBED = [room for room in ROOMS if offered(room)]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_can_be_imported_by_its_name(module: str) -> None:
    assert importlib.import_module(module).__name__ == module


@pytest.mark.parametrize("room", STUBBED)
def test_every_offered_name_can_be_had(room: str) -> None:
    package = importlib.import_module(room)
    for name, module in offered(room).items():
        found = getattr(package, name)
        if module is None:
            assert found is importlib.import_module(f"{room}.{name}")
        else:
            assert found is getattr(importlib.import_module(f"{room}.{module}"), name)
    assert set(offered(room)) <= set(dir(package))


@pytest.mark.parametrize("room", STUBBED)
def test_no_offered_name_hides_a_module(room: str) -> None:
    inside = {path.stem for path in folder(room).iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert {name for name, module in offered(room).items() if module is not None} & inside == set()


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, set[object]] = defaultdict(set)
    for room in STUBBED:
        for name, module in offered(room).items():
            if name[:1].isupper() and not name.isupper() and module is not None:
                homes[name].add(_identity(getattr(importlib.import_module(room), name)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def _identity(thing: object) -> object:
    return f"{thing.__module__}.{thing.__qualname__}" if isinstance(thing, type) else str(thing)


def test_one_word_for_doubt() -> None:
    """`beta` fails a promise about all answers together, `confidence` is of one interval; nobody takes both."""
    for module in MODULES:
        for name, thing in vars(importlib.import_module(module)).items():
            if callable(thing) and getattr(thing, "__module__", None) == module:
                taken = _parameters(thing)
                assert not {"beta", "confidence"} <= taken, f"{module}.{name}"
                assert "confidence" not in taken or not module.startswith("maquette.theory"), f"{module}.{name}"
    assert "confidence" in _parameters(maquette.Holdout)
    assert "beta" in _parameters(maquette.online)


def _parameters(thing: object) -> set[str]:
    members = (
        [member for member in vars(thing).values() if inspect.isfunction(member)] if isinstance(thing, type) else []
    )
    found: set[str] = set()
    for function in (thing, *members):
        try:
            taken = set(inspect.signature(function).parameters)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        assert not {"beta", "confidence"} <= taken, function
        found |= taken
    return found

"""`maquette.toml`: the configuration as a file. An unknown or mistyped setting is refused by name."""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from maquette.service.config import (
    DEMO,
    AnalystConfig,
    GroupConfig,
    HoldoutConfig,
    Limits,
    OidcConfig,
    ServiceConfig,
    TableConfig,
    listed,
    told,
)
from maquette.service.errors import ConfigError

T = TypeVar("T")

SECTIONS = {
    "table": "tables",
    "analyst": "analysts",
    "group": "groups",
    "holdout": "holdouts",
    "limits": "limits",
    "oidc": "oidc",
}
PATHS = ("source", "schema", "ledger", "ledger_key", "anchor", "planes")
FILES = ("duckdb://", "sqlite://")  # databases in files, as sources of rows
OWN_PATHS = ("tls_certificate", "tls_key", "token_file", "directory")


def read(path: Path) -> ServiceConfig:
    """The configuration in a file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{str(path)!r} is not valid TOML: {error}") from None
    return parse(document, path.resolve().parent)


def parse(document: Mapping[str, Any], folder: Path) -> ServiceConfig:
    """The configuration in a parsed document; relative files are in `folder`.

    Every setting that is unknown, missing or of another type is refused at once.
    """
    found: list[ConfigError] = []
    made = _parsed(document, folder, found)
    if len(found) > 1:
        raise ConfigError(listed(list(map(told, found))))
    if found:
        raise found[0]
    assert made is not None
    return made


def _parsed(document: Mapping[str, Any], folder: Path, found: list[ConfigError]) -> ServiceConfig | None:
    own = {word: value for word, value in document.items() if word not in SECTIONS}
    own = {word: _placed(value, folder) if word in OWN_PATHS else value for word, value in own.items()}
    sections: dict[str, Any] = {
        "tables": _each(TableConfig, document, "table", folder, found),
        "analysts": _each(AnalystConfig, document, "analyst", folder, found),
        "holdouts": _each(HoldoutConfig, document, "holdout", folder, found),
        "groups": _each(GroupConfig, document, "group", folder, found),
    }
    if "limits" in document:
        sections["limits"] = _made(Limits, document["limits"], "[limits]", found) or Limits()
    if "oidc" in document:
        sections["oidc"] = _made(OidcConfig, document["oidc"], "[oidc]", found)
    own.setdefault("directory", str(folder))
    if isinstance(own.get("state"), str):
        own["state"] = _placed_address(own["state"], "sqlite:///", folder)
    for word in ("directory", "token_file"):
        if isinstance(own.get(word), str):
            own[word] = Path(own[word])
    return _made(ServiceConfig, {**own, **sections}, "the file", found, also=frozenset(SECTIONS))


def _placed_lookup(value: Any, folder: Path) -> Any:
    """NAME=FILE:KEY with its file in the folder."""
    name, equals, rest = str(value).partition("=")
    return f"{name}={_placed(rest, folder)}" if equals else value


def _each(
    kind: type[T], document: Mapping[str, Any], word: str, folder: Path, found: list[ConfigError]
) -> tuple[T, ...]:
    blocks = document.get(word, [])
    if not isinstance(blocks, list):
        found.append(
            ConfigError(f"{word!r} is one block", expected=f"[[{word}]] in two pairs of brackets, one for each")
        )
        return ()
    made: list[T | None] = []
    for number, block in enumerate(blocks, 1):
        if not isinstance(block, Mapping):
            found.append(ConfigError(f"[[{word}]] {number} is {block!r}", expected="a block of settings"))
            continue
        placed = {name: _placed(value, folder) if name in PATHS else value for name, value in block.items()}
        if isinstance(placed.get("source"), str):
            for scheme in FILES:
                placed["source"] = _placed_address(placed["source"], scheme, folder)
        if isinstance(placed.get("public"), list):
            placed["public"] = [_placed_lookup(value, folder) for value in placed["public"]]
        made.append(_made(kind, placed, f"[[{word}]] {number}", found))
    return tuple(one for one in made if one is not None)


def _placed(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or "://" in value or value == DEMO:
        return value
    return str(folder / value)


def _placed_address(value: str, scheme: str, folder: Path) -> str:
    """The address of a database in a file, with its file in the folder unless it says where it is."""
    file = value.removeprefix(scheme)
    if file == value or not file or file.startswith(("/", "?", ":memory:", "file:")):
        return value
    # SQLAlchemy takes a path as it is, the addresses of rows are unquoted
    return f"{scheme}{quote(str(folder)) if scheme in FILES else folder}/{file}"


def _made(
    kind: type[T], block: Any, where: str, found: list[ConfigError], also: frozenset[str] = frozenset()
) -> T | None:
    """The block as its class, or None after adding what is wrong with it to `found`."""
    if not isinstance(block, Mapping):
        found.append(ConfigError(f"{where} is {block!r}", expected="a block of settings"))
        return None
    known = {each.name: each for each in fields(kind)}  # type: ignore[arg-type]
    hints, values, before = typing.get_type_hints(kind), {}, len(found)
    for word, given in block.items():
        if word not in known:
            close = get_close_matches(word, [*known, *also], 1)
            hint = f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(sorted(known))}"
            found.append(ConfigError(f"{where} has an unknown setting {word!r}", advice=hint))
            continue
        value = tuple(given) if isinstance(given, list) else given
        if not _fits(value, hints[word]):
            found.append(ConfigError(f"{where}: {word} is {value!r}", expected=_words(hints[word])))
        values[word] = float(value) if hints[word] is float and isinstance(value, int) else value
    for name, each in known.items():
        if name not in values and _required(each):
            found.append(ConfigError(f"{where} lacks the setting {name!r}"))
    return kind(**values) if len(found) == before else None


def _required(each: Field[Any]) -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def _fits(value: Any, hint: Any) -> bool:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if origin is typing.Literal:
        return value in inside and not isinstance(value, bool)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(one, inside[0]) for one in value)
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    return isinstance(value, hint)


def _words(hint: Any) -> str:
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_words(one) for one in inside if one is not type(None))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(repr, inside))
    if origin is tuple:
        return f"a list of {_words(inside[0])}s"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false", Path: "the name of a file"}
    return names.get(hint, getattr(hint, "__name__", str(hint)))

"""Schema files: TOML that people write, TOML with odd values, mutations of both; and the files of two neighbours.

What is accepted is written and read again: the same schema, the same digest.
"""

from __future__ import annotations

import json
import random
from typing import Any

import fuzz_words as words
from fuzz_runner import Broken, Target

from maquette.errors import SchemaError
from maquette.schema import Schema
from maquette.schema.importers import from_mbi, from_smartnoise
from maquette.schema.toml import _key, written_value

SETTINGS = {
    "boolean": (),
    "category": ("levels", "other"),
    "integer": ("low", "high", "width"),
    "number": ("low", "high", "bins", "edges", "decimal"),
    "date": ("low", "high", "unit", "order"),
}
USUAL: dict[str, tuple[Any, ...]] = {
    "nullable": (True, False),
    "missing": ([], ["NA"], ["", " x "], ["-1", "NA"]),
    "levels": (["f", "m"], [1, 2, 3], ["a"], ["x", "NULL"], ["é", "e\u0301"], [str(i) for i in range(150)]),
    "other": ("other", "rest", "f"),
    "low": (0, -5, 1.5, "2024-01-01", -(2**53), -1e308),
    "high": (9, 99, 100.25, "2024-12-31", 2**53, 1e308, 2**31),
    "width": (1, 2, 10, 2**40),
    "bins": (1, 3, 32, 2**20, 2**31),
    "edges": ([0, 1, 2.5], [-1e308, 1e308], [0.0, 5e-324], list(range(200))),
    "decimal": (".", ","),
    "unit": ("day", "week", "month", "quarter", "year"),
    "order": ("ymd", "dmy", "mdy"),
}
WORDS = (
    *(
        "[[column]]",
        "[column]",
        "[[impossible]]",
        "name = 'a'",
        "kind = 'integer'",
        "kind = 'number'",
        "guessed = true",
    ),
    *(
        "nullable = true",
        "missing = ['NA']",
        "levels = ['a', 'b']",
        "low = 0",
        "high = 9",
        "width = 0",
        "bins = 0x7fffffff",
    ),
    *(
        "edges = [0, 1]",
        "low = 1979-05-27",
        "low = 07:32:00",
        "low = 1979-05-27T07:32:00Z",
        "x = inf",
        "high = nan",
        "= 1",
    ),
    *(
        "name.kind = 'x'",
        "'''",
        '"""',
        "# ",
        "other = 'x'",
        "low = 1e400",
        "high = 0o7777777777777777777777",
        "\\u0000",
    ),
    *(
        "column = 1",
        "column = []",
        "column = [[1]]",
        "impossible = 3",
        "a = '0-9'",
        "unit = 'year'",
        "high = 0x" + "f" * 5000,
    ),
    *("[" * 50, "{a = " * 50, "[" * 5000, "a." * 3000),
)


def _block(rng: random.Random, number: int) -> dict[str, Any]:
    kind = rng.choice(tuple(SETTINGS))
    block: dict[str, Any] = {
        "name": rng.choice(("age", f"x {number}", f'q"{number}', f"été{number}", f"c{number}")),
        "kind": kind,
    }
    for setting in (*SETTINGS[kind], *(("nullable", "missing") if rng.random() < 0.4 else ())):
        if rng.random() < 0.75:
            block[setting] = rng.choice(USUAL[setting])
    if kind == "number" and rng.random() < 0.9:
        for extra in ("low", "high", "bins", "edges"):
            block.pop(extra, None)
        edges = {"edges": rng.choice(USUAL["edges"])}
        block.update(edges if rng.random() < 0.5 else {"low": -2, "high": 7.5, "bins": rng.choice(USUAL["bins"])})
    if kind == "date":
        block.update(low="2024-01-01", high=rng.choice(("2024-12-31", "9999-12-31", "2023-01-01")))
    if kind == "integer" and rng.random() < 0.8:
        block.update(low=rng.choice((0, -7)), high=rng.choice((0, 9, 99)))
    if "missing" in block and rng.random() < 0.9:
        block["nullable"] = True
    if kind == "category" and rng.random() < 0.9:
        block.setdefault("levels", ["a", "b"])
        block["other"] = "other"
    if rng.random() < 0.06:
        block[rng.choice((*USUAL, "name", "kind", "x"))] = words.value(rng)
    return block


def document(rng: random.Random) -> str:
    """A schema file, with odd values here and there."""
    blocks = [_block(rng, number) for number in range(rng.choice((1, 2, 3, 5)))]
    parts = ["guessed = true"] * (rng.random() < 0.1)
    parts += ["\n".join(["[[column]]", *(_line(key, value) for key, value in block.items())]) for block in blocks]
    for _ in range(rng.choice((0, 0, 1, 3))):
        chosen = rng.sample(blocks, min(len(blocks), rng.choice((1, 2, 3))))
        entry = {str(block["name"]): _labels(rng, block) for block in chosen}
        parts.append("\n".join(["[[impossible]]", *(_line(key, value) for key, value in entry.items())]))
    return "\n\n".join(parts) + "\n"


def _labels(rng: random.Random, block: dict[str, Any]) -> Any:
    match block["kind"]:
        case "boolean":
            return rng.choice(("true", True, ["true", "false"]))
        case "category":
            levels = block.get("levels")
            return levels if rng.random() < 0.5 else levels[:1] if isinstance(levels, list) else "f"
        case "integer":
            return rng.choice((0, [0, 1], "0-9", [str(i) for i in range(10)]))
    return words.value(rng)


def _line(key: str, value: Any) -> str:
    return f"{_key(key)} = {_toml(value)}"


def _toml(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return "{" + ", ".join(_line(key, inner) for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(inner) for inner in value) + "]"
    return written_value(value)


def make(rng: random.Random) -> tuple[str, str]:
    """A format and a text."""
    draw = rng.random()
    if draw < 0.03:
        facts = {rng.choice(("age", "sex", "\ud800", "")): rng.choice((1, 2, 100, words.value(rng))) for _ in range(3)}
        given = json.dumps(facts)
        return "mbi", given if draw < 0.01 else words.text(rng, given, [given], ["{", "[" * 3000, '"a": 1'])
    if draw < 0.05:
        given = _smartnoise(rng)
        more = ["&a", "*a", "[" * 300, "!!python/object:os.system", "{", "lower: 1e999", "- ", "lower: 0x1F"]
        return "smartnoise", given if draw < 0.035 else words.text(rng, given, [given], more)
    given = document(rng)
    return "toml", given if draw < 0.5 else words.text(rng, given, [document(rng)], WORDS)


def _smartnoise(rng: random.Random) -> str:
    columns = []
    for i in range(rng.choice((1, 2, 3))):
        kind = rng.choice(("int", "float", "boolean", "datetime", "string"))
        facts: dict[str, Any] = {"type": kind, "lower": rng.choice((0, -5, 1.5)), "upper": rng.choice((9, 1e3, 2**31))}
        if rng.random() < 0.3:
            facts[rng.choice(("lower", "upper", "levels", "nullable", "private_id"))] = words.value(rng)
        columns.append(f"      c{i}: {json.dumps(facts)}")
    return "'':\n  schema:\n    table:\n" + "\n".join(columns) + "\n"


def run(given: tuple[str, str]) -> str:
    """Read a file; what is accepted survives being written and read."""
    form, text = given
    schema = {"toml": Schema.loads, "mbi": from_mbi, "smartnoise": from_smartnoise}[form](text)
    again = Schema.loads(schema.dumps())
    if again != schema or again.digest != schema.digest or again.dumps() != schema.dumps():
        raise Broken("a schema that is written and read again is another one")
    if schema.size < 1 or not all(column.size == column.known + column.nullable for column in schema):
        raise Broken("a schema without levels")
    repr(schema)
    return form


SCHEMA = Target("schema", make, run, (SchemaError,))

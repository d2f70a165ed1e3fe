"""Uncharged looks at rows belong to the custodian's terminal: no other room names them, no file keeps what is told."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.errors import DataError

SOURCE = Path(mq.__file__).parent
LOOKS = {"first_misfits", "clamped_values", "unit_report", "misfits", "clamped", "unit_counts"}
SECRET, SHAPE = "4242-xyz", "9999-xxx"

MUTANTS = {
    "the service imports a look": "from maquette.curator import first_misfits",
    "a look by its module": "from maquette.curator.clamped import clamped_values as counted",
    "a look through the room": "import maquette.curator as c\nc.unit_report('people.csv', 'id')",
}


def looks(text: str) -> Iterator[str]:
    """The looks that a module names. A module whose text has none of their names is not parsed."""
    if not any(look in text for look in LOOKS):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("maquette.curator"):
            yield from LOOKS & {*(node.module or "").split("."), *(one.name for one in node.names)}
        if isinstance(node, ast.Attribute) and node.attr in {"first_misfits", "clamped_values", "unit_report"}:
            yield node.attr


def test_only_the_command_line_names_a_look_at_rows() -> None:
    found = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if any(looks(path.read_text(encoding="utf-8")))
    }
    assert found - {"curator"} == {"cli"}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_look_named_elsewhere_is_seen(name: str) -> None:
    assert list(looks(MUTANTS[name]))


def test_neither_errors_nor_files_carry_what_the_terminal_tells(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("age,plan\n30,a\n41,b\n" + f"{SECRET},a\n" + "99,b\n" * 40, encoding="utf-8")
    schema = mq.Schema([mq.Integer("age", 0, 60), mq.Category("plan", ["a", "b"])])
    declared = tmp_path / "people.schema.toml"
    schema.save(declared)
    with pytest.raises(DataError) as raised:
        mq.open_table(table, schema)
    assert SECRET not in str(raised.value)
    assert "line" not in str(raised.value)
    for command in (
        ["schema", "check"],
        ["release", "--epsilon", "1", "--delta", "1e-9", "--out", str(tmp_path / "p.maq")],
    ):
        told = str(CliRunner().invoke(app, [*command, str(table), "--schema", str(declared)]).exception)
        assert f"line 4, written like '{SHAPE}'" in told
        assert SECRET not in told
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path not in (table, declared)]
    assert not [text for text in kept if SECRET.encode() in text or SHAPE.encode() in text]

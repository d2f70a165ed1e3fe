"""A folder with a table and its schema, for tests of the command line."""

from __future__ import annotations

from pathlib import Path

from maquette.schema import Boolean, Category, Integer, Schema

BUDGET = ("--epsilon", "1", "--delta", "1e-9")


def people(folder: Path) -> None:
    """Write people.csv and people.toml."""
    rows = [f"{i % 80},{'true' if i % 3 else 'false'},{('Oslo', 'Rome')[i % 2]}" for i in range(4_000)]
    (folder / "people.csv").write_text("\n".join(["age,smoker,city", *rows]))
    schema = Schema([Integer("age", 0, 79, width=10), Boolean("smoker"), Category("city", ["Oslo", "Rome"])])
    schema.save(folder / "people.toml")

"""Accounting of `maquette release`: the cheaper method for a new ledger, its own for one that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import csv
from release_checks import SCHEMA, records
from typer.testing import CliRunner

import maquette as mq
from maquette.cli import app
from maquette.privacy.ledger import inspect


def released(folder: Path, *more: str) -> Any:
    csv.write_csv(SCHEMA.decode(records(SCHEMA, 400)), folder / "people.csv")
    SCHEMA.save(folder / "people.toml")
    arguments = ["release", str(folder / "people.csv"), "--schema", str(folder / "people.toml"), "--ways", "1"]
    arguments += ["--epsilon", "1", "--out", str(folder / "people.maq"), "--spend", "0.5", *more]
    return CliRunner().invoke(app, arguments)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize(
    ("more", "currency"),
    [
        (["--delta", "1e-9"], "gdp"),
        (["--delta", "1e-9", "--method", "combined"], "gdp"),
        (["--delta", "1e-9", "--method", "adaptive"], "zcdp"),
        (["--delta", "1e-9", "--accounting", "zcdp"], "zcdp"),
        ([], "pure"),
    ],
)
def test_a_new_ledger_counts_in_what_is_cheaper(tmp_path: Path, more: list[str], currency: str) -> None:
    done = released(tmp_path, *more)
    assert done.exit_code == 0, done.output
    assert inspect(tmp_path / "people.ledger").currency == currency
    assert mq.Release.load(tmp_path / "people.maq").certificate.currency == currency


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
def test_a_ledger_keeps_its_own(tmp_path: Path, currency: str) -> None:
    """One made under either is opened by every command that leaves the method open."""
    first = released(tmp_path, "--delta", "1e-9", "--accounting", currency)
    assert first.exit_code == 0, first.output
    again = released(tmp_path, "--delta", "1e-9")
    assert again.exit_code == 0, again.output
    assert inspect(tmp_path / "people.ledger").currency == currency


def test_gaussian_accounting_buys_less_noise_at_the_same_epsilon_and_delta() -> None:
    table = mq.open_table(SCHEMA.decode(records(SCHEMA, 400)), SCHEMA)
    variance = {}
    for accounting in ("zcdp", "gdp"):
        with mq.Curator(table, mq.Budget(epsilon=1.0, delta=1e-9, accounting=accounting)) as curator:
            event = curator.measure(["smoker"], epsilon=1.0).event
            variance[accounting] = float(event.variance)  # type: ignore[union-attr]
    assert variance["gdp"] < 0.92 * variance["zcdp"]

"""A ledger in a file and in PostgreSQL: exported, backed up, restored, moved there and back, given a new key."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_ledgers import TERMS, asked
from typer.testing import CliRunner

from maquette.cli import app
from maquette.errors import BudgetExceeded, LedgerCorrupted, LedgerError, LedgerLocked
from maquette.privacy.ledger import (
    Place,
    PostgresLedger,
    Recorded,
    SharedPostgresLedger,
    SqliteLedger,
    Ticket,
    places,
    read_ledger,
    rotate_key,
)
from postgres_server import Server


def spend(ledger: Any, id: str, units: int = 10) -> None:  # noqa: A002
    ticket = ledger.reserve(asked(id, units))
    assert isinstance(ticket, Ticket)
    ledger.commit(ticket, id.encode())


def told(*words: object) -> Any:
    result = CliRunner().invoke(app, ["ledger", *map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def refused(*words: object) -> None:
    assert CliRunner().invoke(app, ["ledger", *map(str, words)]).exit_code != 0


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "people.ledger"
    with closing(SqliteLedger(path, TERMS)) as opened:
        spend(opened, "one", 100)
        opened.limit_analyst("bob", 5)
    return path


def check(opened: Any, spent: int) -> None:
    """The answer is there, sums are right, and what was written verifies."""
    with closing(opened) as found:
        again = found.reserve(asked("one", 100))
        assert isinstance(again, Recorded)
        assert again.answer == b"one"
        assert found.spent() == spent
        found.verify()


@pytest.mark.thorough
def test_a_copy_is_verified_and_becomes_a_ledger(ledger: Path, tmp_path: Path) -> None:
    out, target, key = tmp_path / "x.export", tmp_path / "new" / "people.ledger", tmp_path / "people.ledger.key"
    target.parent.mkdir()
    exported = told("export", ledger, "--out", out)
    assert told("verify", ledger)["head"] == exported["head"]
    assert told("verify", out, "--key", key) == {**told("verify", ledger)}
    told("import", out, target, "--key", key)
    refused("import", out, target, "--key", key)
    (target.parent / "people.ledger.key").write_bytes(key.read_bytes())
    check(SqliteLedger(target, TERMS), 100)
    out.write_text(out.read_text().replace('"charge"', '"charged"', 1))
    refused("verify", out, "--key", key)


def test_restoring_charges_what_the_head_file_remembers(ledger: Path, tmp_path: Path) -> None:
    backup = told("backup", ledger, "--folder", tmp_path / "backups")["file"]
    assert told("backup", ledger, "--folder", tmp_path / "backups")["file"] == backup
    with closing(SqliteLedger(ledger, TERMS)) as opened:
        spend(opened, "after the backup", 70)
    refused("restore", backup, ledger)  # it is there
    ledger.unlink()
    for rest in ("-wal", "-shm"):
        ledger.with_name(ledger.name + rest).unlink(missing_ok=True)
    assert told("restore", backup, ledger)["charged"] == 70
    check(SqliteLedger(ledger, TERMS), 170)


def test_without_a_witness_the_rest_is_charged(ledger: Path, tmp_path: Path) -> None:
    backup = told("backup", ledger, "--folder", tmp_path / "backups")["file"]
    for old in tmp_path.glob("people.ledger*"):
        if old.suffix != ".key":
            old.unlink()
    assert told("restore", backup, ledger)["charged"] == 900
    with closing(SqliteLedger(ledger, TERMS)) as opened:
        with pytest.raises(BudgetExceeded):
            opened.reserve(asked("new", 1))
        assert isinstance(opened.reserve(asked("one", 100)), Recorded)


def test_a_new_key(ledger: Path, tmp_path: Path) -> None:
    key = tmp_path / "people.ledger.key"
    old = key.read_bytes()
    before = told("export", ledger, "--out", tmp_path / "old.export")
    with closing(SqliteLedger(ledger, TERMS)) as opened:
        with pytest.raises(LedgerLocked):
            rotate_key(Place(str(ledger)))
        opened.verify()
    key.with_name("people.ledger.key.new").unlink()  # of the attempt that was refused
    after = told("rotate-key", ledger)
    assert after["head"] != before["head"]
    assert key.read_bytes() != old == (tmp_path / "people.ledger.key.old").read_bytes()
    check(SqliteLedger(ledger, TERMS), 100)  # the same data is recognised under the new key
    with pytest.raises(LedgerCorrupted):
        SqliteLedger(ledger, TERMS, key=old)
    told("verify", tmp_path / "old.export", "--key", tmp_path / "people.ledger.key.old")
    told("rotate-key", ledger)
    check(SqliteLedger(ledger, TERMS), 100)


@pytest.mark.parametrize("stop", ["Head.replace", "shutil.copy2", "put_in_place"])
def test_an_interrupted_rotation_goes_on(ledger: Path, stop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"maquette.privacy.ledger.places.{stop}", broken)
        with pytest.raises(KeyboardInterrupt):
            rotate_key(Place(str(ledger)))
    rotate_key(Place(str(ledger)))
    check(SqliteLedger(ledger, TERMS), 100)


def test_an_older_copy_does_not_pass_through_a_rotation(
    ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ledger.read_bytes()
    with closing(SqliteLedger(ledger, TERMS)) as opened:
        spend(opened, "two", 50)
    newest = ledger.read_bytes()
    ledger.write_bytes(copy)
    with pytest.raises(LedgerCorrupted):
        rotate_key(Place(str(ledger)))
    ledger.write_bytes(newest)
    with monkeypatch.context() as patch:
        patch.setattr(places.Head, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rotate_key(Place(str(ledger)))
    ledger.write_bytes(copy)  # set back while the rotation was interrupted
    with pytest.raises(LedgerCorrupted):
        rotate_key(Place(str(ledger)))


@pytest.mark.thorough
def test_there_and_back_again(ledger: Path, postgres: Server, name: str, tmp_path: Path) -> None:
    key, back = tmp_path / "people.ledger.key", tmp_path / "back.ledger"
    with closing(SqliteLedger(ledger, TERMS)):
        refused("migrate", ledger, postgres.address, "--name", name)  # it is open
    told("migrate", ledger, postgres.address, "--name", name)
    assert not ledger.exists()
    with closing(SharedPostgresLedger(postgres.address, TERMS, name=name, key_path=key)) as member:
        spend(member, "two", 50)
        refused("migrate", postgres.address, back, "--name", name, "--key", key)
        member.reserve(asked("three", 1))
        assert told("verify", postgres.address, "--name", name, "--key", key)["spent"] == 151
    told("migrate", postgres.address, back, "--name", name, "--key", key)
    check(SqliteLedger(back, TERMS), 151)
    refused("verify", postgres.address, "--name", name, "--key", key)
    told("migrate", back, postgres.address, "--name", name)
    told("migrate", postgres.address, tmp_path / "again.ledger", "--name", name, "--key", key)  # a second time
    check(SqliteLedger(tmp_path / "again.ledger", TERMS), 151)
    refused("verify", postgres.address, "--name", name, "--key", key)


def test_postgresql_is_restored_and_rotated(postgres: Server, name: str, tmp_path: Path) -> None:
    key, at = tmp_path / "key", ("--name", name, "--key", tmp_path / "key")
    with closing(PostgresLedger(postgres.address, TERMS, name=name, key_path=key)) as opened:
        spend(opened, "one", 100)
        with pytest.raises(LedgerError):
            rotate_key(Place(postgres.address, name, key))
    (tmp_path / "key.new").unlink()
    told("rotate-key", postgres.address, *at)
    check(PostgresLedger(postgres.address, TERMS, name=name, key_path=key), 100)
    backup = told("backup", postgres.address, *at, "--folder", tmp_path)["file"]
    refused("restore", backup, postgres.address, *at)  # it is there
    other = ("--name", f"{name}_again", "--key", key)
    assert told("restore", backup, postgres.address, *other)["charged"] == 900
    check(PostgresLedger(postgres.address, TERMS, name=f"{name}_again", key_path=key), 1_000)


def test_the_budget_of_a_ledger_in_postgresql_is_shown_without_its_password(
    postgres: Server, name: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    address = postgres.address.replace("maquette@", "maquette:geheim@")
    with closing(PostgresLedger(address, TERMS, name=name, key_path=key)) as opened:
        spend(opened, "one", 100)
    for command in (["budget"], ["ledger", "verify"]):
        result = CliRunner().invoke(app, [*command, address, "--name", name, "--key", str(key)])
        assert result.exit_code == 0, result.output
        assert "spent" in result.output
        assert "geheim" not in result.output


def test_a_database_that_refuses_a_connection_says_why(postgres: Server, name: str, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(bytes(64))
    wrong = {
        "there is no such database": postgres.address.replace("/postgres", "/nowhere"),
        "nothing listens there": postgres.address.replace(str(postgres.port), "1").replace("e@", "e:geheim@"),
    }
    for reason, address in wrong.items():
        with pytest.raises(LedgerError, match=reason) as refusal:
            read_ledger(Place(address, name, tmp_path / "key"))
        assert "user and password" in str(refusal.value)
        assert "geheim" not in str(refusal.value)

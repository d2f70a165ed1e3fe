"""Changed, cut, forged and rolled-back ledgers are refused when they are opened."""

from __future__ import annotations

import hashlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest
from ledger_checks import TERMS, ask, contents, opened, request, restore, snapshot
from ledger_tamper import judge

from maquette.errors import LedgerCorrupted, LedgerError
from maquette.privacy.ledger import Receipt, SqliteLedger
from maquette.privacy.ledger.chain import GENESIS, Chain
from maquette.privacy.ledger.replay import Replay
from maquette.privacy.ledger.verification import verify

FLIPS = 300


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a ledger of every kind of event, over several boots."""
    path = tmp_path_factory.mktemp("original") / "ledger"
    rng = random.Random(7)
    for boot in range(3):
        with opened(path) as ledger:
            ledger.limit_analyst(f"ann{boot}", 200)
            ledger.open_guard(f"g{boot}", hits=5)
            for number in range(12):
                ask(ledger, f"r{boot}.{number}", rng.randbytes(40), analyst=f"ann{number % 3}")
            ledger.commit(ledger.reserve(request(f"e{boot}", guard=f"g{boot}")), b"easy", hit=False)  # type: ignore[arg-type]
            ledger.reserve(request(f"lost{boot}", guard=f"g{boot}"))
    return path.parent


@pytest.fixture
def path(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path, dirs_exist_ok=True)
    return tmp_path / "ledger"


def edit(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    with connection:
        assert connection.execute(statement).rowcount != 0
    connection.close()


def flip(data: bytes, rng: random.Random) -> bytes:
    flipped = bytearray(data)
    flipped[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    return bytes(flipped)


@pytest.mark.thorough
def test_a_flipped_byte_is_refused_or_changes_nothing(path: Path) -> None:
    whole = snapshot(path)
    with opened(path) as ledger:
        expected = contents(ledger)
    rng = random.Random(13)
    refused = 0
    for _ in range(FLIPS):
        restore({**whole, path: flip(whole[path], rng)})
        try:
            with opened(path) as ledger:
                assert contents(ledger) == expected
        except LedgerError:
            refused += 1
    assert refused > FLIPS // 10


@pytest.mark.thorough
def test_older_copies_and_forks_are_all_refused_and_changed_bytes_refused_or_harmless() -> None:
    outcome = judge(1_000, seed=23)
    assert outcome["bad"] == 0, outcome
    assert outcome["refused: older copy"] + outcome["refused: fork"] == 666, outcome
    assert outcome["refused: byte"] > 100, outcome


def test_a_flipped_byte_of_the_log_after_a_crash_is_refused_by_the_head(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    with opened(path) as ledger:
        for number in range(5):
            ask(ledger, f"r{number}")
        expected = contents(ledger)
        crashed = snapshot(path)
    log = tmp_path / "ledger-wal"
    rng = random.Random(17)
    refused = 0
    for _ in range(60):
        restore({**crashed, log: flip(crashed[log], rng)})
        try:
            with opened(path) as ledger:
                assert contents(ledger) == expected
        except LedgerError:
            refused += 1
    assert refused > 30


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE budget SET spent = spent - 10 WHERE scope = 'table'", "budget table differs"),
        ("UPDATE budget SET \"limit\" = 5000 WHERE scope = 'table'", "budget table differs"),
        ("UPDATE budget SET spent = 0, \"limit\" = 99 WHERE scope = 'analyst ann1'", "budget table differs"),
        ("DELETE FROM budget WHERE scope = 'analyst ann1'", "budget table differs"),
        ("UPDATE guard SET used = 0", "guard table differs"),
        ("UPDATE guard SET opened = 1000000", "guard table differs"),
        ("UPDATE request SET answered = NULL WHERE id = 'r1.1'", "request table differs"),
        ("UPDATE request SET answered = (SELECT answered FROM request WHERE id = 'r1.2') WHERE id = 'r1.1'", "request"),
        ("UPDATE request SET charged = 1000000 WHERE id = 'lost1'", "request table differs"),
        ("DELETE FROM request WHERE id = 'r1.1'", "request table differs"),
        ("UPDATE event SET content = x'00' WHERE kind = 'answer' AND seq = 8", "chain does not verify at event 8"),
        ("UPDATE event SET facts = replace(facts, ',10,', ',1,') WHERE seq = 7", "chain does not verify at event 7"),
        ("UPDATE event SET mac = zeroblob(32) WHERE seq = 9", "chain does not verify at event 9"),
        ("DELETE FROM event WHERE seq = 9", "chain does not verify at event 9"),
        ("DELETE FROM event WHERE seq > 60", "table differs"),
        ("DELETE FROM event WHERE seq > 1", "table differs"),
        ("DELETE FROM event", "chain does not verify at event 1"),
        ("UPDATE event SET seq = seq + 1 WHERE seq = (SELECT max(seq) FROM event)", "chain does not verify"),
        ("CREATE TRIGGER free AFTER UPDATE ON budget BEGIN UPDATE budget SET spent = 0; END", "exactly the ledger's"),
        ("UPDATE sqlite_master SET sql = replace(sql, 'spent <=', 'spent >=')", "exactly the ledger's"),
        ("DROP TABLE guard", "exactly the ledger's"),
    ],
)
def test_an_edited_table_is_refused(path: Path, statement: str, reason: str) -> None:
    edit(path, statement)
    with pytest.raises(LedgerCorrupted, match=reason):
        SqliteLedger(path, TERMS)


def test_a_running_ledger_that_fails_verification_stops(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger", shared=True) as ledger:
        ask(ledger, "a")
        edit(tmp_path / "ledger", "UPDATE budget SET spent = 0")
        with pytest.raises(LedgerCorrupted, match="budget table differs"):
            ledger.verify()
        with pytest.raises(LedgerCorrupted, match="stopped"):
            ledger.reserve(request("b"))


def test_a_wrong_key_is_refused(path: Path) -> None:
    with pytest.raises(LedgerCorrupted, match="not the ledger's key"):
        SqliteLedger(path, TERMS, key=bytes(32))
    with pytest.raises(LedgerCorrupted, match="7 bytes; expected 32"):
        SqliteLedger(path, TERMS, key=b"too few")


def test_an_event_of_another_ledger_under_the_same_key_does_not_fit(tmp_path: Path) -> None:
    key = bytes(range(32))
    for name in ("one", "two"):
        with opened(tmp_path / name, key=key) as ledger:
            ask(ledger, "a", b"42" if name == "one" else b"43")
    connection = sqlite3.connect(tmp_path / "one")
    connection.execute("ATTACH ? AS two", (str(tmp_path / "two"),))
    with connection:
        connection.execute("DELETE FROM event WHERE seq = 4")
        connection.execute("INSERT INTO event SELECT * FROM two.event WHERE seq = 4")
    connection.close()
    with pytest.raises(LedgerCorrupted, match="event 4"):
        SqliteLedger(tmp_path / "one", TERMS, key=key)


def test_an_old_copy_with_its_old_head_is_refused_by_the_anchor_and_only_by_it(tmp_path: Path) -> None:
    path, anchor = tmp_path / "ledger", tmp_path / "anchor"
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "a", units=900)
    old = snapshot(path)
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "b", units=100)
        head = ledger.verify()
    assert anchor.read_text() == f"{head.seq:020d} {head.head}\n"
    restore({**old, anchor: anchor.read_bytes()})
    with pytest.raises(LedgerCorrupted, match=r"old or a different copy.*twice"):
        SqliteLedger(path, TERMS, anchor=anchor)
    with opened(path) as ledger:
        assert ledger.spent() == 900


def test_a_fork_of_the_same_length_is_refused_by_the_anchor(tmp_path: Path) -> None:
    path, anchor = tmp_path / "ledger", tmp_path / "anchor"
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "a")
    old = snapshot(path)
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "b")
    restore({**old, anchor: anchor.read_bytes()})
    with opened(path) as ledger:
        for number in range(5):
            ask(ledger, f"c{number}")
    with pytest.raises(LedgerCorrupted, match="different copy"):
        SqliteLedger(path, TERMS, anchor=anchor)


def test_an_anchor_notices_that_the_ledger_is_gone_and_the_ledger_that_the_anchor_is(tmp_path: Path) -> None:
    path, anchor = tmp_path / "ledger", tmp_path / "anchor"
    with opened(path, anchor=anchor) as ledger:
        ask(ledger, "a")
    ledger_bytes, anchor_bytes = path.read_bytes(), anchor.read_bytes()
    key = path.with_name("ledger.key").rename(tmp_path / "kept elsewhere")
    head = path.with_name("ledger.head").rename(tmp_path / "the head")
    path.unlink()
    with pytest.raises(LedgerCorrupted, match="would forget what was spent"):
        SqliteLedger(path, TERMS, anchor=anchor)
    head.rename(path.with_name("ledger.head"))
    assert not path.with_name("ledger.key").exists()
    path.write_bytes(ledger_bytes)
    key.rename(path.with_name("ledger.key"))
    anchor.unlink()
    with pytest.raises(LedgerCorrupted, match=r"anchor .* is missing"):
        SqliteLedger(path, TERMS, anchor=anchor)
    anchor.write_bytes(anchor_bytes[:-9].replace(b" ", b"x"))
    with pytest.raises(LedgerCorrupted, match="does not hold an event number"):
        SqliteLedger(path, TERMS, anchor=anchor)
    anchor.write_bytes(b"")
    with opened(path, anchor=anchor) as ledger:
        assert ledger.spent() == 10
    assert anchor.read_bytes()


def test_a_key_without_its_ledger_gives_no_fresh_budget(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    with opened(path) as ledger:
        ask(ledger, "a", units=900)
    kept = path.rename(tmp_path / "elsewhere")
    expected = "people.ledger.key exists but people.ledger does not: restore the ledger, or delete the key too if you"
    for settings in ({}, {"shared": True}, {"anchor": tmp_path / "anchor"}):
        with pytest.raises(LedgerCorrupted, match=expected):
            SqliteLedger(path, TERMS, **settings)
    kept.rename(path)
    with opened(path) as ledger:
        assert ledger.spent() == 900
    path.unlink()
    path.with_name("people.ledger.key").unlink()
    with pytest.raises(LedgerCorrupted, match=r"people\.ledger\.head exists but .* delete the head too"):
        SqliteLedger(path, TERMS)
    path.with_name("people.ledger.head").unlink()
    with opened(path) as ledger:
        assert ledger.spent() == 0


@pytest.mark.parametrize("content", [None, b"", b"age,sex\n39,f\n", b"SQLite format 4\x00" * 500])
def test_a_path_that_holds_something_else_is_left_as_it_was(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "people2.csv"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(LedgerCorrupted, match=r"people2\.csv is not a ledger: it is (a directory|another kind)"):
        SqliteLedger(path, TERMS)
    assert list(tmp_path.rglob("*")) == [path]
    assert content is None or path.read_bytes() == content


@pytest.mark.parametrize("data", [b"", b"not a database, but long enough to look at" * 200, b"SQLite format 3\x00"])
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "ledger").write_bytes(data)
    (tmp_path / "ledger.key").write_bytes(bytes(32))
    with pytest.raises(LedgerCorrupted):
        SqliteLedger(tmp_path / "ledger", TERMS)


def test_every_part_of_an_event_is_under_its_mac() -> None:
    chain = Chain(bytes(32))
    macs = {
        chain.link(GENESIS, 1, "boot", "[]", b""),
        chain.link(bytes(31) + b"\x01", 1, "boot", "[]", b""),
        chain.link(GENESIS, 2, "boot", "[]", b""),
        chain.link(GENESIS, 1, "boo", "t[]", b""),
        chain.link(GENESIS, 1, "boot", "[", b"]"),
        chain.link(GENESIS, 1, "boot", "[]", b"\x00"),
        Chain(bytes(31) + b"\x01").link(GENESIS, 1, "boot", "[]", b""),
    }
    assert len(macs) == 7


def test_a_receipt_names_its_place_in_the_stored_chain(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ask(ledger, "a")
        receipt = ledger.verify()
    connection = sqlite3.connect(tmp_path / "ledger")
    seq, mac = connection.execute("SELECT seq, mac FROM event ORDER BY seq DESC").fetchone()
    connection.close()
    assert receipt == Receipt(seq, mac.hex())


def test_macs_are_keyed_blake2b_of_32_bytes_one_for_each_use() -> None:
    """Ledgers and head files hold them, so another length or use would refuse every ledger there is."""
    key = bytes(range(32))
    chain = Chain(key)

    def mac(person: bytes, content: bytes) -> bytes:
        return hashlib.blake2b(content, digest_size=32, key=key, person=person).digest()

    header = GENESIS + (7).to_bytes(8, "big") + (4).to_bytes(4, "big") + (2).to_bytes(4, "big")
    assert chain.link(GENESIS, 7, "boot", "[]", b"x") == mac(b"maquette.event", header + b"boot[]x")
    assert chain.fingerprint("t") == mac(b"maquette.table", b"t").hex()
    assert chain.seal("t") == mac(b"maquette.head", b"t").hex()
    for wrong in (31, 33):
        with pytest.raises(LedgerCorrupted):
            Chain(bytes(wrong))


def test_an_anchor_that_remembers_any_other_event_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "ledger") as ledger:
        ask(ledger, "a")
        receipt = ledger.verify()
    chain = Chain((tmp_path / "ledger.key").read_bytes())
    connection = sqlite3.connect(tmp_path / "ledger")
    assert verify(connection, chain, receipt).receipt == receipt
    for other in (
        Receipt(receipt.seq, "0" * 64),
        Receipt(receipt.seq, "f" * 64),
        Receipt(receipt.seq + 1, receipt.head),
    ):
        with pytest.raises(LedgerCorrupted, match="anchor"):
            verify(connection, chain, other)
    connection.close()


def test_terms_that_change_on_the_way_are_an_event_of_another_ledger() -> None:
    replay = Replay()
    replay.follow(1, "terms", {"limit": 5, "format": 1})
    replay.follow(2, "terms", {"limit": 5, "format": 2})
    with pytest.raises(LedgerCorrupted, match="terms of the ledger changed"):
        replay.follow(3, "terms", {"limit": 6, "format": 2})


@pytest.mark.parametrize(
    ("events", "named"),
    [
        ([("charge", ["a", "ann", "d", 6, None])], "spends 6 units of the analyst ann limit of 5"),
        (
            [("charge", ["a", "ann", "d", 3, None]), ("charge", ["b", "bob", "d", 3, None])],
            "of the table limit",
        ),
        ([("limit", ["ann", 2]), ("charge", ["a", "ann", "d", 3, None])], "analyst ann limit of 2"),
        ([("charge", ["a", "ann", "d", 0, "g"])], "uses 1 of 0 hits of guard 'g'"),
        ([("guard", ["g", 0]), ("charge", ["a", "ann", "d", 0, "g"])], "uses 1 of 0 hits of guard 'g'"),
    ],
)
def test_no_chain_can_say_that_a_limit_was_passed(events: list[tuple[str, object]], named: str) -> None:
    replay = Replay()
    replay.follow(1, "terms", {"limit": 5, "format": 2})
    *before, (kind, facts) = events
    for seq, (earlier, what) in enumerate(before, 2):
        replay.follow(seq, earlier, what)
    with pytest.raises(LedgerCorrupted, match=named):
        replay.follow(9, kind, facts)

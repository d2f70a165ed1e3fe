"""Who gets in: every role, every wrong token, every wrong startup; TLS and channel binding."""

from __future__ import annotations

import secrets
import ssl
import struct
import time
from pathlib import Path

import pytest
from pg_client import Closed, RawClient, fields, problem, rows
from pg_door import Door

from maquette.errors import MaquetteError
from maquette.service.pgwire import TlsFiles, start
from maquette.service.pgwire.scram import certificate_hash
from maquette.service.tokens import new_token

STATEMENTS = {
    "count": "SELECT count(*) FROM people",
    "other": "SELECT count(*) FROM visits",
    "rows": "SELECT * FROM people LIMIT 2",
    "catalogue": "SELECT relname FROM pg_class WHERE relnamespace = 2200",
    "budget": "SHOW maquette.budget",
}
MATRIX = {
    "alice": dict.fromkeys(STATEMENTS, ""),
    "bob": {**dict.fromkeys(STATEMENTS, ""), "other": "42P01"},
    "ina": {**dict.fromkeys(STATEMENTS, ""), "count": "42501", "other": "42501"},
    "custodian": dict.fromkeys(STATEMENTS, ""),
}


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("user", list(MATRIX))
def test_what_a_role_may_do(door: Door, user: str) -> None:
    with RawClient(door.port).login(user, door.tokens[user]) as client:
        for name, sql in STATEMENTS.items():
            said = client.query(sql)
            assert problem(said).get("C", "") == MATRIX[user][name], (user, name, problem(said))
        names = {row[0] for row in rows(client.query(STATEMENTS["catalogue"]))}
        assert names == ({"people"} if user == "bob" else {"people", "visits"})


@pytest.mark.parametrize("user", ["alice", "bob", "custodian", "nobody", "maquette", "postgres"])
def test_wrong_tokens_are_all_refused_alike(door: Door, user: str) -> None:
    others = [token for name, token in door.tokens.items() if name != user]
    for token in [new_token(), "", "x", *others]:
        with RawClient(door.port) as client:
            client.startup(user=user, database="maquette")
            with pytest.raises(PermissionError, match="28P01"):
                client.authenticate(token)
            with pytest.raises(Closed):
                client.message()


def test_a_name_that_does_not_exist_has_a_steady_salt(door: Door) -> None:
    salts = set()
    for _ in range(2):
        with RawClient(door.port) as client:
            client.startup(user="nobody", database="maquette")
            client.message()
            first = b"n,,n=,r=" + secrets.token_hex(9).encode()
            client.send(struct.pack("!ci", b"p", 4 + 14 + 4 + len(first)) + b"SCRAM-SHA-256\0")
            client.send(struct.pack("!i", len(first)) + first)
            _, body = client.message()
            salts.add(body[4:].decode().split(",")[1])
    assert len(salts) == 1


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"user": "alice", "database": "postgres"}, "3D000"),
        ({"user": "alice"}, "3D000"),
        ({"user": "alice", "database": "maquette", "replication": "true"}, "0A000"),
        ({"user": "alice", "database": "maquette", "client_encoding": "LATIN1"}, "22023"),
        ({"database": "maquette"}, "28000"),
    ],
)
def test_wrong_startups(door: Door, given: dict[str, str], code: str) -> None:
    with RawClient(door.port) as client:
        client.startup(**given)
        if "user" in given:
            client.authenticate(door.tokens["alice"])
        found = [fields(body)["C"] for kind, body in client.until("E") if kind == "E"]
        assert found == [code]


def test_versions(door: Door) -> None:
    with RawClient(door.port) as client:
        client.startup(2 << 16, user="alice")
        kind, body = client.message()
        assert (kind, fields(body)["C"]) == ("E", "0A000")
    with RawClient(door.port) as client:
        client.startup((3 << 16) + 2, user="alice", database="maquette", **{"_pq_.more": "1"})
        kind, body = client.message()
        assert (kind, body) == ("v", struct.pack("!ii", 3 << 16, 1) + b"_pq_.more\0")
        client.authenticate(door.tokens["alice"])
        client.until()


def test_a_revoked_token_ends_its_connection(own_door: Door) -> None:
    people = own_door.service.people
    token, facts = people.mint("alice")
    with RawClient(own_door.port).login("alice", token) as client:
        assert list(rows(client.query("SELECT 1"))) == [["1"]]
        people.revoke(facts.id)
        time.sleep(0.3)
        client.send(b"Q\0\0\0\x0dSELECT 1\0")
        kind, body = client.message()
        assert (kind, fields(body)["S"]) == ("E", "FATAL")


def _encrypted(door: Door) -> RawClient:
    client = RawClient(door.port)
    client.send(struct.pack("!ii", 8, 80877103))
    assert client.read(1) == b"S"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client.socket = context.wrap_socket(client.socket)
    return client


def test_channel_binding(door: Door, certificate: TlsFiles) -> None:
    der = ssl.PEM_cert_to_DER_cert(Path(certificate.certificate).read_text())
    right = certificate_hash(der)
    assert right is not None
    plus = {"mechanism": "SCRAM-SHA-256-PLUS", "flag": "p=tls-server-end-point"}
    with _encrypted(door) as client:
        client.startup(user="alice", database="maquette")
        client.authenticate(door.tokens["alice"], binding=right, **plus)
        client.until()
    for wrong in (b"", right[:-1] + b"\0", secrets.token_bytes(len(right))):
        with _encrypted(door) as client:
            client.startup(user="alice", database="maquette")
            with pytest.raises(PermissionError, match="28P01"):
                client.authenticate(door.tokens["alice"], binding=wrong, **plus)
    with _encrypted(door) as client:  # somebody on the way has removed the offer
        client.startup(user="alice", database="maquette")
        with pytest.raises(PermissionError, match="28P01"):
            client.authenticate(door.tokens["alice"], flag="y")


def test_what_is_sent_before_tls_ends_the_connection(door: Door) -> None:
    with RawClient(door.port) as client:
        client.send(struct.pack("!ii", 8, 80877103) + b"Q\0\0\0\x0dSELECT 1\0")
        assert client.read(1) == b"S"
        rest = b""
        while piece := client.socket.recv(4096):
            rest += piece
        assert b"SELECT" not in rest
        assert b"08P01" in rest


def test_without_tls_only_on_this_machine(own_door: Door) -> None:
    with pytest.raises(MaquetteError, match="without TLS"):
        own_door.run(lambda: start(own_door.service, host="0.0.0.0", port=0))


def test_gssapi_is_declined(door: Door) -> None:
    with RawClient(door.port) as client:
        client.send(struct.pack("!ii", 8, 80877104))
        assert client.read(1) == b"N"
        client.login("alice", door.tokens["alice"])

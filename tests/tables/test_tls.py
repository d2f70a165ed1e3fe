"""TLS to PostgreSQL is verified: an unknown certificate and another name are refused, a known one is accepted."""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import maquette as mq
from maquette.curator.table import engine_of
from maquette.errors import UnreadableSource
from postgres_server import Server, running

SCHEMA = mq.Schema([mq.Boolean("a")])
QUERY = "SELECT true AS a FROM generate_series(1, 7)"
pytestmark = pytest.mark.thorough


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that only itself vouches for, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    certificate = folder / "server.crt"
    certificate.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    private = folder / "server.key"
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.touch(mode=0o600)
    private.write_bytes(key.private_bytes(*plain))
    return certificate, private


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Server, Path]]:
    pytest.importorskip("cryptography")
    with running() as found:
        certificate, key = certify(found.folder)
        if found.user is not None:
            shutil.chown(key, found.user, found.user)
            shutil.chown(certificate, found.user, found.user)
        with open(found.folder / "data" / "postgresql.conf", "a", encoding="utf-8") as settings:
            settings.write(f"\nssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n")
        found.restart()
        yield found, certificate


@pytest.mark.parametrize("root", ["nothing", "another"])
def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: tuple[Server, Path], root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    other = f"?sslrootcert={certify(tmp_path)[0]}" if root == "another" else ""
    with pytest.raises(UnreadableSource, match="TLS that can be verified"):
        mq.open_table(server[0].address + other, SCHEMA, query=QUERY)


def test_a_known_certificate_is_accepted_for_its_own_name_only(server: tuple[Server, Path]) -> None:
    address = f"{server[0].address}?sslrootcert={server[1]}"
    opened = mq.open_table(address, SCHEMA, query=QUERY)
    assert engine_of(opened).rows == 7
    with pytest.raises(UnreadableSource, match="TLS that can be verified"):
        mq.open_table(address.replace("127.0.0.1", "localhost"), SCHEMA, query=QUERY)

"""One door for all tests that do not break it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pg_door import Door

from maquette.service.pgwire import Limits, TlsFiles

QUICK = Limits(wrong_seconds=0.0, recheck_seconds=0.2)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    folder = tmp_path_factory.mktemp("tls")
    return write_certificate(folder)


@pytest.fixture(scope="module")  # what one file has asked is known, and free, for the rest of it
def door(tmp_path_factory: pytest.TempPathFactory, certificate: TlsFiles) -> Iterator[Door]:
    door = Door(tmp_path_factory.mktemp("door"), tls=certificate, limits=QUICK)
    yield door
    door.close()


@pytest.fixture
def own_door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path, limits=QUICK)
    yield door
    door.close()


def write_certificate(folder: Path) -> TlsFiles:
    """A certificate for this machine, signed by itself."""
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=30))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA384())
    )
    files = TlsFiles(folder / "cert.pem", folder / "key.pem")
    Path(files.certificate).write_bytes(made.public_bytes(serialization.Encoding.PEM))
    Path(files.key).write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def has(*command: str) -> bool:
    """Whether a program runs here."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0
    except OSError:
        return False

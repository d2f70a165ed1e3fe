"""SCRAM-SHA-256, the server's side: a client proves that it knows a token without sending it.

With TLS the mechanism SCRAM-SHA-256-PLUS also binds the proof to the server's certificate (`tls-server-end-point`), so
a relay with another certificate is refused. The keys, and the steady salt of a name that does not exist, are the
service's (`Scram`): an unknown name fails at the end, as a wrong token does.

References: RFC 5802, RFC 7677 and RFC 5929 section 4.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

PLAIN = "SCRAM-SHA-256"
PLUS = "SCRAM-SHA-256-PLUS"
_NONCE = 18

Who_co = TypeVar("Who_co", covariant=True)


class Refused(Exception):
    """The proof is wrong, or the exchange is not SCRAM."""


class Keys(Protocol[Who_co]):
    """What the service keeps of a user's tokens."""

    @property
    def salt(self) -> bytes:
        """The salt of all tokens of this user."""

    @property
    def iterations(self) -> int:
        """How often the digest is repeated."""

    def prove(self, auth_message: bytes, proof: bytes) -> tuple[Who_co, bytes] | None:
        """Who the proof proves, and the server's signature; None if it is wrong."""


@dataclass
class Exchange(Generic[Who_co]):
    """One exchange: `first` takes the client's first message, `final` its proof.

    `binding` is the hash of the server's certificate under TLS, else None.
    """

    keys: Keys[Who_co]
    mechanism: str
    binding: bytes | None
    _bare: str = ""
    _header: str = ""
    _sent: str = ""
    _nonce: str = ""
    _fresh: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(_NONCE)).decode())

    def first(self, message: bytes) -> bytes:
        """The answer to the client's first message: nonce, salt and iterations."""
        flag, _, rest = _text(message).partition(",")
        identity, _, self._bare = rest.partition(",")
        self._header = f"{flag},{identity},"
        self._check_flag(flag)
        found = _attributes(self._bare)
        nonce = found.get("r", "")
        if (identity and not identity.startswith("a=")) or not nonce or "m" in found or "n" not in found:
            raise Refused("the exchange is not SCRAM")
        self._nonce = nonce + self._fresh
        salt = base64.b64encode(self.keys.salt).decode()
        self._sent = f"r={self._nonce},s={salt},i={self.keys.iterations}"
        return self._sent.encode()

    def final(self, message: bytes) -> tuple[Who_co, bytes]:
        """Whom the proof proves, and the server's last message; a wrong proof is refused."""
        without, _, proof = _text(message).rpartition(",p=")
        found = _attributes(without)
        expected = self._header.encode() + ((self.binding or b"") if self.mechanism == PLUS else b"")
        bound = hmac.compare_digest(_decoded(found.get("c", "")), expected)
        if not bound or not hmac.compare_digest(found.get("r", "").encode(), self._nonce.encode()):
            raise Refused("the channel binding or the nonce is not that of this connection")
        proven = self.keys.prove(f"{self._bare},{self._sent},{without}".encode(), _decoded(proof))
        if proven is None:
            raise Refused("the proof is wrong")
        who, signature = proven
        return who, b"v=" + base64.b64encode(signature)

    def _check_flag(self, flag: str) -> None:
        """`y` says that the server does not offer binding: where it does, somebody removed the offer on the way."""
        if self.mechanism == PLUS:
            right = flag == "p=tls-server-end-point" and self.binding is not None
        else:
            right = flag == "n" or (flag == "y" and self.binding is None)
        if not right:
            raise Refused("the channel binding does not fit this connection")


def mechanisms(binding: bytes | None) -> tuple[str, ...]:
    """What the server offers."""
    return (PLAIN,) if binding is None else (PLUS, PLAIN)


def certificate_hash(certificate: bytes) -> bytes | None:
    """The hash of a certificate (DER) that `tls-server-end-point` binds to; None for a signature without one."""
    from cryptography import x509

    used = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    if used is None:
        return None
    return hashlib.new("sha256" if used.name in ("md5", "sha1") else used.name, certificate).digest()


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise Refused("the exchange is not SCRAM") from None


def _attributes(text: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in text.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        raise Refused("the exchange is not SCRAM") from None

"""Tokens: 256 random bits, shown once, kept as a SHA-256 digest beside the keys of SCRAM-SHA-256.

A token is not a password that somebody chose: it cannot be guessed, so one fast digest is enough, and finding it in an
index reveals nothing. The SCRAM keys are for the PostgreSQL door, which proves the token without sending it (RFC 5802,
RFC 7677). The salt is a function of the user's name and a secret of the service, so all tokens of one user share it,
and an unknown user gets one as well: a stranger cannot tell which names exist.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

from maquette.service.principals import Principal

PREFIX = "mqt_"
BITS = 256
ITERATIONS = 4096
_SHAPE = re.compile(r"mqt_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, repr=False)
class ScramKey:
    """The SCRAM keys of one token, and whom it proves."""

    stored_key: bytes
    server_key: bytes
    principal: Principal

    def __repr__(self) -> str:
        return f"ScramKey({self.principal.name!r})"


@dataclass(frozen=True, repr=False)
class Scram:
    """What a SCRAM exchange with one user needs. A proof is right if it fits one of `keys`; there may be none."""

    salt: bytes
    iterations: int
    keys: tuple[ScramKey, ...]

    def __repr__(self) -> str:
        return f"Scram({len(self.keys)} keys)"

    def prove(self, auth_message: bytes, proof: bytes) -> tuple[Principal, bytes] | None:
        """Check a client's proof (RFC 5802, section 3): the principal and the server's signature, or None.

        Every key is tried, whichever fits, so that the time does not tell which one.
        """
        found: tuple[Principal, bytes] | None = None
        for key in self.keys:
            signature = hmac.digest(key.stored_key, auth_message, "sha256")
            client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=False))
            fits = hmac.compare_digest(hashlib.sha256(client_key).digest(), key.stored_key)
            if len(proof) == len(signature) and fits:
                found = key.principal, hmac.digest(key.server_key, auth_message, "sha256")
        return found


def new_token() -> str:
    """A fresh token."""
    return PREFIX + secrets.token_urlsafe(BITS // 8)


def looks_like_token(text: str) -> bool:
    """Whether the text has the shape of a token."""
    return _SHAPE.fullmatch(text) is not None


def digest_of(token: str) -> str:
    """What is stored of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def salt_of(secret: bytes, user: str) -> bytes:
    """The SCRAM salt of a user, known or not."""
    return hmac.digest(secret, b"scram salt " + user.encode(), "sha256")[:16]


def scram_keys(token: str, salt: bytes, iterations: int = ITERATIONS) -> tuple[bytes, bytes]:
    """StoredKey and ServerKey of RFC 5802."""
    salted = hashlib.pbkdf2_hmac("sha256", token.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hashlib.sha256(client_key).digest(), hmac.digest(salted, b"Server Key", "sha256")

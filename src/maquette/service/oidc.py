"""OpenID Connect: tokens of an institution's own provider, accepted beside ours.

The provider's keys are found by discovery (`/.well-known/openid-configuration`) and read again when a token names
a key that is not known, at most every few seconds. A token is valid if its signature, issuer, audience and times are;
only signatures with a public key are accepted, so nobody can sign with the provider's public key as a shared secret.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from maquette.service.config import PERSON, OidcConfig
from maquette.service.errors import Unauthenticated, Unavailable
from maquette.service.principals import ROLES, Principal

AGAIN = 10.0  # seconds before the provider's keys are read again
FRESH = 3600.0  # seconds after which they are read again in any case
SECONDS = 5.0
MOST = 1_000_000  # bytes of a document


class Provider:
    """One provider: its keys, and the principals that its tokens name."""

    def __init__(
        self,
        config: OidcConfig,
        clock: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock = clock
        self._elapsed = elapsed  # a clock that is set back must not keep old keys
        self._lock = threading.Lock()
        self._keys: Any = None
        self._read = float("-inf")

    def authenticate(self, token: str) -> Principal:
        """Whose token this is; Unauthenticated for any that is not valid now."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        for known in (True, False):
            try:
                decoded = jwt.decode(token, self._key_set(reread=not known), algorithms=list(self._config.algorithms))
            except (JoseError, ValueError, TypeError):
                if known and self._elapsed() - self._read >= AGAIN:
                    continue  # the provider may have a new key
                raise Unauthenticated from None
            return self._principal(decoded.claims)
        raise Unauthenticated

    def _principal(self, claims: dict[str, Any]) -> Principal:
        config, now = self._config, self._clock()
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        times = [claims.get(word) for word in ("exp", "nbf", "iat")]
        if any(one is not None and (isinstance(one, bool) or not isinstance(one, int | float)) for one in times):
            raise Unauthenticated
        ends, begins, issued = times
        right = claims.get("iss") == config.issuer and config.audience in named
        timely = ends is not None and now < ends + config.clock_skew
        timely = timely and all(one is None or one <= now + config.clock_skew for one in (begins, issued))
        name = claims.get(config.name_claim) or claims.get("sub")
        if not (right and timely and isinstance(name, str) and PERSON.fullmatch(name)):
            raise Unauthenticated
        role = claims.get(config.role_claim, "analyst")
        group = claims.get(config.group_claim)
        if role not in ROLES or (group is not None and not (isinstance(group, str) and PERSON.fullmatch(group))):
            raise Unauthenticated
        return Principal(name=name, role=role, group=group)

    def _key_set(self, *, reread: bool) -> Any:
        from joserfc.jwk import KeySet

        with self._lock:
            age = self._elapsed() - self._read
            if self._keys is None or age > FRESH or (reread and age >= AGAIN):
                found = self._get(f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration")
                if found.get("issuer") != self._config.issuer:
                    raise Unavailable("the provider's discovery document names another issuer")
                self._keys = KeySet.import_key_set(self._get(str(found["jwks_uri"])))  # type: ignore[arg-type]
                self._read = self._elapsed()
            return self._keys

    def _get(self, address: str) -> dict[str, Any]:
        safe = address.startswith("https://") or (self._config.allow_http and address.startswith("http://"))
        if not safe:
            raise Unavailable("the provider's discovery document names an address without TLS")
        try:
            with urllib.request.urlopen(address, timeout=SECONDS) as answer:
                found: dict[str, Any] = json.loads(answer.read(MOST))
                return found
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise Unavailable(
                f"the identity provider cannot be read ({type(error).__name__})", advice="try again in a moment"
            ) from None

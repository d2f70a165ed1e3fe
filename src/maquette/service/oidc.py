"""OpenID Connect: tokens of an institution's own provider, accepted beside ours.

The provider's keys are found by discovery (`/.well-known/openid-configuration`) and read again when a token names
a key that is not known, at most every few seconds. A token is valid if its signature, issuer, audience and times are;
only signatures with a public key are accepted, so nobody can sign with the provider's public key as a shared secret.

Anyone can send a token, so reading keys must not keep others waiting: one thread reads them, others wait for it a
moment at most, and a provider that fails is left alone for a few seconds.
"""

from __future__ import annotations

import http.client
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
SECONDS = 5.0  # for one document
PATIENCE = 1.0  # seconds to wait for another thread that reads keys
MOST = 1_000_000  # bytes of a document
LATEST = 2.0**53  # seconds; no time of a token is later


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
        self._read = self._failed = float("-inf")
        self._opener = urllib.request.build_opener(_Safe(self._safe))

    def authenticate(self, token: str) -> Principal:
        """Whose token this is; Unauthenticated for any that is not valid now, Unavailable without the keys."""
        from joserfc import jwt

        for known in (True, False):
            keys = self._key_set(reread=not known)
            try:
                decoded = jwt.decode(token, keys, algorithms=list(self._config.algorithms))
            except Exception:  # whatever a stranger sends is refused in one way
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
        if not all(one is None or _is_time(one) for one in times):
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
        """The provider's keys; only one thread reads them."""
        if not self._wanting(reread):
            return self._keys
        if not self._lock.acquire(timeout=PATIENCE):
            raise _silent("its keys are being read")
        try:
            if self._wanting(reread):
                if self._elapsed() - self._failed < AGAIN:
                    raise _silent("it failed a moment ago")
                try:
                    self._keys, self._read = self._fetch(), self._elapsed()
                except Unavailable:
                    self._failed = self._elapsed()
                    raise
            return self._keys
        finally:
            self._lock.release()

    def _wanting(self, reread: bool) -> bool:
        age = self._elapsed() - self._read
        return self._keys is None or age > FRESH or (reread and age >= AGAIN)

    def _fetch(self) -> Any:
        from joserfc.jwk import KeySet

        found = self._get(f"{self._config.issuer.rstrip('/')}/.well-known/openid-configuration")
        if found.get("issuer") != self._config.issuer:
            raise Unavailable("the provider's discovery document names another issuer")
        listed = self._get(str(found.get("jwks_uri")))
        if not isinstance(listed.get("keys"), list) or not listed["keys"]:
            raise _silent("no keys")
        try:
            return KeySet.import_key_set(listed)  # type: ignore[arg-type]
        except Exception as error:  # a provider's mistake is not the mistake of whoever sent a token
            raise _silent(type(error).__name__) from None

    def _safe(self, address: str) -> bool:
        return address.startswith("https://") or (self._config.allow_http and address.startswith("http://"))

    def _get(self, address: str) -> dict[str, Any]:
        if not self._safe(address):
            raise Unavailable("the provider's discovery document names an address without TLS")
        try:
            with self._opener.open(address, timeout=SECONDS) as answer:
                found = json.loads(_whole(answer))
        except (http.client.HTTPException, OSError, ValueError, RecursionError) as error:
            raise _silent(type(error).__name__) from None
        if not isinstance(found, dict):
            raise _silent("a document that is no object")
        return found


class _Safe(urllib.request.BaseHandler):
    """Asks safe addresses only, also where it was redirected to: keys that came without TLS could be anyone's."""

    def __init__(self, safe: Callable[[str], bool]) -> None:
        self._safe = safe

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        """The request itself, if its address is safe."""
        if not self._safe(request.full_url):
            raise urllib.error.URLError("an address without TLS")
        return request

    ftp_request = http_request


def _whole(answer: Any) -> bytes:
    """All of a document, if it is not too long and comes in time, however slowly its bytes drip."""
    until, found = time.monotonic() + SECONDS, b""
    while piece := answer.read1(65_536):
        found += piece
        if len(found) > MOST or time.monotonic() > until:
            raise ValueError("a document that is too long or too slow")
    return found


def _is_time(given: object) -> bool:
    """Whether a claim is a moment: bools and numbers beyond floats are not."""
    return isinstance(given, int | float) and not isinstance(given, bool) and -LATEST <= given <= LATEST


def _silent(why: str) -> Unavailable:
    return Unavailable(f"the identity provider cannot be read ({why})", advice="try again in a moment")

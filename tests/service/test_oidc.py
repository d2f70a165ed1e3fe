"""OpenID Connect against a real provider process: discovery, keys, rotation, and every wrong token."""

from __future__ import annotations

import base64
import functools
import json
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rooms import house, settings

from maquette.service import Unauthenticated, Unavailable
from maquette.service.config import OidcConfig
from maquette.service.oidc import AGAIN, Provider
from needs import needs

needs("joserfc")

PROVIDER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        issuer = f"http://127.0.0.1:{self.server.server_port}"
        if self.path == "/.well-known/openid-configuration":
            body = json.dumps({"issuer": issuer, "jwks_uri": issuer + "/keys"}).encode()
        else:
            body = open(sys.argv[1], "rb").read()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@functools.cache
def rsa() -> Any:
    from joserfc.jwk import RSAKey

    return RSAKey.generate_key(2048, {"kid": "one"})


@functools.cache
def elliptic() -> Any:
    from joserfc.jwk import ECKey

    return ECKey.generate_key("P-256", {"kid": "two"})


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    keys = tmp_path_factory.mktemp("provider") / "keys.json"
    keys.write_text(json.dumps({"keys": [rsa().as_dict(private=False)]}))
    process = subprocess.Popen([sys.executable, "-c", PROVIDER, str(keys)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}", keys
    process.terminate()
    process.wait(60)


def token(issuer: str, key: Any = None, algorithm: str = "RS256", **changed: Any) -> str:
    from joserfc import jwt

    key = key or rsa()
    now = int(time.time())
    claims = {"iss": issuer, "aud": "maquette", "sub": "x", "preferred_username": "ada", "exp": now + 60, "iat": now}
    claims = {name: value for name, value in {**claims, **changed}.items() if value is not None}
    return jwt.encode({"alg": algorithm, "kid": key.kid}, claims, key, algorithms=[algorithm])


def test_tokens_of_a_provider(provider: tuple[str, Path]) -> None:
    from joserfc.jwk import OctKey, RSAKey

    issuer, keys = provider
    clock, elapsed = [time.time()], [0.0]
    config = OidcConfig(issuer=issuer, audience="maquette", allow_http=True)
    known = Provider(config, lambda: clock[0], lambda: elapsed[0])
    ada = known.authenticate(token(issuer))
    assert (ada.name, ada.role) == ("ada", "analyst")
    assert known.authenticate(token(issuer, aud=["other", "maquette"], maquette_role="auditor")).role == "auditor"
    assert known.authenticate(token(issuer, maquette_group="team")).account == "team/ada"
    assert known.authenticate(token(issuer, exp=int(time.time()) - 30)).name == "ada", "within the clock's skew"
    wrong = [
        token(issuer, aud="another"),
        token("http://127.0.0.1:1"),
        token(issuer, exp=int(time.time()) - 3600),
        token(issuer, exp=None),
        token(issuer, nbf=int(time.time()) + 3600),
        token(issuer, preferred_username="a b", sub="/"),
        token(issuer, maquette_role="root"),
        token(issuer, RSAKey.generate_key(2048, {"kid": "one"})),
        token(issuer)[:-4] + "AAAA",
        token(issuer, OctKey.import_key("secret" * 8, {"kid": "one"}), "HS256"),
        token(issuer).rpartition(".")[0] + ".",
        "a.b.c",
        "",
    ]
    for bad in wrong:
        with pytest.raises(Unauthenticated):
            known.authenticate(bad)
    with pytest.raises(Unauthenticated):
        known.authenticate(token(issuer, elliptic(), "ES256"))
    keys.write_text(json.dumps({"keys": [rsa().as_dict(private=False), elliptic().as_dict(private=False)]}))
    elapsed[0] += AGAIN
    clock[0] -= 30  # set back: it must not keep old keys
    assert known.authenticate(token(issuer, elliptic(), "ES256")).name == "ada", "the provider's new key is read"


def test_a_service_accepts_them_beside_its_own(provider: tuple[str, Path], tmp_path: Path) -> None:
    issuer, _ = provider
    config = settings(tmp_path, oidc=OidcConfig(issuer=issuer, audience="maquette", allow_http=True))
    with house(config) as made:
        made.tokens["oidc"] = token(issuer)
        assert made.call("oidc", "GET", "/v1/me").json() == {
            "name": "ada",
            "role": "analyst",
            "group": None,
            "tables": ["people"],
        }
        made.tokens["oidc"] = token(issuer, aud="another")
        assert made.call("oidc", "GET", "/v1/me").status_code == 401
        assert made.call("ada", "GET", "/v1/me").status_code == 200


def by_hand(header: object, payload: object = None) -> str:
    parts = (json.dumps(header).encode(), json.dumps(payload or {"sub": "ada"}).encode(), b"x" * 64)
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def test_tokens_made_by_hand_are_refused_in_one_way(provider: tuple[str, Path]) -> None:
    issuer, _ = provider
    known = Provider(OidcConfig(issuer=issuer, audience="maquette", allow_http=True))
    public = rsa().as_dict(private=False)
    algorithms: list[object] = ["none", "HS256", "ES256", "EdDSA", "", None, 5, [], {}, ["RS256"]]
    headers: list[dict[str, object]] = [{"alg": alg, "kid": "one"} for alg in algorithms]
    headers += [{"alg": "RS256"}, {"kid": "one"}, {"alg": "RS256", "kid": 1}, {"alg": "RS256", "kid": "one", "crit": 5}]
    headers += [{"alg": "RS256", "jwk": public}, {"alg": "RS256", "kid": "one", "b64": False, "crit": ["b64"]}]
    odd: list[object] = [*headers, [], ["alg"], "alg", 5, None, {"alg": {"alg": [[[[]]]]}}]
    for header in odd:
        with pytest.raises(Unauthenticated):
            known.authenticate(by_hand(header))


@pytest.mark.parametrize("word", ["exp", "nbf", "iat"])
def test_times_beyond_floats_are_refused(provider: tuple[str, Path], word: str) -> None:
    issuer, _ = provider
    known = Provider(OidcConfig(issuer=issuer, audience="maquette", allow_http=True))
    times: list[Any] = [10**400, True, "5", [], 2.0**60]
    for odd in times:
        changed: dict[str, Any] = {word: odd}
        with pytest.raises(Unauthenticated):
            known.authenticate(token(issuer, **changed))


DOCUMENTS = ["[]", "5", "", "{}", '{"keys": 5}', '{"keys": []}', '{"keys": [5]}', "[" * 50_000]


@pytest.mark.parametrize("document", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_provider_that_misbehaves_is_not_available(provider: tuple[str, Path], document: str) -> None:
    issuer, keys = provider
    usual = keys.read_text()
    keys.write_text(document)
    try:
        known = Provider(OidcConfig(issuer=issuer, audience="maquette", allow_http=True))
        with pytest.raises(Unavailable, match="identity provider cannot be read"):
            known.authenticate(token(issuer))
    finally:
        keys.write_text(usual)


def test_a_provider_that_fails_is_left_alone_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, elapsed = [], [0.0]

    def away(_: Provider, address: str) -> Any:
        asked.append(address)
        raise Unavailable("away")

    monkeypatch.setattr(Provider, "_get", away)
    config = OidcConfig(issuer="https://provider.test", audience="maquette")
    known = Provider(config, elapsed=lambda: elapsed[0])
    for _ in range(20):
        with pytest.raises(Unavailable):
            known.authenticate("a.b.c")
    assert len(asked) == 1, "a stranger must not make the service wait for the provider again and again"
    elapsed[0] += AGAIN
    with pytest.raises(Unavailable):
        known.authenticate("a.b.c")
    assert len(asked) == 2


def test_whoever_comes_while_keys_are_read_does_not_wait_for_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, ended, told = threading.Event(), threading.Event(), list[Exception]()

    def slow(_: Provider, address: str) -> Any:
        reading.set()
        ended.wait(60)
        raise Unavailable("away")

    def come() -> None:
        try:
            known.authenticate("a.b.c")
        except Exception as error:
            told.append(error)

    monkeypatch.setattr(Provider, "_get", slow)
    monkeypatch.setattr("maquette.service.oidc.PATIENCE", 0.01, raising=False)
    known = Provider(OidcConfig(issuer="https://provider.test", audience="maquette"))
    first, second = threading.Thread(target=come), threading.Thread(target=come)
    first.start()
    assert reading.wait(60)
    second.start()
    second.join(5)
    waits = second.is_alive()
    ended.set()
    first.join(60)
    second.join(60)
    assert not waits
    assert [type(error) for error in told] == [Unavailable, Unavailable]


def test_keys_are_not_read_without_tls_wherever_an_address_leads(provider: tuple[str, Path]) -> None:
    """The first address was checked; urllib followed a redirection to any other."""
    known = Provider(OidcConfig(issuer="https://provider.test", audience="maquette"))
    for address in (f"{provider[0]}/keys", "ftp://127.0.0.1/keys"):
        with pytest.raises(urllib.error.URLError, match="without TLS"):
            known._opener.open(address)

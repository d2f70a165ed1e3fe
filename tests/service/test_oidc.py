"""OpenID Connect against a real provider process: discovery, keys, rotation, and every wrong token."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rooms import house, settings

from maquette.service import Unauthenticated
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

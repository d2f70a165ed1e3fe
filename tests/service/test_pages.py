"""The console's files over HTTP: compressed, named by their content, and nothing but themselves."""

from __future__ import annotations

import gzip
from pathlib import Path

from rooms import House

from maquette.service import console

STATIC = Path(console.__file__).parent / "static"


def test_files_are_sent_compressed_and_kept_until_they_change(shared: House) -> None:
    plain = shared.call(None, "GET", "/vendor/codemirror.js", headers={"Accept-Encoding": "identity"})
    assert plain.content == (STATIC / "vendor" / "codemirror.js").read_bytes()
    assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
    assert plain.headers["cache-control"] == "no-cache"
    packed = shared.call(None, "GET", "/vendor/codemirror.js", headers={"Accept-Encoding": "gzip"})
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(gzip.compress(plain.content)) + 1_000
    again = shared.call(None, "GET", "/vendor/codemirror.js", headers={"If-None-Match": plain.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "default-src 'none'" in again.headers["content-security-policy"]


def test_the_index_is_at_the_root_and_nothing_else_is_found(shared: House) -> None:
    assert b"<title>Maquette</title>" in shared.call(None, "GET", "/").content
    for path in ("/nothing.js", "/../__init__.py", "/%2e%2e/__init__.py", "/views", "/v1/no"):
        assert shared.call(None, "GET", path).status_code == 404, path
    assert shared.call(None, "POST", "/app.js").status_code == 405
    head = shared.call(None, "HEAD", "/app.js")
    assert (head.status_code, head.content) == (200, b"")


def test_answers_are_never_compressed(shared: House) -> None:
    told = shared.call(None, "GET", "/v1/openapi.json", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in told.headers

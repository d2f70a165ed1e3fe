"""Malformed HTTP requests to a real server, over loopback: python benchmarks/serve_fuzz.py --requests 100000 --record.

Half of them are whole requests to a route of the OpenAPI document, or near one, with headers and bodies that are odd;
the others are the bytes of a request with some of them changed, doubled, dropped or cut off. They are sent with the
token of an analyst, a wrong one, or none. A finding is a reply of 5xx, a refusal that is no problem document, a reply
that takes over two seconds, a connection that is neither answered nor closed, a server that no longer answers, or more
charges than answers. Memory is read after a tenth and at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

from recording import record
from serve import MAIN, first_line

SENDERS, BATCH = 64, 2_000  # most that is cut off waits until the server closes
SLOW = 2.0  # seconds, beside the one that a request may take to arrive
PATIENCE = 8.0  # seconds a raw connection may stay open without a reply; the server's own limit is shorter
CONFIG = (
    'port = 0\nlog_level = "warning"\n[limits]\nasks_per_minute = 100000000\nwrong_tokens_per_minute = 100000000\n'
    "request_seconds = 1\nidle_seconds = 1\n"
    '[[table]]\nname = "survey"\nsource = "demo://survey"\nepsilon = 20.0\ndelta = 1e-9\nalpha = 0.02\n'
)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, 10**400, "", "survey", "smoker", "age >= 30", "\x00", "\ud800", "a" * 20_000, "(" * 3_000,
    "SELECT count(*) FROM survey GROUP BY region", "SELECT * FROM survey", "1/0", [], {}, [[]] * 50, {"sql": {}},
    [{"where": "smoker"}], {"$ref": "#"}, "../../etc", "%00", "NaN", 0.05, "2024-02-30", "'; DROP TABLE survey --",
)  # fmt: skip
NAMES = (
    "sql",
    "where",
    "questions",
    "alpha",
    "beta",
    "confidence",
    "max_cost",
    "name",
    "epsilon",
    "rows",
    "format",
    "more",
)
HEADERS = (
    ("Content-Type", "text/plain"), ("Content-Type", "application/json; charset=utf-16"), ("Content-Length", "-1"),
    ("Content-Length", "7, 7"), ("Transfer-Encoding", "chunked, identity"), ("Idempotency-Key", "\x7f"),
    ("Idempotency-Key", "k" * 5_000), ("Accept", "application/vnd.apache.arrow.stream"), ("Expect", "100-continue"),
    ("Range", "bytes=0-"), ("Host", "example.org"), ("Cookie", "session=x; session=y"), ("Origin", "null"),
    ("If-Match", '"x"'), ("Upgrade", "h2c"), ("Accept", "*/*;q=2"),
)  # fmt: skip


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    """The methods and paths of the API, but for events that never end."""
    found = [(method.upper(), path) for path, item in document["paths"].items() for method in item]
    return [(method, path) for method, path in found if not path.endswith("/events")]


def body_of(rng: random.Random) -> bytes:
    """A JSON body of known and unknown names with odd values; at times no JSON at all."""
    made: Any = {rng.choice(NAMES): rng.choice(ODD) for _ in range(rng.randrange(4))}
    if rng.random() < 0.2:
        made = rng.choice(ODD)
    elif rng.random() < 0.1:
        made = {"where": f"age >= {rng.randrange(18, 97)} AND {rng.choice(('smoker', 'diabetes'))}"}
    text = json.dumps(made)
    if rng.random() < 0.2:
        cut = rng.randrange(len(text) + 1)
        text = text[:cut] + rng.choice(("", "}", "\x00", "[" * 300, "é", text)) + text[cut:]
    return text.encode("utf-8", "surrogatepass")


def request_of(rng: random.Random, known: list[tuple[str, str]], tokens: list[str]) -> bytes:
    """The bytes of one request: a route, odd values in its path and query, odd headers, an odd body."""
    method, path = rng.choice(known)
    while "{" in path:
        before, _, rest = path.partition("{")
        value = rng.choice(("survey", "survey", "x", "..%2f..", "%00", "a" * 300, "%ff", "1"))
        path = before + value + rest.partition("}")[2]
    if rng.random() < 0.2:
        path += rng.choice(
            ("?", "?rows=-1", "?format=exe", "?rows=1e9", "?a=%00&a", "/", "//", ";x", "?limit=99999999999")
        )
    if rng.random() < 0.05:
        method = rng.choice(("TRACE", "PATCH", "get", "CONNECT", "FOO", "OPTIONS"))
    body = body_of(rng) if method not in ("GET", "HEAD") or rng.random() < 0.1 else b""
    headers = {"Host": "127.0.0.1", "Content-Type": "application/json", "Content-Length": str(len(body))}
    if token := rng.choice(tokens):
        headers["Authorization"] = token
    if rng.random() < 0.25:
        name, value = rng.choice(HEADERS)
        headers[name] = value
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n".encode() + body


def mutated(rng: random.Random, whole: bytes) -> bytes:
    """The same with some bytes changed, doubled or dropped, or cut off."""
    content = bytearray(whole)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(content) or 1)
        kind = rng.randrange(4)
        if kind == 0 and content:
            content[place] = rng.randrange(256)
        elif kind == 1:
            content[place:place] = rng.choice((b"\r\n", b"\x00", b" ", b":", b"\n", content[place : place + 40]))
        elif kind == 2:
            del content[place : place + rng.randrange(1, 9)]
        else:
            del content[place : None if rng.random() < 0.1 else place + 1]
    return bytes(content)


def sent(port: int, content: bytes) -> tuple[bytes, float]:
    """Everything that comes back until the server closes, and how long the first of it took."""
    began, first, received = time.perf_counter(), 0.0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(content)
            while part := connection.recv(1 << 16):
                first = first or time.perf_counter() - began
                received += part
        except ConnectionError:
            pass
    return received, first


def judged(reply: bytes, seconds: float) -> Iterator[str]:
    """What is wrong with a reply. None at all is allowed: the request may have been cut off."""
    if not reply:
        return
    head, _, content = reply.removeprefix(CONTINUE).partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0
    if not 200 <= status < 500:
        yield f"status {status}"
    if seconds > 1.0 + SLOW:
        yield f"{seconds:.1f} s"
    if (
        status >= 400
        and content
        and b"application/problem+json" not in head.lower()
        and b"text/plain" not in head.lower()
    ):
        yield f"a refusal {status} that is no problem"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=1_200.0, help="stop after this much time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "maquette.toml"
        config.write_text(CONFIG)
        command = [*MAIN, "serve", "--config", str(config), "--json", "--pg-port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                figures = measured(first_line(server), psutil.Process(server.pid), given)
            finally:
                server.terminate()
    print(json.dumps(figures, indent=1))
    if given.record:
        record("serve_fuzz", figures)


def measured(told: dict[str, Any], process: psutil.Process, given: argparse.Namespace) -> dict[str, Any]:
    """Send all requests, and judge every reply."""
    rng = random.Random(given.seed)
    custodian = httpx.Client(base_url=told["url"], headers={"Authorization": f"Bearer {told['token']}"}, timeout=60)
    made = custodian.post("/v1/tokens", json={"name": "ada", "role": "analyst"})
    made.raise_for_status()
    tokens = [f"Bearer {made.json()['token']}"] * 8 + ["Bearer x", "Basic eDp5", ""]
    port, known = custodian.base_url.port or 0, operations(custodian.get("/v1/openapi.json").json())
    assert known
    statuses: Counter[str] = Counter()
    findings: list[str] = []
    number, answers, early, slowest, began = 0, 0, 0, 0.0, time.monotonic()

    def tried(content: bytes) -> tuple[bytes, str, float, list[str], bool]:
        """What was sent, the status, how long it took, what is wrong with it, and whether it tells a price."""
        try:
            reply, seconds = sent(port, content)
        except TimeoutError:
            return content, "open", PATIENCE, [f"neither answered nor closed within {PATIENCE:g} s"], False
        told = reply.removeprefix(CONTINUE)
        status = told.split(b" ", 2)[1].decode("ascii", "replace") if told else "closed"
        return content, status, seconds, list(judged(reply, seconds)), status == "200" and b'"cost"' in told

    with ThreadPoolExecutor(SENDERS) as pool:
        while number < given.requests and time.monotonic() - began < given.seconds:
            drawn = [request_of(rng, known, tokens) for _ in range(min(BATCH, given.requests - number))]
            sendings = [mutated(rng, whole) if i % 2 else whole for i, whole in enumerate(drawn)]
            for content, status, seconds, wrong, priced in pool.map(tried, sendings):
                statuses[status] += 1
                answers += priced
                slowest = max(slowest, seconds)
                if wrong:
                    findings.append(f"{wrong}: {content[:300]!r}")
                    print(findings[-1], flush=True)
            number += len(drawn)
            if not early and number >= given.requests // 10:
                early = process.memory_info().rss
    charges = sum(charge["analyst"] == "ada" for charge in custodian.get("/v1/tables/survey/charges").json()["charges"])
    if charges > answers:
        findings.append(f"{charges} charges for {answers} answers")
    answered = custodian.post("/v1/tables/survey/ask", json={"where": "age >= 50 AND smoker"})
    return {
        "requests": number,
        "findings": len(findings),
        "charges": charges,
        "statuses": dict(sorted(statuses.items())),
        "slowest_s": round(slowest, 2),
        "megabytes": [round(early / 2**20), round(process.memory_info().rss / 2**20)],
        "serves": answered.status_code == 200,
    }


if __name__ == "__main__":
    main()

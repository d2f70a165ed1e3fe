"""A small service for tests: a generated table, people in every role, and a client inside the process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from needs import needs

pytest.importorskip("sqlalchemy")

import maquette as mq
from maquette.service import AnalystConfig, Limits, Service, ServiceConfig, TableConfig
from maquette.service.config import GroupConfig

needs("fastapi")

ROWS = 4_000
CANARY = "zweihundertvierzig"  # a level that only rows can reveal the share of
SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99, width=10),
        mq.Category("city", ["Paris", "Rome", CANARY]),
        mq.Boolean("smoker"),
        mq.Boolean("a"),
        mq.Boolean("b"),
    ]
)


def rows(count: int = ROWS, seed: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 100, count).tolist(),
        "city": rng.choice(["Paris", "Rome", CANARY], count).tolist(),
        "smoker": (rng.random(count) < 0.3).tolist(),
        "a": (rng.random(count) < 0.5).tolist(),
        "b": (rng.random(count) < 0.1).tolist(),
    }


def write_table(folder: Path, name: str = "people", count: int = ROWS, seed: int = 5) -> tuple[str, str]:
    """A CSV file and its schema file."""
    import pyarrow as pa
    import pyarrow.csv

    pyarrow.csv.write_csv(pa.table(rows(count, seed)), folder / f"{name}.csv")
    (folder / f"{name}.schema.toml").write_text(SCHEMA.dumps())
    return str(folder / f"{name}.csv"), str(folder / f"{name}.schema.toml")


def settings(folder: Path, **changed: Any) -> ServiceConfig:
    source, schema = write_table(folder)
    table = TableConfig(name="people", source=source, schema=schema, epsilon=5.0, delta=1e-9, alpha=0.05)
    other = replace(table, name="other", source=write_table(folder, "other", seed=6)[0], epsilon=1.0)
    config = ServiceConfig(
        directory=folder / "data",
        tables=(table, other),
        analysts=(
            AnalystConfig(name="ada", tables=("people",)),
            AnalystConfig(name="bob", tables=("people",), epsilon=0.1),
            AnalystConfig(name="gus", group="team"),
        ),
        groups=(GroupConfig(name="team", epsilon=0.12),),
        limits=Limits(wrong_tokens_per_minute=100_000),
        port=0,
        pg_port=None,
    )
    return replace(config, **changed)


@dataclass
class House:
    """A started service and the tokens of its people."""

    service: Service
    tokens: dict[str, str] = field(default_factory=dict)
    app: Any = None

    def client(self, who: str | None = None, **given: Any) -> httpx.AsyncClient:
        from maquette.service.http import make_app

        headers = {} if who is None else {"Authorization": f"Bearer {self.tokens[who]}"}
        if self.app is None:
            self.app = make_app(self.service)
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers, **given)

    def call(self, who: str | None, method: str, path: str, **given: Any) -> httpx.Response:
        """One request, in a loop of its own."""
        import asyncio

        async def send() -> httpx.Response:
            async with self.client(who) as client:
                return await client.request(method, path, **given)

        return asyncio.run(send())

    def ask(self, who: str, text: str, table: str = "people", **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call(who, "POST", f"/v1/tables/{table}/ask", json={"where": text}, headers=named)


@contextlib.contextmanager
def house(config: ServiceConfig) -> Iterator[House]:
    with Service(config) as service:
        made = House(service)
        made.tokens["custodian"] = service.custodian_token()
        for name, role in (("ada", "analyst"), ("bob", "analyst"), ("gus", "analyst"), ("ann", "auditor")):
            made.tokens[name] = service.people.mint(name, role)[0]  # type: ignore[arg-type]
        yield made

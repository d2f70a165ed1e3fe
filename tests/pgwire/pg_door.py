"""A service with its PostgreSQL door, in a thread of the test; and who may use it."""

from __future__ import annotations

import asyncio
import datetime as dt
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import maquette as mq
from maquette.service import AnalystConfig, Service, ServiceConfig, TableConfig
from maquette.service.pgwire import Limits, TlsFiles, start
from maquette.service.pgwire.starting import Listening
from maquette.service.running import new_event_loop

SCHEMA = mq.Schema(
    [
        mq.Integer("age", 0, 99),
        mq.Category("region", ["north", "south", "east", "it's west"]),
        mq.Boolean("smoker"),
        mq.Number("height", 100, 220, bins=12),
        mq.Date("born", "1950-01-01", "1999-12-31", unit="year"),
    ]
)
ROWS = 400


def write_table(folder: Path, rows: int = ROWS, name: str = "people", seed: int = 5) -> tuple[Path, Path]:
    """A table of people and its schema file."""
    made = random.Random(seed)
    lines = ["age,region,smoker,height,born"]
    for _ in range(rows):
        day = dt.date(made.randrange(1950, 2000), made.randrange(1, 13), made.randrange(1, 28))
        region = made.choice(["north", "south", "south", "east", "it's west"])
        lines.append(f"{made.randrange(100)},{region},{made.random() < 0.3},{made.uniform(100, 219):.1f},{day}")
    table, schema = folder / f"{name}.csv", folder / f"{name}.schema.toml"
    table.write_text("\n".join(lines) + "\n")
    SCHEMA.save(schema)
    return table, schema


def config(folder: Path, **changes: Any) -> ServiceConfig:
    """Two tables, three analysts."""
    shared: dict[str, Any] = {"epsilon": 20.0, "delta": 1e-9, "alpha": 0.1, "promise": "each"}
    files = [(name, *write_table(folder, name=name, seed=seed)) for name, seed in (("people", 5), ("visits", 6))]
    tables = tuple(
        TableConfig(name=name, source=str(rows), schema=str(schema), **shared) for name, rows, schema in files
    )
    people = (
        AnalystConfig(name="alice"),
        AnalystConfig(name="bob", tables=("people",)),
        AnalystConfig(name="ina", role="auditor"),
    )
    return ServiceConfig(directory=folder / "state", tables=tuple(tables), analysts=people, **changes)


class Door:
    """A running door. `tokens` are those of alice, bob, ina and the custodian."""

    def __init__(self, folder: Path, *, tls: TlsFiles | None = None, limits: Limits | None = None) -> None:
        self.service = Service(config(folder))
        self.service.start()
        people = self.service.people
        self.tokens = {name: people.mint(name)[0] for name in ("alice", "bob")}
        self.tokens["ina"] = people.mint("ina", "auditor")[0]
        self.tokens["custodian"] = self.service.custodian_token()
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.server: Listening = self.run(lambda: start(self.service, host="127.0.0.1", port=0, tls=tls, limits=limits))
        self.port: int = self.server.sockets[0].getsockname()[1]

    def run(self, work: Callable[[], Any]) -> Any:
        """Run a coroutine on the door's loop."""

        async def called() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result(30)

    def units(self, table: str = "people") -> int:
        """What was spent on a table."""
        return self.service.tables[table].session.spent.units

    def dsn(self, user: str = "alice", **more: str) -> str:
        """A connection string of libpq."""
        known = {"host": "127.0.0.1", "port": str(self.port), "user": user, "dbname": "maquette"}
        known |= {"password": self.tokens.get(user, "x"), "sslmode": "disable", **more}
        return " ".join(f"{name}={value}" for name, value in known.items())

    def url(self, driver: str = "postgresql", user: str = "alice") -> str:
        """A connection address."""
        return f"{driver}://{user}:{self.tokens[user]}@127.0.0.1:{self.port}/maquette"

    def close(self) -> None:
        """Stop everything."""

        async def stop() -> None:
            self.server.close()
            await asyncio.sleep(0.05)

        self.run(stop)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self.service.close()

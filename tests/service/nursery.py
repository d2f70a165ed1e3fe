"""A process that has imported everything and forks servers from itself: a start then costs no imports.

Every line on its standard input orders one server: an id, a settings file, and perhaps a place in the program and a
number of passages: the server ends itself with SIGKILL when it has passed that place so often. Each server says where
it is reached in one line on standard output, under the id of its order.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

PLACES = ("charging", "charge written", "charged", "drawn", "recorded", "reply kept")


def main() -> None:
    """Fork a server for every line, until there are no more."""
    _warm()
    signal.signal(signal.SIGCHLD, _bury)
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _serve(json.loads(line))


def _bury(*_: object) -> None:
    """Collect the servers that have ended, and the time they took."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _warm() -> None:
    """Load what a server loads, by asking one question of a small table in memory."""
    import fastapi.openapi.utils  # noqa: F401
    import psycopg  # noqa: F401
    import sqlalchemy.dialects.sqlite  # noqa: F401
    import uvicorn.lifespan.off
    import uvicorn.loops.auto
    import uvicorn.protocols.http.auto  # noqa: F401

    import maquette as mq
    from maquette.privacy.ledger import SharedPostgresLedger  # noqa: F401
    from maquette.service import load_config, pgwire, run  # noqa: F401
    from maquette.service.http import make_app  # noqa: F401

    schema = mq.Schema([mq.Boolean("a"), mq.Boolean("b")])
    table = mq.open_table({"a": [True, False], "b": [True, False]}, schema)
    mq.online(mq.Curator(table, mq.Budget(epsilon=50.0)), alpha=0.5, rows=1_000).ask("a AND b")


def _serve(order: dict[str, Any]) -> None:
    """Run one server in this process, to its end."""
    from maquette.service import load_config, run

    def tell(running: Any) -> None:
        told = {"id": order["id"], "pid": os.getpid(), "url": running.url, "token": running.token}
        os.write(1, json.dumps(told).encode() + b"\n")  # in one piece: others write there too
        if order["place"] is not None:
            _die_at(order["place"], order["passages"])

    try:
        os.setpgrp()
        run(load_config(Path(order["config"])), tell)
    except BaseException:
        os.write(1, json.dumps({"id": order["id"], "failed": traceback.format_exc()}).encode() + b"\n")
    finally:
        os._exit(0)


def _die_at(place: str, passages: int) -> None:
    """End this process, without a word, when it passes a place for the so-manieth time."""
    from maquette.privacy.ledger import SharedPostgresLedger, Ticket
    from maquette.privacy.ledger.postgres import Connection
    from maquette.service.served import ServedTable

    left = passages

    def passing() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def commits(given: tuple[Any, ...], _: Any = None) -> bool:
        return given[1] == "COMMIT"

    def tickets(_: tuple[Any, ...], result: Any) -> bool:
        return isinstance(result, Ticket)

    def always(*_: Any) -> bool:
        return True

    if place == "charging":
        _before(Connection, "execute", commits, passing)
    elif place == "charge written":
        _after(Connection, "execute", commits, passing)
    elif place == "charged":
        _after(SharedPostgresLedger, "reserve", tickets, passing)
    elif place == "drawn":
        _before(SharedPostgresLedger, "commit", always, passing)
    elif place == "recorded":
        _after(SharedPostgresLedger, "commit", always, passing)
    else:
        _after(ServedTable, "_keep_reply", always, passing)


def _before(owner: type, name: str, counts: Callable[..., bool], passing: Callable[[], None]) -> None:
    work = getattr(owner, name)

    def watched(*given: Any, **named: Any) -> Any:
        if counts(given):
            passing()
        return work(*given, **named)

    setattr(owner, name, watched)


def _after(owner: type, name: str, counts: Callable[..., bool], passing: Callable[[], None]) -> None:
    work = getattr(owner, name)

    def watched(*given: Any, **named: Any) -> Any:
        result = work(*given, **named)
        if counts(given, result):
            passing()
        return result

    setattr(owner, name, watched)


if __name__ == "__main__":
    main()

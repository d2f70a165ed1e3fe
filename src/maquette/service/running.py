"""Running: the service with its doors in one process, from start to a clean stop."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from logging import INFO, WARNING
from typing import TYPE_CHECKING, Any

from maquette.service.config import LOOPBACK, ServiceConfig
from maquette.service.engine import Service
from maquette.service.errors import ConfigError
from maquette.service.telemetry import set_up_logs
from maquette.service.tracing import set_up

if TYPE_CHECKING:
    from maquette.service.pgwire.starting import Listening

PGWIRE = "maquette.service.pgwire"
MEND = 1.0  # seconds between two looks for ledgers that have stopped; twice as many after each vain attempt, up to 30
YOUNG = 10_000  # new objects after which unreachable ones among them are looked for
SWITCH = 0.001  # seconds after which a thread that computes lets another go on
GRACE = 10  # seconds for open requests when the service stops


@dataclass(frozen=True)
class Running:
    """Where a started service is reached."""

    url: str
    postgres: str | None
    token: str
    token_file: str
    tables: tuple[str, ...]


def run(config: ServiceConfig, tell: Callable[[Running], None]) -> None:
    """Start the service and its doors, tell where they are, and serve until SIGINT or SIGTERM."""
    set_up_logs(config.log_level)
    config.check()
    # Whoever reads requests or writes the ledger needs the interpreter often and briefly: plans must not hold it long.
    sys.setswitchinterval(SWITCH)
    _allow_files()
    if config.opentelemetry:
        set_up()
    listening = _listen(config.host, config.port)
    with Service(config) as service, asyncio.Runner(loop_factory=new_event_loop) as runner, _settled():
        runner.run(_serve(service, listening, tell))


@contextmanager
def _settled() -> Iterator[None]:
    """Leave what the start has made out of the search for unreachable objects: it stays, and everybody waits for it."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)
    try:
        yield
    finally:  # at the end of the process all of it is given back, as without this
        gc.unfreeze()
        gc.set_threshold(*before)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop for the doors: uvloop's where it is installed, which takes less of a request's time than Python's own."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    made: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return made


def http_parser() -> Any:
    """What reads HTTP requests, for uvicorn: httptools where it is installed, else h11."""
    if importlib.util.find_spec("httptools") is None:
        return "h11"
    return importlib.import_module("maquette.service.http.parsing").BoundedProtocol


def http_config(service: Service, parser: Any = None) -> Any:
    """How uvicorn serves the HTTP door; `parser` is one that `http_parser` would not choose."""
    import uvicorn

    from maquette.service.http import make_app, punctual

    config = service.config
    settings: dict[str, Any] = {}
    if config.tls_certificate is not None:
        settings = {"ssl_certfile": config.tls_certificate, "ssl_keyfile": config.tls_key}
    return uvicorn.Config(
        make_app(service),
        http=punctual(parser or http_parser(), config.limits.request_seconds, config.limits.connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=config.trust_proxy,
        lifespan="off",
        timeout_keep_alive=int(config.limits.idle_seconds),
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=2 * config.limits.header_bytes,
        backlog=2048,
        **settings,
    )


async def _serve(service: Service, listening: socket.socket, tell: Callable[[Running], None]) -> None:
    server = _Server(http_config(service))
    server.on_stop = lambda: setattr(service, "stopping", True)
    postgres = await _start_pgwire(service)
    keeping = [asyncio.create_task(_clean(service)), asyncio.create_task(_mend(service))]
    try:
        tell(_where(service, listening, postgres))
        service.telemetry.log(INFO, "started", {"tables": len(service.tables)})
        await server.serve(sockets=[listening])
    finally:
        service.telemetry.log(INFO, "stopping", {})
        for task in keeping:
            task.cancel()
        if postgres is not None:
            postgres.close()


async def _clean(service: Service) -> None:
    while True:
        await asyncio.sleep(3600)
        await _tried(service, service.erase)


async def _mend(service: Service) -> None:
    pause = MEND
    while True:
        await asyncio.sleep(pause)
        pause = MEND if await _tried(service, service.mend) else min(2 * pause, 30)


async def _tried(service: Service, work: Callable[[], Any]) -> Any:
    """What `work` returns, or None where it fails: whoever does it again and again must not end."""
    try:
        return await asyncio.to_thread(work)
    except Exception as error:  # its text may hold anything
        service.telemetry.log(WARNING, f"{work.__name__} failed", {"error": type(error).__name__})
        return None


async def _start_pgwire(service: Service) -> Listening | None:
    """The PostgreSQL door, if this installation has one and a port is set.

    Its clients do not come through a proxy that ends TLS, so without a certificate it opens on this machine only.
    """
    config = service.config
    if config.pg_port is None or importlib.util.find_spec(PGWIRE) is None:
        return None
    if config.tls_certificate is None and config.host not in LOOPBACK:
        service.telemetry.log(WARNING, "no PostgreSQL door", {"why": "it needs tls_certificate and tls_key"})
        return None
    door = importlib.import_module(PGWIRE)
    start = getattr(door, "start", None)
    if start is None:
        return None
    limits = door.Limits(connections=config.limits.connections)
    try:
        server: Listening = await start(
            service, host=config.host, port=config.pg_port, tls=tls_context(config), limits=limits
        )
    except OSError as error:
        raise _used(config.host, config.pg_port, error, "--pg-port") from None
    return server


def tls_context(config: ServiceConfig) -> ssl.SSLContext | None:
    """The certificate of the service as a context, for doors that speak TLS themselves."""
    if config.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(config.tls_certificate, config.tls_key)
    return context


def _allow_files() -> None:
    """Allow this process as many open files, and so connections, as it may have; where that is known."""
    if importlib.util.find_spec("resource") is None:
        return
    resource = importlib.import_module("resource")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that a used port is known before any table is opened."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise _used(host, port, error, "--port") from None
    listening.listen(2048)
    return listening


def _used(host: str, port: int, error: OSError, option: str) -> ConfigError:
    own = error.errno is None or error.errno < 0  # names of hosts have numbers of their own
    why = (error.strerror or type(error).__name__) if own else os.strerror(error.errno or 0)
    return ConfigError(f"port {port} of {host} cannot be used ({why})", advice=f"choose another with {option}")


def _where(service: Service, listening: socket.socket, postgres: Listening | None) -> Running:
    config = service.config
    scheme = "http" if config.tls_certificate is None else "https"
    # Any other name of this machine would be refused: the gate knows those of the settings only.
    shown = config.host if config.host not in ("0.0.0.0", "::") else next(iter(config.hosts), "localhost")
    shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
    port = listening.getsockname()[1]
    door = None
    if postgres is not None:
        door = f"postgresql://custodian@{shown}:{postgres.sockets[0].getsockname()[1]}/maquette"
    token = service.custodian_token()
    file = str(config.token_file or config.directory / "custodian.token")
    return Running(f"{scheme}://{shown}:{port}", door, token, file, tuple(service.tables))


class _Server:
    """uvicorn's server, which also tells the service when it begins to stop."""

    def __init__(self, config: Any) -> None:
        import uvicorn

        self._server = uvicorn.Server(config)
        self.on_stop: Callable[[], None] = lambda: None

    async def serve(self, sockets: list[socket.socket]) -> None:
        """Serve until a signal."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            self.on_stop()
            if self._server.should_exit:
                self._server.force_exit = True
            self._server.should_exit = True

        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop)
        self._server.capture_signals = _nothing  # type: ignore[method-assign]
        await self._server.serve(sockets=sockets)


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()

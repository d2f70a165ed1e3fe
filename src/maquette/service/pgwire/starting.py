"""Start the door."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from maquette.errors import MaquetteError
from maquette.service.pgwire.door import LOOPBACK_HOSTS, PgServer
from maquette.service.pgwire.limits import Limits
from maquette.service.pgwire.login import Tls
from maquette.service.pgwire.scram import certificate_hash

if TYPE_CHECKING:
    from maquette.service import Service

BACKLOG = 512


@dataclass(frozen=True)
class TlsFiles:
    """A certificate with its chain, and its key: PEM files."""

    certificate: str | Path
    key: str | Path


class Listening:
    """A started door: where it listens, who is connected, and how it ends."""

    def __init__(self, server: asyncio.Server, door: PgServer) -> None:
        self._server = server
        self._door = door
        self.connections = door.connections

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The sockets on which it listens."""
        return self._server.sockets

    def close(self) -> None:
        """Listen no longer, and end every connection."""
        self._server.close()
        self._door.end()

    async def wait_closed(self) -> None:
        """Return when it listens no longer."""
        await self._server.wait_closed()


async def start(
    service: Service,
    *,
    host: str = "127.0.0.1",
    port: int = 5433,
    tls: TlsFiles | ssl.SSLContext | None = None,
    limits: Limits | None = None,
) -> Listening:
    """Listen for PostgreSQL clients; without TLS only on this machine.

    `tls` is a certificate with its key, or a context made from the service's own certificate. `server.close()` ends
    every connection, `server.connections` are those that are open. Rows are only reached through the service's tables.
    """
    if tls is None and host not in LOOPBACK_HOSTS:
        raise MaquetteError(
            f"the PostgreSQL door would listen on {host} without TLS",
            expected="a certificate and a key, or a host of this machine",
            advice="set tls_certificate and tls_key",
        )
    door = PgServer(service, _tls(tls, service), limits or Limits())
    server = await asyncio.start_server(door.accept, host, port, backlog=BACKLOG)
    return Listening(server, door)


def _tls(given: TlsFiles | ssl.SSLContext | None, service: Service) -> Tls | None:
    """The context, and what channel binding needs: the certificate, which a context does not give back."""
    if given is None:
        return None
    if isinstance(given, ssl.SSLContext):
        path = service.config.tls_certificate
        return Tls(given, None if path is None else certificate_hash(_first_certificate(path)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(given.certificate, given.key)
    return Tls(context, certificate_hash(_first_certificate(given.certificate)))


def _first_certificate(path: str | Path) -> bytes:
    """The server's own certificate (DER): the first of its file."""
    text = Path(path).read_text()
    end = "-----END CERTIFICATE-----"
    first = text.split(end)[0] + end + "\n"
    return ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN CERTIFICATE-----") :])

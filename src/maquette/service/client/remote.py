"""RemoteSession: a session on another machine.

`ask`, `ask_many`, `explain`, `outlook`, `spent` and `remaining` are those of `maquette.session.Session`; answers and
errors are the same objects. Every question carries a request name, so a retried one never pays twice.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maquette.answers import Answered
from maquette.errors import QueryError
from maquette.privacy import Loss
from maquette.schema import Schema
from maquette.service.client import protocol
from maquette.service.wire import loss_of
from maquette.session import Explanation

if TYPE_CHECKING:
    import httpx

TOML = "application/toml"


def connect(
    url: str, token: str, *, table: str | None = None, timeout: float = 60.0, verify: Any = True
) -> RemoteSession:
    """A session on the table of a running service; `table` may be left out if the token sees only one.

    `verify` is a certificate file of your own authority, or a TLS context.
    """
    import httpx

    protocol.check_address(url, token)
    client = httpx.Client(**_settings(url, token, timeout, verify))
    try:
        return RemoteSession(client, table)
    except BaseException:
        client.close()
        raise


async def connect_async(
    url: str, token: str, *, table: str | None = None, timeout: float = 60.0, verify: Any = True
) -> AsyncRemoteSession:
    """The same, for asyncio."""
    import httpx

    protocol.check_address(url, token)
    client = httpx.AsyncClient(**_settings(url, token, timeout, verify))
    session = AsyncRemoteSession(client)
    try:
        session._table = protocol.read_table(await session._send("GET", "/v1/tables"), table)
    except BaseException:
        await client.aclose()
        raise
    return session


class RemoteSession:
    """A session of a remote table; made by `connect`. Close it, or use it in a `with` block."""

    def __init__(self, client: httpx.Client, table: str | None = None) -> None:
        self._client = client
        self._table = protocol.read_table(self._send("GET", "/v1/tables"), table)

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self._table["name"])

    @property
    def alpha(self) -> float:
        """Maximum error of a count, as a fraction of rows."""
        return float(self._table["alpha"])

    @property
    def beta(self) -> float:
        """Failure probability: of each answer, or of all answers together."""
        return float(self._table["beta"])

    @cached_property
    def schema(self) -> Schema:
        """The schema of the table."""
        return _schema(self._reply("GET", f"{self._path}/schema", accept=TOML))

    @property
    def spent(self) -> Loss:
        """What was spent on the whole table."""
        return loss_of(self._budget()["spent"])

    @property
    def remaining(self) -> Loss:
        """What remains of the table's budget."""
        return loss_of(self._budget()["remaining"])

    @property
    def own_spent(self) -> Loss:
        """What the questions of this token's holder have cost."""
        return loss_of(self._budget()["own_spent"])

    def ask(
        self,
        asked: str,
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
    ) -> Answered:
        """Answer SQL or a condition; see `Session.ask`."""
        body = {**protocol.question_body(asked), **protocol.settings_body(alpha, confidence, max_cost)}
        return protocol.read_answer(self._send("POST", f"{self._path}/ask", body, protocol.key_of(request)))

    def ask_many(
        self,
        asked: Sequence[str],
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
    ) -> list[Answered]:
        """Answer several questions in one charge."""
        body = {**protocol.questions_body(asked), **protocol.settings_body(alpha, confidence, max_cost)}
        return protocol.read_answers(self._send("POST", f"{self._path}/ask-many", body, protocol.key_of(request)))

    def explain(self, asked: str) -> Explanation:
        """How the question would be answered now, and its price; free."""
        return protocol.read_explanation(self._send("POST", f"{self._path}/explain", protocol.question_body(asked)))

    def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        return str(self._send("GET", f"{self._path}/{protocol.outlook_path(size)}")["outlook"])

    def transcript(self, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """The questions of this token's holder, and shared ones."""
        found = self._send("GET", f"{self._path}/transcript?after={after}&count={count}")
        return list(found["questions"])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteSession({self.name!r}, alpha={self.alpha:g}, at {self._client.base_url})"

    @property
    def _path(self) -> str:
        return f"/v1/tables/{self.name}"

    def _budget(self) -> dict[str, Any]:
        return self._send("GET", f"{self._path}/budget")

    def _send(self, method: str, path: str, body: Any = None, key: str | None = None) -> dict[str, Any]:
        return _read(self._reply(method, path, body, key))

    def _reply(
        self, method: str, path: str, body: Any = None, key: str | None = None, accept: str = "*/*"
    ) -> httpx.Response:
        """Send a request, again where that is safe: a GET, or one with a name."""
        import httpx

        headers = {"Accept": accept, **({} if key is None else {"Idempotency-Key": key})}
        for attempt in range(protocol.TRIES):
            try:
                answer = self._client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt + 1 == protocol.TRIES or (method != "GET" and key is None) or protocol.untrusted(error):
                    raise protocol.unreachable(error) from None
            else:
                if answer.status_code not in protocol.AGAIN or attempt + 1 == protocol.TRIES:
                    return answer
            time.sleep(protocol.WAITS[attempt])
        raise AssertionError("the last attempt returns or raises")


class AsyncRemoteSession:
    """The same for asyncio; made by `connect_async`. What asks the service is awaited: also `schema()`, `spent()`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._table: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self._table["name"])

    @property
    def alpha(self) -> float:
        """Maximum error of a count, as a fraction of rows."""
        return float(self._table["alpha"])

    @property
    def beta(self) -> float:
        """Failure probability: of each answer, or of all answers together."""
        return float(self._table["beta"])

    async def schema(self) -> Schema:
        """The schema of the table."""
        return _schema(await self._reply("GET", f"{self._path}/schema", accept=TOML))

    async def spent(self) -> Loss:
        """What was spent on the whole table."""
        return loss_of((await self._send("GET", f"{self._path}/budget"))["spent"])

    async def remaining(self) -> Loss:
        """What remains of the table's budget."""
        return loss_of((await self._send("GET", f"{self._path}/budget"))["remaining"])

    async def own_spent(self) -> Loss:
        """What the questions of this token's holder have cost."""
        return loss_of((await self._send("GET", f"{self._path}/budget"))["own_spent"])

    async def ask(
        self,
        asked: str,
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
    ) -> Answered:
        """Answer SQL or a condition; see `Session.ask`."""
        body = {**protocol.question_body(asked), **protocol.settings_body(alpha, confidence, max_cost)}
        sent = await self._send("POST", f"{self._path}/ask", body, protocol.key_of(request))
        return protocol.read_answer(sent)

    async def ask_many(
        self,
        asked: Sequence[str],
        *,
        request: str | None = None,
        alpha: float | None = None,
        confidence: float | None = None,
        max_cost: float | None = None,
    ) -> list[Answered]:
        """Answer several questions in one charge."""
        body = {**protocol.questions_body(asked), **protocol.settings_body(alpha, confidence, max_cost)}
        sent = await self._send("POST", f"{self._path}/ask-many", body, protocol.key_of(request))
        return protocol.read_answers(sent)

    async def explain(self, asked: str) -> Explanation:
        """How the question would be answered now, and its price; free."""
        body = protocol.question_body(asked)
        return protocol.read_explanation(await self._send("POST", f"{self._path}/explain", body))

    async def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        return str((await self._send("GET", f"{self._path}/{protocol.outlook_path(size)}"))["outlook"])

    async def transcript(self, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """The questions of this token's holder, and shared ones."""
        found = await self._send("GET", f"{self._path}/transcript?after={after}&count={count}")
        return list(found["questions"])

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> AsyncRemoteSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncRemoteSession({self.name!r}, alpha={self.alpha:g}, at {self._client.base_url})"

    @property
    def _path(self) -> str:
        return f"/v1/tables/{self.name}"

    async def _send(self, method: str, path: str, body: Any = None, key: str | None = None) -> dict[str, Any]:
        return _read(await self._reply(method, path, body, key))

    async def _reply(
        self, method: str, path: str, body: Any = None, key: str | None = None, accept: str = "*/*"
    ) -> httpx.Response:
        """The same as that of `RemoteSession`."""
        import httpx

        headers = {"Accept": accept, **({} if key is None else {"Idempotency-Key": key})}
        for attempt in range(protocol.TRIES):
            try:
                answer = await self._client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt + 1 == protocol.TRIES or (method != "GET" and key is None) or protocol.untrusted(error):
                    raise protocol.unreachable(error) from None
            else:
                if answer.status_code not in protocol.AGAIN or attempt + 1 == protocol.TRIES:
                    return answer
            await asyncio.sleep(protocol.WAITS[attempt])
        raise AssertionError("the last attempt returns or raises")


def _read(answer: httpx.Response) -> dict[str, Any]:
    try:
        data = answer.json()
    except ValueError:
        data = None
    if answer.status_code >= 400 or not isinstance(data, dict):
        raise protocol.read_error(answer.status_code, data)
    return data


def _schema(answer: httpx.Response) -> Schema:
    if answer.status_code != 200:
        _read(answer)  # raises what it says
    return Schema.loads(answer.text)


def _trusted(verify: Any) -> Any:
    """A certificate file as a context, which is what httpx takes."""
    if not isinstance(verify, str | Path):
        return verify
    try:
        return ssl.create_default_context(cafile=verify)
    except OSError as error:  # ssl.SSLError is one
        why = error.strerror or type(error).__name__
        raise QueryError(f"{str(verify)!r} cannot be read as a certificate ({why})", expected="a PEM file") from None


def _settings(url: str, token: str, timeout: float, verify: Any) -> dict[str, Any]:
    """Of the HTTP client. What is sent without TLS goes to this machine, and not to a proxy of the environment."""
    own = {"base_url": url, "timeout": timeout, "verify": _trusted(verify), "trust_env": url.startswith("https://")}
    return {**own, "headers": {"Authorization": f"Bearer {token.strip()}"}}

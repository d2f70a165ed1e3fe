"""RemoteSession: a session on another machine.

`ask`, `ask_many`, `explain`, `outlook`, `spent` and `remaining` are those of `maquette.session.Session`; answers and
errors are the same objects. Every question carries a request name, so a retried one never pays twice.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import cached_property
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


def connect(
    url: str, token: str, *, table: str | None = None, timeout: float = 60.0, verify: Any = True
) -> RemoteSession:
    """A session on the table of a running service; `table` may be left out if the token sees only one.

    `verify` is a certificate file of your own authority, or a TLS context.
    """
    import httpx

    _check_address(url, token)
    client = httpx.Client(base_url=url, headers=_headers(token), timeout=timeout, verify=verify)
    return RemoteSession(client, table)


async def connect_async(
    url: str, token: str, *, table: str | None = None, timeout: float = 60.0, verify: Any = True
) -> AsyncRemoteSession:
    """The same, for asyncio."""
    import httpx

    _check_address(url, token)
    client = httpx.AsyncClient(base_url=url, headers=_headers(token), timeout=timeout, verify=verify)
    session = AsyncRemoteSession(client)
    session._table = protocol.read_table(await session._send("GET", "/v1/tables"), table)
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
        answer = self._client.get(f"{self._path}/schema", headers={"Accept": "application/toml"})
        if answer.status_code != 200:
            raise protocol.read_error(answer.status_code, answer.json())
        return Schema.loads(answer.text)

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
        return protocol.read_answer(self._send("POST", f"{self._path}/ask", body, request or protocol.fresh_key()))

    def ask_many(self, asked: Sequence[str], *, request: str | None = None) -> list[Answered]:
        """Answer several questions in one charge."""
        if isinstance(asked, str) or not isinstance(asked, Sequence):
            raise QueryError("got one question", expected="a list of questions", advice="ask a single one with `ask`")
        body = {"questions": [protocol.question_body(one) for one in asked]}
        return protocol.read_answers(
            self._send("POST", f"{self._path}/ask-many", body, request or protocol.fresh_key())
        )

    def explain(self, asked: str) -> Explanation:
        """How the question would be answered now, and its price; free."""
        return protocol.read_explanation(self._send("POST", f"{self._path}/explain", protocol.question_body(asked)))

    def outlook(self, size: int | None = None) -> str:
        """What the rest of the budget can buy, in words."""
        query = "" if size is None else f"?size={size}"
        return str(self._send("GET", f"{self._path}/outlook{query}")["outlook"])

    def transcript(self, *, after: int = 0, count: int = 100) -> list[dict[str, Any]]:
        """The questions of this token's holder, and shared ones."""
        found: list[dict[str, Any]] = self._send("GET", f"{self._path}/transcript?after={after}&count={count}")[
            "questions"
        ]
        return found

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
        """Send a request, again where that is safe: a GET, or one with a name."""
        import httpx

        headers = {} if key is None else {"Idempotency-Key": key}
        for attempt in range(protocol.TRIES):
            try:
                answer = self._client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt + 1 == protocol.TRIES or (method != "GET" and key is None):
                    raise protocol.unreachable(error) from None
            else:
                if answer.status_code not in protocol.AGAIN or attempt + 1 == protocol.TRIES:
                    return _read(answer)
            time.sleep(protocol.WAITS[attempt])
        raise AssertionError("the last attempt returns or raises")


class AsyncRemoteSession:
    """The same for asyncio; made by `connect_async`."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._table: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self._table["name"])

    async def ask(self, asked: str, *, request: str | None = None) -> Answered:
        """Answer SQL or a condition."""
        body = protocol.question_body(asked)
        sent = await self._send("POST", f"/v1/tables/{self.name}/ask", body, request or protocol.fresh_key())
        return protocol.read_answer(sent)

    async def ask_many(self, asked: Sequence[str], *, request: str | None = None) -> list[Answered]:
        """Answer several questions in one charge."""
        body = {"questions": [protocol.question_body(one) for one in asked]}
        sent = await self._send("POST", f"/v1/tables/{self.name}/ask-many", body, request or protocol.fresh_key())
        return protocol.read_answers(sent)

    async def explain(self, asked: str) -> Explanation:
        """How the question would be answered now, and its price; free."""
        body = protocol.question_body(asked)
        return protocol.read_explanation(await self._send("POST", f"/v1/tables/{self.name}/explain", body))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def __aenter__(self) -> AsyncRemoteSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send(self, method: str, path: str, body: Any = None, key: str | None = None) -> dict[str, Any]:
        import httpx

        headers = {} if key is None else {"Idempotency-Key": key}
        for attempt in range(protocol.TRIES):
            try:
                answer = await self._client.request(method, path, json=body, headers=headers)
            except httpx.TransportError as error:
                if attempt + 1 == protocol.TRIES or (method != "GET" and key is None):
                    raise protocol.unreachable(error) from None
            else:
                if answer.status_code not in protocol.AGAIN or attempt + 1 == protocol.TRIES:
                    return _read(answer)
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


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.strip()}"}


def _check_address(url: str, token: str) -> None:
    near = url.startswith(("http://127.0.0.1", "http://localhost", "http://[::1]"))
    if not url.startswith("https://") and not near:
        raise QueryError(f"the address is {url!r}", expected="https://..., or http:// on this machine")
    if not isinstance(token, str) or not token.strip():
        raise QueryError("the token is empty", expected="the token that the custodian gave you")

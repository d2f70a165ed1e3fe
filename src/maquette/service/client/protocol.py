"""What a client sends and reads, without sending it: paths, bodies, answers, and errors rebuilt from problems."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from maquette.answers import Answered
from maquette.errors import BudgetExceeded, DeadlineMissed, LedgerError, MaquetteError, QueryError
from maquette.service.errors import ServiceError, TooManyRequests, Unauthenticated, Unavailable
from maquette.service.wire import answer_of, is_statement, loss_of
from maquette.session import Explanation

TRIES = 4
WAITS = (0.2, 0.5, 1.0)  # seconds before each further try
AGAIN = frozenset({502, 503, 504})


def question_body(asked: str) -> dict[str, str]:
    """A question as a body: SQL or a condition."""
    if not isinstance(asked, str):
        raise QueryError(f"the question is of type {type(asked).__name__}", expected="SQL, or a condition, as text")
    return {"sql": asked} if is_statement(asked) else {"where": asked}


def questions_body(asked: Sequence[str]) -> dict[str, Any]:
    """Several questions as a body."""
    if isinstance(asked, str) or not isinstance(asked, Sequence):
        raise QueryError("got one question", expected="a list of questions", advice="ask a single one with `ask`")
    return {"questions": [question_body(one) for one in asked]}


def outlook_path(size: int | None) -> str:
    """Where the outlook for tables of `size` columns is."""
    return "outlook" if size is None else f"outlook?size={size}"


def settings_body(alpha: float | None, confidence: float | None, max_cost: float | None) -> dict[str, float]:
    """The settings of a question that were given."""
    given = {"alpha": alpha, "confidence": confidence, "max_cost": max_cost}
    return {name: value for name, value in given.items() if value is not None}


def fresh_key() -> str:
    """A name for a request, so that sending it again never pays twice."""
    return uuid.uuid4().hex


def key_of(request: str | None) -> str:
    """The name of a request, or a fresh one; it is sent in a header, which holds letters of ASCII only."""
    if request is None:
        return fresh_key()
    if not (isinstance(request, str) and 1 <= len(request) <= 200 and request.isascii() and request.isprintable()):
        raise QueryError(f"the request's name is {str(request)[:40]!r}", expected="1 to 200 printable ASCII characters")
    return request


def check_address(url: str, token: str) -> None:
    """Refuse an address to which a token would travel in plain text, and what is no token."""
    try:
        parts = urlsplit(url)
        near = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")
        named = bool(parts.hostname) and parts.username is None and (parts.port is None or parts.port > 0)
    except (ValueError, AttributeError, TypeError):
        near = named = False
    if not named or not (near or parts.scheme == "https"):
        raise QueryError(f"the address is {url!r}", expected="https://..., or http:// on this machine")
    if not isinstance(token, str) or not token.strip():
        raise QueryError("the token is empty", expected="the token that the custodian gave you")
    if not (token.strip().isascii() and token.strip().isprintable() and " " not in token.strip()):
        raise QueryError("the token holds signs that no token has", expected="the token that the custodian gave you")


def read_answer(data: dict[str, Any]) -> Answered:
    """One answer."""
    return answer_of(data)


def read_answers(data: dict[str, Any]) -> list[Answered]:
    """The answers of `ask many`."""
    return [answer_of(one) for one in data["answers"]]


def read_explanation(data: dict[str, Any]) -> Explanation:
    """A route and its price."""
    return Explanation(data["route"], loss_of(data["cost"]), data["half_width"], data["text"])


def read_table(data: dict[str, Any], wanted: str | None) -> dict[str, Any]:
    """The table to talk to: the named one, or the only one."""
    tables: Sequence[dict[str, Any]] = data["tables"]
    names = [table["name"] for table in tables]
    if wanted is None and len(tables) == 1:
        return tables[0]
    if wanted is None:
        raise QueryError(f"this token sees {len(tables)} tables", expected=f"table= one of {', '.join(names)}")
    if wanted not in names:
        raise QueryError(f"there is no table {wanted!r}", expected=f"one of {', '.join(names) or 'none'}")
    return tables[names.index(wanted)]


def read_error(status: int, data: Any) -> MaquetteError:
    """The error that the service raised: the same class, with the same fields."""
    if not isinstance(data, dict) or "code" not in data:
        return Unavailable(f"the server answered {status} without saying why")
    kind = _kinds().get(data["code"], ServiceError)
    happened = str(data.get("happened") or data.get("detail"))
    parts: dict[str, Any] = {"expected": data.get("expected"), "advice": data.get("advice")}
    if kind is Unauthenticated or kind is DeadlineMissed:
        return kind()
    if kind is BudgetExceeded:
        return BudgetExceeded(happened, **parts, requested=data["requested"], remaining=data["remaining"])
    if kind is TooManyRequests:
        return TooManyRequests(happened, seconds=data.get("seconds", 1.0), advice=parts["advice"])
    if issubclass(kind, QueryError):
        return kind(happened, **parts, line=data.get("line"), column=data.get("column"))
    return kind(happened, **parts)


def unreachable(error: Exception) -> LedgerError | Unavailable:
    """The service could not be reached, after every try."""
    if untrusted(error):
        return Unavailable(
            "the certificate of the service is not trusted here, or is for another name",
            advice='name your authority\'s certificate with verify="ca.crt", and the service as its certificate does',
        )
    return Unavailable(
        f"the service cannot be reached ({type(error).__name__})",
        advice="ask again with the same request name: it never pays twice",
    )


def untrusted(error: Exception) -> bool:
    """Whether the service's certificate was refused; another try would not help."""
    return "CERTIFICATE_VERIFY_FAILED" in str(error)


def _kinds() -> dict[str, type[MaquetteError]]:
    found: dict[str, type[MaquetteError]] = {}

    def add(kind: type[MaquetteError]) -> None:
        if kind.__module__.startswith("maquette.") and kind.__module__.endswith("errors"):
            found.setdefault(kind.code, kind)
        for child in kind.__subclasses__():
            add(child)

    add(MaquetteError)
    return found

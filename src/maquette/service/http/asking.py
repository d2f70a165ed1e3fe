"""Routes of analysts: what can be asked, what it costs, the answers, and what was asked before."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import PlainTextResponse, Response

from maquette.answers import Answered
from maquette.service.engine import Service
from maquette.service.http.access import Caller, Room
from maquette.service.http.models import Ask, AskMany
from maquette.service.http.replies import answer_reply, json_bytes, json_reply, wants_arrow
from maquette.service.http.work import in_thread
from maquette.service.principals import Principal
from maquette.service.served import ServedTable
from maquette.service.wire import answer_data, loss_data

router = APIRouter(prefix="/v1/tables", tags=["asking"])

MOST_LABELS = 1_000  # levels of a column that are listed in full

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="A name of your own for this request: sent again, also after a restart, it never pays twice.",
    ),
]
After = Annotated[int, Query(ge=0, le=2**62)]
Count = Annotated[int, Query(ge=1, le=10_000)]


@router.post("/{table}/ask", summary="Ask one question")
async def ask(table: str, body: Ask, *, caller: Caller, room: Room, request: Request, key: Key = None) -> Response:
    """Answer SQL or a condition, with an interval, its cost and its promise; Arrow if that is what you accept."""
    return await answer(room, caller, table, body, key, arrow=wants_arrow(request))


@router.post("/{table}/ask-many", summary="Ask several questions in one charge")
async def ask_many(table: str, body: AskMany, caller: Caller, room: Room, key: Key = None) -> Response:
    """Answer several questions; cheaper than one by one, because they share what they need."""
    return await answer_many(room, caller, table, body, key)


async def answer(room: Service, caller: Principal, table: str, body: Ask, key: str | None, *, arrow: bool) -> Response:
    """The reply to one question; one that is known does not leave the event loop."""
    found, text = room.table(caller, table), body.text
    await found.room()
    known = found.known(caller, [text]) if key is None and not body.settings else None
    if known is not None and not arrow:
        room.telemetry.answered(table, "cache")
        return json_bytes(found.replies([text], known)[0])
    if known is None:
        with room.telemetry.traces.asking(table, 1):
            known = await in_line(found, caller, [text], key, body.settings)
    room.telemetry.answered(table, known[0].source)
    return answer_reply(known[0], arrow=arrow)


async def in_line(
    found: ServedTable, caller: Principal, texts: list[str], key: str | None, settings: dict[str, float]
) -> list[Answered]:
    """Answers that may have to be paid for: the questions stand in the line of their table, and of no other."""
    with found.place():
        work = partial(found.ask_many, caller, texts, request=key, placed=True, **settings)
        return await found.lane.run(work)


async def answer_many(room: Service, caller: Principal, table: str, body: AskMany, key: str | None) -> Response:
    """The reply to several questions."""
    found, texts = room.table(caller, table), body.texts
    await found.room()
    if key is None and not body.settings and (known := found.known(caller, texts)) is not None:
        room.telemetry.answered(table, "cache", len(texts))
        return json_bytes(b'{"answers":[' + b",".join(found.replies(texts, known)) + b"]}")
    with room.telemetry.traces.asking(table, len(texts)):
        answers = await in_line(found, caller, texts, key, body.settings)
    for source, number in Counter(answer.source for answer in answers).items():
        room.telemetry.answered(table, source, number)
    return json_reply({"answers": [answer_data(answer) for answer in answers]})


@router.get("", summary="The tables of this token")
def tables(caller: Caller, room: Room) -> dict[str, Any]:
    """Names, sizes of the schema, and what is promised; never the number of rows."""
    seen = [table for name, table in room.tables.items() if caller.tables is None or name in caller.tables]
    return {"tables": [_table(table) for table in seen]}


@router.get("/{table}", summary="One table")
def table_facts(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """What is promised about a table."""
    return _table(room.table(caller, table))


@router.get("/{table}/schema", summary="The schema")
def schema(table: str, caller: Caller, room: Room, request: Request) -> Response:
    """The columns and their levels; as TOML for `Accept: application/toml`."""
    found = room.table(caller, table).schema
    if "application/toml" in request.headers.get("accept", ""):
        return PlainTextResponse(found.dumps(), media_type="application/toml")
    columns = [
        {**column.as_dict(), "size": column.size, "labels": list(column.first_labels(MOST_LABELS))}
        for column in found.columns
    ]
    return json_reply({"columns": [_plain(column) for column in columns], "digest": found.digest})


@router.post("/{table}/explain", summary="Route and price of a question, free")
async def explain(table: str, body: Ask, caller: Caller, room: Room) -> dict[str, Any]:
    """How the question would be answered now, and its price; nothing is charged."""
    own = {"alpha": body.alpha, "confidence": body.confidence}
    found = await in_thread(room.table(caller, table).explain, caller, body.text, **own)
    return {
        "route": found.route,
        "cost": loss_data(found.cost),
        "half_width": found.half_width,
        "text": found.text,
    }


@router.get("/{table}/outlook", summary="What the rest of the budget buys")
async def outlook(
    table: str, caller: Caller, room: Room, size: Annotated[int | None, Query(ge=1, le=64)] = None
) -> dict[str, str]:
    """In words."""
    return {"outlook": await in_thread(room.table(caller, table).outlook, caller, size)}


@router.get("/{table}/budget", summary="Spent and remaining")
async def budget(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Of the table, and of the caller."""
    return (await in_thread(room.table(caller, table).budget, caller)).as_dict()


@router.get("/{table}/charges", summary="Charges of the caller")
async def charges(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """All charges for a custodian or an auditor, otherwise the caller's own."""
    return {"charges": await in_thread(room.table(caller, table).charges, caller)}


@router.get("/{table}/transcript", summary="Questions of the caller")
async def transcript(table: str, caller: Caller, room: Room, after: After = 0, count: Count = 100) -> dict[str, Any]:
    """The caller's questions and those that were shared; all of them for a custodian or an auditor."""
    found = room.table(caller, table)
    return {"questions": await in_thread(found.transcript, caller, after=after, count=count)}


@router.post("/{table}/transcript/{question}/share", summary="Show a question to every analyst", status_code=204)
async def share(table: str, question: int, caller: Caller, room: Room) -> Response:
    """Share one of the caller's own questions."""
    await in_thread(room.table(caller, table).share, caller, question)
    return Response(status_code=204)


def _table(table: ServedTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "columns": list(table.schema.names),
        "alpha": table.session.alpha,
        "beta": table.session.beta,
        "promise": table.config.promise,
        "epsilon": table.curator.budget.epsilon,
        "delta": table.curator.budget.delta,
        "deadline": table.config.fixed_moment,
        "relation": table.config.relation,
        "unit": table.config.unit,
        "max_contributions": table.config.max_contributions,
        "releases": sorted(table.releases),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(word): _plain(inner) for word, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)

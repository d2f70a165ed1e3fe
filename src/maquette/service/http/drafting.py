"""Routes of the custodian's guided publishing: upload, review, plan, open; and pictures of what is publicly known."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import Response

from maquette.service import looking
from maquette.service.http.access import Caller, Room
from maquette.service.http.models import Body, Name
from maquette.service.http.work import in_thread

router = APIRouter(prefix="/v1", tags=["publishing"])

Setting = Annotated[str, Field(max_length=1_000_000)]


class DraftColumn(Body):
    """One reviewed column: its settings as a schema file writes them."""

    name: Annotated[str, Field(min_length=1, max_length=1_000)]
    kind: Name
    keep: bool = True
    settings: Annotated[dict[Name, Setting], Field(max_length=40)]


class Revision(Body):
    """A reviewed schema."""

    columns: Annotated[list[DraftColumn], Field(min_length=1, max_length=2_000)]
    reviewed: bool = False


class Planned(Body):
    """What a table would be opened with."""

    epsilon: Annotated[float, Field(gt=0, le=1e6)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.02
    rows: Annotated[int, Field(ge=1, le=10**12, description="About how many rows; public.")] = 10_000
    unit: Annotated[str | None, Field(min_length=1, max_length=1_000)] = None
    max_contributions: Annotated[int, Field(ge=1, le=100_000)] = 1


class Opened(Planned):
    """A table to open."""

    name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]


@router.post("/drafts/upload", summary="Upload a file and draft its schema", status_code=201)
async def upload(
    request: Request, caller: Caller, room: Room, filename: Annotated[str, Query(min_length=1, max_length=300)]
) -> dict[str, Any]:
    """CSV, Parquet or Excel as the body. The draft is made by looking at the rows: review every line."""
    caller.require("publish")
    body = await request.body()
    drafted: dict[str, Any] = await in_thread(room.drafts.upload, caller, filename, [body])
    room.note(caller, "upload", draft=drafted["id"])
    return drafted


@router.get("/drafts/{id}", summary="A draft")
async def draft(id: str, caller: Caller, room: Room) -> dict[str, Any]:  # noqa: A002
    """Its columns and their settings."""
    found: dict[str, Any] = await in_thread(room.drafts.show, caller, id)
    return found


@router.put("/drafts/{id}", summary="Review a draft")
async def revise(id: str, body: Revision, caller: Caller, room: Room) -> dict[str, Any]:  # noqa: A002
    """Takes the settings and checks that every row fits them; nothing is charged."""
    columns = [column.model_dump() for column in body.columns]
    found: dict[str, Any] = await in_thread(room.drafts.revise, caller, id, columns, reviewed=body.reviewed)
    return found


@router.post("/drafts/{id}/plan", summary="What analysts would get, on invented rows")
async def plan(id: str, body: Planned, caller: Caller, room: Room) -> dict[str, Any]:  # noqa: A002
    """Reads no real row and charges nothing."""
    found: dict[str, Any] = await in_thread(
        room.drafts.plan, caller, id, rows=body.rows, epsilon=body.epsilon, delta=body.delta, alpha=body.alpha
    )
    return found


@router.post("/drafts/{id}/publish", summary="Open the table", status_code=201)
async def publish(id: str, body: Opened, caller: Caller, room: Room) -> dict[str, str]:  # noqa: A002
    """The budget is for the life of the table."""
    settings = body.model_dump(exclude={"name", "rows"})
    return {"name": await in_thread(room.drafts.publish, caller, id, body.name, **settings)}


@router.delete("/drafts/{id}", summary="Delete a draft", status_code=204)
async def discard(id: str, caller: Caller, room: Room) -> Response:  # noqa: A002
    """With its file."""
    await in_thread(room.drafts.discard, caller, id)
    return Response(status_code=204)


@router.get("/tables/{table}/model", summary="What is publicly known of one or two columns")
async def model(
    table: str, caller: Caller, room: Room, column: Annotated[list[str], Query(min_length=1, max_length=2)]
) -> dict[str, Any]:
    """Shares of the rows as the public model has them, with intervals; free."""
    return await in_thread(looking.picture, caller, room.table(caller, table), column)


@router.get("/tables/{table}/doubts", summary="Where the model is least certain")
async def doubts(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """The widest interval of every column, unmeasured ones first; free."""
    return {"columns": await in_thread(looking.doubts, caller, room.table(caller, table))}

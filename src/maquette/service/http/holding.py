"""Routes of holdouts: certified scores, and a leaderboard."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from maquette.service.http.access import Caller, Room
from maquette.service.http.models import Body, Name
from maquette.service.http.work import in_thread

router = APIRouter(prefix="/v1/holdouts", tags=["holdouts"])


class AskHoldout(Body):
    """A condition, and a guess that makes the holdout last."""

    where: Annotated[str, Field(min_length=1, max_length=16_384)]
    guess: Annotated[float | None, Field(ge=0, le=1)] = None


class NewHoldout(Body):
    """An uploaded file to be a holdout: with a target, with reviewed columns for conditions, or both."""

    draft: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
    target: Annotated[str | None, Field(min_length=1, max_length=1_000)] = None
    conditions: bool = False
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class Entry(Body):
    """Predictions to be scored, one for each row of the holdout."""

    entry: Name
    statistic: Annotated[str, Field(max_length=64)] = "accuracy"
    predictions: Annotated[list[float | str | bool], Field(max_length=10_000_000)]
    bound: Annotated[float, Field(gt=0)] = 1.0
    guess: Annotated[float | None, Field(ge=0, le=1)] = None


@router.get("", summary="The holdouts of this token")
def holdouts(caller: Caller, room: Room) -> dict[str, Any]:
    """Their names, sizes and statistics."""
    seen = [one for name, one in room.holdouts.items() if caller.tables is None or name in caller.tables]
    return {"holdouts": [one.facts(caller) for one in seen]}


@router.post("", summary="Register a holdout from an uploaded file", status_code=201)
async def register(body: NewHoldout, caller: Caller, room: Room) -> dict[str, Any]:
    """The file of a draft (`POST /v1/drafts/upload`) becomes a holdout, used for certified scores alone."""
    given = body.model_dump(exclude={"draft", "name"})
    name = await in_thread(room.registrar.register, caller, body.draft, body.name, **given)
    return room.holdout(caller, name).facts(caller)


@router.get("/{name}", summary="One holdout")
def holdout(name: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Its size, its target and its statistics."""
    return room.holdout(caller, name).facts(caller)


@router.post("/{name}/ask", summary="How often a condition holds in the population")
async def ask(name: str, body: AskHoldout, caller: Caller, room: Room) -> dict[str, Any]:
    """A certified interval; a good guess costs nothing."""
    caller.require("ask")
    found = room.holdout(caller, name)
    return (await in_thread(found.ask, caller, body.where, body.guess)).as_dict()


@router.post("/{name}/entries", summary="Submit predictions")
async def submit(name: str, body: Entry, caller: Caller, room: Room) -> dict[str, Any]:
    """A certified score, kept on the leaderboard under the entry's name."""
    caller.require("ask")
    found = room.holdout(caller, name)
    certified = await in_thread(
        found.submit,
        caller,
        body.entry,
        body.predictions,
        statistic=body.statistic,
        bound=body.bound,
        guess=body.guess,
    )
    return certified.as_dict()


@router.get("/{name}/leaderboard", summary="The leaderboard")
async def leaderboard(name: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Certified scores, best first; all their intervals hold together."""
    return {"entries": await in_thread(room.holdout(caller, name).leaderboard, caller)}

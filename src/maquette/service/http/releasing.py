"""Routes of releases, jobs and reports."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request
from starlette.responses import FileResponse, HTMLResponse, Response, StreamingResponse

from maquette.reports import report
from maquette.service.http.access import Caller, Room
from maquette.service.http.models import AskRelease, NewRelease
from maquette.service.http.replies import ARROW, answer_reply, as_stream, wants_arrow
from maquette.service.http.work import in_thread
from maquette.service.jobs import Job
from maquette.service.publishing import find, release_data

router = APIRouter(prefix="/v1", tags=["releases"])

REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; sandbox allow-scripts"
)
MEDIA = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet", "arrow": ARROW}


@router.get("/tables/{table}/releases", summary="The releases of a table")
def releases(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """What was published."""
    found = room.table(caller, table)
    return {"releases": [release_data(name, made) for name, made in sorted(found.releases.items())]}


@router.post("/tables/{table}/releases", summary="Make a release, as a job", status_code=202)
async def make(table: str, body: NewRelease, caller: Caller, room: Room) -> dict[str, Any]:
    """Starts a job; follow it at `/v1/jobs/{id}/events`."""
    found = room.table(caller, table)
    job = await in_thread(
        room.publisher.make,
        caller,
        found,
        body.name,
        ways=body.ways,
        epsilon=body.epsilon,
        method=body.method,
        check=body.check,
    )
    room.note(caller, "release", table=table, job=job.id, name=body.name)
    return job.as_dict()


@router.get("/tables/{table}/releases/{name}", summary="One release")
def one(table: str, name: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Its method, its cost, its relation and what was checked."""
    return release_data(name, find(room.table(caller, table).releases, name))


@router.get("/tables/{table}/releases/{name}/download", summary="The release as a file")
def download(table: str, name: str, caller: Caller, room: Room) -> FileResponse:
    """A file that `Release.load` and `maquette ask` read."""
    path = room.publisher.path(room.table(caller, table), name)
    return FileResponse(path, media_type="application/octet-stream", filename=f"{table}-{name}.maq")


@router.get("/tables/{table}/releases/{name}/sample", summary="Synthetic rows")
async def sample(
    table: str,
    name: str,
    *,
    caller: Caller,
    room: Room,
    rows: Annotated[int, Query(ge=1)] = 1_000,
    format: Literal["csv", "parquet", "arrow"] = "csv",  # noqa: A002
    seed: Annotated[int | None, Query(ge=0, le=2**63)] = None,
) -> Response:
    """Rows drawn from the model; they belong to no real person and cost nothing."""
    from maquette.service.errors import TooLarge

    made = find(room.table(caller, table).releases, name)
    if rows > room.config.limits.sample_rows:
        raise TooLarge(f"{rows:,} rows were asked for", expected=f"at most {room.config.limits.sample_rows:,}")
    drawn = await in_thread(made.sample, rows, rng=None if seed is None else np.random.default_rng(seed))
    body = await in_thread(_written, drawn, format)
    headers = {"Content-Disposition": f'attachment; filename="{table}-{name}.{format}"'}
    return Response(body, media_type=MEDIA[format], headers=headers)


@router.post("/tables/{table}/releases/{name}/ask", summary="Ask a release, free")
async def ask_release(
    table: str, name: str, body: AskRelease, *, caller: Caller, room: Room, request: Request
) -> Response:
    """Answered from the published model, with certified intervals."""
    made = find(room.table(caller, table).releases, name)
    answer = await in_thread(made.answer, body.text, confidence=body.confidence)
    return answer_reply(answer, arrow=wants_arrow(request))


@router.get("/tables/{table}/releases/{name}/report", summary="The report of a release", response_class=HTMLResponse)
async def release_report(table: str, name: str, caller: Caller, room: Room) -> HTMLResponse:
    """One page, post-processing of the release."""
    made = find(room.table(caller, table).releases, name)
    return HTMLResponse(await in_thread(report, made), headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/tables/{table}/report", summary="The report of the session", response_class=HTMLResponse)
async def session_report(table: str, caller: Caller, room: Room) -> HTMLResponse:
    """For the custodian and the auditor: it lists what everybody paid for."""
    found = room.table(caller, table)
    caller.require("inspect")
    return HTMLResponse(await in_thread(report, found.session), headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/jobs/{id}", summary="A job")
def job_facts(id: str, caller: Caller, room: Room) -> dict[str, Any]:  # noqa: A002
    """Its state and its progress."""
    return _job(room, caller, id).as_dict()


@router.get("/tables/{table}/jobs", summary="The jobs of a table")
def jobs(table: str, caller: Caller, room: Room) -> dict[str, Any]:
    """Oldest first."""
    room.table(caller, table)
    caller.require("publish")
    return {"jobs": [job.as_dict() for job in room.jobs.of(table)]}


@router.get("/jobs/{id}/events", summary="Progress as server-sent events")
async def events(id: str, caller: Caller, room: Room, request: Request) -> StreamingResponse:  # noqa: A002
    """Ends with `done`, `failed` or `lost`; `Last-Event-ID` continues where a connection broke."""
    job = _job(room, caller, id)
    last = request.headers.get("last-event-id", "0")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0

    async def stream() -> AsyncIterator[bytes]:
        following: Iterator[dict[str, Any]] = job.follow(after)
        while (event := await in_thread(next, following, None)) is not None:
            if room.stopping:
                return
            yield _event(event)

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _job(room: Room, caller: Caller, id: str) -> Job:  # noqa: A002
    job = room.jobs.get(id)
    room.table(caller, job.table)
    caller.require("publish")
    return job


def _event(event: dict[str, Any]) -> bytes:
    if not event:
        return b": waiting\n\n"
    return f"id: {event['number']}\nevent: {event['event']}\ndata: {json.dumps(event)}\n\n".encode()


def _written(table: Any, format: str) -> bytes:  # noqa: A002
    import pyarrow.csv
    import pyarrow.parquet

    if format == "arrow":
        return as_stream(table)
    sink = io.BytesIO()
    if format == "csv":
        pyarrow.csv.write_csv(table, sink)
    else:
        pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()

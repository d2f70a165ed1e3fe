"""Replies: an answer as JSON, or as an Arrow stream for those who ask for it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from starlette.responses import Response

from maquette.answers import Answered
from maquette.service.wire import answer_data, answer_json, as_json

ARROW = "application/vnd.apache.arrow.stream"


def wants_arrow(request: Request) -> bool:
    """Whether the client accepts Arrow before JSON."""
    return ARROW in request.headers.get("accept", "")


def answer_reply(answer: Answered, *, arrow: bool) -> Response:
    """One answer."""
    return as_arrow(answer) if arrow else json_bytes(answer_json(answer))


def json_reply(content: Any, status: int = 200) -> Response:
    """Plain data as JSON."""
    return json_bytes(as_json(content), status)


def json_bytes(body: bytes, status: int = 200) -> Response:
    """JSON that is written already."""
    return Response(body, status, media_type="application/json")


def as_arrow(answer: Answered) -> Response:
    """An answer as an Arrow stream; cost, source and promise are in the metadata of its schema, under "maquette"."""
    table = answer.to_arrow()
    about = {word: value for word, value in answer_data(answer).items() if word not in ("rows", "titles")}
    table = table.replace_schema_metadata({"maquette": json.dumps(about)})
    return Response(as_stream(table), media_type=ARROW)


def as_stream(table: Any) -> bytes:
    """An Arrow table in the streaming format."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content

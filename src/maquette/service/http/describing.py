"""Describing: what the OpenAPI document says beyond the routes: the token they need, and the form of answers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from maquette.service.http.replies import ARROW

OPEN = ("/v1/health", "/v1/ready", "/v1/version")
BEARER = {"type": "http", "scheme": "bearer", "description": "A token of the service, or of its OpenID provider."}

_FREE = {"epsilon": 0.0, "delta": 1e-9, "rho": 0.0, "units": 0, "currency": "zcdp"}
_LEFT = {"epsilon": 0.73, "delta": 1e-9, "rho": 0.0082, "units": 8_200_000_000_000, "currency": "zcdp"}
EXAMPLE: dict[str, Any] = {
    "kind": "number",
    "promised": True,
    "source": "cache",
    "guarantee": "counts within 59 rows (0.02 of them) with probability 0.95, all answers together, over the noise on "
    "the binned, clamped table",
    "confidence": 0.95,
    "cost": _FREE,
    "remaining": _LEFT,
    "columns": [
        {
            "name": "value",
            "type": "number",
            "values": [0.339],
            "low": [0.314],
            "high": [0.366],
            "standing": ["cached"],
        }
    ],
    "value": 0.339,
    "low": 0.314,
    "high": 0.366,
    "count": 1020.0,
    "unbiased": 0.339,
    "bound": "measured",
    "title": "value",
    "together": False,
    "type": "number",
    "wider": False,
    "counted": None,
}
ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["kind", "promised", "source", "cost", "columns"],
    "properties": {
        "kind": {"type": "string"},
        "promised": {"type": "boolean", "description": "Whether the intervals are promised."},
        "source": {"enum": ["measured", "derived", "cache", "hypothesis"]},
        "cost": {"type": "object", "description": "What this answer was charged, in epsilon and in units."},
        "columns": {"type": "array", "items": {"type": "object", "required": ["name", "type", "values"]}},
    },
}


def described(app: FastAPI) -> None:
    """Add to the document of an application what its routes do not say of themselves."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        made = app.openapi_schema is None
        document = plain()
        if made:
            _add(document)
        return document

    app.openapi = openapi  # type: ignore[method-assign]


def _add(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    components["securitySchemes"] = {"bearer": BEARER}
    components.setdefault("schemas", {})["Answer"] = ANSWER
    document["security"] = [{"bearer": []}]
    for path in OPEN:
        document["paths"][path]["get"]["security"] = []
    one, tables = {"$ref": "#/components/schemas/Answer"}, "/v1/tables/{table}"
    several = {"type": "object", "required": ["answers"], "properties": {"answers": {"type": "array", "items": one}}}
    asked = document["paths"][f"{tables}/ask"]["post"]["responses"]["200"]["content"]
    asked |= {"application/json": {"schema": one, "example": EXAMPLE}, ARROW: {}}
    many = document["paths"][f"{tables}/ask-many"]["post"]["responses"]["200"]["content"]
    many["application/json"] = {"schema": several, "example": {"answers": [EXAMPLE]}}

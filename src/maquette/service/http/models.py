"""The forms of request bodies, with examples; anything else is refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from maquette.errors import QueryError
from maquette.service.wire import is_statement

Name = Annotated[str, Field(min_length=1, max_length=64)]
Text = Annotated[str, Field(min_length=1, max_length=1_000_000)]


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class One(Body):
    """SQL or a condition: exactly one of them."""

    sql: Text | None = None
    where: Text | None = None

    @property
    def text(self) -> str:
        """The question as the session reads it."""
        if (self.sql is None) == (self.where is None):
            raise QueryError("the question has both or neither of sql and where", expected="exactly one of them")
        if self.sql is not None:
            return self.sql
        assert self.where is not None
        if is_statement(self.where):
            raise QueryError("where holds a statement", expected="a condition", advice="send a statement as sql")
        return self.where


class Ask(One):
    """One question."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"sql": "SELECT count(*) FROM survey WHERE age >= 65 GROUP BY sex"},
                {"where": "age >= 65 AND smoker"},
            ]
        },
    )
    alpha: Annotated[float | None, Field(gt=0, lt=1, description="Maximum error of a count, fraction of rows.")] = None
    confidence: Annotated[float | None, Field(gt=0, lt=1, description="Confidence level of the intervals.")] = None
    max_cost: Annotated[float | None, Field(ge=0, description="Refuse a price above this epsilon.")] = None

    @property
    def settings(self) -> dict[str, float]:
        """The settings that were given."""
        return _given(self.alpha, self.confidence, self.max_cost)


class AskMany(Body):
    """Several questions, answered in one charge."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"questions": [{"where": "smoker"}, {"sql": "SELECT avg(bmi) FROM survey"}]}]},
    )
    questions: Annotated[list[One | Text], Field(min_length=1, max_length=100_000)]
    alpha: Annotated[float | None, Field(gt=0, lt=1)] = None
    confidence: Annotated[float | None, Field(gt=0, lt=1)] = None
    max_cost: Annotated[float | None, Field(ge=0)] = None

    @property
    def settings(self) -> dict[str, float]:
        """The settings that were given."""
        return _given(self.alpha, self.confidence, self.max_cost)

    @property
    def texts(self) -> list[str]:
        """The questions as the session reads them."""
        return [one if isinstance(one, str) else one.text for one in self.questions]


class NewRelease(Body):
    """A release to make."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"name": "first", "ways": 2, "epsilon": 0.5}]},
    )
    name: Annotated[str, Field(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
    ways: Annotated[
        int | None, Field(ge=1, le=8, description="Answers all tables of this many columns; 2 if there are so many.")
    ] = None
    epsilon: Annotated[float | None, Field(gt=0, description="Default: all that remains.")] = None
    method: Name = "auto"
    check: bool = True


class AskRelease(One):
    """A question to a release; free."""

    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95


class NewToken(Body):
    """A token to make; it is shown once, in the response."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"name": "ada", "role": "analyst", "tables": ["survey"], "days": 30}]},
    )
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$")]
    role: Annotated[str, Field(pattern=r"^(custodian|analyst|auditor)$")] = "analyst"
    group: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$")] = None
    tables: Annotated[list[Name] | None, Field(max_length=1000)] = None
    days: Annotated[float | None, Field(gt=0, le=3650)] = None


class NewLimit(Body):
    """What one analyst may spend on a table."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{"epsilon": 0.25}]})
    epsilon: Annotated[float, Field(ge=0)]


def _given(alpha: float | None, confidence: float | None, max_cost: float | None) -> dict[str, float]:
    settings = {"alpha": alpha, "confidence": confidence, "max_cost": max_cost}
    return {name: value for name, value in settings.items() if value is not None}

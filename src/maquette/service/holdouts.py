"""Served holdouts: a sample that stays valid under reuse, with a leaderboard of certified scores.

An analyst submits predictions, or chooses from a closed list of statistics and conditions; never code. The rows are
used by `Holdout` alone; what it certifies is what is shown. The number of rows of a holdout is public: a submission has
one prediction for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from maquette.errors import QueryError
from maquette.holdout import Certified, Holdout
from maquette.schema import Schema
from maquette.service import state as kept
from maquette.service.config import HoldoutConfig
from maquette.service.errors import NotFound
from maquette.service.principals import Principal
from maquette.service.state import State, as_text, now

STATISTICS: dict[str, Callable[[Any, Any, float], Any]] = {
    "accuracy": lambda truth, given, bound: truth == given,
    "absolute": lambda truth, given, bound: np.clip(np.abs(truth - given.astype(float)) / bound, 0, 1),
    "squared": lambda truth, given, bound: np.clip(np.square(truth - given.astype(float)) / bound, 0, 1),
}


class ServedHoldout:
    """A holdout under its name."""

    def __init__(self, config: HoldoutConfig, state: State, directory: Path) -> None:
        import duckdb

        self.config = config
        self.name = config.name
        self._state = state
        with duckdb.connect() as connection:
            table = connection.read_csv(config.source) if config.source.endswith(".csv") else None
            found = connection.read_parquet(config.source) if table is None else table
            columns: dict[str, Any] = found.fetchnumpy()
        rows = {name: np.asarray(values) for name, values in columns.items()}
        if config.target is not None and config.target not in rows:
            raise QueryError(f"the holdout has no column {config.target!r}")
        self.rows = len(next(iter(rows.values())))
        self._kind = "" if config.target is None else rows[config.target].dtype.kind
        schema = None if config.schema is None else Schema.load(config.schema)
        self._holdout = Holdout(
            rows,
            schema=schema,
            confidence=config.confidence,
            tolerance=config.tolerance,
            state=directory / f"{config.name}.holdout",
        )

    def facts(self, principal: Principal) -> dict[str, Any]:
        """What may be known of it."""
        self._look(principal)
        return {
            "name": self.name,
            "rows": self.rows,
            "target": self.config.target,
            "statistics": self._statistics,
            "conditions": self.config.schema is not None,
            "confidence": self.config.confidence,
        }

    @property
    def _statistics(self) -> list[str]:
        """Those that its target has: a distance needs numbers. The target's type is public."""
        if self.config.target is None:
            return []
        return list(STATISTICS) if self._kind in "biuf" else ["accuracy"]

    def ask(self, principal: Principal, condition: str, guess: float | None = None) -> Certified:
        """How often a condition holds in the population."""
        self._look(principal)
        principal.require("ask")
        if self.config.schema is None:
            raise QueryError("this holdout has no schema", advice="submit predictions instead")
        return self._holdout.ask(condition, guess)

    def submit(
        self,
        principal: Principal,
        entry: str,
        predictions: Sequence[float | str | bool],
        *,
        statistic: str = "accuracy",
        bound: float = 1.0,
        guess: float | None = None,
    ) -> Certified:
        """Score predictions, one for each row in their order; an entry's name is scored once and keeps its score."""
        self._look(principal)
        principal.require("ask")
        if statistic not in self._statistics or self.config.target is None:
            raise QueryError(f"there is no statistic {statistic[:80]!r} here", expected=f"one of {self._statistics}")
        if len(predictions) != self.rows:
            raise QueryError(f"there are {len(predictions):,} predictions", expected=f"{self.rows:,}, one for each row")
        given = alike(listed(predictions), self._kind)
        target, score = self.config.target, STATISTICS[statistic]
        if statistic != "accuracy" and given.dtype.kind not in "biuf":
            raise QueryError("the predictions are not numbers")
        if statistic != "accuracy" and not (np.isfinite(given.astype(float)).all() and math.isfinite(bound)):
            raise QueryError("a prediction, or the bound, is not a finite number", advice="Nothing was recorded")
        apart = "//" if "/" in entry else "/"  # an account holds at most one /, so no two entries share a name
        name = f"{principal.account}{apart}{entry}"

        def scored(rows: Any) -> Any:
            with np.errstate(all="ignore"):  # a warning would tell the log that some row is far from its prediction
                return score(np.asarray(rows[target]), given, bound)

        certified = self._holdout.ask(scored, guess, name=name)
        self._keep(principal, entry, statistic, certified)
        return certified

    def leaderboard(self, principal: Principal) -> list[dict[str, Any]]:
        """The certified scores of all entries, best first; accuracies are high, losses are low."""
        self._look(principal)
        table = kept.entries
        rows = self._state.rows(sa.select(table).where(table.c.holdout == self.name))
        entries = [{"analyst": row["account"], "entry": row["entry"], **_json(row["facts"])} for row in rows]
        return sorted(entries, key=lambda one: -one["value"] if one["statistic"] == "accuracy" else one["value"])

    def close(self) -> None:
        """Close its state."""
        self._holdout.close()

    def _look(self, principal: Principal) -> None:
        principal.require("look")
        if principal.tables is not None and self.name not in principal.tables:
            raise no_holdout(self.name)

    def _keep(self, principal: Principal, entry: str, statistic: str, certified: Certified) -> None:
        facts = as_text({"statistic": statistic, "at": now(), **certified.as_dict()})
        key = {"holdout": self.name, "account": principal.account, "entry": entry}
        try:
            with self._state.begin() as connection:
                connection.execute(kept.entries.insert().values(**key, facts=facts))
        except sa.exc.IntegrityError:  # scored before
            pass


WORDS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
WORDS |= {"false": False, "f": False, "no": False, "n": False, "0": False}


def listed(predictions: Sequence[float | str | bool]) -> Any:
    """Predictions as an array. Texts stay objects: a numpy array of texts takes as much for each as for the longest."""
    if not any(isinstance(each, str) for each in predictions):
        return np.asarray(predictions)
    return np.array([each if isinstance(each, str) else str(each) for each in predictions], dtype=object)


def alike(given: Any, kind: str) -> Any:
    """Predictions as the target is kept: a file's yes and no are truth values, and its digits are numbers."""
    if given.dtype.kind != "O":
        return given
    if kind == "b":
        unknown = sorted({word for word in given if word.lower() not in WORDS})
        if unknown:
            raise QueryError(f"a prediction is {unknown[0][:80]!r}", expected="true or false, or yes or no")
        return np.array([WORDS[word.lower()] for word in given])
    try:
        return given.astype(float) if kind in "iuf" else given
    except ValueError:
        raise QueryError("a prediction is not a number", expected="numbers, as the target has") from None


def no_holdout(name: str) -> NotFound:
    """The refusal of a holdout that does not exist, or that this token may not see."""
    return NotFound(f"there is no holdout {name[:80]!r} here")


def _json(text: str) -> dict[str, Any]:
    import json

    facts: dict[str, Any] = json.loads(text)
    return facts

"""Some releases of one table, and how their intervals hold: python -m releases.interval_case CASE, a JSON object.

CASE: table, method, epsilon, ways, limit (CPU seconds of a release), releases, questions. It prints one: for every
release a list of [question, kind, covered, half-width, touches], and of its check [tables, tables off by more than
certified, median bound], None without one. `touches` is what an interval touches: "zero" if its lower end is 0 rows,
"empty" if it is an average of a group that may be empty as far as the release knows, "" otherwise.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

import maquette as mq
from maquette.estimates import rounded, ties
from releases.asked import Asked, questions
from releases.distance import counted
from releases.suite import SuiteTable, table
from releases.suite_case import DELTA, OutOfTime, within, workload

ROUNDING = 1e-9  # relative: sums of floating-point numbers
CONFIDENCE = 0.95
SURE = 0.97  # of the rows of a group: about the share of the doubt that an average has for them


def kind_of(answer: Any) -> str:
    """Where an interval comes from; before releases said so, one without a promise was the logical one."""
    kind: str = getattr(answer, "bound", None) or ("measured" if answer.guarantee else "logical")
    return kind


def judged(made: mq.Release, number: int, asked: Asked) -> list[Any]:
    """One answer: which question, the kind of its interval, whether it holds, and half its width, scaled."""
    answer = made.answer(asked.text)
    slack = ROUNDING * max(1.0, abs(asked.exact))
    holds = answer.low - slack <= asked.exact <= answer.high + slack
    half = (answer.high - answer.low) / 2 / asked.scale
    return [number, kind_of(answer), bool(holds), half, touches(made, asked, answer.low)]


def touches(made: mq.Release, asked: Asked, low: float) -> str:
    """Where an interval ends because it must: at no rows, or at a group that may have none."""
    if asked.form != "average":
        return "zero" if low <= 0 else ""
    rows = made.answer(asked.text.replace("SELECT avg(", "SELECT count("), confidence=SURE)
    return "empty" if rows.low < 1 else ""


def checked(made: mq.Release, found: SuiteTable) -> tuple[int, int, float] | None:
    """The tables of the check, how many are farther from the rows than it certifies, and its median bound, in rows."""
    if made.check is None:
        return None
    rows, sizes = found.codes.astype(np.int64), list(found.schema.shape(found.schema.names))
    missed, bounds = 0, []
    for names in made.check.tables:
        exact = counted(rows, sizes, tuple(map(found.schema.position, names)))
        cells = made.model.marginal(names)
        bounds.append(made.check.farthest(names, CONFIDENCE) + ties(cells, made.check.rows))
        missed += bool(np.abs(rounded(cells, made.check.rows) - exact).sum() > bounds[-1])
    return len(bounds), missed, float(np.median(bounds)) / 2 / len(rows)


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Every release of a case."""
    found = table(case["table"])
    asked = questions(found, case["questions"])
    releases, checks, cpu = [], [], time.process_time()
    for _ in range(case["releases"]):
        curator = found.curator(case["epsilon"], DELTA)
        try:
            with within(case["limit"]):
                made = mq.release(curator, workload(found.schema, case["ways"]), method=case["method"])
        except OutOfTime:
            return {"note": f"not done in {case['limit']:g} CPU s"}
        releases.append([judged(made, number, each) for number, each in enumerate(asked)])
        checks.append(checked(made, found))
    return {"cpu": time.process_time() - cpu, "releases": releases, "checks": checks, "note": made.certificate.method}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))

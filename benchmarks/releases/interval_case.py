"""Some releases of one table, and how their intervals hold: python -m releases.interval_case CASE, a JSON object.

CASE: table, method, epsilon, ways, limit (CPU seconds of a release), releases, questions. It prints one: for every
release a list of [question, kind, covered, half-width].
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import maquette as mq
from releases.asked import Asked, questions
from releases.suite import table
from releases.suite_case import DELTA, OutOfTime, within, workload

ROUNDING = 1e-9  # relative: sums of floating-point numbers


def kind_of(answer: Any) -> str:
    """Where an interval comes from; before releases said so, one without a promise was the logical one."""
    kind: str = getattr(answer, "bound", None) or ("measured" if answer.guarantee else "logical")
    return kind


def judged(made: mq.Release, number: int, asked: Asked) -> list[Any]:
    """One answer: which question, the kind of its interval, whether it holds, and half its width, scaled."""
    answer = made.answer(asked.text)
    slack = ROUNDING * max(1.0, abs(asked.exact))
    holds = answer.low - slack <= asked.exact <= answer.high + slack
    return [number, kind_of(answer), bool(holds), (answer.high - answer.low) / 2 / asked.scale]


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """Every release of a case."""
    found = table(case["table"])
    asked = questions(found, case["questions"])
    releases, cpu = [], time.process_time()
    for _ in range(case["releases"]):
        curator = found.curator(case["epsilon"], DELTA)
        try:
            with within(case["limit"]):
                made = mq.release(curator, workload(found.schema, case["ways"]), method=case["method"])
        except OutOfTime:
            return {"note": f"not done in {case['limit']:g} CPU s"}
        releases.append([judged(made, number, each) for number, each in enumerate(asked)])
    return {"cpu": time.process_time() - cpu, "releases": releases, "note": made.certificate.method}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))

"""What the cases of a suite say together: means over runs, geometric means over tables, ratios to an earlier run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Case = dict[str, Any]
ERROR = "3-way"
SAME = "auto took it"


class Key(NamedTuple):
    """What was released, at which price, by which method."""

    table: str
    epsilon: float
    method: str


def grouped(cases: Iterable[Case]) -> dict[Key, list[Case]]:
    """The runs of each case, in the order of the first of them."""
    found: dict[Key, list[Case]] = {}
    for case in cases:
        found.setdefault(Key(case["table"], case["epsilon"], case["method"]), []).append(case)
    return found


def means(runs: Sequence[Case]) -> Case:
    """The mean of every number over the runs that have it; the notes, each once."""
    names = dict.fromkeys(name for run in runs for name, value in run.items() if isinstance(value, float))
    values: Case = {name: float(np.mean([run[name] for run in runs if name in run])) for name in names}
    return {**values, "note": "; ".join(dict.fromkeys(run["note"] for run in runs))}


def errors(cases: Iterable[Case], measure: str = ERROR) -> dict[Key, float]:
    """One error for each case that ran; a method that `auto` took is as good as `auto` there."""
    summed = {key: means(runs) for key, runs in grouped(cases).items()}
    found = {key: value[measure] for key, value in summed.items() if measure in value}
    for key, value in summed.items():
        auto = Key(key.table, key.epsilon, "auto")
        if key not in found and value["note"] == SAME and auto in found:
            found[key] = found[auto]
    return found


def geometric(values: Sequence[float]) -> float:
    """The geometric mean; errors of zero count as 1e-9."""
    return float(np.exp(np.mean(np.log(np.maximum(values, 1e-9))))) if len(values) else float("nan")


def against(cases: Iterable[Case], reference: str = "auto", measure: str = ERROR) -> dict[tuple[float, str], Case]:
    """By epsilon and method: the geometric mean of errors and of their ratio to the reference's; the least ratio."""
    found = errors(cases, measure)
    table: dict[tuple[float, str], Case] = {}
    for epsilon, method in dict.fromkeys((key.epsilon, key.method) for key in found):
        own = {key.table: value for key, value in found.items() if (key.epsilon, key.method) == (epsilon, method)}
        both = {name: found.get(Key(name, epsilon, reference)) for name in own}
        ratios = [own[name] / value for name, value in both.items() if value]
        mean, ratio = geometric(list(own.values())), geometric(ratios)
        table[epsilon, method] = {"tables": len(own), "mean": mean, "ratio": ratio, "least": min(ratios, default=1.0)}
    return table


def ratios(now: Iterable[Case], before: Iterable[Case], method: str = "auto", measure: str = ERROR) -> dict[Key, float]:
    """Today's error over the earlier one, for every case of this method that both have."""
    new, old = errors(now, measure), errors(before, measure)
    return {key: new[key] / old[key] for key in new if key.method == method and old.get(key)}

"""Train on synthetic rows, test on real ones: python -m releases.train_case CASE, a JSON object; it prints one.

CASE: table, method, epsilon, ways, limit; or rows, a file (.npy) of synthetic rows that a peer made. Method "real" is
the real rows. Three rows of ten, always the same, are held out; the release is made from the others. The learner is
scikit-learn's histogram gradient boosting, which sees the codes of all columns but the target.

Synthetic rows are free, so a user draws more than there are real ones: "auc" is of ten times as many, which have little
sampling noise beside the model's own error, and "equal" of as many, from the same release.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import maquette as mq
from maquette.errors import QueryError
from releases.suite import SuiteTable, table
from releases.suite_case import DELTA, OutOfTime, within, workload

TIMES = 10  # synthetic rows to train on for one real row

Codes = NDArray[np.int32]


def parted(found: SuiteTable) -> tuple[Codes, Codes]:
    """The rows to train on, and those held out."""
    order = np.random.default_rng(7).permutation(len(found.codes))
    cut = int(0.7 * len(order))
    return found.codes[order[:cut]], found.codes[order[cut:]]


def synthetic(found: SuiteTable, rows: Codes, case: dict[str, Any]) -> tuple[list[Codes], str]:
    """Many synthetic rows and as many as there are, and the method; the target is named where that is a setting."""
    curator = found.curator(case["epsilon"], DELTA, codes=rows)
    asked = workload(found.schema, case["ways"])
    try:
        made, named = mq.release(curator, asked, method=case["method"], target=found.target), ", with target"
    except QueryError as refused:
        if "has no setting target" not in str(refused):
            raise
        made, named = mq.release(curator, asked, method=case["method"]), ""  # refused before anything was charged
    drawn = [made.sample(number) for number in (TIMES * len(rows), len(rows))]
    codes = [np.stack([column.encode(each[column.name]) for column in found.schema], axis=1) for each in drawn]
    return codes, made.certificate.method + named


def area(found: SuiteTable, train: Codes, test: Codes) -> float:
    """The area under the curve of a model trained on the one, on the other; 0.5 if there is nothing to learn from."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    at = found.schema.position(found.target or "")
    if len(np.unique(train[:, at])) == 1:
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(np.delete(train, at, axis=1), train[:, at])
    return float(roc_auc_score(test[:, at], model.predict_proba(np.delete(test, at, axis=1))[:, 1]))


def areas(found: SuiteTable, drawn: list[Codes], test: Codes) -> dict[str, float]:
    """The areas of many rows and of as many as there are real ones."""
    return {name: area(found, rows, test) for name, rows in zip(("auc", "equal"), drawn, strict=True)}


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One release, and what a model learns from it."""
    found = table(case["table"])
    train, test = parted(found)
    if "rows" in case:
        made = np.load(case["rows"]).astype(np.int32)  # drawn independently, so any of them are a sample
        return {**areas(found, [made, made[: len(train)]], test), "note": case["method"]}
    if case["method"] == "real":
        return {"auc": area(found, train, test), "note": "real rows"}
    cpu = time.process_time()
    try:
        with within(case["limit"]):
            drawn, note = synthetic(found, train, case)
    except OutOfTime:
        return {"note": f"not done in {case['limit']:g} CPU s"}
    except mq.MaquetteError as refused:
        return {"note": f"cannot run: {refused}"}
    return {"cpu": time.process_time() - cpu, **areas(found, drawn, test), "note": note}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))

"""OpenDP's AIM and MST (`pip install opendp[mbi]`), run by benchmarks/release.py in an environment of their own.

python -m releases.opendp_peer CASE, a JSON object: data, table, method (AIM or MST), epsilon, delta, k; with
"compared", only some of the tables are compared; with "rows", that file gets synthetic rows, "times" as many as
there are real ones, and nothing is compared. It prints one.

Settings are the documentation's, but for AIM's model: at most 1 MB, not 80, with which it takes an hour and more.
One row is one contribution (add-remove); rho is the largest that OpenDP's own conversion allows for epsilon and delta.
Columns are given by their cuts, not their keys: keys would add a level for missing values to each column.
Synthetic rows are drawn independently: the default of mbi 1.1.0, rounding, loses dependence that the model has.
"""

from __future__ import annotations

import importlib.metadata
import json
import resource
import sys
import time
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl

from releases.distance import Values, distance, every, read, sampled, some

dp.enable_features("contrib")

MODEL = 1.0  # MB


def largest_rho(epsilon: float, delta: float) -> float:
    """The rho of a Gaussian mechanism that OpenDP converts to epsilon at delta."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def spent(rho: float) -> float:
        noise = dp.m.make_gaussian(*space, scale=(2 * rho) ** -0.5)
        return float(dp.c.make_zCDP_to_approxDP(noise).map(1.0).epsilon(delta))

    low, high = 1e-9, epsilon
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) <= epsilon else (low, middle)
    return low


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """One release, its cost, and its distance from the exact tables."""
    sizes, rows = read(case["data"], case["table"])
    shape = list(sizes.values())
    frame = pl.DataFrame({name: rows[:, i] for i, name in enumerate(sizes)}).lazy()
    algorithm = getattr(dp.mbi, case["method"])
    settings = {"queries": case["k"], "max_size": MODEL} if case["method"] == "AIM" else {}
    rho = largest_rho(case["epsilon"], case["delta"])
    wall, cpu = time.perf_counter(), time.process_time()
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    cuts = {name: list(range(size - 1)) for name, size in sizes.items()}
    made = context.query(rho=rho).contingency_table(cuts=cuts, algorithm=algorithm(**settings)).release()
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if "rows" in case:
        drawn = made.synthesize(rows=case["times"] * len(rows), method="sample")
        np.save(case["rows"], drawn.select(list(sizes)).to_numpy())
        return {**spent, "memory": memory}
    tables = some if "compared" in case else every
    names, sets = list(sizes), tables(shape, case["k"])

    def marginal(columns: tuple[int, ...]) -> Values:
        counts: Values = np.asarray(made.project([names[i] for i in columns]), dtype=float)
        return counts / float(counts.sum())

    found = distance(rows, shape, sets, marginal)
    found["pairs tvd"] = distance(rows, shape, tables(shape, 2), marginal)["tvd"]
    print(json.dumps({**spent, **found}), file=sys.stderr)  # A fit takes long: not lost if sampling fails.
    synthetic = made.synthesize(rows=len(rows), method="sample").select(names).to_numpy()
    found |= sampled(rows, shape, sets, synthetic)
    return {**spent, "memory": memory, **found, "note": f"rho {rho:.5f}, opendp {importlib.metadata.version('opendp')}"}


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.argv[1]))))

"""The sparse vector as the theory states it, for comparison with the production code; it shares no code with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt


def reference_scales(form: str, total: float, hits: int, sensitivity: int, *, numeric: bool) -> dict[str, float]:
    """Ideal noise scales; `total` is rho for the form "zcdp" and epsilon for "resampled" and "unresampled"."""
    if form == "zcdp":
        e = sqrt(2 * total * (0.9 if numeric else 1) / hits)
        scales = {"threshold": 2 * sensitivity / e, "query": 4 * sensitivity / e}
        return scales | ({"answer": hits * sensitivity**2 / (2 * total * 0.1)} if numeric else {})
    tests = total * 8 / 9 if numeric else total
    answer = {"answer": 9 * hits * sensitivity / total} if numeric else {}
    if form == "resampled":
        return {"threshold": 2 * hits * sensitivity / tests, "query": 4 * hits * sensitivity / tests} | answer
    share = (2 * hits) ** (2 / 3)
    query = 2 * hits * sensitivity * (1 + share) / (tests * share)
    return {"threshold": sensitivity * (1 + share) / tests, "query": query} | answer


def reference_transcript(
    form: str, hits: int, threshold: int, stream: Sequence[tuple[int, int]], noise: Sequence[int], *, numeric: bool
) -> tuple[list[tuple[bool, int | None]], list[tuple[str, str]]]:
    """Outcomes and noise requests (law, role) on a stream of (compared, released) integers with scripted noise."""
    source: Iterator[int] = iter(noise)
    outcomes: list[tuple[bool, int | None]] = []
    asked = [("laplace", "threshold")]
    noisy = threshold + next(source)
    for compared, released in stream:
        if sum(above for above, _ in outcomes) == hits:
            break
        asked.append(("laplace", "query"))
        if compared + next(source) < noisy:
            outcomes.append((False, None))
            continue
        if numeric:
            asked.append(("gaussian" if form == "zcdp" else "laplace", "answer"))
        outcomes.append((True, released + next(source) if numeric else None))
        if form != "unresampled":
            asked.append(("laplace", "threshold"))
            noisy = threshold + next(source)
    return outcomes, asked

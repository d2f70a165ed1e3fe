"""Questions about the survey: ten to read, and a stream of random ones."""

from __future__ import annotations

import numpy as np

QUESTIONS = (
    "SELECT count(*) FROM survey WHERE age >= 65 AND smoker",
    "SELECT count(*) FROM survey WHERE diabetes AND hypertension",
    "SELECT count(*) FROM survey WHERE bmi >= 30 AND diabetes",
    "SELECT count(*) FROM survey WHERE education = 'university' AND income >= 40000",
    "SELECT count(*) FROM survey WHERE income IS NULL",
    "SELECT count(*) FROM survey WHERE visit >= '2024-01-01' AND region = 'south'",
    "SELECT count(*) FROM survey WHERE sex = 'female' AND age BETWEEN 30 AND 49",
    "SELECT avg(age) FROM survey WHERE hypertension",
    "SELECT sum(age) FROM survey WHERE region IN ('north', 'islands')",
    "SELECT avg(age) FROM survey WHERE NOT smoker",
)

_CONDITIONS: dict[str, tuple[str, ...]] = {
    "age": tuple(f"age {sign} {years}" for sign in (">=", "<") for years in range(20, 90, 2)),
    "sex": ("sex = 'female'", "sex = 'male'"),
    "region": tuple(f"region {sign} '{name}'" for sign in ("=", "<>") for name in ("north", "east", "south", "west")),
    "education": tuple(f"education = '{name}'" for name in ("primary", "secondary", "college", "university")),
    "income": tuple(
        f"income {sign} {edge}" for sign in (">=", "<") for edge in (10_000, 20_000, 30_000, 40_000, 60_000)
    ),
    "smoker": ("smoker", "NOT smoker"),
    "bmi": tuple(f"bmi {sign} {edge}" for sign in (">=", "<") for edge in (18.5, 22, 25, 27.5, 30, 35)),
    "diabetes": ("diabetes", "NOT diabetes"),
    "hypertension": ("hypertension", "NOT hypertension"),
    "visit": tuple(f"visit < '{year}-{month:02d}-01'" for year in (2023, 2024) for month in range(2, 13)),
}
SIZES = (0.25, 0.73, 0.02)  # shares of questions on one, two and three columns
FINE = {"age": 0.3, "visit": 0.1}  # relative frequency: long ranges over many levels are expensive


def stream(count: int, rng: np.random.Generator) -> list[str]:
    """Random conditions on one or two columns, rarely on three; the finest columns are asked about less often."""
    names = list(_CONDITIONS)
    liking = np.array([FINE.get(name, 1.0) for name in names])
    asked = []
    for size in rng.choice(len(SIZES), count, p=SIZES) + 1:
        columns = sorted(rng.choice(len(names), size, replace=False, p=liking / liking.sum()))
        asked.append(" AND ".join(rng.choice(_CONDITIONS[names[column]]) for column in columns))
    return asked

"""An invented health survey: generated rows with real dependence between columns, for demos and tests."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa

from maquette.schema import Boolean, Category, Date, Integer, Number, Schema

ROWS = 100_000

SCHEMA = Schema(
    [
        Integer("age", 18, 97, width=1),
        Category("sex", ["female", "male"]),
        Category("region", ["north", "east", "south", "west", "islands"]),
        Category("education", ["primary", "secondary", "college", "university"]),
        Number("income", edges=[0, 10_000, 20_000, 30_000, 40_000, 60_000, 80_000, 120_000], nullable=True),
        Boolean("smoker"),
        Number("bmi", edges=[14, 18.5, 22, 25, 27.5, 30, 35, 50]),
        Boolean("diabetes"),
        Boolean("hypertension"),
        Date("visit", "2023-01-01", "2024-12-31", unit="month"),
    ]
)


def survey(rows: int = ROWS, *, seed: int = 20) -> pa.Table:
    """Generate the survey. The people are invented, so their exact answers may be shown beside the private ones."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.gamma(6.0, 8.2, rows) + 8, 18, 97).astype(int)
    sex = (rng.random(rows) < 0.49).astype(int)
    region = rng.choice(5, rows, p=[0.28, 0.22, 0.25, 0.2, 0.05])
    schooling = rng.normal(0, 1, rows) - 0.018 * (age - 45) + np.array([0.1, 0.0, -0.2, 0.2, -0.1])[region]
    education = np.digitize(schooling, [-1.1, 0.1, 0.9])
    earnings = 9.9 + 0.33 * education + 0.12 * sex - 0.0006 * (age - 50) ** 2 + rng.normal(0, 0.5, rows)
    income = np.where(rng.random(rows) < 0.06, np.nan, np.clip(np.exp(earnings), 0, 119_999))
    smoker = rng.random(rows) < _sigmoid(-0.9 - 0.45 * (education - 1) + 0.35 * sex - 0.012 * (age - 40))
    bmi = np.clip(25.2 + 0.05 * (age - 45) - 0.6 * education - 0.8 * smoker + rng.normal(0, 4, rows), 14, 49.9)
    diabetes = rng.random(rows) < _sigmoid(-4.6 + 0.045 * (age - 40) + 0.14 * (bmi - 25))
    strain = -2.2 + 0.06 * (age - 45) + 0.09 * (bmi - 25) + 0.5 * smoker + 0.8 * diabetes
    hypertension = rng.random(rows) < _sigmoid(strain)
    day = rng.integers(0, 731, rows)
    names = {column.name: getattr(column, "levels", None) for column in SCHEMA}
    return pa.table(
        {
            "age": age,
            "sex": np.array(names["sex"])[sex],
            "region": np.array(names["region"])[region],
            "education": np.array(names["education"])[education],
            "income": pa.array(income, from_pandas=True),
            "smoker": smoker,
            "bmi": bmi,
            "diabetes": diabetes,
            "hypertension": hypertension,
            "visit": pa.array((np.datetime64(dt.date(2023, 1, 1)) + day).astype("datetime64[D]")),
        }
    )


def _sigmoid(
    score: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return 1.0 / (1.0 + np.exp(-score))

"""The fast search for the least width finds what the search one by one finds, number for number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from session_checks import curator_of

import maquette as mq
from maquette.estimates import Columns
from maquette.query import Marginal
from maquette.schema import Schema
from maquette.session.precision.account import FINER, OWN, Account, Noise, reach
from maquette.session.precision.view_of import view_of
from maquette.session.pricing import Pricing

SCHEMA = Schema(
    [mq.Integer("age", 0, 19), mq.Category("region", ("n", "e", "s")), mq.Boolean("ill"), mq.Boolean("old")]
)


ROWS = {"age": [1, 2], "region": ["n", "e"], "ill": [True, False], "old": [False, False]}


def account_of(scales: tuple[float, ...], before: int) -> Account:
    pricing = Pricing(curator_of(SCHEMA, ROWS, mq.Budget(epsilon=1.0, delta=1e-9)))
    return Account(SCHEMA, pricing.rate, pricing.reuse, 0.05, cells=False, scales=scales, before=before)


def one_by_one(account: Account, columns: Columns, noises: Mapping[Columns, Noise], nats: float) -> float:
    """The width by all expectations and scales in turn."""
    widest = 0.0
    for scale in account.scales:
        least = math.inf
        for expected in account.menu(columns):
            for finer, share in FINER:
                unit = finer * scale
                keys = [noise.seen(*expected.of(key, unit**2)) for key, noise in noises.items()]
                least = min(least, reach(nats - math.log(share * expected.share), keys, expected.level / unit))
        widest = max(widest, least)
    return widest


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("scales", [(40.0,), (10.0, 14.1, 20.0)])
@pytest.mark.parametrize("seed", range(60))
def test_the_least_width_is_the_same_as_one_by_one(seed: int, scales: tuple[float, ...]) -> None:
    rng = np.random.default_rng(seed)
    account = account_of(scales, seed % 3)
    condition = ("age < 7 AND ill", "age = 3 AND region = 'n' AND old", "region IN ('n', 'e')")[seed % 3]
    view = view_of(Marginal(SCHEMA, (), mq.where(SCHEMA, condition)))
    noises: dict[Columns, Noise] = {}
    for part, gain in view.gains.items():
        variance = float(np.exp(rng.normal(0.0, 3.0)))
        if part and rng.random() < 0.25:
            noises["rented", *part] = Noise(gain * variance, 1.0, gain * variance, OWN)
            continue
        for key, ratio in {part: 1.0, **view.others.get(part, {})}.items():
            if key == part or rng.random() < 0.5:
                off = float(np.exp(rng.normal(0.0, 1.0)))
                noises[key] = Noise(gain * variance * off, float(rng.uniform(0.1, 1.0)), gain * ratio)
    bits = view.description.name
    width = account.width(view.columns, noises, bits, 0.05)
    assert width == one_by_one(account, view.columns, noises, account.nats(bits, beta=0.05))
    sizes = {key: np.array([0.3, 1.0, 0.0]) for key in noises}
    assert account.widths(view.columns, noises, bits, 0.05, sizes)[1] == pytest.approx(width, rel=1e-9)


def test_a_part_of_which_nothing_is_known_has_no_width() -> None:
    account = account_of((40.0,), 0)
    noises: dict[Columns, Noise] = {("ill",): Noise(math.inf, 1.0, 1.0), (): Noise(4.0, 1.0, 1.0)}
    assert account.width(("ill",), noises, 5.0, 0.05) == math.inf


def test_a_kept_width_is_only_that_of_the_same_question() -> None:
    """Any of what a width depends on tells two of them apart, also across accounts that share what they keep."""
    account = account_of((40.0,), 0)
    noises: dict[Columns, Noise] = {("ill",): Noise(9.0, 1.0, 1.0), (): Noise(4.0, 1.0, 1.0)}
    louder = {**noises, ("ill",): Noise(9.5, 1.0, 1.0)}
    cases = [(noises, 5.0, 0.05), (louder, 5.0, 0.05), (noises, 6.0, 0.05), (noises, 5.0, 0.01)]
    for kept in (account, replace(account, before=3)):
        for _ in range(2):
            for noise, bits, beta in cases:
                expected = one_by_one(kept, ("ill",), noise, kept.nats(bits, beta=beta))
                assert kept.width(("ill",), noise, bits, beta) == expected

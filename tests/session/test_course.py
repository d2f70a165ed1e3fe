"""Course: what is known of a question at every moment, looked up once, is what each moment says by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maquette.session.course import Course, as_of
from maquette.session.precision.width import Known, known_of, mixture_of

Key = tuple[str, ...]


def state(moment: int, weight: float, pieces: int) -> Any:
    return SimpleNamespace(moment=moment, weight=weight, pieces=pieces, known=Known(1.0 / weight, pieces))


def measured(rng: np.random.Generator, keys: list[Key], last: int) -> dict[Key, list[Any]]:
    """States of some of the keys, each more precise than the one before."""
    states = dict[Key, list[Any]]()
    for key in keys:
        moments = sorted({int(moment) for moment in rng.integers(1, last + 5, rng.integers(0, 5))})
        weights = np.cumsum(rng.random(len(moments)) + 0.1)
        states[key] = [
            state(moment, float(weight), place + 1)
            for place, (moment, weight) in enumerate(zip(moments, weights, strict=True))
        ]
        if not states[key] and rng.random() < 0.5:
            del states[key]
    return states


@pytest.mark.parametrize("seed", range(30))
def test_every_moment_is_what_it_says_by_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts: list[Key] = [("a",), ("b",), ("a", "b")]
    bases = tuple(
        (part, ((part, 1.0), *((("basis", str(number), *part), float(rng.random() + 0.5)) for number in range(place))))
        for place, part in enumerate(parts)
    )
    view: Any = SimpleNamespace(bases=bases, gains=dict.fromkeys(parts, 1.0))
    now = 12
    states = measured(rng, [key for _, keys in bases for key, _ in keys], now)
    moments = sorted({one.moment for each in states.values() for one in each if 3 < one.moment <= now})
    own = {part: ((part, 1.0),) for part in parts}
    for mixed, used in ((True, bases), (False, tuple(own.items()))):
        course = Course(states, view, now, mixed=mixed)
        alone: Any = SimpleNamespace(bases=used)
        for moment in [*rng.permutation(now + 1).tolist(), None]:
            until = now if moment is None else moment

            def look(key: Any, until: int = until) -> Known | None:
                there = [one for one in states.get(key, ()) if one.moment <= until]
                assert as_of(states.get(key), until) is (there[-1] if there else None)
                return there[-1].known if there else None

            known = course.known(moment)
            assert known == known_of(alone, look)
            assert course.known(moment) is known
            for part, weights in mixture_of(known).items():
                variances = {key: (ratio * one.variance) for key, ratio in dict(used)[part] if (one := look(key))}
                assert weights.keys() == variances.keys()
                assert sum(weights.values()) == pytest.approx(1.0)
                for key, weight in weights.items():
                    assert weight * variances[key] == pytest.approx(known[part].variance)
        if mixed:
            assert course.changes(3) == moments


def test_what_comes_after_its_now_is_not_seen() -> None:
    view: Any = SimpleNamespace(bases=((("a",), ((("a",), 1.0),)),), gains={("a",): 1.0})
    states: Any = {("a",): [state(2, 1.0, 1)]}
    course = Course(states, view, 3, mixed=False)
    states["a",].append(state(4, 2.0, 2))  # taken by another thread meanwhile
    assert course.known() == course.known(3) == course.known(2) == {("a",): Known(1.0, 1)}
    assert course.known(1) == {}
    assert course.changes(0) == [2]

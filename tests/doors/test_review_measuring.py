"""The measuring door against the odd: records that are not records, words at the edge, sensitivities that stay."""

from __future__ import annotations

import io
import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from numpy.lib import format as npy

from gate_tools import Counts, tallied
from maquette.curator import exact, noise
from maquette.curator.transaction import pack, unpack
from maquette.errors import LedgerCorrupted
from maquette.query import Contrasts, Marginal, linear, residual
from maquette.schema import Boolean, Category, Schema

SCHEMA = Schema([Boolean("a"), Category("b", ["x", "y", "z"])])
SCALES = [
    Fraction(1, 2**30),
    Fraction(1, 2),
    Fraction(7, 3),
    Fraction(2**17) - Fraction(1, 2**20),
    Fraction(10),
    Fraction(99_991, 7),
]


def header(shape: tuple[int, ...], descr: str = "<i8") -> bytes:
    stream = io.BytesIO()
    npy.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def test_a_record_cut_short_is_refused() -> None:
    recorded, first = pack([np.arange(6).reshape(2, 3), np.array(7)]), len(pack([np.arange(6).reshape(2, 3)]))
    for length in set(range(1, len(recorded))) - {first}:
        with pytest.raises(LedgerCorrupted, match="whole numbers"):
            unpack(recorded[:length])


@pytest.mark.parametrize(
    "recorded",
    [
        header((-len(header((-16,))) // 8,)),  # points back to its own beginning
        header((-1,)),
        header((-1, -1)) + bytes(8),
        header((2**62, 2**62)),
        header((2**70,)) + bytes(64),
        header((3,)) + bytes(16),
        header((1,), ">i8") + bytes(8),
        header((2,), "<i4") + bytes(8),
        header((1,)).replace(b"\x01\x00", b"\x02\x00", 1) + bytes(8),
        b"\x93NUMPY\x01\x00\x02\x00{}",
        b"a" * 200,
    ],
)
def test_what_is_no_record_is_refused(recorded: bytes) -> None:
    for whole in (recorded, pack([np.arange(3)]) + recorded):
        with pytest.raises(LedgerCorrupted, match="whole numbers"):
            unpack(whole)


def test_contrasts_keep_the_matrices_their_sensitivity_was_worked_out_for() -> None:
    given = np.array([[1, -1]])
    made = Contrasts(Marginal(SCHEMA, ["a"]), [given])
    given *= 1000
    assert made.gains == (1, 1, 1)
    with pytest.raises(ValueError, match="read-only"):
        made.matrices[0][:] = 1000


def test_contrasts_do_not_depend_on_what_is_remembered_of_their_schema() -> None:
    counts = np.arange(6).reshape(2, 3)
    made = residual(SCHEMA, ["b", "a"])
    expected = tallied(Counts(SCHEMA, counts), made)
    linear._constant.cache_clear()
    forgotten = Contrasts(made.marginal, made.matrices)
    for one in (made, forgotten):
        assert np.array_equal(tallied(Counts(SCHEMA, counts), one), expected)
        assert (one.key, one.gains) == (residual(SCHEMA, ["b", "a"]).key, made.gains)


def test_words_at_the_edge_of_two_values_are_settled_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words next to U = exp(-m / scale), of very different scales in one call: floats decide none of them wrongly."""
    rng, draws, owner = random.Random(5), [], []
    with localcontext() as context:
        context.prec = 60
        for which, scale in enumerate(SCALES):
            for _ in range(120):
                m = rng.randint(0, int(11 * scale) + 1)
                edge = int((Decimal(-m) * scale.denominator / scale.numerator).exp() * 2**63)
                off = rng.choice([0, -1, 1, rng.randint(-(2**12), 2**12), int(edge * rng.uniform(-1, 1) * 2**-43)])
                draws.append(min(max(edge + off, 1), 2**63 - 1))
                owner.append(which)
    order = np.random.default_rng(0).permutation(len(draws))
    given, owners = np.array(draws, dtype=np.uint64)[order], np.array(owner)[order]
    further = np.array([rng.getrandbits(64)], dtype=np.uint64)
    monkeypatch.setattr(exact, "words", lambda count, dtype: further)
    each = noise._Each(SCALES, owners, len(given))
    found = noise._geometric(given, each, noise._LARGEST // np.ones(len(given), dtype=np.int64))
    expected = [exact.floor_log(exact.Uniform(int(word), 63), SCALES[i]) for word, i in zip(given, owners, strict=True)]
    assert found.tolist() == expected
    monkeypatch.setattr(noise, "_SLACK", 0.0)
    careless = noise._geometric(given, each, noise._LARGEST // np.ones(len(given), dtype=np.int64))
    assert careless.tolist() != expected, "these words do not try the error bound"

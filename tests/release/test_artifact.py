"""Release: what it answers, samples, shows and saves, and what becomes of a file that was tampered with."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import io
import json
import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from release_checks import SCHEMA, Seeded, open_records, records, released, table_of

import maquette as mq
from maquette.errors import DataError, MaquetteError, QueryError, UnreadableSource
from maquette.query import LinearQuery
from maquette.releases import Net, net_mechanism, projection
from maquette.releases.archive import MANIFEST, SEAL
from maquette.releases.methods.registry import METHODS

GENEROUS = mq.Budget(epsilon=40.0, delta=1e-9)
PARTIAL = mq.marginals(SCHEMA, columns=[("smoker", "region"), ("age",)])
FIXED: dict[str, dict[str, Any]] = {
    "averaged-construction": {"rounds": 20},
    "dual-query": {"rounds": 8, "draws": 10},
    "both-learn": {"rounds": 20},
    "small-db": {"rows": 2, "workload": mq.marginals(SCHEMA, k=1)},
}


@functools.cache
def made(method: str) -> mq.Release:
    return released(method, table_of(SCHEMA, 5000), GENEROUS, Seeded(1), **FIXED.get(method, {}))


@functools.cache
def partial() -> mq.Release:
    return released("everything", table_of(SCHEMA, 5000), GENEROUS, Seeded(1), workload=PARTIAL)


def other_models() -> dict[str, mq.Release]:
    """Releases that come from functions of their own."""
    bits = mq.Schema([mq.Boolean(f"b{i}") for i in range(4)])
    net = Net.histograms(SCHEMA, np.random.default_rng(0).dirichlet(np.ones(SCHEMA.size), 9))
    with mq.Curator(table_of(SCHEMA, 5000), GENEROUS, noise=Seeded(2)) as curator:
        chosen = net_mechanism(curator, mq.marginals(SCHEMA, k=1), net, epsilon=1.0)
    with mq.Curator(table_of(bits, 5000), GENEROUS, noise=Seeded(2)) as curator:
        return {"net": chosen, "projection": projection(curator, epsilon=1.0)}


def test_a_predicate_is_a_fraction_with_its_count() -> None:
    release = made("everything")
    forms = [release.answer("smoker"), release.answer(mq.col("smoker")), release.answer(mq.where(SCHEMA, "smoker"))]
    assert all(isinstance(form, mq.Answer) and form == forms[0] for form in forms)
    answer = forms[0]
    assert isinstance(answer, mq.Answer)
    assert 0 <= answer.low <= answer.value <= answer.high <= 1
    assert answer.count == pytest.approx(answer.value * release.rows)
    assert (answer.source, answer.confidence, answer.cost.units) == ("hypothesis", 0.95, 0)
    assert answer.guarantee is not None
    wider = release.answer("smoker", confidence=0.999)
    assert isinstance(wider, mq.Answer)
    assert wider.low < answer.low <= answer.high < wider.high
    assert release.marginal("smoker")[1] == pytest.approx(answer.value)


def test_sql_answers_every_declared_group() -> None:
    table = made("everything").answer("SELECT region, count(*) AS n, avg(age) AS mean FROM t GROUP BY region")
    assert isinstance(table, mq.AnswerTable)
    assert [row.groups for row in table] == [("n",), ("e",), ("s",)]
    share = made("everything").marginal("region")
    for i, row in enumerate(table):
        assert row["n"].value == pytest.approx(share[i] * made("everything").rows)
        assert row["n"].low <= row["n"].value <= row["n"].high
        assert row["mean"].low <= row["mean"].value <= row["mean"].high
        assert row["n"].guarantee is not None
    one = made("everything").answer("SELECT count(*) FROM t")
    assert isinstance(one, mq.Answer)
    assert one.value == pytest.approx(made("everything").rows)


def test_what_was_not_measured_together_has_the_bounds_of_its_parts_or_of_logic() -> None:
    """Smokers of 20 or more are at most the smokers, at most those of 20 or more, and at least what both leave."""
    predicate, smokers, old = (partial().answer(text) for text in ("smoker AND age >= 20", "smoker", "age >= 20"))
    assert predicate.bound == "measured"
    assert min(smokers.value, old.value) < predicate.high < min(smokers.high, old.high) + 0.01
    assert smokers.value + old.value - 1 - 0.01 < max(predicate.low, smokers.value + old.value - 1)
    covered = partial().answer("smoker AND region = 'n'")
    assert covered.bound == "measured"
    assert covered.high - covered.low < (predicate.high - predicate.low) / 2
    mixed = partial().answer("SELECT smoker, count(*) AS n, avg(age) AS mean FROM t GROUP BY smoker")
    assert isinstance(mixed, mq.AnswerTable)
    assert [(row["n"].bound, row["mean"].bound) for row in mixed] == [("measured", "measured")] * 2
    means = [records(SCHEMA, 5000)[records(SCHEMA, 5000)[:, 0] == value, 2].mean() * 10 + 4.5 for value in (0, 1)]
    for row, mean in zip(mixed, means, strict=True):
        assert row["mean"].low <= mean <= row["mean"].high, "the ages of all tell something of those of so many"
        assert row["mean"].high - row["mean"].low < 30
    few = partial().answer("SELECT count(*) AS n, avg(age) AS mean FROM t WHERE smoker AND age >= 30")
    assert isinstance(few, mq.AnswerTable)
    assert [(row["n"].bound, row["mean"].bound) for row in few] == [("measured", "logical")]
    assert [(row["mean"].low, row["mean"].high) for row in few] == [(0.0, 39.0)], "the declared range"
    assert few.bound == "logical"
    assert "cannot be otherwise" in str(few.guarantee)
    assert "few rows or none" in str(few.guarantee)


def test_independent_tables_answer_from_the_smallest_that_covers_and_refuse_the_rest() -> None:
    release = released("gaussian", table_of(SCHEMA, 5000), GENEROUS, Seeded(1), workload=PARTIAL)
    assert release.marginal("region", "smoker").shape == (3, 2)
    assert release.marginal("region", "smoker").sum() == pytest.approx(1)
    with pytest.raises(QueryError, match="smoker x region"):
        release.marginal("smoker", "age")
    with pytest.raises(QueryError, match="no marginal over"):
        release.answer("smoker AND age >= 20")
    with pytest.raises(QueryError, match="everything"):
        release.sample(5)


def test_settings_in_a_text_are_read() -> None:
    release, text = made("everything"), "SELECT count(*) FROM t WHERE smoker"
    usual, sure = release.answer(text), release.answer(f"/* confidence = 0.999 */ {text}")
    assert (usual.confidence, sure.confidence) == (0.95, 0.999)
    assert sure == release.answer(text, confidence=0.999)
    assert sure.low < usual.low
    assert release.answer(f"SET max_cost = 0.1; {text}") == usual
    with pytest.raises(QueryError, match="a setting of a session"):
        release.answer(f"/* alpha = 0.01 */ {text}")


def test_a_comparison_inside_a_bin_is_answered_between_its_ends() -> None:
    release, text = made("everything"), "SELECT count(*) FROM t WHERE age < 25"
    with pytest.raises(QueryError, match="cuts through the bin"):
        release.answer(text)
    between = release.answer(text, cuts="between")
    assert between == release.answer(f"/* cuts = between */ {text}")
    assert between.low <= release.answer("SELECT count(*) FROM t WHERE age < 20").value
    assert between.high >= release.answer("SELECT count(*) FROM t WHERE age < 30").value


def test_unknown_columns_are_refused_with_a_hint() -> None:
    with pytest.raises(QueryError, match="did you mean smoker"):
        made("everything").marginal("smokr")
    with pytest.raises(QueryError, match="region"):
        made("everything").answer("regoin = 'n'")


@pytest.mark.parametrize("rows", [40, 500])
def test_small_samples_keep_the_marginals(rows: int) -> None:
    """Closer than independent draws, whose two-way total variation is about 0.19 at 40 rows and 0.05 at 500."""
    release = made("everything")
    sample = SCHEMA.encode(release.sample(rows, rng=np.random.default_rng(0)))
    far = []
    for names in (("smoker", "region"), ("region", "age")):
        found = np.zeros(SCHEMA.shape(names))
        np.add.at(found, tuple(sample[:, SCHEMA.position(name)] for name in names), 1 / rows)
        far.append(0.5 * np.abs(found - release.marginal(*names)).sum())
    assert max(far) < 3 / np.sqrt(rows) / 4
    assert len(sample) == rows


def test_samples_are_arrow_tables_of_the_declared_types() -> None:
    schema = mq.Schema(
        [
            mq.Integer("age", 0, 99, width=10),
            mq.Category("city", ["oslo", "rome"], other="other", nullable=True),
            mq.Number("pay", edges=[0, 10, 20.5]),
            mq.Boolean("smoker"),
            mq.Date("seen", "2024-01-01", "2024-12-31", unit="quarter"),
        ]
    )
    table = open_records(schema, records(schema, 300))
    release = released("everything", table, mq.Budget(epsilon=9.0), Seeded(3), steps=20)
    sample = release.sample(50, rng=np.random.default_rng(1))
    assert isinstance(sample, pa.Table)
    kinds = {name: sample.schema.field(name).type for name in schema.names}
    assert pa.types.is_integer(kinds["age"])
    assert pa.types.is_string(kinds["city"])
    assert pa.types.is_floating(kinds["pay"])
    assert pa.types.is_boolean(kinds["smoker"])
    assert all(isinstance(day, dt.date) for day in sample["seen"].to_pylist())
    assert schema.encode(sample).shape == (50, 5)
    assert sample.to_pandas().shape == (50, 5)
    first, second = (release.sample(50, rng=np.random.default_rng(1)) for _ in range(2))
    assert first.equals(second)


@pytest.mark.thorough(fast=1)
@pytest.mark.parametrize("method", [*METHODS, "net", "projection"])
def test_a_saved_release_answers_with_the_same_bytes(method: str, tmp_path: Path) -> None:
    release = made(method) if method in METHODS else other_models()[method]
    path = tmp_path / "people.maq"
    digest = release.save(path)
    again = mq.Release.load(path, digest=digest)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest(), "what sha256sum prints"
    assert again.certificate == release.certificate
    assert again.schema == release.schema
    assert again.rows == release.rows
    names = release.schema.names
    first = names[0]
    assert again.marginal(first, names[1]).tobytes() == release.marginal(first, names[1]).tobytes()
    for asked in (first, f"SELECT {names[1]}, count(*) FROM t GROUP BY {names[1]}"):
        assert again.answer(asked) == release.answer(asked)
    if method not in ("laplace", "gaussian"):
        mine, theirs = (r.sample(30, rng=np.random.default_rng(0)) for r in (release, again))
        assert mine.equals(theirs)
    second = tmp_path / "again.maq"
    assert again.save(second) == digest
    assert mq.Release.load(path).answer(first) == release.answer(first)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "people.maq"
    return path, made("everything").save(path)


def test_every_flipped_byte_is_found(saved: tuple[Path, str]) -> None:
    path, digest = saved
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 200):
        flipped = bytearray(content)
        flipped[place] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        for settings in ({}, {"digest": digest}):
            with pytest.raises(DataError):
                mq.Release.load(path, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [0, 1, 4, 30, 64, 65, 1000, -1, -64, -65])
def test_a_file_cut_short_is_refused(saved: tuple[Path, str], kept: int) -> None:
    path, _ = saved
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError):
        mq.Release.load(path)


def test_a_wrong_digest_is_refused_and_a_missing_file_named(saved: tuple[Path, str], tmp_path: Path) -> None:
    path, digest = saved
    with pytest.raises(DataError, match="published under this digest"):
        mq.Release.load(path, digest=digest[::-1])
    with pytest.raises(UnreadableSource, match=re.escape("nothing.maq")):
        mq.Release.load(tmp_path / "nothing.maq")
    with pytest.raises(MaquetteError):
        mq.Release.load(tmp_path)


class Trap:
    """Leaves a mark when unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


def forged(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Rewrite a release by someone who knows the format: parts changed, and the seal computed anew."""
    with zipfile.ZipFile(path) as file:
        parts = {info.filename: file.read(info) for info in file.infolist()}
    change(parts)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)
        for name, part in parts.items():
            file.writestr(name, part)
    content = stream.getvalue()[:-SEAL]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def _pickled(mark: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([Trap(mark)], dtype=object), allow_pickle=True)
    return stream.getvalue()


def _manifest(**changes: Any) -> Callable[[dict[str, bytes]], None]:
    def change(parts: dict[str, bytes]) -> None:
        parts[MANIFEST] = json.dumps(json.loads(parts[MANIFEST]) | changes).encode()

    return change


def _huge(parts: dict[str, bytes]) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }"
    parts["model-cells.npy"] = b"\x93NUMPY\x01\x00" + (len(header) + 1).to_bytes(2, "little") + header + b"\n"


FORGERIES: dict[str, Callable[[dict[str, bytes]], Any]] = {
    "a part renamed": lambda parts: parts.update({"model-cellz.npy": parts.pop("model-cells.npy")}),
    "a part missing": lambda parts: parts.pop("evidence-0-sums.npy"),
    "no manifest": lambda parts: parts.pop(MANIFEST),
    "manifest is no JSON": lambda parts: parts.update({MANIFEST: b"{"}),
    "manifest too deep": lambda parts: parts.update({MANIFEST: b"[" * 200_000}),
    "manifest is a list": lambda parts: parts.update({MANIFEST: b"[]"}),
    "another format": _manifest(format="maquette release 999"),
    "unknown model": _manifest(model={"kind": "magic"}),
    "no certificate": _manifest(certificate={}),
    "no schema": _manifest(schema="nothing = "),
    "an array of 8 TB": _huge,
    "negative masses": lambda parts: parts.update({"model-cells.npy": _array(-np.ones((2, 3, 4)))}),
    "wrong shape": lambda parts: parts.update({"model-cells.npy": _array(np.ones(3))}),
    "not numbers": lambda parts: parts.update({"model-cells.npy": _array(np.full((2, 3, 4), np.nan))}),
}


def _array(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_fails_as_an_error_of_ours(name: str, saved: tuple[Path, str]) -> None:
    path, digest = saved
    forged(path, FORGERIES[name])
    with pytest.raises(MaquetteError):
        mq.Release.load(path)
    with pytest.raises(DataError, match="digest"):
        mq.Release.load(path, digest=digest)


@pytest.mark.parametrize("part", ["model-cells.npy", "evidence-0-sums.npy", "extra.npy", "extra.pkl"])
def test_a_pickle_inside_is_never_executed(part: str, saved: tuple[Path, str], tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    payload = pickle.dumps(Trap(mark)) if part.endswith("pkl") else _pickled(mark)
    forged(saved[0], lambda parts: parts.update({part: payload}))
    with pytest.raises(MaquetteError):
        mq.Release.load(saved[0])
    assert not mark.exists()
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists(), "the trap works"


class Uniform:
    """A model that cannot describe itself."""

    def answer(self, query: LinearQuery) -> float:
        return 0.5

    def marginal(self, columns: Any) -> np.ndarray:
        return np.full(SCHEMA.shape(columns), 1 / SCHEMA.cells(columns))

    def sample(self, rows: int, rng: np.random.Generator) -> np.ndarray:
        return rng.integers(SCHEMA.shape(SCHEMA.names), size=(rows, len(SCHEMA)), dtype=np.int32)


def test_models_without_a_plain_form_say_how_to_share_them(tmp_path: Path) -> None:
    release = mq.Release(SCHEMA, Uniform(), made("everything").evidence, made("everything").certificate)
    with pytest.raises(DataError, match=r"a Uniform cannot be saved; expected kind, facts, arrays and restore.*sample"):
        release.save(tmp_path / "people.maq")
    assert not (tmp_path / "people.maq").exists()


@pytest.mark.thorough(fast=3)
@pytest.mark.parametrize("method", METHODS)
def test_a_release_shows_itself_in_one_line_without_its_numbers(method: str) -> None:
    release = made(method)
    for whole in (release, release.certificate):
        assert "\n" not in repr(whole)
        assert len(repr(whole)) < 200
    html = release._repr_html_()
    assert html.count("<table") == 1
    for shown in (repr(release), html):
        assert "array" not in shown
        assert str(round(release.rows)) not in shown
    answer = release.answer("smoker")
    assert "\n" not in repr(answer)
    assert "<b>" in answer._repr_html_()

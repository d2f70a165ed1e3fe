"""A saved release is opened in memory that its size bounds: bombs, false headers and strange zips are refused."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from release_checks import SCHEMA, Seeded, released, table_of

import maquette as mq
from maquette.errors import MaquetteError, SchemaError
from maquette.releases.archive import EXPANSION, LIMIT, MANIFEST, SEAL

GENEROUS = mq.Budget(epsilon=40.0, delta=1e-9)
ROUNDS = 120


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts of releases of several kinds."""
    folder = tmp_path_factory.mktemp("published")
    kinds = {}
    for method in ("everything", "graphical", "laplace"):
        path = folder / f"{method}.maq"
        released(method, table_of(SCHEMA, 500), GENEROUS, Seeded(1)).save(path)
        kinds[method] = path.read_bytes()
    return kinds


def _parts(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {info.filename: file.read(info) for info in file.infolist()}


def _sealed(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A file as someone would make it who knows the format."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)
        for name, part in parts.items():
            file.writestr(name, part, method)
    content = stream.getvalue()[:-SEAL]
    return content + hashlib.sha256(content).hexdigest().encode()


def _npy(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values, allow_pickle=False)
    return stream.getvalue()


def _opened(path: Path, **settings: Any) -> tuple[str, int]:
    """What opening a file came to, and the most memory it took."""
    tracemalloc.start()
    try:
        mq.Release.load(path, **settings)
        outcome = "opened"
    except MaquetteError as refused:
        outcome = str(refused)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return outcome, peak


@pytest.mark.thorough
def test_a_small_file_cannot_fill_the_memory(published: dict[str, bytes], tmp_path: Path) -> None:
    """A dense model of zeros, which fits its schema: 300 megabytes in 300 kilobytes of zip."""
    levels = 6_200
    schema = mq.Schema([mq.Integer(name, 0, levels - 1) for name in "xy"])
    manifest = json.loads(_parts(published["everything"])[MANIFEST]) | {"schema": schema.dumps()}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.comment = bytes(SEAL)
        file.writestr(MANIFEST, json.dumps(manifest))
        with file.open("model-cells.npy", "w") as part:
            part.write(_header(f"({levels}, {levels})"))
            for _ in range(levels):
                part.write(bytes(8 * levels))
    content = stream.getvalue()[:-SEAL]
    path = tmp_path / "bomb.maq"
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    assert path.stat().st_size < 2**21
    outcome, peak = _opened(path)
    assert "would unpack to 307,5" in outcome
    assert peak < 2**24


def test_text_is_bounded_more_tightly(published: dict[str, bytes], tmp_path: Path) -> None:
    parts = _parts(published["everything"])
    path = tmp_path / "text.maq"
    path.write_bytes(_sealed(parts | {MANIFEST: b"[" + b"[]," * 2**23 + b"[]]"}))
    outcome, peak = _opened(path)
    assert "of text" in outcome
    assert "limit=" in outcome
    assert peak < 2**24


def test_a_large_honest_file_opens_and_a_limit_can_be_raised(published: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "people.maq"
    path.write_bytes(published["everything"])
    total = sum(map(len, _parts(published["everything"]).values()))
    assert total < EXPANSION * len(published["everything"])
    assert mq.Release.load(path, limit=0).certificate == mq.Release.load(path).certificate
    parts = _parts(published["everything"])
    parts[MANIFEST] += b" " * (LIMIT // 16)
    path.write_bytes(_sealed(parts))
    assert "would unpack" in _opened(path)[0]
    assert mq.Release.load(path, limit=2 * LIMIT).rows > 1


def _header(shape: str, descr: str = "<f8") -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    "part",
    [
        _header("(268435456,)"),
        _header("(268435456,)") + bytes(2**20),
        _header("(2, 3, 4)") + bytes(2 * 3 * 4 * 8 + 1),
        _header("(2, 3, 4)") + bytes(2 * 3 * 4 * 8 - 1),
        _header("(-2, -96)") + bytes(2 * 3 * 4 * 8),
        _header("(24,)", "|O") + bytes(2 * 3 * 4 * 8),
        _header("(24,)", "<M8[s]") + bytes(2 * 3 * 4 * 8),
        _header("(1099511627776, 0)"),
        _header("(" + "1, " * 2000 + ")"),
        b"\x93NUMPY\x03\x00" + bytes(200),
        b"",
    ],
    ids=range(11),
)
def test_headers_that_lie_are_refused(part: bytes, published: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "header.maq"
    path.write_bytes(_sealed(_parts(published["everything"]) | {"model-cells.npy": part}))
    outcome, peak = _opened(path)
    assert outcome != "opened"
    assert peak < 2**24


def test_strange_zips_are_refused(published: dict[str, bytes], tmp_path: Path) -> None:
    path, parts = tmp_path / "strange.maq", _parts(published["everything"])
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path.write_bytes(_sealed(parts, method))
        assert "no saved release has" in _opened(path)[0]
    path.write_bytes(_sealed(parts | {"folder/": b""}))
    assert "no saved release has" in _opened(path)[0]
    twice = _sealed(parts | {"model-cellz.npy": b""}).replace(b"model-cellz", b"model-cells")[:-SEAL]
    path.write_bytes(twice + hashlib.sha256(twice).hexdigest().encode())
    assert "no saved release has" in _opened(path)[0]


def test_arrays_that_would_grow_when_put_together_are_refused(published: dict[str, bytes], tmp_path: Path) -> None:
    """A set listed twice, with a tall and with a wide array: their sum would have a million times their cells."""
    parts = _parts(published["everything"])
    manifest = json.loads(parts[MANIFEST])
    manifest["evidence"]["sets"] = [["age", "region"], ["age", "region"]]
    for i, shape in enumerate([(2**15, 1), (1, 2**15)]):
        for part in ("sums", "precisions"):
            parts[f"evidence-{i}-{part}.npy"] = _npy(np.ones(shape))
    path = tmp_path / "grow.maq"
    path.write_bytes(_sealed(parts | {MANIFEST: json.dumps(manifest).encode()}))
    outcome, peak = _opened(path)
    assert "its schema implies" in outcome
    assert peak < 2**24


def test_impossible_combinations_of_a_small_schema_cannot_fill_the_memory() -> None:
    columns = [mq.Integer(f"x{i}", 0, 4095) for i in range(10)]
    pairs = [{f"x{i}": 1, f"x{j}": 1} for i in range(10) for j in range(i)]
    with pytest.raises(SchemaError, match="expected at most"):
        mq.Schema(columns, impossible=pairs)
    with pytest.raises(SchemaError, match="expected at most"):
        mq.Schema([mq.Integer("x", 0, 2**22), mq.Boolean("b")], impossible=[{"x": 5, "b": True}])
    assert mq.Schema(columns, impossible=pairs[:3]).impossible


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["everything", "graphical", "laplace"])
def test_damaged_files_fail_as_errors_of_ours_in_bounded_memory(
    method: str, published: dict[str, bytes], tmp_path: Path
) -> None:
    """Bytes of parts and values of the manifest changed at random, and sealed anew."""
    parts, choice = _parts(published[method]), random.Random(method)
    path, outcomes = tmp_path / "fuzzed.maq", set()
    for _ in range(ROUNDS):
        changed = dict(parts)
        name = choice.choice([*parts, MANIFEST])
        if name == MANIFEST and choice.random() < 0.7:
            manifest = json.loads(parts[MANIFEST])
            _disturb(manifest, choice)
            changed[name] = json.dumps(manifest).encode()
        else:
            content = bytearray(parts[name])
            for _ in range(choice.randint(1, 4)):
                content[choice.randrange(min(len(content), 200))] = choice.randrange(256)
            changed[name] = bytes(content)
        path.write_bytes(_sealed(changed))
        outcome, peak = _opened(path)
        outcomes.add(outcome == "opened")
        assert peak < 2**27
    assert False in outcomes


ODD: list[Any] = [None, -1, 0, 2**40, 1e308, float("nan"), "", "x" * 1000, [], {}, [[]], True, ["age"] * 50]


def _disturb(value: Any, choice: random.Random) -> None:
    """Change one place of a tree of lists and dictionaries."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = choice.choice(keys)
    if isinstance(value[key], dict | list) and choice.random() < 0.8:
        _disturb(value[key], choice)
    elif key == "schema":
        text, place = value[key], choice.randrange(len(value[key]))
        value[key] = text[:place] + choice.choice("0123456789[]\n'\"x=-") + text[place + choice.randint(0, 2) :]
    else:
        value[key] = choice.choice(ODD)

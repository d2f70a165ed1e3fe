"""Saved releases: bytes of real files changed, and files taken apart, changed inside and sealed again.

Whoever means harm can compute the seal, so most inputs carry a right one. What still loads must answer or refuse.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fuzz_words as words
import numpy as np
from fuzz_runner import Target, memory_folder
from numpy.lib import format as npy

import maquette as mq
from maquette.errors import DataError, QueryError, SchemaError
from maquette.hypothesis import CutDecomposition, Hypothesis, Median, MirrorDescent, Perceptron, SparseWeights
from maquette.releases import MedianModel
from maquette.releases.archive import MANIFEST, SEAL

SCHEMA = mq.Schema([mq.Boolean("smoker"), mq.Category("region", ["n", "e", "s"]), mq.Integer("age", 0, 39, width=10)])
ROWS = 400
METHODS = {"everything": 2, "gaussian": 2, "graphical": 2, "mwem": 1, "dual-query": 1}
SETTINGS: dict[str, dict[str, Any]] = {"dual-query": {"rounds": 4, "draws": 5}}
MODELS: dict[str, Callable[[], Hypothesis]] = {
    "cuts": lambda: CutDecomposition(SCHEMA, alpha=0.1),
    "median": lambda: Median(SCHEMA, np.random.default_rng(1).dirichlet(np.ones(24), 8), alpha=0.1, tolerance=0.05),
    "mirror-descent": lambda: MirrorDescent(SCHEMA, alpha=0.1),
    "perceptron": lambda: Perceptron(SCHEMA, alpha=0.1),
    "sparse-weights": lambda: SparseWeights(SCHEMA, support=24, alpha=0.1),
}


@functools.cache
def folder() -> Path:
    """A place in memory for the files."""
    return memory_folder("maq-fuzz-")


@functools.cache
def seeds() -> tuple[tuple[bytes, dict[str, bytes]], ...]:
    """Small saved releases of several methods and models: their bytes, and their parts."""
    rng = np.random.default_rng(0)
    rows = {
        "smoker": rng.random(ROWS) < 0.3,
        "region": rng.choice(["n", "e", "s"], ROWS),
        "age": rng.integers(0, 40, ROWS),
    }
    found = []
    for method, workload in METHODS.items():
        with mq.Curator(mq.open_table(rows, SCHEMA), mq.Budget(epsilon=40.0, delta=1e-6)) as curator:
            release = mq.release(curator, mq.marginals(SCHEMA, k=workload), method=method, **SETTINGS.get(method, {}))
        found.append(_saved(release, method))
    for name, build in MODELS.items():
        model = build()
        for asked in ("smoker", "age < 20", "smoker AND region = 'n'"):
            model.update(mq.where(SCHEMA, asked), 0.3)
        found.append(_saved(mq.Release(SCHEMA, model, release.evidence, release.certificate), name))
    models = [mq.Release.load(folder() / f"{name}.maq").model for name in ("everything", "perceptron", "gaussian")]
    boosted = mq.Release(SCHEMA, MedianModel(models), release.evidence, release.certificate)
    return (*found, _saved(boosted, "medians"))


def _saved(release: mq.Release, name: str) -> tuple[bytes, dict[str, bytes]]:
    path = folder() / f"{name}.maq"
    release.save(path)
    content = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return content, {info.filename: file.read(info) for info in file.infolist()}


def sealed(parts: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """The parts as a file with a right seal."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)
        for name, part in parts.items():
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), part, method)
    return _seal(stream.getvalue()[:-SEAL])


def _seal(content: bytes) -> bytes:
    return content + hashlib.sha256(content).hexdigest().encode()


def make(rng: random.Random) -> bytes:
    """A file."""
    whole, parts = rng.choice(seeds())
    draw = rng.random()
    if draw < 0.1:
        return words.bites(rng, whole)
    if draw < 0.3:  # the zip's own records, under a right seal
        return _seal(words.bites(rng, whole[:-SEAL]))
    parts = dict(parts)
    if draw < 0.75:
        manifest = json.loads(parts[MANIFEST])
        for _ in range(rng.choice((1, 1, 2, 4))):
            _change(rng, manifest)
        text = json.dumps(manifest)
        if rng.random() < 0.1:
            text = words.text(rng, text, [text], ["[" * 5000, "{", "}", "null", "NaN", "1e999", '"a": 1,'])
        parts[MANIFEST] = text.encode("utf-8", "surrogatepass")
    else:
        name = rng.choice([name for name in parts if name != MANIFEST] or [MANIFEST])
        parts[name] = rng.choice((words.bites, words.bites, _array))(rng, parts[name])
        if rng.random() < 0.1:
            parts[rng.choice(("x.npy", "../x", "/etc/x", name + "\u0000", "manifest.json.npy"))] = parts.pop(name)
    return sealed(parts, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def _array(rng: random.Random, _: bytes) -> bytes:
    """An array of another kind or size; a header may promise more than there is."""
    if rng.random() < 0.3:
        shape: tuple[int, ...] = rng.choice(((2**31,), (2**40,), (-1,), (2**62, 4), (), (0,), (10**20,)))
        header = {
            "descr": rng.choice(("<f8", "|O", "<M8[s]", "|V9", "<U9", ">f4")),
            "fortran_order": False,
            "shape": shape,
        }
        text = repr(header).encode().ljust(117) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(rng.randrange(64))
    shape = rng.choice(((), (0,), (1,), (2,), (2, 3), (2, 3, 4), (24,), (3, 2, 4), (1, 1, 1, 1)))
    kind = rng.choice((np.float64, np.float32, np.int64, np.int8, np.bool_, np.complex128, np.uint64))
    stream = io.BytesIO()
    odd = np.full(shape, rng.choice((0, 1, -1, 0.5, float("nan"), float("inf"), 1e308, 5e-324)))
    with np.errstate(all="ignore"):
        npy.write_array(stream, odd.astype(kind), allow_pickle=False)
    return stream.getvalue()


def _change(rng: random.Random, node: Any) -> None:
    """Change one place of a manifest: walk down at random, then replace, remove, add or copy."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
            node = inner
            continue
        match rng.randrange(6):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[str(words.value(rng, 3))] = words.value(rng)
            case 2:
                node[key] = node[rng.choice(keys)]
            case 3 if isinstance(inner, str):
                node[key] = words.text(rng, inner, [inner], ["[[column]]", "bins = 1000000", "high = 2000000000"])
            case 4 if isinstance(inner, int | float):
                node[key] = rng.choice((0, -1, inner * 2, inner + 1, 1e308, 2**70, -inner, float("nan")))
            case _:
                node[key] = words.value(rng)
        return


def run(content: bytes) -> str:
    """Load a file; what loads answers, samples and shows itself, or refuses."""
    path = folder() / "input.maq"
    path.write_bytes(content)
    release = mq.Release.load(path)
    asked = 0
    for use in (
        lambda: release.answer("smoker"),
        lambda: release.marginal("region"),
        lambda: release.sample(5, rng=np.random.default_rng(0)),
        lambda: (repr(release), repr(release.certificate)),
    ):
        with np.errstate(all="ignore"):
            try:
                use()
                asked += 1
            except QueryError:
                pass
    return f"loaded, {asked} uses of 4"


MAQ = Target("maq", make, run, (DataError, SchemaError))

"""What an independent attack on saved releases found."""

from __future__ import annotations

import hashlib
import io
import json
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from release_checks import SCHEMA, Seeded, released, table_of

import maquette as mq
from maquette.errors import BudgetError, MaquetteError, SchemaError
from maquette.privacy import DiscreteLaplace
from maquette.releases.archive import MANIFEST, SEAL


def sealed(stream: io.BytesIO) -> bytes:
    content = stream.getvalue()[:-SEAL]
    return content + hashlib.sha256(content).hexdigest().encode()


@pytest.mark.thorough
def test_a_manifest_that_claims_to_be_small_cannot_fill_the_memory(tmp_path: Path) -> None:
    """1,000 bytes by its header and its checksum, 256 megabytes when they are unpacked."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.comment = bytes(SEAL)
        with file.open(MANIFEST, "w") as part:
            for _ in range(2**8):
                part.write(b" " * 2**20)
        (listed,) = file.filelist
        listed.file_size, listed.CRC = 1_000, zlib.crc32(b" " * 1_000)
    path = tmp_path / "small.maq"
    path.write_bytes(sealed(stream))
    tracemalloc.start()
    try:
        with pytest.raises(MaquetteError):
            mq.Release.load(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_scale_with_an_exponent_cannot_take_for_ever(tmp_path: Path) -> None:
    """A file of two kilobytes; the number that it names has a hundred million digits."""
    path = tmp_path / "long.maq"
    released("laplace", table_of(SCHEMA, 500), mq.Budget(epsilon=1.0), Seeded(1)).save(path)
    with zipfile.ZipFile(path) as file:
        parts = {info.filename: file.read(info) for info in file.infolist()}
    manifest = json.loads(parts[MANIFEST])
    manifest["evidence"]["tables"][0]["event"]["scale"] = "1e99999999"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        file.comment = bytes(SEAL)
        for name, part in (parts | {MANIFEST: json.dumps(manifest).encode()}).items():
            file.writestr(name, part)
    path.write_bytes(sealed(stream))
    start = time.process_time()
    with pytest.raises(MaquetteError, match="is not a saved release"):
        mq.Release.load(path)
    assert time.process_time() - start < 5


def test_events_take_fractions_as_text_but_no_exponents() -> None:
    assert DiscreteLaplace("3/2", "0.5") == DiscreteLaplace(1.5, 0.5)  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="expected a finite number"):
        DiscreteLaplace("1e9", 1)  # type: ignore[arg-type]


def test_a_certificate_does_not_list_what_someone_without_a_name_asked_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever gives no name counts as the custodian: a question at the same price stood in the release's place."""
    with mq.Curator(table_of(SCHEMA, 500), mq.Budget(epsilon=4.0)) as curator:
        measure = curator.measure_many

        def meanwhile(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(curator, "measure_many", measure)
            other = Thread(target=lambda: mq.answer(curator, "SELECT count(*) FROM t WHERE smoker", epsilon=1.0))
            other.start()
            other.join()
            return measure(*given, **named)

        monkeypatch.setattr(curator, "measure_many", meanwhile)
        made = mq.release(
            curator, mq.marginals(SCHEMA, columns=[("region",)]), method="laplace", epsilon=1.0, check=False
        )
        (charge,) = made.certificate.charges
        assert json.loads(charge)["columns"] == [["region"]]
        assert made.certificate.epsilon == 1.0


@pytest.mark.parametrize(
    "column",
    [mq.Date("a", "2000-01-01", "2000-01-31"), mq.Number("a", low=0.0, high=1.0, bins=4)],
    ids=["date", "number"],
)
def test_a_schema_of_a_few_words_cannot_fill_the_memory(column: Any, tmp_path: Path) -> None:
    """All days of ten thousand years, or two thousand million bins, are a line in a schema."""
    written = mq.Schema([column]).dumps()
    for small, large in (("2000-01-01", "0001-01-01"), ("2000-01-31", "9999-12-31"), ("bins = 4", "bins = 2147483640")):
        written = written.replace(small, large)
    tracemalloc.start()
    try:
        if isinstance(column, mq.Number):
            with pytest.raises(SchemaError, match="bins is 2147483640; expected a whole number from 1 to 1,048,576"):
                mq.Schema.loads(written)
        else:
            assert mq.Schema.loads(written).size > 3_000_000
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
def test_dates_are_counted_as_they_are_listed(unit: Any) -> None:
    for low, high in (("1999-12-31", "2000-01-01"), ("2000-02-29", "2004-03-30"), ("2001-05-05", "2001-05-05")):
        column = mq.Date("a", low, high, unit=unit)
        assert column.known == len(column.values)


def test_bins_too_fine_for_a_float_are_refused_however_many() -> None:
    for bins in (2**10, 2**20):
        with pytest.raises(SchemaError, match="increase"):
            mq.Number("a", low=1e16, high=1e16 + 64, bins=bins)

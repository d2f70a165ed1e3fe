"""Uploaded files of kilobytes that become gigabytes are refused before anything reads them as a table."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rooms import settings

from maquette.errors import UnreadableSource
from maquette.service import Principal, Service, unpacking
from maquette.service.config import Limits
from maquette.service.unpacking import refuse_large

CUSTODIAN = Principal(name="custodian", role="custodian")
MOST = 2**20
SHEET = "xl/worksheets/sheet1.xml"
PARTS = {
    "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'spreadsheetml.sheet.main+xml"/></Types>',
    "_rels/.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
    'Id="r1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": '<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="a" '
    'sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/><Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/'
    '2006/relationships/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
}
MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def book(rows: str, *, texts: str = "", sheet: str = SHEET) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in PARTS.items():
            file.writestr(name, content)
        file.writestr(sheet, f"<worksheet {MAIN}><sheetData>{rows}</sheetData></worksheet>")
        file.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{texts}</sst>")
    return stream.getvalue()


def columns_of(rows: int) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table({"a": np.zeros(rows, np.int8), "b": np.zeros(rows, np.int8)}), stream, compression="zstd")
    return stream.getvalue()


NAMED = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(1, 2_000))
FAR = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'
LARGE = {
    "lines.csv.gz": gzip.compress(b"a,b\n" + b"1,2\n" * MOST),
    "one line.csv.gz": gzip.compress(b"a" * 2 * MOST),
    "two members.csv.gz": gzip.compress(b"a,b\n" * (MOST // 6)) * 2,
    "equal.parquet": columns_of(MOST),
    "corners.xlsx": book(FAR),
    "corners by rows.xlsx": book(FAR.replace(' r="XFD1048576"', "").replace("A1", "ZZZ1")),
    "corners with a prefix.xlsx": book(
        FAR.replace("<c", "<x:c").replace("</c", "</x:c").replace("<x:c ", '<x:c xmlns:x="u" ')
    ),
    "one text.xlsx": book(NAMED, texts=f"<si><t>{'x' * 1_000}</t></si>"),
    "spaces.xlsx": book(" " * 2 * MOST),
}


def refused(folder: Path, name: str, content: bytes, match: str = "once it is unpacked") -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(UnreadableSource, match=match):
        refuse_large(folder / name, MOST)


@pytest.mark.parametrize("name", LARGE)
def test_what_becomes_too_large_is_refused(tmp_path: Path, name: str) -> None:
    assert len(LARGE[name]) < MOST / 32
    refused(tmp_path, name, LARGE[name])


def test_a_sheet_that_is_no_xml_for_us_is_refused(tmp_path: Path) -> None:
    odd = book(FAR)
    for rows, sheet in (("<open>" + FAR, SHEET), ("<open>" + FAR, "xl/worksheets/sheet1.bin")):
        refused(tmp_path, "odd.xlsx", book(rows, sheet=sheet), "cannot be read as a spreadsheet")
    refused(tmp_path, "cut.xlsx", odd[: len(odd) // 2], "cannot be read as a spreadsheet")


def test_usual_files_pass(tmp_path: Path) -> None:
    rows = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}"><v>{i}</v></c></row>' for i in range(1, 50))
    empty = '<row r="1048576"><c r="XFD1048576" s="3"/></row>'  # a format without a value takes no room
    usual = {
        "a.csv.gz": gzip.compress(b"a,b\n" + b"1,2\n" * 100),
        "cut.csv.gz": gzip.compress(b"a,b\n" * 1000)[:-9],  # told by the reader of tables
        "a.csv": b"a,b\n1,2\n",
        "a.parquet": columns_of(100),
        "no.parquet": b"PAR1",
        "a.xlsx": book(rows + empty, texts="<si><t>name</t></si>"),
    }
    for name, content in usual.items():
        (tmp_path / name).write_bytes(content)
        refuse_large(tmp_path / name, MOST)
    python_calamine = pytest.importorskip("python_calamine")
    sheet: Any = python_calamine.load_workbook(str(tmp_path / "a.xlsx")).get_sheet_by_index(0)
    assert sheet.to_python()[0] == ["name", 1.0]
    assert unpacking._column("XFD") == 16_384


def test_an_upload_is_looked_at_before_it_is_read(tmp_path: Path) -> None:
    with Service(settings(tmp_path, limits=Limits(unpacked_bytes=MOST))) as service:
        for name in ("lines.csv.gz", "equal.parquet", "corners.xlsx"):
            with pytest.raises(UnreadableSource, match="once it is unpacked"):
                service.drafts.upload(CUSTODIAN, name, [LARGE[name]])
        assert not list((service.config.directory / "drafts").glob("*"))

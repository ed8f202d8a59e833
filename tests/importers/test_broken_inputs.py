"""Files that are broken, hostile, empty or misnamed: one sentence names the file and what to do, or the rows come in."""

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import tarfile
from zipfile import ZIP_DEFLATED, ZipFile

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import read_csv

from upsolve.archive.store import Archive
from upsolve.errors import MissingExtraError, SourceError
from upsolve.importers.formats import Kind, files, kind_of, member_of, members, rows_of
from upsolve.importers.formats.tabular import copy_of_query
from upsolve.importers.ingest import hub_name, ingest
from upsolve.importers.rows import BadRow

ROWS = [{"id": number, "name": f"n{number}"} for number in range(3)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = b"id,name\n0,n0\n1,n1\n2,n2\n"
TABLE = read_csv(io.BytesIO(CSV))  # `from_pylist` would import pandas
ZEROS = bytes(3_000_000)
SAME = (b'{"a": "' + b" " * 10_000 + b'"}\n') * 200


def zipped(content, **options):
    with io.BytesIO() as out:
        with ZipFile(out, "w", **options) as archive:
            for name, data in content.items():
                archive.writestr(name, data)
        return out.getvalue()


def tarred(content, mode="w"):
    with io.BytesIO() as out:
        with tarfile.open(fileobj=out, mode=mode) as archive:
            for name, data in content.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return out.getvalue()


def written(write):
    with io.BytesIO() as out:
        write(out)
        return out.getvalue()


def arrow(new):
    def write(out):
        with new(out, TABLE.schema) as stream:
            stream.write_table(TABLE)

    return written(write)


def zstd(data):
    return pa.compress(data, "zstd", asbytes=True)


def patched(data, old, new):
    assert old in data
    return data.replace(old, new)


PARQUET = written(lambda out: pq.write_table(TABLE, out))
ARROW = arrow(pa.ipc.new_file)
ZIP = zipped({"a.jsonl": LINES})
ENCRYPTED = patched(
    patched(ZIP, b"PK\3\4\x14\0\0\0", b"PK\3\4\x14\0\1\0"), b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"
)
DEFLATE64 = patched(
    patched(ZIP, b"PK\3\4\x14\0\0\0\0\0", b"PK\3\4\x14\0\0\0\x09\0"), b"\x14\3\x14\0\0\0\0\0", b"\x14\3\x14\0\0\0\x09\0"
)
AGAIN = "cannot be read: .*copy or download it again"
BOMB = "unpack to more than .* UPSOLVE_UNPACKED_GIB"
NONE = "and no JSON, CSV, Parquet"
BROKEN = [
    ("cut.jsonl.gz", gzip.compress(LINES)[:-9], AGAIN),
    ("cut.jsonl.bz2", bz2.compress(LINES)[:-9], AGAIN),
    ("cut.jsonl.xz", lzma.compress(LINES)[:-20], AGAIN),
    ("cut.jsonl.zst", zstd(LINES * 9)[:-9], AGAIN),
    ("cut.zip", ZIP[:-30], AGAIN),
    ("crc.zip", patched(ZIP, b'"n1"', b'"n7"'), AGAIN),
    ("method.zip", DEFLATE64, "cannot be read: .*compression method is not supported"),
    ("secret.zip", ENCRYPTED, "is encrypted: unpack it with its password"),
    ("several.zip", zipped({"a": LINES, "b": LINES}), "the archive has 2 files; unpack it"),
    ("none.zip", zipped({}), "has 0 files"),
    ("cut.tar.gz", gzip.compress(tarred({"a.jsonl": LINES}))[:60], AGAIN),
    ("cut.tar", tarred({"a.jsonl": LINES})[:560], AGAIN),
    ("cut.parquet", PARQUET[:-20], AGAIN),
    ("head.parquet", PARQUET[:4], AGAIN),
    ("cut.arrow", ARROW[:-20], AGAIN),
    ("cut.feather", ARROW[:100], AGAIN),
    ("cut.db", b"SQLite format 3\0" + bytes(100), "cut.db: file is not a database"),
    ("cut.duckdb", bytes(8) + b"DUCK" + bytes(5000), "cut.duckdb: .*"),
    ("cut.xlsx", zipped({"[Content_Types].xml": b"", "xl/workbook.xml": b"<"}), AGAIN),
    ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), AGAIN),
    ("letter.docx", zipped({"[Content_Types].xml": b"<Types/>", "word/document.xml": ZEROS[:500]}), NONE),
    ("bomb.jsonl.gz", gzip.compress(SAME), BOMB),
    ("bomb.jsonl.xz", lzma.compress(SAME), BOMB),
    ("bomb.zip", zipped({"a.jsonl": ZEROS}, compression=ZIP_DEFLATED), BOMB),
    ("nested.zip", zipped({"b.zip": zipped({"a": ZEROS}, compression=ZIP_DEFLATED)}), BOMB),
    ("many.zip", zipped({f"{n}.c": ZEROS[:90_000] for n in range(99)}, compression=ZIP_DEFLATED), BOMB),
    ("bomb.tar.gz", gzip.compress(tarred({"a": ZEROS})), BOMB),
    ("a.7z", b"7z\xbc\xaf\x27\x1c" + bytes(50), "is an archive that is not read: unpack it"),
    ("a.rar", b"Rar!\x1a\x07\1\0" + bytes(50), "is an archive that is not read: unpack it"),
    ("photo.jsonl", b"\x89PNG\r\n\x1a\n" + bytes(500), NONE),
    ("program.c", b"int main(void) { return 0; }\n", NONE),
    *((f"empty.{ending}", b"", "is empty") for ending in ("json", "parquet", "arrow", "xlsx", "db", "txt", "zip", "gz")),
    ("cut.json", b'[{"a": 1}, {"a": ', AGAIN),
    ("more.json", b'[{"a": 1}] [{"a": 2}]', "text follows the end of the JSON"),
    ("comma.json", b'[{"a": 1} {"a": 2}]', "Expecting ','.* at '{"),
    ("deep.json", b"[" * 200_000, "cannot be read: maximum recursion depth|cannot be read"),
    ("latin.json", '[{"a": "größer"}]'.encode("latin-1"), "not UTF-8; convert it, such as with iconv"),
    ("object.json", b'{"a": {"b": [{"c": 1}]}}', r"is not a JSON array.* a.b \(1\): --rows a.b"),
    ("quote.csv", CSV + b'3,"n\n4,n4\n', "row that begins in line 5 .*quotes"),
]
"""Name, content, and what the error says."""


@pytest.mark.parametrize(("name", "content", "said"), BROKEN, ids=[name for name, *_ in BROKEN])
def test_a_broken_file_is_one_sentence(tmp_path, monkeypatch, name, content, said):
    monkeypatch.setattr(files, "HARMLESS", 500_000)
    if content and name.endswith((".xlsx", ".xls")):
        pytest.importorskip("python_calamine")
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SourceError, match=said) as error:
        list(rows_of(member_of(tmp_path / name)))
    assert name in str(error.value) and "\n" not in str(error.value)
    assert [file.name for file in tmp_path.iterdir()] == [name]


def sql(connect):
    def write(path):
        with connect(path) as connection:
            connection.execute(
                "create table t as select 0 as id, 'n0' as name union all select 1, 'n1' union all select 2, 'n2'"
            )
        connection.close()

    return write


SLASHED = b'id,name\n0,"a \\"b\\", c"\n1,"d"\n'
GOOD = [
    ("data.txt", LINES, Kind.JSONL, ROWS),
    ("a.json", LINES, Kind.JSONL, ROWS),
    ("b.csv", json.dumps(ROWS, indent=1).encode(), Kind.JSON, ROWS),
    ("none", json.dumps(ROWS).encode("utf-16"), Kind.JSON, ROWS),
    ("wide.jsonl", LINES.decode().encode("utf-16"), Kind.JSONL, ROWS),
    ("c.json", PARQUET, Kind.PARQUET, ROWS),
    ("d", ARROW, Kind.ARROW, ROWS),
    ("e.bin", arrow(pa.ipc.new_stream), Kind.ARROW, ROWS),
    ("f.jsonl", gzip.compress(zipped({"x": bz2.compress(LINES)})), Kind.JSONL, ROWS),
    ("table", CSV, Kind.CSV, [{"id": str(row["id"]), "name": row["name"]} for row in ROWS]),
    ("wide.csv", CSV.decode().encode("utf-16-le"), Kind.CSV, [{"id": str(row["id"]), "name": row["name"]} for row in ROWS]),
    ("twins.csv", b"id,id,name\n1,2,n\n", Kind.CSV, [{"id 1": "1", "id 2": "2", "name": "n"}]),
    ("spaces.csv", b'id , full name\n1, "x, y"\n', Kind.CSV, [{"id": "1", "full name": "x, y"}]),
    ("slashed.csv", SLASHED, Kind.CSV, [{"id": "0", "name": 'a "b", c'}, {"id": "1", "name": "d"}]),
    (
        "big.json",
        b'[{"a": 123456789012345678901234567890, "b": 2, "b": 2}]',
        Kind.JSON,
        [{"a": 123456789012345678901234567890, "b": 2}],
    ),
    ("empty.jsonl", b"", Kind.JSONL, []),
    ("lite", sql(sqlite3.connect), Kind.SQLITE, ROWS),
    ("duck", sql(duckdb.connect), Kind.DUCKDB, ROWS),
]
"""Name, content, format and rows."""


@pytest.mark.parametrize(("name", "content", "kind", "rows"), GOOD, ids=[name for name, *_ in GOOD])
def test_the_content_says_the_format_whatever_the_name(tmp_path, name, content, kind, rows):
    if callable(content):
        content(str(tmp_path / name))
    else:
        (tmp_path / name).write_bytes(content)
    member = member_of(tmp_path / name)
    assert kind_of(member) is kind and [row for _, row in rows_of(member)] == rows


SHEET = """<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="inlineStr"><is><t>code</t></is></c></row>
<row r="2"><c r="A2"><v>7</v></c><c r="B2" t="inlineStr"><is><t>x = 1</t></is></c></row>
<row r="3"></row><row r="4"><c r="A4"><v>1.5</v></c></row></sheetData></worksheet>"""
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def workbook(**sheets):
    """A workbook of Excel with some sheets, by hand."""
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1))
    linked = "".join(
        f'<Relationship Id="r{n}" Type="{OFFICE}/worksheet" Target="worksheets/{n}.xml"/>' for n in range(1, len(sheets) + 1)
    )
    main = f'<Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": f'<Relationships xmlns="{PACKAGE}">{main}</Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}">{linked}</Relationships>',
            **{f"xl/worksheets/{n}.xml": sheet for n, sheet in enumerate(sheets.values(), 1)},
        }
    )


def test_a_workbook_has_one_sheet_or_one_is_named(tmp_path):
    pytest.importorskip("python_calamine")
    file, empty = tmp_path / "log.csv", f'<worksheet xmlns="{MAIN}"><sheetData/></worksheet>'
    rows = [(2, {"id": 7, "code": "x = 1"}), (4, {"id": 1.5, "code": None})]
    file.write_bytes(workbook(a=SHEET, b=empty))
    assert kind_of(member_of(file)) is Kind.EXCEL and list(rows_of(member_of(file))) == rows
    file.write_bytes(workbook(a=SHEET, b=SHEET))
    assert list(rows_of(member_of(file), query="b")) == rows
    with pytest.raises(SourceError, match=r"which sheet\? --query NAME; its sheets are a \(4 rows\), b \(4 rows\)"):
        list(rows_of(member_of(file)))


def cells(*rows, more=""):
    """A sheet of rows of cells of Excel: pairs of a place and what is in it."""
    made = "".join(
        f"<row>{''.join(f'<c r={chr(34)}{place}{chr(34)}>{inner}</c>' for place, inner in row)}</row>" for row in rows
    )
    return f'<worksheet xmlns="{MAIN}"><sheetData>{made}</sheetData>{more}</worksheet>'


def test_merged_cells_of_a_workbook_count_in_each_row_and_its_header_may_stand_anywhere(tmp_path):
    pytest.importorskip("python_calamine")
    places = [[("B4", 7), ("C4", 8)], [("B5", 1), ("C5", 2)], [("C6", 3)], [("B7", 4), ("C7", 5)]]
    merged = '<mergeCells count="1"><mergeCell ref="B5:B6"/></mergeCells>'
    sheet = cells(*([(place, f"<v>{value}</v>") for place, value in row] for row in places), more=merged)
    (tmp_path / "a.xlsx").write_bytes(workbook(a=sheet))
    rows = [*rows_of(member_of(tmp_path / "a.xlsx"))]
    assert rows == [(5, {"7": 1, "8": 2}), (6, {"7": 1, "8": 3}), (7, {"7": 4, "8": 5})]


@pytest.mark.parametrize(("value", "flag"), [("", ""), ("<v>0</v>", ' fullCalcOnLoad="1"')])
def test_a_formula_that_was_never_computed_is_no_empty_cell(tmp_path, value, flag):
    pytest.importorskip("python_calamine")
    book = workbook(a=cells([("A1", "<v>1</v>")], [("A2", f"<f>A1+1</f>{value}")]))
    with ZipFile(io.BytesIO(book)) as whole:
        parts = {
            name: whole.read(name).replace(b"</sheets>", f"</sheets><calcPr{flag}/>".encode()) for name in whole.namelist()
        }
    (tmp_path / "a.xlsx").write_bytes(zipped(parts))
    with pytest.raises(SourceError, match=r"a\.xlsx: sheet a, cell A2: a formula without a computed value; open"):
        list(rows_of(member_of(tmp_path / "a.xlsx")))


def test_a_missing_reader_of_workbooks_names_its_extra(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(workbook(a=SHEET))
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'upsolve\[excel\]'"):
        list(rows_of(member_of(tmp_path / "a.xlsx")))


@pytest.mark.parametrize("scheme", ["duckdb", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_the_answer_of_a_database_is_copied_and_imported_once(tmp_path, monkeypatch, scheme):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    if scheme == "sqlite":
        pytest.importorskip("sqlalchemy")
    connect = sqlite3.connect if scheme == "sqlite" else duckdb.connect
    with connect(str(tmp_path / "judge.db")) as connection:
        connection.execute("create table t as select 'p' as prompt, 'x = 1' as code, 1.5 as price")
    connection.close()
    url, archive = f"{scheme}:///{tmp_path / 'judge.db'}", Archive.create(tmp_path / "archive")
    for known in (False, True):
        assert ingest(archive, "table", url, query="select * from t").known is known
    assert [(task.source, task.prompt) for task in archive.tasks()] == [("judge", "p")]
    assert [attempt.code for attempt in archive.attempts()] == ["x = 1"] and not [*(tmp_path / "cache").rglob("*.jsonl")]
    for query, said in (("", "is a database; .*--query"), ("select nothing from t", "nothing")):
        with pytest.raises(SourceError, match=said):
            copy_of_query(url, query)


def test_a_password_is_not_shown():
    with pytest.raises(SourceError, match=r"^postgresql://me:\*\*\*@host/judge: is a database"):
        copy_of_query("postgresql://me:secret@host/judge", "")


def test_a_name_of_the_hub_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    names = ["openai/humaneval", "openai/humaneval:test", "data/humaneval", "openai/log.csv", "a/b/c", "log"]
    assert [hub_name(name) for name in names] == ["hf://openai/humaneval", "hf://openai/humaneval:test", *names[2:]]


def test_a_row_with_a_nul_or_in_another_encoding_is_rejected_alone(tmp_path):
    (tmp_path / "a.csv").write_bytes(CSV + b"3,n\0\n" + b"5,n5\n" * 99 + b"4," + "ö".encode("latin-1") + b"\n")
    bad = [row.reason for _, row in rows_of(member_of(tmp_path / "a.csv")) if isinstance(row, BadRow)]
    assert [reason.partition(";")[0] for reason in bad] == ["has a NUL", "not UTF-8"]


@pytest.mark.filterwarnings("ignore:.*links to folders or to nothing are not read")
def test_names_in_an_archive_are_never_paths(tmp_path):
    (tmp_path / "in").mkdir()
    inner = zipped({"b/x.c": b"x", ".hidden": b"", "__MACOSX/x.c": b""})
    (tmp_path / "in" / "a.tar").write_bytes(tarred({"/etc/passwd": b"1", "../../up.c": b"2", "in.zip": inner}))
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "self").symlink_to(tmp_path / "in" / "self")
    found = {member.name: member.open().read() for member in members(tmp_path / "in")}
    assert found == {"a.tar/up.c": b"2", "a.tar/etc/passwd": b"1", "a.tar/in.zip/b/x.c": b"x"}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar", "in", "loop", "self"]


def test_a_large_file_that_is_meant_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "HARMLESS", 500_000)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}' + b" " * 3_000_000))
    monkeypatch.setenv("UPSOLVE_UNPACKED_GIB", "1")
    assert [row for _, row in rows_of(member_of(tmp_path / "a.jsonl.gz"))] == [{"a": 1}]
    monkeypatch.setenv("UPSOLVE_UNPACKED_GIB", "0.001")
    with pytest.raises(SourceError, match=BOMB):
        list(rows_of(member_of(tmp_path / "a.jsonl.gz")))


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_bytes(CSV)

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(SourceError, match=r"a.csv: cannot be read: this user may not: chmod u\+r"):
        member_of(tmp_path / "a.csv")

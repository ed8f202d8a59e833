"""Readers of files of rows, shared by all sources."""

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upsolve.errors import SourceError
from upsolve.importers.formats import Kind, data_files, member_of, rows_of, rows_of_file, tabular
from upsolve.importers.tables import table

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def zipped(files):
    with io.BytesIO() as out:
        with ZipFile(out, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return out.getvalue()


PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": lambda text: zipped({"folder/": b"", "folder/rows": text}),
    "zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}


def write(path, kind):
    made = pa.Table.from_pylist(ROWS)
    if kind == "parquet":
        pq.write_table(made, path)
    elif kind == "arrow":
        with pa.ipc.new_stream(path, made.schema) as stream:
            stream.write_table(made, max_chunksize=1)
    else:
        text = (json.dumps(ROWS) if kind.startswith("json.") or kind == "json" else LINES).encode()
        path.write_bytes(PACK.get(kind.rpartition(".")[2], bytes)(text))


@pytest.mark.parametrize(
    "kind",
    [
        "jsonl",
        "ndjson",
        "json",
        *(f"{form}.{pack}" for form in ("jsonl", "json") for pack in PACK),
        "parquet",
        "arrow",
        "JSONL",
    ],
)
def test_every_format_gives_the_same_rows_and_names_a_broken_file(tmp_path, kind):
    file = tmp_path / f"train.{kind}"
    write(file, kind)
    assert list(rows_of_file(file)) == [(1, ROWS[0]), (2, ROWS[1])]
    if kind not in ("jsonl", "JSONL", "ndjson"):
        file.write_bytes(file.read_bytes()[:20])
        with pytest.raises(SourceError, match=rf"train\.{kind}: cannot be read"):
            list(rows_of_file(file))


def test_a_zip_has_one_file(tmp_path):
    (tmp_path / "a.jsonl.zip").write_bytes(zipped({"a": b"{}", "b": b"{}"}))
    with pytest.raises(SourceError, match=r"a.jsonl.zip: cannot be read: the archive has 2 files; unpack it"):
        list(rows_of_file(tmp_path / "a.jsonl.zip"))


def test_large_rows_are_read_in_small_batches(tmp_path, monkeypatch):
    """Rows of CodeContests have megabytes each: a thousand of them do not fit in memory."""
    file = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist([{"text": f"{n}" * 1000} for n in range(10, 60)]), file, row_group_size=50)
    sizes = []
    read = pq.ParquetFile.iter_batches

    def watched(self, batch_size):
        sizes.append(batch_size)
        return read(self, batch_size)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    monkeypatch.setattr(tabular, "BATCH_BYTES", 10_000)
    assert [number for number, _ in rows_of_file(file)] == list(range(1, 51))
    assert 1 <= sizes[0] <= 10


def test_a_row_group_is_not_held_in_memory(tmp_path):
    file, before = tmp_path / "a", pa.total_allocated_bytes()
    pq.write_table(pa.table({"text": [f"{n:5}" * 200 for n in range(16_000)]}), file, use_dictionary=False, compression="none")
    held = [pa.total_allocated_bytes() - before for number, _ in rows_of_file(file) if number % 4_000 == 0]
    assert len(held) == 4 and max(held) < 8_000_000 < file.stat().st_size


def test_files_below_a_folder_and_unknown_ones(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet", "README.md"):
        (tmp_path / name).write_text("")  # an empty file is what its name says
    assert [file.name[6:11] for file in data_files(tmp_path)] == ["00000", "00001"]
    with pytest.raises(SourceError, match=r"README.md: is empty, and no JSON, CSV"):
        rows_of_file(tmp_path / "README.md")
    with pytest.raises(SourceError, match=r"contains no file \*\.jsonl"):
        data_files(tmp_path, Kind.JSONL)
    (tmp_path / "one.json").write_text('[7, {"a": 1}]')
    (first, second) = rows_of(member_of(tmp_path / "one.json"))
    assert first[1].reason == "not a JSON object" and second == (2, {"a": 1})


def test_a_table_is_read_without_keeping_the_texts_of_its_tasks(tmp_path):
    """Four hundred tasks of 25 kB each: 10 MB of prompts."""
    with (tmp_path / "in.jsonl").open("w") as out:
        out.writelines(json.dumps({"prompt": f"{number} " * 5000, "code": "x"}) + "\n" for number in range(1000, 1400))
    next(table.read(tmp_path / "in.jsonl"))  # what it imports is not measured
    tracemalloc.start()
    try:
        count = sum(1 for _ in table.read(tmp_path / "in.jsonl"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 800 and peak < 8_000_000

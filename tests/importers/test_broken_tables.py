"""Tables, maps and folders with every kind of mistake: one sentence says file, place and fix, or what is stored is right.

Stored attempts are written as their programs with ``+`` for passed, ``-`` for failed, ``~`` for unscored and ``?`` without an outcome.
"""

import gzip
import io
import json
import math
import os
import re
import shutil
import sqlite3
import tarfile
import warnings
from datetime import date, datetime
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.ingest import ingest

SIGNS = {"passed": "+", "failed": "-", "unscored": "~"}
HEAD, ROW = ("prompt", "code", "status"), {"prompt": "add", "code": "x", "status": "AC"}


def csv(*rows, head=HEAD, by=",", end="\n", code="utf-8"):
    """A CSV file of rows, given as texts."""
    return "".join(f"{line}{end}" for line in (by.join(head), *rows)).encode(code)


def lines(*rows, **same):
    """JSON lines of rows, each with what is different from ``ROW``."""
    return "".join(json.dumps({**ROW, **same, **row}) + "\n" for row in rows).encode()


def array(*rows):
    return json.dumps([{**ROW, **row} for row in rows]).encode()


def raw(*texts):
    """JSON lines of rows, with members as text."""
    return "".join(f'{{"prompt": "add", "code": "x", {text}}}\n' for text in texts).encode()


def parquet(columns):
    out = io.BytesIO()
    pq.write_table(pa.table([*columns.values()], names=[*columns]) if isinstance(columns, dict) else columns, out)
    return out.getvalue()


def zipped(*entries):
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def tarred(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in entries:
            entry = tarfile.TarInfo(name)
            if isinstance(data, str):
                entry.type, entry.linkname = tarfile.LNKTYPE, data
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def sql(*statements, rows=()):
    """A SQLite file."""

    def write(path):
        with sqlite3.connect(path) as connection:
            for statement in statements or ("create table log (prompt, code, status)",):
                connection.execute(statement)
            if rows:
                connection.executemany("insert into log values (?, ?, ?)", rows)
        connection.close()

    return write


def wal(path):
    """A SQLite file whose rows are still in the log of its writer."""
    connection = sqlite3.connect(path.with_name(".writer"))
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table log as select 'add' as prompt, 'x' as code, 'AC' as status")
    connection.commit()
    for ending in ("", "-wal"):
        shutil.copy(path.with_name(f".writer{ending}"), f"{path}{ending}")
    connection.close()


def link(target):
    return lambda path: path.symlink_to(target)


def fifo(path):
    os.mkfifo(path)


def reads(content, stored, why="", told="", **options):
    """A case in which rows are stored, for which reason others are rejected, and what a warning says."""
    return content, None, stored, why, told, options


def stops(content, said, **options):
    """A case that ends in an error."""
    return content, said, "", "", "", options


AGAIN = "cannot be read: .*copy or download it again"
DEEP = "[" * 10_000 + "]" * 10_000
GOOD = csv("add,x,AC", "add,y,WA")


def bomb(form):
    """YAML in which each of nine lines repeats the one before ten times."""
    return "\n".join(
        form.format(chr(97 + level), ", ".join([f"*{chr(96 + level)}"] * 10 if level else ["x"])) for level in range(9)
    )


CASES = {
    # encodings, lines and cells of text
    "utf-16": reads(csv("add,x,AC", code="utf-16"), "x+"),
    "utf-8 with a mark": reads(csv("add,x,AC", code="utf-8-sig"), "x+"),
    "json lines with a mark": reads({"a.jsonl": b"\xef\xbb\xbf" + lines({})}, "x+"),
    "two marks": reads(b"\xef\xbb\xbf\xef\xbb\xbf" + GOOD, "x+ y-"),
    "latin-1": reads(csv("größer,x,AC", "add,y,WA", code="latin-1"), "y-", "not UTF-8; name its encoding, such as --encoding latin-1"),
    "latin-1 that is named": reads(csv("größer,x,AC", code="latin-1"), "x+", encoding="latin-1"),
    "no such encoding": stops(GOOD, "unknown encoding: latin1000; encodings are utf-8", encoding="latin1000"),
    "an encoding of json": stops({"a.jsonl": lines({})}, "option encoding: only CSV files", encoding="latin-1"),
    "json lines in latin-1": reads({"a.jsonl": lines({}) + '{"prompt": "größer"}'.encode("latin-1")}, "x+", "not UTF-8; convert the file"),
    "carriage returns": reads(csv("add,x,AC", "add,y,WA", end="\r"), "x+ y-"),
    "carriage returns between json lines": reads({"a.jsonl": lines({}, {"code": "y"}).replace(b"\n", b"\r")}, "x+ y+"),
    "mixed line ends": reads(b"prompt,code,status\r\nadd,x,AC\nadd,y,WA\r\n", "x+ y-"),
    "no newline at the end": reads(GOOD[:-1], "x+ y-"),
    "empty lines": reads(csv("", "add,x,AC", "", "add,y,WA", ""), "x+ y-"),
    "rows of commas": reads(csv("add,x,AC", ",,", ",,"), "x+", told="2 empty rows"),
    "a cell too many": reads(csv("add,x,AC", "add,y,WA,1"), "x+", "4 cells, and the header has 3; is a quote missing"),
    "a cell too few": reads(csv("add,x,AC", "add,y"), "x+", "2 cells, and the header has 3"),
    "mixed delimiters": reads(csv("add,x,AC", "add;y;WA"), "x+", "1 cells, and the header has 3"),
    "a delimiter that is declared": reads(b"sep=|\n" + csv("add|x|AC", head=["prompt|code|status"]), "x+"),
    "an open quote": stops(csv("add,x,AC", 'add,"y,WA'), "row that begins in line 3 cannot be read: .*quotes"),
    "a quote within a cell": reads(csv('add,print("x"),AC'), 'print("x")+'),
    "text after a quote": stops(csv('add,"x"y,AC'), "row that begins in line 2 cannot be read"),
    "a nul": reads(csv("add,x,AC", "add,y\0,WA", *["add,z,AC"] * 20), "x+ z+", "has a NUL; is the file damaged"),
    "a line of 5 MB": reads(csv("add," + "1" * 5_000_000 + ",AC", "add,y,WA"), "1 and 4999999 more+ y-"),
    "a json line of 5 MB": reads({"a.jsonl": lines({"code": "1" * 5_000_000}, {"code": "y"})}, "1 and 4999999 more+ y+"),
    "a header alone": reads(csv(), ""),
    "a header of numbers": stops(csv("add,x,AC", head="123"), "--prompt COLUMN.*its columns are 1, 2, 3"),
    "headers with spaces": reads(csv("add,x,AC", head=(" prompt", "code ", " status ")), "x+"),
    "twin headers": stops(csv("add,x,y,AC", head=("prompt", "code", "code", "status")), "has two columns 'code': rename one"),
    "twin headers of which one is named": reads(csv("add,x,y,AC", head=("prompt", "code", "code", "status")), "y+", code="code 2"),
    "twin headers with numbers": reads(csv("add,a,b,c,AC", head=("prompt", "code", "code", "code 1", "status")), "b+", code="code 3"),
    "a header without a name": reads(csv("add,x,AC,1", head=(*HEAD, "")), "x+"),
    "lines above the header": reads(b"Export of 2024\n" + GOOD, "", "3 cells, and the header has 1"),
    "a web page": stops({"a.txt": b"<html><body><table><tr><td>prompt</td></tr></table></body></html>"}, "is text, and no JSON, CSV"),
    "a page of an error": stops({"a.txt": b"404: Not Found"}, "is text, and no JSON, CSV"),
    "a pointer of git lfs": stops({"a.txt": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n"}, "is text, and no JSON, CSV"),
    # JSON
    "nothing but spaces": stops({"a.json": b"  \n "}, "is empty|is not a JSON array"),
    "null": stops({"a.json": b"null"}, "is not a JSON array|is text"),
    "a list of lists": reads({"a.json": b'[["add", "x"]]'}, "", "not a JSON object"),
    "columns instead of rows": stops({"a.json": b'{"prompt": ["add"], "code": ["x"]}'}, "is not a JSON array of objects .pandas"),
    "rows by number": reads({"a.json": json.dumps({"0": ROW, "1": {**ROW, "code": "y"}}).encode()}, "x+ y+", rows="*"),
    "no such list": stops({"a.json": json.dumps({"data": [ROW]}).encode()}, "rest is not a list of rows; .*--rows data", rows="rest"),
    "a comma at the end": reads({"a.json": array({})[:-1] + b",]"}, "x+"),
    "commas between lines": reads({"a.jsonl": lines({}) + lines({"code": "y"})[:-1] + b",\n"}, "x+", "Extra data .column"),
    "single quotes": reads({"a.jsonl": lines({}) + b"{'prompt': 'add'}\n"}, "x+", "Expecting property name"),
    "a line that is cut off": reads({"a.jsonl": lines({}, {"code": "y"})[:-9]}, "x+", "Unterminated string|Expecting"),
    "a line that is a list": reads({"a.jsonl": lines({}) + b"[1]\n"}, "x+", "the line is not a JSON object"),
    "nested too deeply": reads({"a.jsonl": lines({}) + raw(f'"status": {DEEP}')}, "x+", "recursion"),
    "nested too deeply in a cell": reads({"a.jsonl": lines({}, {"tests": DEEP})}, "x+", "test|nested|recursion"),
    "nested deeply beside": reads({"a.jsonl": raw('"status": "AC", "more": ' + "[" * 900 + "]" * 900)}, "x+"),
    "a key that is there twice": reads({"a.jsonl": raw('"status": "AC", "status": "WA"') + lines({"code": "y"})}, "y+", "'status' is there twice"),
    "a key that is there twice with the same value": reads({"a.jsonl": raw('"status": "AC", "status": "AC"')}, "x+"),
    "a key that is there twice in an array": reads({"a.json": b'[{"prompt": "add", "code": "x", "code": "y"}, {"prompt": "add", "code": "z"}]'}, "z?", "'code' is there twice"),
    "infinite and no numbers": reads({"a.jsonl": raw('"status": "AC", "a": NaN, "b": Infinity, "c": [NaN, {"d": -Infinity}]')}, "x+"),
    "an infinite time": reads({"a.jsonl": raw('"status": "AC", "cpu_seconds": Infinity')}, "x+"),
    "an integer of 5,000 digits": reads({"a.jsonl": lines({}) + raw(f'"status": {"9" * 5000}')}, "x+", "Exceeds the limit|digits"),
    "counts beyond 64 bits": reads({"a.jsonl": lines({}, {"status": None, "code": "y", "passed": 10**30, "total": 10**30})}, "x+", "is larger than 9223372036854775807"),
    "half of a character in a program": reads({"a.jsonl": lines({}, {"code": "\ud800"})}, "x+", "half of a character"),
    "half of a character in a statement": reads({"a.jsonl": lines({}, {"prompt": "\ud800"})}, "x+ x+"),
    "half of a character in a name": reads({"a.jsonl": lines({}, {"author": "\ud800", "code": "y"})}, "x+ y+"),
    "half of a character in a message": reads({"a.jsonl": lines({}, {"error": "\ud800", "status": "WA", "code": "y"})}, "x+ y-"),
    "half of a character beside": reads({"a.jsonl": lines({"more": "\ud800"})}, "x+"),
    # outcomes
    "capitals and spaces": reads(csv("add,x, aCCepted ", "add,y,WRONG  answer", "add,z,Wrong_Answer"), "x+ y- z-"),
    "words of another language": reads(csv("add,x,AC", "add,y,Acepté", "add,z,gelöst"), "x+", "unknown status '(Acepté|gelöst)': add it to `statuses`"),
    "words of another language by a map": reads(csv("add,x,gelöst", "add,y,Falsch"), "x+ y-", map="statuses: {gelöst: passed, falsch: failed}"),
    "dates": reads(csv("add,x,2024-01-01", "add,y,AC"), "y+", "unknown status '2024-01-01'"),
    "codes": stops(csv("add,x,4", "add,y,6"), "status has numbers, 4, 6, either codes or scores"),
    "numbers as text": reads(csv('add,x,"1"', 'add,y,"0.0"'), "x+ y-"),
    "an empty outcome": reads(csv("add,x,", "add,y,AC"), "x? y+"),
    "spaces as outcome": reads(csv("add,x,  ", "add,y,AC"), "y+", "unknown status"),
    "nan as outcome": reads({"a.jsonl": raw('"status": NaN') + lines({"code": "y"})}, "x? y+"),
    "nan as text": reads(csv("add,x,nan", "add,y,AC"), "y+", "unknown status 'nan'"),
    "a list as outcome": reads({"a.jsonl": lines({"status": ["AC"]}, {"code": "y"})}, "y+", "unknown status"),
    "an object as outcome": reads({"a.jsonl": lines({"status": {"word": "AC"}}, {"code": "y"})}, "y+", "unknown status"),
    "a column that says the opposite": stops(csv("add,x,0", "add,y,1", head=("prompt", "code", "is_wrong")), "is_wrong has 1 where an attempt failed", status="is_wrong"),
    "an exit code": stops(csv("add,x,0", "add,y,1", head=("prompt", "code", "exit_code")), "exit_code has 1 where an attempt failed", status="exit_code"),
    "the opposite by a map": reads(csv("add,x,0", "add,y,1", head=("prompt", "code", "is_wrong")), "x+ y-", map="status: {column: is_wrong, negate: true}"),
    "counts that contradict": reads(csv("add,x,AC,1,3", "add,y,AC,3,3", head=(*HEAD, "passed", "total")), "y+", "status says passed, but 1 of 3 tests passed"),
    "more tests passed than there are": reads(csv("add,x,,4,3", "add,y,AC,3,3", head=(*HEAD, "passed", "total")), "y+", "passed|total"),
    "a negative count": reads(csv("add,x,,-1,3", "add,y,AC,3,3", head=(*HEAD, "passed", "total")), "y+", "passed"),
    "a count without a total": reads(csv("add,x,3", head=("prompt", "code", "passed")), "", "a number of tests needs their total"),
    "counts that are words": reads(csv("add,x,many,all", head=("prompt", "code", "passed", "total")), "", "many|all|total"),
    "outcomes that contradict": reads({"a.jsonl": lines({"outcomes": ["AC", "WA"]}, {"outcomes": ["AC"], "code": "y"})}, "y+", "status says passed"),
    "failed with outcomes that all passed": reads({"a.jsonl": lines({"outcomes": ["AC"], "status": "WA"}, {"code": "y"})}, "y+", "status says failed, but all 1 outcomes are passed"),
    "outcomes that are a number": reads({"a.jsonl": lines({"outcomes": 3}, {"code": "y"})}, "y+", "outcomes: 3: a list of words"),
    "outcomes with null": reads({"a.jsonl": lines({"outcomes": ["AC", None], "status": None}, {"code": "y"})}, "y+", "unknown status 'None'"),
    "two outcomes of an attempt": reads({"a.jsonl": lines({"id": 1}, {"id": 1, "status": "WA"})}, "x+", "the attempt 1 is failed here, and passed in an earlier row", told="rows with different outcomes"),
    "scores that are not numbers": reads(csv("add,x,0.7", "add,y,much"), "x+", "unknown status 'much'", passed_at="0.5"),
    "points above the full ones": reads(csv("add,x,5", head=("prompt", "code", "score")), "", "points '5': a number from 0 to 1", points="score"),
    # tasks and tests
    "tests of several forms": reads({"a.jsonl": lines({"tests": "assert f(1) == 2"}, {"prompt": "sub", "code": "y", "tests": [{"input": "1", "output": "2"}]})}, "x+ y+"),
    "tests that some rows lack": reads({"a.jsonl": lines({"tests": ["assert f(1) == 2"]}, {"code": "y", "tests": None})}, "x+ y+"),
    "tests that come later": reads({"a.jsonl": lines({"tests": None}, {"code": "y", "tests": ["assert f(1) == 2"]})}, "x+", "different content in an earlier row: tests"),
    "tests that cannot fail": reads({"a.jsonl": lines({}, {"code": "y", "prompt": "sub", "tests": ["assert True"]})}, "x+", "test"),
    "a test that is no code": reads({"a.jsonl": lines({}, {"code": "y", "prompt": "sub", "tests": ["assert f(1 =="]})}, "x+", "test|syntax|never closed"),
    "a number as tests": reads({"a.jsonl": lines({}, {"code": "y", "prompt": "sub", "tests": 5})}, "x+", "test"),
    "inputs without outputs": reads({"a.jsonl": lines({}, {"code": "y", "prompt": "sub", "tests": {"inputs": ["1"], "outputs": []}})}, "x+", "input|output|test"),
    "names that differ in case and spaces": reads(csv("t,add,x", "T,sub,y", " t,mul,z", head=("task_id", "prompt", "code")), "x? y? z?"),
    "names in other scripts": reads(csv("задача,add,x", "問題,sub,y", "n\u0303,mul,z", "ñ,div,v", head=("task_id", "prompt", "code")), "x? y? z? v?"),
    "a task with two statements": reads(csv("t,add,x", "t,sub,y", head=("task_id", "prompt", "code")), "x?", "task a/t has different content in an earlier row: prompt"),
    "a number and its text as name": reads({"a.jsonl": lines({"task_id": 1}, {"task_id": "1", "code": "y"}, {"task_id": 1.0, "code": "z"})}, "x+ y+ z+"),
    "a list as statement": reads({"a.jsonl": lines({}, {"prompt": ["a"], "code": "y"})}, "x+", "prompt"),
    "a number as program": reads({"a.jsonl": lines({}, {"code": 5})}, "x+", "code"),
    "null as program": reads({"a.jsonl": lines({}, {"code": None})}, "x+", "code is empty, but the row has status"),
    "a program that is null in all rows": reads(csv("add,,AC"), "", "code is empty, but the row has status", told="no program, so only tasks are read"),
    "neither statement nor program": reads({"a.jsonl": lines({}, {"prompt": None, "code": None, "status": None})}, "x+", "neither a program nor a prompt"),
    "a parent that is nowhere": reads({"a.jsonl": lines({}, {"parent": 7, "code": "y"})}, "x+", "no row has the attempt '7'"),
    "a parent that is itself": reads({"a.jsonl": lines({}, {"id": 7, "parent": 7, "code": "y"})}, "x+", "no row has the attempt '7'|parent"),
    "a language that nobody knows": reads(csv("add,x,AC,klingon", head=(*HEAD, "language")), "x+"),
    "languages as numbers": stops(csv("add,x,AC,54", head=(*HEAD, "language")), "language has numbers, 54, .*name their languages: --map FILE"),
    "a time beyond all": reads(csv("add,x,AC,1e300", head=(*HEAD, "created")), "x+"),
    "a memory as text": reads(csv("add,x,AC,12 MB", head=(*HEAD, "memory_bytes")), "x+"),
    "columns that are words of sql": reads(csv("add,x,AC,1", head=("select", "from", "where", "order")), "x+", prompt="select", code="from", status="where"),
    "a column that is not there": stops(GOOD, "no column for code=answer of the options; its columns are prompt, code, status", code="answer"),
    "an option that is not there": stops(GOOD, "has no option promt; did you mean prompt", promt="x"),
    # files that rows name
    "a program outside": reads(csv("add,../b.py,AC", "add,/etc/passwd,WA", head=("prompt", "path", "status")), "", "outside of", code_file="path"),
    "a program that is not there": reads(csv("add,b.py,AC", head=("prompt", "path", "status")), "", "file b.py: no such file", code_file="path"),
    "a program that is a folder": reads({"a.csv": csv("add,sub,AC", head=("prompt", "path", "status")), "sub/b.py": b"x"}, "", "is a folder, a pipe or a device", code_file="path"),
    "a program that is a pipe": reads({"a.csv": csv("add,pipe,AC", head=("prompt", "path", "status")), "pipe": fifo}, "", "is a folder, a pipe or a device", code_file="path"),
    "a program with a name too long": reads(csv(f"add,{'n' * 5000},AC", head=("prompt", "path", "status")), "", "file n+: no such file", code_file="path"),
    "a program in latin-1": reads({"a.csv": csv("add,b.py,AC", head=("prompt", "path", "status")), "b.py": "ö".encode("latin-1")}, "", "name the encoding, such as --encoding latin-1", code_file="path"),
    # Parquet, SQLite
    "twin columns of parquet": stops({"a.parquet": parquet(pa.table([["add"], ["x"], ["y"], ["AC"]], names=["prompt", "code", "code", "status"]))}, "has two columns 'code': rename one"),
    "no rows of parquet": reads(parquet({name: pa.array([], pa.string()) for name in HEAD}), ""),
    "times and numbers of parquet": reads(parquet({name: [value] for name, value in ROW.items()} | {"created": [datetime(2024, 1, 2)], "day": [date(2024, 1, 2)], "more": [math.inf]}), "x+"),
    "bytes of parquet": reads({"a.parquet": parquet({"prompt": ["add"] * 3, "code": [b"x", b"y", b"\xff"], "status": ["AC", "WA", "AC"]})}, "x+ y-", "code: .*UTF-8|unicode"),
    "a cut parquet file": stops(parquet({"prompt": ["add"]})[:-5], AGAIN),
    "no tables": stops(sql("create view v as select 1 where 0"), "which table.*its tables are v .0 rows"),
    "two tables": stops(sql("create table log (prompt, code, status)", "create table more as select 1", rows=[("add", "x", "AC")]), r"which table\? --query NAME; its tables are log .1 row., more .1 row"),
    "two tables of which one is empty": reads(sql("create table log (prompt, code, status)", "create table more (a)", rows=[("add", "x", "AC")]), "x+"),
    "a view": reads(sql("create table log (a, b, c)", "create view v as select a as prompt, b as code, c as status from log", rows=[("add", "x", "AC")]), "x+", query="v"),
    "a table with the name of a word of sql": stops(sql("create table log (a, b, c)", 'create table "order ""by" as select 1'), "no table 'none'", query="none"),
    "no query": stops(sql(rows=[("add", "x", "AC")]), "syntax error", query="selekt * from log"),
    "text that is no utf-8": reads({"a.db": sql("create table log (prompt, code, status)", "insert into log values ('add', 'x', 'AC'), ('add', cast(x'ff' as text), 'AC'), (cast(x'ff' as text), 'y', 'AC')")}, "x+", "a text is not UTF-8"),
    "a program in bytes": reads({"a.db": sql(rows=[("add", "x", "AC"), ("add", b"y", "AC")])}, "x+ y+"),
    "writes that are not yet in the database": reads({"a.db": wal}, "x+"),
    # folders, archives and links
    "an empty folder": stops({"a/.hidden": b""}, "contains no table", of="a"),
    "a pipe": stops({"a": fifo}, "a: is a pipe, a device or a folder; name a file"),
    "a pipe in a folder": reads({"a/b.csv": GOOD, "a/pipe": fifo}, "x+ y-", told="links to folders or to nothing are not read, such as pipe", of="a"),
    "a link to nowhere": reads({"a/b.csv": GOOD, "a/c.csv": link("nowhere")}, "x+ y-", told="links to folders or to nothing are not read, such as c.csv", of="a"),
    "a link to itself": reads({"a/b.csv": GOOD, "a/c.csv": link("c.csv")}, "x+ y-", told="links to folders or to nothing are not read, such as c.csv", of="a"),
    "a link to the folder": reads({"a/b.csv": GOOD, "a/up": link("../a")}, "x+ y-", told="links to folders or to nothing are not read, such as up", of="a"),
    "a link to a file": reads({"b.csv": GOOD, "a/c.csv": link("../b.csv")}, "x+ y-", of="a"),
    "an empty table beside": reads({"a/b.csv": GOOD, "a/c.csv": b""}, "x+ y-", of="a"),
    "a broken table beside": stops({"a/b.csv": GOOD, "a/c.parquet": b"PAR1"}, r"c\.parquet: " + AGAIN, of="a"),
    "tables of other columns": stops({"a/b.csv": GOOD, "a/c.csv": b"k,v\n1,2\n"}, r"c\.csv: .*--prompt COLUMN", of="a"),
    "two files of one name in a zip": reads({"a.zip": zipped(("b.csv", csv("add,old,AC")), ("b.csv", GOOD), ("README", b"x"))}, "x+ y-"),
    "paths out of a zip": reads({"a.zip": zipped(("../../b.csv", GOOD), ("/etc/c.csv", csv("add,z,AC")))}, "x+ y- z+"),
    "a hard link in a tar": reads({"a.tar": tarred((".b.csv", GOOD), ("c.csv", ".b.csv"), ("d.txt", b"x"))}, "x+ y-"),
    "gzip with something after it": stops({"a.csv.gz": gzip.compress(GOOD) + b"more"}, AGAIN),
    "gzip in two parts": reads({"a.csv.gz": gzip.compress(GOOD[:25]) + gzip.compress(GOOD[25:])}, "x+ y-"),
    # maps
    "an empty map": stops(GOOD, "my.yaml: a map has keys such as `columns`", map=""),
    "a list as map": stops(GOOD, "my.yaml: a map has keys such as `columns`", map="- columns"),
    "a table as map": stops(GOOD, "my.yaml: .*(?:a map has keys|cannot be read as YAML)", map=GOOD.decode()),
    "bytes as map": stops(GOOD, "my.yaml: cannot be read as YAML", map=b"\xff\xfe\x00"),
    "an unknown key": stops(GOOD, "my.yaml: unknown colums; keys are about, name", map="colums: {code: code}"),
    "an unknown field": stops(GOOD, "my.yaml: unknown promt; columns can be task_id, prompt", map="columns: {promt: prompt}"),
    "a column without a name": stops(GOOD, "my.yaml: columns.status has no value", map="columns: {status: }"),
    "a column that is true": stops(GOOD, "my.yaml: columns.code has no value, or not a text", map="columns: {code: true}"),
    "a column that is an object": stops(GOOD, "my.yaml: columns.code has no value, or not a text", map="columns: {code: {a: b}}"),
    "no column of several": stops(GOOD, "my.yaml: columns.code has no value, or not a text", map="columns: {code: []}"),
    "columns in a list": stops(GOOD, "my.yaml: columns: must be a table", map="columns: [code]"),
    "a column that rows lack": stops(GOOD, "no column for code=answer of .*my.yaml; its columns are prompt, code, status", map="columns: {code: answer}"),
    "a tab": stops(GOOD, "my.yaml: cannot be read as YAML: .*line 2", map="columns:\n\tcode: code"),
    "a key that is there twice in a map": stops(GOOD, "my.yaml: cannot be read as YAML: line 2: columns is in line 1, too", map="columns: {code: code}\ncolumns: {}"),
    "an open brace of yaml": stops(GOOD, "my.yaml: cannot be read as YAML: .*line 2", map="columns: {code: code\n"),
    "a tag of python": stops(GOOD, "my.yaml: cannot be read as YAML: .*could not determine a constructor", map="columns: !!python/object/apply:os.getcwd []"),
    "a bomb of aliases": stops(GOOD, "my.yaml: cannot be read as YAML: aliases expand to more than 100,000 values", map=bomb("x{0}: &{0} [{1}]")),
    "a bomb of merges": stops(GOOD, "my.yaml: cannot be read as YAML: .*(?:merges more than 100,000 keys|expand to more than)", map=bomb("x{0}: &{0} {{<<: [{1}], k{0}: 1}}").replace("<<: [x], ", "")),
    "an alias of itself": stops(GOOD, "my.yaml: cannot be read as YAML: nested too deeply, or an alias repeats itself", map="columns: &a {code: *a}"),
    "a map that is nested too deeply": stops(GOOD, "my.yaml: cannot be read as YAML: nested too deeply", map="columns: " + "[" * 1000),
    "an expression with a mistake": stops(GOOD, "my.yaml: match.code: is not a regular expression: missing \\)", map="match: {code: '('}"),
    "an expression without a group": stops(GOOD, "my.yaml: match.code: the expression names no column", map="match: {code: x}"),
    "an expression over no column": stops(GOOD, "no column log, which .*my.yaml explodes or searches", map="match: {log: '(?P<a>x)'}"),
    "an expression that is a number": stops(GOOD, "my.yaml: match.code: must be a text", map="match: {code: 5}"),
    "an open brace of a template": stops(GOOD, "my.yaml: columns.code: '{code' has an unmatched brace", map="columns: {code: '{code'}"),
    "a template over no column": stops(GOOD, "no column for code=.answer. of .*my.yaml; its columns are prompt, code, status", map="columns: {code: '{answer}'}"),
    "a group too many for a word": stops(GOOD, "my.yaml: status.match: must have one group", map="status: {column: status, match: '(A)(C)'}"),
    "a word for no status": stops(GOOD, "my.yaml: statuses: 'good' is not a valid Status; known statuses are passed", map="statuses: {AC: good}"),
    "statuses in a list": stops(GOOD, "my.yaml: statuses: must be a table", map="statuses: [AC]"),
    "a status without a word": stops(GOOD, "my.yaml: statuses.AC has no value", map="statuses: {AC: }"),
    "yes and no that mean the opposite": reads(csv("add,x,yes", "add,y,no"), "x- y+", map="statuses: {yes: failed, no: passed}"),
    "on and off": reads(csv("add,x,on", "add,y,off"), "x+ y-", map="statuses: {on: passed, off: failed}"),
    "true and false that mean the opposite": reads(csv("add,x,true", "add,y,False"), "x- y+", map="statuses: {true: failed, false: passed}"),
    "rows that are no": reads(csv("add,x,AC,yes", "add,y,AC,no", head=(*HEAD, "use")), "y+", told="1 rows are skipped", map="only: {use: no}"),
    "a negation that is a word": stops(GOOD, "my.yaml: status.negate: must be true or false", map="status: {column: status, negate: maybe}"),
    "a score that is a word": stops(GOOD, "my.yaml: status.passed_at: must be a number", map="status: {column: status, passed_at: high}"),
    "an unknown key of the status": stops(GOOD, "my.yaml: status: unknown word; keys are column, words", map="status: {column: status, word: {AC: passed}}"),
    "a language in a list": stops(GOOD, "my.yaml: languages.1 has no value, or not a text", map="languages: {1: [cpp]}"),
    "rows of a column that is not there": reads(GOOD, "", told="2 rows are skipped", map="only: {week: 3}"),
    "bounds of another name": stops(GOOD, "my.yaml: only.week: must be a value, a list", map="only: {week: {least: 3}}"),
    "an option of nothing": stops(GOOD, "my.yaml: options.model: needs one of column, from, to, ", map="options: {model: {}}"),
    "cases in a table": stops(GOOD, "my.yaml: cases: must be a list of tables", map="cases: {only: {a: 1}}"),
    "an unknown key of a case": stops(GOOD, "my.yaml: cases, case 1: unknown if; keys are only, columns", map="cases: [{if: x}]"),
    "an unknown place of columns": stops(GOOD, "my.yaml: extra: unknown tasks; keys are task, attempt", map="extra: {tasks: [a]}"),
    "files that are a number": stops(GOOD, "my.yaml: files: must be a name, or a list of names", map="files: 5"),
    "files that are not there": stops({"a/b.csv": GOOD}, "a: no file matches `files` of .*my.yaml, \\*.json; there are 1, such as b.csv", of="a", map="files: '*.json'"),
    "a list in a table of text": stops(GOOD, "a.csv: option rows: only JSON files", map="rows: data"),
    "a query of a table of text": stops(GOOD, "a.csv: option query is for databases and workbooks", map="query: log"),
    "unknown quotes": stops(GOOD, "my.yaml: quotes: must be one of double, none", map="quotes: single"),
    "tests without outputs": stops(GOOD, "my.yaml: tests: files of tests are", map="tests: {input: '*.in'}"),
    "tests in text without groups": stops(GOOD, "my.yaml: tests.match: must have two groups", map="tests: {column: code, match: x}"),
    "full points of 0": stops(GOOD, "my.yaml: full_points: must be a positive number", map="full_points: 0"),
    "a name that is a number": stops(GOOD, "my.yaml: name: must be a text", map="name: 5"),
    "a constant without a value": stops(GOOD, "my.yaml: constants.a: has no value", map="constants: {a: }"),
    "unknown imports": stops(GOOD, "my.yaml: constants.imports: must be one of none, contest", map="constants: {imports: all}"),
    "a list that is text": reads(GOOD, "", "code is not a list, but the map explodes it: '[xy]'", map="explode: code"),
    "parts in a list": stops(GOOD, "my.yaml: parts: must be a list of maps", map="parts: [a]"),
    "a text with a name too long": reads(csv("add,x,AC," + "n" * 300, head=(*HEAD, "file")), "x+", map="texts: {hint: '{file}.txt'}"),
}  # fmt: skip


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        content(folder / name) if callable(content) else (folder / name).write_bytes(content)


def short(code):
    return code if len(code) < 50 else f"{code[0]} and {len(code) - 1} more"


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_one_sentence_or_does_no_harm(tmp_path, name, recwarn):
    content, said, stored, why, told, options = CASES[name]
    files = content if isinstance(content, dict) else {"a.csv": content}
    path = tmp_path / options.get("of", next(iter(files)))
    if "map" in options:
        text = options["map"]
        (tmp_path / "my.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        options = {**options, "map": str(tmp_path / "my.yaml")}
    put(tmp_path, files)
    archive = Archive.create(tmp_path / "archive")
    given = {key: value for key, value in options.items() if key != "of"}
    if said is not None:
        with pytest.raises(SourceError, match=said) as error:
            ingest(archive, "table", path, max_rejected=1, **given)
        assert "\n" not in str(error.value) and len(str(error.value)) < 2000
        return
    report = ingest(archive, "table", path, max_rejected=1, **given)
    outcomes = {one.attempt_id: SIGNS.get(one.status.value, one.status.value) for one in archive.verdicts()}
    attempts = [*archive.attempts()]
    assert " ".join(f"{short(one.code)}{outcomes.get(one.attempt_id, '?')}" for one in attempts) == stored
    assert bool(report.reasons) == bool(why) and all(re.search(why, row.reason) and row.file for row in report.reasons)
    assert any(re.search(told, str(one.message)) for one in recwarn) if told else not [*recwarn]
    for one in attempts:
        json.loads(one.extra or "{}", parse_constant=pytest.fail)

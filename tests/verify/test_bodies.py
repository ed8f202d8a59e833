"""Bodies of any shape cost a server time and memory in proportion to their size, and are refused by name."""

import json
import re
import time
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.records import from_row
from upsolve.types import Attempt, Task, Verdict
from upsolve.verify.service.auth_middleware import RefusedError
from upsolve.verify.service.requests import CodeRequest, parsed, read_object

pytestmark = pytest.mark.skipif(not find_spec("fastapi"), reason="needs the extra serve")


def many(text, size):
    """Return a text repeated to a size, numbered where it says so."""
    count = size // (len(text) + 3)
    return ",".join(text.replace("%", f"{n:x}") for n in range(count))


def of_request(more):
    return '{"tasks": [], "attempts": [], ' + more + "}"


SHAPES = {
    "unknown keys": lambda size: of_request(many('"k%":1', size)),
    "one key again and again": lambda size: of_request(many('"repeats":1', size)),
    "deep lists": lambda size: of_request('"lines":' + "[" * (size // 2) + "]" * (size // 2)),
    "deep objects": lambda size: of_request('"lines":' + '{"a":' * (size // 6) + "1" + "}" * (size // 6)),
    "empty objects": lambda size: '{"tasks": [], "attempts": [' + many("{}", size) + "]}",
    "empty lists": lambda size: '{"tasks": [' + many("[]", size) + '], "attempts": []}',
    "numbers as attempts": lambda size: '{"tasks": [], "attempts": [' + many("7", size) + "]}",
    "tiny attempts": lambda size: '{"tasks": [], "attempts": [' + many('{"task_id":"t","code":"%"}', size) + "]}",
    "tiny tasks": lambda size: '{"attempts": [], "tasks": [' + many('{"task_id":"%","prompt":""}', size) + "]}",
    "a long number": lambda size: of_request('"repeats":' + "9" * size),
    "long numbers": lambda size: of_request('"limits":{"wall_seconds":' + "9" * 4000 + "}," + many('"k%":' + "9" * 4000, size)),
    "analyses": lambda size: of_request('"analyses":[' + many('"lin%"', size) + "]"),
    "numbers as packages": lambda size: of_request('"packages":[' + many("1", size) + "]"),
    "limits": lambda size: of_request('"limits":{' + many('"k%":1', size) + "}"),
    "an open string": lambda size: of_request('"a": "' + '\\"' * (size // 2)),
    "a backslash at the end": lambda size: of_request('"a": "' + '\\"' * (size // 2) + "\\"),
    "no JSON": lambda size: '"' * size,
    "a list": lambda size: "[" + many("1", size) + "]",
}
"""What a client sends -> a body of about this many characters, which a server refuses."""
IN_RECORDS = {
    "unknown fields": lambda size: '{"task_id":"t","code":"",' + many('"k%":1', size) + "}",
    "a test of many fields": lambda size: '{"task_id":"t","prompt":"","tests":[{' + many('"k%":1', size) + "}]}",
    "tests that are numbers": lambda size: '{"task_id":"t","prompt":"","tests":[' + many("1", size) + "]}",
    "tests with unknown fields": lambda size: (
        '{"task_id":"t","prompt":"","tests":[' + many('{"kind":"call","x":1}', size) + "]}"
    ),
    "tokens that are text": lambda size: '{"task_id":"t","code":"","token_ids":[' + many('"a"', size) + "]}",
}
"""What is wrong with a record -> its JSON."""


def refusal(body):
    """Return what the server answers to a body, with the seconds that this takes."""
    from upsolve.verify.limits import JudgeSettings
    from upsolve.verify.service.requests import settings_of
    from upsolve.verify.service.scheduler import Bounds, Service

    begun = time.process_time()
    with pytest.raises((RefusedError, ValueError)) as refused:
        request = Service.request_of(SERVICE, read_object(body.encode()))
        settings_of(request.settings, JudgeSettings(), Bounds().limits)
    return str(refused.value), time.process_time() - begun


class SERVICE:
    """The part of a service that counts records."""

    from upsolve.verify.service.scheduler import Service

    refuse_many = classmethod(Service.refuse_many)

    class bounds:  # noqa: N801
        attempts = 10_000


@pytest.mark.parametrize("shape", SHAPES)
def test_bodies_are_refused_in_little_time_by_a_short_answer(shape):
    said, seconds = refusal(SHAPES[shape](1_000_000))
    assert len(said) < 2000 and seconds < 1.5


@pytest.mark.parametrize("shape", IN_RECORDS)
def test_a_record_with_many_faults_costs_little_and_says_the_first(shape):
    row = json.loads(IN_RECORDS[shape](1_000_000))
    begun = time.process_time()
    with pytest.raises(ValueError, match=r"unknown field k0|tests|token_ids") as refused:
        from_row(Task if "prompt" in row else Attempt, row)
    assert len(str(refused.value)) < 1000 and time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "'c' twice"),
        (b"[1]", "not an object"),
        (b'{"a": "\xff"}', "utf-8"),
        (b'{"a": ' + b"[" * 9000 + b"]" * 9000 + b"}", "in 24 bytes"),
        (b'{"a": ' + b"[" * 990 + b"]" * 990 + b"}", "nested too deeply"),
    ],
)
def test_what_is_no_body_is_named(body, named):
    with pytest.raises(RefusedError, match=re.escape(named)):
        read_object(body)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(max_size=9), values, max_size=6))
def test_every_object_is_read_as_it_is(row):
    assert read_object(json.dumps(row).encode()) == row
    assert read_object(json.dumps(row, ensure_ascii=False).encode()) == row


def test_large_honest_requests_are_read():
    """Many tests of few characters, and programs full of brackets."""
    tests = [{"kind": "call", "input": f"f({n})", "expected": "2"} for n in range(20_000)]
    attempts = [{"task_id": "t", "code": "[{" * 500 + '"\\"' * 9} for _ in range(900)]
    row = {"tasks": [{"task_id": "t", "prompt": "", "tests": tests}], "attempts": attempts}
    assert read_object(json.dumps(row, separators=(",", ":")).encode()) == row


def test_a_program_with_unknown_or_too_many_fields_is_refused():
    good = {"code": "", "language": "python"}
    assert parsed(CodeRequest, {**good, "files": {"a": None}}).files == {"a": None}
    for more, named in (
        ({f"k{n}": 1 for n in range(10**5)}, "'k0'"),
        ({"files": {f"k{n}": 1 for n in range(10**5)}}, "files"),
        ({"fetch_files": [1] * 9999}, "fetch_files"),
        ({"code": 7}, "code"),
    ):
        with pytest.raises(RefusedError, match=named) as refused:
            parsed(CodeRequest, {**good, **more})
        assert refused.value.status == 422 and len(str(refused.value)) < 2000


def test_records_keep_their_clear_errors():
    with pytest.raises(ValueError, match=r"^unknown field auther, did you mean author\?; unknown field x$"):
        from_row(Attempt, {"task_id": "t", "code": "", "auther": 1, "x": 2})
    verdict = Verdict("a", "passed", outcomes=("passed", "failed"))
    assert from_row(Verdict, asdict(verdict)).outcomes == verdict.outcomes


@pytest.mark.slow
def test_a_server_stays_small_and_answers_whatever_is_sent(tmp_path):
    from adapters.serving import serving

    with serving(tmp_path) as port:
        import http.client

        for shape, make in [*SHAPES.items(), *((name, in_attempts(make)) for name, make in IN_RECORDS.items())]:
            line, begun = http.client.HTTPConnection("127.0.0.1", port, timeout=300), time.monotonic()
            line.request("POST", "/verify", make(16_000_000).encode(), {"Content-Type": "application/json"})
            answer = line.getresponse()
            said = answer.read()
            assert answer.status in (413, 422) or (answer.status == 200 and b"unscored" in said), (shape, said[:200])
            assert len(said) < 3000 and time.monotonic() - begun < 30, shape
            line.close()
        (pid,) = [int(entry.name) for entry in Path("/proc").iterdir() if is_server(entry, port)]
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])
    assert peak < 700_000


def in_attempts(make):
    return lambda size: '{"tasks": [], "attempts": [' + make(size) + "]}"


def is_server(entry, port):
    """Return whether an entry of /proc is the process that listens on a port."""
    if not entry.name.isdigit():
        return False
    try:
        inodes = {
            line.split()[9] for line in (entry / "net/tcp").read_text().splitlines()[1:] if f":{port:04X} 00000000" in line
        }
        return any(f"socket:[{inode}]" == str(file.readlink()) for inode in inodes for file in (entry / "fd").iterdir())
    except OSError:
        return False

"""Each setting of ``verify`` decides verdicts here, at a service, and in the cache alike; nothing else does."""

import http.server
import json
import random
import sys
import threading
from dataclasses import fields, replace
from importlib.util import find_spec

import pytest
from adapters.serving import serving
from hypothesis import given, settings
from hypothesis import strategies as st

from upsolve.config import VerifyConfig
from upsolve.errors import JudgeError
from upsolve.languages import missing_packages, packages_folder
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.limits import DECISIVE, JudgeSettings, Limits, judge_settings
from upsolve.verify.pool.cache import key_of
from upsolve.verify.pool.pool import verify
from upsolve.verify.service.client import body_of, remote, request_of

ONE = Task("one", "", (TestCase(TestKind.STDIO, "", "1"),))
SMALL = replace(ONE, task_id="small", limit_bytes=256 << 20)


def program(code, task=ONE):
    return task, Attempt(task.task_id, code)


def status(verdict):
    return verdict.status.value


def flaky(verdict):
    return "flaky" in {finding.kind for finding in verdict.findings}


LUCK = "import random\nprint(int(random.SystemRandom().random() < 0.5))"
CASES = {
    "wall_seconds": (0.3, program("import time\ntime.sleep(3)\nprint(1)"), status, "passed", "timeout"),
    "cpu_seconds": (1.0, program("import time\nwhile time.process_time() < 2.5: pass\nprint(1)"), status, "passed", "timeout"),
    "memory_bytes": (200 << 20, program("x = bytes(300 << 20)\nprint(1)"), status, "passed", "memory_limit"),
    "output_bytes": (999, program("import sys\nsys.stderr.write('x' * 5000)\nprint(1)"), status, "passed", "output_limit"),
    "test_seconds": (0.3, program("import time\ntime.sleep(3)\nprint(1)  # each"), status, "passed", "timeout"),
    "task_limits": (0.0, program("x = bytes(300 << 20)\nprint(1)  # more", SMALL), status, "memory_limit", "passed"),
    "imports": ("contest", program("print(deque([1])[0])"), status, "runtime_error", "passed"),
    "packages": (("tiny_package",), program("import tiny_package\nprint(tiny_package.ONE)"), status, "runtime_error", "passed"),
    "python": ("bash", program("echo 1"), status, "compile_error", "passed"),
    "repeats": (10, program(LUCK), flaky, False, True),
    "cost": (
        2,
        program("import time\nprint(1)  # measured\ntime.sleep(0.5)"),
        lambda verdict: verdict.cpu_seconds is None,
        False,
        True,
    ),
    "analyses": (("syntax",), program("print(1)  # analysed"), lambda verdict: len(verdict.analyses), 0, 1),
}
"""Key of ``verify`` -> a value, a program, what it changes of the verdict, this by default, and with the value."""
OF_MACHINE = {"isolation", "workers", "executor", "cache"}
"""Keys that belong to the machine that judges (docs/service.md)."""


@pytest.fixture(scope="module")
def judges(tmp_path_factory):
    """Return the judges, here and at a service, as functions of pairs and settings; both have the package ``tiny_package``."""
    if find_spec("uvicorn") is None:
        pytest.skip("no uvicorn here")
    folder = tmp_path_factory.mktemp("settings")
    home = folder / "packages" / "python{}.{}".format(*sys.version_info)
    home.mkdir(parents=True)
    (home / "tiny_package.py").write_text("ONE = 1\n")
    with pytest.MonkeyPatch.context() as patch, serving(folder, UPSOLVE_PACKAGES=str(folder / "packages")) as port:
        patch.setenv("UPSOLVE_PACKAGES", str(folder / "packages"))
        far = remote(f"http://127.0.0.1:{port}")
        far.patience_seconds = 30

        def there(pairs, given):
            found = dict(far.judged(pairs, given))
            return [found[index] for index in range(len(pairs))]

        yield {"here": lambda pairs, given: verify(pairs, replace(given, cache=None)), "there": there}


def settings_with(**changed):
    return judge_settings(VerifyConfig(workers=2, cache=False, **changed))


def test_each_key_has_a_case():
    assert {*CASES} | OF_MACHINE == {*VerifyConfig.model_fields}, "a new key needs a case, or belongs to the machine"
    assert {*DECISIVE} == {field.name for field in fields(JudgeSettings)} - OF_MACHINE


@pytest.mark.slow
def test_each_key_decides_verdicts_here_and_at_a_service(judges):
    pairs = [pair for _, pair, _, _, _ in CASES.values()]
    usual = {name: judge(pairs, settings_with()) for name, judge in judges.items()}
    for number, (key, (value, pair, seen, before, after)) in enumerate(CASES.items()):
        for name, judge in judges.items():
            assert seen(usual[name][number]) == before, (key, name, usual[name][number])
            (changed,) = judge([pair], settings_with(**{key: value}))
            assert seen(changed) == after, (key, name, changed)


def test_a_service_records_executed_lines_on_request(judges):
    for judge in judges.values():
        (verdict,) = judge([program("print(1)\nprint(end='')")], JudgeSettings(lines=True))
        assert verdict.executed_lines == (1, 2)


@pytest.mark.slow
def test_defaults_of_the_server_do_not_take_the_place_of_settings(tmp_path):
    """The server's own recipe has other limits, imports and repeats than the client's."""
    words = [f"--set=verify.{one}" for one in ("test_seconds=0.3", "imports=contest", "repeats=3", "analyses=[syntax]")]
    if find_spec("uvicorn") is None:
        pytest.skip("no uvicorn here")
    with serving(tmp_path, *words) as port:
        pairs = [CASES[key][1] for key in ("test_seconds", "imports", "repeats", "analyses")]
        found = dict(remote(f"http://127.0.0.1:{port}").judged(pairs, settings_with()))
    assert [found[number].status.value for number in (0, 1, 3)] == ["passed", "runtime_error", "passed"]
    assert not any(verdict.analyses or flaky(verdict) for verdict in found.values())


OTHER = {
    "limits": Limits(memory_bytes=1 << 30),
    "lines": True,
    "repeats": 2,
    "cost": 2,
    "analyses": ("syntax",),
    "task_limits": 3.0,
    "imports": "contest",
    "packages": ("tiny_package",),
    "python": "bash",
    "isolation": "best_effort",
    "workers": 3,
    "executor": "ray",
    "cache": None,
}
"""Another value of each setting."""


def test_the_cache_gives_no_verdict_under_other_settings():
    timed, attempt = replace(ONE, limit_seconds=1.0), Attempt("one", "print(1)")
    keys = {None: key_of(timed, attempt, JudgeSettings())}
    for field in fields(JudgeSettings):
        keys[field.name] = key_of(timed, attempt, replace(JudgeSettings(), **{field.name: OTHER[field.name]}))
    for field in fields(Limits):
        keys[f"limits.{field.name}"] = key_of(ONE, attempt, JudgeSettings(replace(Limits(), **{field.name: 4 << 20})))
    decisive = [keys[name] for name in keys if name not in ("workers", "executor", "cache")]
    assert len({*decisive}) == len(decisive) and {keys[name] for name in ("workers", "executor", "cache")} == {keys[None]}


def test_settings_and_required_packages_have_different_keys():
    attempt = Attempt("one", "print(1)")
    tasks = [replace(ONE, requires=names) for names in ((), ("contest",), ("packages", "x"), ("python", "bash", ""))]
    given = [JudgeSettings(), *(JudgeSettings(**{name: OTHER[name]}) for name in ("imports", "packages", "python"))]
    assert len({key_of(task, attempt, one) for task in tasks for one in given}) == 16


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"packages": ("no_such_package",)}, "no_such_package.*upsolve packages"),
        ({"python": "klingon"}, "verify.python: unknown language 'klingon'"),
        ({"python": "bash", "lines": True}, "verify.python: bash excludes"),
        ({"limits": Limits(wall_seconds=61)}, "limits.wall_seconds: 61.0 is more than this server allows: 60.0"),
        ({"repeats": 11}, "repeats: 11 is more"),
        ({"packages": ("../*", "**/*")}, r"not installed for attempts: \.\./"),
        ({"packages": ("x",) * 101}, "packages: more than 100 names"),
    ],
)
def test_a_server_refuses_what_it_cannot_do(judges, change, named):
    with pytest.raises(JudgeError, match=named):
        judges["there"]([program("print(1)")], replace(JudgeSettings(), **change))


def test_a_name_that_is_no_package_is_not_searched_for(tmp_path, monkeypatch):
    """Tasks of a client name packages, too: patterns would search the disk of the server, and tell what it holds."""
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path / "packages"))
    home = packages_folder()
    home.mkdir(parents=True)
    (home / "real.py").write_text("")
    (tmp_path / "secret").mkdir()
    assert missing_packages(["real", "../../secret", "*", "**/*", "re*", "", "/etc"]) == [
        "../../secret",
        "*",
        "**/*",
        "re*",
        "",
        "/etc",
    ]


class Answers(http.server.BaseHTTPRequestHandler):
    """A server that answers each request with the same bytes."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def answering():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


VERDICT = {"place": 0, "attempt_id": "a", "status": "passed"}
OLDER = {
    "detail": [
        {"loc": ["body", name], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}
        for name in ("imports", "python")
    ]
}


@pytest.mark.parametrize(
    ("status", "record", "named"),
    [
        (422, OLDER, "older than this client and does not know imports, python: upgrade it"),
        (200, {**VERDICT, "status": "unscored", "error_message": "task: unknown field limit_gpus"}, "older.*field limit_gpus"),
        (200, {**VERDICT, "status": "great"}, "not a verdict.*status"),
    ],
)
def test_a_server_of_another_version_is_refused_at_once(answering, status, record, named):
    answering.answer = status, json.dumps(record).encode() + b"\n"
    with pytest.raises(JudgeError, match=named):
        list(remote(f"http://127.0.0.1:{answering.server_port}").judged([program("print(1)")]))


def test_a_newer_server_may_say_more(answering):
    lines = [{**VERDICT, "new_field": 1}, {"done": 1}]
    answering.answer = 200, b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    ((_, verdict),) = remote(f"http://127.0.0.1:{answering.server_port}").judged([program("print(1)")])
    assert verdict.status is Status.PASSED and verdict.judge_version == 0


def test_requests_are_json_and_say_that_a_limit_is_absent():
    assert json.loads(body_of([program("print(1)")], JudgeSettings()))["limits"]["test_seconds"] is None
    assert set(request_of(JudgeSettings())) == {*DECISIVE}


ADD = Task("add", "", tuple(TestCase(TestKind.CALL, f"f([{n}])", f"[{n}, 2]") for n in (1, 1, 2)), "f")
MIXED = [
    program("print(1)"),
    program("open('left', 'w').write('1')\nprint(1)"),
    program("import os\nprint(1 - os.path.exists('left'))"),
    program("import os, sys\nos.close(1)\nsys.exit(3)"),
    program("import builtins\nbuiltins.print = None"),
    program("import sys\nsys.stdout.write('1')\nsys.stdout = None"),
    program("print(2"),
    (ADD, Attempt("add", "def f(x):\n    x.append(2)\n    return x")),
    (ADD, Attempt("add", "seen = []\ndef f(x):\n    seen.append(2)\n    return x + seen")),
    (ADD, Attempt("add", "import json\njson.dumps = lambda *a, **k: '[1, 2]'\ndef f(x):\n    return [1, 2]")),
    (ADD, Attempt("add", "def f(x): raise SystemExit(0)")),
    (replace(ADD, task_id="other", entry_point="g"), Attempt("other", "def f(x):\n    return [*x, 2]")),
]


def outcome(verdict):
    return replace(verdict, wall_seconds=None, cpu_seconds=None, memory_bytes=None)


@pytest.fixture(scope="module")
def alone():
    """Return the outcome of each program judged alone."""
    return [outcome(*verify([pair], JudgeSettings(workers=1))) for pair in MIXED]


@settings(max_examples=12)
@given(order=st.permutations(range(len(MIXED))), size=st.integers(1, len(MIXED)), workers=st.integers(1, 2))
def test_order_batch_and_process_decide_no_verdict(alone, order, size, workers):
    for start in range(0, len(order), size):
        part = order[start : start + size]
        found = verify([MIXED[number] for number in part], JudgeSettings(workers=workers))
        assert [outcome(one) for one in found] == [alone[number] for number in part]


def test_a_service_gives_the_same_verdicts_in_any_order(judges, alone):
    order = random.Random(1).sample(range(len(MIXED)), len(MIXED))
    found = judges["there"]([MIXED[number] for number in order], JudgeSettings())
    assert [outcome(one) for one in found] == [alone[number] for number in order]

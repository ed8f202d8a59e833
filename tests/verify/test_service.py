"""The judge over HTTP: real servers, real clients, real sandboxes."""

import base64
import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest

from upsolve.errors import JudgeError
from upsolve.types import Attempt, Task, TestCase, TestKind
from upsolve.verify.limits import JudgeSettings, Limits
from upsolve.verify.pool.pool import Batch, verify
from upsolve.verify.pool.services import services
from upsolve.verify.service.client import remote

pytestmark = pytest.mark.skipif(not (find_spec("fastapi") and find_spec("uvicorn")), reason="needs the extra serve")

TOKEN = "a-long-random-word"
TASK = Task("t", "", (TestCase(TestKind.CALL, "f(2)", "4"),), "f")
STDIO = Task("s", "", (TestCase(TestKind.STDIO, "3\n", "9"),))
SETTINGS = JudgeSettings(Limits(wall_seconds=5, cpu_seconds=2))
LOOP = Attempt("t", "def f(x):\n    while True: pass\n")
SERVE = ("-m", "upsolve", "verify", "--serve", "--port", "0", "--workers", "2")
SMALL = """
from upsolve.verify.limits import JudgeSettings
from upsolve.verify.service.app import serve
from upsolve.verify.service.scheduler import Bounds, Service
serve(Service(JudgeSettings(workers=2), bounds=Bounds(body_bytes=100_000, attempts=40, waiting=60)), port=0,
      say=lambda text: print(text, flush=True))
"""


class Server:
    def __init__(self, folder, *words):
        command = words or SERVE
        environment = {**os.environ, "UPSOLVE_CACHE": str(folder / "cache")}
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *map(str, command)], stdout=subprocess.PIPE, stderr=log, env=environment, text=True
            )
        said = self.process.stdout.readline()
        assert "serves at http://127.0.0.1:" in said, (folder / "log").read_text()
        self.port, self.log = int(said.split(":")[2].split()[0]), folder / "log"
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, path, body=None, *, token=TOKEN, **headers):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        with contextlib.closing(line):
            line.request("GET" if body is None else "POST", path, data, sent)
            answer = line.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if "\n" not in text.strip() else text, dict(answer.getheaders())

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(300)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    (folder / "token").write_text(TOKEN + "\n")
    running = Server(folder, *SERVE, "--token-file", folder / "token")
    yield running
    assert running.stop() == 0
    assert not running.log.read_text()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    running = Server(tmp_path_factory.mktemp("small"), "-c", SMALL)
    yield running
    running.stop()


def attempts(n, start=0):
    return [(TASK, Attempt("t", f"def f(x):\n    return x * 2 if {k} % 3 else 0\n")) for k in range(start, start + n)]


def test_verdicts_are_those_of_the_judge_here(server):
    pairs = [*attempts(20), (STDIO, Attempt("s", "print(int(input()) ** 2)")), (STDIO, Attempt("s", "print(1")), (TASK, LOOP)]
    pairs += [(replace(TASK, setup="y = 2"), Attempt("t", "def f(x):\n    return x * y")), (TASK, Attempt("t", "'\ud800'"))]
    settings = replace(SETTINGS, lines=True, analyses=("lint",), limits=Limits(wall_seconds=30, cpu_seconds=0.4))
    here = verify(pairs, settings)
    there = dict(remote(server.url, TOKEN).judged(pairs, settings))
    vague = {"wall_seconds": None, "cpu_seconds": None, "memory_bytes": None}
    assert [replace(there[k], **vague) for k in range(len(pairs))] == [replace(verdict, **vague) for verdict in here]
    again = dict(remote(server.url, TOKEN).judged(pairs[:20], settings))  # from the cache: to the last microsecond
    assert [again[k] for k in range(20)] == [there[k] for k in range(20)]


def test_the_pool_judges_at_services_and_leaves_the_work_of_one_that_is_not_there_to_the_other(server, monkeypatch, caplog):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setenv("UPSOLVE_TOKEN", TOKEN)
    services.cache_clear()
    settings = replace(SETTINGS, executor=f"{nobody},{server.url}")
    assert Batch(settings).size == 4, "two chunks for each of its workers"
    pairs = [*attempts(30, 700), (TASK, Attempt("t", "1 +")), *attempts(2, 700)]
    vague = {"wall_seconds": None, "cpu_seconds": None, "memory_bytes": None}
    here, there = ([replace(v, **vague) for v in verify(pairs, each)] for each in (SETTINGS, settings))
    assert here == there and caplog.text.count("the other judges do its work") == 1
    services.cache_clear()


def test_a_bad_record_is_one_unscored_verdict(server):
    task = {"task_id": "t", "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}], "prompt": "", "kind": "task"}
    good = {"task_id": "t", "code": "def f(x):\n    return 2 * x"}
    tasks = [
        task,
        {"task_id": "bad", "prompt": "", "tests": [{"kind": "odd", "input": ""}]},
        {**task, "task_id": "x"},
        {**task, "task_id": "x"},
    ]
    wrong = [
        ({**good, "languge": "c"}, "languge"),
        ({**good, "code": None}, "code is missing"),
        ({"task_id": "t"}, "code"),
        (7, "not an object"),
        ({**good, "task_id": "none"}, "called none"),
        ({**good, "task_id": "bad"}, "called bad"),
        ({**good, "task": 1}, "odd"),
        ({**good, "task": 9}, "task: 9 is not an index into"),
        ({**good, "task_id": "x"}, "two tasks"),
        ({**good, "language": "klingon"}, "klingon"),
    ]
    status, text, _ = server.ask(
        "/verify", {"tasks": tasks, "attempts": [*(row for row, _ in wrong), good, {**good, "task": 0}]}
    )
    lines = [json.loads(line) for line in text.splitlines()]
    assert status == 200 and lines.pop() == {"done": 12}
    said = {line["place"]: (line["status"], line["error_message"]) for line in lines}
    assert len(lines) == 12 and sorted(said) == list(range(12)) and said[10] == said[11] == ("passed", "")
    for place, (_, problem) in enumerate(wrong):
        assert said[place][0] == "unscored" and problem in said[place][1]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{", "body"),
        ({"tasks": []}, "attempts"),
        ({"tasks": {}, "attempts": []}, "tasks"),
        ({"tasks": [], "attempts": [], "limit": {}}, "limit"),
        ({"tasks": [], "attempts": [], "limits": {"wall": 1}}, "wall"),
        ({"tasks": [], "attempts": [], "limits": {"wall_seconds": -1}}, "wall_seconds"),
        (
            {"tasks": [], "attempts": [], "limits": {"wall_seconds": 61}},
            "limits.wall_seconds: 61.0 is more than this server allows: 60.0",
        ),
        ({"tasks": [], "attempts": [], "limits": {"memory_bytes": 1 << 40}}, str(4 << 30)),
        ({"tasks": [], "attempts": [], "repeats": 99}, "repeats"),
        ({"tasks": [], "attempts": [], "analyses": ["tarot"]}, "tarot"),
    ],
)
def test_a_body_that_does_not_do_is_refused_by_the_name_of_the_field(server, body, named):
    status, said, _ = server.ask("/verify", body)
    assert status == 422 and named in json.dumps(said)


def test_the_token_opens_and_health_needs_none(server):
    body = {"code": "print(1)", "language": "python"}
    for wrong in ("", "other", TOKEN + "x", TOKEN[:-1]):
        status, said, headers = server.ask("/run_code", body, token=wrong)
        assert (status, headers["www-authenticate"]) == (401, "Bearer") and "Authorization" in said["detail"]
    assert server.ask("/run_code", body)[0] == 200
    assert server.ask("/openapi.json", token="")[0] == 401
    for user, code in (
        (f"upsolve:{TOKEN}", 200),
        (f"{TOKEN}:", 401),
        ("upsolve:other", 401),
        (TOKEN, 401),
    ):  # as of http://user:word@host
        basic = base64.b64encode(user.encode()).decode()
        assert server.ask("/run_code", body, token="", Authorization=f"Basic {basic}")[0] == code, user
    assert server.ask("/run_code", body, token="", Authorization="Basic ???")[0] == 401
    status, said, _ = server.ask("/health", token="")
    assert status == 200 and said["judge"].startswith("upsolve-") and said["workers"] == 2 and "seccomp" in said["layers"]
    with pytest.raises(JudgeError, match="401.*token"):
        list(remote(server.url, "other").judged(attempts(1), SETTINGS))


@pytest.mark.slow
def test_it_does_not_start_where_it_may_not_or_cannot(server, tmp_path):
    (tmp_path / "empty").write_text("\n")
    for words, named in (
        (["--host", "0.0.0.0"], "needs a token"),
        (["--host", "::"], "needs a token"),
        (["--port", str(server.port)], "choose another"),
        (["--token-file", str(tmp_path / "none")], "none"),
        (["--token-file", str(tmp_path / "empty")], "is empty"),
        ([str(tmp_path)], "not both"),
    ):
        command = [sys.executable, "-m", "upsolve", "verify", "--serve", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 2 and named in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_extra_that_is_missing_is_named():
    words = ["upsolve", "verify", "--serve"]
    code = f"import sys; sys.modules['fastapi'] = None; sys.argv = {words}; from upsolve.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and "pip install 'upsolve[serve]'" in done.stderr


def test_too_much_is_refused(small):
    many = {"tasks": [], "attempts": [{}] * 41}
    status, said, _ = small.ask("/verify", many)
    assert status == 413 and "41 are more than a request may hold: 40" in said["detail"]
    status, said, _ = small.ask("/verify", b" " * 100_001)
    assert status == 413 and "100000" in said["detail"]
    assert small.ask("/verify", b" " * 5_000_000)[0] == 413
    head = b"POST /verify HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", small.port)) as line:
        line.sendall(head)
        assert line.recv(100).startswith(b"HTTP/1.1 411 ")
    long = [(TASK, Attempt("t", f"#{k}{' ' * 30_000}\ndef f(x):\n    return 2 * x")) for k in range(8)]
    verdicts = dict(remote(small.url).judged(long, SETTINGS))  # in halves, until they are taken
    assert sorted(verdicts) == list(range(8)) and {v.status.value for v in verdicts.values()} == {"passed"}


@pytest.mark.slow
def test_when_too_many_wait_the_next_come_back_later(small):
    hanging = [(TASK, replace(LOOP, code=f"{LOOP.code}#{k}")) for k in range(40)]
    line = opened(small, hanging, 0.15)
    status, _, headers = small.ask("/verify", {"tasks": [], "attempts": [{}] * 21})
    assert (status, headers["retry-after"]) == (429, "2")
    verdicts = dict(remote(small.url).judged(attempts(21), SETTINGS))
    assert len(verdicts) == 21 and small.ask("/health")[1]["waiting"] < 40
    line.close()


def opened(server, pairs, seconds, token=TOKEN):
    """Send a request and read only the beginning of its answer."""
    from upsolve.verify.service.client import body_of

    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    body = body_of(pairs, JudgeSettings(Limits(wall_seconds=seconds, cpu_seconds=5)))
    line.request("POST", "/verify", body, {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
    assert line.getresponse().status == 200
    return line


def wait_until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_requests_of_a_disconnected_client_are_dropped(server):
    hanging = [(TASK, replace(LOOP, code=f"{LOOP.code}# {k}")) for k in range(100)]
    line = opened(server, hanging, 20)
    assert server.ask("/health")[1]["waiting"] == 100
    line.sock.shutdown(socket.SHUT_RDWR)
    line.close()
    wait_until(lambda: server.ask("/health")[1]["waiting"] == 0)
    asker = http.client.HTTPConnection("127.0.0.1", server.port)
    asker.request(
        "POST",
        "/run_code",
        json.dumps({"code": "while 1: pass", "language": "python", "run_timeout": 50}),
        {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"},
    )
    wait_until(lambda: server.ask("/health")[1]["waiting"] == 1)
    asker.sock.shutdown(socket.SHUT_RDWR)
    asker.close()
    started = time.monotonic()
    assert len(dict(remote(server.url, TOKEN).judged(attempts(10, 500), SETTINGS))) == 10
    assert time.monotonic() - started < 60
    assert server.ask("/health")[1]["waiting"] == 0


def test_a_client_that_takes_nothing_is_let_go(tmp_path):
    short = "from upsolve.verify.service import auth_middleware, scheduler\nauth_middleware.STALL_SECONDS, scheduler.BEAT_SECONDS = 0.5, 0.2\n"
    wide = SMALL.replace("body_bytes=100_000, attempts=40, waiting=60", "attempts=30_000, waiting=30_000")
    server = Server(tmp_path, "-c", short + wide)
    bad = [{"task_id": "t", "code": "", "\u0001" * 80: 1}] * 19_999
    task = {"task_id": "t", "prompt": "", "tests": [{"kind": "call", "input": "f(2)", "expected": "4"}]}
    body = json.dumps(
        {"tasks": [task], "attempts": [*bad, {"task_id": "t", "code": LOOP.code}], "limits": {"wall_seconds": 30}}
    )
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # else the kernel takes megabytes for us
        line.connect(("127.0.0.1", server.port))
        head = f"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        line.sendall((head + body).encode())
        assert line.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: server.ask("/health")[1]["waiting"] == 0)
    assert server.stop() == 0 and "Traceback" not in server.log.read_text()


def run(server, code, language="python", **more):
    status, said, _ = server.ask("/run_code", {"code": code, "language": language, **more})
    assert status == 200, said
    return said


def test_a_program_is_run_as_sandbox_fusion_does(server):
    said = run(server, "import sys\nprint(input() * 2)\nprint('e', file=sys.stderr)", stdin="ab\n")
    assert said.pop("run_result").pop("execution_time") > 0
    assert said == {"status": "Success", "message": "", "compile_result": None, "executor_pod_name": None, "files": {}}
    said = run(server, "def f():\n    1 / 0\nprint(5)\nf()")
    result = said["run_result"]
    assert (said["status"], result["status"], result["return_code"], result["stdout"]) == ("Failed", "Finished", 1, "5\n")
    assert result["stderr"].startswith(
        'Traceback (most recent call last):\n  File "/tmp/main.py", line 4, in <module>\n    f()\n'
    )
    assert result["stderr"].endswith("ZeroDivisionError: division by zero\n")
    said = run(server, "import time\nprint(1, flush=True)\ntime.sleep(99)", run_timeout=1)
    result = said["run_result"]
    assert (said["status"], result["status"], result["return_code"], result["stdout"]) == (
        "Failed",
        "TimeLimitExceeded",
        None,
        "1\n",
    )
    assert run(server, "import sys\nsys.exit(3)")["run_result"]["return_code"] == 3
    assert run(server, "import os\nos.kill(os.getpid(), 9)")["run_result"]["return_code"] == -9
    said = run(server, "print('x' * 3_000_000)")
    assert len(said["run_result"]["stdout"]) == 1 << 20 and "cut" in said["message"]
    said = run(server, "x = bytearray(300 << 20)", memory_limit_MB=100)
    assert said["status"] == "Failed" and "MemoryError" in said["run_result"]["stderr"]


def test_files_go_in_and_come_out(server):
    data = base64.b64encode(bytes(range(256))).decode()
    code = "import helper\nopen('out.bin', 'wb').write(open('in/data.bin', 'rb').read() * helper.n)"
    files = {"in/data.bin": data, "helper.py": base64.b64encode(b"n = 2").decode(), "left_out": None}
    said = run(server, code, files=files, fetch_files=["out.bin", "none"])
    assert said["status"] == "Success" and list(said["files"]) == ["out.bin"]
    assert base64.b64decode(said["files"]["out.bin"]) == bytes(range(256)) * 2
    said = run(server, "cat in/data.bin > out.bin", "bash", files={"in/data.bin": data}, fetch_files=["out.bin"])
    assert said["files"] == {"out.bin": data}
    assert run(server, "import os\nprint(os.listdir())")["run_result"]["stdout"] == "['main.py']\n"
    said = run(server, "open('big', 'w').write('1' * 2_000_000)", fetch_files=["big", "main.py"])
    assert said["status"] == "Success" and "fetch_files: 'big'" in said["message"] and list(said["files"]) == ["main.py"]
    said = run(server, "open('full', 'w').write('1' * 1_000_000)", fetch_files=["full"])
    assert not said["message"] and len(base64.b64decode(said["files"]["full"])) == 1_000_000


@pytest.mark.parametrize(
    ("language", "tool", "right", "broken"),
    [
        ("bash", "bash", "read x; echo $((x * 2)); exit 4", "if"),
        ("perl", "perl", "print 2 * <STDIN>, qq(\\n); exit 4", "sub {"),
        (
            "cpp",
            "g++",
            "#include <iostream>\nint main() { int x; std::cin >> x; std::cout << 2 * x << '\\n'; return 4; }",
            "int main( {",
        ),
        (
            "c",
            "gcc",
            '#include <stdio.h>\nint main() { int x; scanf("%d", &x); printf("%d\\n", 2 * x); return 4; }',
            "int main( {",
        ),
    ],
)
def test_other_languages_are_built_and_run(server, language, tool, right, broken):
    if not shutil.which(tool, path="/usr/local/bin:/usr/bin:/bin"):
        pytest.skip(f"no {tool} here")
    built = language in ("c", "cpp")
    said = run(server, right, language, stdin="21\n")
    assert (said["run_result"]["return_code"], said["run_result"]["stdout"], said["status"]) == (4, "42\n", "Failed")
    assert (said["compile_result"] or {}).get("return_code") == (0 if built else None)
    said = run(server, broken, language)
    result = said["compile_result" if built else "run_result"]
    assert said["status"] == "Failed" and result["return_code"] not in (0, None) and result["stderr"]
    assert said["run_result"] is None or not built


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"language": "cuda"}, "unknown language 'cuda'"),
        ({"run_timeout": 61}, "run_timeout: 61.0 is more than this server allows: 60.0"),
        ({"compile_timeout": 61}, "compile_timeout"),
        ({"memory_limit_MB": 1 << 20}, "memory_limit_MB"),
        ({"run_timeout": 0}, "run_timeout"),
        ({"args": ["-k"]}, "args"),
        ({"files": {"/etc/x": ""}}, "/etc/x"),
        ({"files": {"../x": ""}}, "../x"),
        ({"files": {"x": "*"}}, "base64"),
        ({"fetch_files": ["/etc/passwd"]}, "fetch_files"),
        ({"code": None}, "code"),
        ({"gpu": 1}, "gpu"),
    ],
)
def test_what_run_code_cannot_do_is_refused(server, change, named):
    status, said, _ = server.ask("/run_code", {"code": "", "language": "python", **change})
    assert status == 422 and named in json.dumps(said)


def test_a_client_that_leaves_within_its_request_is_no_error_of_the_server(server):
    head = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 10\r\n\r\n"
    for path in ("/verify", "/run_code"):
        with socket.create_connection(("127.0.0.1", server.port)) as line:
            line.sendall(f"POST {path} HTTP/1.1\r\n{head}".encode())
            time.sleep(0.2)  # the server waits for the body
    assert server.ask("/health")[0] == 200
    time.sleep(0.2)
    assert not server.log.read_text()


class CutProxy:
    """Passes connections on to a server, and cuts the first few off after so many bytes of their answers."""

    def __init__(self, port, cuts):
        self.listener, self.target, self.cuts, self.seen = socket.create_server(("127.0.0.1", 0)), port, list(cuts), 0
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                theirs, _ = self.listener.accept()
                self.seen += 1
                threading.Thread(
                    target=self.serve, args=(theirs, self.cuts.pop(0) if self.cuts else 1 << 40), daemon=True
                ).start()

    def serve(self, theirs, left):
        with theirs, socket.create_connection(("127.0.0.1", self.target)) as ours:
            threading.Thread(target=self.copy, args=(theirs, ours), daemon=True).start()
            while left > 0 and (data := ours.recv(min(4096, left))):
                theirs.sendall(data)
                left -= len(data)
            for line in (theirs, ours):
                with contextlib.suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def copy(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)


def test_a_client_whose_connection_is_cut_loses_and_doubles_nothing(server):
    proxy = CutProxy(server.port, [0, 50, 7001])
    pairs = attempts(60, 1000)
    found = list(remote(f"http://127.0.0.1:{proxy.port}", TOKEN).judged(pairs, SETTINGS))
    proxy.listener.shutdown(socket.SHUT_RDWR)
    proxy.listener.close()
    assert sorted(place for place, _ in found) == list(range(60)) and proxy.seen == 4
    assert all(verdict.attempt_id == pairs[place][1].attempt_id for place, verdict in found)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    gone = remote(f"http://127.0.0.1:{free}", TOKEN, patience_seconds=0.5)
    with pytest.raises(JudgeError, match="3 attempts have no verdict"):
        list(gone.judged(pairs[:3], SETTINGS))


def read(path):
    try:
        return Path(path).read_text()
    except OSError:  # it has ended
        return ""


def children(pid):
    return [int(child) for task in Path(f"/proc/{pid}/task").glob("*") for child in read(task / "children").split()]


def all_below(pid):
    return [one for child in children(pid) for one in (child, *all_below(child))]


def workers_of(pid):
    return [child for child in children(pid) if "verify.pool.rpc" in read(f"/proc/{child}/cmdline")]


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopped_server_leaves_nothing_behind(tmp_path, number):
    server = Server(tmp_path)
    line = opened(server, [(TASK, replace(LOOP, code=f"{LOOP.code}#{k}")) for k in range(50)], 30)
    wait_until(lambda: len(all_below(server.process.pid)) >= 6)  # two workers, their sandboxes, what hangs in these
    left, started = all_below(server.process.pid), time.monotonic()
    assert server.stop(number) == 0 and time.monotonic() - started < 30
    line.close()
    wait_until(lambda: not [pid for pid in left if Path(f"/proc/{pid}").exists()])
    assert not server.log.read_text()


@pytest.mark.slow
def test_many_clients_with_a_tenth_hanging_lose_and_double_nothing(server):
    limits = Limits(wall_seconds=0.2, cpu_seconds=1)
    fast = JudgeSettings(limits)

    def client(number):
        pairs = [
            (TASK, replace(LOOP, code=f"{LOOP.code}#{number} {k}")) if k % 10 == 0 else attempts(1, 10_000 * number + k)[0]
            for k in range(150)
        ]
        return list(remote(server.url, TOKEN).judged(pairs, fast))

    waits, most = [], 0
    with ThreadPoolExecutor(4) as threads:
        clients = [threads.submit(client, number) for number in range(1, 5)]
        while not all(done.done() for done in clients):
            started = time.monotonic()
            assert run(server, "print(1)")["run_result"]["stdout"] == "1\n"
            waits.append(time.monotonic() - started)
            most = max(most, len(workers_of(server.process.pid)))
            time.sleep(0.2)
    for number, done in enumerate(clients, start=1):
        found = done.result()
        assert sorted(place for place, _ in found) == list(range(150))
        status = {place: verdict.status.value for place, verdict in found}
        assert all(status[k] == "timeout" for k in range(0, 150, 10))
        right = [status[k] == ("failed" if (10_000 * number + k) % 3 == 0 else "passed") for k in range(150) if k % 10]
        assert sum(right) >= 0.95 * len(right)  # on a busy machine, 0.2 s may be too short for some
    assert max(waits) < 8 and most == 2


def test_connections_that_send_nothing_keep_nobody_out(server):
    """Without a token anybody can open connections; they must cost those with a token nothing."""
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(600)]
    try:
        for line in idle[:50]:
            with contextlib.suppress(OSError):
                line.sendall(b"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        assert server.ask("/health")[0] == 200
        assert {v.status.value for _, v in remote(server.url, TOKEN, patience_seconds=30).judged(attempts(2))} == {
            "failed",
            "passed",
        }
    finally:
        for line in idle:
            line.close()


class Redirect(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list] = []

    def do_POST(self):
        self.asked.append((self.path, self.headers.get("Authorization")))
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(302)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST


def test_a_token_is_not_sent_on_by_a_redirect():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        with pytest.raises(JudgeError, match="redirects to /elsewhere"):
            list(remote(f"http://127.0.0.1:{other.server_port}", TOKEN, patience_seconds=2).judged(attempts(1)))
        other.shutdown()
        thread.join()
    assert Redirect.asked == [("/verify", f"Bearer {TOKEN}")]

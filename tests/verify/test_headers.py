"""Headers read once for all programs are used inside the sandbox, and their absence changes nothing but the time."""

import shutil

import pytest

from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.languages import languages
from upsolve.verify.languages.headers import make_headers
from upsolve.verify.sandbox.packages import headers_folder
from upsolve.verify.sandbox.runner import forget_server

CODE = '#include <bits/stdc++.h>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << "\\n"; }\n'


@pytest.mark.slow
@pytest.mark.skipif(bool(languages()["cpp"].missing()), reason="no g++ here")
def test_a_compiler_takes_the_header_that_was_made(monkeypatch, tmp_path):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    task = Task("t", "", (TestCase(TestKind.STDIO, "1 2\n", "3\n"),), language="cpp")
    for made in (False, True):
        if made:
            assert make_headers() == [headers_folder() / "bits/stdc++.h.gch"]
            (headers_folder() / "mine.h").write_text("#define MINE 3\n", encoding="utf-8")
        forget_server("any")
        assert judge(task, Attempt("t", CODE, "cpp")).status is Status.PASSED
        found = judge(
            task, Attempt("t", '#include <cstdio>\n#include <mine.h>\nint main() { std::printf("%d", MINE); }\n', "cpp")
        )
        assert found.status is (Status.PASSED if made else Status.COMPILE_ERROR)
    forget_server("any")
    shutil.rmtree(tmp_path)

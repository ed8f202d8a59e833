"""Tasks that require packages: attempts find them read-only; where one is missing, nobody is judged."""

import re
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from upsolve.archive.store import Archive
from upsolve.cli.judging import judge_archive
from upsolve.config import VerifyConfig
from upsolve.errors import ConfigError
from upsolve.languages import packages_folder
from upsolve.types import Attempt, Status, Task, TestCase, TestKind
from upsolve.verify.judge.plans import judge
from upsolve.verify.limits import judge_settings
from upsolve.verify.pool.pool import dismiss, verify
from upsolve.verify.sandbox.runner import forget_server

CALL, CODE, STDIO = TestKind.CALL, TestKind.CODE, TestKind.STDIO


@pytest.fixture(scope="module")
def numpy_installed(tmp_path_factory):
    """The numpy of this environment where ``upsolve packages numpy`` would put it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("UPSOLVE_PACKAGES", str(tmp_path_factory.mktemp("packages")))
    source = Path(find_spec("numpy").origin).parent
    for folder in source.parent.glob("numpy*"):
        if folder.name in ("numpy", "numpy.libs"):
            shutil.copytree(folder, packages_folder() / folder.name, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    dismiss()  # workers that have another folder
    yield
    dismiss()
    forget_server("python:numpy")
    patch.undo()


def task(*tests, requires=("numpy",)):
    return Task("t", "", tuple(TestCase(*test) for test in tests), "f", requires=requires)


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ([(CALL, "f([1, 2, 3])", "2.0")], "import numpy as np\ndef f(x):\n    return np.mean(x)\n"),
        ([(CALL, "f(3)", "[0, 1, 4]")], "import numpy as np\ndef f(n):\n    return [x for x in np.arange(n) ** 2]\n"),
        ([(CALL, "f(2)", "True")], "import numpy as np\ndef f(n):\n    return np.bool_(n == 2)\n"),
        ([(CALL, "f()", "4")], "import numpy as np\ndef f():\n    return np.int64(4)\n"),
        ([(STDIO, "1 2\n3 4\n", "10\n")], "import sys, numpy as np\nprint(np.loadtxt(sys.stdin, dtype=int).sum())\n"),
        (
            [(CODE, "import numpy as np\nassert np.allclose(f(2), np.eye(2))")],
            "import numpy as np\ndef f(n):\n    return np.eye(n)\n",
        ),
        (
            [(CODE, "import numpy as np\nx = np.zeros(3)\nf(x)\nassert (x == [0, 1, 2]).all()")],
            "import numpy as np\ndef f(x):\n    x[:] = np.arange(3)\n",
        ),
        (
            [
                (
                    CODE,
                    "import numpy as np\nx = f(2)\nassert isinstance(x, np.floating) and x.dtype == np.float32 and x.ndim == 0 and x == 0.5",
                )
            ],
            "import numpy as np\ndef f(n):\n    return np.float32(1) / n\n",
        ),
        (
            [
                (
                    CODE,
                    "import numpy as np\nassert f(np.int16(3)) == 'int16' and f(np.str_('a')) == '<U1' and f(np.datetime64('2024-01-31')) == '<M8[D]'",
                )
            ],
            "def f(x):\n    return x.dtype.name if x.dtype.kind == 'i' else x.dtype.str\n",
        ),
        (
            [
                (
                    CODE,
                    "import numpy as np\nassert (f(['b', 'a']) == np.array(['a', 'b'])).all()\nassert f(['2024-02-01'])[0] == '2024-02-01'",
                )
            ],
            "import numpy as np\ndef f(x):\n    return np.sort(np.array(x))\n",
        ),
        (
            [
                (
                    CODE,
                    "import numpy as np\nx = np.array([[1], 'a'], dtype=object)\ny = f(x)\nassert y is x and x.tolist() == [[1, 2], None]",
                ),
                (
                    CODE,
                    "import numpy as np\nassert (f(np.array([[], 2 ** 70], dtype=object)) == np.array([[2], None], dtype=object)).all()",
                ),
            ],
            "def f(x):\n    x[0].append(2)\n    x[1] = None\n    return x\n",
        ),
        (
            [(CALL, "f('a')", "['a', 1, 0.5, True]")],
            "import numpy as np\ndef f(x):\n    return [np.str_(x), np.uint8(1), np.float64(0.5), np.bool_(True)]\n",
        ),
        (
            [(CALL, "f(200)", "200")],
            "import numpy as np\ndef f(n):\n    a = np.random.default_rng(0).random((n, n))\n    return np.linalg.matrix_rank(a @ a)\n",
        ),
    ],
)
@pytest.mark.usefixtures("numpy_installed")
def test_numpy_is_there_where_a_task_requires_it(tests, code):
    verdict = judge(task(*tests), Attempt("t", code))
    assert verdict.status is Status.PASSED, verdict


@pytest.mark.usefixtures("numpy_installed")
def test_packages_cannot_be_written():
    code = (
        "import numpy, os\ndef f():\n    found = []\n    for name in (numpy.__file__, os.path.dirname(numpy.__file__) + '/new'):\n"
        "        try: open(name, 'w').close()\n        except OSError: found.append(True)\n    return found\n"
    )
    verdict = judge(task((CALL, "f()", "[True, True]")), Attempt("t", code))
    assert verdict.status is Status.PASSED, verdict


def test_a_missing_package_is_not_the_attempts_fault(monkeypatch, tmp_path):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    verdict = judge(task((CALL, "f()", "1")), Attempt("t", "import numpy\ndef f():\n    return 1\n"))
    assert verdict.status is Status.UNSCORED
    assert "requires numpy: run `upsolve packages numpy`" in verdict.error_message


def test_a_package_that_the_task_does_not_name_is_the_attempts_own():
    verdict = judge(task((CALL, "f()", "1"), requires=()), Attempt("t", "import numpy\ndef f():\n    return 1\n"))
    assert (verdict.status, verdict.error_type) == (Status.RUNTIME_ERROR, "ModuleNotFoundError")
    assert "numpy" in verdict.error_message


@pytest.mark.usefixtures("numpy_installed")
def test_packages_of_the_settings_are_there_for_all_attempts(tmp_path):
    code = "import numpy\nprint(int(numpy.sum(2)))\n"
    settings = judge_settings(VerifyConfig(packages=("numpy",), cache=False))
    judged = [judge(task((STDIO, "", "2"), requires=names), Attempt("t", code), settings) for names in ((), ("numpy",))]
    assert [verdict.status for verdict in judged] == [Status.PASSED] * 2, judged
    other = Attempt("t", "echo 2", language="bash")
    assert judge(task((STDIO, "", "2"), requires=()), other, settings).status is Status.PASSED
    with_cache = replace(settings, cache=tmp_path / "verdicts.sqlite")
    pair = (task((STDIO, "", "2"), requires=()), Attempt("t", code))
    found = [verify([pair], one)[0].status for one in (replace(with_cache, packages=()), with_cache, with_cache)]
    assert found == [Status.RUNTIME_ERROR, Status.PASSED, Status.PASSED]


def test_packages_of_the_settings_that_are_missing_are_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    with pytest.raises(ConfigError, match=r"verify\.packages: not installed for attempts: numpy; run `upsolve packages numpy`"):
        judge_settings(VerifyConfig(packages=("numpy",)))
    assert judge_settings(VerifyConfig(packages=("numpy",), executor="ray")).packages == ("numpy",)


def test_what_attempts_import_in_vain_is_listed(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path / "packages"))
    store = Archive.create(tmp_path / "archive")
    codes = ("import numpy.linalg\n", "from scipy import stats\n", "import numpy\n", "print(2)\n", "import queue, Queue2.x\n")
    store.append(tasks=[task((STDIO, "", "2"), requires=())], attempts=[Attempt("t", code) for code in codes])
    judge_archive(str(store.path), judge_settings(VerifyConfig(cache=False)), everything=False, check=False, as_json=False)
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"failed to import: numpy \(2\), (scipy|Queue2) \(1\), (scipy|Queue2) \(1\)\.", said)
    assert "`upsolve packages numpy" in said and "`--packages numpy," in said and "--all` next: " in said


def test_a_package_that_cannot_be_loaded_leaves_attempts_unscored(monkeypatch, tmp_path):
    monkeypatch.setenv("UPSOLVE_PACKAGES", str(tmp_path))
    packages_folder().mkdir(parents=True)
    (packages_folder() / "broken_one.py").write_text("1 / 0\n", encoding="utf-8")
    verdict = judge(task((CALL, "f()", "1"), requires=("broken_one",)), Attempt("t", "def f():\n    return 1\n"))
    assert verdict.status is Status.UNSCORED and "cannot import broken_one" in verdict.error_message


def test_results_of_many_megabytes_are_read():
    text = "x" * 4_000_000
    verdict = judge(
        task(*((CALL, f"f({n})", repr(text)) for n in range(3)), requires=()),
        Attempt("t", "def f(n):\n    return 'x' * 4_000_000\n"),
    )
    assert verdict.status is Status.PASSED, verdict.error_message[:200]

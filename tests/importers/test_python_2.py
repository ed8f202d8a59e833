"""A word that says Python 2 is never dropped: such programs are not judged as Python 3."""

import json

import pytest

from upsolve.importers.benchmarks.nbgrader import cells_of
from upsolve.languages.names import language_in

WORDS = ["GNU Python 2", "Python (PyPy 2)", "Python (PyPy 2.7)", "Python, version 2", "Python [2.7]", "Python/2", "python.2"]


@pytest.mark.parametrize("word", [*WORDS, "PYTH 2.7", "py27", "PyPy v2.7"])
def test_words_for_python_2(word):
    assert language_in(word) == "python2"


@pytest.mark.parametrize(
    "word", ["Python 3.2", "Python (PyPy 3.2)", "PyPy3 (2.4.0)", "Python 3 (PyPy 2.4)", "python:3.12", "py"]
)
def test_words_for_python_3(word):
    assert language_in(word) == "python"


@pytest.mark.parametrize(
    "about",
    [
        {"kernelspec": {"name": "python2", "language": "python", "display_name": "Python 2"}},
        {"kernelspec": {"name": "course"}, "language_info": {"name": "python", "version": "2.7.18"}},
    ],
)
def test_a_notebook_in_python_2_is_refused(tmp_path, about):
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": [], "metadata": about}))
    with pytest.raises(ValueError, match="the notebook is in Python 2, not in Python 3"):
        cells_of(tmp_path / "a.ipynb")
    (tmp_path / "b.ipynb").write_text(json.dumps({"cells": [], "metadata": {"language_info": {"version": "3.12.1"}}}))
    assert cells_of(tmp_path / "b.ipynb") == []

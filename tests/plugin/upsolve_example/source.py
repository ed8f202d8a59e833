"""Read lines `name|a b|result|language|program`: a task that adds, and an attempt at it."""

from upsolve.importers.rows import BadRow
from upsolve.importers.source import Option, Source
from upsolve.types import Attempt, Task, TestCase, TestKind


def read(path, *, author="student"):
    seen = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.count("|") != 4:
            yield BadRow(str(path), number, "five fields, separated by |, are wanted", line[:500])
            continue
        name, given, wanted, language, code = line.split("|")
        test = TestCase(TestKind.STDIO, given + "\n", wanted + "\n")
        if name not in seen:
            yield Task(f"sums/{name}", f"Sum{name}: read{name} two{name} numbers.", (test,), language="", source="sums")
            seen.add(name)
        yield Attempt(f"sums/{name}", code.replace("\\n", "\n"), language, author)


SUMS = Source(read, path="a file of lines `name|a b|result|language|program`", options=(Option("author", str, "who tried"),))
